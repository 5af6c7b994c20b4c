import math

import numpy as np
import pytest

import numpy_transformer as nt


def by_loops(z, y, smoothing, ignore_id):
    losses = []
    for row, target in zip(z.reshape(-1, z.shape[-1]), y.ravel()):
        if target != ignore_id:
            log_sum = math.log(sum(math.exp(v) for v in row))
            q = [(1 - smoothing) * (v == target) + smoothing / len(row) for v in range(len(row))]
            losses.append(-sum(weight * (v - log_sum) for weight, v in zip(q, row)))
    return sum(losses) / len(losses), len(losses)


@pytest.mark.parametrize("smoothing, ignore_id", [(0.0, None), (0.1, None), (0.0, 3), (0.2, -1)])
def test_cross_entropy_equals_plain_loops(smoothing, ignore_id):
    rng = np.random.default_rng(0)
    z, y = rng.standard_normal((3, 5, 11)), rng.integers(0, 11, (3, 5))
    y[0, 1:3] = y[0, 0] if ignore_id is None else ignore_id
    criterion = nt.CrossEntropyLoss(smoothing, ignore_id)
    expected, count = by_loops(z, y, smoothing, ignore_id)
    assert criterion(z, y) == pytest.approx(expected, rel=1e-13) and criterion.count == count
    dz = criterion.backward()
    np.testing.assert_allclose(dz.sum(-1), 0, atol=1e-15)           # softmax and q both sum to 1
    if ignore_id is not None:
        assert count < 15 and not dz[y == ignore_id].any() and dz[y != ignore_id].any(-1).all()


def test_equal_logits_still_have_a_gradient():
    criterion = nt.CrossEntropyLoss()
    criterion(np.zeros((2, 4)), np.array([1, 3]))
    np.testing.assert_allclose(criterion.backward(), (0.25 - np.eye(4)[[1, 3]]) / 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_logits_are_exact(dtype):
    z = np.array([[1e4, 0, -1e4], [-1e4, -1e4, 0]], dtype)
    criterion = nt.CrossEntropyLoss()
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        assert criterion(z, np.array([1, 2])) == 5e3
        np.testing.assert_array_equal(criterion.backward(), np.array([[0.5, -0.5, 0], [0, 0, 0]]))


@pytest.mark.parametrize("targets, error, match", [
    (np.array([[0, 1.5]]), TypeError, "integers"),
    (np.array([[0, 4]]), IndexError, r"0 to 3.*got 4 at index \[0, 1\]"),
    (np.array([[0, -2]]), IndexError, "got -2"),
    (np.array([0, 1]), ValueError, "one target for each"),
    (np.array([[9, 9]]), ValueError, "all 2 targets are ignored"),
])
def test_targets_that_do_not_fit_are_refused(targets, error, match):
    with pytest.raises(error, match=match):
        nt.CrossEntropyLoss(ignore_id=9)(np.zeros((1, 2, 4)), targets)


@pytest.mark.parametrize("smoothing", [-0.1, 1.0])
def test_label_smoothing_outside_its_range_is_refused(smoothing):
    with pytest.raises(ValueError, match="label_smoothing"):
        nt.CrossEntropyLoss(smoothing)


def test_binary_cross_entropy_equals_plain_loops_and_survives_extremes():
    rng = np.random.default_rng(0)
    z, t = rng.standard_normal((3, 5)), rng.random((3, 5))
    sigma = [1 / (1 + math.exp(-v)) for v in z.ravel()]
    expected = -sum(y * math.log(s) + (1 - y) * math.log(1 - s) for s, y in zip(sigma, t.ravel())) / 15
    criterion = nt.BinaryCrossEntropyLoss()
    assert criterion(z, t) == pytest.approx(expected, rel=1e-13) and criterion.count == 15
    with np.errstate(over="raise", invalid="raise"):
        assert criterion(np.array([1e4, -1e4], np.float32), np.array([0, 0])) == 5e3


@pytest.mark.parametrize("z, t, match", [
    (np.zeros((3, 1)), np.zeros(3), "wanted the same shape"), (np.zeros(3), np.array([0, 1, 2]), "lie in 0 to 1"),
    (np.zeros(2), np.array([0, np.nan]), "lie in 0 to 1"),
])
def test_binary_targets_that_do_not_fit_are_refused(z, t, match):
    with pytest.raises(ValueError, match=match):
        nt.BinaryCrossEntropyLoss()(z, t)
