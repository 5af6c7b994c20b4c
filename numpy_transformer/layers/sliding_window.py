"""A sliding window: each token attends to itself and to the few tokens before it."""

import numpy as np

from ..argument_checks import check_positive
from ..module import Module


class SlidingWindow(Module):
    """y = scores where the key is fewer than `window` tokens before the query, and -inf where it is farther away.

    It hides no later token; the causal mask does that. With L blocks, a token still depends on about L window tokens.

    Parameters: window : int, the number of tokens that a query may attend to, itself included
    Shape: scores (B, H, T, S) -> y (the same); B may be absent. The T queries are the last of the S tokens.
    Backward: dscores = dy where the key is in the window, exactly 0 elsewhere
    Raises: ValueError if the window is not positive.
    Source: Beltagy et al. 2020, section 3.1; Jiang et al. 2023 (Mistral), section 2.
    """

    def __init__(self, window: int) -> None:
        check_positive(window=window)
        self.window = window

    def forward(self, scores: np.ndarray) -> np.ndarray:
        near = self.near(*scores.shape[-2:])
        self.remember(near)
        return scores if near.all() else np.where(near, scores, -np.inf)

    def backward(self, dy: np.ndarray) -> np.ndarray:
        near = self.recall()
        return dy if near.all() else np.where(near, dy, 0)

    def near(self, T: int, S: int) -> np.ndarray:
        """Returns booleans (T, S): whether key j is fewer than `window` tokens before query S - T + t, or after it."""
        return ~np.tri(T, S, S - T - self.window, dtype=bool)

    def extra_repr(self) -> str:
        return f"window={self.window}"


class SymmetricWindow(SlidingWindow):
    """y = scores where query and key are fewer than `window` tokens apart, and -inf elsewhere; for encoders.

    Parameters: window : int, the number of tokens on either side that a query may attend to, itself included
    Shape, Backward, Raises : as SlidingWindow
    Source: Beltagy et al. 2020, section 3.1; Warner et al. 2024 (ModernBERT), section 2.1.2.
    """

    def near(self, T: int, S: int) -> np.ndarray:
        """Returns booleans (T, S): whether key j and query S - T + t are fewer than `window` tokens apart."""
        return super().near(T, S) & np.tri(T, S, S - T + self.window - 1, dtype=bool)
