"""Softmax and its logarithm, over the last axis."""

import numpy as np

from ..module import Module
from ..argument_checks import check_array
from .fast import row_dots, row_sums

SMALL, TINY = 60.0, 1e-20                       # exp of anything below SMALL is far from overflow, even in float32


def shift(x):
    """x minus its row maximum, so that exp cannot overflow; a row of -inf alone stays -inf."""
    dtype = np.result_type(x.dtype, np.float32)
    top = x.real.max(-1, keepdims=True)         # a constant: softmax does not see it, nor do derivatives
    return np.subtract(x, np.maximum(top, float(np.finfo(dtype).min)), dtype=dtype)


class Softmax(Module):
    """y_i = exp(x_i) / sum_j exp(x_j) over the last axis. A row of -inf alone gives zeros.

    Shape: x (..., n) -> y (..., n), each row sums to 1
    Backward: dx = y * (dy - sum_j dy_j y_j): every output depends on every input of its row
    Source: Bridle 1990. Where exp could overflow or vanish, the row maximum is subtracted first: it cancels.
    """

    def forward(self, x):
        check_array(self, x)
        y = np.exp(x if x.size and x.real.max() < SMALL else shift(x), dtype=np.result_type(x.dtype, np.float32))
        total = row_sums(y)
        if total.size and not total.real.min() > TINY:      # hidden rows, or all so low that exp has no digits there
            y = np.exp(shift(x))
            total = row_sums(y)
            total += total == 0                 # nothing to attend to: zeros, not 0/0
        y /= total
        self.remember(y)
        return y

    def backward(self, dy):
        y = self.recall()
        dx = dy - row_dots(dy, y)
        dx *= y
        return dx


class LogSoftmax(Module):
    """y_i = x_i - log sum_j exp(x_j) over the last axis: the logarithm of Softmax, without overflow.

    Shape: x (..., n) -> y (..., n)
    Backward: dx = dy - softmax(x) * sum_j dy_j
    Source: the output of the annotated Transformer's generator (Rush 2018).
    """

    def forward(self, x):
        check_array(self, x)
        y = shift(x)
        y -= np.log(row_sums(np.exp(y)))
        self.remember(y)
        return y

    def backward(self, dy):
        y = self.recall()
        return dy - np.exp(y) * row_sums(dy)
