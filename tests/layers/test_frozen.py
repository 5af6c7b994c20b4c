import copy
import pickle
import tracemalloc

import numpy as np
import pytest

import numpy_transformer as nt

IDS = np.random.default_rng(0).integers(1, 11, (3, 5))


def encoder(**options):
    return nt.TextEncoder(11, 12, 2, 2, 16, max_len=5, dropout=0.0, num_segments=2, positions="learned", rng=0,
                          **options)


def gradients(model, *inputs):
    model.zero_grad()
    y = model(*inputs)
    model.backward(np.random.default_rng(1).standard_normal(y.shape).astype(y.dtype))
    return {name: p.grad.copy() for name, p in model.named_parameters()}


@pytest.mark.parametrize("parts", [
    ["embedding"], ["encoder.blocks.0"], ["encoder.blocks"], ["encoder.blocks.1.attention.query.weight"],
    ["encoder.blocks.0.attention", "positions"]])
def test_the_other_gradients_are_bit_for_bit_those_of_the_whole_model(parts):
    whole = gradients(encoder(), IDS)
    frozen = {name for name in whole if any(f"{name}.".startswith(f"{part}.") for part in parts)}
    model = nt.freeze(encoder(), *parts)
    for name, gradient in gradients(model, IDS).items():
        if name in frozen:
            assert not gradient.any() and whole[name].any()
        else:
            np.testing.assert_array_equal(gradient, whole[name], err_msg=name)
    assert {name for name, p in model.named_parameters() if p.frozen} == frozen
    for name, gradient in gradients(nt.unfreeze(model), IDS).items():
        np.testing.assert_array_equal(gradient, whole[name], err_msg=name)


def test_a_tied_weight_is_frozen_in_both_places_by_either_name():
    for name in ("embedding", "output", "output.weight"):
        model = nt.freeze(nt.CausalLanguageModel(11, 12, 2, 1, max_len=5, rng=0), name)
        assert model.embedding.weight.frozen and model.output.weight is model.embedding.weight
        kinds = [type(part).__name__ for part in (model.embedding, model.output)]
        assert kinds == ["FrozenEmbedding", "FrozenUnembedding"]
        assert not gradients(model, IDS)["embedding.weight"].any()
        nt.unfreeze(model, "embedding")
        assert type(model.embedding) is nt.Embedding and type(model.output) is nt.Unembedding


@pytest.mark.parametrize("factor", [1.0, 0.25])
def test_a_frozen_output_layer_returns_the_same_gradient(factor):
    x, dy = (np.random.default_rng(n).standard_normal(shape) for n, shape in enumerate([(2, 3, 6), (2, 3, 7)]))
    results = []
    for layer in (nt.Unembedding(nt.Embedding(7, 6, rng=0).weight, factor).astype(np.float64),
                  nt.Linear(6, 7, rng=0).astype(np.float64)):
        for frozen in (False, True):
            layer = nt.freeze(layer) if frozen else layer
            results.append((layer(x), layer.backward(dy)))
    for a, b in (results[:2], results[2:]):
        np.testing.assert_array_equal(a[0], b[0])
        np.testing.assert_array_equal(a[1], b[1])


def largest_in_backward(layer, x):
    """Bytes that forward and backward take at most, beyond what was there before."""
    dy = layer(x)
    layer.backward(dy)
    tracemalloc.start()
    try:
        layer(x)
        saved = tracemalloc.get_traced_memory()[0]
        layer.backward(dy)
        return saved, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("make", [
    lambda: nt.Linear(300, 400, rng=0), lambda: nt.Unembedding(nt.Embedding(400, 300, rng=0).weight)])
def test_frozen_layers_neither_compute_the_gradient_of_the_weight_nor_save_x(make):
    one_row, many_rows = np.ones((1, 300), np.float32), np.ones((2000, 300), np.float32)
    weight = 4 * 300 * 400
    assert largest_in_backward(make(), one_row)[1] > weight
    assert largest_in_backward(nt.freeze(make()), one_row)[1] < weight / 10
    layer = nt.freeze(make())
    layer(many_rows)
    assert not any(isinstance(value, np.ndarray) for values in layer._saved for value in values)
    embedding = nt.freeze(nt.Embedding(400, 300, rng=0))
    assert largest_in_backward(embedding, np.zeros((1, 2), int))[1] < 4 * 400 * 300 / 10


def test_a_frozen_weight_with_a_trained_bias():
    x, dy = (np.random.default_rng(n).standard_normal((4, 6), np.float32) for n in range(2))
    layer = nt.freeze(nt.Linear(6, 6, rng=0), "weight")
    layer(x)
    layer.backward(dy)
    np.testing.assert_allclose(layer.bias.grad, dy.sum(0), rtol=1e-6)
    assert layer.parameters(trained=True) == [layer.bias]
    report = nt.gradcheck(layer, x)
    assert report.ok and [row.tensor for row in report.rows] == ["x", "bias"]


class Own(nt.Module):
    """A component of a student's: it knows nothing of frozen parameters."""

    def __init__(self):
        self.table = nt.Parameter(np.ones((4, 3)))
        self.scale = nt.Parameter(np.ones(3))

    def forward(self, ids):
        self.remember(ids)
        return self.table.data[ids] * self.scale.data

    def backward(self, dy):
        ids = self.recall()
        np.add.at(self.table.grad, ids, dy * self.scale.data)
        self.scale.grad += (dy * self.table.data[ids]).sum(0)
        self.scale.grad[...] += 0


def test_any_module_can_be_frozen_and_what_it_adds_to_the_gradient_is_lost():
    model = nt.freeze(Own(), "table")
    model(np.array([1, 1, 2]))
    model.backward(np.ones((3, 3)))
    assert not model.table.grad.any() and not model.table.has_grad
    assert model.scale.grad.tolist() == [3, 3, 3]
    nt.freeze(model)
    model(np.array([0]))
    model.backward(np.ones((1, 3)))
    assert not any(p.has_grad for p in model.parameters())


@pytest.mark.parametrize("name, said", [
    ("embeding", "no part 'embeding': TextEncoder has 'embedding', 'segments'"),
    ("encoder.blocks.2", "no part 'encoder.blocks.2': 'encoder.blocks' has '0', '1'"),
    ("encoder.blocks.x", "'encoder.blocks' has '0', '1'"), ("dropout", "'dropout' has no parameters"),
    ("encoder.blocks.0.attention.query.weight.data", "query.weight' has no parts"), ("_private", "no part '_private'")])
def test_a_name_that_the_model_does_not_have_freezes_nothing(name, said):
    model = encoder()
    with pytest.raises(ValueError) as error:
        nt.freeze(model, "embedding", name)
    assert said in str(error.value)
    assert not any(p.frozen for p in model.parameters()) and type(model.embedding) is nt.Embedding


def test_copies_stay_frozen():
    model = nt.freeze(encoder(), "embedding", "encoder.blocks.0")
    frozen = [p.frozen for p in model.parameters()]
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert [p.frozen for p in twin.parameters()] == frozen
        assert type(twin.embedding).__name__ == "FrozenEmbedding"
    assert model.embedding.weight.twin().frozen and not model.encoder.blocks[1].norm1.gamma.twin().frozen
    assert [p.frozen for p in model.astype(np.float64).parameters()] == frozen


def test_freezing_drops_the_gradient_and_what_a_forward_has_saved():
    model = encoder()
    gradients(model, IDS)
    model(IDS)
    nt.freeze(model, "embedding")
    assert not model.embedding.weight.has_grad and model.positions.weight.has_grad
    with pytest.raises(RuntimeError, match="nothing to recall"):
        model.backward(np.ones((3, 5, 12), np.float32))


def test_names_counts_and_states_with_and_without_frozen_parameters():
    model = nt.freeze(encoder(), "encoder", "embedding")
    assert list(model.state_dict()) == [name for name, _ in model.named_parameters()]
    assert list(model.state_dict(trained=True)) == ["segments.weight", "positions.weight"]
    assert model.num_parameters(trained=True) == 2 * 12 + 5 * 12 < model.num_parameters()
    assert model.summary().splitlines()[-1].split() == ["not", "frozen", "84"]
    assert repr(model.embedding.weight) == "Parameter(shape=(11, 12), dtype=float32, frozen)"
    state = {name: array + 1 for name, array in model.state_dict(trained=True).items()}
    before = model.embedding.weight.data.copy()
    model.load_state_dict(state, trained=True)
    np.testing.assert_array_equal(model.positions.weight.data, state["positions.weight"])
    np.testing.assert_array_equal(model.embedding.weight.data, before)
    with pytest.raises(ValueError, match="unknown: embedding.weight"):
        model.load_state_dict(model.state_dict(), trained=True)


def test_a_constant_is_saved_with_what_is_trained_and_stays_frozen():
    router = nt.SigmoidRouter(6, 4, 2, rng=0)
    router.correction.data = np.arange(4.0)
    assert [name for name, _ in router.named_parameters(trained=True)] == ["linear.weight"]
    state = nt.freeze(router).state_dict(trained=True)
    assert list(state) == ["correction"] and nt.unfreeze(router).correction.frozen
    other = nt.SigmoidRouter(6, 4, 2, rng=1).load_state_dict(router.state_dict(trained=True), trained=True)
    np.testing.assert_array_equal(other.correction.data, np.arange(4))
