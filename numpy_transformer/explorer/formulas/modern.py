"""Formulas of the parts of current models that consist of no other components."""

from ...layers import (Bias, ClassToken, Identity, Patches, SeparateSinusoids, Sigmoid, SinkSoftmax, SinkWindow, SoftCap,
                       SymmetricWindow, UnitOffsetRMSNorm)
from .layers import position_of_token
from .normalization import top_of_row
from .writers import lines, spells


@spells(Identity)
def identity(op):
    yield "y[...] = x[...]"
    yield "dx[...] = dy[...]"


@spells(SoftCap)
def soft_cap(op):
    op.name(cap=op.module.cap)
    yield "y[...] = cap * tanh(x[...] / cap)"
    yield "dx[...] = dy[...] * (1 - (y[...] / cap) ** 2)"


@spells(Sigmoid)
def sigmoid(op):
    yield "y[...] = 1 / (1 + exp(-x[...]))"
    yield "dx[...] = dy[...] * y[...] * (1 - y[...])"


@spells(UnitOffsetRMSNorm)
def unit_offset_norm(op):
    op.name(eps=op.module.eps)
    normalized = """
        rms[...] = sqrt(mean(j, x[..., j] ** 2) + eps)
        x_hat[..., i] = x[..., i] / rms[...]
    """
    yield lines(normalized, "y[..., i] = (1 + gamma[i]) * x_hat[..., i]")
    yield lines(normalized, "dgamma[i] = sum(..., dy[..., i] * x_hat[..., i])")
    yield lines(normalized, """
        g[..., i] = (1 + gamma[i]) * dy[..., i]
        via_rms[..., i] = x_hat[..., i] * mean(j, g[..., j] * x_hat[..., j])
        dx[..., i] = (g[..., i] - via_rms[..., i]) / rms[...]
    """)


@spells(SinkSoftmax)
def softmax_with_sink(op):
    total = "total[..., h, t] = exp(sinks[h]) + sum(j, exp(x[..., h, t, j]))"
    if top_of_row(op.arrays["x"], "x"):
        return                                  # exp would overflow here; the numbers of the page are those of the component
    yield lines(total, "y[..., h, t, i] = exp(x[..., h, t, i]) / total[..., h, t]")
    yield "dx[..., h, t, i] = y[..., h, t, i] * (dy[..., h, t, i] - sum(j, dy[..., h, t, j] * y[..., h, t, j]))"
    yield lines(total, "dsinks[h] = -sum(..., t, j, exp(sinks[h]) / total[..., h, t] * dy[..., h, t, j] * y[..., h, t, j])")


@spells(SymmetricWindow)
def symmetric_window(op):
    """The queries are the last tokens: query t is token t + before."""
    T, S = op.shape("scores")[-2:]
    op.name(before=S - T, window=op.module.window)
    near = "abs(t + before - j) < window"
    yield f"y[..., t, j] = scores[..., t, j] if {near} else -inf"
    yield f"dscores[..., t, j] = dy[..., t, j] if {near} else 0"


@spells(Bias)
def bias(op):
    yield "y[..., i] = x[..., i] + bias[i]"
    yield "dx[...] = dy[...]"
    yield "dbias[i] = sum(..., dy[..., i])"


@spells(SeparateSinusoids)
def separate_sinusoids(op):
    op.name(D=op.module.d_model, sines=(op.module.d_model + 1) // 2)
    yield f"""
        angle[..., t, i] = {position_of_token(op)} / 10000 ** (2 * i / D)
        y[..., t, c] = x[..., t, c] + (sin(angle[..., t, c]) if c < sines else cos(angle[..., t, c - sines]))
    """
    yield "dx[..., t, c] = dy[..., t, c]"


@spells(ClassToken)
def class_token(op):
    yield "y[..., t, c] = weight[c] if t == 0 else x[..., t - 1, c]"
    yield "dweight[c] = sum(..., dy[..., 0, c])"
    yield "dx[..., t, c] = dy[..., t + 1, c]"


@spells(Patches)
def patches(op):
    """Entry k of patch n is a pixel of channel k // (p q), in row k // q % p and column k % q of the patch."""
    p, q = op.module.patch
    op.name(p=p, q=q, columns=op.shape("x")[-1] // q)
    yield "y[..., n, k] = x[..., k // (p * q), n // columns * p + k // q % p, n % columns * q + k % q]"
    yield "dx[..., c, a, b] = dy[..., a // p * columns + b // q, (c * p + a % p) * q + b % q]"


@spells(SinkWindow)
def sink_window(op):
    """The queries are the last tokens: query t is token t + before."""
    T, S = op.shape("scores")[-2:]
    op.name(before=S - T, window=op.module.window, sinks=op.module.num_sinks)
    near = "t + before - j < window"
    yield f"y[..., t, j] = scores[..., t, j] if j < sinks else (scores[..., t, j] if {near} else -inf)"
    yield f"dscores[..., t, j] = dy[..., t, j] if j < sinks else (dy[..., t, j] if {near} else 0)"
