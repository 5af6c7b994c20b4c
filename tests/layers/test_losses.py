import math

import numpy as np
import pytest
from helpers.floating_point import no_floating_point_errors

import numpy_transformer as nt


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_logits_are_exact(dtype):
    z = np.array([[1e4, 0, -1e4], [-1e4, -1e4, 0]], dtype)
    criterion = nt.CrossEntropyLoss()
    with no_floating_point_errors():
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


def test_binary_cross_entropy_of_targets_between_0_and_1_and_of_extreme_logits():
    rng = np.random.default_rng(0)
    z, t = rng.standard_normal((3, 5)), rng.random((3, 5))
    sigma = [1 / (1 + math.exp(-v)) for v in z.ravel()]
    expected = -sum(y * math.log(s) + (1 - y) * math.log(1 - s) for s, y in zip(sigma, t.ravel())) / 15
    criterion = nt.BinaryCrossEntropyLoss()
    assert criterion(z, t) == pytest.approx(expected, rel=1e-13) and criterion.count == 15
    with no_floating_point_errors():
        assert criterion(np.array([1e4, -1e4], np.float32), np.array([0, 0])) == 5e3


@pytest.mark.parametrize("z, t, match", [
    (np.zeros((3, 1)), np.zeros(3), "wanted the same shape"), (np.zeros(3), np.array([0, 1, 2]), "lie in 0 to 1"),
    (np.zeros(2), np.array([0, np.nan]), "lie in 0 to 1"),
])
def test_binary_targets_that_do_not_fit_are_refused(z, t, match):
    with pytest.raises(ValueError, match=match):
        nt.BinaryCrossEntropyLoss()(z, t)


def test_the_count_is_that_of_the_targets_that_are_not_ignored():
    criterion = nt.CrossEntropyLoss(ignore_id=3)
    criterion(np.zeros((2, 3, 5)), np.array([[3, 1, 3], [0, 3, 4]]))
    assert criterion.count == 3
    criterion(np.zeros((2, 3, 5)), np.array([[2, 1, 1], [0, 3, 4]]))
    assert criterion.count == 5
