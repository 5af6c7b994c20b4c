"""Formulas of what works along one axis: norms, softmax and the mean over tokens."""

import numpy as np

from ...layers import FirstToken, LayerNorm, LogSoftmax, MaskedMean, RMSNorm, Softmax
from .writers import lines, spells

LARGE = 300                                         # exp of larger scores, or their sum, could overflow


@spells(LayerNorm)
def layer_norm(op):
    op.name(eps=op.module.eps)
    normalized = """
        mu[...] = mean(j, x[..., j])
        sigma[...] = sqrt(mean(j, (x[..., j] - mu[...]) ** 2) + eps)
        x_hat[..., i] = (x[..., i] - mu[...]) / sigma[...]
    """
    beta = " + beta[i]" if op.has("beta") else ""
    yield lines(normalized, f"y[..., i] = gamma[i] * x_hat[..., i]{beta}")
    yield lines(normalized, "dgamma[i] = sum(..., dy[..., i] * x_hat[..., i])")
    yield "dbeta[i] = sum(..., dy[..., i])"
    yield lines(normalized, """
        g[..., i] = gamma[i] * dy[..., i]
        via_mu[...] = mean(j, g[..., j])
        via_sigma[..., i] = x_hat[..., i] * mean(j, g[..., j] * x_hat[..., j])
        dx[..., i] = (g[..., i] - via_mu[...] - via_sigma[..., i]) / sigma[...]
    """)


@spells(RMSNorm)
def rms_norm(op):
    op.name(eps=op.module.eps)
    normalized = """
        rms[...] = sqrt(mean(j, x[..., j] ** 2) + eps)
        x_hat[..., i] = x[..., i] / rms[...]
    """
    yield lines(normalized, "y[..., i] = gamma[i] * x_hat[..., i]")
    yield lines(normalized, "dgamma[i] = sum(..., dy[..., i] * x_hat[..., i])")
    yield lines(normalized, """
        g[..., i] = gamma[i] * dy[..., i]
        via_rms[..., i] = x_hat[..., i] * mean(j, g[..., j] * x_hat[..., j])
        dx[..., i] = (g[..., i] - via_rms[..., i]) / rms[...]
    """)


@spells(Softmax)
def softmax(op):
    x = op.arrays["x"]
    shift = top_of_row(x, "x")
    minus_top = " - top[...]" if shift else ""
    quotient = f"exp(x[..., i]{minus_top}) / sum(j, exp(x[..., j]{minus_top}))"
    if has_empty_row(x):
        quotient += " if max(j, x[..., j]) > -inf else 0"
    yield lines(shift, f"y[..., i] = {quotient}")
    yield "dx[..., i] = y[..., i] * (dy[..., i] - sum(j, dy[..., j] * y[..., j]))"


@spells(LogSoftmax)
def log_softmax(op):
    shift = top_of_row(op.arrays["x"], "x")
    minus_top = " - top[...]" if shift else ""
    yield lines(shift, f"y[..., i] = x[..., i]{minus_top} - log(sum(j, exp(x[..., j]{minus_top})))")
    yield "dx[..., i] = dy[..., i] - exp(y[..., i]) * sum(j, dy[..., j])"


def top_of_row(scores, name):
    """Returns the line that defines the maximum of each row, or "" where exp needs no maximum subtracted."""
    top = scores.max(-1)
    if (np.abs(top[np.isfinite(top)]) < LARGE).all():
        return ""
    return f"top[...] = max(j, {name}[..., j])"


def has_empty_row(scores):
    """Returns True if all scores of some row are -inf, as those of a query that may attend to nothing."""
    return bool(np.isneginf(scores).all(-1).any())


@spells(MaskedMean)
def masked_mean(op):
    if not op.has("token_mask"):
        op.name(T=op.shape("x")[-2])
        yield "y[..., c] = mean(t, x[..., t, c])"
        yield "dx[..., t, c] = dy[..., c] / T"
        return
    count = "count[...] = sum(t, 1, where=token_mask[..., t])"
    empty = " if count[...] > 0 else 0" if not op.arrays["token_mask"].any(-1).all() else ""
    yield lines(count, f"y[..., c] = sum(t, x[..., t, c], where=token_mask[..., t]) / count[...]{empty}")
    yield lines(count, "dx[..., t, c] = dy[..., c] / count[...] if token_mask[..., t] else 0")


@spells(FirstToken)
def first_token(op):
    yield "y[..., c] = x[..., 0, c]"
    yield "dx[..., t, c] = dy[..., c] if t == 0 else 0"
