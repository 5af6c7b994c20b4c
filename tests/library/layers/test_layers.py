"""What is special about single components: forward values from an independent source, known zeros, bad input."""

import math

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer.layers.erf import erf


def test_erf_is_within_1e_15_of_math_erf():
    x = np.concatenate([np.linspace(-7, 7, 20001), [0.0, -0.0, 1e-300, -1e-8, 30.0, -1e300]])
    assert abs(erf(x) - [math.erf(v) for v in x]).max() <= 1e-15
    x32 = x[:20001].astype(np.float32)
    assert erf(x32).dtype == np.float32
    assert abs(erf(x32) - [math.erf(v) for v in x32]).max() <= 5e-7


def test_erf_continues_into_the_complex_plane():
    x = np.linspace(-5, 5, 1001)
    slope = erf(x + 1e-100j).imag / 1e-100
    assert abs(slope - [2 / math.sqrt(math.pi) * math.exp(-v * v) for v in x]).max() < 1e-12


@pytest.mark.parametrize("layer, formula", [
    (nt.ReLU(), lambda x: max(x, 0.0)),
    (nt.GELU(), lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2),
    (nt.GELU("tanh"), lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))),
    (nt.SiLU(), lambda x: x / (1 + math.exp(-x))),
], ids=["relu", "gelu", "gelu tanh", "silu"])
def test_activations_equal_their_formula(layer, formula):
    x = np.random.default_rng(0).standard_normal((3, 50)) * 3
    np.testing.assert_allclose(layer(x), [[formula(v) for v in row] for row in x], rtol=1e-12, atol=1e-15)
    with np.errstate(over="raise", invalid="raise"):
        large = layer(np.array([-1e3, 1e3], np.float32))
    np.testing.assert_allclose(large, [0, 1e3], atol=1e-30)


def test_softmax_and_its_logarithm_at_extremes():
    x = np.array([[1000.0, 1000, 0], [-1000, -1000, -1000], [-np.inf, 0, 0], [-np.inf] * 3])
    with np.errstate(over="raise", divide="raise"):
        y = nt.Softmax()(x)
    np.testing.assert_allclose(y, [[0.5, 0.5, 0], [1 / 3] * 3, [0, 0.5, 0.5], [0, 0, 0]])
    np.testing.assert_allclose(nt.LogSoftmax()(x[:2])[:, :2], [[math.log(0.5)] * 2, [math.log(1 / 3)] * 2])


def test_layer_norm_equals_plain_loops_and_its_gradient_is_orthogonal():
    rng = np.random.default_rng(0)
    layer = nt.LayerNorm(7, eps=0.1).astype(np.float64)
    layer.gamma.data, layer.beta.data = rng.standard_normal(7), rng.standard_normal(7)
    x = rng.standard_normal((3, 5, 7))
    y = layer(x)
    for index in np.ndindex(3, 5):
        row = x[index]
        mean = sum(row) / 7
        variance = sum((v - mean) ** 2 for v in row) / 7
        expected = [g * (v - mean) / math.sqrt(variance + 0.1) + b
                    for v, g, b in zip(row, layer.gamma.data, layer.beta.data)]
        np.testing.assert_allclose(y[index], expected, rtol=1e-12)
    exact = nt.LayerNorm(7, eps=0.0).astype(np.float64)
    exact.gamma.data = layer.gamma.data
    exact(x)
    dx = exact.backward(rng.standard_normal(x.shape))
    np.testing.assert_allclose(dx.sum(-1), 0, atol=1e-13)                   # the path through the mean
    np.testing.assert_allclose((dx * x).sum(-1), 0, atol=1e-12)             # and through the deviation
    assert np.linalg.norm(dx) > 1


def test_a_constant_row_does_not_divide_by_zero():
    for layer in (nt.LayerNorm(4), nt.RMSNorm(4)):
        with np.errstate(all="raise"):
            layer(np.zeros((2, 4), np.float32))
            assert np.isfinite(layer.backward(np.ones((2, 4), np.float32))).all()


def test_rms_norm_is_not_layer_norm():
    x = np.random.default_rng(0).standard_normal((3, 6)) + 2
    y = nt.RMSNorm(6, eps=0.0)(x)
    np.testing.assert_allclose([sum(v * v for v in row) / 6 for row in y], 1, rtol=1e-12)
    assert abs(y.mean()) > 0.5


def test_repeated_ids_add_their_gradients():
    layer = nt.Embedding(11, 4, scale=True, rng=0).astype(np.float64)
    ids = np.array([[3, 3, 0], [10, 3, 0]])
    dy = np.random.default_rng(0).standard_normal((2, 3, 4))
    np.testing.assert_allclose(layer(ids), 2 * layer.weight.data[ids])
    assert layer.backward(dy) is None
    expected = np.zeros((11, 4))
    for index in np.ndindex(2, 3):
        expected[ids[index]] += 2 * dy[index]
    np.testing.assert_allclose(layer.weight.grad, expected, rtol=1e-14)


def test_padding_embeds_to_zeros_and_keeps_its_row():
    layer = nt.Embedding(5, 4, pad_id=2, rng=0)
    y = layer([2, 1, 2])
    layer.backward(np.ones((3, 4), np.float32))
    assert not y[[0, 2]].any() and y[1].all()
    np.testing.assert_array_equal(layer.weight.grad.any(1), [False, True, False, False, False])


@pytest.mark.parametrize("ids, error, match", [
    ([0, 5], IndexError, r"0 to 4 \(vocab_size = 5\), got 5 at index \[1\]"),
    ([[0], [-1]], IndexError, r"got -1 at index \[1, 0\]"),
    ([0.0, 1.0], TypeError, "must be integers"), ([True], TypeError, "must be integers"),
])
def test_bad_ids_are_refused(ids, error, match):
    with pytest.raises(error, match=match):
        nt.Embedding(5, 4)(ids)


def test_dropout_keeps_the_mean_and_is_the_identity_in_eval():
    layer = nt.Dropout(0.2, rng=0)
    x = np.ones((400, 500), np.float32)
    y = layer(x)
    assert set(np.unique(y)) == {np.float32(0), np.float32(1.25)}
    assert abs(y.mean() - 1) < 0.005 and abs((y == 0).mean() - 0.2) < 0.005
    assert not np.array_equal(layer(x), y)                                  # one mask a call
    np.testing.assert_array_equal(layer.eval()(x), x)


@pytest.mark.parametrize("p", [-0.1, 1.0, math.nan])
def test_dropout_probability_outside_its_range_is_refused(p):
    with pytest.raises(ValueError, match=r"\[0, 1\)"):
        nt.Dropout(p)


@pytest.mark.parametrize("layer", [nt.Linear(4, 3), nt.LayerNorm(4), nt.RMSNorm(4), nt.FeedForward(4, 6),
                                   nt.SwiGLU(4, 6), nt.SinusoidalPositionalEncoding(4), nt.SelfAttention(4, 2)],
                         ids=lambda layer: type(layer).__name__)
def test_a_wrong_last_dimension_is_refused(layer):
    with pytest.raises(ValueError, match=r"= 4, got shape \(2, 3, 5\)"):
        layer(np.zeros((2, 3, 5)))


@pytest.mark.parametrize("build, match", [
    (lambda: nt.GELU("sigmoid"), "'none', 'tanh'"), (lambda: nt.FeedForward(4, 6, "mish"), "'relu'"),
    (lambda: nt.EncoderBlock(4, 2, 6, norm="mid"), "'pre', 'post'"), (lambda: nt.Linear(0, 3), "d_in must be"),
    (lambda: nt.RotaryEmbedding(5), "must be even"),
])
def test_unknown_choices_and_sizes_are_refused(build, match):
    with pytest.raises(ValueError, match=match):
        build()


@pytest.mark.parametrize("layer", [nt.ReLU(), nt.GELU(), nt.SiLU(), nt.Softmax(), nt.LogSoftmax(), nt.Dropout(0.1)])
def test_lists_are_refused_and_whole_numbers_taken(layer):
    with pytest.raises(TypeError, match="takes NumPy arrays, got list"):
        layer([1.0, 2.0])
    if not isinstance(layer, nt.Dropout):
        np.testing.assert_allclose(layer(np.array([-1, 0, 2])), layer(np.array([-1.0, 0.0, 2.0])))


def test_relu_keeps_a_nan_visible_and_gives_no_negative_zero():
    y = nt.ReLU()(np.array([-np.inf, -1.0, np.nan, 2.0]))
    np.testing.assert_array_equal(y, [0, 0, np.nan, 2])
    assert not np.signbit(y[:2]).any()


def test_a_list_is_no_array():
    with pytest.raises(TypeError, match="Linear takes NumPy arrays, got list"):
        nt.Linear(2, 3)([[1.0, 2.0]])


def test_unembedding_wants_the_parameter_itself():
    with pytest.raises(TypeError, match="pass embedding.weight"):
        nt.Unembedding(np.zeros((5, 4)))


@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 1e-5), (np.float64, 1e-12)])
@pytest.mark.parametrize("levels", [[0], [59], [61], [-30], [-60], [-100], [59, -60], [-1e4, 0], [1e4, -1e4, 20]])
def test_softmax_at_every_level(levels, dtype, tolerance):
    """Rows far from zero, alone and side by side: where exp would overflow, vanish, or keep few digits."""
    z = np.random.default_rng(1).standard_normal((3, len(levels), 5))
    x = (z + np.array(levels)[:, None]).astype(dtype)
    exact = x.astype(np.float64)
    expected = np.exp(exact - exact.max(-1, keepdims=True))
    expected /= expected.sum(-1, keepdims=True)
    with np.errstate(all="raise", under="ignore"):
        np.testing.assert_allclose(nt.Softmax()(x), expected, rtol=tolerance)


def test_dropout_draws_with_the_p_that_it_has_now():
    layer, x = nt.Dropout(0.1, rng=0), np.ones(20_000, np.float32)
    layer.p = 0.7
    y = layer(x)
    assert (y == 0).mean() == pytest.approx(0.7, abs=0.02) and y.max() == pytest.approx(1 / 0.3)
    layer.p = 0.0
    assert layer(x) is x


@pytest.mark.parametrize("layer", [nt.GELU(), nt.GELU("tanh"), nt.SiLU(), nt.ReLU()])
def test_an_activation_takes_a_single_number(layer):
    for x in (np.array(0.7), np.float64(0.7), np.float32(0.7)):
        y, dx = layer(x), layer.backward(np.array(3.0))
        np.testing.assert_allclose([y], layer(np.array([0.7])), rtol=1e-6)
        np.testing.assert_allclose([dx], layer.backward(np.array([3.0])), rtol=1e-6)


def test_layer_norm_of_whole_numbers_is_that_of_the_same_floats():
    x = np.random.default_rng(0).integers(-9, 9, (3, 5, 4))
    np.testing.assert_allclose(nt.LayerNorm(4)(x), nt.LayerNorm(4)(x.astype(float)), rtol=1e-6)


def test_a_cached_array_cannot_be_changed():
    from numpy_transformer.layers.fast import _constant

    with pytest.raises(ValueError, match="read-only"):
        _constant(3, 1, np.dtype(np.float32))[0] = 2
