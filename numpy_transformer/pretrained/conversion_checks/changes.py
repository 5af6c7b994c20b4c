"""A change undoes, or does, one mistake of a conversion: it is made in a loaded model for a moment, and taken back."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...layers.blocks import Block
from ...layers.embedding import Embedding
from ...layers.feed_forward import FeedForward, SwiGLU
from ...layers.multi_head import MultiHeadAttention
from ...layers.normalization import LayerNorm, RMSNorm
from ...layers.positions import LearnedPositionalEmbedding
from ...layers.relative_bias import RelativePositionBias
from ...models.stacks import Stack
from ...module import Module, Parameter

ABSENT = object()


@dataclass(frozen=True)
class Note:
    """What weights or settings show without a text; str() is the sentence.

    Parameters:
        sentence : str
        spoiled : tuple of names of the weights that certainly hold wrong values
    """

    sentence: str
    spoiled: tuple = ()

    def __str__(self):
        return self.sentence


def kind_of(name):
    """Returns the name of a parameter or module with * for the numbers of blocks."""
    return ".".join("*" if part.isdecimal() else part for part in name.split("."))


@dataclass(frozen=True)
class Change:
    """One change of a model, and the sentence about it: "With {done} the loss falls from 7.9 to 2.1: {verdict}."

    Parameters:
        topic : str, the kind of mistake, such as "rotary pairing"; the report has one line for each topic
        done : str, what the change does, such as "q and k paired by halves"
        verdict : str, what is wrong with the model if its loss falls, such as "the rotary convention is wrong"
        edits : function that returns a list of (object, attribute, new value)
        rare : bool (False); True for a change that is tried only if there is time, after all others
        tempers : bool (False); True for a change that only multiplies the logits
        generic : bool (False); True for a change that does not restore the right model, but shows which part spoils it
        mirrors : bool (False); True for a change with which a model also reads a text that is written backwards
    """

    topic: str
    done: str
    verdict: str
    edits: Callable
    rare: bool = False
    tempers: bool = False
    generic: bool = False
    mirrors: bool = False

    def touched(self):
        """Returns the set of id of the Parameters that the change replaces, or whose module it changes."""
        found = set()
        for owner, name, _ in self.edits():
            value = getattr(owner, name, None)
            if isinstance(value, Parameter):
                found.add(id(value))
                continue
            modules = [value] if isinstance(value, Module) else [owner]
            if isinstance(value, list):
                modules = value
            found |= {id(parameter) for module in modules for parameter in module.parameters()}
        return found

    def made(self):
        """Returns a context manager: inside the block, the model is changed."""
        return edited(self.edits())


@contextlib.contextmanager
def edited(edits):
    """Sets attributes inside the block, and puts the old objects back at its end: the model is exactly as before.

    Parameters: edits : list of (object, attribute, new value)
    """
    before = [(owner, name, now(owner, name)) for owner, name, _ in edits]
    try:
        for owner, name, value in edits:
            if isinstance(value, Module):
                value.eval()
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in reversed(before):
            if value is ABSENT:
                vars(owner).pop(name, None)
            else:
                setattr(owner, name, value)


def now(owner, name):
    """Returns what an attribute, or a property that can be set, is; ABSENT where the class has it."""
    if isinstance(getattr(type(owner), name, None), property):
        return getattr(owner, name)
    return vars(owner).get(name, ABSENT)


class Parts:
    """The parts of a model that conversions get wrong, as lists. Experts and latent attention are only left out as a whole.

    Attributes:
        stacks, blocks, attentions, feed_forwards, norms, embeddings, position_tables, relative : lists of modules
        groups : list of (where, attentions): all attentions with "" first, then those of each stack and of
            cross-attention, if there are several kinds
    """

    def __init__(self, model):
        self.model = model
        self.modules = [module for _, module in model.named_modules()]
        self.stacks = self.all_of(Stack)
        self.blocks = self.all_of(Block)
        self.attentions = self.all_of(MultiHeadAttention)
        self.feed_forwards = [block.feed_forward for block in self.blocks
                              if isinstance(block.feed_forward, (FeedForward, SwiGLU))]
        self.norms = self.all_of((LayerNorm, RMSNorm))
        self.embeddings = self.all_of(Embedding)
        self.position_tables = self.all_of(LearnedPositionalEmbedding)
        self.relative = self.all_of(RelativePositionBias)
        self.groups = [("", self.attentions)]
        if len(self.stacks) > 1:
            encoder, decoder = self.stacks
            self.groups += [("of the encoder", [block.attention for block in encoder.blocks]),
                            ("of the decoder", [block.attention for block in decoder.blocks]),
                            ("of the attention to the source", [block.cross_attention for block in decoder.blocks])]

    def all_of(self, kinds):
        return [module for module in self.modules if isinstance(module, kinds)]

    def name_of(self, module):
        """Returns the name of a module in the model."""
        return next(name for name, each in self.model.named_modules() if each is module)

    def side_of(self, table):
        """Returns the stack whose relative positions these are."""
        return "decoder" if table.causal else "encoder"

    def by_kind(self, endings):
        """Returns {name with * for the numbers of blocks: [parameter]} of the parameters whose names end so."""
        kinds = {}
        for name, parameter in self.model.named_parameters():
            if name.split(".")[-1] in endings:
                kinds.setdefault(kind_of(name), []).append(parameter)
        return kinds

    def filled(self, parameters, value):
        """Returns the edits that fill parameters with a value, or with the mean of each for None."""
        return [edit for parameter in parameters for edit in self.replace(parameter, np.full_like(
            parameter.data, parameter.data.mean() if value is None else value))]

    def word_embeddings(self):
        """Returns the embeddings of tokens: all but that of segments."""
        return [embedding for embedding in self.embeddings if embedding is not getattr(self.model, "segments", None)]

    def replace(self, parameter, array):
        """Returns the edits that put an array in the place of a parameter, in each module that holds it."""
        new = Parameter(array)
        return [(module, name, new) for module in self.modules for name, value in vars(module).items()
                if value is parameter]


def reordered_outputs(linear, order):
    """Returns the edits that reorder the outputs of a Linear: column j becomes column order[j]."""
    edits = [(linear, "weight", Parameter(linear.weight.data[:, order]))]
    if linear.bias is not None:
        edits.append((linear, "bias", Parameter(linear.bias.data[order])))
    return edits


def reordered_inputs(linear, order):
    """Returns the edits that reorder the inputs of a Linear: row i becomes row order[i]."""
    return [(linear, "weight", Parameter(linear.weight.data[order]))]


def scaled_output(linear, factor):
    """Returns the edits that multiply the output of a Linear by a factor."""
    edits = [(linear, "weight", Parameter(linear.weight.data * factor))]
    if linear.bias is not None:
        edits.append((linear, "bias", Parameter(linear.bias.data * factor)))
    return edits
