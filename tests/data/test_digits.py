"""The generated digits: fixed by their seed, never alike, and no task for a classifier that looks at single pixels."""

import numpy as np
import pytest

from numpy_transformer.data import draw_digits
from numpy_transformer.data.digits import BEND, DABS, DRAWN, NOISE, bend


def accuracy_of_nearest_mean(training, test):
    (images, labels), (new, right) = training, test
    means = np.stack([images[labels == digit].mean(0) for digit in range(10)])
    distances = ((new[:, None] - means) ** 2).sum((2, 3))
    return np.mean(distances.argmin(1) == right)


def test_shapes_and_types():
    images, labels = draw_digits(30, 1)
    assert images.shape == (30, 16, 16) and images.dtype == np.float32
    assert labels.shape == (30,) and sorted(labels) == sorted([*range(10)] * 3)
    assert draw_digits(7, 1, size=20)[0].shape == (7, 20, 20)


def test_a_seed_fixes_the_pictures_and_another_one_changes_them():
    (a, labels), (b, again), (other, _) = (draw_digits(20, seed) for seed in (1, 1, 2))
    assert np.array_equal(a, b) and np.array_equal(labels, again) and not np.allclose(a, other, atol=0.5)
    rng = np.random.default_rng(1)
    assert np.array_equal(draw_digits(20, rng)[0], a) and not np.array_equal(draw_digits(20, rng)[0], a)


def test_the_ink_is_in_the_picture_and_the_noise_everywhere(monkeypatch):
    noisy, labels = draw_digits(200, 3)
    monkeypatch.setattr("numpy_transformer.data.digits.NOISE", 0)
    images, same = draw_digits(200, 3)
    assert np.array_equal(labels, same) and images.min() >= 0 and 0.9 < images.max() <= 1
    assert np.std(noisy - images) == pytest.approx(NOISE, rel=0.02)
    assert (images.max((1, 2)) > 0.9).all()
    share = images.mean((1, 2))
    assert 0.05 < share.min() and share.max() < 0.5


def test_strokes_are_bent_a_little_and_neighbors_alike(monkeypatch):
    points = DRAWN[[3, 8]]
    moved = bend(points, np.random.default_rng(1)) - points
    steps = np.linalg.norm(np.diff(moved, axis=1), axis=-1)
    assert BEND / 2 < np.abs(moved).max() <= BEND and steps.max() < BEND and not np.allclose(moved[0], moved[1], atol=BEND / 4)
    bent, _ = draw_digits(20, 7)
    monkeypatch.setattr("numpy_transformer.data.digits.BEND", 0)
    assert not np.allclose(bent, draw_digits(20, 7)[0], atol=0.5)       # the same places, sizes and noise


def test_the_dabs_lie_at_equal_distances_on_the_strokes():
    assert DRAWN.shape == (10, DABS, 2) and 0 <= DRAWN.min() and DRAWN.max() <= 1
    one = np.linalg.norm(np.diff(DRAWN[1], axis=0), axis=1)                 # two straight lines with a corner between them
    assert np.sum(np.isclose(one, one.max())) >= DABS - 2


def test_every_digit_lies_at_many_places():
    images, labels = draw_digits(2_000, 4)
    for digit in range(10):
        ink = np.maximum(images[labels == digit] - 3 * NOISE, 0)
        columns, rows = (ink.sum(axis) @ np.arange(16) / ink.sum((1, 2)) for axis in (1, 2))    # the center of the ink
        assert np.ptp(columns) > 4 and np.ptp(rows) > 3


def test_the_mean_picture_of_a_digit_does_not_classify_it():
    """Chance is 10 %. A digit has no fixed place, size or slant, so single pixels say little."""
    assert 0.2 < accuracy_of_nearest_mean(draw_digits(4_000, 5), draw_digits(1_000, 6)) < 0.55


@pytest.mark.parametrize("wrong", [{"count": 0}, {"count": 10, "size": 0}])
def test_sizes_have_to_be_positive(wrong):
    with pytest.raises(ValueError, match="positive|at least 1"):
        draw_digits(**{"count": 10, **wrong}, rng=1)
