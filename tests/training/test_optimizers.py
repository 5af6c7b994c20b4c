"""The flat buffers of the optimizers: parameters of one dtype and kind lie next to each other, and no number changes."""

import copy
import math

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer.training import optimizers

V, T = 11, 7


def language_model():
    return nt.CausalLanguageModel(V, 12, 2, 2, max_len=T, rng=0).astype(np.float64)


def batch(n):
    ids = np.random.default_rng([3, n]).integers(1, V, (5, T + 1))
    return ids[:, :-1], ids[:, 1:]


def gradients(model):
    return {name: p.grad.copy() for name, p in model.named_parameters()}


def test_an_optimizer_moves_parameters_and_gradients_into_one_buffer_and_changes_no_number():
    model = language_model()
    rng = np.random.default_rng(1)
    for p in model.parameters():
        p.grad = rng.standard_normal(p.data.shape)
    before, wanted = model.state_dict(), gradients(model)
    optimizer = nt.Adam([*model.parameters(), model.output.weight])     # tied, and named twice
    (buffer,) = optimizer.buffers
    assert sum(p is model.embedding.weight for p in optimizer.parameters) == 1
    assert len(buffer.data) == len(buffer.grad) == model.num_parameters()
    places = []
    for name, p in model.named_parameters():
        assert p.data.base is buffer.data and p.grad.base is buffer.grad, name
        np.testing.assert_array_equal(p.data, before[name])
        np.testing.assert_array_equal(p.grad, wanted[name])
        start = (p.data.ctypes.data - buffer.data.ctypes.data) // p.data.itemsize
        places.append((start, start + p.data.size))
    places.sort()
    assert [a for _, a in places] == [b for b, _ in places[1:]] + [len(buffer.data)] and places[0][0] == 0
    state = model.state_dict()
    model.embedding.weight.data += 1
    np.testing.assert_array_equal(state["embedding.weight"], before["embedding.weight"])     # copies


def test_assignment_still_copies_into_the_buffer():
    model = nt.Linear(3, 5, rng=0)
    (buffer,) = nt.SGD(model.parameters(), 0.1).buffers
    value = np.arange(15.0, dtype=np.float32).reshape(3, 5)
    model.weight.data, model.weight.grad = value, 2 * value
    value[:] = -1
    np.testing.assert_array_equal(model.weight.data, np.arange(15.0).reshape(3, 5))
    np.testing.assert_array_equal(model.weight.grad, 2 * np.arange(15.0).reshape(3, 5))
    assert model.weight.data.base is buffer.data and model.weight.grad.base is buffer.grad
    with pytest.raises(ValueError, match="shape"):
        model.weight.data = np.zeros((5, 3))
    model.load_state_dict({"weight": np.ones((3, 5)), "bias": np.ones(5)})
    assert (buffer.data == 1).all()


def test_the_state_is_live_and_has_the_shapes_of_the_parameters():
    rng = np.random.default_rng(2)
    mixed = [nt.Parameter(rng.standard_normal(shape).astype(dtype)) for shape, dtype in (
        ((3, 5), "f4"), ((2,), "f8"), ((7,), "f4"), ((), "f8"), ((2, 3, 4), "f4"))]
    optimizer = nt.Adam(mixed, 0.1)
    assert len(optimizer.buffers) == 2 and {id(p) for p in optimizer.parameters} == {id(p) for p in mixed}
    for values in (optimizer.m, optimizer.v, *optimizer.state().values()):
        assert [(a.shape, a.dtype) for a in values] == [(p.data.shape, p.data.dtype) for p in optimizer.parameters]
    where = [n for n, p in enumerate(optimizer.parameters) if p is mixed[2]][0]
    optimizer.m[where][:] = 3
    assert (optimizer.state()["m"][where] == 3).all()
    before = mixed[2].data.copy()
    optimizer.step()
    np.testing.assert_allclose(optimizer.m[where], 2.7, rtol=1e-6)
    assert (mixed[2].data < before).all() and sum((a != 0).any() for a in optimizer.m) == 1


def scalar_step(kind, w, g, state, t, lr, options):
    """One step of one number, from the formula; the new w."""
    if kind == "SGD":
        state["v"] = options["momentum"] * state.get("v", 0.0) + g
        return w - lr * state["v"]
    beta1, beta2 = options.get("betas", (0.9, 0.999))
    state["m"] = beta1 * state.get("m", 0.0) + (1 - beta1) * g
    state["v"] = beta2 * state.get("v", 0.0) + (1 - beta2) * g * g
    m, v = state["m"] / (1 - beta1 ** t), state["v"] / (1 - beta2 ** t)
    if kind == "AdamW":
        w *= 1 - lr * options["weight_decay"]
    return w - lr * m / (math.sqrt(v) + options.get("eps", 1e-8))


MATRICES = {"weight_decay": 0.3, "decay": lambda p: p.data.ndim >= 2}


@pytest.mark.parametrize("block", [1, 4, 7, 2 ** 17])
@pytest.mark.parametrize("kind, options", [("SGD", {"momentum": 0.8}), ("Adam", {"betas": (0.7, 0.9), "eps": 0.01}),
                                           ("AdamW", {"weight_decay": 0.3}), ("AdamW", MATRICES)])
def test_steps_in_blocks_are_those_of_each_number_alone(monkeypatch, kind, options, block):
    monkeypatch.setattr(optimizers, "BLOCK", block)
    rng = np.random.default_rng(3)
    parameters = [nt.Parameter(rng.standard_normal(shape)) for shape in ((2, 3), (5,), (), (4,), (3, 1))]
    wanted = [p.data.ravel().tolist() for p in parameters]
    states = [[{} for _ in numbers] for numbers in wanted]
    rules = [options if options.get("decay", lambda p: True)(p) else options | {"weight_decay": 0} for p in parameters]
    optimizer = getattr(nt, kind)(parameters, 0.1, **options)
    for t in range(1, 5):
        optimizer.lr = 0.1 / t
        for p, numbers, kept, rule in zip(parameters, wanted, states, rules):
            p.grad = rng.standard_normal(p.data.shape)
            numbers[:] = [scalar_step(kind, w, float(g), state, t, optimizer.lr, rule)
                          for w, g, state in zip(numbers, p.grad.ravel(), kept)]
        optimizer.step()
        for p, numbers in zip(parameters, wanted):
            np.testing.assert_allclose(p.data.ravel(), numbers, rtol=1e-12)


def test_parameters_of_a_dtype_and_kind_lie_in_one_buffer_and_the_state_with_them():
    rng = np.random.default_rng(6)
    parameters = [nt.Parameter(rng.standard_normal(shape).astype(dtype)) for shape, dtype in (
        ((2, 3), "f4"), ((5,), "f4"), ((4, 1), "f4"), ((2, 2), "f8"), ((3,), "f4"), ((7,), "f8"))]
    chosen = [parameters[0], parameters[2], parameters[4]]
    for decay in (chosen, lambda p: any(p is one for one in chosen)):
        optimizer = nt.AdamW(parameters, 0.1, decay=decay)
        assert [[parameters.index(p) for p in buffer.parameters] for buffer in optimizer.buffers] == [
            [0, 2, 4], [1], [3, 5]]
        assert [id(p) for p in optimizer.decay] == [id(p) for p in chosen]
        assert [parameters.index(p) for p in optimizer.parameters] == [0, 2, 4, 1, 3, 5]
        for values in (optimizer.m, optimizer.v):
            assert [(a.shape, a.dtype) for a in values] == [(p.data.shape, p.data.dtype) for p in optimizer.parameters]
    for kind in (nt.SGD, nt.Adam, nt.AdamW):
        assert len(kind(parameters, 0.1).buffers) == 2


@pytest.mark.parametrize("first, second", [((0, 4), (2, 6)), ((0, 6), (0, 6)), ((1, 3), (0, 6))])
def test_optimizers_with_common_parameters_both_move_the_model(first, second):
    def steps(apart):
        """apart: each step by a new optimizer that holds nothing else's arrays, with the state that was."""
        rng = np.random.default_rng(4)
        parameters = [nt.Parameter(rng.standard_normal(shape)) for shape in ((2, 3), (5,), (4,), (3, 2), (7,), (1, 2))]
        chosen = [parameters[slice(*part)] for part in (first, second)]
        both = [nt.SGD(part, 0.1, 0.9) for part in chosen]
        velocity = [[np.zeros(p.data.shape) for p in part] for part in chosen]
        for n in (0, 1, 0, 0, 1, 1, 0):
            for p in parameters:
                p.grad = rng.standard_normal(p.data.shape)
            if not apart:
                both[n].step()
                continue
            for p, v in zip(chosen[n], velocity[n]):
                v[:] = 0.9 * v + p.grad
                p.data = p.data - 0.1 * v
        return parameters

    for p, q in zip(steps(False), steps(True), strict=True):
        np.testing.assert_allclose(p.data, q.data, rtol=1e-12)


def test_parameters_of_different_dtypes_are_each_updated_in_their_own():
    rng = np.random.default_rng(5)
    arrays = [rng.standard_normal(shape).astype(dtype) for shape, dtype in (
        ((3, 2), np.float32), ((5,), np.float64), ((4,), np.complex128), ((2, 2), np.float32), ((3,), np.float64))]
    parameters = [nt.Parameter(array) for array in arrays]
    optimizer = nt.SGD(parameters, 0.5)
    for p, array in zip(parameters, arrays):
        p.grad = array / 3
    optimizer.step()
    for p, array in zip(parameters, arrays):
        assert p.data.dtype == p.grad.dtype == array.dtype
        np.testing.assert_allclose(p.data, array * 5 / 6, rtol=1e-6 if array.dtype == np.float32 else 1e-14)


def test_a_copy_of_model_and_optimizer_goes_on_together_and_alone():
    model = language_model()
    optimizer = nt.Adam(model.parameters(), 0.1)

    def go_on(model, optimizer, steps):
        criterion = nt.CrossEntropyLoss()
        for n in steps:
            model.zero_grad()
            criterion(model(batch(n)[0]), batch(n)[1])
            model.backward(criterion.backward())
            optimizer.step()

    go_on(model, optimizer, range(2))
    twin, its_optimizer = copy.deepcopy((model, optimizer))
    for p, q in zip(model.parameters(), twin.parameters()):
        assert not np.shares_memory(p.data, q.data) and not np.shares_memory(p.grad, q.grad)
    before = model.state_dict()
    go_on(twin, its_optimizer, range(2, 4))
    for name, array in model.state_dict().items():
        np.testing.assert_array_equal(array, before[name])
    assert any((p.data != q.data).any() for p, q in zip(model.parameters(), twin.parameters()))
    assert its_optimizer.t == 4 and optimizer.t == 2
    assert not any(np.shares_memory(a, b) for a, b in zip(optimizer.m, its_optimizer.m))
    go_on(model, optimizer, range(2, 4))
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        np.testing.assert_array_equal(p.data, q.data)
