"""One vector for a whole sequence: the mean over its real tokens, or the vector of its first token."""

import numpy as np

from ..argument_checks import check_array, check_token_mask
from ..module import Module


class MaskedMean(Module):
    """The mean of x_t over the real tokens; zeros if no token is real.

    Shape: x (..., T, D), token_mask None (all are real) or boolean (..., T), True marks a real token -> y (..., D)
    Backward: dx_t = dy / (number of real tokens) at the real tokens, exactly 0 at the others
    Raises: ValueError if token_mask is not boolean, or does not have the shape of x without its last axis.
    Source: average pooling; without the padding tokens: Reimers and Gurevych 2019, section 3.
    """

    def forward(self, x: np.ndarray, token_mask: np.ndarray | None = None) -> np.ndarray:
        check_array(self, x)
        if token_mask is None:
            token_mask = np.ones(x.shape[:-1], bool)
        token_mask = check_token_mask(token_mask, x.shape[:-1])
        count = np.maximum(token_mask.sum(-1, keepdims=True), 1).astype(x.real.dtype)
        weights = token_mask / count                                        # (..., T)
        self.remember(weights)
        return (weights[..., None, :] @ x)[..., 0, :]

    def backward(self, dy: np.ndarray) -> np.ndarray:
        weights = self.recall()
        return weights[..., None] * dy[..., None, :]


class FirstToken(Module):
    """y = x_0, the vector of the first token, where BERT has its [CLS].

    Shape: x (..., T, D), token_mask=None -> y (..., D). The mask is accepted so that this can take the place of
        MaskedMean, but it is not read: pad on the right, because padding on the left would come first.
    Backward: dx_0 = dy, exactly 0 at the other tokens
    Raises: ValueError if token_mask is not boolean, or does not have the shape of x without its last axis.
    Source: Devlin et al. 2019, section 3.
    """

    def forward(self, x: np.ndarray, token_mask: np.ndarray | None = None) -> np.ndarray:
        check_array(self, x)
        if token_mask is not None:
            check_token_mask(token_mask, x.shape[:-1])
        self.remember(x.shape)
        return x[..., 0, :]

    def backward(self, dy: np.ndarray) -> np.ndarray:
        dx = np.zeros(self.recall(), dy.dtype)
        dx[..., 0, :] = dy
        return dx


POOLINGS = {"mean": MaskedMean, "first": FirstToken}
