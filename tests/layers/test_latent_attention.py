"""Latent attention: its two forms are one function, its cache is as small as promised, and positions are relative."""

import math

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer.layers.token_positions import token_positions

D, H, LATENT, HEAD, ROTARY, VALUE = 12, 3, 7, 5, 4, 6
FORMS = nt.LatentAttention, nt.AbsorbedLatentAttention


def relative_error(a, b):
    return np.linalg.norm(a - b) / np.linalg.norm(b)


def attention(form, rotary=True, query=None, seed=0):
    """In float64, with random parameters: no gain of the norm is 1."""
    rotary = nt.RotaryEmbedding(ROTARY) if rotary else None
    layer = form(D, H, LATENT, HEAD, ROTARY, VALUE, rotary=rotary, query=query).astype(np.float64)
    rng = np.random.default_rng(seed)
    for parameter in layer.parameters():
        parameter.data = rng.standard_normal(parameter.data.shape) / math.sqrt(len(parameter.data))
    return layer


def low_rank_query():
    return nt.Sequential(nt.Linear(D, 5, False), nt.RMSNorm(5), nt.Linear(5, H * (HEAD + ROTARY), False))


@pytest.mark.parametrize("rotary, query", [(True, None), (False, None), (True, low_rank_query)])
@pytest.mark.parametrize("shape", [(2, 5, D), (5, D)])
def test_both_forms_have_the_same_outputs_and_gradients(rotary, query, shape):
    rng = np.random.default_rng(1)
    x, dy = rng.standard_normal((2, *shape))
    mask = rng.random((5, 5)) < 0.7
    mask[2] = False                                         # a query that may attend to nothing
    plain, absorbed = (attention(form, rotary, query and query()) for form in FORMS)
    outputs = [layer(x, mask) for layer in (plain, absorbed)]
    gradients = [layer.backward(dy) for layer in (plain, absorbed)]
    assert relative_error(*outputs) < 1e-12 and relative_error(*gradients) < 1e-12
    assert relative_error(plain.weights, absorbed.weights) < 1e-12
    assert not outputs[0][..., 2, :].any() and not outputs[1][..., 2, :].any()
    for (name, ours), theirs in zip(plain.named_parameters(), absorbed.parameters(), strict=True):
        assert np.linalg.norm(ours.grad) > 0.01 and relative_error(ours.grad, theirs.grad) < 1e-12, name


def test_the_absorbed_form_adds_to_a_gradient_that_is_there():
    layer = attention(nt.AbsorbedLatentAttention)
    x, dy = np.random.default_rng(2).standard_normal((2, 2, 5, D))
    for _ in range(2):
        layer(x)
        layer.backward(dy)
    twice = layer.up.weight.grad.copy()
    layer.zero_grad()
    layer(x)
    layer.backward(dy)
    assert relative_error(twice, 2 * layer.up.weight.grad) < 1e-12


@pytest.mark.parametrize("form", FORMS)
def test_scores_depend_on_distances_between_positions(form):
    layer = attention(form).eval()
    x = np.random.default_rng(3).standard_normal((2, 5, D))
    y = layer(x)
    with token_positions(np.arange(40, 45)):
        assert relative_error(layer(x), y) < 1e-12
    with token_positions(2 * np.arange(5)):
        assert relative_error(layer(x), y) > 1e-3


def model(form, rng=5):
    """A language model of two blocks with latent attention, in float64 and eval."""
    rng = np.random.default_rng(rng)
    blocks = [nt.Block(attention(form, seed=n), nt.SwiGLU(D, 16, rng=rng), nt.RMSNorm(D), nt.RMSNorm(D)) for n in range(2)]
    return nt.LanguageModel(nt.Embedding(11, D, rng=rng), nt.Stack(blocks, nt.RMSNorm(D)), nt.Linear(D, 11, False, rng),
                            max_len=12).astype(np.float64).eval()


NUMBERS_PER_TOKEN = {nt.LatentAttention: H * (HEAD + ROTARY + VALUE), nt.AbsorbedLatentAttention: LATENT + ROTARY}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("prompt", [1, 3, 8])
def test_a_cache_changes_no_logits_and_holds_this_many_numbers(form, prompt):
    decoder = model(form)
    rng = np.random.default_rng(prompt)
    ids, real = rng.integers(0, 11, (3, 12)), np.arange(12) >= np.array([[0], [prompt // 2], [prompt - 1]])
    whole = decoder(ids, real)
    cache, parts = nt.KeyValueCache(), []
    for new in (slice(0, prompt), slice(prompt, prompt + 1), slice(prompt + 1, prompt + 3), slice(prompt + 3, 12)):
        parts.append(decoder(ids[:, new], real[:, new], cache))
    assert relative_error(np.concatenate(parts, 1)[real], whole[real]) < 1e-12
    assert sum(kept.array.size for kept in cache.arrays.values()) == ids.size * 2 * NUMBERS_PER_TOKEN[form]
    assert len(cache.arrays) == {nt.LatentAttention: 4, nt.AbsorbedLatentAttention: 2}[form]
    cache.select(np.array([2, 0, 0]))
    assert all(len(kept.array) == 3 for kept in cache.arrays.values())


def test_parameters_go_from_one_form_to_the_other():
    """A model trained with LatentAttention decodes with AbsorbedLatentAttention."""
    trained, fast = (model(form, seed) for seed, form in zip((6, 7), FORMS))
    fast.load_state_dict(trained.state_dict())
    prompt = np.array([[1, 5, 3]])
    written = [nt.generate(decoder, prompt, 9, rng=8) for decoder in (trained, fast)]
    np.testing.assert_array_equal(*written)
    assert relative_error(fast(written[0]), trained(written[0])) < 1e-12


def test_a_width_that_is_not_positive_is_refused():
    with pytest.raises(ValueError, match="d_latent"):
        nt.LatentAttention(D, H, 0, HEAD, ROTARY)


@pytest.mark.parametrize("adapt", [
    lambda layer: nt.add_lora(layer, rank=2, targets=["up"], rng=0),
    lambda layer: nt.add_rounding(layer, lambda w: nt.round_to(w, "bfloat16"), targets=["up"])], ids=["lora", "rounding"])
def test_the_absorbed_form_refuses_a_weight_that_does_not_say_all(adapt):
    layer = nt.AbsorbedLatentAttention(12, 3, 6, 4, 4, rng=1)
    x = np.random.default_rng(2).normal(size=(2, 5, 12)).astype(np.float32)
    layer(x)
    adapt(layer)
    with pytest.raises(ValueError, match="adapt a LatentAttention"):
        layer(x)


def test_the_absorbed_form_takes_a_quantized_weight():
    rng = np.random.default_rng(3)
    forms = [nt.quantize(form(12, 3, 6, 4, 4, rng=1), 4, 3).astype(np.float64) for form in (nt.LatentAttention, nt.AbsorbedLatentAttention)]
    x = rng.normal(size=(2, 5, 12))
    first, second = (form(x) for form in forms)
    np.testing.assert_allclose(second, first, rtol=1e-11, atol=1e-12)
    dy = rng.normal(size=first.shape)
    np.testing.assert_allclose(forms[1].backward(dy), forms[0].backward(dy), rtol=1e-11, atol=1e-12)
