"""Block-sparse attention against plain attention with the expanded layout, and what it does not compute."""

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer.layers import block_sparse

B, H, G, D, E = 2, 4, 2, 3, 5


def draw(T, S, seed=0):
    rng = np.random.default_rng(seed)
    shapes = (B, H, T, D), (B, G, S, D), (B, G, S, E), (B, H, T, E)
    return [rng.standard_normal(shape) for shape in shapes]


def both(attention, q, k, v, dy, mask):
    return [attention(q, k, v, mask), *attention.backward(dy)]


@pytest.mark.parametrize("T, S, size", [(12, 12, 3), (11, 11, 4), (4, 11, 3), (1, 9, 2), (5, 5, 8)])
@pytest.mark.parametrize("causal", [False, True])
def test_it_is_attention_with_the_expanded_layout(T, S, size, causal):
    rng = np.random.default_rng(1)
    layout = rng.random((6, 6)) < 0.5
    seen = layout.repeat(size, 0).repeat(size, 1)[S - T:S, :S]
    given = nt.causal_mask(T, S - T) & (rng.random((B, 1, 1, S)) < 0.8) if causal else None
    whole = seen[None, None] if given is None else given & seen
    q, k, v, dy = draw(T, S)
    ours = both(nt.BlockSparseAttention(layout, size), q, k, v, dy, given)
    for found, expected in zip(ours, both(nt.ScaledDotProductAttention(), q, k, v, dy, whole)):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
    by_function = both(nt.BlockSparseAttention(lambda i, j: layout[i, j], size), q, k, v, dy, given)
    assert all(np.array_equal(found, again) for found, again in zip(ours, by_function))


def test_only_the_scores_of_the_layout_are_computed(monkeypatch):
    computed = []
    original = block_sparse.exp_and_sum
    monkeypatch.setattr(block_sparse, "exp_and_sum", lambda scores: computed.append(scores.shape[-2:]) or original(scores))
    layout = np.array([[1, 0, 0, 0], [0, 0, 0, 0], [1, 0, 1, 0], [1, 0, 1, 1]]) == 1
    q, k, v, _ = draw(14, 14)
    y = nt.BlockSparseAttention(layout, 4)(q, k, v)
    assert computed == [(4, 4), (4, 8), (2, 10)]            # block 1 sees nothing; the last block has two tokens
    assert not y[:, :, 4:8].any()


def test_a_model_with_a_cache_sees_the_same_blocks():
    model = nt.CausalLanguageModel(11, 12, 2, 2, max_len=20, rng=0, attention=lambda sizes, rng: nt.BlockSparseAttention(
        lambda i, j: (j == 0) | (i == j), 4)).astype(np.float64).eval()
    ids = np.random.default_rng(2).integers(0, 11, (2, 18))
    whole, cache = model(ids), nt.KeyValueCache()
    chunks = [model(ids[:, start:start + 5], cache=cache) for start in range(0, 18, 5)]
    np.testing.assert_allclose(np.concatenate(chunks, 1), whole, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("make, error, named", [
    (lambda: nt.BlockSparseAttention(np.eye(3), 2), TypeError, "boolean.*float64"),
    (lambda: nt.BlockSparseAttention(np.ones((2, 3, 3), bool), 2), ValueError, r"\(2, 3, 3\)"),
    (lambda: nt.BlockSparseAttention(np.ones((3, 3), bool), 0), ValueError, "block_size must be"),
    (lambda: nt.BlockSparseAttention(np.ones((3, 3), bool), 2)(*draw(7, 7)[:3]), ValueError, r"4 blocks of 2 .*\(3, 3\).*larger"),
    (lambda: nt.BlockSparseAttention(np.ones((3, 3), bool), 2)(*draw(5, 4)[:3]), ValueError, "T = 5 .* S = 4 .*at least T"),
    (lambda: nt.BlockSparseAttention(lambda i, j: i - j, 2)(*draw(4, 4)[:3]), TypeError, "boolean.*int64"),
])
def test_what_does_not_fit_is_refused(make, error, named):
    with pytest.raises(error, match=named):
        make()
