"""Edits change a copy of the model as they say, can be undone exactly, and are refused in one sentence."""

import copy
import json

import numpy as np
import pytest

from numpy_transformer import zoo
from numpy_transformer.explorer import edits
from numpy_transformer.explorer.document import make_step
from numpy_transformer.explorer.possibilities import possibilities
from numpy_transformer.explorer.tiny_models import KINDS, tiny
from numpy_transformer.training import SGD, Adam


@pytest.fixture(scope="module")
def decoder():
    return tiny("decoder", train=False)


def document(example, *changes):
    edited = edits.apply_edits(example, changes)
    step = make_step(edited.model, edited.inputs, edited.targets, edited.criterion, tokens=edited.tokens)
    return step, edited.hands_on


def bugs_of(example):
    return possibilities(example)["bugs"]


def off(what, group, **more):
    return {"kind": "off", "what": what, "group": group, **more}


def all_switches(example):
    can = possibilities(example)["can"]
    for row in can["heads"]:
        yield off("head", row["group"], head=row["count"] - 1)
    for what in ("block", "mask", "scale", "residual"):
        for row in can[f"{what}s"]:
            yield off(what, row["group"], **({"sublayer": row["sublayer"]} if what == "residual" else {}))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_switch_keeps_the_ids_and_the_gradients_stay_right(kind):
    example = tiny(kind, train=False)
    before, _ = document(example)
    rng = np.random.default_rng(0)
    for switch in all_switches(example):
        step, _ = document(example, switch)
        gone = set(before.ops) - set(step.ops)
        if switch["what"] == "block":
            assert all(name.startswith(switch["group"]) for name in gone)
        else:
            assert not gone, switch
        values = [value for value in step.values.values() if value.gradient is not None and value.handle is not None]
        for value in rng.choice(values, 3, replace=False):
            index = tuple(int(rng.integers(size)) for size in value.array.shape)
            numeric = (step.loss_with(value.id, index, 1e-5) - step.loss_with(value.id, index, -1e-5)) / 2e-5
            assert abs(numeric - value.gradient[index]) < 1e-6 * max(np.abs(value.gradient).max(), 1e-4), (switch, value.id)
        assert max(value.mismatch for value in step.values.values()) < 1e-9
        assert step.loss != before.loss and json.dumps(step.document())


def test_a_switched_head_has_exactly_no_gradient(decoder):
    step, _ = document(decoder, off("head", "decoder.blocks.0.attention", head=1))
    d = decoder.model.decoder.blocks[0].attention.query.d_out // 2
    gradient = step.arrays["grad decoder.blocks.0.attention.query.weight"]
    assert (gradient[:, d:] == 0).all() and (gradient[:, :d] != 0).any()


def test_a_part_is_found_by_the_attention_of_the_heads_inside_it_too(decoder):
    outer = document(decoder, off("mask", "decoder.blocks.1.attention"))[0]
    inner = document(decoder, off("mask", "decoder.blocks.1.attention.attention@2"))[0]
    assert outer.loss == inner.loss != document(decoder)[0].loss


def test_an_edit_changes_neither_the_example_nor_the_next_document(decoder):
    state = copy.deepcopy(decoder.model.state_dict())
    before = document(decoder)[0]
    changes = [{"kind": "step", "optimizer": "adam", "lr": 0.1}, off("block", "decoder.blocks.0"),
               {"kind": "bug", "name": "residual-missing"}, {"kind": "weight", "value": "embedding.weight",
                                                             "index": [0, 0], "number": 3}]
    while changes:
        document(decoder, *changes)
        changes.pop()
    after = document(decoder)[0]
    assert json.dumps(before.document()) == json.dumps(after.document())
    assert all(np.array_equal(state[name], array) for name, array in decoder.model.state_dict().items())


def test_a_weight_is_set(decoder):
    step, _ = document(decoder, {"kind": "weight", "value": "decoder.norm.gamma", "index": [2], "number": -0.25})
    base = document(decoder)[0]
    different = np.flatnonzero(step.arrays["decoder.norm.gamma"] != base.arrays["decoder.norm.gamma"])
    assert different.tolist() == [2] and step.arrays["decoder.norm.gamma"][2] == -0.25 and step.loss != base.loss


def test_a_text_is_read(decoder):
    step, hands_on = document(decoder, {"kind": "text", "text": "the dog barks", "target": None})
    assert step.tokens["source"] == [["the", "dog", "barks"]] and step.values["input:ids"].array.shape == (1, 3)
    assert (hands_on["text"], hands_on["target"]) == ("the dog barks", "")


@pytest.mark.parametrize("name, make", [("sgd", lambda p: SGD(p, 0.1)), ("adam", lambda p: Adam(p, 0.1))])
def test_steps_are_those_of_the_optimizer(decoder, name, make):
    model, criterion = copy.deepcopy((decoder.model, decoder.criterion))
    model.astype(np.float64).eval(remember=True)
    inputs, targets, _ = decoder.read()
    optimizer, losses = make(model.parameters()), []
    for _ in range(3):
        model.zero_grad()
        losses.append(float(criterion(model(*inputs), targets)))
        model.backward(criterion.backward())
        before = model.state_dict()
        optimizer.step()
    step, hands_on = document(decoder, *[{"kind": "step", "optimizer": name, "lr": 0.1}] * 3)
    assert hands_on["losses"] == losses and hands_on["loss_before"] == losses[-1]
    assert step.loss == float(criterion(model.eval()(*inputs), targets))
    moved = {row["value"]: row for row in hands_on["moved"]}
    for parameter, array in model.state_dict().items():
        change = array - before[parameter]
        row = moved[parameter]
        assert np.isclose(row["norm"], np.sqrt((change ** 2).sum()), rtol=1e-12)
        assert row["largest"] == change[tuple(row["index"])] and abs(row["largest"]) == np.abs(change).max()


def test_another_edit_between_two_steps_makes_a_new_optimizer(decoder):
    step = {"kind": "step", "optimizer": "adam", "lr": 0.1}
    weight = {"kind": "weight", "value": "decoder.norm.beta", "index": [0], "number": 0.0}
    _, hands_on = document(decoder, step, weight, step)
    assert len(hands_on["losses"]) == 1 and len(document(decoder, step, step)[1]["losses"]) == 2
    largest = max(abs(row["largest"]) for row in hands_on["moved"])
    assert np.isclose(largest, 0.1, rtol=1e-3)          # the first step of Adam moves each weight by lr


COMMON = ["residual-missing", "no-scale", "softmax-diagonal", "loss-divided-twice"]


@pytest.mark.parametrize("kind, number", [("decoder", 8), *(pytest.param(kind, 99, marks=pytest.mark.slow) for kind in KINDS)])
def test_every_bug_that_is_offered_runs_and_changes_numbers(kind, number):
    example = tiny(kind, train=False)
    base, _ = document(example)
    names = [bug["name"] for bug in bugs_of(example)]
    assert set(COMMON[:3]) <= set(names) and len(names) > 20
    targets = {zoo.find(name).target.__name__ for name in names}
    assert not targets & {"SGD", "Adam", "AdamW", "NoamSchedule", "RMSNorm"}
    for name in [*COMMON[:3], *names][:number]:
        step, _ = document(example, {"kind": "bug", "name": name})
        same = set(base.arrays) & set(step.arrays)
        assert any(not np.array_equal(base.arrays[ref], step.arrays[ref], equal_nan=True) for ref in same), name


def test_a_planted_bug_shows_where_the_gradient_goes_wrong(decoder):
    step, _ = document(decoder, {"kind": "bug", "name": "residual-missing"})
    wrong = {name for name, value in step.values.items() if value.mismatch > 1e-6}
    assert wrong and all("blocks" in name or "positions" in name for name in wrong)


@pytest.mark.parametrize("edit, words", [
    (7, "kind"), ({"kind": "model", "name": "tail"}, "not another model for this text; it has for example"),
    ({"kind": "delete"}, "text, weight, off, bug, step, model"), ({"kind": ["text"]}, "kind"),
    ({"kind": "text", "texts": "a"}, "no field 'texts'"), ({"kind": "text", "text": 3}, "must be a string"),
    ({"kind": "text", "text": "the cat sat"}, "knows only"),
    ({"kind": "weight", "value": "embedding.weigth", "index": [0, 0], "number": 1}, "embedding.weight"),
    ({"kind": "weight", "value": "embedding.weight", "index": [0, 99], "number": 1}, "shape is"),
    ({"kind": "weight", "value": "embedding.weight", "index": [0, -1], "number": 1}, "shape is"),
    ({"kind": "weight", "value": "embedding.weight", "index": [0, True], "number": 1}, "shape is"),
    ({"kind": "weight", "value": "embedding.weight", "index": 0, "number": 1}, "shape is"),
    ({"kind": "weight", "value": "embedding.weight", "index": [0, 0], "number": float("nan")}, "nan cannot be a weight"),
    ({"kind": "weight", "value": "embedding.weight", "index": [0, 0], "number": "1"}, "'1' cannot be a weight"),
    ({"kind": "weight", "value": "embedding.weight", "index": [0, 0], "number": 1e9}, "at most 1e\\+06"),
    ({"kind": "off", "what": "light"}, "head, mask, scale, block, residual"),
    (off("head", "decoder.blocks.0.attention", head=2), "heads 0 to 1"),
    (off("head", "decoder.blocks.0.attention", head=True), "heads 0 to 1"),
    (off("head", "decoder.blocks.7.attention", head=0), "decoder.blocks.0.attention"),
    (off("block", "decoder"), "not a block"), (off("block", None), "not a block"),
    (off("residual", "decoder.blocks.0", sublayer="cross_attention"), "attention, feed_forward"),
    ({"kind": "bug", "name": "adam-one-beta"}, "not a bug that fits this model"),
    ({"kind": "bug", "name": None}, "not a bug"), ({"kind": "step", "optimizer": "rmsprop", "lr": 1}, "sgd or adam"),
    ({"kind": "step", "optimizer": "sgd", "lr": -1}, "uphill"), ({"kind": "step", "optimizer": "sgd"}, "learning rate"),
    ({"kind": "step", "optimizer": "sgd", "lr": float("inf")}, "learning rate")])
def test_an_impossible_edit_is_refused_in_one_sentence(decoder, edit, words):
    with pytest.raises(ValueError, match=words) as caught:
        edits.apply_edits(decoder, [edit])
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


def test_a_bug_and_a_residual_that_replace_the_same_code_are_not_combined(decoder):
    bug, residual = {"kind": "bug", "name": "residual-missing"}, off("residual", "decoder.blocks.0", sublayer="attention")
    for changes in ([bug, residual], [residual, bug]):
        with pytest.raises(ValueError, match="replace"):
            edits.apply_edits(decoder, changes)
    edits.apply_edits(decoder, [bug, off("block", "decoder.blocks.0")])


def test_a_loss_that_is_not_finite_is_refused(decoder):
    bug = {"kind": "bug", "name": "softmax-overflow"}
    weight = {"kind": "weight", "value": "decoder.blocks.0.attention.query.bias", "index": [0], "number": 1e6}
    assert np.isfinite(edits.apply_edits(decoder, [weight]).loss())
    with pytest.raises(ValueError, match="after this edit the loss is nan"):
        edits.apply_edits(decoder, [bug, weight])
