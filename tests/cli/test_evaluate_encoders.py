"""evaluate for classifiers, taggers, masked models and text to text: scores counted by hand."""

import re

import numpy as np
import pytest
from helpers.commands import run
from helpers.encoder_runs import BASE, changed, said_by, texts_of, trained

import numpy_transformer as nt
from numpy_transformer.data.bigrams import Bigrams
from numpy_transformer.data.masked import MaskedWindows
from numpy_transformer.data.reader import MASK, SPECIAL
from numpy_transformer.tasks import TASKS, ClassifierTask
from numpy_transformer.tasks.runs import load_run


def test_cut_texts_are_counted_once_by_evaluate(capsys, runs):
    _, out, _ = run(capsys, "evaluate", runs / "classifier.npz")
    settings = load_run(runs / "classifier.npz").settings
    task = ClassifierTask(settings | {"max_len": 1000})
    long = sum(len(task.reader.read(text)) > 12 for text, _ in task.test)
    assert long and f"cut {long} of 6 texts after their first 12 tokens" in out and out.count("cut ") == 1
    _, out, _ = run(capsys, "evaluate", runs / "classifier.npz", "--data", runs / "reviews.csv")
    long = sum(len(text.split()) > 10 for text in texts_of(runs, 60))
    assert f"cut {long} of 60 texts" in out and out.count("cut ") == 1
    assert len(re.findall("^cut ", (runs / "classifier.said").read_text(), re.M)) == 2       # to learn, to test


def answers(monkeypatch, wanted):
    """Let classify find the class that wanted(text) names by its number."""
    def classify(model, reader, rows):
        texts = [reader.tokens.decode(row[1:-1] - SPECIAL) for row in rows]
        return np.eye(3)[[wanted(text) for text in texts]]
    monkeypatch.setattr("numpy_transformer.tasks.classifier.classify", classify)


def test_which_classes_are_confused(capsys, runs, tmp_path, monkeypatch):
    path = tmp_path / "run.npz"
    trained(capsys, "classifier", path, *BASE["classifier"], "--data",
            *(runs / f"films.{label}" for label in ("neg", "pos", "so")))
    (tmp_path / "t.csv").write_text("text,label\n" + "the film,neg\n" * 5 + "a film,neg\n" * 2 + "the story,pos\n" * 3
                                    + "a story,pos\n" + "so so,so\n" * 4)
    found = {"the film": 0, "a film": 2, "the story": 1, "a story": 0, "so so": 1}
    answers(monkeypatch, lambda text: found[text.strip()])
    code, out, _ = run(capsys, "evaluate", path, "--data", tmp_path / "t.csv")
    lines = out.splitlines()
    assert code == 0 and f"accuracy {8 / 15:.4f} on 15 texts" in lines
    assert [line.split() for line in lines[-4:]] == [
        ["neg", "pos", "so", "recall"], ["neg", "5", "0", "2", "71.43%"], ["pos", "1", "3", "0", "75.00%"],
        ["so", "0", "4", "0", "0.00%"]]


def test_the_held_out_texts_are_measured_again(capsys, runs):
    code, out, _ = run(capsys, "evaluate", runs / "classifier.npz")
    said = (runs / "classifier.said").read_text()
    assert code == 0 and out.strip() and out in said
    for kind in ("tagger", "mlm"):
        code, out, _ = run(capsys, "evaluate", runs / f"{kind}.npz")
        assert code == 0 and out.strip() and said_by(runs, kind).endswith(out)


def test_evaluation_of_reviews_uses_their_test_part(capsys, runs, monkeypatch):
    texts = []
    answers(monkeypatch, lambda text: texts.append(text) or 0)
    code, out, _ = run(capsys, "evaluate", runs / "classifier.npz", "--data", runs / "aclImdb")
    assert code == 0 and "accuracy 0.5000 on 24 texts" in out and len(texts) == 24
    code, out, _ = run(capsys, "evaluate", runs / "classifier.npz", "--data", runs / "films.neg",
                       runs / "films.pos")
    assert code == 0 and "accuracy 0.5000 on 60 texts" in out


def test_scores_of_each_type(capsys, runs, tmp_path, monkeypatch):
    (tmp_path / "t.conll").write_text("Ann I-per\nLee I-per\nsaw O\nBob B-per\n\n"
                                      "Rome B-loc\nNew B-loc\nYork I-loc\n. O\n")
    found = [["B-per", "O", "O", "B-per"], ["B-loc", "B-loc", "I-loc", "B-per"]]
    monkeypatch.setattr("numpy_transformer.tasks.tagger.find_tags", lambda *_: found)
    code, out, _ = run(capsys, "evaluate", runs / "tagger.npz", "--data", tmp_path / "t.conll")
    rows = {line.split()[0]: re.findall(r"[\d.]+", line) for line in out.splitlines()}
    assert code == 0 and "entities in 2 sentences" in out
    # right: Bob, Rome, New York; found: those, half of Ann Lee, and the full stop; wanted: those, and Ann Lee
    assert rows["all"] == ["60.00", "75.00", "66.67", "3", "5", "4"]
    assert rows["loc"] == ["100.00", "100.00", "100.00", "2", "2", "2"]
    assert rows["per"] == ["33.33", "50.00", "40.00", "1", "3", "2"]
    assert "correct tags: 75.00 % of 8" in out


def drawn(loaded):
    """(row, place, wanted) of the tokens where [MASK] stands, and of all that were chosen, in five maskings."""
    task, chosen = TASKS["mlm"](loaded.settings, loaded.tokenizers), []
    for n in range(5):
        windows = MaskedWindows(task.windows.train, loaded.settings["max_len"], 1, loaded.settings["seed"] + n,
                                loaded.reader.vocab_size, held_out=task.windows.held_out)
        chosen += [(row, place, wanted) for (ids, _, _, places), targets in windows.validation() for row, line, goals in
                   zip(ids, places, targets) for place, wanted in zip(line, goals) if wanted >= 0]
    return [spot for spot in chosen if spot[0][spot[1]] == MASK], chosen


def test_masked_words_that_are_found(capsys, runs, tmp_path):
    """A run that always answers "the" finds as many as there are."""
    loaded = load_run(runs / "mlm.npz")
    the = int(loaded.reader.pieces("the")[0])
    bias = np.zeros(loaded.reader.vocab_size)
    bias[the] = 1e4
    path = changed(runs / "mlm.npz", tmp_path / "m.npz", bias=bias)
    masked, chosen = drawn(loaded)
    assert 0.7 * len(chosen) < len(masked) < 0.9 * len(chosen)
    _, out, _ = run(capsys, "evaluate", path)
    for title, places in (("masked by [MASK]", masked), ("chosen", chosen)):
        share = np.mean([wanted == the for *_, wanted in places])
        assert share > 0 and re.search(rf"^accuracy on {len(places)} tokens {re.escape(title)}.*: the model {share:.2%}", out, re.M)
    (tmp_path / "t.txt").write_text("the " * 300)
    _, out, _ = run(capsys, "evaluate", path, "--data", tmp_path / "t.txt")
    assert re.search(r"^accuracy on 4\d tokens chosen.*: the model 100.00%$", out, re.M) and "both sides" not in out
    _, out, _ = run(capsys, "evaluate", path, "--data", tmp_path / "t.txt", runs / "films.so")
    assert re.search(r"chosen.*: the model 9\d.\d\d%", out)


def test_bigram_baselines_learn_from_the_training_part(capsys, runs):
    loaded = load_run(runs / "mlm.npz")
    ids = loaded.reader.pieces((runs / "text.txt").read_text(encoding="utf-8")) - SPECIAL
    known = Bigrams(ids[:len(ids) * 9 // 10], loaded.reader.vocab_size)
    text = said_by(runs, "mlm")
    for places in drawn(loaded):
        for name, both in (("the word before", False), ("the words on both sides", True)):
            right = [known.guess(row[None], np.array([[place]]), both)[0, 0] == wanted if row[place] == MASK else
                     row[place] == wanted for row, place, wanted in places]      # what is in sight is believed
            assert re.search(rf"^accuracy on {len(places)} tokens .*{name} {np.mean(right):.2%}", text, re.M)


@pytest.mark.parametrize("command", ["train", "evaluate", "files"])
def test_the_exact_match_of_each_task(capsys, runs, tmp_path, monkeypatch, command):
    """A model that reverses rightly, and sorts rightly words without an a."""
    loaded = load_run(runs / "text2text.npz")
    answer = {source: target if source.startswith("reverse") or "a" not in target else "x" for source, target in (
        line.split("\t") for line in (runs / "tasks.tsv").read_text().splitlines()[1:])}
    tokens = loaded.tokenizers

    def greedy(model, sources, *_, **__):
        texts = [nt.data.unframe(tokens[0], row) for row in np.asarray(sources)]
        assert [len(text) for text in texts] == sorted(map(len, texts))
        return [[*(tokens[1].encode(answer[text].replace("x", "")) + 3), 2] for text in texts]

    for module in ("tasks.text_to_text", "cli.generate"):
        monkeypatch.setattr(f"numpy_transformer.{module}.greedy_decode", greedy)
    task = TASKS["text2text"](loaded.settings, tokens)
    pairs = task.test
    if command == "train":
        text = "\n".join(task.results(loaded.model))
    elif command == "evaluate":
        text = run(capsys, "evaluate", runs / "text2text.npz")[1]
    else:
        pairs = pairs[::-1]
        lines = ["source\ttarget", *map("\t".join, pairs)]
        (tmp_path / "a.tsv").write_text("\n".join(lines))
        text = run(capsys, "evaluate", runs / "text2text.npz", "--data", tmp_path / "a.tsv")[1]
    sorts = [target for source, target in pairs if source.startswith("sort")]
    share = sum("a" not in target for target in sorts) / len(sorts)
    assert 0 < share < 1 and f"sort: exact match {share:.2%} of {len(sorts)}" in text
    assert f"reverse: exact match 100.00% of {len(pairs) - len(sorts)}" in text


def test_a_text_too_short_for_training_can_be_evaluated(capsys, runs, tmp_path):
    (tmp_path / "short.txt").write_text("the film " * 20)
    code, out, err = run(capsys, "evaluate", runs / "mlm.npz", "--data", tmp_path / "short.txt")
    assert code == 0 and re.search(r"^accuracy on \d tokens chosen", out, re.M), err
