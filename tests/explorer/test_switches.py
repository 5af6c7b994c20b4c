"""Parts that are switched off compute what they say, and their backward passes the gradient check."""

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer.explorer import switches
from numpy_transformer.layers import CrossAttentionBlock

B, T, S, D, H, F = 2, 4, 3, 6, 2, 8


def draw(*shape):
    return np.random.default_rng(3).standard_normal(shape)


def block(cross=False, norm="pre"):
    made = nt.DecoderBlock(D, H, F, 0.0, norm, cross_attention=cross, rng=1)
    return made.astype(np.float64)


def inputs_of(part):
    x = draw(B, T, D)
    return (x, draw(B, S, D), nt.causal_mask(T)) if isinstance(part, CrossAttentionBlock) else (x, nt.causal_mask(T))


@pytest.mark.parametrize("module, shapes", [
    (switches.KeepHeads({1}), [(B, H, T, D)]), (switches.PassThrough(), [(T, D)]),
    (switches.WithoutResidual(), [(T, D), (T, D)])])
def test_the_small_components_pass_gradcheck(module, shapes):
    assert nt.gradcheck(module, *map(lambda shape: draw(*shape), shapes)).ok


def test_a_head_that_is_off_adds_nothing_and_learns_nothing():
    attention = nt.SelfAttention(D, H, rng=1).astype(np.float64)
    x = draw(B, T, D)
    plain = attention(x)
    attention.forget()
    d = D // H
    per_head = attention.attention(*(layer(x).reshape(B, T, H, d).swapaxes(1, 2)
                                     for layer in (attention.query, attention.key, attention.value)))
    switches.switch_head_off(attention, 1)
    y = attention.forget()(x)
    expected = per_head[:, 0] @ attention.output.weight.data[:d] + attention.output.bias.data
    assert np.allclose(y, expected, atol=1e-13) and not np.allclose(y, plain)
    attention.zero_grad()
    attention.backward(draw(B, T, D))
    assert (attention.query.weight.grad[:, d:] == 0).all() and (attention.query.weight.grad[:, :d] != 0).any()
    assert nt.gradcheck(attention, x).ok


@pytest.mark.parametrize("switch, expected", [
    (switches.switch_mask_off, lambda q, k, v, mask: nt.ScaledDotProductAttention()(q, k, v)),
    (switches.switch_scale_off, lambda q, k, v, mask: nt.ScaledDotProductAttention()(q * np.sqrt(q.shape[-1]), k, v, mask))])
@pytest.mark.parametrize("make", [nt.ScaledDotProductAttention, lambda: nt.FlashAttention(2)])
def test_mask_and_scale_of_the_scores(switch, expected, make):
    attention = make()
    q, k, v, mask = *draw(3, B, H, T, D), nt.causal_mask(T)
    switch(attention)
    assert np.allclose(attention(q, k, v, mask), expected(q, k, v, mask), atol=1e-13)
    assert nt.gradcheck(attention.forget(), q, k, v, mask, directions=3).ok


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("cross", [False, True])
def test_a_block_that_is_off_returns_its_input(norm, cross):
    part = block(cross, norm)
    switches.switch_block_off(part)
    x, *others = inputs_of(part)
    assert np.array_equal(part(x, *others), x)
    gradients = part.backward(x)
    dx = gradients[0] if cross else gradients
    assert np.array_equal(dx, x) and all((parameter.grad == 0).all() for parameter in part.parameters())
    if cross:
        assert np.array_equal(gradients[1], np.zeros((B, S, D)))


@pytest.mark.parametrize("norm", ["pre", pytest.param("post", marks=pytest.mark.slow)])
@pytest.mark.parametrize("cross, sublayer", [(False, "attention"), (False, "feed_forward"), (True, "attention"),
                                             (True, "cross_attention"), (True, "feed_forward")])
def test_a_residual_that_is_off_is_left_out_and_passes_gradcheck(norm, cross, sublayer):
    part = block(cross, norm)
    x, *others = inputs_of(part)
    expected = formula(part, x, *others, off=sublayer)
    switches.switch_residual_off(part, sublayer)
    assert np.allclose(part(x, *others), expected, atol=1e-13)
    assert nt.gradcheck(part.forget(), x, *others, directions=2).ok


def formula(part, x, *others, off):
    """The block as its docstring describes it, without one of the residuals."""
    mask = others[-1]
    part.eval()
    sublayers = [("attention", lambda x: part.attention(x, mask))]
    if len(others) == 2:
        sublayers.append(("cross_attention", lambda x: part.cross_attention(x, others[0])))
    sublayers.append(("feed_forward", part.feed_forward))
    for number, (name, f) in enumerate(sublayers, 1):
        norm = getattr(part, f"norm{number}")
        through = 0 if name == off else x
        x = through + f(norm(x)) if part.pre_norm else norm(through + f(x))
    part.train()
    return x


def test_switches_of_one_block_add_up():
    part = block()
    switches.switch_residual_off(part, "attention")
    switches.switch_residual_off(part, "feed_forward")
    x, mask = inputs_of(part)
    part.eval()
    y = part.feed_forward(part.norm2(part.attention(part.norm1(x), mask)))
    assert np.allclose(part(x, mask), y, atol=1e-13)
    switches.switch_block_off(part)
    assert np.array_equal(part(x, mask), x)
