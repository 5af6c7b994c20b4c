"""What is known without computing it: zeros, sums, means, lengths, and answers at special inputs."""

import numpy as np

from ..layers import (CrossEntropyLoss, Embedding, FlashAttention, LayerNorm, LogSoftmax, MultiHeadAttention, RMSNorm,
                      RotaryEmbedding, ScaledDotProductAttention, SinusoidalPositionalEncoding, Softmax)
from ..module import Parameter
from .check import check, expect, expect_close, forward_and_backward, prepared
from .reference_attention import rotary
from .reference_layers import sinusoid


def expect_zero(what, values, scale):
    error = float(np.abs(values).max() / np.abs(scale).max())
    expect(error <= 1e-11, f"{what} should be 0, it is {error:.1e} of the largest gradient")


@check("softmax gradient sums to 0", Softmax, LogSoftmax)
def rows_of_a_softmax_gradient_sum_to_zero(module, *inputs):
    module, inputs = prepared(module, inputs)
    _, (dx,), _ = forward_and_backward(module, inputs)
    expect_zero("the sum of a row of dx", dx.sum(-1), dx)           # a constant on all scores changes nothing


@check("norm gradient orthogonal to x", LayerNorm, RMSNorm)
def the_gradient_of_a_norm_is_orthogonal_to_what_it_cannot_see(module, *inputs):
    """A longer x changes nothing, nor, for LayerNorm, a constant on all features."""
    module, inputs = prepared(module, inputs)
    module.eps = 0.0
    _, (dx,), _ = forward_and_backward(module, inputs)
    if isinstance(module, LayerNorm):
        expect_zero("the sum of a row of dx", dx.sum(-1), dx)
    expect_zero("dx x", (dx * inputs[0]).sum(-1), dx)


@check("constant row", LayerNorm, RMSNorm)
def a_row_without_variance_is_finite(module, x, *_):
    module, _ = prepared(module, (x,))
    y, (dx,), _ = forward_and_backward(module, [np.zeros(x.shape)])
    expect(np.isfinite(y).all() and np.isfinite(dx).all(), "a row of equal numbers gives what is not finite")


@check("large mean", LayerNorm)
def a_large_mean_is_taken_out_in_float32(module, *inputs):
    """x + 1024 is exact here: what differs is what the norm made of it."""
    module, (x,) = prepared(module, inputs, np.float32)
    x = np.round(64 * x) / 64
    expect_close("output of x + 1024", module.eval()(x + np.float32(1024)), module(x), 1e-3)


@check("key bias has no gradient", MultiHeadAttention,
       when=lambda module, *inputs: module.rotary is None and module.key.bias is not None)
def the_key_bias_has_no_gradient(module, *inputs):
    """It adds the same to all scores of a query, and softmax does not see that."""
    module, inputs = prepared(module, inputs)
    forward_and_backward(module, inputs)
    expect_zero("the gradient of key.bias", module.key.bias.grad, module.query.bias.grad)


@check("dlogits sum to 0", CrossEntropyLoss)
def rows_of_dlogits_sum_to_zero(criterion, *inputs):
    criterion, (logits, targets) = prepared(criterion, inputs)
    _, (dz,), _ = forward_and_backward(criterion, (logits, targets))
    expect_zero("the sum of a row of dlogits", dz.sum(-1), dz)
    expect(not dz[targets == criterion.ignore_id].any(), "an ignored target has a gradient")


@check("equal logits", CrossEntropyLoss)
def equal_logits_give_an_equal_share_minus_the_target(criterion, logits, targets):
    """All V classes are at 1/V: dlogits is (1 - smoothing) (1/V - onehot) over the count."""
    criterion, (logits, targets) = prepared(criterion, (logits * 0, targets))
    V, counted = logits.shape[-1], targets != criterion.ignore_id
    criterion(logits, targets)
    expect(criterion.count == counted.sum(), f"`count` is {criterion.count}, {counted.sum()} targets count")
    wanted = (1 - criterion.label_smoothing) * (1 / V - np.eye(V)[targets]) * counted[..., None] / counted.sum()
    expect_close("dlogits where all logits are 0", criterion.backward(), wanted)


ATTENTION = ScaledDotProductAttention, FlashAttention


@check("fully masked row", *ATTENTION, when=lambda module, *inputs: len(inputs) > 3)
def a_query_that_may_attend_to_nothing_gives_zero(module, *inputs):
    module, (q, k, v, _) = prepared(module, inputs)
    mask = np.ones((q.shape[-2], k.shape[-2]), bool)
    mask[1] = False
    y, gradients, _ = forward_and_backward(module, (q, k, v, mask))
    expect(not y[..., 1, :].any(), f"a query that may see nothing gives {y[..., 1, :].flat[0]:.2g} and not 0")
    expect(all(np.isfinite(g).all() for g in gradients) and not gradients[0][..., 1, :].any(),
           "a query that may see nothing has a gradient")


@check("zero query", *ATTENTION)
def a_query_of_zeros_takes_the_mean(module, *inputs):
    """All its scores are 0, so it weighs equally what it may see; a score of 0 is not a hidden one."""
    module, (q, k, v, *_) = prepared(module, inputs)
    T, S = q.shape[-2], k.shape[-2]
    mask = np.tri(T, S, S - T, dtype=bool)
    y = module.eval()(np.zeros_like(q), k, v, mask)
    group = q.shape[1] // k.shape[1]
    wanted = np.stack([v[..., :S - T + t + 1, :].mean(-2) for t in range(T)], -2).repeat(group, 1)
    expect_close("output of a query of zeros", y, wanted)


@check("rotary preserves lengths", RotaryEmbedding)
def a_rotation_keeps_lengths_and_backward_undoes_it(module, *inputs):
    module, (x, *offset) = prepared(module, inputs)
    y = module(x, *offset)
    expect_close("lengths after the rotation", np.linalg.norm(y, axis=-1), np.linalg.norm(x, axis=-1))
    expect_close("backward of forward", module.backward(y), x)      # the transpose of a rotation is its inverse


@check("rotary depends on distance", RotaryEmbedding)
def scores_depend_on_the_distance_alone(module, *inputs):
    module, (x, *_) = prepared(module, inputs)
    scores = [module.eval()(x, n) @ module(x[::-1], n).mT for n in (0, 7)]
    expect_close("scores of all tokens seven places later", scores[1], scores[0], 1e-9)


@check("distant positions", RotaryEmbedding, SinusoidalPositionalEncoding)
def far_positions_are_exact_in_float32(module, *inputs):
    """An angle of thousands has too few digits in float32: only its sine and cosine may be rounded."""
    module, (x, *_) = prepared(module, inputs, np.float32)
    module.max_len = 5000
    module.build_tables(np.float32)
    x, formula = x[..., :1, :], rotary if isinstance(module, RotaryEmbedding) else sinusoid
    expect_close("output at position 4000", module.eval()(x, 4000), formula(module, x, 4000), 1e-5)


@check("large vocabulary", Embedding)
def every_token_has_a_row_of_its_own(module, *_):
    """300 tokens: more than 8 bits can tell apart."""
    module.vocab_size, module.pad_id, module.factor = 300, None, 1.0
    module.weight = Parameter(np.random.default_rng(0).standard_normal((300, 4)))
    ids = np.arange(300)
    expect_close("rows of 300 tokens", module(ids), module.weight.data)
    module.backward(np.ones((300, 4)))
    expect_close("gradients of 300 tokens", module.weight.grad, np.ones((300, 4)))
