"""Family, the description of a family of checkpoints, and what all families have in common."""

from fnmatch import fnmatchcase
from typing import Callable, NamedTuple

from ..layers import FeedForward
from ..models import MaskedLanguageModel
from .unsupported import head_of

ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu_fast": "gelu_tanh",
               "relu": "relu", "silu": "silu", "swish": "silu"}
GATED = {"gelu": "geglu", "gelu_tanh": "geglu_tanh", "relu": "reglu", "silu": "swiglu"}
HEAD_ACTIVATIONS = {"distilbert": "relu", "modernbert": "gelu"}     # after the hidden layer of a classifier; tanh in the others
OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}     # TensorFlow's, before 2020


class Family(NamedTuple):
    """A family of models: how to read its config.json and the names of its arrays.

    Fields:
        names : (config) -> table of names of all parts but the head
        settings : (config, names of the stored arrays) -> options of our class, without those of the head
        heads : {architecture: (our class, table of names, (config) -> options of the head)}
        base : the architecture without a head
        prefix : what the names of all parts but the head begin with, except in files of the base
        fixed : {option of config.json: the only value for which our model is the same}
        copies : {name of an array: the name of another one that must be equal}; the second one is loaded
        constants : patterns of the names of arrays that are not weights, such as masks; they are not loaded
        kept : patterns of the names of weights that our model does not use, but that another model of the family uses;
            they are kept, so that they can be saved again
        build : (our class, options, rng) -> model. It makes the parts that differ from those that our class makes by
            itself, and hands them in
    """
    names: Callable
    settings: Callable
    heads: dict
    base: str
    prefix: str = ""
    fixed: dict = {}
    copies: dict = {}
    constants: tuple = ()
    kept: tuple = ()
    build: Callable = lambda model_class, options, rng: model_class(**options, rng=rng)

    def head(self, config, stored):
        """Returns (our class, table of names, function of options) of the head that config.json names; those of the model
        without a head if the files have no array of the head.

        Raises: ValueError for a head that we do not have.
        """
        architecture = (config.get("architectures") or [self.unnamed_head(stored)])[0]
        if architecture not in self.heads:
            what = head_of(architecture)
            raise ValueError(f"config.json names the architecture {architecture!r}{f', {what}' if what else ''}, which this "
                             f"package does not build; save the model with transformers as one of {', '.join(self.heads)}")
        return self.heads[self.base if self.is_headless(architecture, stored) else architecture]

    def is_headless(self, architecture, stored):
        """Returns True if none of the stored arrays belongs to the head alone, where a model without it is another class."""
        model_class, table, _ = self.heads[architecture]
        own = [line.split()[0] for line in table.splitlines() if line.strip()]
        own = [name for name in own if not matches(f"{name}.weight", self.kept)]
        has_one = any(name.startswith(f"{part}.") for name in stored for part in own)
        return bool(stored) and bool(own) and self.heads[self.base][0] is not model_class and not has_one

    def unnamed_head(self, stored):
        """Returns the architecture of a checkpoint whose config.json names none: a masked language model if it has the
        bias of its output, else the first in `heads`.
        """
        for architecture, (model_class, table, _) in self.heads.items():
            if model_class is MaskedLanguageModel and f"{table.split()[-2]}.bias" in stored:
                return architecture
        return next(iter(self.heads))

    def table(self, config, architecture):
        """Returns the table of names of all parts of an architecture."""
        return self.names(config) + self.heads[architecture][1]

    def canonical(self, name, known):
        """Returns the name of an array in our tables: with the prefix, and with the newer one of two names."""
        for old, new in OLD_NAMES.items():
            name = name.replace(old, new)
        for full in (name, self.prefix + name):
            if full in known or full in self.copies or matches(full, self.constants + self.kept):
                return full
        return name

    def published(self, name, architecture):
        """Returns the name that an array has in a file of this architecture: one without a head has no prefix."""
        return name.removeprefix(self.prefix) if architecture == self.base else name


def matches(name, patterns):
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def activation(name, gated=False):
    """Returns our name of the activation function that config.json names.

    Raises: ValueError for one that we do not have.
    """
    if name not in ACTIVATIONS:
        raise ValueError(f"config.json names the activation {name!r}; this package supports {', '.join(ACTIVATIONS)}")
    return GATED[ACTIVATIONS[name]] if gated else ACTIVATIONS[name]


def build_with_ff_dropout(model_class, options, rng):
    """Returns a TextEncoder or a CausalLanguageModel whose feed-forward layers have a dropout of their own."""
    options = dict(options)
    p = options.pop("ff_dropout")
    model = model_class(**options, rng=rng)
    for _, part in model.named_modules():
        if isinstance(part, FeedForward):
            part.dropout.p = p
    return model


def no_head(config):
    """Returns the options of a head that has none."""
    return {}


def num_labels(config):
    """Returns the number of classes. config.json lists their names, but may leave them out if there are two."""
    return len(config["id2label"]) if config.get("id2label") else config.get("num_labels", 2)
