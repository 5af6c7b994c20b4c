"""Nudged losses agree with backward at every entry, and many nudges at once are the same as one after another."""

import copy

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer.explorer import edits, nudge
from numpy_transformer.explorer.batched_nudges import NotIndependent, RepeatedStep
from numpy_transformer.explorer.document import make_step
from numpy_transformer.explorer.tiny_models import KINDS, tiny


def step_of(example, *changes):
    edited = edits.apply_edits(example, changes)
    return make_step(edited.model, edited.inputs, edited.targets, edited.criterion, tokens=edited.tokens)


@pytest.fixture(scope="module")
def decoder():
    return step_of(tiny("decoder", train=False))


def nudged(step):
    return [value for value in step.values.values() if value.gradient is not None and value.handle is not None]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_copies_at_once_give_the_losses_of_one_nudge_after_another(kind):
    step = step_of(tiny(kind, train=False))
    repeated = RepeatedStep(step)
    rng = np.random.default_rng(1)
    one_by_one = []
    for value in nudged(step):
        entries = rng.integers(value.array.size, size=3)
        sizes = np.array([0.1, -1e-3, 1e-5])
        expected = [step.loss_with(value.id, np.unravel_index(entry, value.array.shape), size)
                    for entry, size in zip(entries, sizes)]
        try:
            assert np.allclose(repeated.losses(value, entries, sizes), expected, rtol=0, atol=1e-13), value.id
        except NotIndependent:
            one_by_one.append(value.id)
    assert one_by_one == (["bias"] if kind == "encoder" else [])        # a parameter of the model itself


@pytest.mark.slow
def test_texts_that_depend_on_each_other_are_nudged_one_by_one(monkeypatch):
    attention = nt.SelfAttention(4, 2, rng=0)           # without a batch axis, a copy would attend to the others
    step = make_step(attention, np.random.default_rng(0).standard_normal((3, 4)), np.array([0, 3, 2]),
                     nt.CrossEntropyLoss())
    with pytest.raises(NotIndependent):
        RepeatedStep(step).losses(step.values["key.weight"], np.array([0]), np.array([1e-3]))
    monkeypatch.setattr(nudge, "MOST_ONE_BY_ONE", 300)
    proof, arrays = nudge.proof(step)
    assert proof["worst"] < 1e-6
    assert "curve key.weight" not in arrays and arrays["numeric key.weight"].shape == (4, 4)
    assert arrays["curve key.bias"].shape == (4, len(nudge.STEPS))


def test_a_parameter_is_nudged_as_by_hand(decoder):
    example = tiny("decoder", train=False)
    inputs, targets, _ = example.read()
    model, criterion = copy.deepcopy((example.model, example.criterion))
    model.astype(np.float64).eval()
    found = nudge.nudge(decoder, "decoder.blocks.1.attention.query.weight", [3, 2], 1e-4)
    weight = model.decoder.blocks[1].attention.query.weight.data
    losses = []
    for sign in (1, -1):
        weight[3, 2] += sign * 1e-4
        losses.append(float(criterion.eval()(model(*inputs), targets)))
        weight[3, 2] -= sign * 1e-4
    assert np.allclose([found["plus"], found["minus"]], losses, rtol=0, atol=1e-14)
    assert found["h"] == 1e-4 and np.isclose(found["numeric"], (losses[0] - losses[1]) / 2e-4, rtol=1e-8)


def test_the_curve_of_a_nudge_is_a_u(decoder):
    found = nudge.nudge(decoder, "decoder.blocks.0.norm1.gamma", [1])
    sizes, errors = zip(*found["curve"])
    assert sizes == nudge.STEPS and abs(found["numeric"] - found["gradient"]) < 1e-8
    assert min(errors) < 1e-7 and errors[0] > 100 * min(errors) and errors[-1] > 100 * min(errors)


def test_a_gradient_that_is_wrong_disagrees():
    example = tiny("decoder", train=False)
    step = step_of(example, {"kind": "bug", "name": "softmax-diagonal"})
    found = nudge.nudge(step, "decoder.blocks.0.attention.query:y", [0, 3, 0])
    assert abs(found["numeric"] - found["gradient"]) > 1e-3 * abs(found["numeric"])


@pytest.mark.parametrize("value, number, words", [
    ("nothing", None, "no value"), (3, None, "no value"), ("input:ids", None, "no gradient"),
    ("decoder.norm:y", 0, "above 0"), ("decoder.norm:y", float("nan"), "above 0"), ("decoder.norm:y", True, "above 0"),
    ("decoder.norm:y", 1e9, "at most 1000")])
def test_an_impossible_nudge_is_refused(decoder, value, number, words):
    with pytest.raises(ValueError, match=words):
        nudge.nudge(decoder, value, [0, 0, 0], number)


def test_bytes_of_the_curve():
    errors = np.array([0.0, 1e-16, 1e-8, 0.1, 1.0, 30.0, np.inf, np.nan])
    assert nudge.as_bytes(errors).tolist() == [255, 255, 128, 16, 0, 0, 0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("kind, train", [("decoder", True), *((kind, False) for kind in KINDS)])
def test_every_gradient_agrees_with_its_nudges(kind, train):
    step = step_of(tiny(kind, train=train))
    proof, arrays = nudge.proof(step)
    assert proof["worst"] < 1e-6 and set(proof["errors"]) == {value.id for value in nudged(step)}
    for value in nudged(step):
        numeric = arrays[f"numeric {value.id}"]
        scale = max(np.abs(value.gradient).max(), 1e-4)
        assert np.abs(numeric - value.gradient).max() <= 1e-6 * scale, value.id
        assert arrays[f"curve {value.id}"].shape == (value.array.size, len(nudge.STEPS))
