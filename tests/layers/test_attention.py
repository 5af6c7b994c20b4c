"""Attention: extreme scores, rows where everything is hidden, shapes. test_contract.py compares it with plain loops."""

import math

import numpy as np
import pytest
from helpers.floating_point import no_floating_point_errors

import numpy_transformer as nt
from numpy_transformer.layers.multi_head import add_qkv_bias

B, T, S, H, d, e = 3, 5, 7, 4, 6, 2


def draw(seed=0, dtype=np.float64, groups=H):
    rng = np.random.default_rng(seed)
    q, k, v = (rng.standard_normal((B, H, T, d)), rng.standard_normal((B, groups, S, d)),
               rng.standard_normal((B, groups, S, e)))
    mask = rng.random((B, H, T, S)) < 0.6
    mask[..., 0] = True
    return q.astype(dtype), k.astype(dtype), v.astype(dtype), mask


def by_loops(q, k, v, mask):
    """One query at a time, with Python's own exp."""
    y, p = np.zeros((*q.shape[:3], v.shape[-1])), np.zeros((*q.shape[:3], k.shape[2]))
    for b, h, t in np.ndindex(q.shape[:3]):
        g = h * k.shape[1] // q.shape[1]
        weights = [math.exp(sum(map(float, q[b, h, t] * k[b, g, s])) / math.sqrt(q.shape[-1]))
                   if mask[b, h, t, s] else 0.0 for s in range(k.shape[2])]
        for s, weight in enumerate(weights):
            p[b, h, t, s] = weight / sum(weights)
            y[b, h, t] += p[b, h, t, s] * v[b, g, s]
    return y, p


def test_hidden_keys_have_weight_exactly_zero_and_rows_sum_to_one():
    q, k, v, mask = draw(dtype=np.float32)
    attention = nt.ScaledDotProductAttention()
    attention(q, k, v, mask)
    assert (attention.weights[~mask] == 0).all() and (attention.weights[mask] > 0).all()
    np.testing.assert_allclose(attention.weights.sum(-1), 1, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_query_that_may_attend_to_nothing_gives_zero_and_takes_no_gradient(dtype):
    q, k, v, mask = draw(dtype=dtype)
    mask[1, 2, 3] = False
    mask[0] = False
    attention = nt.ScaledDotProductAttention()
    with no_floating_point_errors(under="warn"):
        y = attention(q, k, v, mask)
        dq, dk, dv = attention.backward(np.ones_like(y))
    assert (y[1, 2, 3] == 0).all() and (y[0] == 0).all() and (y[2] != 0).any()
    assert (dq[1, 2, 3] == 0).all() and not dq[0].any() and not dk[0].any() and not dv[0].any()
    assert all(np.isfinite(x).all() for x in (y, dq, dk, dv)) and dq[2].any() and dk[2].any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_of_ten_thousand_neither_overflow_nor_leak(dtype):
    """A mask of -1e4 or -1e9 added to the scores would lose against these."""
    q, k, v, mask = draw(dtype=dtype)
    q *= 1e4 / abs(q @ k.mT).max() * math.sqrt(d)
    scores = (q @ k.mT) / math.sqrt(d)
    assert abs(scores).max() == pytest.approx(1e4, rel=1e-4)
    attention = nt.ScaledDotProductAttention()
    with no_floating_point_errors():
        y = attention(q, k, v, mask)
        gradients = attention.backward(np.ones_like(y))
    assert (attention.weights[~mask] == 0).all()
    np.testing.assert_array_equal(attention.weights.argmax(-1), np.where(mask, scores, -np.inf).argmax(-1))
    assert all(np.isfinite(g).all() for g in gradients)


def test_the_weights_are_those_before_dropout():
    q, k, v, mask = draw()
    attention = nt.ScaledDotProductAttention(0.5, rng=0)
    attention(q, k, v, mask)
    np.testing.assert_allclose(attention.weights, by_loops(q, k, v, mask)[1], atol=1e-12)


def test_the_weights_are_read_only():
    q, k, v, mask = draw()
    attention = nt.ScaledDotProductAttention()
    attention(q, k, v, mask)
    with pytest.raises(ValueError, match="read-only"):
        attention.weights[...] = 0


def test_the_values_of_a_hidden_key_do_not_matter():
    q, k, v, mask = draw()
    mask[:, :, :, 4] = False
    attention = nt.ScaledDotProductAttention()
    y = attention(q, k, v, mask)
    k[:, :, 4], v[:, :, 4] = 1e6, -1e6
    np.testing.assert_array_equal(attention(q, k, v, mask), y)


def test_unbatched_input_gives_the_row_of_the_batch():
    rng = np.random.default_rng(0)
    layer = nt.SelfAttention(12, 2, num_kv_heads=1, rotary=nt.RotaryEmbedding(6), rng=rng)
    x = rng.standard_normal((B, T, 12)).astype(np.float32)
    y = layer(x, nt.causal_mask(T))
    np.testing.assert_allclose(layer(x[1], nt.causal_mask(T)), y[1], atol=1e-6)
    assert layer.weights.shape == (2, T, T)


@pytest.mark.parametrize("arguments, match", [
    ((10, 3), "d_model = 10 is not divisible by num_heads = 3"),
    ((12, 4, 3), "num_heads = 4 is not divisible by num_kv_heads = 3"),
    ((12, 0), "num_heads must be a whole number of at least 1"),
])
def test_sizes_that_do_not_divide_are_refused(arguments, match):
    with pytest.raises(ValueError, match=match):
        nt.MultiHeadAttention(*arguments)


def test_a_given_head_width_need_not_divide_d_model():
    layer = add_qkv_bias(nt.MultiHeadAttention(10, 4, 2, bias=False, rng=0, d_head=6))
    shapes = {name: parameter.data.shape for name, parameter in layer.named_parameters()}
    assert shapes == {"query.weight": (10, 24), "query.bias": (24,), "key.weight": (10, 12), "key.bias": (12,),
                      "value.weight": (10, 12), "value.bias": (12,), "output.weight": (24, 10)}
    for d_head in (0, 2.0, True):
        with pytest.raises(ValueError, match=f"d_head must be a whole number of at least 1, got {d_head}"):
            nt.MultiHeadAttention(10, 4, d_head=d_head)
    with pytest.raises(ValueError, match="d_head = 4, got shape"):
        nt.SelfAttention(10, 4, rotary=nt.RotaryEmbedding(4), d_head=6)(np.ones((2, 3, 10)))


def test_both_attentions_of_a_block_have_its_head_width_and_no_biases():
    model = nt.EncoderDecoder(9, 9, 10, 4, num_layers=1, d_ff=6, bias=False, d_head=6)
    for part in (model.decoder.blocks[0].attention, model.decoder.blocks[0].cross_attention):
        assert part.key.weight.data.shape == (10, 24) and part.key.bias is None and part.output.bias is None


def test_by_default_all_biases_follow_bias():
    for options, with_bias in (({}, "query key value output"), ({"bias": False}, "")):
        layer = nt.SelfAttention(12, 2, rng=0, **options)
        assert [name for name in ("query", "key", "value", "output")
                if getattr(layer, name).bias is not None] == with_bias.split()


@pytest.mark.parametrize("shapes", [
    ((B, H, T, d), (B, H, S, d + 1), (B, H, S, e)), ((B, H, T, d), (B, H, S, d), (B, H, S + 1, e)),
    ((B, H, T, d), (B, 3, S, d), (B, 3, S, e)), ((B, H, T, d), (B + 1, H, S, d), (B + 1, H, S, e)),
])
def test_shapes_that_do_not_fit_together_are_refused(shapes):
    with pytest.raises(ValueError, match="do not fit together"):
        nt.ScaledDotProductAttention()(*map(np.zeros, shapes))


def test_weights_of_an_earlier_call_stay_as_they_were():
    attention = nt.ScaledDotProductAttention()
    rng = np.random.default_rng(0)
    attention(*rng.standard_normal((3, 2, 1, 4, 6)))
    first = attention.weights
    kept = first.copy()
    attention(*rng.standard_normal((3, 2, 1, 4, 6)))
    np.testing.assert_array_equal(first, kept)
    assert not np.shares_memory(first, attention.weights)
