import copy
import pickle
import tracemalloc

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer.module import unfilled

SIZES = dict(vocab_size=300, d_model=64, num_heads=4, num_layers=3, max_len=50)
BYTES = 4 * nt.CausalLanguageModel(**SIZES, rng=0).num_parameters()


def allocated(function):
    """(result, bytes still allocated afterwards, largest number of bytes allocated at any time)"""
    tracemalloc.start()
    try:
        result = function()
        return result, *tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()


def empty_model(**sizes):
    with unfilled():
        return nt.CausalLanguageModel(**(sizes or SIZES))


def test_gradients_take_memory_when_they_are_needed_and_not_for_zero_grad():
    model = nt.CausalLanguageModel(**SIZES, rng=0).eval()
    nt.generate(model, [1], 2)
    _, _, most = allocated(model.zero_grad)
    assert most < BYTES / 10 and not any(p.has_grad for p in model.parameters())
    model.train()
    model.backward(np.ones_like(model(np.arange(3))))
    assert all(p.has_grad and p.grad.shape == p.data.shape for p in model.parameters())
    kept = [p.grad for p in model.parameters()]
    model.zero_grad()
    assert all(p.grad is grad and not grad.any() for p, grad in zip(model.parameters(), kept))


def test_a_gradient_that_was_not_needed_is_zero_for_all_who_ask():
    p = nt.Parameter(np.ones((2, 3), np.float32))
    assert p.grad.dtype == np.float32 and p.grad.shape == (2, 3) and not p.grad.any()
    assigned = nt.Parameter(np.ones(2))
    assigned.grad = 3
    np.testing.assert_array_equal(assigned.grad, [3, 3])
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        nt.Parameter(np.ones(2)).grad = np.ones(3)
    for twin in (copy.deepcopy(nt.Parameter(np.ones(2))), pickle.loads(pickle.dumps(nt.Parameter(np.ones(2))))):
        assert not twin.has_grad and not twin.grad.any()
    assert nt.Parameter(np.ones(2)).twin().grad.tolist() == [0, 0]
    converted = nt.Parameter(np.ones(2, np.float32))
    converted.astype(np.float64)
    assert not converted.has_grad and converted.grad.dtype == np.float64


def test_an_unfilled_model_has_shapes_and_dtypes_but_no_memory():
    model, kept, most = allocated(empty_model)
    assert most < BYTES / 4
    filled = nt.CausalLanguageModel(**SIZES, rng=0)
    assert model.summary() == filled.summary()
    assert all(p.data.dtype == np.float32 and not p.filled for p in model.parameters())
    assert empty_model().astype(np.float64).embedding.weight.data.dtype == np.float64
    assert nt.Parameter(np.ones(2)).filled                  # afterwards, parameters are filled again


@pytest.mark.parametrize("make", [
    lambda: nt.make_model(9, 9, 1, 8, 8, 2), lambda: nt.TextEncoder(9, 8, 2, 1, init="keras"),
    lambda: nt.MaskedLanguageModel(9, 8, 2, 1, init="bert"), lambda: nt.SequenceClassifier(9, 8, 2, 1),
    lambda: nt.CausalLanguageModel(9, 8, 2, 1, tie_weights=False, norm_layer="rms", activation="swiglu")])
@pytest.mark.parametrize("taken_over", [False, True])
def test_every_model_can_be_made_unfilled_and_filled_later(make, taken_over):
    with unfilled():
        model = make()
    assert not any(p.filled for p in model.parameters())
    rng = np.random.default_rng(0)
    state = {name: rng.standard_normal(p.data.shape).astype(np.float32) for name, p in model.named_parameters()}
    model.load_state_dict(state, copy=not taken_over)
    for name, p in model.named_parameters():
        assert p.filled and np.array_equal(p.data, state[name]) and (p.data is state[name]) == taken_over
    nt.SGD(model.parameters(), 0.1).step()                  # the parameters can be written to


def test_loading_with_copy_false_takes_no_memory_beyond_the_arrays():
    state = nt.CausalLanguageModel(**SIZES, rng=0).state_dict()
    model, kept, most = allocated(lambda: empty_model().load_state_dict(state, copy=False))
    assert most < BYTES / 4
    assert model.output.weight is model.embedding.weight and model.embedding.weight.data is state["embedding.weight"]


def read_only(array):
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("array, taken", [
    (np.ones((2, 3), np.float32), True),
    (np.ones(6, np.float32).reshape(2, 3), True),                       # as np.load gives it
    (np.ones((3, 2), np.float32).T, False), (np.ones((4, 3), np.float32)[:2], False),
    (read_only(np.ones((2, 3), np.float32)), False), (np.ones((2, 3)), False),
    (np.frombuffer(bytes(24), np.float32).reshape(2, 3), False), ([[1, 1, 1], [1, 1, 1]], False)])
def test_only_a_whole_writable_array_of_the_same_dtype_is_taken_over(array, taken):
    module = nt.Module()
    module.weight = nt.Parameter(np.zeros((2, 3), np.float32))
    module.load_state_dict({"weight": array}, copy=False)
    data = module.weight.data
    assert data.dtype == np.float32 and data.flags.writeable and data.flags.c_contiguous
    assert np.array_equal(data, array) and np.shares_memory(data, array) == taken


def test_two_parameters_never_share_one_array_of_the_state():
    layer = nt.LayerNorm(3)
    one = np.ones(3, np.float32)
    layer.load_state_dict({"gamma": one, "beta": one}, copy=False)
    layer.beta.data += 1
    np.testing.assert_array_equal(layer.gamma.data, [1, 1, 1])


def test_a_state_that_does_not_fit_leaves_an_unfilled_model_unfilled():
    model = empty_model()
    state = nt.CausalLanguageModel(**SIZES, rng=0).state_dict()
    state["decoder.norm.gamma"] = np.ones(3)
    with pytest.raises(ValueError, match="nothing was loaded; wrong shape: decoder.norm.gamma"):
        model.load_state_dict(state, copy=False)
    assert not any(p.filled for p in model.parameters())


def test_an_optimizer_follows_arrays_that_were_taken_over_after_it_was_made():
    model, same = nt.Linear(3, 2, rng=0), nt.Linear(3, 2, rng=0)
    optimizers = [nt.Adam(m.parameters()) for m in (model, same)]
    model.load_state_dict(model.state_dict(), copy=False)
    for m, optimizer in zip((model, same), optimizers):
        m(np.ones((1, 3), np.float32))
        m.backward(np.ones((1, 2), np.float32))
        optimizer.step()
    np.testing.assert_array_equal(model.weight.data, same.weight.data)


@pytest.mark.parametrize("build, room", [
    (lambda: nt.Linear(2000, 3000), (1_000_000, 2)), (lambda: [nt.LayerNorm(1) for _ in range(2000)], (4000, 300)),
    (lambda: nt.Embedding(10 ** 12, 10 ** 12), (100, 1)), (lambda: nt.RotaryEmbedding(2 ** 40), (100, 1)),
    (lambda: nt.ALiBi(2 ** 40), (100, 1)), (lambda: nt.SinusoidalPositionalEncoding(64, 10 ** 9), (100, 1))])
def test_a_file_that_holds_little_builds_nothing_large(build, room):
    with pytest.raises(ValueError, match="the model has many more (numbers|weights) than the .* in the file"), unfilled(*room):
        build()


def test_what_a_file_lacks_by_little_is_built_and_named_when_it_is_loaded():
    with unfilled(6, 1):
        model = nt.Linear(20, 30)
        nt.SinusoidalPositionalEncoding(64, 5000)           # no file holds its table
    with pytest.raises(ValueError, match="nothing was loaded; missing: weight"):
        model.load_state_dict({"bias": np.zeros(30)})
