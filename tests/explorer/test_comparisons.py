"""Other steps beside the page's own: which ones there are, that they are what they say, and how a saved page holds them."""

import copy
import json

import numpy as np
import pytest
from helpers.commands import refused

from numpy_transformer.explorer import comparisons, page
from numpy_transformer.explorer.arrays import ArrayExample
from numpy_transformer.explorer.explorer import Explorer
from numpy_transformer.explorer.session import Session
from numpy_transformer.explorer.tiny_models import KINDS, tiny
from numpy_transformer.layers import CrossEntropyLoss, Linear
from numpy_transformer.layers.blocks import Block


@pytest.fixture(scope="module")
def session():
    return Session(tiny("decoder", train=False))


def found(session):
    return {one["name"]: one for one in comparisons.comparisons(session)}


def model_and_arrays(session):
    """A float64 copy of the model with its gradients, and the loss, computed without the explorer."""
    example = session.example
    model, criterion = copy.deepcopy(example.model).astype(np.float64).eval(remember=True), copy.deepcopy(example.criterion)
    inputs, targets, _ = example.read()
    loss = criterion(model(*inputs), targets)
    model.backward(criterion.backward())
    return model, lambda: criterion(model.eval()(*inputs), targets), loss


def test_the_head_is_the_one_whose_missing_look_costs_most(session):
    inputs, targets, _ = session.example.read()
    attentions = session.base.shown["attention"]
    best = (0.0, None)
    for layer, attention in enumerate(attentions):
        weights = session.base.arrays[attention["weights"]][0]
        for head in range(weights.shape[0]):
            model = copy.deepcopy(session.example.model).astype(np.float64)
            block = model.decoder.blocks[layer].attention
            width = block.output.weight.data.shape[0] // weights.shape[0]
            block.output.weight.data[head * width:(head + 1) * width] = 0          # the output of this head counts for nothing
            logits = model.eval()(*inputs)[0]
            p = np.exp(logits - np.log(np.exp(logits).sum(-1, keepdims=True)))
            for query in range(len(p) - 1):
                rise = -np.log(p[query, targets[0, query]]) - session.base.arrays["losses"][0, query]
                look = max((weights[head, query, key] for key in range(1, query)), default=0.0)
                best = max(best, (look * max(rise, 0), (layer, head)), key=lambda pair: pair[0])
    layer, head = best[1]
    edit, = found(session)["head"]["edits"]
    assert (edit["group"], edit["head"]) == (f"decoder.blocks.{layer}.attention", head)


def test_the_step_is_one_of_sgd_that_lowers_the_loss(session):
    model, loss_of, loss = model_and_arrays(session)
    edit, = found(session)["step"]["edits"]
    for parameter in model.parameters():
        parameter.data -= edit["lr"] * parameter.grad
    after = session.document([edit])["loss"]
    assert np.isclose(after, loss_of(), rtol=1e-12) and after < 0.98 * loss


def test_the_bug_leaves_the_loss_and_spoils_a_gradient(session):
    edit, = found(session)["bug"]["edits"]
    wrong = session.step(session.document([edit])["id"])
    assert np.isclose(wrong.loss, session.base.loss, rtol=1e-12)
    changes = [np.linalg.norm(wrong.arrays[ref] - array) / np.linalg.norm(array) for ref, array in session.base.arrays.items()
               if ref.startswith("grad ") and " via " not in ref and ref in wrong.arrays and np.linalg.norm(array) > 1e-6]
    assert max(changes) > 0.1


@pytest.mark.parametrize("kind, name", [("decoder", "post-norm"), ("encoder", "pre-norm"), ("encoder-decoder", "post-norm"),
                                        ("classifier", "post-norm")])
def test_the_norms_stand_at_the_other_place(kind, name):
    example = tiny(kind, train=False)
    is_pre = {part.pre_norm for _, part in example.model.named_modules() if isinstance(part, Block)}
    other = {part.pre_norm for _, part in example.variant(name).named_modules() if isinstance(part, Block)}
    assert is_pre == {name == "post-norm"} and other == {name == "pre-norm"}
    assert example.variant(name) is example.variant(name)
    assert comparisons.find_comparison(Session(example), "norm")["edits"] == [{"kind": "model", "name": name}]


def test_another_model_is_explored_as_it_is_trained(session):
    edit = {"kind": "model", "name": "post-norm"}
    model = copy.deepcopy(session.example.variant("post-norm")).astype(np.float64).eval()
    inputs, targets, _ = session.example.read()
    assert np.isclose(session.document([edit])["loss"], CrossEntropyLoss(ignore_id=-1)(model(*inputs), targets), rtol=1e-12)
    assert session.document([])["loss"] == session.base.loss


def together(base, variant):
    """A variant of a saved page, put together as store.js does it."""
    kept = {ref: array for ref, array in base["arrays"].items() if ref not in variant["without"]}
    return {**base, **variant, "arrays": {**kept, **variant["arrays"]}}


@pytest.mark.parametrize("kind", ["classifier", *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS[:3])])
def test_a_saved_page_holds_each_of_them_whole_in_less_than_a_megabyte(kind, tmp_path):
    session = Session(tiny(kind, train=False))
    session.prove()
    base = session.saved_document()
    names = [one["name"] for one in base["comparisons"]]
    assert set(names) >= {"step", "bug"} and ("norm" in names) == (kind == "decoder") and [one["edits"] for one in base["comparisons"]] == [one["edits"] for one in base["variants"]]
    for one in base["variants"]:
        whole = json.loads(page.to_json(session.document(one["edits"])))
        mine = together(*json.loads(page.to_json([base, one])))
        bugs = [bug for bug in whole["hands_on"].pop("bugs") if bug["name"] == one["edits"][0].get("name")]
        assert mine["hands_on"].pop("bugs") == bugs
        assert {key: mine[key] for key in whole} == whole, one["edits"]
    assert Explorer(session).save(tmp_path / "page.html").stat().st_size <= 1_000_000


def test_what_to_compare_with_can_be_a_bug_or_another_kind_and_anything_else_is_refused(session):
    assert comparisons.find_comparison(session, "residual-missing")["edits"] == [{"kind": "bug", "name": "residual-missing"}]
    assert comparisons.find_comparison(session, "qwen3")["edits"] == [{"kind": "model", "name": "qwen3"}]
    assert found(session).keys() >= {"head", "residual-missing", "qwen3"}          # the page finds them by their names
    assert comparisons.address_of(found(session)["head"]) == "compare=head&view=hands-on&two=1"
    with pytest.raises(ValueError, match="nothing named 'tail' to compare with; choose one of head, step, bug, norm"):
        comparisons.find_comparison(session, "tail")
    unchangeable = Session(ArrayExample(Linear(3, 2, rng=0), np.ones((2, 3))))
    with pytest.raises(ValueError, match="cannot be compared"):
        comparisons.find_comparison(unchangeable, "step")


def test_the_command_refuses_what_it_does_not_know(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    error = refused(capsys, "explore", "--random", "--compare", "tail", "--out", "page.html")
    assert "nothing named 'tail'" in error and not list(tmp_path.iterdir())
    assert "--compare would have no effect with --lesson" in refused(capsys, "explore", "--lesson", "5", "--compare", "head")
