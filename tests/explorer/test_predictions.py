"""Attention, losses and what each block predicts, compared with the model itself."""

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer.checks.samples import SAMPLES
from numpy_transformer.explorer import predictions
from numpy_transformer.explorer.document import make_step
from numpy_transformer.explorer.tiny_models import KINDS, tiny


@pytest.fixture(scope="module", params=KINDS)
def found(request):
    example = tiny(request.param, train=False)
    inputs, targets, tokens = example.read()
    step = make_step(example.model, inputs, targets, example.criterion, tokens=tokens)
    return step, *predictions.add(step, example)


def test_the_losses_have_the_loss_as_their_mean(found):
    step, entry, arrays = found
    logits = step.arrays[entry["predictions"]["logits"]]
    targets = step.recording.targets
    losses = arrays["losses"]
    assert losses.shape == targets.shape and np.isclose(np.nanmean(losses), step.loss, rtol=1e-13)
    for index in np.ndindex(*targets.shape):
        if targets[index] == step.recording.criterion.ignore_id:
            assert np.isnan(losses[index])
        else:
            z = [float(x) for x in logits[index]]
            top = max(z)
            expected = top + np.log(sum(np.exp(x - top) for x in z)) - z[targets[index]]
            assert np.isclose(losses[index], expected, rtol=1e-13)


def test_the_last_block_predicts_the_logits_and_earlier_ones_do_not(found):
    step, entry, arrays = found
    logits = step.arrays[entry["predictions"]["logits"]]
    *earlier, last = [arrays[row["ref"]] for row in entry["predictions"]["lens"]]
    assert np.allclose(last, logits, rtol=1e-13) and entry["predictions"]["lens"][-1]["title"].startswith("after block")
    assert earlier and all(lens.shape == logits.shape and not np.allclose(lens, logits) for lens in earlier)


@pytest.mark.parametrize("name, sink", [("gpt-oss", True), ("mistral", False)])
def test_an_attention_says_whether_a_sink_takes_a_part_of_its_rows(name, sink):
    model = nt.preset(name, vocab_size=9, num_layers=1, rng=0)
    step = make_step(model, np.array([[1, 2, 3]]), np.array([[2, 3, 4]]), nt.CrossEntropyLoss())
    row, = predictions.add(step)[0]["attention"]
    assert row["sink"] == sink == (step.arrays[row["weights"]].sum(-1).max() < 0.9)


def test_every_attention_is_listed_with_its_arrays(found):
    step, entry, _ = found
    attentions = [part for _, part in step.recording.model.named_modules() if isinstance(part, nt.ScaledDotProductAttention)]
    assert len(entry["attention"]) == len(attentions)
    for row in entry["attention"]:
        weights, scores = step.arrays[row["weights"]], step.arrays[row["scores"]]
        assert np.allclose(weights.sum(-1), 1) and weights.shape == scores.shape
        shown = np.exp(scores - scores.max(-1, keepdims=True))
        assert np.allclose(weights, shown / shown.sum(-1, keepdims=True), rtol=1e-12)
        lengths = [len(step.tokens[row[side]][0]) for side in ("query", "key")]
        assert list(weights.shape[-2:]) == lengths
        if row["mask"] is not None:
            mask = np.broadcast_to(step.arrays[row["mask"]], weights.shape)
            assert (weights[~mask] == 0).all() and "self-attention" in row["title"] or mask.all()


def test_titles_of_attention():
    assert predictions.title_of("decoder.blocks.1.cross_attention.attention") == "decoder block 1, cross-attention"
    assert predictions.title_of("encoder.blocks.0.attention.attention") == "encoder block 0, self-attention"


def test_label_smoothing_and_one_logit():
    rng = np.random.default_rng(0)
    logits, targets = rng.standard_normal((2, 3, 5)), rng.integers(5, size=(2, 3))
    smoothed = nt.CrossEntropyLoss(label_smoothing=0.2)
    assert np.isclose(predictions.losses_of(logits, targets, smoothed).mean(), smoothed(logits, targets), rtol=1e-13)
    binary = nt.BinaryCrossEntropyLoss()
    z, t = rng.standard_normal(4), np.array([0, 1, 1, 0])
    assert np.isclose(predictions.losses_of(z, t, binary).mean(), binary(z, t), rtol=1e-13)


def test_z_loss_has_a_part_for_each_target():
    rng = np.random.default_rng(0)
    logits, targets = 3 * rng.standard_normal((2, 3, 5)), rng.integers(5, size=(2, 3))
    criterion = nt.ZLoss(nt.CrossEntropyLoss(ignore_id=4), 0.2)
    losses = predictions.losses_of(logits, targets, criterion)
    assert np.array_equal(np.isnan(losses), targets == 4) and (targets == 4).any()
    assert np.isclose(np.nanmean(losses), criterion(logits, targets), rtol=1e-13)


@pytest.mark.parametrize("name", ["CausalLanguageModel, gates, norms, caps", "CausalLanguageModel, alibi, grouped"])
def test_attention_is_shown_with_the_scores_that_softmax_gets(name):
    """Caps, biases and the mask stand between the products of queries and keys and the softmax."""
    sample = next(sample for sample in SAMPLES if sample.name == name)
    model, (ids, *_) = sample.make()
    step = make_step(model, ids)
    rows = predictions.attention_of(step)
    assert len(rows) == len(model.decoder.blocks)
    for row in rows:
        weights, scores, mask = (step.values[row[key]].array for key in ("weights", "scores", "mask"))
        shown = np.exp(scores)
        np.testing.assert_allclose(weights, shown / shown.sum(-1, keepdims=True), rtol=1e-12)
        assert (weights[~np.broadcast_to(mask, weights.shape)] == 0).all() and not mask.all()


def test_a_layer_alone_has_no_predictions():
    step = make_step(nt.Linear(3, 2, rng=0), np.ones((1, 3)))
    entry, arrays = predictions.add(step)
    assert entry == {"attention": [], "predictions": None} and arrays == {}
