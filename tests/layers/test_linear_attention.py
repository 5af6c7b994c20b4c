"""Linear attention: the running state against the weights, the length of a state, and masks that a state cannot follow."""

import numpy as np
import pytest

import numpy_transformer as nt

B, H, G, D, E = 2, 4, 2, 3, 5


def draw(T, S, seed=0):
    rng = np.random.default_rng(seed)
    shapes = (B, H, T, D), (B, G, S, D), (B, G, S, E), (B, H, T, E)
    return [rng.standard_normal(shape) for shape in shapes]


def both(attention, q, k, v, dy, mask):
    return [attention(q, k, v, mask), *attention.backward(dy)]


@pytest.mark.parametrize("T, S", [(9, 9), (4, 9), (1, 6)])
def test_the_state_gives_what_the_weights_give(T, S):
    keep = np.random.default_rng(1).random((B, 1, 1, S)) < 0.7
    causal = nt.causal_mask(T, S - T)
    arrays = draw(T, S)
    for given, whole in ((None, causal), (keep, causal & keep), (causal & keep, causal & keep)):
        ours = both(nt.RecurrentLinearAttention(), *arrays, given)
        for found, expected in zip(ours, both(nt.LinearAttention(), *arrays, whole)):
            np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)


def test_it_is_attention_with_the_logarithms_of_the_similarities_as_scores():
    q, k, v, _ = draw(6, 8)
    def positive(x):
        return np.maximum(x, 0) + np.exp(np.minimum(x, 0))
    scores = np.log(positive(q) @ positive(k.repeat(H // G, 1)).mT)
    expected = nt.Softmax()(scores) @ v.repeat(H // G, 1)
    np.testing.assert_allclose(nt.LinearAttention()(q, k, v), expected, rtol=1e-12)


def test_a_query_that_sees_nothing_gives_zero_and_no_gradient():
    mask = np.ones((5, 5), bool)
    mask[2] = False
    attention = nt.LinearAttention()
    y, dq, dk, dv = both(attention, *draw(5, 5), mask)
    assert not y[:, :, 2].any() and not dq[:, :, 2].any() and all(np.isfinite(x).all() for x in (dk, dv))
    assert not attention.weights[:, :, 2].any()


def test_large_numbers_stay_finite_in_float32():
    q, k, v, dy = (x.astype(np.float32) * 1000 for x in draw(5, 5))
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        for attention in (nt.LinearAttention(), nt.RecurrentLinearAttention()):
            found = both(attention, q, k, v, dy, None)
            assert all(np.isfinite(x).all() and x.dtype == np.float32 for x in found)


def test_a_model_reads_a_text_in_parts():
    model = nt.CausalLanguageModel(11, 12, 2, 2, max_len=20, rng=0,
                                   attention=lambda sizes, rng: nt.RecurrentLinearAttention()).astype(np.float64).eval()
    ids = np.random.default_rng(2).integers(0, 11, (2, 18))
    whole, cache = model(ids), nt.KeyValueCache()
    chunks = [model(ids[:, start:start + 5], cache=cache) for start in range(0, 18, 5)]
    np.testing.assert_allclose(np.concatenate(chunks, 1), whole, rtol=1e-10, atol=1e-12)


def test_a_mask_that_hides_a_key_from_some_queries_is_refused():
    mask = nt.causal_mask(5)[0, 0].copy()
    mask[3, 1] = False
    with pytest.raises(ValueError, match="hides a key from some of the queries.*use LinearAttention"):
        nt.RecurrentLinearAttention()(*draw(5, 5)[:3], mask)
    with pytest.raises(ValueError, match="T = 5 queries but S = 4 keys.*at least T"):
        nt.RecurrentLinearAttention()(*draw(5, 4)[:3])
