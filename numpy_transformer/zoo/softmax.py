"""Mistakes in the softmax: y = exp(x) / sum of exp(x), along each row."""

import numpy as np

from ..layers import Softmax
from .bug import bug


@bug("softmax-divided-by-the-batch", "a version of AkiRusProd/numpy-transformer",
     symptom="queries and keys get 1/B of their gradient, values all of it; right for a batch of one",
     training="falls late, and ends far above the right one",
     caught_by=("gradient check", "sequences are independent", "doubled batch, model"))
class DividedByTheBatch(Softmax):
    """Softmax's backward divides by the batch size, as if there were a mean"""

    def backward(self, dy):
        return super().backward(dy) / len(dy)               # right: not divided


@bug("softmax-diagonal",
     symptom="the rows of dx do not sum to 0: what the other outputs lose is forgotten",
     training="falls late, and ends far above the right one",
     caught_by=("gradient check", "softmax gradient sums to 0"))
class Diagonal(Softmax):
    """Only the diagonal y (1 - y) of softmax's Jacobian, which is the derivative of the sigmoid"""

    def backward(self, dy):
        y = self.recall()
        return y * (1 - y) * dy                             # right: y * (dy - sum of dy y)


@bug("softmax-over-the-wrong-axis", "a version of krocki's NumPy Transformer",
     symptom="the columns of the weights sum to 1, the rows do not: a query's weights depend on later queries",
     training="ends slightly below the right one: later queries tell a little, and nothing looks wrong",
     caught_by=("softmax gradient sums to 0", "softmax reference", "softmax reference, large inputs", "causality",
                "key-value cache"))
class WrongAxis(Softmax):
    """The powers are summed over the queries, not over the keys"""

    def forward(self, x):
        y = np.exp(x)
        total = y.sum(-2, keepdims=True)                    # right: over the last axis
        y /= total + (total == 0)
        self.remember(y)
        return y

    def backward(self, dy):
        y = self.recall()
        return y * (dy - (dy * y).sum(-2, keepdims=True))


@bug("softmax-overflow",
     symptom="right for small scores; NaN once a score passes 709 in float64, 88 in float32",
     training="ends where the right one does: the scores stay small",
     caught_by=("softmax reference, large inputs",))
class Overflow(Softmax):
    """The row maximum is not subtracted before exp"""

    def forward(self, x):
        y = np.exp(x)                                       # right: exp(x - row maximum)
        total = y.sum(-1, keepdims=True)
        y /= total + (total == 0)
        self.remember(y)
        return y


@bug("empty-row-is-nan", "a version of AkiRusProd/numpy-transformer",
     symptom="a padded row, which may attend to nothing, gives NaN, and so does every mean over it",
     training="ends where the right one does: in these texts no row is empty",
     caught_by=("gradient check", "results are not overwritten", "forget", "eval is deterministic",
                "float32 agrees with float64", "used twice in one forward", "sequences are independent", "fully masked row"),
     samples=("Softmax", "ScaledDotProductAttention"))
class EmptyRowIsNaN(Softmax):
    """A row of -inf alone becomes -inf minus -inf"""

    def forward(self, x):
        y = np.exp(x - x.real.max(-1, keepdims=True))       # right: a maximum of -inf is not subtracted
        y /= y.sum(-1, keepdims=True)                       # and a sum of 0 does not divide
        self.remember(y)
        return y
