"""Positions that are added to the embeddings: fixed sinusoids, or a learned table."""

from typing import Any, NamedTuple

import numpy as np

from ..argument_checks import called, check_integers, check_last_dim, check_positive
from ..module import Module, Parameter
from ..parameter import LARGEST_TABLE, check_room
from ..types import DTypeLike, Seed
from .dropout import Dropout
from .initial_weights import DTYPE, normal


def sinusoid(max_len: int, d_model: int) -> np.ndarray:
    """Returns (max_len, d_model) in float64: PE[t, 2i] = sin(t / 10000^(2i/D)), PE[t, 2i+1] = cos(the same)."""
    angles = np.arange(max_len)[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    table = np.empty((max_len, d_model))
    table[:, 0::2] = np.sin(angles)
    table[:, 1::2] = np.cos(angles[:, :d_model // 2])       # an odd d_model ends with a sine
    return table


def table_rows(layer: Any, x: np.ndarray, offset: int, positions: np.ndarray | None) -> slice | np.ndarray:
    """Returns an index into the layer's table for x (..., T, D): a slice, or the given positions (T,) or (B, T)."""
    length = x.shape[-2] if np.ndim(x) >= 2 else 0
    if length == 0:
        raise ValueError(f"{type(layer).__name__} takes (T, d_model) or (B, T, d_model) with T at least 1, "
                         f"got shape {np.shape(x)}; add the missing axis with x[None]")
    if positions is not None:
        return check_integers(positions, layer.max_len, "positions", "max_len")
    if offset < 0:
        raise ValueError(f"{called()}offset = {offset} must not be negative: positions count from 0")
    if offset + length > layer.max_len:
        raise ValueError(f"{called()}a sequence of {offset + length} tokens is longer than max_len = {layer.max_len}; "
                         "shorten it, or build the model with a larger max_len")
    return slice(offset, offset + length)


class PositionSizes(NamedTuple):
    """What a kind of positions has to know of the model that it is made for."""
    d_model: int
    num_heads: int
    d_head: int
    max_len: int
    causal: bool


class SinusoidalPositionalEncoding(Module):
    """y = dropout(x + PE[position]), where PE are fixed waves of geometrically growing length.

    PE[t, 2i] = sin(t / 10000^(2i/D)),   PE[t, 2i+1] = cos(t / 10000^(2i/D))

    Parameters:
        d_model : int, may be odd
        max_len : int (5000), the number of rows of the table
        dropout : float (0.0), on the sum
        rng : generator or seed of the dropout, or None
    Shape: x (B, T, d_model) or (T, d_model) -> y (the same); `table` (max_len, d_model). `offset` is the position of
        the first token; `positions` (T,) or (B, T) give each token's position where they are not consecutive.
    Backward: dx = dropout backward of dy, because the table is constant
    Raises: ValueError if the sequence is longer than max_len or the last dimension is not d_model.
    Source: Vaswani et al. 2017, section 3.5.
    """

    place = "embeddings"

    def __init__(self, d_model: int, max_len: int = 5000, dropout: float = 0.0, rng: Seed = None) -> None:
        check_positive(d_model=d_model, max_len=max_len)
        check_room(max_len * d_model, LARGEST_TABLE)
        self.d_model = d_model
        self.max_len = max_len
        self.dropout = Dropout(dropout, rng)
        self.build_tables(DTYPE)

    @classmethod
    def of_sizes(cls, sizes: PositionSizes, rng: Seed) -> "SinusoidalPositionalEncoding":
        """Returns the positions of a model with these sizes."""
        return cls(sizes.d_model, sizes.max_len, rng=rng)

    def build_tables(self, dtype: DTypeLike) -> None:
        self.table = sinusoid(self.max_len, self.d_model).astype(dtype)

    def forward(self, x: np.ndarray, offset: int = 0, positions: np.ndarray | None = None) -> np.ndarray:
        check_last_dim(self, x, "d_model", self.d_model)
        return self.dropout(x + self.table[table_rows(self, x, offset, positions)])

    def backward(self, dy: np.ndarray) -> np.ndarray:
        return self.dropout.backward(dy)


class LearnedPositionalEmbedding(Module):
    """y = x + W[position], where W is learned.

    Parameters: max_len, d_model : int; rng : generator or seed of the initial weights, N(0, 0.02²), or None
    Shape: x (B, T, d_model) or (T, d_model) -> y (the same); `weight` (max_len, d_model); `offset` and `positions` as
        in SinusoidalPositionalEncoding
    Backward: dW[t] = sum of dy over all tokens at position t,   dx = dy
    Raises: ValueError if the sequence is longer than max_len or the last dimension is not d_model.
    Source: Gehring et al. 2017, section 3.1; GPT (Radford et al. 2018).
    """

    place = "embeddings"

    def __init__(self, max_len: int, d_model: int, rng: Seed = None) -> None:
        check_positive(max_len=max_len, d_model=d_model)
        self.max_len = max_len
        self.d_model = d_model
        self.weight = Parameter(normal(rng, (max_len, d_model), 0.02))

    @classmethod
    def of_sizes(cls, sizes: PositionSizes, rng: Seed) -> "LearnedPositionalEmbedding":
        """Returns the positions of a model with these sizes."""
        return cls(sizes.max_len, sizes.d_model, rng)

    def forward(self, x: np.ndarray, offset: int = 0, positions: np.ndarray | None = None) -> np.ndarray:
        check_last_dim(self, x, "d_model", self.d_model)
        index = table_rows(self, x, offset, positions)
        self.remember(index)
        return x + self.weight.data[index]

    def backward(self, dy: np.ndarray) -> np.ndarray:
        index = self.recall()
        if isinstance(index, slice):            # consecutive positions: sum over the batch
            self.weight.grad[index] += dy.reshape(-1, *dy.shape[-2:]).sum(0)
        else:
            np.add.at(self.weight.grad, np.broadcast_to(index, dy.shape[:-1]), dy)
        return dy


# What `positions` may be in a model. Each class says in `place` where it acts, and `of_sizes` makes one for a model:
#     "embeddings"    it is called with the embeddings, as here
#     "heads"         SelfAttention calls it with the queries and the keys of its heads: RotaryEmbedding
#     "scores"        PositionBias adds what it returns to the scores: ALiBi, RelativePositionBias. `scaled` says whether
#                     these are divided by sqrt(d)
POSITIONS: dict[str, Any] = {"learned": LearnedPositionalEmbedding, "sinusoidal": SinusoidalPositionalEncoding}
