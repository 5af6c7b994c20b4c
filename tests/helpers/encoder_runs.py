"""Small data files of each form, a tiny run of each kind of encoder, and functions that read them."""

import tarfile

import numpy as np
from helpers.commands import run

from numpy_transformer.data import builtin_text
from numpy_transformer.tasks.runs import load_run
from numpy_transformer.training.checkpoint import Checkpoint, read_checkpoint, write_checkpoint

SIZES = ["--d-model", 8, "--num-heads", 2, "--num-layers", 1, "--d-ff", 8]
SMALL = [*SIZES, "--batch-size", 8, "--steps", 6, "--warmup", 2, "--validate-every", 3, "--dropout", 0.1]
LONG = "the film was a story of some people in town and it went on for ever and ever and a day"
BASE = {"classifier": [*SMALL, "--hidden", 8, "--max-len", 12], "tagger": [*SMALL, "--max-len", 16],
        "mlm": [*SMALL, "--max-len", 12], "text2text": SMALL}
FILES = {"classifier": "reviews.csv", "tagger": "names.conll", "mlm": "text.txt", "text2text": "tasks.tsv"}


def write_files(folder):
    """Write small data files of each form."""
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
    (folder / "text.txt").write_text(" ".join(builtin_text().split()[:3000]), encoding="utf-8")
    letters = ["".join(rng.choice(list("abcdef"), rng.integers(2, 6))) for _ in range(60)]
    (folder / "tasks.tsv").write_text("source\ttarget\n" + "".join(
        f"reverse: {word}\t{word[::-1]}\nsort: {word}\t{''.join(sorted(word))}\n" for word in letters))
    for part in ("train", "test"):
        for n, (text, label) in enumerate(reviews[:24]):
            (folder / "aclImdb" / part / label).mkdir(parents=True, exist_ok=True)
            (folder / "aclImdb" / part / label / f"{n}_{n % 10}.txt").write_text(f"{part} {text}<br /><br />")
    with tarfile.open(folder / "aclImdb.tar.gz", "w:gz") as archive:
        archive.add(folder / "aclImdb", "aclImdb")


def trained(capsys, kind, out, *options):
    """Standard output of a training that must succeed."""
    code, text, err = run(capsys, "train", kind, *options, "--out", out)
    assert code == 0, err
    return text


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


def stop_after(steps):
    """Checkpoint.save, and at this step a Ctrl-C."""
    save = Checkpoint.save

    def save_and_stop(checkpoint, trainer, **options):
        save(checkpoint, trainer, **options)
        if trainer.steps == steps:
            raise KeyboardInterrupt
    return save_and_stop


def texts_of(folder, count=40):
    return [line.rsplit(",", 1)[0] for line in (folder / "reviews.csv").read_text().splitlines()[1:count + 1]]


def said_by(folder, kind):
    return (folder / f"{kind}.said").read_text(encoding="utf-8")


def numbers(out):
    return np.array([[float(number) for number in line.split("\t")] for line in out.splitlines()])


def softmax(z):
    z = np.exp(z - z.max())
    return z / z.sum()
