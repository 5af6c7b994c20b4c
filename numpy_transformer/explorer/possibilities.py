"""What can be switched off in a model, and which bugs of the zoo can be planted in it."""

import copy

import numpy as np

from ..inspection import record
from ..layers import FlashAttention, MultiHeadAttention, ScaledDotProductAttention, UnscaledAttention
from ..layers.blocks import Block, CrossBlock
from ..module import Module
from ..texts import texts_of
from .naming import spoken
from .wording import sentence

LARGEST_TRIED = 100_000                         # parameters of a model in which every bug is tried before it is offered


def possibilities(example):
    """Returns {"can": ..., "bugs": ...} of FORMAT.md for the model and the default text of an Example.

    They are found once, and kept with the example.
    """
    if "possibilities" not in vars(example):
        example.possibilities = {"can": switchable(example), "bugs": [bug_entry(*found) for found in tried_bugs(example)]}
    return example.possibilities


def switchable(example):
    """Returns the parts that can be switched off, by what they are."""
    model = example.model
    parts = model.named_modules() if isinstance(model, Module) else []
    attentions = [(name, part) for name, part in parts if isinstance(part, MultiHeadAttention)]
    blocks = [(name, part) for name, part in parts if isinstance(part, Block)]
    masked = masked_attentions(example, attentions)
    return {"models": [{"name": name, "title": variant_title(name)} for name in example.variants],
            "heads": [{"group": name, "title": title_of(name), "count": part.num_heads} for name, part in attentions],
            "blocks": [{"group": name, "title": title_of(name)} for name, _ in blocks],
            "masks": [{"group": name, "title": title_of(name)} for name, part in attentions if name in masked],
            "scales": [{"group": name, "title": title_of(name)} for name, part in attentions
                       if isinstance(part.attention, (ScaledDotProductAttention, FlashAttention))
                       and not isinstance(part.attention, UnscaledAttention)],
            "residuals": [{"group": name, "sublayer": sublayer, "title": f"{title_of(name)}, {spoken(spaced(sublayer))}"}
                          for name, part in blocks for sublayer in sublayers_of(part)]}


def variant_title(name):
    if name.endswith("-norm"):
        return sentence(f"step.variant.{name}")
    return sentence("step.variant.decoder") if name == "decoder" else sentence("step.variant.architecture", name=name)


def masked_attentions(example, attentions):
    """Returns the names of the attentions in which a mask hides something of the default text."""
    inputs, _, _ = example.read()
    with record(example.model.eval()) as tape:
        example.model(*inputs)
    names = {name for name, part in attentions if isinstance(part.attention, FlashAttention) and part.attention.causal}
    for call in tape.calls:
        mask = call.named.get("mask", call.inputs[3] if len(call.inputs) > 3 else None)
        if call.name.endswith(".attention") and isinstance(mask, np.ndarray) and not mask.all():
            names.add(call.name.removesuffix(".attention"))
    return names


def sublayers_of(block):
    """Returns the names of the sublayers of a block, in forward's order."""
    cross = ["cross_attention"] if isinstance(block, CrossBlock) else []
    return ["attention", *cross, "feed_forward"]


def title_of(name):
    """Returns the name of a part in words: "decoder block 0, cross-attention"."""
    words = []
    for part in name.split("."):
        if part.isdigit():
            words[-1] = f"block {part}" if words[-1] == "blocks" else f"{words[-1]} {part}"
        else:
            words.append({"attention": "self-attention"}.get(part, spaced(part)))
    if "block" in " ".join(words) and words[0] in ("encoder", "decoder"):
        words[:2] = [" ".join(words[:2])]
    return spoken(", ".join(words))


def spaced(name):
    return {"cross_attention": "cross-attention", "feed_forward": "feed-forward"}.get(name, name)


def bugs_of(model, criterion):
    """Returns {name: (Bug, the model or the criterion)} of the bugs whose class is in one of them.

    Mistakes in optimizers, and those that only affect decoding, do not show in a single training step.
    """
    from .. import zoo  # it loads the checks, which the explorer needs for nothing else

    places = [(place, {type(part) for _, part in place.named_modules()}) for place in (model, criterion)
              if isinstance(place, Module)]
    bugs_by_name = {}
    for bug in zoo.bugs():
        for place, classes in places:
            if any(issubclass(cls, bug.target) for cls in classes):
                bugs_by_name.setdefault(bug.name, (bug, place))
    return bugs_by_name


def tried_bugs(example):
    """Returns the bugs that can run in the example's model and that change its step, each with its effect if it was tried."""
    model, criterion = copy.deepcopy((example.model, example.criterion))
    bugs = bugs_of(model, criterion)
    if not isinstance(model, Module) or model.num_parameters() > LARGEST_TRIED:
        return [(bug, {}) for bug, _ in bugs.values()]
    trial = Trial(model, criterion, *example.read()[:2])
    right = trial.step()
    tried = [(bug, trial.step_with(bug, place)) for bug, place in bugs.values()]
    return [(bug, effect_of(right, wrong)) for bug, wrong in tried if changes_something(right, wrong)]


class Trial:
    """A step that is tried with one bug after another: the classes of the parts are put back each time."""

    def __init__(self, model, criterion, inputs, targets):
        self.model, self.criterion = model.astype(np.float64).eval(remember=True), criterion.eval(remember=True)
        self.inputs, self.targets = inputs, targets
        self.parts = [part for place in (model, criterion) for _, part in place.named_modules()]
        self.parameters = model.parameters()

    def step(self):
        """Returns the loss and the gradients of a step, as a list of arrays."""
        for part in self.parts:
            part.__dict__.pop("_saved", None)
        for parameter in self.parameters:
            parameter.grad = 0
        with np.errstate(all="ignore"):
            loss = self.criterion(self.model(*self.inputs), self.targets)
            self.model.backward(self.criterion.backward())
        return [np.asarray(loss), *(parameter.grad.copy() for parameter in self.parameters)]

    def step_with(self, bug, place):
        """Returns what `step` returns with a bug in the model or in the criterion; None if it stops."""
        from .. import zoo

        classes = [type(part) for part in self.parts]
        zoo.apply(bug, place)
        try:
            return self.step()
        except (ValueError, IndexError, TypeError, RuntimeError, OverflowError):
            return None
        finally:
            for part, cls in zip(self.parts, classes):
                part.__class__ = cls
                part.build_tables(np.float64)


def changes_something(right, wrong):
    """Returns True if a step that does not stop, and has a finite loss, has other numbers than the right one."""
    if wrong is None or not np.isfinite(wrong[0]):
        return False
    return not all(np.allclose(a, b, rtol=1e-9, atol=1e-15) for a, b in zip(right, wrong))


def effect_of(right, wrong):
    """Returns what a bug does to a step: the loss with it, how far it moves, and the largest relative change of a weight's gradient."""
    changes = [np.linalg.norm(b - a) / norm for a, b in zip(right[1:], wrong[1:]) if (norm := np.linalg.norm(a)) > 0]
    return {"loss": float(wrong[0]), "change": float(wrong[0] - right[0]), "gradients": float(max(changes, default=0.0))}


def bug_entry(bug, effect):
    """Returns an entry of "bugs". The zoo has its English itself; zoo.ini of a language has title and symptom by name."""
    texts = {"title": bug.title, "symptom": bug.symptom, **texts_of("zoo").get(bug.name, {})}
    return {"name": bug.name, "title": texts["title"], "symptom": texts["symptom"], "topic": bug.topic, **effect}
