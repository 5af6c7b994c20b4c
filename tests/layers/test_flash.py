"""FlashAttention against the plain one and against NumPy's own softmax in float64, and what it never holds."""

import tracemalloc

import numpy as np
import pytest
from helpers.floating_point import no_floating_point_errors

import numpy_transformer as nt
from numpy_transformer import FlashAttention

B, T, S, H, d, e = 3, 70, 79, 4, 6, 5
BLOCKS = [1, 7, 16, 64, 79, 200]                # 7 and 16 do not divide S, 200 is larger


def draw(shape=(B, H, T), groups=2, keys=S, dtype=np.float64, seed=0):
    """q, k, v and dy, whose heads lie in memory as split_heads leaves them."""
    rng = np.random.default_rng(seed)
    *batch, heads, rows = shape if len(shape) > 1 else (1, *shape)
    sizes = (rows, heads, d), (keys, groups, d), (keys, groups, e), (rows, heads, e)
    arrays = [rng.standard_normal((*batch, *size)).astype(dtype).swapaxes(-3, -2) for size in sizes]
    return arrays if len(shape) > 1 else [x[0] for x in arrays]


def both(module, q, k, v, dy, mask=None):
    return [module(q, k, v, mask), *module.backward(dy)]


def by_definition(q, k, v, dy, mask):
    """Output and gradients head by head in float64, the derivative of softmax as its whole Jacobian."""
    q, k, v, dy = (x.astype(np.float64) for x in (q, k, v, dy))
    y, dq, dk, dv = np.zeros_like(dy), np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    mask = np.broadcast_to(mask, (*q.shape[:-1], k.shape[-2]))
    for b, h, t in np.ndindex(q.shape[:3]):
        g, seen, scale = h // (q.shape[1] // k.shape[1]), np.flatnonzero(mask[b, h, t]), 1 / np.sqrt(q.shape[-1])
        if seen.size:
            scores = [np.dot(q[b, h, t], k[b, g, s]) * scale for s in seen]
            p = np.exp(np.array(scores) - max(scores))
            p /= p.sum()
            y[b, h, t] = sum(p[i] * v[b, g, s] for i, s in enumerate(seen))
            ds = (np.diag(p) - np.outer(p, p)) @ [np.dot(dy[b, h, t], v[b, g, s]) for s in seen]
            for i, s in enumerate(seen):
                dv[b, g, s] += p[i] * dy[b, h, t]
                dk[b, g, s] += ds[i] * q[b, h, t] * scale
                dq[b, h, t] += ds[i] * k[b, g, s] * scale
    return y, dq, dk, dv


def close(found, expected, dtype=np.float64):
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    for x, y in zip(found, expected, strict=True):
        assert x.dtype == dtype
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def random_mask(*shape, seed=1):
    """With a query that sees nothing and one that sees the last key alone; of a single row, without the first keys."""
    mask = np.random.default_rng(seed).random(shape) < 0.6
    if shape[-2] == 1:
        mask[..., :20] = False
    else:
        mask[..., 2, :] = False
        mask[..., -2, :] = np.arange(shape[-1]) == shape[-1] - 1
    return mask


def causal(T, S):
    return nt.causal_mask(T, S - T)


@pytest.mark.parametrize("block_size", [1, 3, 64])
@pytest.mark.parametrize("is_causal", [False, True])
def test_equals_the_definition(block_size, is_causal):
    arrays = draw((2, H, 6), keys=8)
    mask = random_mask(2, H, 6, 8)
    expected = by_definition(*arrays, mask & causal(6, 8) if is_causal else mask)
    close(both(FlashAttention(block_size, is_causal), *arrays, mask), expected)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("block_size", BLOCKS)
@pytest.mark.parametrize("is_causal", [False, True])
def test_equals_the_plain_one_for_every_block_size(block_size, is_causal, dtype):
    arrays = draw(dtype=dtype)
    mask = causal(T, S) if is_causal else None
    close(both(FlashAttention(block_size, is_causal), *arrays), both(nt.ScaledDotProductAttention(), *arrays, mask),
          dtype)


@pytest.mark.parametrize("T, S", [(300, 300), (200, 333), (1, 9), (5, 5)])
@pytest.mark.parametrize("block_size", [32, 300])
def test_the_diagonal_ends_at_the_last_key(T, S, block_size):
    """Rows are taken in blocks too, 64 or more at a time: these sizes need several of them."""
    arrays = draw((B, H, T), keys=S)
    close(both(FlashAttention(block_size, causal=True), *arrays),
          both(nt.ScaledDotProductAttention(), *arrays, causal(T, S)))


@pytest.mark.parametrize("groups", [H, 2, 1])
@pytest.mark.parametrize("shape", [(B, H, T, S), (1, H, T, S), (B, 1, T, S), (1, 1, T, S), (T, S), (B, 1, 1, S),
                                   (1, H, 1, S), (1, S)], ids=str)
@pytest.mark.parametrize("is_causal", [False, True])
def test_masks_of_every_shape_hide_the_same_keys(shape, groups, is_causal):
    arrays, mask = draw(groups=groups), random_mask(*shape)
    whole = mask & causal(T, S) if is_causal else mask
    close(both(FlashAttention(16, is_causal), *arrays, mask), both(nt.ScaledDotProductAttention(), *arrays, whole))


@pytest.mark.parametrize("shape", [(T,), (H, T)])
@pytest.mark.parametrize("mask", [None, (T, S), (1, 1, T, S)])
def test_unbatched(shape, mask):
    arrays = draw(shape)
    mask = mask and random_mask(*mask)
    close(both(FlashAttention(16), *arrays, mask), both(nt.ScaledDotProductAttention(), *arrays, mask))


def test_a_sequence_without_heads_may_be_causal_and_padded():
    arrays = draw((T,))
    mask = np.arange(S)[None] > 4
    close(both(FlashAttention(16, causal=True), *arrays, mask),
          both(nt.ScaledDotProductAttention(), *arrays, mask & causal(T, S)[0, 0]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("is_causal", [False, True])
def test_a_query_that_may_attend_to_nothing_gives_zero_and_takes_no_gradient(dtype, is_causal):
    q, k, v, dy = draw(dtype=dtype, groups=H)
    mask = random_mask(B, H, T, S)
    mask[1, 2, 3], mask[0], mask[2, :, :, :40] = False, False, False
    with no_floating_point_errors(under="warn"):
        y, dq, dk, dv = both(FlashAttention(16, is_causal), q, k, v, dy, mask)
    assert not y[1, 2, 3].any() and not y[0].any() and y[2].any()
    assert not dq[1, 2, 3].any() and not dq[0].any() and not dk[0].any() and not dv[0].any()
    assert not dk[2, :, :40].any() and not dv[2, :, :40].any()
    assert all(np.isfinite(x).all() for x in (y, dq, dk, dv)) and dq[2].any() and dk[2].any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0, -2e4, 2e4])
def test_scores_of_ten_thousand_neither_overflow_nor_leak(dtype, offset):
    """All scores may also lie far below or above zero: what was never seen must not count as a score of 0."""
    q, k, v, dy = draw(dtype=dtype, groups=H)
    q *= 1e4 * np.sqrt(d) / abs(q @ k.mT).max()
    q[..., 0], k[..., 0] = offset / 8, 8 * np.sqrt(d)
    mask = random_mask(B, H, T, S)
    mask[:, :, :, :20] = False
    with no_floating_point_errors():
        found = both(FlashAttention(16), q, k, v, dy, mask)
    expected = both(nt.ScaledDotProductAttention(), *(x.astype(np.float64) for x in (q, k, v, dy)), mask)
    scores = abs(q @ k.mT / np.sqrt(d)).max()
    assert scores >= 9.9e3
    rounding = 8 * scores * np.finfo(dtype).eps             # of a score is the relative one of its weight
    for x, reference in zip(found, expected, strict=True):
        assert np.isfinite(x).all() and x.any()
        assert np.linalg.norm(x - reference) <= rounding * np.linalg.norm(reference)


def test_backward_computes_the_very_weights_that_forward_used():
    """A log-sum-exp in float32 near 10,000 is known to 0.001 only, and so would each weight be."""
    rng = np.random.default_rng(0)
    q = np.full((1, 1, T, d), 100, np.float32)
    k = np.full((1, 1, S, d), 100 / np.sqrt(d), np.float32)     # all scores 10,000: each weight is 1 / S
    v, dy = (rng.standard_normal((1, 1, n, e), np.float32) for n in (S, T))
    attention = FlashAttention(16)
    np.testing.assert_allclose(attention(q, k, v)[0, 0], np.tile(v[0, 0].mean(0), (T, 1)), atol=1e-6)
    dv = attention.backward(dy)[2]
    np.testing.assert_allclose(dv[0, 0], np.tile(dy[0, 0].sum(0) / S, (S, 1)), rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("is_causal, block_size", [
    (True, 3), *(pytest.param(*pair, marks=pytest.mark.slow) for pair in ((False, 2), (True, 64)))])
def test_gradients_agree_with_differences_and_the_complex_step(is_causal, block_size):
    q, k, v, _ = draw((2, H, 4), keys=5)
    mask = random_mask(2, 1, 4, 5)
    report = nt.gradcheck(FlashAttention(block_size, is_causal), q[..., :3], k[..., :3], v[..., :2], mask,
                          need_complex=True)
    assert report.ok and report.worst("complex") <= 1e-12, str(report)


def test_float32_has_no_float64_on_the_way(monkeypatch):
    seen = []
    attention, blocks = FlashAttention(16, causal=True), FlashAttention.blocks

    def watched(self, *arrays):
        for rows, keys, s in blocks(self, *arrays):
            seen.append(s.dtype)
            yield rows, keys, s

    monkeypatch.setattr(FlashAttention, "blocks", watched)
    q, k, v, dy = draw(dtype=np.float32)
    attention(q, k, v, random_mask(B, 1, 1, S))
    assert {x.dtype for x in attention._saved[0]} == {np.dtype(np.float32), np.dtype(bool)}
    assert {x.dtype for x in attention.backward(dy)} | set(seen) == {np.dtype(np.float32)}


def test_arguments_stay_and_eval_keeps_nothing():
    arrays, mask = draw(), random_mask(B, H, T, S)
    before = [x.copy() for x in (*arrays, mask)]
    for x in (*arrays, mask):
        x.flags.writeable = False
    attention = FlashAttention(16, causal=True)
    first = both(attention, *arrays, mask)
    for x, start in zip((*arrays, mask), before, strict=True):
        np.testing.assert_array_equal(x, start)
    kept = [x.copy() for x in first]
    again = both(attention, *arrays, mask)
    for x, y, z in zip(first, kept, again, strict=True):
        np.testing.assert_array_equal(x, y)
        np.testing.assert_array_equal(x, z)
        assert not np.shares_memory(x, z)
    assert not attention._saved and attention.weights is None
    attention.eval()(*arrays[:3])
    assert not attention.__dict__.get("_saved")


def test_used_twice_in_one_forward():
    attention, one, two = FlashAttention(16), draw(), draw((2, H, 9), keys=11, seed=2)
    y1, y2 = attention(*one[:3]), attention(*two[:3])
    again2, again1 = attention.backward(two[3]), attention.backward(one[3])
    close([y1, *again1], both(FlashAttention(16), *one))
    close([y2, *again2], both(FlashAttention(16), *two))


def peak(module, T, mask=None, backward=True):
    """Bytes at the worst moment of forward and backward, beside the inputs."""
    rng = np.random.default_rng(0)
    q, k, v, dy = (rng.standard_normal((1, 1, T, 32), np.float32) for _ in range(4))
    tracemalloc.start()
    try:
        module(q, k, v, mask)
        module.backward(dy)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("is_causal, padded", [(True, False), (False, True)])
def test_memory_grows_with_the_length_and_not_with_its_square(is_causal, padded):
    one, two = (peak(FlashAttention(causal=is_causal), n, np.arange(n)[None, None, None] > 3 if padded else None)
                for n in (2048, 4096))
    assert two < 2.1 * one and two < 4096 * 4096 / 2            # bytes: not even a boolean (T, S) fits
    plain = [peak(nt.ScaledDotProductAttention(), n) for n in (512, 1024)]
    assert plain[1] > 3.5 * plain[0] and plain[1] > 2 * peak(FlashAttention(), 1024)


def blocks_of(attention, q, k, v):
    """The shape (rows, keys) of each block of scores."""
    q, k, _, mask = attention.group(q, k, v, None)
    return np.array([s.shape[-2:] for _, _, s in attention.blocks(q, k, mask)])


def test_no_block_is_larger_than_asked_for():
    sizes = blocks_of(FlashAttention(50), *draw((1, 1, 2000), groups=1, keys=2000)[:3])
    assert sizes[:, 1].max() == 50 and sizes.prod(1).max() <= 2**16 and sizes.prod(1).sum() == 2000 * 2000


def test_blocks_above_the_diagonal_are_never_computed():
    q, k, v, dy = draw((2, 8, 300), groups=8, keys=310)         # with 16 heads the rows come in two blocks
    computed = blocks_of(FlashAttention(20, causal=True), q, k, v).prod(1)
    assert computed.all() and causal(300, 310).sum() < computed.sum() <= causal(300, 310).sum() + 300 * 20
    first = both(FlashAttention(20, causal=True), q, k, v, dy)
    k[..., 100:, :], v[..., 100:, :] = np.nan, np.nan           # the keys that query 89 does not see
    with np.errstate(invalid="ignore"):
        y, dq, *_ = both(FlashAttention(20, causal=True), q, k, v, dy)
    np.testing.assert_array_equal(y[..., :90, :], first[0][..., :90, :])
    np.testing.assert_array_equal(dq[..., :90, :], first[1][..., :90, :])
    assert np.isnan(y[..., 90:, :]).all()


@pytest.mark.parametrize("call, error, match", [
    (lambda: FlashAttention(dropout=0.1), ValueError, "dropout = 0.1.*use 0"),
    (lambda: FlashAttention(0), ValueError, "block_size must be a whole number of at least 1, got 0"),
    (lambda: FlashAttention(causal=True)(*draw((B, H, 9), keys=8)[:3]), ValueError, "T = 9 .* S = 8 .*pass at least T"),
    (lambda: FlashAttention()(*draw(groups=3)[:3]), ValueError, "do not fit together"),
    (lambda: FlashAttention()(*draw()[:3], np.ones((T, S))), TypeError, "boolean"),
    (lambda: FlashAttention()(*draw()[:3], np.ones((B, T, S), bool)), ValueError, r"mask\[:, None\]"),
    (lambda: FlashAttention()(*draw()[:3], np.ones((T, S - 1), bool)), ValueError, "does not broadcast"),
    (lambda: FlashAttention()([[1.0]], [[1.0]], [[1.0]]), TypeError, "takes NumPy arrays"),
    (lambda: FlashAttention().backward(draw()[3]), RuntimeError, "nothing to recall"),
])
def test_refusals_are_sentences(call, error, match):
    with pytest.raises(error, match=match):
        call()
