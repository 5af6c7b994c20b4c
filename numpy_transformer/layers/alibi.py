"""ALiBi: each score loses a little for every token between query and key."""

import math

import numpy as np

from ..argument_checks import called, check_integers, check_positive
from ..module import Module
from ..parameter import check_room
from ..types import DTypeLike, Seed
from .initial_weights import DTYPE
from .positions import POSITIONS, PositionSizes


def slopes(num_heads: int) -> np.ndarray:
    """Returns the slope of each head: 2^(-8/H), 2^(-16/H), ..., 2^-8 if the number of heads H is a power of two.

    Otherwise the first heads have the slopes of the largest power of two below H, and the others every second slope of
    twice that power, as in the published code.
    """
    power = 2 ** math.floor(math.log2(num_heads))
    own = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    between = [2 ** (-4 * h / power) for h in range(1, 2 * power + 1, 2)]
    return np.array([*own, *between[:num_heads - power]])


class ALiBi(Module):
    """b_h(t, s) = -m_h |t - s|: head h prefers near keys, by a slope m_h that is fixed.

    Nothing is learned, and no distance is the longest: a model can read texts longer than those it was trained on.

    Parameters: num_heads : int
    Shape: T, S (two integers) -> b (num_heads, T, S), where the T queries are the last of the S tokens. `positions` (S,) or
        (B, S) give the position of each token where they are not consecutive; for (B, S) b is (B, num_heads, T, S).
    Backward: nothing to compute, because the slopes are constants. Returns None: lengths have no gradient
    Raises: ValueError if there are more queries than tokens.
    Source: Press, Smith and Lewis 2022, section 3; slopes for other numbers of heads: its published code.
    """

    place = "scores"
    scaled = True                               # the scores that it is added to are divided by sqrt(d)

    def __init__(self, num_heads: int) -> None:
        check_positive(num_heads=num_heads)
        check_room(num_heads)
        self.num_heads = num_heads
        self.build_tables(DTYPE)

    @classmethod
    def of_sizes(cls, sizes: PositionSizes, rng: Seed) -> "ALiBi":
        """Returns the positions of a model with these sizes."""
        return cls(sizes.num_heads)

    def build_tables(self, dtype: DTypeLike) -> None:
        self.slopes = slopes(self.num_heads).astype(dtype)

    def forward(self, T: int, S: int, positions: np.ndarray | None = None) -> np.ndarray:
        if not 1 <= T <= S:
            raise ValueError(f"{called()}{T} queries and {S} tokens: the queries are the last of the tokens, so wanted "
                             f"from 1 to {S} queries")
        self.remember()
        keys = np.arange(S) if positions is None else check_integers(positions, 2 ** 31, "positions", "limit")
        distance = np.abs(keys[..., -T:, None] - keys[..., None, :])                # (T, S) or (B, T, S)
        return -self.slopes[:, None, None] * distance[..., None, :, :].astype(self.slopes.dtype)

    def backward(self, dy: np.ndarray) -> None:
        self.recall()


POSITIONS["alibi"] = ALiBi
