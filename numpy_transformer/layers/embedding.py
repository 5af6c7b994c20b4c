"""Embedding, and its transpose as an output layer (weight tying)."""

import math

import numpy as np

from ..argument_checks import check_integers, check_last_dim, check_positive
from ..module import Module, Parameter
from ..types import Seed
from .fast import add_product, rows
from .initial_weights import normal


class Embedding(Module):
    """y = E[ids]: one row of the table for each token, multiplied by sqrt(d_model) if scaled.

    Parameters:
        vocab_size, d_model : int
        scale : bool (False), multiply by sqrt(d_model)
        pad_id : int or None; the embedding of this token is zeros, and its row gets no gradient
        rng : generator or seed of the initial weights, N(0, 1/d_model), or None
    Shape: ids (...) integers -> y (..., d_model); `weight` (vocab_size, d_model)
    Backward: dE[i] = sum of dy over all positions where ids == i (a scatter-add). Returns None: ids have no gradient
    Raises: TypeError if ids are not integers, IndexError if one lies outside the vocabulary.
    Source: Vaswani et al. 2017, section 3.4.
    """

    def __init__(self, vocab_size: int, d_model: int, scale: bool = False, pad_id: int | None = None,
                 rng: Seed = None) -> None:
        check_positive(vocab_size=vocab_size, d_model=d_model)
        if pad_id is not None:
            check_integers(pad_id, vocab_size, "pad_id", "vocab_size")
        self.vocab_size = vocab_size
        self.d_model = d_model
        self.pad_id = pad_id
        self.factor = math.sqrt(d_model) if scale else 1.0
        self.weight = Parameter(normal(rng, (vocab_size, d_model), 1 / math.sqrt(d_model)))

    def forward(self, ids: np.ndarray) -> np.ndarray:
        ids = check_integers(ids, self.vocab_size, "token ids", "vocab_size")
        self.remember(ids)
        y = self.weight.data.take(ids, axis=0)
        if self.factor != 1:
            y *= self.factor
        if self.pad_id is not None:
            y[ids == self.pad_id] = 0
        return y

    def backward(self, dy: np.ndarray) -> None:
        ids = self.recall()
        if self.factor != 1:
            dy = dy * self.factor
        if self.pad_id is not None:
            dy = np.where((ids == self.pad_id)[..., None], 0, dy)
        np.add.at(self.weight.grad, ids, dy)    # += would count an id that occurs twice only once


class Unembedding(Module):
    """y = c x Eᵀ: logits from a weight that is shared with an Embedding.

    Parameters:
        weight : the Embedding's `Parameter`, (vocab_size, d_model): the same object, not a copy
        factor : float (1.0), c; T5 divides by sqrt(d_model)
    Shape: x (..., d_model) -> logits (..., vocab_size)
    Backward: dE += c (sum over rows of dyᵀ x), which is added to the Embedding's own gradient;   dx = c dy E
    Raises: TypeError if weight is not a Parameter; ValueError if the last dimension of x is not d_model.
    Source: Press and Wolf 2017; Vaswani et al. 2017, section 3.4; the factor: the published code of Raffel et al. 2020.
    """

    def __init__(self, weight: Parameter, factor: float = 1.0) -> None:
        if not isinstance(weight, Parameter):
            raise TypeError(f"Unembedding shares a Parameter, got {type(weight).__name__}; pass embedding.weight")
        self.weight = weight
        self.factor = factor

    def forward(self, x: np.ndarray) -> np.ndarray:
        vocab_size, d_model = self.weight.data.shape
        check_last_dim(self, x, "d_model", d_model)
        if self.factor != 1:
            x = x * self.factor
        self.remember(x)
        logits = rows(x) @ self.weight.data.T
        return logits.reshape(*x.shape[:-1], vocab_size)

    def backward(self, dy: np.ndarray) -> np.ndarray:
        x = self.recall()                       # already multiplied by the factor
        add_product(self.weight.grad, rows(dy).T, rows(x))
        dx = (rows(dy) @ self.weight.data).reshape(x.shape)
        if self.factor != 1:
            dx *= self.factor
        return dx

    def extra_repr(self) -> str:
        vocab_size, d_model = self.weight.data.shape
        scaled = "" if self.factor == 1 else f", factor={self.factor}"
        return f"vocab_size={vocab_size}, d_model={d_model}{scaled}"
