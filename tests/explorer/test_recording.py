"""Recording of a step, also of a reader's own classes, and what its document says about them."""

import base64
import json

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer.explorer.document import encode_array, make_document, make_step
from numpy_transformer.explorer.formulas import formulas_of, spell
from numpy_transformer.explorer.recording import record_step

X = np.random.default_rng(0).standard_normal((2, 5, 4))


class Table:
    """A parameter that has nothing but data and grad."""

    def __init__(self, data):
        self.data = data
        self.grad = np.zeros_like(data)


class Dense:
    """y = x W, written without this package."""

    def __init__(self, seed, d_in=4, d_out=4):
        self.W = Table(np.random.default_rng(seed).standard_normal((d_in, d_out)).astype(np.float32))

    def forward(self, x):
        self.x = x
        return x @ self.W.data

    def backward(self, dy):
        self.W.grad = self.W.grad + np.einsum("bti,bto->io", self.x, dy)
        return dy @ self.W.data.T


class Residual:
    """y = 2 (x + f(x)) + tanh(g(y)): sums in place, numbers as factors, and code that cannot be recognized.

    Backward:
        dx = what the two
        layers send back
    """

    def __init__(self):
        self.f, self.g = Dense(1), Dense(2)

    def forward(self, x):
        y = x.copy()
        y += self.f.forward(x)
        y = 2 * y
        self.t = np.tanh(self.g.forward(y))
        return y + self.t

    def backward(self, dy):
        dy = dy + self.g.backward(dy * (1 - self.t ** 2))
        return 2 * dy + self.f.backward(2 * dy)


def own_step():
    return make_step(Residual(), X, np.arange(10).reshape(2, 5) % 4, nt.CrossEntropyLoss())


def test_own_classes_need_neither_module_nor_parameter():
    step = own_step()
    assert {op.id: op.kind for op in step.ops.values()} == {
        "f": "component", "combination": "combination", "g": "component", "own_code": "own code", "loss": "component"}
    assert step.ops["combination"].inputs == {"a": step.values["input:x"], "b": step.values["f:y"]}
    assert step.ops["combination"].numbers == {"factor_a": 2.0, "factor_b": 2.0}
    assert step.ops["own_code"].inputs == {"x": step.values["g:y"], "x2": step.values["combination:y"]}
    assert step.recording.model.f.W.data.dtype == np.float64
    for value in step.values.values():
        if value.gradient is not None and value.kind != "loss":
            assert value.mismatch < 1e-12
            index = tuple(n // 2 for n in value.array.shape)
            numeric = (step.loss_with(value.id, index, 1e-5) - step.loss_with(value.id, index, -1e-5)) / 2e-5
            assert numeric == pytest.approx(value.gradient[index], rel=1e-6, abs=1e-9), value.id


class Hidden(Residual):
    """y = f(x) + sin(x): the second part is not recognized."""

    def forward(self, x):
        return self.f.forward(x) + np.sin(x)

    def backward(self, dy):
        return self.f.backward(dy) + dy * np.cos(self.f.x)


class Parallel(nt.Module):
    """x + f(x) + output(heads), side by side; each head is a component of its own and takes half of the features."""

    def __init__(self):
        self.f = nt.layers.FeedForward(4, 4, rng=0)
        self.heads = [nt.Linear(2, 1, rng=1), nt.Linear(2, 3, rng=2)]
        self.output = nt.Linear(4, 4, rng=4)

    def forward(self, x):
        heads = [head(part) for head, part in zip(self.heads, (x[..., :2], x[..., 2:]))]
        return x + self.f(x) + self.output(np.concatenate(heads, -1))

    def backward(self, dy):
        dheads = self.output.backward(dy)
        parts = [head.backward(part) for head, part in zip(self.heads, (dheads[..., :1], dheads[..., 1:]))]
        return dy + self.f.backward(dy) + np.concatenate(parts, -1)


def test_slices_concatenations_and_sums_of_three_are_found():
    model = nt.layers.FeedForward(4, 4, rng=3)
    model.activation = Parallel()
    step = make_step(model, X, np.arange(10).reshape(2, 5) % 4)
    ops = {op.id: op for op in step.ops.values() if op.parent == "activation"}
    assert {name: op.kind for name, op in ops.items() if op.kind != "component"} == {
        "activation.slice": "slice", "activation.slice2": "slice", "activation.concatenate": "concatenate",
        "activation.add": "add"}
    assert ops["activation.slice2"].numbers == {"axis": 2, "start": 2, "stop": 4}
    assert {slot: value.id for slot, value in ops["activation.add"].inputs.items()} == {
        "a": "up:y", "b": "activation.f.down:y", "c": "activation.output:y"}
    assert all(value.mismatch < 1e-12 for value in step.values.values())
    nudged = [value for value in step.values.values() if value.handle is not None]
    assert len(nudged) == len([value for value in step.values.values() if value.gradient is not None]) - 1
    for value in nudged:
        numeric = (step.loss_with(value.id, value.array.ndim * (0,), 1e-5)
                   - step.loss_with(value.id, value.array.ndim * (0,), -1e-5)) / 2e-5
        assert numeric == pytest.approx(value.gradient[value.array.ndim * (0,)], rel=1e-6, abs=1e-9), value.id
    for op in ops.values():
        arrays = op.arrays()
        for target, formula in formulas_of(op).items():
            for index in np.ndindex(arrays[target].shape):
                assert spell(formula, arrays, index)["value"] == pytest.approx(arrays[target][index], abs=1e-12)
    assert set(formulas_of(ops["activation.concatenate"])) == {"y", "dx1", "dx2"}
    assert set(formulas_of(ops["activation.slice"])) == {"y", "dx"}


def test_own_code_gets_the_gradient_that_nothing_else_explains():
    step = make_step(Pair(), X)
    x = step.values["first:y"]
    assert {op.id for op, _ in x.consumers} == {"last.f", "last.own_code"}
    np.testing.assert_allclose(x.contributions["last.own_code", "x2"], x.gradient - x.contributions["last.f", "x"])
    np.testing.assert_allclose(x.contributions["last.own_code", "x2"], np.cos(x.array), atol=1e-12)
    assert all(value.mismatch < 1e-12 for value in step.values.values())


class Attention(nt.Module):
    """Attention with matrices of its own, in lists, around a softmax."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.matrices = [Table(rng.standard_normal((4, 4))) for _ in range(3)]
        self.softmax = nt.layers.Softmax()

    def forward(self, x):
        q, k, v = (x @ matrix.data for matrix in self.matrices)
        p = self.softmax(q @ k.mT)
        self.remember(x, q, k, v, p)
        return p @ v

    def backward(self, dy):
        x, q, k, v, p = self.recall()
        ds = self.softmax.backward(dy @ v.mT)
        gradients = ds @ k, ds.mT @ q, p.mT @ dy
        for matrix, gradient in zip(self.matrices, gradients):
            matrix.grad = matrix.grad + (x.mT @ gradient).sum(0)
        return sum(gradient @ matrix.data.T for matrix, gradient in zip(self.matrices, gradients))


def test_own_code_with_parameters_shows_their_gradients():
    step = make_step(Attention(), X, np.arange(10).reshape(2, 5) % 4)
    assert {op.id: op.kind for op in step.ops.values()} == {
        "own_code": "own code", "softmax": "component", "own_code2": "own code", "loss": "component"}
    assert step.values["input:x"].gradient is not None
    for number in range(3):
        matrix = step.values[f"matrices.{number}"]
        assert [op.id for op, _ in matrix.consumers] == ["own_code"] and matrix.mismatch == 0
        numeric = (step.loss_with(matrix.id, (1, 2), 1e-5) - step.loss_with(matrix.id, (1, 2), -1e-5)) / 2e-5
        assert numeric == pytest.approx(matrix.gradient[1, 2], rel=1e-6)
    step.document()


class Pair(nt.Module):
    def __init__(self):
        self.first, self.last = nt.Linear(4, 4, rng=0), Hidden()

    def forward(self, x):
        return self.last.forward(self.first(x))

    def backward(self, dy):
        return self.first.backward(self.last.backward(dy))


def test_the_model_is_not_changed():
    model = nt.CausalLanguageModel(9, 8, 2, 1, 12, max_len=8, dropout=0.5, rng=0)
    criterion = nt.CrossEntropyLoss()
    ids = np.array([[1, 2, 3]])
    before = model.state_dict()
    make_step(model, ids, ids, criterion)
    assert model.training and not hasattr(criterion, "count") and "forward" not in vars(model)
    assert all(parameter.data.dtype == np.float32 and not parameter.grad.any() for parameter in model.parameters())
    assert all(np.array_equal(before[name], data) for name, data in model.state_dict().items())


def test_without_targets_the_loss_is_the_sum_of_the_outputs():
    step = make_step(nt.Linear(4, 3, rng=0), X)
    assert step.loss == pytest.approx(step.values["model:y"].array.sum(), rel=1e-14)
    assert [op.kind for op in step.ops.values()] == ["component", "sum"]
    np.testing.assert_array_equal(step.values["bias"].gradient, [10, 10, 10])
    scalar = make_step(nt.layers.CrossEntropyLoss(), (X, np.zeros((2, 5), int)))
    assert scalar.values["model:y"].kind == "loss" and scalar.loss == float(scalar.values["model:y"].array)


def test_targets_alone_mean_cross_entropy():
    targets = np.zeros((2, 5), int)
    assert make_step(nt.Linear(4, 3, rng=0), X, targets).ops["loss"].class_name == "CrossEntropyLoss"


@pytest.mark.parametrize("model, inputs, targets, criterion, error, message", [
    (3, X, None, None, TypeError, "with forward and backward, got int"),
    (nt.Linear(4, 3), X, X, abs, TypeError, "criterion is a builtin_function_or_method"),
    (nt.Linear(4, 3), X, None, nt.CrossEntropyLoss(), ValueError, "CrossEntropyLoss needs targets"),
    (nt.Linear(5, 3), X, None, None, ValueError, r"^the step stopped in Linear.forward: .*d_in"),
    (nt.Linear(4, 3), (X, X), None, None, ValueError, "the step stopped in Linear.forward"),
    (nt.Module(), X, None, None, ValueError, "the step stopped in Module.forward: Module has no forward yet")])
def test_a_step_that_cannot_be_computed_is_explained_in_a_sentence(model, inputs, targets, criterion, error, message):
    with pytest.raises(error, match=message):
        record_step(model, inputs, targets, criterion)


class Returns(nt.Linear):
    """A Linear that returns something else."""

    def __init__(self, wrap):
        super().__init__(4, 3, rng=0)
        self.wrap = wrap

    def forward(self, x):
        return self.wrap(super().forward(x))

    def backward(self, dy):
        return super().backward(np.full((2, 5, 3), dy))


def test_a_model_has_to_return_an_array():
    with pytest.raises(ValueError, match="^Returns.forward returned a list; let it return an array"):
        record_step(Returns(list), X)
    with pytest.raises(ValueError, match="^Returns.forward returned 2 arrays; pass a criterion"):
        record_step(Returns(lambda y: (y, y)), X)
    assert make_step(Returns(lambda y: float(y.sum())), X).loss == make_step(Returns(lambda y: y.sum()), X).loss


def test_a_recorded_model_cannot_be_copied():
    model = nt.Linear(4, 3)
    with nt.record(model), pytest.raises(RuntimeError, match="call it outside"):
        record_step(model, X)


def test_values_that_are_no_floats_cannot_be_changed():
    step = make_step(nt.Embedding(9, 4, rng=0), np.array([[1, 2]]))
    with pytest.raises(ValueError, match="input:ids cannot be changed"):
        step.loss_with("input:ids", (0, 0), 1e-5)


def test_a_document_is_json_with_the_arrays_in_float32():
    step = own_step()
    document = json.loads(json.dumps(step.document(), allow_nan=False))
    for ref, array in step.arrays.items():
        entry = document["arrays"][ref]
        while "same" in entry:
            entry = document["arrays"][entry["same"]]
        kind = "<f4" if array.dtype.kind == "f" else "<i4"
        shown = np.frombuffer(base64.b64decode(entry["data"]), kind).reshape(entry["shape"])
        np.testing.assert_array_equal(shown, array.astype(kind))
        assert entry["zeros"] == np.count_nonzero(array == 0) and entry["max"] == shown.max()
    assert document["arrays"]["input:x"] == encode_array(X)
    assert [value["id"] for value in document["values"]] == list(step.values)


def test_equal_arrays_are_written_once_and_large_ones_are_left_out():
    step = make_step(nt.layers.EncoderBlock(4, 2, 6, rng=0), X, None)
    arrays = step.document()["arrays"]
    written = [(entry["dtype"], tuple(entry["shape"]), entry["data"]) for entry in arrays.values() if "data" in entry]
    assert len(set(written)) == len(written) < len(arrays)
    assert arrays["grad feed_forward.down:y"] == {"same": "grad add:y via add2 a"}
    np.testing.assert_array_equal(step.arrays["grad feed_forward.down:y"], np.ones(X.shape))
    small = step.document(limit=30)["arrays"]
    assert all(("data" in entry) == (np.prod(entry["shape"]) <= 30) for entry in small.values() if "same" not in entry)
    assert set(small) == set(arrays)


def test_the_time_line_goes_back_the_same_way():
    model = nt.CausalLanguageModel(9, 8, 2, 1, 12, max_len=8, rng=0)
    ids = np.array([[1, 2, 3]])
    steps = make_document(model, ids, ids)["steps"]
    forward, backward = ([step["op"] for step in steps if step["phase"] == phase] for phase in ("forward", "backward"))
    assert backward == forward[::-1] and forward[0] == "embedding" and forward[-1] == "loss"
    assert steps[-1] == {"phase": "optimizer"}


def lines_of(document, name):
    """All source lines that the document holds of a class, by number."""
    entry = document["classes"][name]
    sources = [entry["forward"], entry["backward_source"], *entry["more"]]
    return {number: line for source in sources for number, line in enumerate(source["lines"], source["first"])}


def test_classes_are_shown_with_docstring_and_source_and_ops_name_their_lines():
    model = nt.CausalLanguageModel(9, 8, 2, 1, 12, max_len=8, rng=0)
    ids = np.array([[1, 2, 3]])
    document = make_document(model, ids, ids)
    norm = document["classes"]["LayerNorm"]
    assert norm["summary"].startswith("y = γ x̂ + β") and norm["file"] == "numpy_transformer/layers/normalization.py"
    assert norm["backward"][0].startswith("dγ = sum over rows of dy x̂")
    assert norm["backward"][-1] and not norm["backward"][-1].startswith("Raises")
    ops = {op["id"]: op for op in document["ops"]}
    groups = {group["id"]: group["class"] for group in document["groups"]}
    norm = ops["decoder.blocks.0.norm1"]
    lines = lines_of(document, "LayerNorm")
    assert "self.gamma.grad" in lines[norm["lines"]["dgamma"]] and "return" in lines[norm["lines"]["dx"]]
    for op in document["ops"]:
        if op["kind"] == "component" and op["parent"]:
            parent = lines_of(document, groups[op["parent"]])
            assert f"self.{op['label'].replace(' ', '_')}(" in parent[op["called_at"]["forward"]]
            assert f"self.{op['label'].replace(' ', '_')}.backward(" in parent[op["called_at"]["backward"]]
    attention = lines_of(document, "ScaledDotProductAttention")
    scores = ops["decoder.blocks.0.attention.attention.scores"]
    assert "return q @ " in attention[scores["lines"]["y"]] and "dk = " in attention[scores["lines"]["dk"]]
    add = ops["decoder.blocks.0.add"]
    assert "x + self.dropout(self.attention(" in lines_of(document, "Block")[add["lines"]["y"]]
    assert "dx + self.norm1.backward(" in lines_of(document, "Block")[add["lines"]["da"]]
    own = own_step().document()["classes"]["Residual"]
    assert own["backward"] == ["dx = what the two", "layers send back"] and own["file"] == "test_recording.py"


def test_a_class_without_source_is_shown_without_it():
    names = {"Module": nt.Module, "Linear": nt.Linear}
    exec("class Typed(Module):\n"
         "    def __init__(self): self.inner = Linear(4, 3, rng=0)\n"
         "    def forward(self, x): return self.inner(x)\n"
         "    def backward(self, dy): return self.inner.backward(dy)\n", names)
    entry = make_document(names["Typed"](), X)["classes"]["Typed"]
    assert (entry["summary"], entry["forward"], entry["backward_source"], entry["more"]) == ("", None, None, [])
