"""Rotary positions: queries and keys are turned by an angle that grows with the position."""

import numpy as np

from ..module import Module
from ..argument_checks import check_choice, check_last_dim, check_positive, check_integers
from .initial_weights import DTYPE


class RotaryEmbedding(Module):
    """Turns each pair (a, b) of features at position t by the angle t θ_i, θ_i = base^(-2i/d_head).

    (a, b) -> (a cos - b sin, a sin + b cos). Lengths stay, and a query at m meets a key at n with
    a score that depends on m - n alone.

    Parameters:
        d_head : int, even
        base : float
        interleaved : bool; pairs are (x0, x1), (x2, x3), ... as in the paper and in Meta's LLaMA weights,
            or, if False, (x_i, x_{i + d_head/2}), as in the same weights converted for Hugging Face
    Shape: x (..., T, d_head) -> y (the same). `offset` is the position of the first token; `positions` (T,) or (B, T)
        are given where they do not just count up, B being the first axis of x.
    Backward: dx = dy turned by -t θ_i: the inverse of a rotation is its transpose
    Raises: ValueError if d_head is odd or the last dimension of x is not d_head.
    Source: Su et al. 2021, equations 13 to 15 and 34.
    """

    def __init__(self, d_head, base=10000.0, interleaved=True):
        check_positive(d_head=d_head)
        if d_head % 2:
            raise ValueError(f"d_head = {d_head} must be even: rotary positions turn pairs of features; "
                             "choose d_model and num_heads so that their ratio is even")
        check_choice("interleaved", interleaved, (True, False))
        self.d_head, self.base, self.interleaved = d_head, base, interleaved
        self.length = 64                        # of the tables, which grow when a longer x comes
        self.build_tables(DTYPE)

    def build_tables(self, dtype):
        angles = np.arange(self.length)[:, None] / self.base ** (np.arange(0, self.d_head, 2) / self.d_head)
        self.cos, self.sin = np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)

    def forward(self, x, offset=0, positions=None):
        check_last_dim(self, x, "d_head", self.d_head)
        cos, sin = self.angles(x, offset, positions)
        self.remember(cos, sin)
        return self.rotate(x, cos, sin)

    def backward(self, dy):
        cos, sin = self.recall()
        return self.rotate(dy, cos, -sin)

    def rotate(self, x, cos, sin):
        y = np.empty(x.shape, np.result_type(x, cos))
        (a, b), (ya, yb) = self.pairs(x), self.pairs(y)
        ya[...] = a * cos - b * sin
        yb[...] = a * sin + b * cos
        return y

    def pairs(self, x):
        if self.interleaved:
            return x[..., 0::2], x[..., 1::2]
        return x[..., :self.d_head // 2], x[..., self.d_head // 2:]

    def angles(self, x, offset, positions):
        if x.ndim < 2 or offset < 0:
            raise ValueError(f"RotaryEmbedding takes (..., T, d_head) from offset 0 on, got shape {x.shape} and offset "
                             f"{offset}; add the missing axis with x[None]")
        index = slice(offset, offset + x.shape[-2])
        last = index.stop
        if positions is not None:               # (B, T) -> (B, 1, T): the same for every head
            index = check_integers(positions, 2 ** 31, "positions", "limit")
            last = int(index.max()) + 1
            if index.ndim > 1:
                index = index.reshape(len(index), *[1] * (x.ndim - 3), -1)
        if last > self.length:
            self.length = max(last, 2 * self.length)
            self.build_tables(self.cos.dtype)
        return self.cos[index], self.sin[index]
