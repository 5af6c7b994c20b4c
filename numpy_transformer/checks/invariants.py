"""Checks of properties that follow from the formula: zeros, sums, means, lengths, and results for special inputs."""

import numpy as np

from ..layers import (CrossEntropyLoss, Embedding, FlashAttention, LayerNorm, LogSoftmax, MultiHeadAttention, RMSNorm,
                      RotaryEmbedding, ScaledDotProductAttention, SinkSoftmax, SinusoidalPositionalEncoding, Softmax)
from ..module import Parameter
from .check import check, expect, expect_close, forward_and_backward, prepared
from .reference_attention import rotary
from .reference_layers import sinusoid


def expect_zero(what, values, scale):
    error = float(np.abs(values).max() / np.abs(scale).max())
    expect(error <= 1e-11, f"{what} should be 0, but it is {error:.1e} of the largest gradient")


@check("softmax gradient sums to 0", Softmax, LogSoftmax)
def each_row_of_a_softmax_gradient_sums_to_zero(module, *inputs):
    module, inputs = prepared(module, inputs)
    _, (dx,), _ = forward_and_backward(module, inputs)
    expect_zero("the sum of a row of dx", dx.sum(-1), dx)           # softmax ignores a constant in all scores


@check("norm gradient orthogonal to x", LayerNorm, RMSNorm)
def the_gradient_of_a_norm_is_orthogonal_to_what_it_removes(module, *inputs):
    """Scaling x does not change the output, nor does adding a constant to all features of a LayerNorm's input."""
    module, inputs = prepared(module, inputs)
    module.eps = 0.0
    _, (dx,), _ = forward_and_backward(module, inputs)
    if isinstance(module, LayerNorm):
        expect_zero("the sum of a row of dx", dx.sum(-1), dx)
    expect_zero("dx · x", (dx * inputs[0]).sum(-1), dx)


@check("constant row", LayerNorm, RMSNorm)
def a_row_without_variance_is_finite(module, x, *_):
    module, _ = prepared(module, (x,))
    y, (dx,), _ = forward_and_backward(module, [np.zeros(x.shape)])
    expect(np.isfinite(y).all() and np.isfinite(dx).all(), "a row of equal numbers gives NaN or infinity")


@check("large mean", LayerNorm)
def a_large_mean_is_removed_exactly_in_float32(module, *inputs):
    """x is rounded so that x + 1024 is exact: any difference comes from the norm."""
    module, (x,) = prepared(module, inputs, np.float32)
    x = np.round(64 * x) / 64
    expect_close("output of x + 1024", module.eval()(x + np.float32(1024)), module(x), 1e-3)


@check("key bias has no gradient", MultiHeadAttention,
       when=lambda module, *inputs: module.rotary is None and module.key.bias is not None)
def the_key_bias_has_no_gradient(module, *inputs):
    """It adds the same number to all scores of a query, and softmax ignores such a constant."""
    module, inputs = prepared(module, inputs)
    forward_and_backward(module, inputs)
    expect_zero("the gradient of key.bias", module.key.bias.grad, module.query.bias.grad)


@check("dlogits sum to 0", CrossEntropyLoss)
def each_row_of_dlogits_sums_to_zero(criterion, *inputs):
    criterion, (logits, targets) = prepared(criterion, inputs)
    _, (dz,), _ = forward_and_backward(criterion, (logits, targets))
    expect_zero("the sum of a row of dlogits", dz.sum(-1), dz)
    expect(not dz[targets == criterion.ignore_id].any(), "an ignored target has a gradient")


@check("equal logits", CrossEntropyLoss)
def the_gradient_at_equal_logits_is_uniform_minus_onehot(criterion, logits, targets):
    """Every class has probability 1/V, so dlogits is (1 - smoothing) (1/V - onehot) / count."""
    criterion, (logits, targets) = prepared(criterion, (logits * 0, targets))
    V = logits.shape[-1]
    counted = targets != criterion.ignore_id
    criterion(logits, targets)
    expect(criterion.count == counted.sum(), f"`count` is {criterion.count}, but {counted.sum()} targets count")
    wanted = (1 - criterion.label_smoothing) * (1 / V - np.eye(V)[targets]) * counted[..., None] / counted.sum()
    expect_close("dlogits for equal logits", criterion.backward(), wanted)


ATTENTION = ScaledDotProductAttention, FlashAttention


@check("fully masked row", *ATTENTION, when=lambda module, *inputs: len(inputs) > 3)
def a_fully_masked_query_gives_zero(module, *inputs):
    module, (q, k, v, _) = prepared(module, inputs)
    mask = np.ones((q.shape[-2], k.shape[-2]), bool)
    mask[1] = False
    y, gradients, _ = forward_and_backward(module, (q, k, v, mask))
    expect(not y[..., 1, :].any(), f"a fully masked query gives {y[..., 1, :].flat[0]:.2g} instead of 0")
    expect(all(np.isfinite(g).all() for g in gradients) and not gradients[0][..., 1, :].any(),
           "a fully masked query has a nonzero gradient")


def has_sink(attention):
    """Returns True if the weights of a query need not sum to 1, because a sink may take some."""
    return isinstance(getattr(attention, "softmax", None), SinkSoftmax)


@check("zero query", *ATTENTION,
       when=lambda module, *inputs: not getattr(module, "score_changes", []) and not has_sink(module))
def a_query_of_zeros_gives_the_mean_of_visible_values(module, *inputs):
    """All its scores are 0, so the visible keys have equal weights. A score of 0 does not mean hidden."""
    module, (q, k, v, *_) = prepared(module, inputs)
    T, S = q.shape[-2], k.shape[-2]
    mask = np.tri(T, S, S - T, dtype=bool)
    y = module.eval()(np.zeros_like(q), k, v, mask)
    group = q.shape[1] // k.shape[1]
    wanted = np.stack([v[..., :S - T + t + 1, :].mean(-2) for t in range(T)], -2).repeat(group, 1)
    expect_close("output of a query of zeros", y, wanted)


@check("rotary preserves lengths", RotaryEmbedding)
def a_rotation_preserves_lengths_and_backward_undoes_it(module, *inputs):
    module, (x, *offset) = prepared(module, inputs)
    y = module(x, *offset)
    expect_close("lengths after the rotation", np.linalg.norm(y, axis=-1), np.linalg.norm(x, axis=-1))
    expect_close("backward of forward", module.backward(y), x)      # the transpose of a rotation is its inverse


@check("rotary depends on distance", RotaryEmbedding)
def scores_depend_on_the_distance_only(module, *inputs):
    module, (x, *_) = prepared(module, inputs)
    scores = [module.eval()(x, n) @ module(x[::-1], n).mT for n in (0, 7)]
    expect_close("scores with all tokens shifted by seven positions", scores[1], scores[0], 1e-9)


@check("distant positions", RotaryEmbedding, SinusoidalPositionalEncoding)
def distant_positions_are_accurate_in_float32(module, *inputs):
    """Float32 has too few digits for an angle of thousands, so only its sine and cosine may be rounded."""
    module, (x, *_) = prepared(module, inputs, np.float32)
    module.max_len = 5000
    module.build_tables(np.float32)
    x = x[..., :1, :]
    formula = rotary if isinstance(module, RotaryEmbedding) else sinusoid
    expect_close("output at position 4000", module.eval()(x, 4000), formula(module, x, 4000), 1e-5)


@check("large vocabulary", Embedding)
def every_token_has_its_own_row(module, *_):
    """Uses 300 tokens, more than 8 bits can distinguish."""
    module.vocab_size, module.pad_id, module.factor = 300, None, 1.0
    module.weight = Parameter(np.random.default_rng(0).standard_normal((300, 4)))
    ids = np.arange(300)
    expect_close("rows of 300 tokens", module(ids), module.weight.data)
    module.backward(np.ones((300, 4)))
    expect_close("gradients of 300 tokens", module.weight.grad, np.ones((300, 4)))
