"""A step that is given as arrays, without a tokenizer: what `nt.explore` shows."""

import copy

import numpy as np

from ..layers import CrossEntropyLoss


class ArrayExample:
    """A model, its inputs and its targets, with the methods of an Example whose text cannot be changed."""

    kind = None
    text = target = None

    def __init__(self, model, inputs, targets=None, criterion=None, tokens=None, title=None):
        self.model = copy.deepcopy(model)       # which may be trained on
        inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        self.inputs = tuple(None if x is None else np.asarray(x) for x in inputs)
        empty = next((x for x in self.inputs if x is not None and x.size == 0), None)
        if empty is not None:
            raise ValueError(f"an input of shape {empty.shape} holds no number; give a batch of at least one sequence")
        self.targets = None if targets is None else np.asarray(targets)
        self.criterion = CrossEntropyLoss() if criterion is None and targets is not None else criterion
        self.tokens = checked_tokens(tokens)
        self.title = type(model).__name__ if title is None else str(title)

    def read(self, text=None, target=None):
        """Returns (inputs, targets, tokens). Raises ValueError for a text: there is no tokenizer to read it with."""
        if text is not None or target is not None:
            raise ValueError("this step was made from arrays, so its text cannot be changed here; call nt.explore with "
                             "other arrays")
        return self.inputs, self.targets, self.tokens


def checked_tokens(tokens):
    """Returns the names of tokens as a dict of lists of str. Raises ValueError for anything that is not one."""
    if tokens is None:
        return {}
    if not isinstance(tokens, dict):
        tokens = {"source": tokens}
    checked = {}
    for name, value in tokens.items():
        if name in ("vocabulary", "source_vocabulary", "classes"):
            checked[name] = list(map(str, value))
        elif name in ("source", "target", "targets"):
            if isinstance(value, str) or any(isinstance(row, str) for row in value):
                raise ValueError(f"tokens[{name!r}] must hold a list of strings for each sequence of the batch, such as "
                                 '[["the", "cat"]]')
            checked[name] = [list(map(str, row)) for row in value]
        else:
            raise ValueError(f"tokens has no entry {name!r}; give source, target, targets, vocabulary, source_vocabulary or "
                             "classes")
    return checked
