"""Mistakes in the position-wise layers: Linear, the activations, dropout."""

import numpy as np

from ..layers import GELU, Dropout, Linear, ReLU
from .bug import HOBBY, Source, bug


@bug("gradient-overwritten",
     Source("nn-zero-to-hero", path="lectures/micrograd/micrograd_lecture_second_half_roughly.ipynb",
            place="Value.exp in the recorded lecture", reference="issue 52"),
     symptom="It is correct where a layer is used once. Of several uses, or of accumulated batches, only the last one "
             "counts.",
     training="The losses are exactly the same, because each layer is used once and gradients are cleared at each "
              "step.",
     caught_by=("gradients accumulate", "used twice in one forward"))
class Overwritten(Linear):
    """The gradient is assigned instead of added"""

    def backward(self, dy):
        self.weight.grad = 0                                # right: not reset
        if self.bias is not None:
            self.bias.grad = 0
        return super().backward(dy)


@bug("relu-changes-its-input", HOBBY,
     symptom="Anything else that holds the array, such as a residual or a norm's saved input, loses its negative "
             "numbers.",
     training="The losses are exactly the same, because nothing else holds the array here.",
     caught_by=("gradient check", "arguments unchanged"), samples=("ReLU", "language model, sinusoidal"))
class ChangesItsInput(ReLU):
    """The zeros are written into the caller's array"""

    def forward(self, x):
        self.remember(x.real > 0)
        x[x.real < 0] = 0                                   # right: np.maximum(x, 0)
        return x


@bug("gelu-of-two-kinds",
     symptom="Gradients are wrong by a few parts in ten thousand, however small the step of the finite differences is.",
     training="It ends where the correct model does.",
     caught_by=("gradient check",))
class TwoKinds(GELU):
    """Forward is the exact GELU, backward belongs to the tanh approximation"""

    def value_and_slope(self, x):
        value, *_ = super().value_and_slope(x)
        _, slope = GELU("tanh").value_and_slope(x)          # right: the same kind in both
        return value, slope


@bug("dropout-with-one-slot", HOBBY,
     symptom="It is correct for one use. If two sublayers share a dropout, the second mask overwrites the first.",
     training="It ends where the correct model does or slightly above, because only a tenth of the entries is dropped.",
     caught_by=("gradient check", "saved values released", "forget", "used twice in one forward"))
class OneSlot(Dropout):
    """There is one slot for the mask, but several forwards before the first backward"""

    def forward(self, x):
        self._scale = self.draw(x) if self.training and self.p else 1.0         # right: self.remember(...)
        return x * self._scale

    def backward(self, dy):
        return dy * self._scale


@bug("dropout-scaled-in-eval", HOBBY,
     symptom="Nothing is dropped in eval mode, but every activation is larger than in training.",
     training="The losses are exactly the same, because training mode is correct.",
     caught_by=("dropout is the identity in eval",))
class ScaledInEval(Dropout):
    """The factor 1 / (1 - p) is also applied in eval mode"""

    def forward(self, x):
        y = super().forward(x)
        return y if self.training else y / (1 - self.p)     # right: x

    def backward(self, dy):
        dx = super().backward(dy)
        return dx if self.training else dx / (1 - self.p)


@bug("dropout-in-eval", HOBBY,
     symptom="The same text gets different logits at every call.",
     training="The losses are exactly the same, because training mode is correct.",
     caught_by=("eval is deterministic", "sequences are independent", "dropout is the identity in eval",
                "state dict round trip", "doubled batch, model", "causality", "padding", "key-value cache"))
class DropsInEval(Dropout):
    """There is no eval mode, so dropout is also active when the model generates text"""

    def forward(self, x):
        scale = self.draw(x)                                # right: only in training
        self.remember(scale)
        return x * scale


@bug("dropout-divided-by-p", HOBBY,
     symptom="The mean of ones becomes (1 - p) / p, which is 4 for p = 0.2 and 9 for p = 0.1.",
     training="It falls, although activations are nine times too large, and ends above the correct model.",
     caught_by=("dropout keeps the mean",))
class DividedByP(Dropout):
    """What remains is divided by p, the probability of being dropped"""

    def draw(self, x):
        return super().draw(x) * ((1 - self.p) / self.p)    # right: / (1 - p)
