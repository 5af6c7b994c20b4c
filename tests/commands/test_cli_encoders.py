"""train classifier, tagger, mlm, text2text; classify, tag, fill, embed, similar; evaluate: what they do with files."""

import contextlib
import io
import re
import shutil
import tarfile

import numpy as np
import pytest
from helpers.commands import run

import numpy_transformer as nt
from numpy_transformer.cli import main
from numpy_transformer.tasks import (RECIPES, Classifier, all_settings, default_settings, idle_rates, make_model,
                                           make_trainer)
from numpy_transformer.tasks.classifier import hold_out_tenth, probabilities
from numpy_transformer.tasks.text_to_text import by_task
from numpy_transformer.tasks.runs import load_run
from numpy_transformer.data import builtin_text
from numpy_transformer.data.bigrams import Bigrams
from numpy_transformer.data.masked import MaskedWindows
from numpy_transformer.data.reader import CLS, MASK, SEP, SPECIAL
from numpy_transformer.training.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from numpy_transformer.training.trainer_state import read_history

SIZES = ["--d-model", 8, "--num-heads", 2, "--num-layers", 1, "--d-ff", 8]
SMALL = [*SIZES, "--batch-size", 8, "--steps", 6, "--warmup", 2, "--validate-every", 3, "--dropout", 0.1]
LONG = "the film was a story of some people in town and it went on for ever and ever and a day"
BASE = {"classifier": [*SMALL, "--hidden", 8, "--max-len", 12], "tagger": [*SMALL, "--max-len", 16],
        "mlm": [*SMALL, "--max-len", 12], "text2text": SMALL}
FILES = {"classifier": "reviews.csv", "tagger": "names.conll", "mlm": "text.txt", "text2text": "tasks.tsv"}


def write_files(folder):
    """Little data of each form."""
    rng = np.random.default_rng(0)
    words = {"neg": "dull awful boring clumsy".split(), "pos": "great lovely moving charming".split()}
    filler = "the film was a story of some people in town and it went on".split()
    reviews = []
    for n in range(60):
        label = ("neg", "pos")[n % 2]
        text = [*rng.choice(filler, rng.integers(2, 13)), rng.choice(words[label])]
        reviews.append((" ".join(map(str, rng.permutation(text))), label))
    (folder / "reviews.csv").write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in reviews))
    for label in words:
        (folder / f"films.{label}").write_text("".join(f"{text}\n" for text, name in reviews if name == label))
    (folder / "films.so").write_text("so so\nneither good nor bad\n" * 5)
    places = ["Rome", "Paris", "New York"]
    sentences = [f"{rng.choice(['Ann', 'Bob', 'Cleo'])}\tI-per\n{rng.choice(['went', 'came'])}\tO\nto\tO\n" + "".join(
                 f"{word}\tI-loc\n" for word in rng.choice(places).split()) + ".\tO\n" for _ in range(40)]      # IOB1
    (folder / "names.conll").write_text("\n".join(sentences))
    (folder / "text.txt").write_text(" ".join(builtin_text().split()[:3000]))
    letters = ["".join(rng.choice(list("abcdef"), rng.integers(2, 6))) for _ in range(60)]
    (folder / "tasks.tsv").write_text("source\ttarget\n" + "".join(
        f"reverse: {word}\t{word[::-1]}\nsort: {word}\t{''.join(sorted(word))}\n" for word in letters))
    for part in ("train", "test"):
        for n, (text, label) in enumerate(reviews[:24]):
            (folder / "aclImdb" / part / label).mkdir(parents=True, exist_ok=True)
            (folder / "aclImdb" / part / label / f"{n}_{n % 10}.txt").write_text(f"{part} {text}<br /><br />")
    with tarfile.open(folder / "aclImdb.tar.gz", "w:gz") as archive:
        archive.add(folder / "aclImdb", "aclImdb")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files, and a tiny run of each kind; said[kind] is what its training printed."""
    folder = tmp_path_factory.mktemp("encoders")
    write_files(folder)
    for kind, options in BASE.items():
        with contextlib.redirect_stdout(io.StringIO()) as output:
            assert main(list(map(str, ["train", kind, *options, "--data", folder / FILES[kind], "--out",
                                       folder / f"{kind}.npz"]))) == 0
        (folder / f"{kind}.said").write_text(output.getvalue())
    return folder


def trained(capsys, kind, out, *options):
    """Standard output of a training that must go well."""
    code, text, err = run(capsys, "train", kind, *options, "--out", out)
    assert code == 0, err
    return text


def refused(capsys, *arguments):
    """The one line on standard error, beside progress, of a call that is refused with exit code 2."""
    try:
        code, out, err = run(capsys, *arguments)
    except SystemExit as stop:                              # argparse
        code, err = stop.code, capsys.readouterr().err
    lines = [line for line in err.splitlines() if not re.match(r"[a-z2 ]+: \d+/\d+", line)]
    assert code == 2 and "Traceback" not in err and len(lines) == 1, err
    return lines[0]


def state(path):
    return load_run(path).model.state_dict()


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], name)


def changed(path, to, **arrays):
    """A copy of a run with other values in some arrays of its model."""
    stored, meta = read_checkpoint(path)
    for name, value in arrays.items():
        stored[f"model/{name.replace('__', '.')}"][...] = value
    write_checkpoint(to, stored, {key: value for key, value in meta.items() if key != "format"})
    return to


def softmax(z):
    z = np.exp(z - z.max())
    return z / z.sum()


# train

@pytest.mark.parametrize("kind, lines", [
    ("classifier", [r"49 texts of \S+reviews.csv, 5 to validate, 6 to test; 2 labels: neg, pos",
                    r"step +3   training loss \d.\d+   validation loss \d.\d+   accuracy \d.\d+   training accuracy \d",
                    r"accuracy \d.\d+ on 6 texts", r"a bag of words, .*: 1.0000"]),
    ("tagger", [r"36 sentences of \S+names.conll, 4 to validate, none to test; tags: O, B-loc, B-per, I-loc",
                r"step +3 .* f1 \d.\d+", r"entities in 4 sentences, as conlleval counts them:",
                r"each word's most frequent tag: F1 100.00%, precision 100.00%, recall 100.00%"]),
    ("mlm", [r"[\d,]+ characters of \S+text.txt, [\d,]+ tokens of \d+ kinds, nine tenths to learn from",
             r"step +3 .* accuracy \d.\d+", r"of \d+ tokens where \[MASK\] stands: the model \d+.\d\d%",
             r"of \d+ tokens that were chosen.*the word before \d+.\d\d%, the words on both sides \d+.\d\d%"]),
    ("text2text", [r"108 pairs of \S+tasks.tsv, 12 to validate, none to test", r"reverse: exact match \d+.\d\d% of 6",
                   r"sort: exact match \d+.\d\d% of 6"])])
def test_each_kind_says_what_it_reads_and_what_it_reaches(folder, kind, lines):
    said = (folder / f"{kind}.said").read_text()
    for line in [*lines, r"[\d,]+ parameters, 6 steps of 8 sequences", r"saved '\S+' at step 6"]:
        assert re.search(f"^{line}", said, re.M), (line, said)
    meta = read_checkpoint(folder / f"{kind}.npz")[1]
    assert meta["kind"] == kind and meta["step"] == 6 and meta["settings"]["d_model"] == 8


@pytest.mark.parametrize("kind, lines", [
    ("classifier", "texts of generated film reviews, .* labels: neg, pos|texts of generated film reviews"),
    ("tagger", "sentences of a generated language"), ("mlm", "characters of the Python language reference")])
def test_each_kind_has_something_to_learn_without_files(capsys, tmp_path, kind, lines):
    text = trained(capsys, kind, tmp_path / "run.npz", *SIZES, "--steps", 1, "--batch-size", 4)
    assert re.search(lines, text) and "saved" in text


@pytest.mark.parametrize("files, texts, held_out", [
    (["films.neg", "films.pos"], 49, "5 to validate, 6 to test; 2 labels: neg, pos"),
    (["films.neg", "films.pos", "films.so"], 57, "6 to validate, 7 to test; 3 labels: neg, pos, so"),
    (["aclImdb"], 22, "2 to validate, 24 to test; 2 labels: neg, pos"),
    (["aclImdb.tar.gz"], 22, "2 to validate, 24 to test; 2 labels: neg, pos")])
def test_a_classifier_reads_all_forms(capsys, folder, tmp_path, files, texts, held_out):
    text = trained(capsys, "classifier", tmp_path / "run.npz", *BASE["classifier"], "--data",
                   *(folder / file for file in files))
    assert f"{texts} texts of {folder / files[0]}" in text and held_out in text
    assert load_run(tmp_path / "run.npz").labels == ["neg", "pos", "so"][:len(files) if len(files) > 1 else 2]


def test_a_tagger_reads_one_to_three_files(capsys, folder, tmp_path):
    sentences = (folder / "names.conll").read_text().split("\n\n")
    files = [tmp_path / name for name in ("train", "dev", "test")]
    for file, part in zip(files, (sentences[:20], sentences[20:27], sentences[27:])):
        file.write_text("\n\n".join(part))
    text = trained(capsys, "tagger", tmp_path / "a.npz", *BASE["tagger"], "--data", *files)
    assert "20 sentences of" in text and "7 to validate, 13 to test" in text and "entities in 13 sentences" in text
    text = trained(capsys, "tagger", tmp_path / "b.npz", *BASE["tagger"], "--data", *files[:2])
    assert "20 sentences of" in text and "7 to validate, none to test" in text and "entities in 7 sentences" in text


def test_a_rare_tag_may_be_held_out(capsys, folder, tmp_path):
    """Which sentences of one file validate is not in the user's hands."""
    data, sentences = tmp_path / "names.conll", (folder / "names.conll").read_text().split("\n\n")
    held_out = hold_out_tenth(list(range(40)), seed=1)[1][0]
    data.write_text("\n\n".join([*sentences[:held_out], "Oscars\tB-event", *sentences[held_out + 1:]]))
    trained(capsys, "tagger", tmp_path / "run.npz", *BASE["tagger"], "--data", data)


def test_a_masked_model_reads_several_files(capsys, folder, tmp_path):
    whole = (folder / "text.txt").read_text()
    for n in range(2):
        (tmp_path / f"{n}.txt").write_text(whole)
    text = trained(capsys, "mlm", tmp_path / "run.npz", *BASE["mlm"], "--data", tmp_path / "0.txt", tmp_path / "1.txt")
    assert text.startswith(f"{2 * len(whole) + 1:,} characters of {tmp_path / '0.txt'} and {tmp_path / '1.txt'}")


def test_each_class_is_learnt_even_one_of_a_single_text(folder, tmp_path):
    (tmp_path / "films.one").write_text("one and only\n")
    for seed in range(12):
        recipe = Classifier(default_settings(Classifier, "small", seed=seed, data=[
            str(folder / "films.neg"), str(folder / "films.pos"), str(tmp_path / "films.one")]))
        assert set(recipe.training[1]) == {0, 1, 2}, seed


def test_columns_of_a_table_and_its_split(capsys, folder, tmp_path):
    rows = [line.rsplit(",", 1) for line in (folder / "reviews.csv").read_text().splitlines()[1:]]
    parts = ["train"] * 48 + ["dev"] * 4 + ["test"] * 8
    (tmp_path / "t.tsv").write_text("mood\tsplit\tsentence\n" + "".join(
        f"{label}\t{part}\t{text}\n" for (text, label), part in zip(sorted(rows, key=lambda row: row[1]), parts)))
    text = trained(capsys, "classifier", tmp_path / "run.npz", *BASE["classifier"], "--data", tmp_path / "t.tsv",
                   "--text-column", "sentence", "--label-column", "mood")
    assert "48 texts of" in text and "4 to validate, 8 to test" in text and "accuracy" in text
    settings = load_run(tmp_path / "run.npz").settings
    assert (settings["text_column"], settings["label_column"]) == ("sentence", "mood")


def test_the_training_accuracy_is_that_of_all_classes(tmp_path):
    """Although they stand one behind the other in a table that says what validates."""
    (tmp_path / "t.csv").write_text("text,label,split\n" + "".join(
        f"{mood} film {n},{mood},{part}\n" for part, count in (("train", 40), ("dev", 10))
        for mood in ("bad", "good", "so") for n in range(count)))
    recipe = Classifier(default_settings(Classifier, "small", data=[str(tmp_path / "t.csv")]))
    labels = np.concatenate([labels for _, labels in recipe.known])
    assert len(labels) == 30 and set(labels) == {0, 1, 2}


def test_epochs_decide_the_steps(capsys, folder, tmp_path):
    options = ["--data", folder / "reviews.csv", *SIZES, "--batch-size", 8]
    text = trained(capsys, "classifier", tmp_path / "a.npz", *options, "--epochs", 3, "--warmup", 0)
    assert "21 steps of 8" in text and re.findall(r"^step +(\d+) ", text, re.M) == ["7", "14", "21"]    # 49 texts
    text = trained(capsys, "classifier", tmp_path / "b.npz", *options, "--epochs", 3, "--warmup", 0, "--accumulate", 2)
    assert "11 steps of 8" in text and re.findall(r"^step +(\d+) ", text, re.M) == ["4", "8", "11"]
    text = trained(capsys, "tagger", tmp_path / "c.npz", "--data", folder / "names.conll", *SIZES, "--batch-size", 12,
                   "--epochs", 1, "--warmup", 0)
    assert "3 steps of 12" in text                                                                     # 36 sentences


def test_few_epochs_need_no_warmup_from_the_user(capsys, folder, tmp_path):
    trained(capsys, "classifier", tmp_path / "run.npz", "--data", folder / "reviews.csv", *SIZES, "--batch-size", 8,
            "--epochs", 2)
    settings = load_run(tmp_path / "run.npz").settings
    assert settings["steps"] == 14 > settings["warmup"]


def test_each_text_is_learnt_from_once_an_epoch(folder):
    recipe = Classifier(default_settings(Classifier, "small", data=[str(folder / "reviews.csv")], epochs=2,
                                         batch_size=8))
    seen = sorted(tuple(row[row > 0]) for step in range(7) for row in recipe.batches(step)[0][0])
    assert seen == sorted(tuple(row) for row in recipe.training[0])


def test_what_validates_is_a_tenth_and_not_learnt_from():
    examples = [(f"text {n}", n % 2) for n in range(57)]
    training, validation = hold_out_tenth(examples, seed=3)
    assert len(validation) == 5 and sorted(training + validation) == sorted(examples)
    assert hold_out_tenth(examples, 3) == (training, validation) != hold_out_tenth(examples, 4)
    assert len(hold_out_tenth(examples[:3], 0)[1]) == 1
    rare = [("one", "a"), *((f"text {n}", "b") for n in range(15))]
    for seed in range(30):
        training, validation = hold_out_tenth(rare, seed, lambda example: example[1])
        assert ("one", "a") in training and len(validation) == 1
    with pytest.raises(ValueError, match="none can be held out"):
        hold_out_tenth(examples[:1], 0)
    with pytest.raises(ValueError, match="of 2 .* at least 2 of a kind"):
        hold_out_tenth(examples[:2], 0, lambda example: example[1])


def test_the_tokens_are_those_of_the_texts_that_are_learnt_from(folder, tmp_path):
    (tmp_path / "r.csv").write_text("text,label\n" + "".join(f"w{n} film,{n % 2}\n" for n in range(60)))
    recipe = Classifier(default_settings(Classifier, "small", data=[str(tmp_path / "r.csv")]))
    learned = {word for text in recipe.training[0] for word in text}
    assert set(range(recipe.reader.vocab_size)) - learned == {0, MASK, SPECIAL}     # [PAD], [MASK], <unk>
    (tmp_path / "t.txt").write_text((folder / "text.txt").read_text() + " zyzzyva")
    recipe = RECIPES["mlm"](default_settings(RECIPES["mlm"], "small", data=[str(tmp_path / "t.txt")], max_len=12))
    assert recipe.reader.pieces("the")[0] > SPECIAL == recipe.reader.pieces("zyzzyva")[0]


@pytest.mark.parametrize("activation", ["swiglu", "silu", "gelu_tanh"])
@pytest.mark.parametrize("kind", ["mlm", "tagger"])
def test_all_activations_that_help_offers_train(capsys, folder, tmp_path, kind, activation):
    trained(capsys, kind, tmp_path / "run.npz", *BASE[kind], "--data", folder / FILES[kind], "--activation", activation,
            "--steps", 3)


# the settings of note 001

def test_the_settings_of_note_001(folder):
    s = default_settings(Classifier, "note-001")
    expected = dict(vocab_size=10_000, max_len=200, d_model=64, num_heads=4, d_ff=256, num_layers=2, dropout=0.1,
                    batch_size=64, lr=1e-4, eps=1e-7, epochs=5, patience=2, hidden=64, norm="post", activation="relu",
                    positions="sinusoidal", schedule="constant", warmup=0, beta1=0.9, beta2=0.999,
                    weight_decay=0.0, clip=0.0, accumulate=1, label_smoothing=0.0, tokenizer="word", reading="keras",
                    mask_padding=False, ff_dropout=0.0, init="keras", watch="loss")
    assert {name: s[name] for name in expected} == expected
    recipe = Classifier(s | {"data": [str(folder / "reviews.csv")], "vocab_size": 300})
    model = make_model(recipe)
    trainer = make_trainer(recipe, model)
    optimizer = trainer.optimizer
    assert (optimizer.lr, optimizer.betas, optimizer.eps, optimizer.weight_decay) == (1e-4, (0.9, 0.999), 1e-7, 0)
    assert trainer.clip is None and isinstance(trainer.criterion, nt.BinaryCrossEntropyLoss)
    trainer.schedule.step()
    assert optimizer.lr == 1e-4
    assert {module.eps for _, module in model.named_modules() if isinstance(module, nt.LayerNorm)} == {1e-6}
    dropouts = {name: module.p for name, module in model.named_modules() if isinstance(module, nt.Dropout)}
    inside = {name for name in dropouts if name.endswith("feed_forward.dropout")}         # the note has none there
    assert {dropouts.pop(name) for name in inside} == {0.0} and len(inside) == 2
    assert {p for name, p in dropouts.items() if "positions" not in name} == {0.1} and "dropout" in dropouts
    bound = (6 / (64 * (4 + 16))) ** 0.5        # Keras's kernel (64, 4, 16)
    query = np.abs(model.encoder.blocks[1].attention.query.weight.data)
    assert 0.98 * bound < query.max() <= bound and np.abs(model.embedding.weight.data).max() <= 0.05
    assert not model.mask_padding and recipe.reader.end == ()


def test_note_001_draws_its_batches_from_all_lengths(tmp_path):
    """Every text once an epoch, the last batch smaller, and no text of similar length sought beside another."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 150, 640)
    texts = [" ".join(f"w{word}" for word in rng.integers(0, 50, length)) for length in lengths]
    (tmp_path / "r.csv").write_text("text,label\n" + "".join(f"{text},{n % 2}\n" for n, text in enumerate(texts)))
    recipe = Classifier(default_settings(Classifier, "note-001", data=[str(tmp_path / "r.csv")]))
    batches = [recipe.batches(step)[0][0] for step in range(len(recipe.batches))]
    sizes = [len(batch) for batch in batches]
    assert sum(sizes) == len(recipe.training[0]) and sum(size < 64 for size in sizes) == 1
    whole = [(batch != 0).sum(1) for batch in batches if len(batch) == 64]
    assert min(lengths.std() for lengths in whole) > 30         # uniform from 1 to 149: 43; sorted by length: about 5


def test_the_parameters_of_note_001(tmp_path):
    words = np.random.default_rng(0).permutation(15_000)
    texts = [" ".join(f"w{word}" for word in words[start:start + 300]) for start in range(0, 15_000, 300)]
    (tmp_path / "r.csv").write_text("text,label\n" + "".join(f"{text},{n % 2}\n" for n, text in enumerate(texts)))
    recipe = Classifier(default_settings(Classifier, "note-001", data=[str(tmp_path / "r.csv")]))
    model = make_model(recipe)
    d, d_ff = 64, 256
    block = 4 * (d * d + d) + d * d_ff + d_ff + d_ff * d + d + 2 * 2 * d
    assert model.embedding.weight.data.shape == (10_001, d)
    assert model.num_parameters() == 10_001 * d + 2 * block + d * 64 + 64 + 64 + 1
    rows, labels = recipe.batches(0)
    assert rows[0].shape[1] == 200 and rows[0].max() <= 10_000 and recipe.settings["steps"] == 5


def test_early_stopping_keeps_the_best_weights(capsys, folder, tmp_path, monkeypatch):
    base = [*SIZES, "--data", folder / "reviews.csv", "--schedule", "constant", "--warmup", 0, "--batch-size", 8]
    trained(capsys, "classifier", tmp_path / "two.npz", *base, "--steps", 2)
    losses = iter([3.0, 1.0, 2.0, 1.5, 0.1])
    monkeypatch.setattr(Classifier, "validate", lambda *_: lambda: {"validation": next(losses), "accuracy": 0.25})
    out = tmp_path / "run.npz"
    text = trained(capsys, "classifier", out, *base, "--patience", 2, "--validate-every", 1, "--steps", 30)
    assert "stopped early: 2 validations" in text and "best validation loss 1.0000 at step 2" in text
    assert read_checkpoint(out)[1]["step"] == 4
    assert_same(state(out), state(tmp_path / "two.npz"))


@pytest.mark.parametrize("kind, watch", [("classifier", "accuracy"), ("tagger", "f1"), ("mlm", "accuracy")])
def test_early_stopping_watches_a_score_also_when_resumed(capsys, folder, tmp_path, monkeypatch, kind, watch):
    base = [*SIZES, "--data", folder / FILES[kind], "--schedule", "constant", "--warmup", 0, "--batch-size", 8]
    trained(capsys, kind, tmp_path / "two.npz", *base, "--steps", 2)
    scores = iter([0.3, 0.5, 0.4, 0.45])
    monkeypatch.setattr(RECIPES[kind], "validate", lambda *_: lambda: {"validation": 1.0, watch: next(scores)})
    out, options = tmp_path / "run.npz", ["--patience", 2, "--watch", watch, "--validate-every", 1, "--steps", 30]
    monkeypatch.setattr(RECIPES[kind], "results", lambda *_: [])
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", stop_after(3))
        code, _, error = run(capsys, "train", kind, *base, *options, "--save-every", 1, "--out", out)
    assert code == 130, error
    assert f"--watch is {watch} in the run that is resumed, not loss; leave it out" in refused(
        capsys, "train", kind, "--resume", "--out", out, "--watch", "loss")
    code, text, error = run(capsys, "train", kind, "--resume", "--out", out)
    assert code == 0, error
    assert f"stopped early: 2 validations brought no better {watch}" in text
    assert f"best validation {watch} 0.5000 at step 2" in text
    assert_same(state(out), state(tmp_path / "two.npz"))
    assert f"weights: the best, of step 2, validation {watch} 0.5000" in run(capsys, "info", out)[1]


def stop_after(steps):
    """Checkpoint.save, and at this step a Ctrl-C."""
    save = Checkpoint.save

    def save_and_stop(checkpoint, trainer, **options):
        save(checkpoint, trainer, **options)
        if trainer.steps == steps:
            raise KeyboardInterrupt
    return save_and_stop


# other forms of reading, other initial weights

def test_a_classifier_of_words_alone_reads_them_again(capsys, folder, tmp_path):
    text = trained(capsys, "classifier", tmp_path / "run.npz", *BASE["classifier"], "--data", folder / "reviews.csv",
                   "--reading", "keras")
    loaded = load_run(tmp_path / "run.npz")
    assert loaded.tokenizers[0].to_json()["kind"] == "spaced" and loaded.reader.end == ()
    assert "[CLS] included (--max-len)" in text and "[SEP]" not in text
    plain, marked = (run(capsys, "classify", tmp_path / "run.npz", text)[1].split("\t")[:2]
                     for text in ("a dull film", "A DULL, film!!<br />"))
    assert plain == marked


@pytest.mark.parametrize("kind", BASE)
def test_initial_weights_can_be_chosen(capsys, folder, tmp_path, untrained, monkeypatch, kind):
    monkeypatch.setattr(RECIPES[kind], "results", lambda *_: [])
    trained(capsys, kind, tmp_path / "run.npz", *BASE[kind], "--data", folder / FILES[kind], "--init", "bert")
    loaded = load_run(tmp_path / "run.npz")
    assert loaded.settings["init"] == "bert"
    assert all(0 < np.abs(p.data).max() <= 0.04 for p in loaded.model.parameters() if p.data.ndim == 2)


# resume, and curves

@pytest.mark.parametrize("kind, scores", [("classifier", {"accuracy", "training_accuracy"}), ("tagger", {"f1"}),
                                          ("mlm", {"accuracy"}), ("text2text", set())])
def test_a_run_goes_on_bit_for_bit(capsys, folder, tmp_path, kind, scores):
    base = [*BASE[kind], "--data", folder / FILES[kind], "--schedule", "constant"]
    whole = trained(capsys, kind, tmp_path / "whole.npz", *base)
    first = trained(capsys, kind, tmp_path / "run.npz", *base, "--steps", 3)
    assert "resuming" not in first
    text = trained(capsys, kind, tmp_path / "run.npz", "--resume", "--steps", 6)
    assert "resuming at step 3" in text
    assert_same(state(tmp_path / "run.npz"), state(tmp_path / "whole.npz"))
    rows, undisturbed = (read_history(read_checkpoint(tmp_path / name)[0]) for name in ("run.npz", "whole.npz"))
    assert rows == undisturbed
    assert [set(row) - {"step", "loss", "lr", "norm", "tokens"} for row in rows] == [
        {"validation", *scores} if row["step"] % 3 == 0 else set() for row in rows]
    assert text.splitlines()[-2:] == whole.splitlines()[-2:]        # what it reached
    before = state(tmp_path / "run.npz")
    assert "resuming at step 6" in trained(capsys, kind, tmp_path / "run.npz", "--resume")
    assert_same(state(tmp_path / "run.npz"), before)


def test_epochs_can_be_added(capsys, folder, tmp_path):
    base = [*SIZES, "--batch-size", 8, "--data", folder / "reviews.csv", "--schedule", "constant", "--warmup", 0,
            "--dropout", 0.1]
    trained(capsys, "classifier", tmp_path / "whole.npz", *base, "--epochs", 2)
    trained(capsys, "classifier", tmp_path / "run.npz", *base, "--epochs", 1)
    text = trained(capsys, "classifier", tmp_path / "run.npz", "--resume", "--epochs", 2)
    assert "resuming at step 7" in text and "at step 14" in text
    assert_same(state(tmp_path / "run.npz"), state(tmp_path / "whole.npz"))


def test_steps_are_not_silently_ignored_on_resume(capsys, folder, tmp_path):
    base = [*SIZES, "--batch-size", 8, "--data", folder / "reviews.csv", "--warmup", 0]
    trained(capsys, "classifier", tmp_path / "run.npz", *base, "--epochs", 1)
    try:
        code, text, err = run(capsys, "train", "classifier", "--resume", "--out", tmp_path / "run.npz", "--steps", 9)
    except SystemExit as stop:
        code, text, err = stop.code, "", "--steps"
    assert code == 2 and "--steps" in err or code == 0 and "at step 9\n" in text


def test_a_run_does_not_go_on_with_other_texts_or_labels(capsys, folder, tmp_path):
    for kind, old, new in (("classifier", "great", "grand"), ("classifier", None, None),
                           ("tagger", "I-per", "I-loc"), ("tagger", "Rome", "Oslo"), ("mlm", "the", "a")):
        data, out = tmp_path / FILES[kind], tmp_path / "run.npz"
        shutil.copy(folder / FILES[kind], data)
        trained(capsys, kind, out, *BASE[kind], "--steps", 2, "--warmup", 0, "--data", data, "--overwrite")
        before, text = out.read_bytes(), data.read_text()
        data.write_text(text.replace(old, new) if old else
                        text.replace(",neg", ",?").replace(",pos", ",neg").replace(",?", ",pos"))
        line = refused(capsys, "train", kind, "--resume", "--out", out, "--steps", 4)
        assert "are not those" in line and out.read_bytes() == before


def test_what_validates_belongs_to_the_run_too(capsys, tmp_path):
    data, out = tmp_path / "t.csv", tmp_path / "run.npz"
    rows = [f"{mood} film {n},{mood},{'dev' if n == 5 else 'train'}\n" for n in range(6) for mood in ("bad", "good")]
    data.write_text("text,label,split\n" + "".join(rows))
    trained(capsys, "classifier", out, *BASE["classifier"], "--data", data, "--steps", 3)
    data.write_text(data.read_text().replace("good film 5", "fine film 5"))
    assert "are not those" in refused(capsys, "train", "classifier", "--resume", "--out", out, "--steps", 4)


@pytest.fixture
def figures(monkeypatch):
    """The figures that are written, as they are."""
    from matplotlib.figure import Figure
    figures, save = [], Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: (figures.append(self), save(self, *a, **k))[1])
    return figures


@pytest.mark.parametrize("kind, curves", [
    ("classifier", {"accuracy": "accuracy, validation", "training_accuracy": "accuracy, training"}),
    ("tagger", {"f1": "F1, validation"}), ("mlm", {"accuracy": "accuracy, validation"})])
@pytest.mark.parametrize("command", ["train", "plot"])
def test_scores_stand_in_the_curves(capsys, folder, tmp_path, figures, kind, curves, command):
    out = tmp_path / "run.npz"
    shutil.copy(folder / f"{kind}.npz", out)
    if command == "train":
        trained(capsys, kind, out, "--resume", "--curves", tmp_path / "c.png")
    else:
        assert run(capsys, "plot", "history", "--run", out, "--out", tmp_path / "c.png")[0] == 0
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    rows = read_history(read_checkpoint(out)[0])
    lines = {line.get_label(): line.get_xydata().tolist() for axes in figures[0].axes for line in axes.lines}
    for name, label in curves.items():
        assert lines.get(label) == [[row["step"], row[name]] for row in rows if name in row], lines.keys()


# pretrained

@pytest.fixture
def untrained(monkeypatch):
    """Trainings end before their first step."""
    monkeypatch.setattr(nt.Trainer, "fit", lambda *arguments, **named: None)


@pytest.mark.parametrize("kind, new", [
    ("classifier", ["hidden.weight", "hidden.bias", "output.weight", "output.bias"]),
    ("tagger", ["output.weight", "output.bias"])])
def test_pretrained_weights_are_carried_over_by_name(capsys, folder, tmp_path, untrained, kind, new):
    text = trained(capsys, kind, tmp_path / "run.npz", "--data", folder / FILES[kind], "--pretrained",
                   folder / "mlm.npz")
    before, after = state(folder / "mlm.npz"), state(tmp_path / "run.npz")
    left_out = ["transform.weight", "transform.bias", "norm.gamma", "norm.beta", "bias"]
    carried = sorted(set(before) - set(left_out))
    assert sorted(after) == sorted([*carried, *new]) and "segments.weight" in carried
    assert_same({name: before[name] for name in carried}, {name: after[name] for name in carried})
    assert f"{len(carried)} arrays carried over from '{folder / 'mlm.npz'}'" in text
    assert f"\nnew: {', '.join(new)}\nleft out: {', '.join(left_out)}\n" in text
    mine, theirs = load_run(tmp_path / "run.npz"), load_run(folder / "mlm.npz")
    assert mine.tokenizers[0].to_json() == theirs.tokenizers[0].to_json()
    for name in ("tokenizer", "vocab_size", "lower", "d_model", "num_heads", "num_layers", "d_ff", "norm", "activation",
                 "positions"):
        assert mine.settings[name] == theirs.settings[name], name
    assert mine.settings["max_len"] == 64


def test_a_pretrained_run_decides_its_sizes(capsys, folder, tmp_path, untrained):
    base = ["train", "classifier", "--data", folder / "reviews.csv", "--pretrained", folder / "mlm.npz", "--out",
            tmp_path / "run.npz"]
    for option, value, theirs in (("--d-model", 16, 8), ("--num-heads", 1, 2), ("--vocab-size", 500, 2000),
                                  ("--positions", "learned", "rotary"), ("--tokenizer", "bpe", "word"),
                                  ("--norm", "post", "pre"), ("--d-ff", 9, 8)):
        line = refused(capsys, *base, option, value)
        assert f"{option} is {theirs} in the pretrained run" in line and f"not {value}; leave it out" in line
    assert "--lower is True in the pretrained run" in refused(capsys, *base, "--no-lower")
    assert "which --reading keras leaves out; use --reading bert" in refused(capsys, *base, "--reading", "keras")
    assert not list(tmp_path.iterdir())
    assert run(capsys, *base, "--d-model", 8, "--num-heads", 2, "--max-len", 9)[0] == 0     # equal, or free
    assert load_run(tmp_path / "run.npz").settings["max_len"] == 9


def test_a_table_of_positions_decides_the_longest_text(capsys, folder, tmp_path, untrained):
    trained(capsys, "mlm", tmp_path / "mlm.npz", *BASE["mlm"], "--positions", "learned", "--data", folder / "text.txt")
    base = ["--data", folder / "reviews.csv", "--pretrained", tmp_path / "mlm.npz"]
    text = trained(capsys, "classifier", tmp_path / "run.npz", *base)
    assert load_run(tmp_path / "run.npz").settings["max_len"] == 12 and "positions.weight" not in text
    assert "--max-len is 12 in the pretrained run" in refused(
        capsys, "train", "classifier", *base, "--max-len", 13, "--out", tmp_path / "x.npz")


def test_only_a_masked_language_model_is_a_beginning(capsys, folder, tmp_path):
    for name, match in (("classifier.npz", "a classifier of texts: `classify` uses it; name a run of `train mlm`"),
                        ("text2text.npz", "holds an encoder-decoder"), ("reviews.csv", "is no checkpoint"),
                        ("none.npz", "cannot read")):
        assert match in refused(capsys, "train", "tagger", "--data", folder / "names.conll", "--pretrained",
                                folder / name, "--out", tmp_path / "x.npz")
    with pytest.raises(SystemExit):
        main(["train", "mlm", "--pretrained", str(folder / "mlm.npz")])
    assert not list(tmp_path.iterdir())


def test_a_pretrained_run_is_not_replaced_by_what_begins_with_it(capsys, folder, tmp_path):
    path = tmp_path / "mlm.npz"
    shutil.copy(folder / "mlm.npz", path)
    before = path.read_bytes()
    refused(capsys, "train", "classifier", "--data", folder / "reviews.csv", "--pretrained", path, "--out", path,
            "--overwrite", "--steps", 2, "--warmup", 0)
    assert path.read_bytes() == before


def test_a_pretrained_run_goes_on_without_it(capsys, folder, tmp_path):
    shutil.copy(folder / "mlm.npz", tmp_path / "mlm.npz")
    base = ["--data", folder / "reviews.csv", "--pretrained", tmp_path / "mlm.npz", "--warmup", 0, "--schedule",
            "constant", "--batch-size", 8, "--dropout", 0.1]
    trained(capsys, "classifier", tmp_path / "whole.npz", *base, "--steps", 4)
    trained(capsys, "classifier", tmp_path / "run.npz", *base, "--steps", 2)
    (tmp_path / "mlm.npz").unlink()
    trained(capsys, "classifier", tmp_path / "run.npz", "--resume", "--steps", 4)
    assert_same(state(tmp_path / "run.npz"), state(tmp_path / "whole.npz"))


# classify

def texts_of(folder, count=40):
    return [line.rsplit(",", 1)[0] for line in (folder / "reviews.csv").read_text().splitlines()[1:count + 1]]


def test_probabilities_of_a_class(capsys, folder, monkeypatch):
    """Texts of mixed length, more than a batch: in order, each with the sigmoid of its own logit."""
    loaded, texts = load_run(folder / "classifier.npz"), texts_of(folder)
    code, out, err = run(capsys, "classify", folder / "classifier.npz", *texts)
    lines = out.splitlines()
    assert code == 0 and len(lines) == 40 and [line.split("\t")[2] for line in lines] == texts
    for line, text in zip(lines, texts):
        pos = 1 / (1 + np.exp(-float(loaded.model(loaded.reader.read(text)))))
        label, share, _ = line.split("\t")
        assert label == ("pos" if pos > 0.5 else "neg") and float(share) == pytest.approx(max(pos, 1 - pos), abs=1e-4)
    monkeypatch.setattr("sys.stdin", io.StringIO("\r\n".join(texts) + "\r\n"))
    assert run(capsys, "classify", folder / "classifier.npz")[:2] == (0, out)


def test_probabilities_of_several_classes(capsys, folder, tmp_path):
    trained(capsys, "classifier", tmp_path / "run.npz", *BASE["classifier"], "--data",
            *(folder / f"films.{label}" for label in ("neg", "pos", "so")), "--lr", 0.05)
    loaded = load_run(tmp_path / "run.npz")
    assert loaded.model.output.weight.data.shape == (8, 3)
    texts = [*texts_of(folder, 9), "so so"]
    _, out, _ = run(capsys, "classify", tmp_path / "run.npz", *texts)
    for line, text in zip(out.splitlines(), texts):
        shares = softmax(loaded.model(loaded.reader.read(text)).astype(float))
        label, share, same = line.split("\t")
        assert label == ("neg", "pos", "so")[shares.argmax()] and same == text
        assert float(share) == pytest.approx(shares.max(), abs=1e-4)


def test_one_logit_is_that_of_the_second_class():
    logits = np.array([-1000.0, -2.0, 0.0, 3.0, 1000.0])
    expected = [[1, 0], [1 / (1 + np.exp(-2)), 1 / (1 + np.exp(2))], [0.5, 0.5],
                [1 / (1 + np.exp(3)), 1 / (1 + np.exp(-3))], [0, 1]]
    np.testing.assert_allclose(probabilities(logits), expected, atol=1e-12)
    np.testing.assert_allclose(probabilities(np.array([[0.0, 1.0, 2.0]])), [softmax(np.arange(3.0))])


@pytest.fixture(scope="module")
def unmasked(folder):
    """A run of the note: padding is attended to and averaged over."""
    assert main(list(map(str, ["train", "classifier", *BASE["classifier"], "--no-mask-padding", "--lr", 0.05, "--data",
                               folder / "reviews.csv", "--out", folder / "unmasked.npz"]))) == 0
    return folder / "unmasked.npz"


def test_without_masks_a_text_does_not_depend_on_the_others(capsys, folder, unmasked):
    loaded, texts = load_run(unmasked), ["great film", *texts_of(folder, 5), LONG]
    assert not loaded.model.mask_padding and load_run(folder / "classifier.npz").model.mask_padding
    _, together, _ = run(capsys, "classify", unmasked, *texts)
    for text, line in zip(texts, together.splitlines()):
        assert run(capsys, "classify", unmasked, text)[1].splitlines() == [line]
        ids = loaded.reader.read(text)
        padded = np.concatenate([ids, np.zeros(12 - len(ids), int)])        # up to --max-len, as in the training
        pos = 1 / (1 + np.exp(-float(loaded.model(padded))))
        assert float(line.split("\t")[1]) == pytest.approx(max(pos, 1 - pos), abs=1e-4)
    assert Classifier(loaded.settings).batches(0)[0][0].shape == (8, 12)


def test_without_masks_a_vector_does_not_depend_on_the_others(capsys, unmasked):
    _, together, _ = run(capsys, "embed", unmasked, "great film", LONG)
    _, alone, _ = run(capsys, "embed", unmasked, "great film")
    np.testing.assert_allclose(numbers(together)[0], numbers(alone)[0], atol=1e-4)


@pytest.mark.parametrize("command, kind", [("classify", "classifier"), ("tag", "tagger"), ("embed", "mlm"),
                                           ("embed", "classifier")])
def test_cut_texts_are_counted_once_on_standard_error(capsys, folder, monkeypatch, command, kind):
    texts = [LONG, "the film", LONG.upper(), *["a story"] * 35, LONG]       # two batches
    code, out, err = run(capsys, command, folder / f"{kind}.npz", *texts)
    length = 16 if kind == "tagger" else 12
    assert code == 0 and err.splitlines() == [f"cut 3 of 39 texts behind their first {length} tokens, [CLS] and [SEP] "
                                              "included (--max-len)"]
    assert "cut" not in out and run(capsys, command, folder / f"{kind}.npz", "the film")[2] == ""


def test_cut_texts_are_counted_once_by_evaluate(capsys, folder):
    _, out, _ = run(capsys, "evaluate", folder / "classifier.npz")
    settings = load_run(folder / "classifier.npz").settings
    recipe = Classifier(settings | {"max_len": 1000})
    long = sum(len(recipe.reader.read(text)) > 12 for text, _ in recipe.test)
    assert long and f"cut {long} of 6 texts behind their first 12 tokens" in out and out.count("cut ") == 1
    _, out, _ = run(capsys, "evaluate", folder / "classifier.npz", "--data", folder / "reviews.csv")
    long = sum(len(text.split()) > 10 for text in texts_of(folder, 60))
    assert f"cut {long} of 60 texts" in out and out.count("cut ") == 1
    assert len(re.findall("^cut ", (folder / "classifier.said").read_text(), re.M)) == 2       # to learn, to test


def test_good_lines_before_an_empty_one_are_answered(capsys, folder, monkeypatch):
    for command, kind, count in (("classify", "classifier", 2), ("tag", "tagger", 7), ("embed", "mlm", 2)):
        monkeypatch.setattr("sys.stdin", io.StringIO("great film\nso it went\n  \nthe end\n"))
        code = main([command, str(folder / f"{kind}.npz")])
        output = capsys.readouterr()
        assert code == 2 and len(output.out.splitlines()) == count
        assert f"{command}: line 3: the text '  ' is empty; give at least one word" in output.err


def test_nothing_to_read_is_no_crash(capsys, folder, tmp_path, monkeypatch):
    for command, kind in (("classify", "classifier"), ("tag", "tagger"), ("embed", "mlm")):
        monkeypatch.setattr("sys.stdin", io.StringIO(""))
        assert run(capsys, command, folder / f"{kind}.npz") == (0, "", "")
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    code, out, err = run(capsys, "embed", folder / "mlm.npz", "--out", tmp_path / "e.npy")
    assert "concatenate" not in err and len(err.splitlines()) <= 1 and (code == 0 or err)


# tag

def test_tags_stand_beside_their_words(capsys, folder, tmp_path, monkeypatch):
    """Each word has the class of its first piece, of the sentence by itself."""
    path = tmp_path / "tagger.npz"
    trained(capsys, "tagger", path, *BASE["tagger"], "--data", folder / "names.conll", "--vocab-size", 300, "--lr",
            0.05, "--steps", 12)
    loaded = load_run(path)
    sentences = [["Ann went to Rome .", "unheard-of Bob", "Cleo came to New York and Paris .", "."][n % 4]
                 for n in range(40)]
    code, out, err = run(capsys, "tag", path, *sentences)
    blocks = out.split("\n\n")
    assert code == 0 and not err and len(blocks) == 41 and blocks[40] == ""
    for sentence, block in zip(sentences[:4], blocks):
        words = sentence.split()
        pieces = [loaded.reader.pieces(word) for word in words]
        starts = [1 + sum(map(len, pieces[:n])) for n in range(len(words))]
        best = loaded.model(np.concatenate([[CLS], *pieces, [SEP]]).astype(int)).argmax(-1)
        assert block.split("\n") == [f"{word}\t{loaded.labels[best[start]]}" for word, start in zip(words, starts)]
    assert len(loaded.reader.pieces("unheard-of")) > 1
    assert len({line.split("\t")[1] for line in out.split("\n") if line}) > 1
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(sentences)))
    assert run(capsys, "tag", path)[:2] == (0, out)


def test_words_that_were_cut_off_are_marked(capsys, folder, tmp_path):
    path = changed(folder / "tagger.npz", tmp_path / "t.npz", output__weight=0, output__bias=[0, 0, 9, 0])
    code, out, err = run(capsys, "tag", path, "Ann " * 30)                  # all are B-per
    tags = [line.split("\t")[1] for line in out.split("\n") if line]
    kept = 14 // len(load_run(path).reader.pieces("Ann"))
    assert code == 0 and tags == ["B-per"] * kept + ["?"] * (30 - kept)


def test_a_tagger_learns_the_first_piece_of_each_word_as_bio(tmp_path):
    rng = np.random.default_rng(0)
    names = ["".join(rng.choice(list("abcdefghijk"), 7)) for _ in range(80)]
    (tmp_path / "t.conll").write_text("\n".join(f"{a} I-per\nsaw O\n{b} I-loc\n{a} I-loc\n" for a, b in
                                                zip(names[::2], names[1::2])))
    recipe = RECIPES["tagger"](default_settings(RECIPES["tagger"], "small", data=[str(tmp_path / "t.conll")],
                                                vocab_size=300))
    assert recipe.labels == ["O", "B-loc", "B-per", "I-loc"] and recipe.criterion().ignore_id == -1
    (ids,), tags = recipe.batches(0)
    for row, line in zip(ids, tags):
        text = recipe.reader.tokens.decode(row[row >= SPECIAL] - SPECIAL)
        pieces = [recipe.reader.pieces(word) for word in text.split()]
        wanted = np.full(len(line), -1)
        place = 1
        for word, tag in zip(pieces, ["B-per", "O", "B-loc", "I-loc"]):
            wanted[place] = recipe.labels.index(tag)
            place += len(word)
        np.testing.assert_array_equal(line, wanted)
        assert max(map(len, pieces)) > 2


def test_the_words_alone_know_what_was_learnt(capsys, tmp_path):
    """Of Ann, Rome and Cleo, the last is new: two entities of three are found, and nothing else."""
    (tmp_path / "train").write_text("Ann I-per\nsaw O\nRome I-loc\n\n" * 9)
    for name in ("dev", "test"):
        (tmp_path / name).write_text("Ann I-per\nsaw O\nRome I-loc\n\nCleo I-per\nsaw O\nit O\n")
    text = trained(capsys, "tagger", tmp_path / "run.npz", *BASE["tagger"], "--data",
                   *(tmp_path / name for name in ("train", "dev", "test")))
    assert "each word's most frequent tag: F1 80.00%, precision 100.00%, recall 66.67%" in text


# fill

def test_the_likeliest_words_of_each_place(capsys, folder):
    loaded = load_run(folder / "mlm.npz")
    code, out, err = run(capsys, "fill", folder / "mlm.npz", "The [MASK] is a [mask] .", "--top", 7)
    ids = np.concatenate([[CLS], loaded.reader.pieces("the"), [MASK], loaded.reader.pieces("is a"), [MASK],
                          loaded.reader.pieces("."), [SEP]])
    logits = loaded.model(ids).astype(float)
    first, second = out.split("\n\n")
    assert code == 0 and not err
    for block, place in ((first, 2), (second, 5)):
        shares = softmax(np.where(np.arange(logits.shape[1]) > SPECIAL, logits[place], -np.inf))    # SPECIAL is <unk>
        order = np.argsort(-shares)[:7]
        lines = [line.split("\t") for line in block.strip().split("\n")]
        assert [word for _, word in lines] == [loaded.tokenizers[0].words[n - SPECIAL - 1].strip() for n in order]
        np.testing.assert_allclose([float(share) for share, _ in lines], shares[order], atol=6e-5)
    assert len(run(capsys, "fill", folder / "mlm.npz", "the [MASK]")[1].splitlines()) == 5


@pytest.mark.parametrize("top", [5, 100_000])
def test_no_special_token_fills_a_place(capsys, folder, tmp_path, top):
    loaded = load_run(folder / "mlm.npz")
    bias = np.zeros(loaded.reader.vocab_size)
    bias[:SPECIAL + 1] = 50
    path = changed(folder / "mlm.npz", tmp_path / "m.npz", bias=bias)
    _, out, _ = run(capsys, "fill", path, "the [MASK] is", "--top", top)
    words = [line.split("\t")[1] for line in out.splitlines()]
    assert not {"[PAD]", "[CLS]", "[SEP]", "[MASK]", "<unk>"} & set(words) and len(set(words)) == len(words)
    assert len(words) == min(top, loaded.reader.vocab_size - SPECIAL - 1)


def test_bytes_are_filled_in_too(capsys, folder, tmp_path):
    trained(capsys, "mlm", tmp_path / "m.npz", *BASE["mlm"], "--tokenizer", "bpe", "--vocab-size", 300, "--no-lower",
            "--data", folder / "text.txt")
    tokens = load_run(tmp_path / "m.npz").tokenizers[0].vocab_size
    assert main(["fill", str(tmp_path / "m.npz"), "The [MASK] is", "--top", str(tokens)]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert len(lines) == tokens + 1                                 # a token to a line, the line feed too
    assert all(re.fullmatch(r"\d\.\d{4}\t.+", line) and line.split("\t", 1)[1].isprintable() for line in lines[:-1])


# embed, similar

def numbers(out):
    return np.array([[float(number) for number in line.split("\t")] for line in out.splitlines()])


@pytest.mark.parametrize("kind", ["mlm", "classifier", "tagger"])
def test_a_vector_is_the_mean_of_the_outputs(capsys, folder, tmp_path, kind, monkeypatch):
    loaded = load_run(folder / f"{kind}.npz")
    texts = ["the film", *texts_of(folder, 38), "a"]
    rows = [loaded.reader.read(text) for text in texts]
    ids = np.array([[*row, *[0] * (max(map(len, rows)) - len(row))] for row in rows])
    with nt.record(loaded.model) as tape:
        nt.TextEncoder.forward(loaded.model, ids)
    y = tape["encoder"].output
    expected = np.array([np.mean([y[n, t] for t in range(len(row))], 0) for n, row in enumerate(rows)])
    code, out, err = run(capsys, "embed", folder / f"{kind}.npz", *texts)
    assert code == 0
    np.testing.assert_allclose(numbers(out), expected, rtol=1e-4, atol=1e-5)
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(texts)))
    code, said, _ = run(capsys, "embed", folder / f"{kind}.npz", "--out", tmp_path / "vectors.npy")
    assert code == 0 and said == f"saved an array of shape (40, 8) in '{tmp_path / 'vectors.npy'}'\n"
    np.testing.assert_allclose(np.load(tmp_path / "vectors.npy"), expected, rtol=1e-4, atol=1e-5)


def test_vectors_replace_nothing_but_vectors(capsys, folder, tmp_path):
    path = tmp_path / "run.npz"
    shutil.copy(folder / "mlm.npz", path)
    before = path.read_bytes()
    refused(capsys, "embed", path, "the film", "--out", path)
    assert path.read_bytes() == before
    refused(capsys, "embed", path, "the film", "", "--out", tmp_path / "e.npy")
    assert not (tmp_path / "e.npy").exists()
    assert "cannot write" in refused(capsys, "embed", path, "the film", "--out", tmp_path / "none" / "e.npy")


def test_the_nearest_lines_of_a_file(capsys, folder, tmp_path):
    lines = ["the town", "", "great film", *texts_of(folder, 34), "***", "it went on"]
    (tmp_path / "lines.txt").write_text("\n".join(lines))
    base = ["similar", folder / "mlm.npz", "--within", tmp_path / "lines.txt"]
    code, out, err = run(capsys, *base, "great film", "--top", 6)
    found = [line.split("\t") for line in out.splitlines()]
    assert code == 0 and len(found) == 6 and found[0] == ["1.0000", "great film"]
    words = [line for line in lines if line not in ("", "***")]
    vectors = numbers(run(capsys, "embed", folder / "mlm.npz", *words)[1])
    own = vectors[1]
    cosines = [sum(a * b for a, b in zip(own, v)) / np.sqrt(sum(own ** 2) * sum(v ** 2)) for v in vectors]
    order = sorted(range(len(words)), key=lambda n: -cosines[n])[:6]
    assert [line for _, line in found] == [words[n] for n in order]
    np.testing.assert_allclose([float(share) for share, _ in found], [cosines[n] for n in order], atol=2e-4)
    assert len(run(capsys, *base, "a")[1].splitlines()) == 5


def test_similar_counts_cuts_once(capsys, folder, tmp_path):
    (tmp_path / "lines.txt").write_text(f"a film\n{LONG}\n\n{LONG}\n")
    code, out, err = run(capsys, "similar", folder / "mlm.npz", LONG, "--within", tmp_path / "lines.txt")
    assert err.splitlines() == ["cut 3 of 4 texts behind their first 12 tokens, [CLS] and [SEP] included (--max-len)"]
    assert len(out.splitlines()) == 3 and out.startswith(f"1.0000\t{LONG}\n1.0000\t{LONG}\n")


# evaluate

def answers(monkeypatch, wanted):
    """Let classify find the class that wanted(text) names by its number."""
    def classify(model, reader, rows):
        texts = [reader.tokens.decode(row[1:-1] - SPECIAL) for row in rows]
        return np.eye(3)[[wanted(text) for text in texts]]
    monkeypatch.setattr("numpy_transformer.tasks.classifier.classify", classify)


def test_which_classes_are_confused(capsys, folder, tmp_path, monkeypatch):
    path = tmp_path / "run.npz"
    trained(capsys, "classifier", path, *BASE["classifier"], "--data",
            *(folder / f"films.{label}" for label in ("neg", "pos", "so")))
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


def test_the_held_out_texts_are_measured_again(capsys, folder):
    code, out, _ = run(capsys, "evaluate", folder / "classifier.npz")
    said = (folder / "classifier.said").read_text()
    assert code == 0 and out.strip() and out in said
    for kind in ("tagger", "mlm"):
        code, out, _ = run(capsys, "evaluate", folder / f"{kind}.npz")
        assert code == 0 and out.strip() and said_by(folder, kind).endswith(out)


def said_by(folder, kind):
    return (folder / f"{kind}.said").read_text()


def test_of_reviews_the_test_is_measured(capsys, folder, monkeypatch):
    texts = []
    answers(monkeypatch, lambda text: texts.append(text) or 0)
    code, out, _ = run(capsys, "evaluate", folder / "classifier.npz", "--data", folder / "aclImdb")
    assert code == 0 and "accuracy 0.5000 on 24 texts" in out and len(texts) == 24
    code, out, _ = run(capsys, "evaluate", folder / "classifier.npz", "--data", folder / "films.neg",
                       folder / "films.pos")
    assert code == 0 and "accuracy 0.5000 on 60 texts" in out


def test_scores_of_each_type(capsys, folder, tmp_path, monkeypatch):
    (tmp_path / "t.conll").write_text("Ann I-per\nLee I-per\nsaw O\nBob B-per\n\n"
                                      "Rome B-loc\nNew B-loc\nYork I-loc\n. O\n")
    found = [["B-per", "O", "O", "B-per"], ["B-loc", "B-loc", "I-loc", "B-per"]]
    monkeypatch.setattr("numpy_transformer.tasks.tagger.find_tags", lambda *_: found)
    code, out, _ = run(capsys, "evaluate", folder / "tagger.npz", "--data", tmp_path / "t.conll")
    rows = {line.split()[0]: re.findall(r"[\d.]+", line) for line in out.splitlines()}
    assert code == 0 and "entities in 2 sentences" in out
    # right: Bob, Rome, New York; found: those, half of Ann Lee, and the full stop; wanted: those, and Ann Lee
    assert rows["all"] == ["60.00", "75.00", "66.67", "3", "5", "4"]
    assert rows["loc"] == ["100.00", "100.00", "100.00", "2", "2", "2"]
    assert rows["per"] == ["33.33", "50.00", "40.00", "1", "3", "2"]
    assert "right tags: 75.00 % of 8" in out


def drawn(loaded):
    """(row, place, wanted) of the tokens where [MASK] stands, and of all that were chosen, in five maskings."""
    recipe, chosen = RECIPES["mlm"](loaded.settings, loaded.tokenizers), []
    for n in range(5):
        windows = MaskedWindows(recipe.windows.train, loaded.settings["max_len"], 1, loaded.settings["seed"] + n,
                                loaded.reader.vocab_size, held_out=recipe.windows.held_out)
        chosen += [(row, place, wanted) for (ids, _, _, places), targets in windows.validation() for row, line, goals in
                   zip(ids, places, targets) for place, wanted in zip(line, goals) if wanted >= 0]
    return [spot for spot in chosen if spot[0][spot[1]] == MASK], chosen


def test_masked_words_that_are_found(capsys, folder, tmp_path):
    """A run that always answers "the" finds as many as there are."""
    loaded = load_run(folder / "mlm.npz")
    the = int(loaded.reader.pieces("the")[0])
    bias = np.zeros(loaded.reader.vocab_size)
    bias[the] = 1e4
    path = changed(folder / "mlm.npz", tmp_path / "m.npz", bias=bias)
    masked, chosen = drawn(loaded)
    assert 0.7 * len(chosen) < len(masked) < 0.9 * len(chosen)
    _, out, _ = run(capsys, "evaluate", path)
    for title, places in (("where [MASK] stands", masked), ("that were chosen", chosen)):
        share = np.mean([wanted == the for *_, wanted in places])
        assert share > 0 and re.search(rf"^of {len(places)} tokens {re.escape(title)}.*: the model {share:.2%}", out, re.M)
    (tmp_path / "t.txt").write_text("the " * 300)
    _, out, _ = run(capsys, "evaluate", path, "--data", tmp_path / "t.txt")
    assert re.search(r"^of 4\d tokens that were chosen.*: the model 100.00%$", out, re.M) and "both sides" not in out
    _, out, _ = run(capsys, "evaluate", path, "--data", tmp_path / "t.txt", folder / "films.so")
    assert re.search(r"chosen.*: the model 9\d.\d\d%", out)


def test_bigrams_know_what_was_learnt_from(capsys, folder):
    loaded = load_run(folder / "mlm.npz")
    ids = loaded.reader.pieces((folder / "text.txt").read_text()) - SPECIAL
    known = Bigrams(ids[:len(ids) * 9 // 10], loaded.reader.vocab_size)
    text = said_by(folder, "mlm")
    for places in drawn(loaded):
        for name, both in (("the word before", False), ("the words on both sides", True)):
            right = [known.guess(row[None], np.array([[place]]), both)[0, 0] == wanted if row[place] == MASK else
                     row[place] == wanted for row, place, wanted in places]      # what is in sight is believed
            assert re.search(rf"^of {len(places)} tokens .*{name} {np.mean(right):.2%}", text, re.M)


def test_validation_is_masked_alike_whatever_is_masked_in_training(folder):
    settings = load_run(folder / "mlm.npz").settings
    few, many = (RECIPES["mlm"](settings | {"masked": share}) for share in (0.15, 0.5))
    for (one, wanted), (other, same) in zip(few.validation, many.validation):
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(wanted, same)
    assert many.batches(0)[1].shape[1] > few.batches(0)[1].shape[1]


def test_the_loss_and_accuracy_of_masked_words(folder):
    loaded = load_run(folder / "mlm.npz")
    recipe = RECIPES["mlm"](loaded.settings, loaded.tokenizers)
    loss, right, count = 0.0, 0, 0
    for (ids, _, segments, places), targets in recipe.validation:
        for n in range(len(ids)):
            logits = loaded.model(ids[n], None, segments[n]).astype(float)
            for place, target in zip(places[n], targets[n]):
                if target >= 0:
                    loss, count = loss - np.log(softmax(logits[place])[target]), count + 1
                    right += logits[place].argmax() == target
    measured = recipe.validate(loaded.model)()
    assert measured["validation"] == pytest.approx(loss / count, rel=1e-5)
    assert measured["accuracy"] == pytest.approx(right / count)


def test_the_loss_and_accuracies_of_classes(folder):
    loaded = load_run(folder / "classifier.npz")
    recipe = Classifier(loaded.settings, loaded.tokenizers)
    measured = recipe.validate(loaded.model)()
    texts = [(ids[ids > 0], label) for (batch,), labels in recipe.validation for ids, label in zip(batch, labels)]
    z = np.array([float(loaded.model(ids)) for ids, _ in texts])
    t = np.array([label for _, label in texts])
    assert measured["validation"] == pytest.approx(np.mean(np.log1p(np.exp(z)) - t * z), rel=1e-5)
    assert measured["accuracy"] == pytest.approx(np.mean((z > 0) == t))
    assert sum(len(labels) for _, labels in recipe.known) == len(texts)
    learned = {tuple(row) for row in recipe.training[0]}
    assert all(tuple(ids[ids > 0]) in learned for (batch,), _ in recipe.known for ids in batch)


@pytest.mark.parametrize("command", ["train", "evaluate", "files"])
def test_the_exact_match_of_each_task(capsys, folder, tmp_path, monkeypatch, command):
    """A model that reverses rightly, and sorts rightly words without an a."""
    loaded = load_run(folder / "text2text.npz")
    answer = {source: target if source.startswith("reverse") or "a" not in target else "x" for source, target in (
        line.split("\t") for line in (folder / "tasks.tsv").read_text().splitlines()[1:])}
    tokens = loaded.tokenizers

    def greedy(model, sources, *_):
        texts = [nt.data.unframe(tokens[0], row) for row in np.asarray(sources)]
        assert [len(text) for text in texts] == sorted(map(len, texts))
        return [[*(tokens[1].encode(answer[text].replace("x", "")) + 3), 2] for text in texts]

    for module in ("tasks.text_to_text", "cli.generate"):
        monkeypatch.setattr(f"numpy_transformer.{module}.greedy_decode", greedy)
    recipe = RECIPES["text2text"](loaded.settings, tokens)
    pairs = recipe.test
    if command == "train":
        text = "\n".join(recipe.results(loaded.model))
    elif command == "evaluate":
        text = run(capsys, "evaluate", folder / "text2text.npz")[1]
    else:
        pairs = pairs[::-1]
        lines = ["source\ttarget", *map("\t".join, pairs)]
        (tmp_path / "a.tsv").write_text("\n".join(lines))
        text = run(capsys, "evaluate", folder / "text2text.npz", "--data", tmp_path / "a.tsv")[1]
    sorts = [target for source, target in pairs if source.startswith("sort")]
    share = sum("a" not in target for target in sorts) / len(sorts)
    assert 0 < share < 1 and f"sort: exact match {share:.2%} of {len(sorts)}" in text
    assert f"reverse: exact match 100.00% of {len(pairs) - len(sorts)}" in text


def test_tasks_are_listed_as_they_occur():
    pairs = [("b: x", "1"), ("a: x", "2"), ("b: y", "3")]
    assert list(by_task(pairs, ["1", "0", "0"])) == ["b: exact match 50.00% of 2", "a: exact match 0.00% of 1"]


def test_a_table_of_tasks_may_be_split(capsys, folder, tmp_path):
    (tmp_path / "t.csv").write_text("source,target,split\n" + "".join(
        f"copy: {word},{word},{part}\n" for n, word in enumerate(["ab", "ba", "cab", "abc", "bca", "cb", "bb", "ca"])
        for part in [("train", "train", "train", "train", "dev", "dev", "test", "train")[n]]))
    text = trained(capsys, "text2text", tmp_path / "run.npz", *SMALL, "--data", tmp_path / "t.csv")
    assert "5 pairs of" in text and "2 to validate, 1 to test" in text and "copy: exact match" in text
    code, out, _ = run(capsys, "translate", tmp_path / "run.npz", "copy: ab", "copy: b")
    assert code == 0 and len(out.splitlines()) == 2


# bad input

HALF, EVIL, LINK = "half", "evil.tar.gz", "link.tar.gz"


@pytest.fixture(scope="module")
def bad(folder):
    """Files with which something is wrong."""
    (folder / HALF / "aclImdb" / "train" / "pos").mkdir(parents=True)
    (folder / HALF / "aclImdb" / "train" / "pos" / "0_9.txt").write_text("great")
    with tarfile.open(folder / EVIL, "w:gz") as archive:
        archive.add(folder / "films.pos", "aclImdb/../../outside.txt")
    shutil.copytree(folder / "aclImdb", folder / "empty" / "aclImdb", dirs_exist_ok=True)
    for path in (folder / "empty" / "aclImdb" / "test" / "neg").iterdir():
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
        (folder / name).write_text(text)
    return folder


CLASSIFIER, TAGGER, MLM, TASKS = ([kind, *BASE[kind], "--data"] for kind in BASE)


@pytest.mark.parametrize("arguments, match", [
    ([*CLASSIFIER, "none"], "none' is not there.*https://ai.stanford.edu/.*MD5 7c2ac02c03563afcf9b574c7e56c153a"),
    ([*CLASSIFIER, HALF], r"train/neg/0_9.txt, so it is half unpacked .*3 of 4 folders"),
    ([*CLASSIFIER, "empty"], r"no reviews such as test/neg/0_9.txt.*1 of 4 folders"),
    ([*CLASSIFIER, EVIL], r"refused, as its member 'aclImdb/../../outside.txt' has a path that leads outside"),
    ([*CLASSIFIER, "one.csv"], "has 1 different label"),
    ([*CLASSIFIER, "few.csv"], "line 4 of .*few.csv' has 1 column, but the first row has 2"),
    ([*CLASSIFIER, "signs.csv"], "no word in the texts"),
    ([*CLASSIFIER, "films.pos"], "cannot be read as texts with labels; name one folder aclImdb"),
    ([*CLASSIFIER, "reviews.csv", "reviews.csv"], "cannot be read as texts with labels"),
    ([*CLASSIFIER, "reviews.csv", "--text-column", "review"], "one column 'review', but its .* are 'text', 'label'"),
    ([*CLASSIFIER, "films.neg", "films.pos", "--text-column", "text"], "--text-column would do nothing: .*FILE.csv"),
    (["classifier", "--label-column", "x"], "--label-column would do nothing"),
    ([*CLASSIFIER, "reviews.csv", "--epochs", 2], "--epochs 2 and --steps 6 both say how long"),
    ([*CLASSIFIER, "reviews.csv", "--label-smoothing", 0.1], "--label-smoothing 0.1 would do nothing"),
    ([*CLASSIFIER, "reviews.csv", "--reading", "keras", "--no-lower"], "--lower would do nothing: --reading keras"),
    ([*CLASSIFIER, "reviews.csv", "--activation", "swiglu", "--ff-dropout", 0.1], "--ff-dropout would do nothing"),
    ([*CLASSIFIER, "reviews.csv", "--watch", "accuracy"], "--watch would do nothing: .* give --patience too"),
    ([*CLASSIFIER, "reviews.csv", "--patience", 2, "--watch", "f1"], "--watch: invalid choice: 'f1'.*loss.*accuracy"),
    ([*CLASSIFIER, "reviews.csv", "--init", "glorot"], "--init: invalid choice: 'glorot'.*xavier.*keras.*gpt2.*bert"),
    ([*CLASSIFIER, "reviews.csv", "--max-len", 4], "'4' is not a whole number of at least 5"),
    ([*CLASSIFIER, "reviews.csv", "--num-heads", 3], "d_model = 8 is not divisible"),
    ([*TAGGER, "names.conll", "names.conll", "names.conll", "names.conll"], "names 4 files; give at most 3"),
    ([*TAGGER, "tag.conll"], "tag.conll', line 3: 'X-loc' is no tag of a word"),
    ([*TAGGER, "narrow.conll"], "narrow.conll', line 3: .* the line has 1"),
    ([*TAGGER, "alone.conll"], "none can be held out to validate; give more"),
    ([*TAGGER, "none.conll"], "there is no file .*W-NUT"),
    ([*TAGGER, "names.conll", "other.conll"], "'B-thing' is none of those that are learned, O, B-loc, B-per, I-loc"),
    ([*TAGGER, "names.conll", "--epochs", 2], "both say how long"),
    ([*MLM, "short.txt"], "a text of 40 tokens is too short: .* 111 are needed"),
    ([*MLM, "empty.txt"], "empty.txt' is empty"), ([*MLM, "none.txt"], "cannot read"),
    ([*MLM, "text.txt", "--masked", 0], "0"), ([*MLM, "text.txt", "--masked", 1], "'1' is not a number .* below 1"),
    ([*TASKS, "untasked.tsv"], "the source 'planet' names no task"),
    ([*TASKS, "narrow.tsv"], "line 3 of .* has 1 column"), ([*TASKS, "columns.tsv"], "one column 'source'"),
    ([*TASKS, "tasks.tsv", "tasks.tsv"], "names 2 files; give one .csv or .tsv"),
    ([*TASKS, "tasks.tsv", "--tokenizer", "char", "--vocab-size", 300], "--vocab-size would do nothing"),
    (["text2text", "--tokenizer", "word"], "--tokenizer would do nothing: the generated tasks")])
def test_bad_input_of_train_gets_one_line_and_replaces_nothing(capsys, bad, tmp_path, arguments, match):
    out = tmp_path / "run.npz"
    shutil.copy(bad / f"{arguments[0]}.npz", out)
    before = out.read_bytes()
    arguments = [bad / a if (bad / str(a)).exists() or str(a).startswith("none") else a for a in arguments]
    line = refused(capsys, "train", *arguments, "--out", out, "--overwrite")
    assert re.search(match, line), line
    assert out.read_bytes() == before and list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("arguments, match", [
    (["classify", "{classifier}", "good", ""], "TEXT 2: the text '' is empty; give at least one word"),
    (["classify", "{classifier}", "###"], "TEXT 1: there is no word in '###'"),
    (["classify", "{tagger}", "good"], "holds a tagger of words: `tag` uses it; name a run of `train classifier`"),
    (["classify", "{lm}", "good"], "cannot read"), (["classify", "{reviews}", "good"], "is no checkpoint"),
    (["tag", "{classifier}", "good"], "holds a classifier of texts: .* name a run of `train tagger`"),
    (["tag", "{tagger}", " "], "TEXT 1: the text ' ' is empty"),
    (["fill", "{mlm}", "the word is"], r"has no \[MASK\]; write it where"), (["fill", "{mlm}", ""], r"has no \[MASK\]"),
    (["fill", "{mlm}", "[MASK] " * 11], "has 13 tokens, .* but the model reads at most 12; shorten it"),
    (["fill", "{mlm}", "[MASK]", "--top", 0], "'0' is not a whole number of at least 1"),
    (["fill", "{classifier}", "[MASK]"], "name a run of `train mlm`"),
    (["embed", "{text2text}", "a"], "holds an encoder-decoder of several tasks"), (["embed", "{mlm}", ""], "is empty"),
    (["similar", "{mlm}", "a film"], "required: --within"),
    (["similar", "{mlm}", "a film", "--within", "{none}"], "cannot read"),
    (["similar", "{mlm}", "a film", "--within", "{empty}"], "is empty"),
    (["similar", "{mlm}", "a film", "--within", "{blank}"], "no line of .* has a word; name a file with a sentence"),
    (["similar", "{mlm}", "", "--within", "{films}"], "the text '' is empty"),
    (["similar", "{text2text}", "a", "--within", "{films}"], "holds an encoder-decoder"),
    (["translate", "{classifier}", "a"], "holds a classifier of texts"),
    (["generate", "{mlm}"], "holds a masked language model: `fill`, `embed` and `similar` use it"),
    (["evaluate", "{classifier}", "--data", "{unknown}"], "line 3 of .* has the label 'so so', but only 'neg', 'pos'"),
    (["evaluate", "{classifier}", "--data", "{films}"], "cannot be read as texts with labels"),
    (["evaluate", "{classifier}", "--text", "{films}"], "measure it on --data PATH, or without files"),
    (["evaluate", "{classifier}", "--beam", 3], "measure it on --data PATH, or without files|beam"),
    (["evaluate", "{tagger}", "--limit", 3], "measure it on --data PATH, or without files"),
    (["evaluate", "{mlm}", "--source", "{films}", "--target", "{films}"], "measure it on --data"),
    (["evaluate", "{text2text}", "--source", "{films}", "--target", "{films}"], "measure it on --data FILE.tsv"),
    (["evaluate", "{tagger}", "--data", "{tag}"], "line 3: 'X-loc' is no tag"),
    (["evaluate", "{mlm}", "--data", "{empty}"], "is empty"),
    (["evaluate", "{mlm}", "--data", "{none}"], "cannot read"),
    (["train", "tagger", "--resume", "--out", "{classifier}"], "a run of `train classifier`, not of `train tagger`"),
    (["train", "classifier", "--resume", "--out", "{classifier}", "--no-lower"], "--lower is True in the run"),
    (["train", "mlm", "--resume", "--out", "{mlm}", "--masked", 0.3], "--masked is 0.15 in the run")])
def test_bad_input_of_the_others_gets_one_line(capsys, bad, tmp_path, arguments, match):
    runs = {kind: bad / f"{kind}.npz" for kind in [*BASE, "lm"]}
    places = runs | {"reviews": bad / "reviews.csv", "films": bad / "films.pos", "none": bad / "nowhere.txt",
                     "empty": bad / "empty.txt", "blank": bad / "blank.txt", "unknown": bad / "unknown.csv",
                     "tag": bad / "tag.conll", "tasks": bad / "tasks.tsv"}
    before = {path: path.read_bytes() for path in runs.values() if path.exists()}
    line = refused(capsys, *[str(a).format(**places) for a in arguments])
    assert re.search(match, line), line
    assert all(path.read_bytes() == data for path, data in before.items())


def test_a_text_too_short_to_be_learnt_can_be_measured(capsys, bad):
    code, out, err = run(capsys, "evaluate", bad / "mlm.npz", "--data", bad / "short.txt")
    assert code == 0 and re.search(r"^of \d tokens that were chosen", out, re.M), err


def test_files_without_tasks_are_refused_before_the_work(capsys, bad, monkeypatch):
    monkeypatch.setattr("numpy_transformer.cli.evaluate.translate", lambda *_: pytest.fail("it began"))
    plain = bad / "plain.tsv"
    plain.write_text("source\ttarget\nab\tba\n")
    line = refused(capsys, "evaluate", bad / "text2text.npz", "--data", plain)
    assert "the source 'ab' names no task" in line


def test_settings_have_one_meaning_in_all_recipes():
    for recipe in RECIPES.values():
        names = [setting.name for setting in all_settings(recipe)]
        assert len(set(names)) == len(names) and all(set(preset) <= set(names) for preset in recipe.presets.values())
        for preset in recipe.presets:
            settings = default_settings(recipe, preset)
            idle = recipe.idle(settings | {"data": ["x"]}) + idle_rates(settings)
            assert not {name for names, _ in idle for name in names} & set(recipe.presets[preset]) - {
                "steps", "validate_every", "tokenizer", "vocab_size", "too_long"}
