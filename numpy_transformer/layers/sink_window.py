"""A sliding window that keeps the first tokens of a text in view."""

import numpy as np

from ..argument_checks import check_positive
from .sliding_window import SlidingWindow


class SinkWindow(SlidingWindow):
    """y = scores where the key is one of the first `num_sinks` tokens or fewer than `window` tokens before the query, else -inf.

    Heads that find nothing rest on the first tokens. A window that loses them breaks; one that keeps them does not. It hides no
    later token; the causal mask does that.

    Parameters:
        window : int, the number of near tokens that a query may attend to, itself included
        num_sinks : int, the number of first tokens that every later query may attend to as well
    Shape, Backward : as SlidingWindow. Distances are those in the text, while the paper counts positions inside the cache: both agree
        if the positions tell no distances of `window` and more apart, as the last bucket of a RelativePositionBias.
    Raises: ValueError if either is not positive.
    Source: Xiao et al. 2024 (StreamingLLM), section 3.2.
    """

    def __init__(self, window: int, num_sinks: int) -> None:
        super().__init__(window)
        check_positive(num_sinks=num_sinks)
        self.num_sinks = num_sinks

    def near(self, T: int, S: int) -> np.ndarray:
        """Returns booleans (T, S): whether key j is a first token or fewer than `window` tokens before query S - T + t."""
        return super().near(T, S) | (np.arange(S) < self.num_sinks)

    def extra_repr(self) -> str:
        return f"window={self.window}, num_sinks={self.num_sinks}"
