"""The computation graph of a step: every edge carries the numbers that it says, and gradients add up."""

import copy

import numpy as np
import pytest
from helpers.quick import quick

import numpy_transformer as nt
from numpy_transformer.checks.samples import SAMPLES
from numpy_transformer.explorer.document import make_step
from numpy_transformer.zoo import BUGS

MODELS = [sample for sample in SAMPLES if hasattr(nt.models, sample.name.split(",")[0]) and
          sample.name.split(",")[0] not in ("Encoder", "Decoder", "TextEncoder", "SequentialTokenBlock")]
IDS = np.array([[1, 2, 3, 1, 5, 6]])


def step_of(sample):
    """A step of a sample from the contract table, with random targets and no parameter at its initial 0 or 1."""
    model, inputs = sample.make()
    rng = np.random.default_rng(4)
    for parameter in model.parameters():
        parameter.data = parameter.data + 0.1 * rng.standard_normal(parameter.data.shape)
    shape = model.eval()(*inputs).shape
    if len(shape) == 1:
        return make_step(model, inputs, rng.integers(0, 2, shape), nt.BinaryCrossEntropyLoss())
    return make_step(model, inputs, rng.integers(0, shape[-1], shape[:-1]), nt.CrossEntropyLoss())


@pytest.fixture(scope="module")
def decoder():
    model = nt.CausalLanguageModel(9, 8, 2, 2, 12, max_len=8, dropout=0.1, rng=0)
    return make_step(model, IDS, np.roll(IDS, -1), nt.CrossEntropyLoss())


@pytest.fixture(scope="module")
def translator():
    model = nt.EncoderDecoder(9, 9, 8, 2, 2, 12, max_len=8, tie_weights=True, rng=0)
    return make_step(model, (np.array([[3, 4, 5, 0]]), IDS), np.roll(IDS, -1), nt.CrossEntropyLoss())


def sum_of_experts(arrays, op):
    """Every token is looked for among those of every expert."""
    y = np.zeros(op.outputs["y"].array.shape)
    for name in arrays:
        if name.startswith("tokens"):
            e = int(name.removeprefix("tokens"))
            for row, token in zip(arrays[f"h{e}"], arrays[name]):
                y[token] += arrays["g"][token, e] * row
    return y


OF_EXPERTS = {"weighted experts": sum_of_experts, "choice": lambda arrays, op: np.where(arrays["chosen"], arrays["x"], -np.inf),
              "balancing loss": lambda arrays, op: op.enclosing.module.coefficient * (
    op.enclosing.module.num_experts * arrays["counts"] / arrays["counts"].sum() * arrays["p"].mean(0)).sum()}


def result_of(op):
    """The output of an op, computed again in another way from its inputs."""
    arrays = {name: value.array for name, value in {**op.inputs, **op.parameters}.items()}
    if op.kind == "component":
        module = copy.deepcopy(op.module)
        return module.forward(**{name: op.call.inputs[name] for name in op.call.inputs} | {
            name: value.array for name, value in op.inputs.items()})
    if op.kind == "add":
        return arrays["a"] + arrays["b"]
    if op.kind in OF_EXPERTS:
        return OF_EXPERTS[op.kind](arrays, op)
    if op.kind == "select" and arrays["x"].ndim == 2:
        return arrays["x"][arrays["positions"]]
    if op.kind == "reshape" and isinstance(op.enclosing.module, nt.MixtureOfExperts):
        return arrays["x"].reshape(op.outputs["y"].array.shape)
    if op.kind == "multiply":
        return arrays["a"] * arrays["b"]
    if op.kind == "select":
        return np.stack([x[rows] for x, rows in zip(arrays["x"], arrays["positions"])])
    if op.kind == "scores":
        q, k = arrays["q"], arrays["k"].repeat(arrays["q"].shape[-3] // arrays["k"].shape[-3], -3)
        scores = np.einsum("bhtd,bhsd->bhts", q, k) * op.numbers["scale"]
        usual = {nt.UnscaledAttention: 1, nt.RescaledAttention: 1 / 3}      # that of the sample has heads of width 9
        assert op.numbers["scale"] == pytest.approx(usual.get(type(op.enclosing.module), 1 / np.sqrt(q.shape[-1])), rel=1e-15)
        return np.where(arrays["mask"], scores, -np.inf) if "mask" in arrays else scores
    if op.kind == "mask":
        return np.where(arrays["mask"], arrays["scores"], -np.inf)
    if op.kind == "weighted sum":
        v = arrays["v"].repeat(arrays["p"].shape[-3] // arrays["v"].shape[-3], -3)
        return np.einsum("bhts,bhsd->bhtd", arrays["p"], v)
    if op.kind in ("concatenate", "stack"):
        parts = [arrays[name] for name in op.inputs if name != "mask"]
        heads = max(part.shape[1] for part in parts)            # one part may be the same in all heads
        parts = [part.repeat(heads, 1) if part.ndim == 4 and part.shape[1] == 1 else part for part in parts]
        return (np.stack if op.kind == "stack" else np.concatenate)(parts, op.numbers["axis"])
    if op.kind == "slice":
        return arrays["x"].take(range(op.numbers["start"], op.numbers["stop"]), op.numbers["axis"])
    if op.kind == "head product":
        x, start, of_heads = arrays["x"], op.numbers["start"], np.split(arrays["weight"], arrays["x"].shape[1], -1)
        if op.numbers["transposed"]:
            return np.stack([x[:, h] @ w[:, start:start + x.shape[-1]].T for h, w in enumerate(of_heads)], 1)
        return np.stack([x[:, h] @ w[:, start:] for h, w in enumerate(of_heads)], 1)
    x, shape = arrays["x"], op.outputs["y"].array.shape
    if op.label == "split heads":
        return np.stack(np.split(x, shape[-3], -1), -3)
    if op.label == "merge heads":
        return np.concatenate([x[..., head, :, :] for head in range(x.shape[-3])], -1)
    if op.label == "separate heads":
        return np.stack(np.split(x, shape[-2], -1), -2)
    if op.label == "join heads":
        return np.concatenate([x[..., head, :] for head in range(x.shape[-2])], -1)
    assert op.kind == "reshape"
    return x[..., 0] if x.ndim == len(shape) + 1 else x[:, None]        # a single class, or what all heads share


@pytest.mark.parametrize("sample", quick(6, MODELS), ids=lambda sample: sample.name)
def test_every_edge_carries_the_numbers_from_which_the_op_computes_its_output(sample):
    step = step_of(sample)
    for op in step.ops.values():
        output, = op.outputs.values()
        np.testing.assert_allclose(result_of(op), output.array, rtol=1e-12, atol=1e-12, err_msg=op.id)
        assert all((op, slot) in value.consumers for slot, value in {**op.inputs, **op.parameters}.items())
    assert not any(op.kind == "own code" for op in step.ops.values())
    assert {value.array.dtype.kind for value in step.values.values() if value.kind == "constant"} <= {"b", "i"}


@pytest.mark.parametrize("sample", quick(6, MODELS), ids=lambda sample: sample.name)
def test_contributions_of_all_consumers_add_up_to_the_gradient(sample):
    step = step_of(sample)
    checked = 0
    for value in step.values.values():
        used = [key for key in ((op.id, slot) for op, slot in value.consumers) if key in value.contributions]
        assert set(value.contributions) == set(used)
        if value.array.dtype.kind == "f" and value.consumers and not value.id.startswith("loss:"):
            total = sum(value.contributions[key] for key in used)
            scale = max(np.abs(value.gradient).max(), 1e-12)
            np.testing.assert_allclose(total, value.gradient, rtol=0, atol=1e-11 * scale, err_msg=value.id)
            checked += len(used) > 1
    assert checked >= 2 and all(value.mismatch < 1e-10 for value in step.values.values())


@pytest.mark.parametrize("sample", [pytest.param(sample, marks=() if "Attention" in sample.name else pytest.mark.slow)
                                    for sample in SAMPLES], ids=lambda sample: sample.name)
def test_a_component_on_its_own_has_a_document(sample):
    model, inputs = sample.make()
    step = make_step(model, inputs)
    assert all(value.mismatch < 1e-10 for value in step.values.values())
    assert not any(op.kind == "own code" for op in step.ops.values())
    documented = {entry["id"] for entry in step.document()["values"]}
    assert {f"input:{name}" for name, x in step.recording.root.inputs.items() if isinstance(x, np.ndarray)} <= documented


def is_between_lines(value):
    """Whether an array is only between two lines of latent attention, which gives it to no component."""
    return value.producer is not None and value.producer.computation is not None and isinstance(
        value.producer.enclosing.module, nt.LatentAttention)


def is_between_lines_of_experts(value):
    """Whether no component takes or returns an array: a sum inside of a mixture of experts, or a loss."""
    is_inside = value.producer is not None and value.producer.call is None and isinstance(
        value.producer.enclosing.module, nt.MixtureOfExperts)
    return is_inside or value.array.ndim == 0


def differences(step, value, indices, h=1e-5):
    return [(step.loss_with(value.id, index, h) - step.loss_with(value.id, index, -h)) / (2 * h) for index in indices]


@pytest.mark.parametrize("sample", [pytest.param(sample, marks=() if number == 0 else pytest.mark.slow)
                                    for number, sample in enumerate(MODELS)], ids=lambda sample: sample.name)
def test_the_loss_moves_with_every_value_as_its_gradient_says(sample):
    step = step_of(sample)
    rng = np.random.default_rng(5)
    largest = max(np.abs(value.gradient).max() for value in step.values.values() if value.gradient is not None)
    nudged = 0
    for value in step.values.values():
        if value.handle is None or value.gradient is None:
            continue
        indices = [index for index in zip(*(rng.integers(0, n, 2) for n in value.array.shape))
                   if np.isfinite(value.array[index])]
        nudged += len(indices)
        np.testing.assert_allclose(differences(step, value, indices), [value.gradient[index] for index in indices],
                                   rtol=1e-6, atol=1e-8 * largest, err_msg=value.id)
    assert nudged > 100
    without = {value.id for value in step.values.values() if value.handle is None and value.array.dtype.kind == "f"
               and not is_between_lines(value) and not is_between_lines_of_experts(value)}
    assert without <= {"loss:y", "loss:targets"}
    assert step.rerun.loss() == step.loss


def test_a_decoder_block_has_two_sums_each_of_its_input_and_its_sublayer(decoder):
    sums = {op.id: {name: value.id for name, value in op.inputs.items()} for op in decoder.ops.values()
            if op.kind == "add"}
    first, second = "decoder.blocks.0", "decoder.blocks.1"
    assert sums == {f"{first}.add": {"a": "positions:y", "b": f"{first}.attention.output:y"},
                    f"{first}.add2": {"a": f"{first}.add:y", "b": f"{first}.feed_forward.down:y"},
                    f"{second}.add": {"a": f"{first}.add2:y", "b": f"{second}.attention.output:y"},
                    f"{second}.add2": {"a": f"{second}.add:y", "b": f"{second}.feed_forward.down:y"}}
    assert decoder.ops["decoder.blocks.0.add"].parent == "decoder.blocks.0"
    assert decoder.groups["decoder.blocks.0"].inputs["x"] is decoder.values["positions:y"]
    assert decoder.groups["decoder.blocks.1"].outputs["y"] is decoder.values["decoder.blocks.1.add2:y"]
    assert not any("dropout" in name for name in decoder.ops)


def test_a_tied_weight_is_one_value_with_two_uses(decoder):
    weight = decoder.values["embedding.weight"]
    assert [(op.id, slot) for op, slot in weight.consumers] == [("embedding", "weight"), ("output", "weight")]
    rows = np.zeros((9, 8))
    for token, dy in zip(IDS[0], decoder.values["embedding:y"].gradient[0]):
        rows[token] += dy
    np.testing.assert_allclose(weight.contributions["embedding", "weight"], rows, atol=1e-15)
    np.testing.assert_allclose(weight.gradient - weight.contributions["output", "weight"], rows, atol=1e-15)


def test_query_key_and_value_send_three_gradients_to_the_norm_before_them(decoder):
    y = decoder.values["decoder.blocks.0.norm1:y"]
    assert [op.label for op, _ in y.consumers] == ["query", "key", "value"]
    total = np.zeros(y.array.shape)
    for name in ("query", "key", "value"):
        weight = decoder.values[f"decoder.blocks.0.attention.{name}.weight"].array
        total += decoder.values[f"decoder.blocks.0.attention.{name}:y"].gradient @ weight.T
    np.testing.assert_allclose(y.gradient, total, atol=1e-15)


def test_the_encoder_reaches_every_decoder_block_through_cross_attention(translator):
    memory = translator.values["encoder.norm:y"]
    assert [op.id for op, _ in memory.consumers] == [f"decoder.blocks.{number}.cross_attention.{name}"
                                                     for number in (0, 1) for name in ("key", "value")]
    scores = translator.values["decoder.blocks.1.cross_attention.attention.scores:y"]
    assert [axis.get("tokens") for axis in scores.axes] == [None, None, "target", "source"]
    assert [axis["name"] for axis in scores.axes] == ["batch", "head", "query", "key"]


AXES = {
    "CausalLanguageModel": {
        "input:ids": "batch token/source", "input:mask": "batch token/source", "embedding.weight": "vocabulary feature",
        "decoder:mask": "batch head query/source key/source", "positions:positions": "batch token/source",
        "positions.weight": "position feature", "positions:y": "batch token/source feature",
        "decoder.blocks.0.attention.query.weight": "input feature, output feature",
        "decoder.blocks.0.attention.split_heads:y": "batch head token/source feature",
        "decoder.blocks.0.attention.attention.softmax:y": "batch head query/source key/source",
        "decoder.blocks.0.attention.merge_heads:y": "batch token/source feature",
        "output:y": "batch token/source vocabulary", "loss:targets": "batch token/targets", "loss:y": ""},
    "EncoderDecoder": {
        "input:target": "batch token/target", "source_embedding.weight": "source vocabulary feature",
        "target_embedding.weight": "vocabulary feature", "output.bias": "vocabulary",
        "decoder.blocks.1.cross_attention.attention.weighted_sum:y": "batch head token/target feature"},
    "SequenceClassifier": {"pool:y": "batch feature", "reshape:y": "batch", "loss:targets": "batch"},
    "MaskedLanguageModel, some positions": {
        "input:positions": "batch position", "select:y": "batch position feature", "bias": "vocabulary",
        "add2:y": "batch position vocabulary"}}


@pytest.mark.parametrize("name", AXES)
def test_axes_have_names_and_tokens(name):
    step = step_of(next(sample for sample in MODELS if sample.name == name))
    for value, wanted in AXES[name].items():
        axes = step.values[value].axes
        shown = " ".join("/".join(filter(None, (axis["name"], axis.get("tokens")))) for axis in axes)
        assert shown == wanted.replace(",", ""), value
    assert all(len(value.axes) == value.array.ndim for value in step.values.values())


def test_values_ops_and_groups_have_short_reprs(decoder):
    assert repr(decoder.values["positions:y"]) == "Value('positions:y', activation, shape=(1, 6, 8))"
    assert repr(decoder.ops["decoder.norm"]) == "Op('decoder.norm', LayerNorm)"
    assert repr(decoder.groups["decoder.blocks.1"]) == "Group('decoder.blocks.1', Block)"
    assert repr(decoder.recording.calls[0]) == "StepCall(0, CausalLanguageModel)"


def test_components_with_several_names_are_called_by_the_one_in_the_code(translator):
    assert {"source_embedding", "source_positions", "target_embedding", "target_positions"} <= set(translator.ops)
    assert translator.ops["source_embedding"].module is translator.ops["target_embedding"].module
    assert len(translator.values["target_embedding.weight"].consumers) == 3


def test_a_masked_score_is_minus_infinity_and_gets_no_gradient(decoder):
    scores = decoder.values["decoder.blocks.0.attention.attention.scores:y"]
    above = np.triu(np.ones((6, 6), bool), 1)
    assert (scores.array[..., above] == -np.inf).all() and (scores.gradient[..., above] == 0).all()
    assert decoder.values["decoder:mask"].axes[-1] == {"name": "key", "tokens": "source"}


def test_a_forgotten_residual_shows_as_a_difference_where_it_is_forgotten():
    model = nt.EncoderDecoder(9, 9, 8, 2, 1, 12, max_len=8, rng=0)
    model.encoder.blocks[0].__class__ = BUGS["residual-missing"].wrong
    step = make_step(model, (np.array([[3, 4, 5]]), IDS), np.roll(IDS, -1), nt.CrossEntropyLoss())
    wrong = {value.id for value in step.values.values() if value.mismatch > 1e-9}
    assert wrong == {"source_positions:y", "encoder.blocks.0.attention.output:y"}
    document = step.document()
    assert {value["id"] for value in document["values"] if "mismatch" in value} == wrong
    block = document["classes"]["ResidualMissing"]
    assert block["forward"]["file"] == "numpy_transformer/layers/blocks.py"
    assert block["backward_source"]["file"] == "numpy_transformer/zoo/residuals.py"


def test_rounding_in_gradients_that_cancel_is_no_mistake():
    model = nt.SelfAttention(4, 2, rng=0)
    step = make_step(model, np.ones((1, 3, 4)))             # equal tokens: dscores are zero up to rounding
    assert all(value.mismatch < 1e-12 for value in step.values.values())


@pytest.mark.parametrize("name", ["no-scale", "mask-added", "values-before-dropout", "dropout-in-eval",
                                  "relu-changes-its-input"])
def test_a_model_with_a_bug_of_the_zoo_has_a_document_too(name):
    bug = BUGS[name]
    model = nt.CausalLanguageModel(9, 8, 2, 1, 12, max_len=8, dropout=0.1, activation="relu", rng=0)
    for module in [module for _, module in model.named_modules() if type(module) is bug.target]:
        module.__class__ = bug.wrong
    document = make_step(model, IDS, np.roll(IDS, -1), nt.CrossEntropyLoss()).document()
    assert bug.wrong.__name__ in document["classes"]


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_rotary_on_a_part_of_each_head_is_two_slices_of_which_one_is_rotated(seed):
    rng = np.random.default_rng(seed)
    model = nt.preset("pythia", vocab_size=9, num_layers=1, rng=seed).astype(np.float64)
    for parameter in model.parameters():
        parameter.data = parameter.data + 0.1 * rng.standard_normal(parameter.data.shape)
    step = make_step(model, IDS, np.roll(IDS, -1), nt.CrossEntropyLoss())
    attention = "decoder.blocks.0.attention"
    for heads, rotary in (("split_heads", "rotary"), ("split_heads2", "rotary@2")):
        ops = {name: step.ops[f"{attention}.{rotary}.{name}"] for name in ("slice", "rotary", "slice2", "concatenate")}
        edges = {name: [value.id.removeprefix(f"{attention}.") for value in op.inputs.values()] for name, op in ops.items()}
        assert edges == {"slice": [f"{heads}:y"], "rotary": [f"{rotary}.slice:y"], "slice2": [f"{heads}:y"],
                         "concatenate": [f"{rotary}.rotary:y", f"{rotary}.slice2:y"]}
    assert not any(op.kind == "own code" for op in step.ops.values())
    assert max(value.mismatch for value in step.values.values()) < 1e-10
    for name in ("split_heads", "rotary.slice", "rotary.rotary", "rotary.concatenate", "split_heads2", "rotary@2.slice"):
        value = step.values[f"{attention}.{name}:y"]
        indices = [tuple(index) for index in np.argwhere(np.ones(value.array.shape))[::5]]
        exact = [value.gradient[index] for index in indices]
        np.testing.assert_allclose(differences(step, value, indices), exact, rtol=1e-6, atol=1e-8 * np.abs(exact).max(),
                                   err_msg=name)
