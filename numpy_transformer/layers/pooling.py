"""One vector for a whole sequence: the mean over its tokens."""

import numpy as np

from ..module import Module
from ..argument_checks import check_array, check_token_mask


class MaskedMean(Module):
    """y = sum over the real tokens of x_t / their number; 0 where no token is real.

    Shape: x (..., T, D), token_mask None (all are real) or boolean (..., T), True = counts -> y (..., D)
    Backward: dx_t = dy / their number at the real tokens, exactly 0 at the others
    Raises: ValueError if `token_mask` is not boolean or not of the shape of x without its last axis.
    Source: average pooling; with the padding left out: Reimers and Gurevych 2019, section 3.
    """

    def forward(self, x, token_mask=None):
        check_array(self, x)
        token_mask = np.ones(x.shape[:-1], bool) if token_mask is None else check_token_mask(token_mask, x.shape[:-1])
        weights = token_mask / np.maximum(token_mask.sum(-1, keepdims=True), 1).astype(x.real.dtype)      # (..., T)
        self.remember(weights)
        return (weights[..., None, :] @ x)[..., 0, :]

    def backward(self, dy):
        weights = self.recall()
        return weights[..., None] * dy[..., None, :]
