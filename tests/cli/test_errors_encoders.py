"""Bad input to the commands of the encoders: one line on standard error, exit code 2, and no file replaced."""

import re
import shutil
import tarfile

import pytest
from helpers.commands import refused
from helpers.encoder_runs import BASE

HALF, EVIL = "half", "evil.tar.gz"


@pytest.fixture(scope="module")
def bad(runs):
    """Files with which something is wrong."""
    (runs / HALF / "aclImdb" / "train" / "pos").mkdir(parents=True)
    (runs / HALF / "aclImdb" / "train" / "pos" / "0_9.txt").write_text("great")
    with tarfile.open(runs / EVIL, "w:gz") as archive:
        archive.add(runs / "films.pos", "aclImdb/../../outside.txt")
    shutil.copytree(runs / "aclImdb", runs / "empty" / "aclImdb", dirs_exist_ok=True)
    for path in (runs / "empty" / "aclImdb" / "test" / "neg").iterdir():
        path.unlink()
    for name, text in {
            "one.csv": "text,label\na,pos\nb,pos\n", "few.csv": "text,label\na film,pos\na story,neg\nthe end\n",
            "unknown.csv": "text,label\na film,pos\nthe film,so so\n",
            "signs.csv": "text,label\n" + 9 * "#,pos\n%%,neg\n",
            "tag.conll": "Ann B-per\nwent O\nhome X-loc\n", "narrow.conll": "Ann B-per\n\nwent\n",
            "alone.conll": "Ann B-per\n", "other.conll": "Ann B-thing\n", "short.txt": "the film " * 20,
            "untasked.tsv": "source\ttarget\nsort: ba\tab\nplanet\taelnpt\n", "tasked.txt": "sort: ab\n",
            "narrow.tsv": "source\ttarget\nsort: ba\tab\nsort: ab\n", "columns.tsv": "from\tto\nsort: ba\tab\n",
            "empty.txt": "", "blank.txt": "***\n\n"}.items():
        (runs / name).write_text(text)
    return runs


CLASSIFIER, TAGGER, MLM, TASKS = ([kind, *BASE[kind], "--data"] for kind in BASE)


@pytest.mark.parametrize("arguments, match", [
    ([*CLASSIFIER, "none"], "none' does not exist or is not readable; download reviews from https://ai.stanford.edu/.*MD5 7c2ac02c03563afcf9b574c7e56c153a"),
    ([*CLASSIFIER, HALF], r"train/neg/0_9.txt, so it is only partly unpacked .*3 of 4 folders"),
    ([*CLASSIFIER, "empty"], r"no reviews such as test/neg/0_9.txt.*1 of 4 folders"),
    ([*CLASSIFIER, EVIL], r"refused because its member 'aclImdb/../../outside.txt' has a path that leads outside"),
    ([*CLASSIFIER, "one.csv"], "has 1 different label"),
    ([*CLASSIFIER, "few.csv"], "line 4 of .*few.csv' has 1 column, but the first row has 2"),
    ([*CLASSIFIER, "signs.csv"], "training texts contain no word"),
    ([*CLASSIFIER, "films.pos"], "cannot be read as labeled texts; give one folder aclImdb"),
    ([*CLASSIFIER, "reviews.csv", "reviews.csv"], "cannot be read as labeled texts"),
    ([*CLASSIFIER, "reviews.csv", "--text-column", "review"], "one column 'review', but its .* are 'text', 'label'"),
    ([*CLASSIFIER, "films.neg", "films.pos", "--text-column", "text"], "--text-column would have no effect: .*FILE.csv"),
    (["classifier", "--label-column", "x"], "--label-column would have no effect"),
    ([*CLASSIFIER, "reviews.csv", "--epochs", 2], "--epochs 2 and --steps 6 both say how long"),
    ([*CLASSIFIER, "reviews.csv", "--label-smoothing", 0.1], "--label-smoothing 0.1 would have no effect"),
    ([*CLASSIFIER, "reviews.csv", "--reading", "keras", "--no-lower"], "--no-lower would have no effect: --reading keras"),
    ([*CLASSIFIER, "reviews.csv", "--activation", "swiglu", "--ff-dropout", 0.1], "--ff-dropout would have no effect"),
    ([*CLASSIFIER, "reviews.csv", "--watch", "accuracy"], "--watch would have no effect: .* give --patience too"),
    ([*CLASSIFIER, "reviews.csv", "--patience", 2, "--watch", "f1"], "--watch: invalid choice: 'f1'.*loss.*accuracy"),
    ([*CLASSIFIER, "reviews.csv", "--init", "glorot"], "--init: invalid choice: 'glorot'.*xavier.*keras.*gpt2.*bert"),
    ([*CLASSIFIER, "reviews.csv", "--max-len", 4], "'4' is not a whole number of at least 5"),
    ([*CLASSIFIER, "reviews.csv", "--num-heads", 3], "d_model = 8 is not divisible"),
    ([*TAGGER, "names.conll", "names.conll", "names.conll", "names.conll"], "names 4 files; give at most 3"),
    ([*TAGGER, "tag.conll"], "tag.conll', line 3: 'X-loc' is not a valid tag"),
    ([*TAGGER, "narrow.conll"], "narrow.conll', line 3: .* the line has 1"),
    ([*TAGGER, "alone.conll"], "cannot hold out any of 1 training example for validation; give at least 2 examples of one class"),
    ([*TAGGER, "none.conll"], "there is no file .*W-NUT"),
    ([*TAGGER, "names.conll", "other.conll"], "'B-thing' does not occur in the training set, which has O, B-loc, B-per, I-loc"),
    ([*TAGGER, "names.conll", "--epochs", 2], "both say how long"),
    ([*MLM, "short.txt"], "a text of 40 tokens is too short: .* 111 are needed"),
    ([*MLM, "empty.txt"], "empty.txt' is empty"), ([*MLM, "none.txt"], "cannot read"),
    ([*MLM, "text.txt", "--masked", 0], "0"), ([*MLM, "text.txt", "--masked", 1], "'1' is not a number .* below 1"),
    ([*TASKS, "untasked.tsv"], "the source 'planet' names no task"),
    ([*TASKS, "narrow.tsv"], "line 3 of .* has 1 column"), ([*TASKS, "columns.tsv"], "one column 'source'"),
    ([*TASKS, "tasks.tsv", "tasks.tsv"], "names 2 files; give one .csv or .tsv"),
    ([*TASKS, "tasks.tsv", "--tokenizer", "char", "--vocab-size", 300], "--vocab-size would have no effect"),
    (["text2text", "--tokenizer", "word"], "--tokenizer would have no effect: generated pairs")])
def test_bad_input_of_train_gets_one_line_and_replaces_nothing(capsys, bad, tmp_path, arguments, match):
    out = tmp_path / "run.npz"
    shutil.copy(bad / f"{arguments[0]}.npz", out)
    before = out.read_bytes()
    arguments = [bad / a if (bad / str(a)).exists() or str(a).startswith("none") else a for a in arguments]
    line = refused(capsys, "train", *arguments, "--out", out, "--overwrite")
    assert re.search(match, line), line
    assert out.read_bytes() == before and list(tmp_path.iterdir()) == [out]


@pytest.mark.slow
@pytest.mark.parametrize("arguments, match", [
    (["classify", "{classifier}", "good", ""], "TEXT 2: the text '' is empty; give at least one word"),
    (["classify", "{classifier}", "###"], "TEXT 1: there is no word in '###'"),
    (["classify", "{tagger}", "good"], "holds a tagger of words: `tag` uses it; name a run of `train classifier`"),
    (["classify", "{lm}", "good"], "cannot read"), (["classify", "{reviews}", "good"], "is not a checkpoint"),
    (["tag", "{classifier}", "good"], "holds a classifier of texts: .* name a run of `train tagger`"),
    (["tag", "{tagger}", " "], "TEXT 1: the text ' ' is empty"),
    (["fill", "{mlm}", "the word is"], r"has no \[MASK\]; write it in place of the word"), (["fill", "{mlm}", ""], r"has no \[MASK\]"),
    (["fill", "{mlm}", "[MASK] " * 11], "has 13 tokens, .* but the model reads at most 12; shorten it"),
    (["fill", "{mlm}", "[MASK]", "--top", 0], "'0' is not a whole number of at least 1"),
    (["fill", "{classifier}", "[MASK]"], "name a run of `train mlm`"),
    (["embed", "{text2text}", "a"], "holds an encoder-decoder for several tasks"), (["embed", "{mlm}", ""], "is empty"),
    (["similar", "{mlm}", "a film"], "required: --within"),
    (["similar", "{mlm}", "a film", "--within", "{none}"], "cannot read"),
    (["similar", "{mlm}", "a film", "--within", "{empty}"], "is empty"),
    (["similar", "{mlm}", "a film", "--within", "{blank}"], "no line of .* contains a word; name a file with one sentence"),
    (["similar", "{mlm}", "", "--within", "{films}"], "the text '' is empty"),
    (["similar", "{text2text}", "a", "--within", "{films}"], "holds an encoder-decoder"),
    (["translate", "{classifier}", "a"], "holds a classifier of texts"),
    (["generate", "{mlm}"], "holds a masked language model: `fill`, `embed` and `similar` use it"),
    (["evaluate", "{classifier}", "--data", "{unknown}"], "line 3 of .* has the label 'so so', but the model knows only 'neg', 'pos'"),
    (["evaluate", "{classifier}", "--data", "{films}"], "cannot be read as labeled texts"),
    (["evaluate", "{classifier}", "--text", "{films}"], "evaluate it with --data PATH, or without files"),
    (["evaluate", "{classifier}", "--beam", 3], "evaluate it with --data PATH, or without files|beam"),
    (["evaluate", "{tagger}", "--limit", 3], "evaluate it with --data PATH, or without files"),
    (["evaluate", "{mlm}", "--source", "{films}", "--target", "{films}"], "evaluate it with --data"),
    (["evaluate", "{text2text}", "--source", "{films}", "--target", "{films}"], "evaluate it with --data FILE.tsv"),
    (["evaluate", "{tagger}", "--data", "{tag}"], "line 3: 'X-loc' is not a valid tag"),
    (["evaluate", "{mlm}", "--data", "{empty}"], "is empty"),
    (["evaluate", "{mlm}", "--data", "{none}"], "cannot read"),
    (["train", "tagger", "--resume", "--out", "{classifier}"], "a run of `train classifier`, not of `train tagger`"),
    (["train", "classifier", "--resume", "--out", "{classifier}", "--no-lower"], "--lower is True in the run"),
    (["train", "mlm", "--resume", "--out", "{mlm}", "--masked", 0.3], "--masked is 0.15 in the run")])
def test_bad_input_of_the_others_gets_one_line(capsys, bad, tmp_path, arguments, match):
    paths = {kind: bad / f"{kind}.npz" for kind in [*BASE, "lm"]}
    places = paths | {"reviews": bad / "reviews.csv", "films": bad / "films.pos", "none": bad / "nowhere.txt",
                     "empty": bad / "empty.txt", "blank": bad / "blank.txt", "unknown": bad / "unknown.csv",
                     "tag": bad / "tag.conll", "tasks": bad / "tasks.tsv"}
    before = {path: path.read_bytes() for path in paths.values() if path.exists()}
    line = refused(capsys, *[str(a).format(**places) for a in arguments])
    assert re.search(match, line), line
    assert all(path.read_bytes() == data for path, data in before.items())


def test_files_without_tasks_are_refused_before_the_work(capsys, bad, monkeypatch):
    monkeypatch.setattr("numpy_transformer.cli.evaluate.translate", lambda *_: pytest.fail("it began"))
    plain = bad / "plain.tsv"
    plain.write_text("source\ttarget\nab\tba\n")
    line = refused(capsys, "evaluate", bad / "text2text.npz", "--data", plain)
    assert "the source 'ab' names no task" in line
