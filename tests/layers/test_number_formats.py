"""Rounding to small floating-point formats, compared with all numbers that their bits can express."""

import bisect
from fractions import Fraction

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer.layers.number_formats import NUMBER_FORMATS

FLOAT8 = ("float8_e4m3", "float8_e5m2")


def values_of_all_bytes(name):
    """The finite numbers of the 256 bytes of a float8 format, decoded bit by bit as table 1 of Micikevicius et al. 2022 says.

    In E4M3 the bits S.1111.111 are NaN and there is no infinity; in E5M2 the exponent 11111 is reserved for both.
    """
    mantissa_bits, bias = (3, 7) if name == "float8_e4m3" else (2, 15)
    values = []
    for byte in range(256):
        sign, magnitude = (-1 if byte >> 7 else 1), byte & 127
        exponent, mantissa = magnitude >> mantissa_bits, magnitude & (2 ** mantissa_bits - 1)
        if (magnitude == 127) if name == "float8_e4m3" else (exponent == 31):
            continue
        fraction = Fraction(mantissa, 2 ** mantissa_bits)
        if exponent == 0:
            value = fraction * Fraction(2) ** (1 - bias)                # subnormal: no leading 1
        else:
            value = (1 + fraction) * Fraction(2) ** (exponent - bias)
        values.append((sign * value, mantissa % 2 == 0))                # whether the last bit is 0
    return values


def nearest(x, values):
    """The nearest of sorted exact values (value, whether its last bit is 0); of two that are equally near, the one with last bit 0."""
    x = Fraction(float(x))
    above = bisect.bisect_left(values, (x, False))
    return min(values[max(above - 1, 0):above + 2], key=lambda pair: (abs(pair[0] - x), not pair[1]))[0]


@pytest.mark.parametrize("name, count, largest, smallest_normal, smallest", [
    ("float8_e4m3", 254, 448, 2.0 ** -6, 2.0 ** -9), ("float8_e5m2", 248, 57344, 2.0 ** -14, 2.0 ** -16)])
def test_all_numbers_of_float8_stay_as_they_are(name, count, largest, smallest_normal, smallest):
    values = np.array([float(value) for value, _ in values_of_all_bytes(name)])
    assert len(values) == count and values.max() == largest and values[values > 0].min() == smallest
    assert NUMBER_FORMATS[name].largest == largest and 2.0 ** NUMBER_FORMATS[name].smallest_exponent == smallest_normal
    for dtype in (np.float32, np.float64):
        rounded = nt.round_to(values.astype(dtype), name)
        assert rounded.dtype == dtype
        np.testing.assert_array_equal(rounded, values)


@pytest.mark.parametrize("name", FLOAT8)
def test_other_numbers_become_the_nearest_one_and_ties_the_even_one(name):
    values = sorted(values_of_all_bytes(name))
    finite = sorted({value for value, _ in values})
    halves = [float((a + b) / 2) for a, b in zip(finite, finite[1:])]            # exact in float32
    rng = np.random.default_rng(0)
    between = np.concatenate([halves, np.nextafter(halves, np.inf, dtype=np.float32), np.nextafter(halves, -np.inf, dtype=np.float32),
                              rng.standard_normal(300) * 2.0 ** rng.integers(-20, 16, 300)]).astype(np.float32)
    expected = [float(nearest(x, values)) for x in between]                     # beyond the largest, the largest is nearest
    np.testing.assert_array_equal(nt.round_to(between, name), expected)
    assert len(set(expected)) > 100


def test_bfloat16_keeps_the_upper_16_bits_rounded_to_even():
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2 ** 32, 5000, dtype=np.uint64)
    bits[:64] = bits[:64] // 2 ** 16 * 2 ** 16 + 2 ** 15                        # ties
    x = bits.astype(np.uint32).view(np.float32)
    x = x[np.isfinite(x)]
    old = x.view(np.uint32).astype(np.uint64)
    upper = (old + 0x7FFF + (old >> 16 & 1)) >> 16 << 16                        # the usual trick with integers
    np.testing.assert_array_equal(nt.round_to(x, "bfloat16"), upper.astype(np.uint32).view(np.float32))


def test_float16_is_that_of_numpy():
    rng = np.random.default_rng(2)
    x = (rng.standard_normal(5000) * 2.0 ** rng.integers(-30, 18, 5000)).astype(np.float32)
    x[:4] = [65519.9, 65520, -65520, 2.0 ** -25]
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(nt.round_to(x, "float16"), expected)
    assert np.isinf(expected).sum() > 10 and (expected == 0).sum() > 10


@pytest.mark.parametrize("name", NUMBER_FORMATS)
def test_infinity_nan_and_signs_of_zero(name):
    form = NUMBER_FORMATS[name]
    limit = form.largest if form.saturates else np.inf
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, -1e-300, 1e300])
    y = nt.round_to(x, name)
    np.testing.assert_array_equal(y, [limit, -limit, np.nan, 0, 0, 0, limit])
    assert np.signbit(y[[4, 5]]).all() and x[6] == 1e300                        # the argument has not changed


@pytest.mark.parametrize("name, torch_name", [("bfloat16", "bfloat16"), ("float8_e4m3", "float8_e4m3fn"), ("float8_e5m2", "float8_e5m2")])
def test_torch_rounds_alike(name, torch_name):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    x = (rng.standard_normal(2000) * 2.0 ** rng.integers(-18, 7, 2000)).astype(np.float32)
    theirs = torch.tensor(x).to(getattr(torch, torch_name)).to(torch.float32).numpy()
    np.testing.assert_array_equal(nt.round_to(x, name), theirs)


@pytest.mark.parametrize("name, type_name", [("bfloat16", "bfloat16"), ("float8_e4m3", "float8_e4m3fn"), ("float8_e5m2", "float8_e5m2")])
def test_ml_dtypes_rounds_alike(name, type_name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    rng = np.random.default_rng(4)
    x = (rng.standard_normal(2000) * 2.0 ** rng.integers(-18, 7, 2000)).astype(np.float32)
    np.testing.assert_array_equal(nt.round_to(x, name), x.astype(getattr(ml_dtypes, type_name)).astype(np.float32))


def test_an_unknown_format_is_refused():
    with pytest.raises(ValueError, match="there is no number format 'float8'; choose among bfloat16, float16, float8_e4m3"):
        nt.round_to(np.ones(3), "float8")


def linear(seed=0, bias=True):
    rng = np.random.default_rng(seed)
    layer = nt.Linear(6, 4, bias, rng).astype(np.float64)
    for parameter in layer.parameters():
        parameter.data = rng.standard_normal(parameter.data.shape)
    return layer


@pytest.mark.parametrize("bias", [True, False])
def test_straight_through_computes_with_rounded_weights_and_gives_the_masters_the_gradient_of_these(bias):
    layer = nt.StraightThroughLinear(linear(bias=bias), np.rint)
    x, dy = np.random.default_rng(1).standard_normal((2, 3, 6)), np.random.default_rng(2).standard_normal((2, 3, 4))
    W = np.array([[float(round(w)) for w in row] for row in layer.weight.data])     # Python rounds halves to even, too
    b = layer.bias.data if bias else 0
    np.testing.assert_allclose(layer(x), np.einsum("btd,de->bte", x, W) + b, rtol=1e-12)
    np.testing.assert_allclose(layer.backward(dy), np.einsum("bte,de->btd", dy, W), rtol=1e-12)
    np.testing.assert_allclose(layer.weight.grad, np.einsum("btd,bte->de", x, dy), rtol=1e-12)
    if bias:
        np.testing.assert_allclose(layer.bias.grad, dy.sum((0, 1)), rtol=1e-12)
    assert not np.array_equal(layer.weight.data, W)                                 # the masters are not rounded


def test_rounding_is_added_to_the_chosen_linears_and_the_parameters_stay():
    model = nt.CausalLanguageModel(11, 12, 2, 2, max_len=5, rng=0)
    parameters = model.named_parameters()
    assert nt.add_rounding(model, lambda W: nt.round_to(W, "float8_e4m3"), ("query", "up")) is model
    names = [name for name, part in model.named_modules() if isinstance(part, nt.StraightThroughLinear)]
    assert names == [f"decoder.blocks.{n}.{part}" for n in (0, 1) for part in ("attention.query", "feed_forward.up")]
    assert all(p is q and a == b for (a, p), (b, q) in zip(parameters, model.named_parameters(), strict=True))
    whole = nt.add_rounding(nt.CausalLanguageModel(11, 12, 2, 2, max_len=5, rng=0), np.rint)
    assert sum(isinstance(part, nt.StraightThroughLinear) for _, part in whole.named_modules()) == 12
    assert not any(isinstance(part, nt.Linear) for _, part in whole.named_modules())
    single = nt.add_rounding(nt.Linear(3, 2).eval(), np.rint)
    assert isinstance(single, nt.StraightThroughLinear) and not single.remembering
    assert repr(single).startswith("StraightThroughLinear(d_in=3, d_out=2, bias=True)")
    with pytest.raises(ValueError, match="has no Linear called 'gate'; choose among"):
        nt.add_rounding(nt.CausalLanguageModel(11, 12, 2, 2, max_len=5, rng=0), np.rint, "gate")
    with pytest.raises(ValueError, match="LayerNorm has no Linear, so there are no weights to round"):
        nt.add_rounding(nt.LayerNorm(3), np.rint)
