"""Single components: extreme values, known zeros, bad input. test_contract.py checks formulas and gradients."""

import math

import numpy as np
import pytest
from helpers.floating_point import no_floating_point_errors

import numpy_transformer as nt
from numpy_transformer.layers.erf import COEFFICIENTS32, COEFFICIENTS64, LIMIT32, erf


def test_erf_is_within_1e_15_of_math_erf():
    x = np.concatenate([np.linspace(-7, 7, 20001), [0.0, -0.0, 1e-300, -1e-8, 30.0, -1e300]])
    assert abs(erf(x) - [math.erf(v) for v in x]).max() <= 1e-15
    x32 = x[:20001].astype(np.float32)
    assert erf(x32).dtype == np.float32
    assert abs(erf(x32) - [math.erf(v) for v in x32]).max() <= 3e-7
    assert erf(np.array([-np.inf, -1e30, 0, 1e30, np.inf], np.float32)).tolist() == [-1, -1, 0, 1, 1]


def fit(function, degree, low, high, weight):
    """Returns the polynomial of least weighted squared error at Chebyshev nodes."""
    nodes = np.cos(np.pi * (np.arange(4 * degree) + 0.5) / (4 * degree))
    u = low + (nodes + 1) / 2 * (high - low)
    return np.polynomial.Chebyshev.fit(u, [function(a) for a in u], degree, domain=[low, high], w=[weight(a) for a in u])


def test_the_coefficients_of_erf_are_what_a_fit_finds():
    """A fit in float64 agrees up to its rounding, which depends on LAPACK's kernels, in the error of erf."""
    def z(u):
        return 3 * (1 + u) / (1 - u)

    p = fit(lambda u: math.erfc(z(u)) * math.exp(z(u) ** 2), 15, -1, 1 / 3, lambda u: math.exp(-z(u) ** 2))
    u = np.linspace(-1, 1 / 3, 1001)
    assert abs((p(u) - np.polynomial.Polynomial(COEFFICIENTS64)(u)) * np.exp(-z(u) ** 2)).max() < 1e-14

    def ratio(s):
        z = math.sqrt(s)
        return math.log((1 + math.erf(z)) / math.erfc(z)) / (2 * z)         # artanh(erf z) / z

    def weight(s):
        return math.sqrt(s) * (1 - math.erf(math.sqrt(s)) ** 2)

    q = fit(ratio, 6, 0, LIMIT32 ** 2, weight)
    s = np.linspace(0, LIMIT32 ** 2, 1001)
    assert abs((q(s) - np.polynomial.Polynomial(COEFFICIENTS32)(s)) * [weight(a) for a in s]).max() < 1e-14


def test_erf_continues_into_the_complex_plane():
    x = np.linspace(-5, 5, 1001)
    slope = erf(x + 1e-100j).imag / 1e-100
    assert abs(slope - [2 / math.sqrt(math.pi) * math.exp(-v * v) for v in x]).max() < 1e-12


@pytest.mark.parametrize("layer", [nt.ReLU(), nt.GELU(), nt.GELU("tanh"), nt.SiLU()],
                         ids=["relu", "gelu", "gelu tanh", "silu"])
def test_activations_of_large_numbers_do_not_overflow(layer):
    with no_floating_point_errors():
        large = layer(np.array([-1e3, 1e3], np.float32))
    np.testing.assert_allclose(large, [0, 1e3], atol=1e-30)


def test_softmax_and_its_logarithm_at_extremes():
    x = np.array([[1000.0, 1000, 0], [-1000, -1000, -1000], [-np.inf, 0, 0], [-np.inf] * 3])
    with no_floating_point_errors():
        y = nt.Softmax()(x)
    np.testing.assert_allclose(y, [[0.5, 0.5, 0], [1 / 3] * 3, [0, 0.5, 0.5], [0, 0, 0]])
    np.testing.assert_allclose(nt.LogSoftmax()(x[:2])[:, :2], [[math.log(0.5)] * 2, [math.log(1 / 3)] * 2])


def test_rms_norm_is_not_layer_norm():
    x = np.random.default_rng(0).standard_normal((3, 6)) + 2
    y = nt.RMSNorm(6, eps=0.0)(x)
    np.testing.assert_allclose([sum(v * v for v in row) / 6 for row in y], 1, rtol=1e-12)
    assert abs(y.mean()) > 0.5


def test_padding_embeds_to_zeros_and_keeps_its_row():
    layer = nt.Embedding(5, 4, pad_id=2, rng=0)
    y = layer([2, 1, 2])
    layer.backward(np.ones((3, 4), np.float32))
    assert not y[[0, 2]].any() and y[1].all()
    np.testing.assert_array_equal(layer.weight.grad.any(1), [False, True, False, False, False])


@pytest.mark.parametrize("dtype", [np.int8, np.uint64])
def test_ids_have_any_integer_dtype(dtype):
    """NumPy's take refuses uint64, as it refuses int64 where np.intp has 32 bits."""
    ids = np.array([[1, 4, 4], [0, 3, 1]])
    results = []
    for given in (ids, ids.astype(dtype)):
        model = nt.MaskedLanguageModel(5, 4, 2, 1, max_len=3, rng=0)
        criterion = nt.CrossEntropyLoss(ignore_id=0)
        loss = criterion(model(given, None, given % 2, given[:, 1:] % 3), given[:, 1:])
        model.backward(criterion.backward())
        results.append([loss, *(parameter.grad for parameter in model.parameters())])
    for expected, found in zip(*results, strict=True):
        np.testing.assert_array_equal(found, expected)


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
    (lambda: nt.RotaryEmbedding(6, frequencies=[1.0, 0.1]), r"shape \(2,\).*d_head = 6 features has 3 pairs"),
    (lambda: nt.SwiGLU(4, 6, activation="swiglu"), "'relu', 'gelu', 'gelu_tanh', 'silu'"),
    (lambda: nt.DecoderBlock(4, 2, 6, activation="glu"), "'swiglu', 'geglu', 'geglu_tanh', 'reglu'"),
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
    with no_floating_point_errors():
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
