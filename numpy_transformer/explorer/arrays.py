"""A step that is given as arrays, without a tokenizer: what `nt.explore` shows."""

import copy

import numpy as np

from ..layers import CrossEntropyLoss
from .examples import COMMAND
from .wording import sentence


class ArrayExample:
    """A model, its inputs and its targets, with the methods of an Example whose text cannot be changed."""

    kind = None
    text = target = None
    command = COMMAND
    variants = {}                               # there is no text that another model could read

    def __init__(self, model, inputs, targets=None, criterion=None, tokens=None, title=None):
        self.model = copy.deepcopy(model)       # which may be trained on
        inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        self.inputs = tuple(None if x is None else np.asarray(x) for x in inputs)
        empty = next((x for x in self.inputs if x is not None and x.size == 0), None)
        if empty is not None:
            raise ValueError(sentence("errors.arrays.no_number", shape=empty.shape))
        self.targets = None if targets is None else np.asarray(targets)
        if criterion is None and targets is not None and self.targets.dtype.kind not in "iu":
            raise TypeError(sentence("errors.arrays.ids", dtype=self.targets.dtype))
        self.criterion = CrossEntropyLoss() if criterion is None and targets is not None else criterion
        self.tokens = checked_tokens(tokens)
        check_lengths(self.tokens, "source", self.inputs[0])
        if len(self.inputs) > 1:
            check_lengths(self.tokens, "target", self.inputs[1])
        check_lengths(self.tokens, "targets", self.targets)
        self.title = type(model).__name__ if title is None else str(title)

    def read(self, text=None, target=None):
        """Returns (inputs, targets, tokens). Raises ValueError for a text: there is no tokenizer to read it with."""
        if text is not None or target is not None:
            raise ValueError(sentence("errors.arrays.no_text"))
        return self.inputs, self.targets, self.tokens


def check_lengths(tokens, name, array):
    """Raises ValueError unless there is a name for each token of an array (T,), (B, T) or (B, T, ...)."""
    if name not in tokens or array is None or array.ndim == 0:
        return
    wanted = array.shape[:2] if array.ndim > 1 else (1, *array.shape)
    for row in tokens[name]:
        if (len(tokens[name]), len(row)) != wanted:
            raise ValueError(sentence("errors.arrays.tokens_shape", name=name, length=len(row), batch=len(tokens[name]),
                                   wanted_length=wanted[1], wanted_batch=wanted[0]))


def checked_tokens(tokens):
    """Returns the names of tokens as a dict of lists of str. Raises ValueError for anything that is not one."""
    if tokens is None:
        return {}
    if not isinstance(tokens, dict):
        tokens = {"source": tokens}
    token_names = {}
    for name, value in tokens.items():
        if name in ("vocabulary", "source_vocabulary", "classes"):
            token_names[name] = list(map(str, value))
        elif name in ("source", "target", "targets"):
            if isinstance(value, str) or any(isinstance(row, str) for row in value):
                raise ValueError(sentence("errors.arrays.tokens_list", name=name))
            token_names[name] = [list(map(str, row)) for row in value]
        else:
            raise ValueError(sentence("errors.arrays.tokens_entry", name=name))
    return token_names
