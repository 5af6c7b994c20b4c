"""Mistakes in LayerNorm: y = γ x̂ + β, x̂ = (x - μ) / sqrt(σ² + eps)."""

import numpy as np

from ..layers import LayerNorm
from .bug import bug


def mean(x):
    return x.mean(-1, keepdims=True)


def learn(norm, dy, x_hat):
    """What no mistake here changes: the gradients of γ and β."""
    axes = tuple(range(dy.ndim - 1))
    norm.gamma.grad += (dy * x_hat).sum(axes)
    norm.beta.grad += dy.sum(axes)


@bug("gamma-outside-the-means", "a version of AkiRusProd/numpy-transformer",
     symptom="a check at the start passes, since there all γ are 1",
     training="ends where the right one does: the γ stay near 1",
     caught_by=("gradient check", "norm gradient orthogonal to x"))
class GammaOutside(LayerNorm):
    """γ is taken out of the two means of LayerNorm's backward"""

    def backward(self, dy):
        x_hat, inverse_std = self.recall()
        learn(self, dy, x_hat)
        dx = dy - mean(dy) - x_hat * mean(dy * x_hat)
        return self.gamma.data * dx * inverse_std           # right: the means are those of γ dy


@bug("statistics-as-constants", "a version of TinyTorch",
     symptom="dx keeps parts along 1 and along x that the norm takes out",
     training="falls late, and ends far above the right one",
     caught_by=("gradient check", "norm gradient orthogonal to x"))
class StatisticsAsConstants(LayerNorm):
    """Mean and variance are constants in backward: the graph was cut there"""

    def backward(self, dy):
        x_hat, inverse_std = self.recall()
        learn(self, dy, x_hat)
        return dy * self.gamma.data * inverse_std           # right: minus the two means


@bug("mean-path-missing", "a version of naye971012/numpy_transformer",
     symptom="the rows of dx do not sum to 0",
     training="ends where the right one does",
     caught_by=("gradient check", "norm gradient orthogonal to x"))
class MeanPathMissing(LayerNorm):
    """The gradient's path through the mean is computed, and then not used"""

    def backward(self, dy):
        x_hat, inverse_std = self.recall()
        learn(self, dy, x_hat)
        g = dy * self.gamma.data
        return (g - x_hat * mean(g * x_hat)) * inverse_std  # right: minus mean(g), too


@bug("normalized-over-time", "a version of naye971012/numpy_transformer",
     symptom="each token's output depends on all tokens of its sequence, also on later ones",
     training="falls early, since it sees a little of the future, and ends above the right one",
     caught_by=("norm gradient orthogonal to x", "layer norm loop", "causality", "padding", "key-value cache"))
class NormalizedOverTime(LayerNorm):
    """One mean and one variance for a whole sequence, not for each token"""

    def forward(self, x):
        x_hat = x - x.mean((-2, -1), keepdims=True)         # right: over the last axis alone
        inverse_std = 1 / np.sqrt((x_hat * x_hat).mean((-2, -1), keepdims=True) + self.eps)
        x_hat *= inverse_std
        self.remember(x_hat, inverse_std)
        return x_hat * self.gamma.data + self.beta.data

    def backward(self, dy):
        x_hat, inverse_std = self.recall()
        learn(self, dy, x_hat)
        g = dy * self.gamma.data
        both = g.mean((-2, -1), keepdims=True) + x_hat * (g * x_hat).mean((-2, -1), keepdims=True)
        return (g - both) * inverse_std


@bug("two-kinds-of-eps", "a version of arpita's NumPy Transformer",
     symptom="gradients are wrong in the fifth digit, in the first one where a row hardly varies",
     training="ends where the right one does",
     caught_by=("gradient check", "layer norm loop"))
class TwoKindsOfEps(LayerNorm):
    """Forward divides by std + eps, backward by sqrt(var + eps)"""

    def forward(self, x):
        centred = x - mean(x)
        variance = mean(centred * centred)
        self.remember(centred / np.sqrt(variance + self.eps), 1 / np.sqrt(variance + self.eps))
        return centred / (np.sqrt(variance) + self.eps) * self.gamma.data + self.beta.data      # another divisor


@bug("variance-over-n-minus-1", "a version of the annotated Transformer",
     symptom="outputs are smaller by sqrt((n - 1) / n); weights of other libraries give other numbers",
     training="ends where the right one does",
     caught_by=("layer norm loop",))
class VarianceOverNMinus1(LayerNorm):
    """The variance is divided by n - 1, as a statistician's estimate is"""

    def forward(self, x):
        x_hat, n = x - mean(x), x.shape[-1]
        inverse_std = 1 / np.sqrt((x_hat * x_hat).sum(-1, keepdims=True) / (n - 1) + self.eps)      # right: / n
        x_hat *= inverse_std
        self.remember(x_hat, inverse_std)
        return x_hat * self.gamma.data + self.beta.data

    def backward(self, dy):
        x_hat, inverse_std = self.recall()
        learn(self, dy, x_hat)
        g, n = dy * self.gamma.data, dy.shape[-1]
        return (g - mean(g) - x_hat * (g * x_hat).sum(-1, keepdims=True) / (n - 1)) * inverse_std


@bug("no-eps", "a version of rziga/numpy-is-all-you-need",
     symptom="a token whose features are all equal becomes NaN, and soon everything",
     training="ends where the right one does: no token has features that are all equal",
     caught_by=("constant row", "layer norm loop"))
class NoEps(LayerNorm):
    """Nothing is added to the variance before the division"""

    def forward(self, x):
        x_hat = x - mean(x)
        inverse_std = 1 / np.sqrt(mean(x_hat * x_hat))      # right: + eps inside the root
        x_hat *= inverse_std
        self.remember(x_hat, inverse_std)
        return x_hat * self.gamma.data + self.beta.data
