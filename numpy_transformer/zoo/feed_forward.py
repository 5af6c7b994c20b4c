"""Mistakes in the position-wise layers: Linear, the activations, dropout."""

import numpy as np

from ..layers import GELU, Dropout, Linear, ReLU
from .bug import bug


@bug("gradient-overwritten", "the first version of micrograd",
     symptom="right where a layer is used once; of several uses, or of accumulated batches, the last one counts",
     training="exactly the same losses: each layer is used once, and gradients are cleared at each step",
     caught_by=("gradients accumulate", "used twice in one forward"))
class Overwritten(Linear):
    """The gradient is assigned, not added"""

    def backward(self, dy):
        self.weight.grad = 0                                # right: what is there stays
        if self.bias is not None:
            self.bias.grad = 0
        return super().backward(dy)


@bug("relu-changes-its-input", "a version of ZouJiu1's NumPy Transformer",
     symptom="whoever else holds the array (a residual, a norm's memory) finds its negative numbers gone",
     training="exactly the same losses: here nobody else holds what it changes",
     caught_by=("gradient check", "arguments unchanged"), samples=("ReLU", "language model, sinusoidal"))
class ChangesItsInput(ReLU):
    """The zeros are written into the caller's array"""

    def forward(self, x):
        self.remember(x.real > 0)
        x[x.real < 0] = 0                                   # right: np.maximum(x, 0)
        return x


@bug("gelu-of-two-kinds",
     symptom="gradients are wrong by a few parts in ten thousand, whatever the step of the differences",
     training="ends where the right one does",
     caught_by=("gradient check",))
class TwoKinds(GELU):
    """Forward is the exact GELU, backward that of the tanh approximation"""

    def value_and_slope(self, x):
        value, _ = super().value_and_slope(x)
        _, slope = GELU("tanh").value_and_slope(x)          # right: the same in both
        return value, slope


@bug("dropout-with-one-slot", "a version of AkiRusProd/numpy-transformer",
     symptom="right alone; where one dropout serves two sublayers, the second mask overwrites the first",
     training="ends where the right one does, or slightly above: a tenth of the entries is dropped",
     caught_by=("gradient check", "saved values released", "forget", "used twice in one forward"))
class OneSlot(Dropout):
    """One place for the mask, and several forwards before the first backward"""

    def forward(self, x):
        self._scale = self.draw(x) if self.training and self.p else 1.0         # right: self.remember(...)
        return x * self._scale

    def backward(self, dy):
        return dy * self._scale


@bug("dropout-scaled-in-eval", "a version of AkiRusProd/numpy-transformer",
     symptom="nothing is dropped in eval, yet every activation is larger than in training",
     training="exactly the same losses: in training nothing is wrong",
     caught_by=("dropout is the identity in eval",))
class ScaledInEval(Dropout):
    """The factor 1 / (1 - p) stays in eval"""

    def forward(self, x):
        y = super().forward(x)
        return y if self.training else y / (1 - self.p)     # right: x

    def backward(self, dy):
        dx = super().backward(dy)
        return dx if self.training else dx / (1 - self.p)


@bug("dropout-in-eval", "a version of Ultron09/Numpy-Transformer",
     symptom="the same text gets other logits at every call",
     training="exactly the same losses: in training nothing is wrong",
     caught_by=("eval is deterministic", "sequences are independent", "dropout is the identity in eval",
                "state dict round trip", "doubled batch, model", "causality", "padding", "key-value cache"))
class DropsInEval(Dropout):
    """There is no switch: dropout stays on when the model writes"""

    def forward(self, x):
        scale = self.draw(x)                                # right: only in training
        self.remember(scale)
        return x * scale


@bug("dropout-divided-by-p", "a version of naye971012/numpy_transformer",
     symptom="the mean of ones becomes (1 - p) / p: 4 for p = 0.2, 9 for p = 0.1",
     training="falls, and ends above the right one: the model copes with activations that are nine times too large",
     caught_by=("dropout keeps the mean",))
class DividedByP(Dropout):
    """What stays is divided by p, the probability of being dropped"""

    def draw(self, x):
        return super().draw(x) * ((1 - self.p) / self.p)    # right: / (1 - p)
