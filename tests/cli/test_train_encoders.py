"""train classifier, tagger, mlm and text2text: the data they read, how long they train, and what they print."""

import re

import numpy as np
import pytest
from helpers.commands import run
from helpers.encoder_runs import BASE, FILES, SIZES, SMALL, trained
from helpers.quick import quick

import numpy_transformer as nt
from numpy_transformer.data.splits import hold_out_tenth
from numpy_transformer.tasks import TASKS
from numpy_transformer.tasks.runs import load_run
from numpy_transformer.training.checkpoint import read_checkpoint


@pytest.mark.parametrize("kind, lines", [
    ("classifier", [r"49 training texts of \S+reviews.csv, 5 for validation, 6 for testing; 2 labels: neg, pos",
                    r"step +3   training loss \d.\d+   validation loss \d.\d+   accuracy \d.\d+   training accuracy \d",
                    r"accuracy \d.\d+ on 6 texts", r"a bag of words, .*: 1.0000"]),
    ("tagger", [r"36 training sentences of \S+names.conll, 4 for validation, none for testing; tags: O, B-loc, B-per, I-loc",
                r"step +3 .* f1 \d.\d+", r"entities in 4 sentences, counted as conlleval counts them:",
                r"each word's most frequent tag: F1 100.00%, precision 100.00%, recall 100.00%"]),
    ("mlm", [r"[\d,]+ characters of \S+text.txt, [\d,]+ tokens of \d+ kinds, of which nine tenths are the training set",
             r"step +3 .* accuracy \d.\d+", r"accuracy on \d+ tokens masked by \[MASK\]: the model \d+.\d\d%",
             r"accuracy on \d+ tokens chosen.*the word before \d+.\d\d%, the words on both sides \d+.\d\d%"]),
    ("text2text", [r"108 training pairs of \S+tasks.tsv, 12 for validation, none for testing", r"reverse: exact match \d+.\d\d% of 6",
                   r"sort: exact match \d+.\d\d% of 6"])])
def test_each_kind_says_what_it_reads_and_what_it_reaches(runs, kind, lines):
    said = (runs / f"{kind}.said").read_text()
    for line in [*lines, r"[\d,]+ parameters; 6 steps with batches of 8", r"saved '\S+' at step 6"]:
        assert re.search(f"^{line}", said, re.M), (line, said)
    meta = read_checkpoint(runs / f"{kind}.npz")[1]
    assert meta["kind"] == kind and meta["step"] == 6 and meta["settings"]["d_model"] == 8


@pytest.mark.slow
@pytest.mark.parametrize("kind, lines", [
    ("tagger", "sentences of a generated language"),
    pytest.param("classifier", "texts of generated film reviews", marks=pytest.mark.slow),
    pytest.param("mlm", "characters of the Python language reference", marks=pytest.mark.slow)])
def test_each_kind_has_something_to_learn_without_files(capsys, tmp_path, kind, lines):
    text = trained(capsys, kind, tmp_path / "run.npz", *SIZES, "--steps", 1, "--batch-size", 4)
    assert re.search(lines, text) and "saved" in text


@pytest.mark.parametrize("files, texts, held_out", [
    (["films.neg", "films.pos"], 49, "5 for validation, 6 for testing; 2 labels: neg, pos"),
    (["films.neg", "films.pos", "films.so"], 57, "6 for validation, 7 for testing; 3 labels: neg, pos, so"),
    (["aclImdb"], 22, "2 for validation, 24 for testing; 2 labels: neg, pos"),
    (["aclImdb.tar.gz"], 22, "2 for validation, 24 for testing; 2 labels: neg, pos")])
def test_a_classifier_reads_all_forms(capsys, runs, tmp_path, files, texts, held_out):
    text = trained(capsys, "classifier", tmp_path / "run.npz", *BASE["classifier"], "--data",
                   *(runs / file for file in files))
    assert f"{texts} training texts of {runs / files[0]}" in text and held_out in text
    assert load_run(tmp_path / "run.npz").labels == ["neg", "pos", "so"][:len(files) if len(files) > 1 else 2]


def test_a_tagger_reads_one_to_three_files(capsys, runs, tmp_path):
    sentences = (runs / "names.conll").read_text().split("\n\n")
    files = [tmp_path / name for name in ("train", "dev", "test")]
    for file, part in zip(files, (sentences[:20], sentences[20:27], sentences[27:])):
        file.write_text("\n\n".join(part))
    text = trained(capsys, "tagger", tmp_path / "a.npz", *BASE["tagger"], "--data", *files)
    assert "20 training sentences of" in text and "7 for validation, 13 for testing" in text and "entities in 13 sentences" in text
    text = trained(capsys, "tagger", tmp_path / "b.npz", *BASE["tagger"], "--data", *files[:2])
    assert "20 training sentences of" in text and "7 for validation, none for testing" in text and "entities in 7 sentences" in text


def test_a_rare_tag_may_be_held_out(capsys, runs, tmp_path):
    """Which sentences of one file validate is not in the user's hands."""
    data, sentences = tmp_path / "names.conll", (runs / "names.conll").read_text().split("\n\n")
    held_out = hold_out_tenth(list(range(40)), seed=1)[1][0]
    data.write_text("\n\n".join([*sentences[:held_out], "Oscars\tB-event", *sentences[held_out + 1:]]))
    trained(capsys, "tagger", tmp_path / "run.npz", *BASE["tagger"], "--data", data)


def test_a_masked_model_reads_several_files(capsys, runs, tmp_path):
    whole = (runs / "text.txt").read_text(encoding="utf-8")
    for n in range(2):
        (tmp_path / f"{n}.txt").write_text(whole, encoding="utf-8")
    text = trained(capsys, "mlm", tmp_path / "run.npz", *BASE["mlm"], "--data", tmp_path / "0.txt", tmp_path / "1.txt")
    assert text.startswith(f"{2 * len(whole) + 1:,} characters of {tmp_path / '0.txt'} and {tmp_path / '1.txt'}")


@pytest.mark.slow
def test_columns_of_a_table_and_its_split(capsys, runs, tmp_path):
    rows = [line.rsplit(",", 1) for line in (runs / "reviews.csv").read_text().splitlines()[1:]]
    parts = ["train"] * 48 + ["dev"] * 4 + ["test"] * 8
    (tmp_path / "t.tsv").write_text("mood\tsplit\tsentence\n" + "".join(
        f"{label}\t{part}\t{text}\n" for (text, label), part in zip(sorted(rows, key=lambda row: row[1]), parts)))
    text = trained(capsys, "classifier", tmp_path / "run.npz", *BASE["classifier"], "--data", tmp_path / "t.tsv",
                   "--text-column", "sentence", "--label-column", "mood")
    assert "48 training texts of" in text and "4 for validation, 8 for testing" in text and "accuracy" in text
    settings = load_run(tmp_path / "run.npz").settings
    assert (settings["text_column"], settings["label_column"]) == ("sentence", "mood")


def test_a_table_of_tasks_may_be_split(capsys, runs, tmp_path):
    (tmp_path / "t.csv").write_text("source,target,split\n" + "".join(
        f"copy: {word},{word},{part}\n" for n, word in enumerate(["ab", "ba", "cab", "abc", "bca", "cb", "bb", "ca"])
        for part in [("train", "train", "train", "train", "dev", "dev", "test", "train")[n]]))
    text = trained(capsys, "text2text", tmp_path / "run.npz", *SMALL, "--data", tmp_path / "t.csv")
    assert "5 training pairs of" in text and "2 for validation, 1 for testing" in text and "copy: exact match" in text
    code, out, _ = run(capsys, "translate", tmp_path / "run.npz", "copy: ab", "copy: b")
    assert code == 0 and len(out.splitlines()) == 2


def test_the_most_frequent_tag_baseline_knows_the_training_words(capsys, tmp_path):
    """Of Ann, Rome and Cleo, the last is new: two entities of three are found, and nothing else."""
    (tmp_path / "train").write_text("Ann I-per\nsaw O\nRome I-loc\n\n" * 9)
    for name in ("dev", "test"):
        (tmp_path / name).write_text("Ann I-per\nsaw O\nRome I-loc\n\nCleo I-per\nsaw O\nit O\n")
    text = trained(capsys, "tagger", tmp_path / "run.npz", *BASE["tagger"], "--data",
                   *(tmp_path / name for name in ("train", "dev", "test")))
    assert "each word's most frequent tag: F1 80.00%, precision 100.00%, recall 66.67%" in text


def test_epochs_decide_the_steps(capsys, runs, tmp_path):
    options = ["--data", runs / "reviews.csv", *SIZES, "--batch-size", 8]
    text = trained(capsys, "classifier", tmp_path / "a.npz", *options, "--epochs", 3, "--warmup", 0)
    assert "21 steps with batches of 8" in text and re.findall(r"^step +(\d+) ", text, re.M) == ["7", "14", "21"]    # 49 texts
    text = trained(capsys, "classifier", tmp_path / "b.npz", *options, "--epochs", 3, "--warmup", 0, "--accumulate", 2)
    assert "11 steps with batches of 8" in text and re.findall(r"^step +(\d+) ", text, re.M) == ["4", "8", "11"]
    text = trained(capsys, "tagger", tmp_path / "c.npz", "--data", runs / "names.conll", *SIZES, "--batch-size", 12,
                   "--epochs", 1, "--warmup", 0)
    assert "3 steps with batches of 12" in text                                                                     # 36 sentences


def test_few_epochs_need_no_warmup_from_the_user(capsys, runs, tmp_path):
    trained(capsys, "classifier", tmp_path / "run.npz", "--data", runs / "reviews.csv", *SIZES, "--batch-size", 8,
            "--epochs", 2)
    settings = load_run(tmp_path / "run.npz").settings
    assert settings["steps"] == 14 > settings["warmup"]


@pytest.mark.parametrize("activation", quick(1, ["swiglu", "silu", "gelu_tanh"]))
@pytest.mark.parametrize("kind", ["mlm", "tagger"])
def test_all_activations_that_help_offers_train(capsys, runs, tmp_path, kind, activation):
    trained(capsys, kind, tmp_path / "run.npz", *BASE[kind], "--data", runs / FILES[kind], "--activation", activation,
            "--steps", 3)
    wanted = {"swiglu": "SwiGLU()", "silu": "SiLU()", "gelu_tanh": "GELU(approximate='tanh')"}[activation]
    assert wanted in repr(load_run(tmp_path / "run.npz").model)


def test_a_classifier_of_words_alone_reads_them_again(capsys, runs, tmp_path):
    text = trained(capsys, "classifier", tmp_path / "run.npz", *BASE["classifier"], "--data", runs / "reviews.csv",
                   "--reading", "keras")
    loaded = load_run(tmp_path / "run.npz")
    assert loaded.tokenizers[0].to_json()["kind"] == "spaced" and loaded.reader.end == ()
    assert "including [CLS] (max_len)" in text and "[SEP]" not in text
    plain, marked = (run(capsys, "classify", tmp_path / "run.npz", text)[1].split("\t")[:2]
                     for text in ("a dull film", "A DULL, film!!<br />"))
    assert plain == marked


@pytest.fixture
def untrained(monkeypatch):
    """Trainings end before their first step."""
    monkeypatch.setattr(nt.Trainer, "fit", lambda *arguments, **named: None)


@pytest.mark.parametrize("kind", BASE)
def test_initial_weights_can_be_chosen(capsys, runs, tmp_path, untrained, monkeypatch, kind):
    monkeypatch.setattr(TASKS[kind], "results", lambda *_: [])
    trained(capsys, kind, tmp_path / "run.npz", *BASE[kind], "--data", runs / FILES[kind], "--init", "bert")
    loaded = load_run(tmp_path / "run.npz")
    assert loaded.settings["init"] == "bert"
    assert all(0 < np.abs(p.data).max() <= 0.04 for p in loaded.model.parameters() if p.data.ndim == 2)
