"""Weights of 8 and 4 bits: what is stored, what is computed with it, and LoRA beside it."""

import copy
import math
import pickle

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer.layers.quantization import (QuantizedParameter, dequantize_groups, pack_int4, quantize_groups,
                                                   unpack_int4)

IDS = np.random.default_rng(0).integers(1, 11, (3, 5))


def model(seed=0, **settings):
    return nt.CausalLanguageModel(11, 12, 2, 2, max_len=5, rng=seed, **settings)


def weight(d_in=12, d_out=5, seed=0):
    return np.random.default_rng(seed).standard_normal((d_in, d_out))


@pytest.mark.parametrize("bits, group, n", [(8, 3, 127), (4, 4, 7), (4, None, 7), (2, 6, 1), (3, 2, 3)])
def test_codes_and_scales_are_those_of_plain_loops(bits, group, n):
    W = weight()
    W[0:6, 2] = 0                                           # groups of zeros
    with np.errstate(all="raise"):                          # a group of zeros is not divided by 0
        codes, largest = quantize_groups(W, bits, group)
    size = group or 12
    assert codes.dtype == np.int8 and largest.shape == (12 // size, 5)
    for i, j in np.ndindex(W.shape):
        start = i // size * size
        top = max(abs(W[k, j]) for k in range(start, start + size))
        assert largest[i // size, j] == top
        assert codes[i, j] == (round(n * (W[i, j] / top)) if top else 0)
    rounded = dequantize_groups(codes, largest, bits)
    errors = abs(rounded - W).reshape(-1, size, 5).max(1)
    assert (errors <= largest / n / 2 * (1 + 1e-12)).all() and (bits > 4 or errors.max() > 0.01)
    assert not rounded[0:6, 2].any() or size > 6


def test_halves_go_to_even_integers():
    W = np.array([[7.0], [0.5], [1.5], [-2.5], [-0.5], [3.5]])
    assert quantize_groups(W, 4)[0].ravel().tolist() == [7, 0, 2, -2, 0, 4]


@pytest.mark.parametrize("bits, group", [(8, 3), (4, 4), (8, None)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_twice_changes_no_bit(bits, group, dtype):
    W = weight(96, 50).astype(dtype) * 1.37
    group = group and 8 * group
    once = dequantize_groups(*quantize_groups(W, bits, group), bits)
    twice = dequantize_groups(*quantize_groups(once, bits, group), bits)
    assert once.dtype == dtype and not np.array_equal(once, W)
    np.testing.assert_array_equal(once, twice)


@pytest.mark.parametrize("shape", [(3, 4), (3, 5), (1, 1), (2, 7)])
def test_two_integers_share_a_byte(shape):
    codes = np.random.default_rng(1).integers(-8, 8, shape).astype(np.int8)
    packed = pack_int4(codes)
    assert packed.dtype == np.uint8 and len(packed) == math.ceil(codes.size / 2)
    first, second = [int(code) for code in codes.flat[:2]] if codes.size > 1 else (int(codes.flat[0]), -8)
    assert packed[0] == (first + 8) + 16 * (second + 8)
    unpacked = unpack_int4(packed, shape)
    np.testing.assert_array_equal(unpacked, codes)
    assert unpacked.dtype == np.int8


@pytest.mark.parametrize("bits, group, nbytes", [(8, 4, 60 + 4 * 15), (4, 4, 30 + 4 * 15), (4, None, 30 + 4 * 5)])
def test_a_quantized_parameter_takes_the_bytes_of_its_integers_and_scales(bits, group, nbytes):
    parameter = QuantizedParameter(weight().astype(np.float32), bits, group)
    assert parameter.nbytes == nbytes == sum(array.nbytes for array in vars(parameter).values() if isinstance(array, np.ndarray))
    assert parameter.data.dtype == np.float32 and parameter.data.shape == (12, 5)


def test_a_quantized_parameter_is_frozen_and_cannot_be_changed_unnoticed():
    parameter = QuantizedParameter(weight(), 4, 4)
    with pytest.raises(ValueError, match="read-only"):
        parameter.data[0, 0] = 1
    with pytest.raises(ValueError, match="a quantized weight stays frozen; call dequantize"):
        parameter.frozen = False
    with pytest.raises(ValueError, match=r"cannot assign an array of shape \(2, 2\) to a quantized parameter of shape \(12, 5\)"):
        parameter.data = np.zeros((2, 2))
    parameter.grad += 1
    parameter.frozen = True
    assert parameter.frozen and not parameter.grad.any() and not parameter.has_grad and parameter.grad.shape == (12, 5)
    assert repr(parameter) == "QuantizedParameter(shape=(12, 5), bits=4, group=4, dtype=float64)"
    other = copy.deepcopy(parameter)
    other.data = np.ones((12, 5))
    assert (other.data == 1).all() and not (parameter.data == 1).all()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(parameter)).data, parameter.data)


@pytest.mark.parametrize("call, said", [
    (lambda: nt.QuantizedLinear(nt.Linear(12, 5), 3), "bits = 3 cannot be stored; choose 8"),
    (lambda: nt.QuantizedLinear(nt.Linear(12, 5)), "group = 32 does not divide the 12 input features; choose a divisor, or None"),
    (lambda: nt.QuantizedLinear(nt.Linear(12, 5), group=0), "group = 0 does not divide"),
    (lambda: quantize_groups(np.ones((2, 2)), 1), "bits = 1 must be from 2 to 8"),
    (lambda: quantize_groups(np.ones((2, 2)), 9), "bits = 9 must be from 2 to 8"),
    (lambda: quantize_groups(np.array([[1.0, np.nan]]), 4), "the weight contains infinity or NaN"),
    (lambda: quantize_groups(np.array([[1.0, -np.inf]]), 4), "the weight contains infinity or NaN"),
    (lambda: nt.dequantize(model()), "CausalLanguageModel has no quantized weight; see quantize"),
    (lambda: nt.quantize(model(), 4, 4, "gate"), "has no Linear called 'gate'"),
    (lambda: nt.quantize(nt.add_lora(model(), 2), 4, 4), "has LoRA updates already; quantize the model before add_lora")])
def test_what_cannot_be_quantized_is_refused(call, said):
    with pytest.raises(ValueError, match=said):
        call()


def test_a_refused_model_stays_as_it_was():
    whole = model()
    with pytest.raises(ValueError, match="group = 8 does not divide the 12 input features"):
        nt.quantize(whole, 4, 8)
    assert not any(isinstance(part, nt.QuantizedLinear) for _, part in whole.named_modules())


@pytest.mark.parametrize("bits, group, tolerance", [(8, 4, 0.01), (4, 4, 0.15)])
def test_a_quantized_model_computes_with_the_rounded_weights(bits, group, tolerance):
    whole = model().eval()
    before, names = whole(IDS), list(whole.state_dict())
    rounded = {name: dequantize_groups(*quantize_groups(array, bits, group), bits)
               for name, array in whole.state_dict().items() if name.endswith("weight") and ("attention" in name or "feed" in name)}
    assert len(rounded) == 12
    plain = copy.deepcopy(whole)
    plain.load_state_dict(plain.state_dict() | rounded)
    assert nt.quantize(whole, bits, group) is whole and list(whole.state_dict()) == names
    np.testing.assert_array_equal(whole(IDS), plain(IDS))
    error = np.linalg.norm(whole(IDS) - before) / np.linalg.norm(before)
    assert tolerance / 100 < error < tolerance


def test_only_the_chosen_linears_are_quantized_and_bytes_are_counted():
    whole = model()
    everything = nt.stored_bytes(whole)
    assert everything == 4 * whole.num_parameters()
    nt.quantize(whole, 4, 6, "up")
    names = [name for name, part in whole.named_modules() if isinstance(part, nt.QuantizedLinear)]
    assert names == ["decoder.blocks.0.feed_forward.up", "decoder.blocks.1.feed_forward.up"]
    saved = 2 * 12 * 48 * 4 - 2 * (12 * 48 // 2 + 2 * 48 * 4)       # 4 bytes each; half a byte, and 4 for every 6 rows
    assert nt.stored_bytes(whole) == everything - saved
    single = nt.quantize(nt.Linear(4, 2, rng=0).eval(), 8, 2)
    assert isinstance(single, nt.QuantizedLinear) and not single.remembering and "bits=8, group=2" in repr(single)
    again = nt.quantize(nt.add_rounding(nt.Linear(4, 2, rng=0), np.rint), 8, 2)     # after training with rounded weights
    np.testing.assert_array_equal(again.weight.data, single.weight.data)


def test_the_state_of_a_quantized_model_keeps_every_bit():
    one, other = nt.quantize(model(), 4, 4), nt.quantize(model(1), 4, 4)
    other.load_state_dict(one.state_dict())
    third = nt.quantize(model(2), 4, 4).load_state_dict(one.state_dict(), copy=False)
    np.testing.assert_array_equal(one.eval()(IDS), other.eval()(IDS))
    np.testing.assert_array_equal(one(IDS), third.eval()(IDS))
    assert isinstance(third.decoder.blocks[0].attention.query.weight, QuantizedParameter)


def test_gradients_of_a_quantized_model_with_lora_are_right_and_its_base_stays():
    whole = nt.add_lora(nt.quantize(model(), 4, 4), 2, ("query", "value", "down"), alpha=3.0, rng=1)
    report = nt.gradcheck(whole, IDS, directions=1)
    assert report.ok, str(report)
    trained = [name for name, _ in whole.named_parameters(trained=True)]
    assert {row.tensor for row in report.rows} == set(trained) and all(name.endswith((".A", ".B")) for name in trained)
    before = {name: p.stored.copy() for name, p in whole.named_parameters() if isinstance(p, QuantizedParameter)}
    assert len(before) == 12
    optimizer, criterion = nt.Adam(whole.parameters(), 0.01), nt.CrossEntropyLoss()
    losses = []
    for _ in range(30):
        whole.zero_grad()
        losses.append(criterion(whole(IDS[:, :-1]), IDS[:, 1:]))
        whole.backward(criterion.backward())
        optimizer.step()
    assert losses[-1] < losses[0] - 0.05
    assert all(np.array_equal(p.stored, before[name]) for name, p in whole.named_parameters() if name in before)


def test_a_quantized_model_that_is_not_frozen_trains_the_rest():
    whole = nt.quantize(model(), 8, 4)
    report = nt.gradcheck(whole, IDS, directions=1)
    assert report.ok, str(report)
    tensors = {row.tensor for row in report.rows}
    assert "decoder.blocks.0.attention.query.bias" in tensors and "decoder.blocks.0.attention.query.weight" not in tensors
    with pytest.raises(ValueError, match=r"is a QuantizedLinear, whose weight stays frozen; call dequantize\(model\) first"):
        nt.unfreeze(whole)


def test_dequantized_weights_are_the_rounded_ones_and_can_be_trained_or_merged():
    whole = nt.quantize(model(), 4, 4).eval()
    y = whole(IDS)
    floats = nt.dequantize(copy.deepcopy(whole))
    np.testing.assert_array_equal(floats.eval()(IDS), y)
    assert type(floats.decoder.blocks[0].attention.query) is nt.Linear and floats.num_parameters(trained=True) == floats.num_parameters()
    with_lora = nt.add_lora(whole, 2, ("query", "up"), rng=1)
    for n, (_, parameter) in enumerate(with_lora.named_parameters(trained=True)):
        parameter.data = np.random.default_rng(n).standard_normal(parameter.data.shape)
    changed = with_lora(IDS)
    assert not np.allclose(changed, y)
    with pytest.raises(ValueError, match=r"query is quantized, so W \+ s A B would be rounded once more; call dequantize\(model\)"):
        nt.merge_lora(with_lora)
    merged = nt.merge_lora(nt.dequantize(with_lora))
    np.testing.assert_allclose(merged(IDS), changed, rtol=1e-4, atol=1e-5)
    assert not any(isinstance(part, (nt.LoRALinear, nt.QuantizedLinear)) for _, part in merged.named_modules())


def test_a_quantized_lora_layer_merges_by_rounding_again_and_unmerges_exactly():
    layer = nt.LoRALinear(nt.QuantizedLinear(nt.Linear(12, 5, rng=0), 4, 4), 2, rng=1)
    layer.B.data = np.random.default_rng(2).standard_normal((2, 5))
    before = layer.weight.data
    sum_of_both = before + layer.A.data @ layer.B.data
    np.testing.assert_array_equal(layer.merge().weight.data, dequantize_groups(*quantize_groups(sum_of_both, 4, 4), 4))
    np.testing.assert_array_equal(layer.unmerge().weight.data, before)
