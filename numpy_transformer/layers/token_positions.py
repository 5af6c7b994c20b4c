"""The positions of the tokens, for the components inside a model that depend on them, such as rotary embeddings.

Without this, token t of a sequence has position t. A model whose input has padding tokens, or that goes on after the tokens
in a cache, tells the positions to everything inside it. Blocks and stacks then need not hand them on.
"""

import contextlib
import contextvars
from collections.abc import Iterator

import numpy as np

POSITIONS: contextvars.ContextVar[np.ndarray | None] = contextvars.ContextVar("positions", default=None)


@contextlib.contextmanager
def token_positions(positions: np.ndarray | None) -> Iterator[None]:
    """Within this context the S tokens have these positions, (S,) or (B, S); None: from 0 to S - 1.

    If there are fewer queries than keys, the queries are the last of the S tokens.
    """
    token = POSITIONS.set(positions)
    try:
        yield
    finally:
        POSITIONS.reset(token)


def current_positions(count: int | None = None) -> np.ndarray | None:
    """Returns the positions (S,) or (B, S) that token_positions has set, or those of the latest `count` tokens; or None."""
    positions = POSITIONS.get()
    return positions if positions is None or count is None else positions[..., -count:]
