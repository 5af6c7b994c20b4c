"""Numbers that drawings compute, and how they are written."""

import numpy as np


def softmax(scores):
    """Written out here, so that a lesson draws the right picture even when a component is being broken on purpose."""
    exponentials = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def number(value, digits=2):
    """A number with a real minus sign."""
    return f"{value:.{digits}f}".replace("-", "−")


def short(value):
    """A number with three digits that count, and no zeros after them."""
    return f"{value:.3g}".replace("-", "−")
