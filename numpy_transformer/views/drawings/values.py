"""Numbers that drawings compute, and how they are written."""

import numpy as np

from ...layers import Softmax


def softmax(scores):
    return Softmax().eval()(np.asarray(scores, float))


def number(value, digits=2):
    """A number with a real minus sign."""
    return f"{value:.{digits}f}".replace("-", "−")


def short(value):
    """A number with three digits that count, and no zeros after them."""
    return f"{value:.3g}".replace("-", "−")
