"""Mistakes in LayerNorm: y = γ x̂ + β, x̂ = (x - μ) / sqrt(σ² + eps)."""

import numpy as np

from ..layers import LayerNorm
from .bug import HOBBY, Source, bug


def mean(x):
    return x.mean(-1, keepdims=True)


class PlainLayerNorm(LayerNorm):
    """LayerNorm in its shortest correct form. Bugs override `normalize` or `input_gradient`."""

    def forward(self, x):
        x_hat, inverse_std = self.normalize(x)
        self.remember(x_hat, inverse_std)
        return x_hat * self.gamma.data + (0 if self.beta is None else self.beta.data)

    def backward(self, dy):
        x_hat, inverse_std = self.recall()
        axes = tuple(range(dy.ndim - 1))
        self.gamma.grad += (dy * x_hat).sum(axes)
        if self.beta is not None:
            self.beta.grad += dy.sum(axes)
        return self.input_gradient(dy, x_hat, inverse_std)

    def normalize(self, x):
        inverse_std = 1 / np.sqrt(mean((x - mean(x)) ** 2) + self.eps)
        return (x - mean(x)) * inverse_std, inverse_std

    def input_gradient(self, dy, x_hat, inverse_std):
        g = self.gamma.data * dy
        return (g - mean(g) - x_hat * mean(g * x_hat)) * inverse_std


@bug("gamma-outside-the-means", HOBBY,
     symptom="A check before training passes, because then every γ is 1.",
     training="It ends where the correct model does, because every γ stays near 1.",
     caught_by=("gradient check", "norm gradient orthogonal to x"))
class GammaOutside(PlainLayerNorm):
    """γ is moved out of the two means in LayerNorm's backward"""

    def input_gradient(self, dy, x_hat, inverse_std):
        dx = dy - mean(dy) - x_hat * mean(dy * x_hat)       # right: the means are those of γ dy
        return self.gamma.data * dx * inverse_std


@bug("statistics-as-constants",
     Source("MLSysBook/TinyTorch", "c4d0bdb", "src/13_transformers/13_transformers.py", "LayerNorm.forward"),
     symptom="dx keeps components along 1 and along x that the norm should remove.",
     training="It falls late and ends far above the correct model.",
     caught_by=("gradient check", "norm gradient orthogonal to x"))
class StatisticsAsConstants(PlainLayerNorm):
    """Mean and variance are constants in backward, because the graph was cut there"""

    def input_gradient(self, dy, x_hat, inverse_std):
        return self.gamma.data * dy * inverse_std           # right: minus the two means


@bug("mean-path-missing", HOBBY,
     symptom="The rows of dx do not sum to 0.",
     training="It ends where the correct model does.",
     caught_by=("gradient check", "norm gradient orthogonal to x"))
class MeanPathMissing(PlainLayerNorm):
    """The gradient's path through the mean is computed but not used"""

    def input_gradient(self, dy, x_hat, inverse_std):
        g = self.gamma.data * dy
        return (g - x_hat * mean(g * x_hat)) * inverse_std  # right: minus mean(g) as well


@bug("normalized-over-time", HOBBY,
     symptom="Each token's output depends on all tokens of its sequence, including later ones.",
     training="It falls early, since it sees a little of the future, and ends above the correct model.",
     caught_by=("norm gradient orthogonal to x", "layer norm reference", "causality", "padding", "key-value cache"))
class NormalizedOverTime(PlainLayerNorm):
    """One mean and one variance are used for a whole sequence instead of one per token"""

    def normalize(self, x):
        x = x - x.mean((-2, -1), keepdims=True)             # right: over the last axis only
        inverse_std = 1 / np.sqrt((x * x).mean((-2, -1), keepdims=True) + self.eps)
        return x * inverse_std, inverse_std

    def input_gradient(self, dy, x_hat, inverse_std):
        g = self.gamma.data * dy
        both = g.mean((-2, -1), keepdims=True) + x_hat * (g * x_hat).mean((-2, -1), keepdims=True)
        return (g - both) * inverse_std


@bug("two-kinds-of-eps", HOBBY,
     symptom="Gradients are wrong in the fifth digit, and in the first one where a row hardly varies.",
     training="It ends where the correct model does.",
     caught_by=("gradient check", "layer norm reference"))
class TwoKindsOfEps(PlainLayerNorm):
    """Forward divides by std + eps, backward by sqrt(var + eps)"""

    def normalize(self, x):
        variance = mean((x - mean(x)) ** 2)
        return (x - mean(x)) / (np.sqrt(variance) + self.eps), 1 / np.sqrt(variance + self.eps)     # right: the latter


@bug("variance-over-n-minus-1",
     Source("harvardnlp/annotated-transformer", "debc9fd", "the_annotated_transformer.py", "line 326", "issue 122"),
     symptom="Outputs are smaller by sqrt((n - 1) / n), so weights from other libraries give different results.",
     training="It ends where the correct model does.",
     caught_by=("layer norm reference",))
class VarianceOverNMinus1(PlainLayerNorm):
    """The variance is divided by n - 1, as in the unbiased estimate"""

    def normalize(self, x):
        variance = ((x - mean(x)) ** 2).sum(-1, keepdims=True) / (x.shape[-1] - 1)      # right: / x.shape[-1]
        inverse_std = 1 / np.sqrt(variance + self.eps)
        return (x - mean(x)) * inverse_std, inverse_std

    def input_gradient(self, dy, x_hat, inverse_std):
        g = self.gamma.data * dy
        n = dy.shape[-1]
        return (g - mean(g) - x_hat * (g * x_hat).sum(-1, keepdims=True) / (n - 1)) * inverse_std


@bug("variance-as-a-difference",
     symptom="In float32 it is wrong for tokens whose mean is large compared with their variance, and can even become "
             "negative.",
     training="It ends where the correct model does, because no token has a large mean.",
     caught_by=("large mean",))
class VarianceAsADifference(PlainLayerNorm):
    """The variance is computed as the mean of x² minus the square of the mean"""

    def normalize(self, x):
        inverse_std = 1 / np.sqrt(mean(x * x) - mean(x) ** 2 + self.eps)        # right: the mean of (x - mean)²
        return (x - mean(x)) * inverse_std, inverse_std


@bug("no-eps", HOBBY,
     symptom="A token whose features are all equal becomes NaN, and soon everything does.",
     training="It ends where the correct model does, because no token has features that are all equal.",
     caught_by=("constant row", "layer norm reference", "everything dropped"))
class NoEps(PlainLayerNorm):
    """Nothing is added to the variance before the division"""

    def normalize(self, x):
        inverse_std = 1 / np.sqrt(mean((x - mean(x)) ** 2))                     # right: + eps inside the root
        return (x - mean(x)) * inverse_std, inverse_std
