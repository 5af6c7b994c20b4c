"""The tasks of encoders without a command line: splits, batches, targets, losses and scores."""

import numpy as np
import pytest
from helpers.encoder_runs import softmax

from numpy_transformer.data.reader import MASK, SPECIAL
from numpy_transformer.data.splits import hold_out_tenth
from numpy_transformer.tasks import TASKS, ClassifierTask
from numpy_transformer.tasks.classifier import probabilities
from numpy_transformer.tasks.runs import load_run
from numpy_transformer.tasks.text_to_text import exact_match_by_task


def test_settings_have_one_meaning_in_all_tasks():
    for task in TASKS.values():
        names = [setting.name for setting in task.all_settings()]
        assert len(set(names)) == len(names)
        assert all(set(configuration) <= set(names) for configuration in task.configurations.values())
        for configuration in task.configurations:
            settings = task.default_settings(configuration)
            unused = task.unused_settings(settings | {"data": ["x"], "pretrained": "x.npz"})
            assert not {name for names, _ in unused for name in names} & set(task.configurations[configuration]) - {
                "steps", "validate_every", "tokenizer", "vocab_size", "too_long"}


def test_the_validation_set_is_a_tenth_and_not_in_the_training_set():
    examples = [(f"text {n}", n % 2) for n in range(57)]
    training, validation = hold_out_tenth(examples, seed=3)
    assert len(validation) == 5 and sorted(training + validation) == sorted(examples)
    assert hold_out_tenth(examples, 3) == (training, validation) != hold_out_tenth(examples, 4)
    assert len(hold_out_tenth(examples[:3], 0)[1]) == 1
    rare = [("one", "a"), *((f"text {n}", "b") for n in range(15))]
    for seed in range(30):
        training, validation = hold_out_tenth(rare, seed, lambda example: example[1])
        assert ("one", "a") in training and len(validation) == 1
    with pytest.raises(ValueError, match="cannot hold out any of 1 training example for validation"):
        hold_out_tenth(examples[:1], 0)
    with pytest.raises(ValueError, match="any of 2 training examples .* at least 2 examples of one class"):
        hold_out_tenth(examples[:2], 0, lambda example: example[1])


def test_each_class_has_training_texts_even_one_with_a_single_text(runs, tmp_path):
    (tmp_path / "films.one").write_text("one and only\n")
    for seed in range(12):
        task = ClassifierTask(ClassifierTask.default_settings("small", seed=seed, data=[
            str(runs / "films.neg"), str(runs / "films.pos"), str(tmp_path / "films.one")]))
        assert set(task.training[1]) == {0, 1, 2}, seed


def test_the_training_accuracy_is_that_of_all_classes(tmp_path):
    """Even if a table with a column for the split lists one class after the other."""
    (tmp_path / "t.csv").write_text("text,label,split\n" + "".join(
        f"{mood} film {n},{mood},{part}\n" for part, count in (("train", 40), ("dev", 10))
        for mood in ("bad", "good", "so") for n in range(count)))
    task = ClassifierTask(ClassifierTask.default_settings("small", data=[str(tmp_path / "t.csv")]))
    labels = np.concatenate([labels for _, labels in task.training_sample])
    assert len(labels) == 30 and set(labels) == {0, 1, 2}


def test_each_training_text_is_used_once_per_epoch(runs):
    task = ClassifierTask(ClassifierTask.default_settings("small", data=[str(runs / "reviews.csv")], epochs=2,
                                         batch_size=8))
    seen = sorted(tuple(row[row > 0]) for step in range(7) for row in task.batches(step)[0][0])
    assert seen == sorted(tuple(row) for row in task.training[0])


def test_the_vocabulary_is_that_of_the_training_texts(runs, tmp_path):
    (tmp_path / "r.csv").write_text("text,label\n" + "".join(f"w{n} film,{n % 2}\n" for n in range(60)))
    task = ClassifierTask(ClassifierTask.default_settings("small", data=[str(tmp_path / "r.csv")]))
    learned = {word for text in task.training[0] for word in text}
    assert set(range(task.reader.vocab_size)) - learned == {0, MASK, SPECIAL}     # [PAD], [MASK], <unk>
    (tmp_path / "t.txt").write_text((runs / "text.txt").read_text(encoding="utf-8") + " zyzzyva", encoding="utf-8")
    task = TASKS["mlm"](TASKS["mlm"].default_settings("small", data=[str(tmp_path / "t.txt")], max_len=12))
    assert task.reader.pieces("the")[0] > SPECIAL == task.reader.pieces("zyzzyva")[0]


def test_one_logit_is_that_of_the_second_class():
    logits = np.array([-1000.0, -2.0, 0.0, 3.0, 1000.0])
    expected = [[1, 0], [1 / (1 + np.exp(-2)), 1 / (1 + np.exp(2))], [0.5, 0.5],
                [1 / (1 + np.exp(3)), 1 / (1 + np.exp(-3))], [0, 1]]
    np.testing.assert_allclose(probabilities(logits), expected, atol=1e-12)
    np.testing.assert_allclose(probabilities(np.array([[0.0, 1.0, 2.0]])), [softmax(np.arange(3.0))])


def test_a_tagger_learns_the_first_piece_of_each_word_as_bio(tmp_path):
    rng = np.random.default_rng(0)
    names = ["".join(rng.choice(list("abcdefghijk"), 7)) for _ in range(80)]
    (tmp_path / "t.conll").write_text("\n".join(f"{a} I-per\nsaw O\n{b} I-loc\n{a} I-loc\n" for a, b in
                                                zip(names[::2], names[1::2])))
    task = TASKS["tagger"](TASKS["tagger"].default_settings("small", data=[str(tmp_path / "t.conll")],
                                                vocab_size=300))
    assert task.labels == ["O", "B-loc", "B-per", "I-loc"] and task.make_criterion().ignore_id == -1
    (ids,), tags = task.batches(0)
    for row, line in zip(ids, tags):
        text = task.reader.tokens.decode(row[row >= SPECIAL] - SPECIAL)
        pieces = [task.reader.pieces(word) for word in text.split()]
        wanted = np.full(len(line), -1)
        position = 1
        for word, tag in zip(pieces, ["B-per", "O", "B-loc", "I-loc"]):
            wanted[position] = task.labels.index(tag)
            position += len(word)
        np.testing.assert_array_equal(line, wanted)
        assert max(map(len, pieces)) > 2


def test_the_masks_of_the_validation_set_do_not_depend_on_the_training_share(runs):
    settings = load_run(runs / "mlm.npz").settings
    few, many = (TASKS["mlm"](settings | {"masked": share}) for share in (0.15, 0.5))
    for (one, wanted), (other, same) in zip(few.validation, many.validation):
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(wanted, same)
    assert many.batches(0)[1].shape[1] > few.batches(0)[1].shape[1]


def test_the_loss_and_accuracy_of_masked_words(runs):
    loaded = load_run(runs / "mlm.npz")
    task = TASKS["mlm"](loaded.settings, loaded.tokenizers)
    loss, right, count = 0.0, 0, 0
    for (ids, _, segments, positions), targets in task.validation:
        for n in range(len(ids)):
            logits = loaded.model(ids[n], None, segments[n]).astype(float)
            for position, target in zip(positions[n], targets[n]):
                if target >= 0:
                    loss, count = loss - np.log(softmax(logits[position])[target]), count + 1
                    right += logits[position].argmax() == target
    measured = task.make_validation(loaded.model)()
    assert measured["validation"] == pytest.approx(loss / count, rel=1e-5)
    assert measured["accuracy"] == pytest.approx(right / count)


def test_the_loss_and_accuracies_of_classes(runs):
    loaded = load_run(runs / "classifier.npz")
    task = ClassifierTask(loaded.settings, loaded.tokenizers)
    measured = task.make_validation(loaded.model)()
    texts = [(ids[ids > 0], label) for (batch,), labels in task.validation for ids, label in zip(batch, labels)]
    z = np.array([float(loaded.model(ids)) for ids, _ in texts])
    t = np.array([label for _, label in texts])
    assert measured["validation"] == pytest.approx(np.mean(np.log1p(np.exp(z)) - t * z), rel=1e-5)
    assert measured["accuracy"] == pytest.approx(np.mean((z > 0) == t))
    assert sum(len(labels) for _, labels in task.training_sample) == len(texts)
    learned = {tuple(row) for row in task.training[0]}
    assert all(tuple(ids[ids > 0]) in learned for (batch,), _ in task.training_sample for ids in batch)


def test_tasks_are_listed_as_they_occur():
    pairs = [("b: x", "1"), ("a: x", "2"), ("b: y", "3")]
    assert list(exact_match_by_task(pairs, ["1", "0", "0"])) == ["b: exact match 50.00% of 2", "a: exact match 0.00% of 1"]
