import math

import numpy as np
import pytest

import numpy_transformer as nt


@pytest.mark.parametrize("d_model", [2, 7, 12])
def test_the_sinusoid_equals_its_formula(d_model):
    table = nt.SinusoidalPositionalEncoding(d_model, 40).astype(np.float64).table
    for t in range(40):
        for j in range(d_model):
            angle = t / 10000 ** ((j - j % 2) / d_model)
            assert table[t, j] == pytest.approx(math.cos(angle) if j % 2 else math.sin(angle), abs=1e-14)


def test_sinusoids_a_distance_apart_are_one_rotation_apart():
    table = nt.SinusoidalPositionalEncoding(8, 60).astype(np.float64).table
    products = [table[t] @ table[t + 7] for t in range(50)]
    np.testing.assert_allclose(products, products[0], rtol=1e-12)
    assert abs(products[0] - table[0] @ table[8]) > 0.01


@pytest.mark.parametrize("layer", [nt.SinusoidalPositionalEncoding(6, 9), nt.LearnedPositionalEmbedding(9, 6, rng=0)],
                         ids=["sinusoidal", "learned"])
def test_offsets_positions_and_unbatched_input(layer):
    x = np.random.default_rng(0).standard_normal((3, 4, 6)).astype(np.float32)
    rows = layer.table if hasattr(layer, "table") else layer.weight.data
    np.testing.assert_array_equal(layer(x[0]), x[0] + rows[:4])
    np.testing.assert_array_equal(layer(x, offset=5), x + rows[5:9])
    positions = np.array([[0, 0, 1, 2], [0, 1, 2, 3], [3, 3, 3, 8]])
    np.testing.assert_array_equal(layer(x, positions=positions), x + rows[positions])
    with pytest.raises(ValueError, match="max_len = 9"):
        layer(x, offset=6)
    with pytest.raises(IndexError, match="max_len = 9"):
        layer(x, positions=positions + 1)


def test_learned_positions_add_up_the_gradients_of_equal_positions():
    layer = nt.LearnedPositionalEmbedding(5, 2, rng=0).astype(np.float64)
    dy = np.random.default_rng(0).standard_normal((3, 4, 2))
    positions = np.array([[0, 0, 1, 2], [0, 1, 2, 3], [3, 3, 3, 4]])
    layer(dy, positions=positions)
    layer.backward(dy)
    expected = np.zeros((5, 2))
    for index in np.ndindex(3, 4):
        expected[positions[index]] += dy[index]
    np.testing.assert_allclose(layer.weight.grad, expected, rtol=1e-13)


@pytest.mark.parametrize("interleaved", [True, False])
def test_rotary_turns_pairs_and_its_scores_depend_on_the_distance_alone(interleaved):
    rng = np.random.default_rng(0)
    rotary = nt.RotaryEmbedding(6, interleaved=interleaved).astype(np.float64)
    q, k = rng.standard_normal((2, 1, 6))

    def at(x, t):
        return rotary(x, offset=t)[0]

    np.testing.assert_array_equal(at(q, 0), q[0])
    a, b = (2, 3) if interleaved else (1, 4)                            # the second pair
    angle = 5 / 10000 ** (2 / 6)
    assert at(q, 5)[a] == pytest.approx(q[0, a] * math.cos(angle) - q[0, b] * math.sin(angle), rel=1e-12)
    assert at(q, 5)[b] == pytest.approx(q[0, a] * math.sin(angle) + q[0, b] * math.cos(angle), rel=1e-12)
    assert at(q, 90) @ at(q, 90) == pytest.approx(q[0] @ q[0], rel=1e-12)
    scores = [at(q, 7 + t) @ at(k, t) for t in (0, 3, 200)]
    np.testing.assert_allclose(scores, scores[0], rtol=1e-11)
    assert abs(scores[0] - at(q, 6) @ at(k, 0)) > 1e-3


def test_rotary_with_the_papers_frequencies_given_is_the_same():
    x = np.random.default_rng(0).standard_normal((2, 80, 6))                # longer than the tables are at first
    for base in (10000.0, 500.0):
        given = nt.RotaryEmbedding(6, frequencies=[base ** (-2 * i / 6) for i in range(3)]).astype(np.float64)
        np.testing.assert_allclose(given(x), nt.RotaryEmbedding(6, base).astype(np.float64)(x), rtol=0, atol=1e-13)


def test_rotary_takes_whole_numbers_and_refuses_what_it_cannot_turn():
    rotary = nt.RotaryEmbedding(4)
    x = np.arange(8).reshape(2, 4)
    np.testing.assert_allclose(rotary(x), rotary(x.astype(np.float64)))
    for arguments in (dict(offset=-1), dict(positions=[-1, 0])):
        with pytest.raises((ValueError, IndexError), match="offset|positions must lie"):
            rotary(x, **arguments)
    with pytest.raises(ValueError, match=r"x\[None\]"):
        rotary(np.ones(4))


def test_rotary_at_given_positions_equals_rotary_at_offsets():
    rotary = nt.RotaryEmbedding(6)
    x = np.random.default_rng(0).standard_normal((3, 2, 4, 6)).astype(np.float32)
    y = rotary(x, positions=np.array([[0, 1, 2, 3], [5, 6, 7, 8], [300, 301, 302, 303]]))
    for row, offset in enumerate((0, 5, 300)):
        np.testing.assert_array_equal(y[row], rotary(x[row], offset=offset))
