"""Softmax and its logarithm, over the last axis."""

import numpy as np

from ..argument_checks import check_array
from ..module import Module
from .fast import exp_and_sum, subtract_max, sum_of_products, sum_over_features


class Softmax(Module):
    """y_i = exp(x_i) / sum_j exp(x_j) over the last axis. A row in which all x are -inf gives zeros.

    The maximum of each row is subtracted before exp wherever exp could overflow; it cancels in the quotient.

    Shape: x (..., n) -> y (..., n); each row sums to 1
    Backward: dx = y * (dy - sum_j dy_j y_j), because every output depends on every input of its row
    Source: Bridle 1990.
    """

    def forward(self, x: np.ndarray) -> np.ndarray:
        check_array(self, x)
        y, total = exp_and_sum(x)               # of x minus a constant that prevents overflow
        y /= total
        self.remember(y)
        return y

    def backward(self, dy: np.ndarray) -> np.ndarray:
        y = self.recall()
        return y * (dy - sum_of_products(dy, y))


class LogSoftmax(Module):
    """y_i = x_i - log sum_j exp(x_j) over the last axis: the logarithm of Softmax, without overflow.

    Shape: x (..., n) -> y (..., n)
    Backward: dx = dy - softmax(x) * sum_j dy_j
    Source: the output of the annotated Transformer's generator (Rush 2018).
    """

    def forward(self, x: np.ndarray) -> np.ndarray:
        check_array(self, x)
        z = subtract_max(x)
        y = z - np.log(sum_over_features(np.exp(z)))
        self.remember(y)
        return y

    def backward(self, dy: np.ndarray) -> np.ndarray:
        y = self.recall()
        return dy - np.exp(y) * sum_over_features(dy)
