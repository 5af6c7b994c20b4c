"""Rotary positions: queries and keys are rotated by an angle that grows with the position."""

from collections.abc import Sequence

import numpy as np

from ..argument_checks import called, check_choice, check_integers, check_last_dim, check_positive
from ..module import Module
from ..parameter import check_room
from ..types import DTypeLike, Seed
from .initial_weights import DTYPE
from .positions import POSITIONS, PositionSizes


class RotaryEmbedding(Module):
    """Rotates each pair (a, b) of features at position t by the angle t θ_i, θ_i = base^(-2i/d_head).

    (a, b) -> (a cos - b sin, a sin + b cos). Lengths do not change, and the score of a query at m and a key at n
    depends on m - n alone.

    Parameters:
        d_head : int, even
        base : float (10000.0)
        interleaved : bool (True); the pairs are (x0, x1), (x2, x3), ... as in the paper and in Meta's LLaMA weights,
            or, if False, (x_i, x_{i + d_head/2}), as in the same weights converted for Hugging Face
        frequencies : d_head/2 floats, the θ_i, or None for those of `base`; LLaMA 3.1 scales the low ones down
    Shape: x (..., T, d_head) -> y (the same). `offset` is the position of the first token; `positions` (T,) or (B, T)
        give each token's position where they are not consecutive, B being the first axis of x.
    Backward: dx = dy rotated by -t θ_i, because the inverse of a rotation is its transpose
    Raises: ValueError if d_head is odd, there are not d_head/2 frequencies, or the last dimension of x is not d_head.
    Source: Su et al. 2021, equations 13 to 15 and 34.
    """

    place = "heads"

    def __init__(self, d_head: int, base: float = 10000.0, interleaved: bool = True,
                 frequencies: Sequence[float] | np.ndarray | None = None) -> None:
        check_positive(d_head=d_head)
        check_room(d_head)
        if d_head % 2:
            raise ValueError(f"{called()}d_head = {d_head} must be even: rotary positions rotate pairs of features; "
                             "choose d_model and num_heads so that their ratio is even")
        check_choice("interleaved", interleaved, (True, False))
        self.d_head = d_head
        self.base = base if frequencies is None else None               # given frequencies need not be powers of one number
        if frequencies is None:
            frequencies = base ** (-np.arange(0, d_head, 2) / d_head)
        if np.shape(frequencies) != (d_head // 2,):
            raise ValueError(f"{called()}frequencies have shape {np.shape(frequencies)}: a head of d_head = {d_head} "
                             f"features has {d_head // 2} pairs; pass one frequency for each of them")
        self.frequencies = np.array(frequencies, np.float64)
        self.interleaved = interleaved
        self.length = 64                        # positions in the tables, which grow when a longer x comes
        self.build_tables(DTYPE)

    @classmethod
    def of_sizes(cls, sizes: PositionSizes, rng: Seed) -> "RotaryEmbedding":
        """Returns the positions of a model with these sizes."""
        return cls(sizes.d_head)

    def build_tables(self, dtype: DTypeLike) -> None:
        angles = np.arange(self.length)[:, None] * self.frequencies
        self.cos = np.cos(angles).astype(dtype)
        self.sin = np.sin(angles).astype(dtype)

    def forward(self, x: np.ndarray, offset: int = 0, positions: np.ndarray | None = None) -> np.ndarray:
        check_last_dim(self, x, "d_head", self.d_head)
        cos, sin = self.angles(x, offset, positions)
        self.remember(cos, sin)
        return self.rotate(x, cos, sin)

    def backward(self, dy: np.ndarray) -> np.ndarray:
        cos, sin = self.recall()
        return self.rotate(dy, cos, -sin)

    def rotate(self, x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
        """Returns x with each pair of features rotated by the angle that has this cosine and sine."""
        y = np.empty(x.shape, np.result_type(x, cos))
        a, b = self.pairs(x)
        y_a, y_b = self.pairs(y)                # views of y
        y_a[...] = a * cos - b * sin
        y_b[...] = a * sin + b * cos
        return y

    def pairs(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns views of the first and of the second features of all pairs."""
        if self.interleaved:
            return x[..., 0::2], x[..., 1::2]
        return x[..., :self.d_head // 2], x[..., self.d_head // 2:]

    def angles(self, x: np.ndarray, offset: int, positions: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Returns cosines and sines, of shapes that broadcast to the pairs of x."""
        if x.ndim < 2 or offset < 0:
            raise ValueError(f"RotaryEmbedding takes (..., T, d_head) from offset 0 on, got shape {x.shape} and offset "
                             f"{offset}; add the missing axis with x[None]")
        if positions is None:
            end = offset + x.shape[-2]
            index: slice | np.ndarray = slice(offset, end)
        else:
            index = check_integers(positions, 2 ** 31, "positions", "limit")
            end = int(index.max()) + 1
            if index.ndim > 1:                  # (B, T) -> (B, 1, T): the same for every head
                axes_between = (1,) * (x.ndim - 3)
                index = index.reshape(len(index), *axes_between, -1)
        if end > self.length:
            self.length = max(end, 2 * self.length)
            self.build_tables(self.cos.dtype)
        return self.cos[index], self.sin[index]


POSITIONS["rotary"] = RotaryEmbedding
