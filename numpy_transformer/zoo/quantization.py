"""Mistakes in layers with rounded weights."""

import numpy as np

from ..layers import QuantizedLinear, StraightThroughLinear
from .bug import bug


@bug("scales-of-other-groups",
     symptom="Forward and backward agree, so every gradient is right, but the weights are those of another layer.",
     training="It ends where the correct model does, because the quantized weights are those of an untrained model.",
     caught_by=("linear reference", "quantized linear reference",))
class ScalesOfOtherGroups(QuantizedLinear):
    """The scales are tiled over the rows, so row i gets the scale of group i mod the number of groups"""

    def dequantized(self):
        codes, largest = self.weight.codes, self.weight.largest
        scales = np.tile(largest, (len(codes) // len(largest), 1))      # right: np.repeat(largest, group, axis=0)
        return codes * scales / (2 ** (self.weight.bits - 1) - 1)


@bug("rounding-differentiated",
     symptom="The weights never move, because the derivative of rounding is 0 almost everywhere.",
     training="It stays near 1.8, because only embeddings, norms and biases are trained.",
     caught_by=("doubled batch, model", "gradient check"))
class RoundingDifferentiated(StraightThroughLinear):
    """Backward goes through the rounding, whose derivative is 0, instead of straight through it"""

    def backward(self, dy):
        dx = super().backward(dy)
        self.weight.grad = 0                                # right: xᵀ dy, as if the rounding were the identity
        return dx


@bug("masters-in-backward",
     symptom="dx belongs to weights that forward has not used; it is off by as much as the rounding.",
     training="It learns a little more slowly at first, and ends where the correct model does.",
     caught_by=("gradient check",))
class MastersInBackward(StraightThroughLinear):
    """dx is computed with the float32 weights, although forward used the rounded ones"""

    def backward(self, dy):
        x, _ = self.recall()
        self.remember(x, self.weight.data)                  # right: R(W), as in forward
        return super().backward(dy)
