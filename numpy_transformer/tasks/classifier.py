"""A classifier of texts, and the bag of words beside it."""

from collections import Counter

import numpy as np

from ..data.baselines import BagOfWords
from ..data.batches import LabeledTexts
from ..data.film_reviews import reviews
from ..data.labeled import count_files, kind_of, read_labeled, shared
from ..layers import BinaryCrossEntropyLoss, CrossEntropyLoss, Softmax
from ..models import SequenceClassifier
from ..training.progress import Progress
from .settings import Setting, choice, count, paths, rate, switch
from .encoder import (BATCH, EPOCHS, PRETRAINED, EncoderRecipe, encoder_settings, in_order, measure, said_of_cuts,
                      text_settings)
from .parts import digest, training_settings

GENERATED = "generated film reviews"
MOST = 20                                       # classes in a table


class Classifier(EncoderRecipe):
    """A SequenceClassifier on texts with labels."""

    name, title, model_class = "classifier", "a classifier of texts", SequenceClassifier
    source = [
        paths("data", "texts with labels: a folder aclImdb or its .tar.gz; two or more files with a class each and a "
                      f"text per line; a .csv or .tsv with named columns; if left out, {GENERATED}"),
        Setting("text_column", "text", "column of the texts in a .csv or .tsv", metavar="NAME"),
        Setting("label_column", "label", "column of the labels in a .csv or .tsv", metavar="NAME"),
        *text_settings("word", 2000, lower=True, max_len=64),
        choice("reading", "bert", "bert: [CLS] text [SEP]; keras: [CLS] and the words in lower case without "
                                  "punctuation, as keras.datasets.imdb has them", "bert", "keras")]
    model = [*encoder_settings(64, 2, 256, 0.0, "pre", "relu", "rotary"),
             count("hidden", 64, "width of the layer before the output"),
             switch("mask_padding", True, "hide padding from attention and mean; without it all texts fill up to "
                                          "--max-len and padding counts, as in the note"),
             rate("ff_dropout", None, "dropout inside the feed-forward layers; if left out, that of --dropout", 1),
             PRETRAINED]
    training = [*training_settings(batch_size=64, steps=1500, lr=2e-3, min_lr=1e-5, warmup=100, schedule="cosine",
                                   beta2=0.98, eps=1e-8, weight_decay=0.01, smoothing=0.0, scores=["accuracy"]), EPOCHS]
    presets = {"small": {}, "rt-polarity": dict(
        vocab_size=10_000, num_layers=1, dropout=0.3, weight_decay=0.1, epochs=6, patience=2), "note-001": dict(
        vocab_size=10_000, max_len=200, reading="keras", mask_padding=False, dropout=0.1, ff_dropout=0.0, norm="post",
        positions="sinusoidal", init="keras", schedule="constant", lr=1e-4, warmup=0, beta2=0.999, eps=1e-7,
        weight_decay=0.0, clip=0.0, epochs=5, patience=2)}

    @staticmethod
    def idle(settings):
        idle = [] if is_table(settings) else [(["text_column", "label_column"], "they belong to --data FILE.csv")]
        if settings["reading"] == "keras":
            idle.append((["lower"], "--reading keras reads words in lower case; leave it out, or use --reading bert"))
        if settings["activation"] == "swiglu":
            idle.append((["ff_dropout"], "SwiGLU has no dropout inside; choose another --activation"))
        return idle

    def __init__(self, settings, tokenizers=None):
        self.settings = s = settings
        if s["pretrained"] and s["reading"] == "keras":
            raise ValueError(f"--pretrained {s['pretrained']!r} has learned from texts with [SEP] and punctuation, "
                             "which --reading keras leaves out; use --reading bert, or train without --pretrained")
        data = read_data(s)
        self.labels, self.report = data.labels, list(data.report)
        if len(self.labels) == 2 and s["label_smoothing"]:
            raise ValueError(f"--label-smoothing {s['label_smoothing']} would do nothing: with two labels there is one "
                             "logit; leave it out")
        training, validation = data.training, data.validation
        if not validation:
            training, validation = hold_out_tenth(training, s["seed"], lambda example: example[1])
            self.report += shared({"training": training, "validation": validation, "test": []})
        self.test, self.tested = data.test or validation, bool(data.test)
        self.read_with(tokenizers, [text for text, _ in training])
        self.make_batches(training, validation)
        self.count_steps()
        texts = "\n".join(f"{label}\t{text}" for text, label in training + validation)
        self.corpus = {"labels": self.labels, "sha256": digest(texts)}
        tested = f"{len(data.test):,}" if data.test else "none"
        self.description = (f"{len(training):,} texts of {' and '.join(s['data'] or [GENERATED])}, {len(validation):,} "
                            f"to validate, {tested} to test; {len(self.labels)} labels: {', '.join(self.labels[:MOST])}")

    def make_batches(self, training, validation):
        """Batches to learn from, to validate, and of as many `known` texts that are learned from."""
        s, width = self.settings, None if self.settings["mask_padding"] else self.settings["max_len"]
        self.training = ids_and_labels(self.reader, training)
        self.held_out = held_out = ids_and_labels(self.reader, validation)
        given, kept = len(training) + len(validation), len(self.training[0]) + len(held_out[0])
        if kept < given:
            self.report.append(f"left out {given - kept:,} texts without a word")
        self.report += said_of_cuts(self.reader, kept)
        drawn = np.random.default_rng([s["seed"], 10]).permutation(len(self.training[0]))[:len(held_out[0])]
        known = [[side[i] for i in drawn] for side in self.training]
        pool = 100 if width is None else 1      # texts of similar length side by side gain nothing at a fixed width
        self.batches = LabeledTexts(*self.training, s["batch_size"], s["seed"], pool, width)
        self.validation, self.known = (LabeledTexts(*rows, BATCH, 0, width=width).batches()
                                       for rows in (held_out, known))

    def config(self):
        s, classes = self.settings, len(self.labels)
        return super().config() | {"num_classes": 1 if classes == 2 else classes, "hidden": s["hidden"],
                                   "mask_padding": s["mask_padding"], "ff_dropout": s["ff_dropout"]}

    def criterion(self, smoothing=0.0):
        return BinaryCrossEntropyLoss() if len(self.labels) == 2 else CrossEntropyLoss(smoothing)

    def validate(self, model):
        """A function that measures loss and accuracy, and the accuracy on as many texts that are learned from."""
        return lambda: {**measure(model, self.criterion(), self.validation),
                        "training_accuracy": measure(model, self.criterion(), self.known)["accuracy"]}

    def results(self, model):
        """Lines on the test, if there is one: accuracy, the bag of words beside it, the classes confused."""
        words = BagOfWords.choose(*self.training, self.held_out, self.reader.vocab_size, len(self.labels))
        rows, labels = ids_and_labels(self.reader, self.test)
        yield f"on the {'test' if self.tested else 'texts that validate, as there is no test'}:"
        yield from classified(model, self.reader, self.labels, rows, labels)
        yield (f"a bag of words, logistic regression on the same texts: {words.accuracy(rows, labels):.4f} "
               f"(penalty l2 = {words.l2:g}, chosen on the validation set)")

    @staticmethod
    def measured(run, data):
        """Lines on other texts with the labels of a trained run."""
        found = read_data(run.settings | {"data": data}, run.labels)
        texts = found.test if kind_of(data[0]) == "reviews" else found.training + found.validation + found.test
        yield from found.report
        reader = run.reader
        yield from classified(run.model, reader, run.labels, *ids_and_labels(reader, texts))


def is_table(settings):
    return bool(settings["data"]) and str(settings["data"][0]).lower().endswith((".csv", ".tsv"))


def read_data(settings, labels=None):
    """The Labeled that the settings name, with a bar."""
    if not settings["data"]:
        return reviews(settings["seed"])
    with Progress(count_files(settings["data"]) or 50_000, "reading", "file") as progress:
        return read_labeled(settings["data"], settings["text_column"], settings["label_column"], labels,
                             progress.advance)


def hold_out_tenth(examples, seed, kind=lambda example: None):
    """(training, validation): a tenth of the examples, drawn at random, validates; of each kind one stays to learn."""
    left, held = Counter(map(kind, examples)), set()
    for i in np.random.default_rng([seed, 8]).permutation(len(examples)).tolist():
        if len(held) < max(1, len(examples) // 10) and left[kind(examples[i])] > 1:
            left[kind(examples[i])] -= 1
            held.add(i)
    if not held:
        raise ValueError(f"of {len(examples)} to learn from none can be held out to validate; give more, at least 2 of a "
                         "kind")
    parts = [[example for i, example in enumerate(examples) if (i in held) == wanted] for wanted in (False, True)]
    return parts[0], parts[1]


def ids_and_labels(reader, examples):
    """(ids, labels) of the texts in which there is a word."""
    found = [(reader.read(text), label) for text, label in examples if reader.normal(text)]
    if not found:
        raise ValueError(f"none of the {len(examples):,} texts has a word in it; name others with --data")
    return tuple(zip(*found))


def probabilities(logits):
    """(B, classes): of one logit z that of class 1 is 1 / (1 + exp(-z))."""
    if logits.ndim == 1:
        logits = np.stack([np.zeros_like(logits), logits], -1)
    return Softmax().eval()(logits)


def classify(model, reader, rows):
    """(N, classes) probabilities of texts as ids, in their order."""
    return in_order(model, reader, rows, lambda ids: probabilities(model(ids)))


def classified(model, reader, names, rows, labels):
    """Lines on texts as ids: the accuracy, and a table of right (rows) and found (columns) classes."""
    yield from said_of_cuts(reader, len(rows))
    found = classify(model, reader, rows).argmax(-1)
    yield f"accuracy {np.mean(found == labels):.4f} on {len(rows):,} texts"
    if len(names) > MOST:
        yield f"no table of {len(names):,} classes; of up to {MOST} it says which are taken for which"
        return
    counts = np.zeros((len(names), len(names)), int)
    np.add.at(counts, (np.array(labels), found), 1)
    width = max(*map(len, names), 9)
    yield "rows: the right class; columns: the one that was found"
    yield " " * width + "".join(f"  {name:>{width}}" for name in names) + "   recall"
    for name, row in zip(names, counts):
        share = f"{row[names.index(name)] / row.sum():8.2%}" if row.sum() else "       -"
        yield f"{name:>{width}}" + "".join(f"  {count:>{width},}" for count in row) + f" {share}"
