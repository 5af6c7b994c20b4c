"""The doctor for conversions: it changes a model for a moment, puts it back exactly, and says what it cannot tell."""

import math

import numpy as np
import pytest
from helpers.small_checkpoints import SIZES, SMALL
from helpers.small_languages import LENGTH, OPTIONS, VOCAB, check_arguments, small_model

from numpy_transformer.layers.lora import add_lora
from numpy_transformer.models import SequenceClassifier, TextEncoder
from numpy_transformer.module import Parameter
from numpy_transformer.pretrained import Origin, load_pretrained
from numpy_transformer.pretrained.conversion_checks import diagnose
from numpy_transformer.pretrained.conversion_checks.losses import (cross_entropies, hidden_spans, make_task,
                                                                   token_losses, windows)
from numpy_transformer.pretrained.conversion_checks.number_formats import is_usual
from numpy_transformer.pretrained.conversion_checks.random_weights import RANDOM, TRAINED, structure_of
from numpy_transformer.pretrained.conversion_checks.rows_of_ids import wrong_rows
from numpy_transformer.pretrained.conversion_checks.search import changes_of


def slow_but(*quick):
    """The kinds of small models; all but the quick ones are marked slow."""
    return [kind if kind in quick else pytest.param(kind, marks=pytest.mark.slow) for kind in OPTIONS]


def objects_and_numbers(model):
    """Which object every attribute of every module is, and the bytes of all weights and tables."""
    objects = {}
    for name, module in model.named_modules():
        for attribute, value in vars(module).items():
            objects[name, attribute] = [*map(id, value)] if isinstance(value, list) else id(value)
            data = value.data if isinstance(value, Parameter) else value
            if isinstance(data, np.ndarray) and attribute != "weights":
                objects[name, attribute, "data"] = data.tobytes()
    return objects


@pytest.mark.parametrize("kind", slow_but("llama"))
def test_every_change_does_something_and_is_taken_back_exactly(kind):
    model = small_model(kind)
    rng = np.random.default_rng(0)
    for parameter in model.parameters():                    # no gain may be 1 and no bias 0
        parameter.data = parameter.data + 0.1 * rng.standard_normal(parameter.data.shape)
    task = make_task(model.eval(), **check_arguments(kind, 1, rows=2))
    token_losses(model, task)                               # tables of rotary positions have grown, weights are kept
    before = objects_and_numbers(model)
    loss = token_losses(model, task)[0]
    unseen = []
    for change in changes_of(model):
        with change.made():
            if np.array_equal(token_losses(model, task)[0], loss):
                unseen.append(change.topic)
        after = objects_and_numbers(model)
        assert {key: value for key, value in after.items() if key[1] != "weights"} == {
            key: value for key, value in before.items() if key[1] != "weights"}, change.done
    np.testing.assert_array_equal(token_losses(model, task)[0], loss)
    assert set(unseen) <= {"eps of the norms", "padding"}


@pytest.mark.parametrize("name", [
    name if name in ("gemma3", "gpt_neox", "mixtral") else pytest.param(name, marks=pytest.mark.slow)
    for name in SIZES if name not in ("gpt2", "llama", "bert", "t5", "vit")])
def test_every_change_of_a_current_family_is_taken_back_exactly(name):
    """Norms behind Linears, a part of each head that rotates, two kinds of rotary positions, experts, latent attention."""
    model = load_pretrained(SMALL / name, np.float64)
    ids = np.random.default_rng(3).integers(3, 18, 60)
    task = make_task(model, ids, mask_id=4, end_id=2)
    token_losses(model, task)
    before = objects_and_numbers(model)
    loss = token_losses(model, task)[0]
    seen = set()
    for change in changes_of(model):
        with change.made():
            if not np.array_equal(token_losses(model, task)[0], loss):
                seen.add(change.topic)
        after = objects_and_numbers(model)
        kept = [key for key in before if key[1] not in ("weights", "chosen")]       # those are of the latest forward
        assert after.keys() == before.keys() and all(after[key] == before[key] for key in kept), change.done
    np.testing.assert_array_equal(token_losses(model, task)[0], loss)
    assert len(seen) > 8, seen


@pytest.mark.parametrize("kind", slow_but("gpt2"))
def test_untrained_weights_have_nothing_to_lose(kind):
    diagnosis = diagnose(small_model(kind), **check_arguments(kind, 1, rows=2))
    assert not diagnosis.findings and not diagnosis.knows
    assert "cannot tell" in str(diagnosis) or "no sign of a mistake" in str(diagnosis) or "tell nothing" in str(diagnosis)
    assert "exactly 1" in str(diagnosis)


def test_a_model_without_a_language_head_is_told_so():
    for model in (TextEncoder(30, 8, 2, 1, max_len=8, rng=0), SequenceClassifier(30, 8, 2, 1, max_len=8, rng=0)):
        said = str(diagnose(model, np.arange(20), tokenizer_size=40))
        assert "predicts no tokens" in said and "40 ids, but the embedding only 30 rows" in said


def test_what_needs_no_text_is_found():
    model = small_model("gpt2")
    rng = np.random.default_rng(0)
    for parameter in model.parameters():
        parameter.data = parameter.data + 0.1 * rng.standard_normal(parameter.data.shape)
    assert diagnose(model, tokenizer_size=VOCAB - 2).notes == []
    model.origin = Origin("gpt2", {"layer_norm_epsilon": 1e-12})
    block, other = model.decoder.blocks
    block.attention.key.weight.data = block.attention.query.weight.data
    other.feed_forward.up.weight.data = 0
    other.feed_forward.down.bias.data = 0
    model.decoder.norm.gamma.data = 1
    for each in (block, other):
        each.attention.value.bias.data = 0
    notes = " ".join(map(str, diagnose(model).notes))
    for part in ("eps = 1e-05, but config.json says 1e-12", "key.weight equals decoder.blocks.0.attention.query.weight",
                 "decoder.blocks.1.feed_forward.up.weight is 0 everywhere",
                 "0 while others are not: decoder.blocks.*.attention.value.bias, decoder.blocks.1.feed_forward.down.bias.",
                 "exactly 1, while those of others are not: decoder.norm."):
        assert part in notes
    other.norm1.gamma.data[3] = np.nan
    assert "not finite" in str(diagnose(model, **check_arguments("gpt2", 1)))


@pytest.mark.parametrize("kind, options, said", [
    ("gpt2", {"ids": np.arange(7)}, "7 tokens"), ("gpt2", {"ids": np.ones(50, int)}, "1 of them different"),
    ("bert", {"ids": np.arange(20)}, "mask_id")])
def test_texts_that_tell_nothing_are_refused(kind, options, said):
    with pytest.raises(ValueError, match=said):
        diagnose(small_model(kind), **options)


def test_lora_layers_are_refused_until_they_are_merged():
    model = add_lora(small_model("gpt2"), rank=2, rng=0)
    with pytest.raises(ValueError, match="merge_lora"):
        diagnose(model, **check_arguments("gpt2", 1, rows=2))


def test_the_loss_is_that_of_each_token():
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((5, 7)).astype(np.float32)
    targets = rng.integers(0, 7, 5)
    wanted = [[math.log(sum(math.exp(s * z) for z in row)) - s * row[target] for row, target in zip(logits, targets)]
              for s in (1.0, 0.3)]
    np.testing.assert_allclose(cross_entropies(logits, targets, (1.0, 0.3)), wanted, rtol=1e-5)


def test_repeated_passages_are_no_new_evidence():
    text = np.concatenate([np.arange(5, 30), [5, 6, 9]]) % VOCAB
    errors = {}
    for copies in (1, 30):
        task = make_task(small_model("gpt2"), [text[:LENGTH + 1]] * copies, tokens=10_000)
        values, groups = [], {}
        for (ids,), targets in task.batches:
            for row, wanted in zip(ids.tolist(), targets.tolist()):
                for t, target in enumerate(wanted):
                    values.append(math.sin(target + 2 * row[t]))
                    groups.setdefault((*row[max(t - 3, 0):t + 1], target), []).append(values[-1])
        mean = sum(values) / len(values)
        squares = sum(sum(value - mean for value in group) ** 2 for group in groups.values())
        errors[copies] = task.standard_error(np.array(values))
        assert errors[copies] == pytest.approx(math.sqrt(squares) / len(values))
        assert task.num_tokens == copies * LENGTH and task.different == VOCAB
    assert errors[30] == pytest.approx(errors[1])


@pytest.mark.parametrize("kind", slow_but("bert"))
def test_every_token_is_predicted_once(kind):
    arguments = check_arguments(kind, 1)
    task = make_task(small_model(kind), **arguments, tokens=10_000)
    counted = np.sort(np.concatenate([targets[targets >= 0] for _, targets in task.batches]))
    read = {"gpt2": slice(1, None), "llama": slice(1, None), "bert": slice(1, -1), "t5": slice(None)}[kind]
    np.testing.assert_array_equal(counted, np.sort(np.concatenate([text[read] for text in arguments["ids"]])))


def test_hidden_spans_are_those_of_t5():
    (inputs, targets), *_ = hidden_spans(np.array([*range(10, 34), 1]), (7, 6, 5), start_id=0, end_id=1)
    source, target = inputs
    assert source.tolist() == [[7, *range(13, 30), 6, 33, 1]]
    assert target.tolist() == [[0, 7, 10, 11, 12, 6, 30, 31]]
    assert targets.tolist() == [[-1, 10, 11, 12, -1, 30, 31, 32]]


def test_each_window_of_a_long_text_has_its_frame():
    found = windows(np.array([1, *range(10, 17), 2]), 6, (1, 2))
    assert [window.tolist() for window in found] == [[1, 10, 11, 12, 13, 2], [1, 14, 15, 16, 2]]


@pytest.mark.parametrize("shape", [(32, 32), (24, 200), (300, 40)])
@pytest.mark.parametrize("draw", ["normal", "uniform"])
def test_random_numbers_are_told_from_weights_with_structure(shape, draw):
    rng = np.random.default_rng(0)
    for _ in range(20):
        weight = 0.02 * (rng.standard_normal(shape) if draw == "normal" else rng.uniform(-1, 1, shape))
        assert structure_of(weight) < RANDOM
    assert structure_of(weight * np.exp(rng.standard_normal((len(weight), 1)))) > TRAINED       # rows of other sizes
    assert structure_of(weight * np.exp(rng.standard_normal(shape[1]))) > TRAINED               # columns of other sizes
    sides = [np.sign(rng.standard_normal(size)) for size in shape]
    assert structure_of(weight + 0.02 * np.outer(*sides)) > TRAINED                             # one direction


def test_magnitudes_tell_formats_apart():
    weight = (0.02 * np.random.default_rng(0).standard_normal((20, 20))).astype(np.float32)
    high_halves = weight.view(np.uint16).reshape(20, 20, 2)[..., 1]                 # the bits of the bfloat16 numbers
    assert is_usual(weight) and is_usual(weight.astype(np.float16)) and is_usual(np.sign(weight) * weight ** 2)
    assert not is_usual(high_halves.view(np.float16)) and not is_usual(weight.byteswap())
    assert not is_usual(weight.astype(np.float16).byteswap()) and not is_usual(np.sign(weight))


def test_quantized_weights_without_their_scale_are_seen():
    model = small_model("llama")
    weight = model.decoder.blocks[1].feed_forward.down.weight
    weight.data = np.rint(100 * weight.data)
    assert any("blocks.1.feed_forward.down.weight are whole numbers" in str(note) for note in diagnose(model).notes)


@pytest.mark.slow
def test_copied_blocks_and_rows_are_one_note_each():
    model = small_model("gpt2")
    rng = np.random.default_rng(0)
    for parameter in model.parameters():
        parameter.data = parameter.data + 0.1 * rng.standard_normal(parameter.data.shape)
    block, other = model.decoder.blocks
    for name in ("query", "key", "value", "output"):
        getattr(other.attention, name).weight.data = getattr(block.attention, name).weight.data
    model.embedding.weight.data[[7, 9]] = 0
    model.embedding.weight.data[12] = model.embedding.weight.data[13]
    notes = [str(note) for note in diagnose(model, **check_arguments("gpt2", 1, rows=20)).notes]
    assert len(notes) == 3 and "decoder.blocks.1 has the same weights as decoder.blocks.0 (attention.query, " in notes[0]
    assert "uses 2 rows of the embedding with nothing but zeros" in notes[1]
    assert "uses 1 row of the embedding with the same" in notes[2]


def test_a_missing_final_norm_and_copied_biases_are_seen():
    model = small_model("gpt2")
    rng = np.random.default_rng(0)
    for parameter in model.parameters():
        parameter.data = parameter.data + 0.1 * rng.standard_normal(parameter.data.shape)
    assert not [note for note in diagnose(model).notes if "final norm" in str(note) or "equals" in str(note)]
    model.decoder.norm = None
    for block in model.decoder.blocks:
        block.feed_forward.down.bias.data = block.attention.output.bias.data.copy()
    said = str(diagnose(model))
    assert "No final norm follows the last block of the decoder" in said
    assert "decoder.blocks.*.feed_forward.down.bias equals decoder.blocks.*.attention.output.bias, in 2 blocks" in said


def test_rows_of_ids_that_alone_are_unexpected_are_named():
    rng = np.random.default_rng(0)
    targets = rng.integers(0, 200, 3000)
    losses = rng.exponential(3.0, 3000)
    log_vocab = math.log(200)
    assert wrong_rows(targets, losses, log_vocab) is None
    shuffled = np.where((targets >= 50) & (targets < 90), losses + 9, losses)
    found = wrong_rows(targets, shuffled, log_vocab)
    assert abs(found.first - 50) <= 2 and abs(found.last - 89) <= 2
    assert found.inside > 11 and found.outside < 3.2
    assert wrong_rows(targets, losses + 9, log_vocab) is None                   # nothing is known,
    assert wrong_rows(targets, shuffled + 2, log_vocab) is None                 # or little outside the range
    scattered = np.where(rng.random(3000) < 0.03, losses + 30, losses)          # some tokens of all ids
    assert wrong_rows(targets, scattered, log_vocab) is None
