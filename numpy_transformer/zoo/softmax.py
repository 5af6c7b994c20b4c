"""Mistakes in the softmax: y = exp(x) / sum of exp(x), along each row."""

import numpy as np

from ..layers import Softmax
from .bug import HOBBY, bug


@bug("softmax-divided-by-the-batch", HOBBY,
     symptom="Queries and keys get 1/B of their gradient, values all of it. It is correct for a batch of one.",
     training="It falls late and ends far above the correct model.",
     caught_by=("gradient check", "sequences are independent", "doubled batch, model"))
class DividedByTheBatch(Softmax):
    """Softmax's backward divides by the batch size, as if there were a mean"""

    def backward(self, dy):
        return super().backward(dy) / len(dy)               # right: not divided


@bug("softmax-diagonal",
     symptom="The rows of dx do not sum to 0, because the effect on the other outputs is missing.",
     training="It falls late and ends far above the correct model.",
     caught_by=("gradient check", "softmax gradient sums to 0"))
class Diagonal(Softmax):
    """Backward uses only the diagonal y (1 - y) of the Jacobian, which is the derivative of the sigmoid"""

    def backward(self, dy):
        y = self.recall()
        return y * (1 - y) * dy                             # right: y * (dy - sum of dy y)


@bug("softmax-over-the-wrong-axis", HOBBY,
     symptom="The columns of the weights sum to 1, not the rows, so a query's weights depend on later queries.",
     training="It ends slightly below the correct model, because later queries give a little away. Nothing looks "
              "wrong.",
     caught_by=("softmax gradient sums to 0", "softmax reference", "softmax reference, large inputs", "causality",
                "key-value cache"))
class WrongAxis(Softmax):
    """The powers are summed over the queries instead of the keys"""

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
     symptom="It is correct for small scores. A score above 709 in float64, or above 88 in float32, gives NaN.",
     training="It ends where the correct model does, because the scores stay small.",
     caught_by=("softmax reference, large inputs",))
class Overflow(Softmax):
    """The row maximum is not subtracted before exp"""

    def forward(self, x):
        y = np.exp(x)                                       # right: exp(x - row maximum)
        total = y.sum(-1, keepdims=True)
        y /= total + (total == 0)
        self.remember(y)
        return y


@bug("empty-row-is-nan", HOBBY,
     symptom="A padding token, which may not attend to anything, gives NaN, and so does every mean that includes it.",
     training="It ends where the correct model does, because no row is fully masked in these texts.",
     caught_by=("gradient check", "results are not overwritten", "forget", "eval is deterministic",
                "float32 agrees with float64", "used twice in one forward", "sequences are independent",
                "fully masked row"),
     samples=("Softmax", "ScaledDotProductAttention"))
class EmptyRowIsNaN(Softmax):
    """A row of -inf only becomes -inf minus -inf"""

    def forward(self, x):
        y = np.exp(x - x.real.max(-1, keepdims=True))       # right: a maximum of -inf is not subtracted
        y /= y.sum(-1, keepdims=True)                       # and a sum of 0 does not divide
        self.remember(y)
        return y
