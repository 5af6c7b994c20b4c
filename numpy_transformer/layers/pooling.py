"""One vector for a whole sequence: the mean over its tokens."""

import numpy as np

from ..module import Module
from ..support.arguments import check_array, real_tokens


class MaskedMean(Module):
    """y = sum over the real tokens of x_t / their number; 0 where no token is real.

    Shape: x (..., T, D), real None (all are) or boolean (..., T), True = counts -> y (..., D)
    Backward: dx_t = dy / their number at the real tokens, exactly 0 at the others
    Raises: ValueError if `real` is not boolean or not of the shape of x without its last axis.
    Source: average pooling; with the padding left out: Reimers and Gurevych 2019, section 3.
    """

    def forward(self, x, real=None):
        check_array(self, x)
        real = np.ones(x.shape[:-1], bool) if real is None else real_tokens(real, x.shape[:-1])
        share = real / np.maximum(real.sum(-1, keepdims=True), 1).astype(x.real.dtype)      # (..., T)
        self.remember(share)
        return (share[..., None, :] @ x)[..., 0, :]

    def backward(self, dy):
        share = self.recall()
        return share[..., None] * dy[..., None, :]
