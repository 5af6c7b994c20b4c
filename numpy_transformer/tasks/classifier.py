"""The task of a classifier: the class of a text."""

import numpy as np

from ..data.baselines import BagOfWords
from ..data.batches import LabeledTexts
from ..data.film_reviews import reviews
from ..data.labeled import count_files, kind_of_source, read_labeled, report_overlap
from ..data.splits import hold_out_tenth
from ..layers import BinaryCrossEntropyLoss, CrossEntropyLoss, Softmax
from ..layers.feed_forward import FEED_FORWARDS
from ..models import SequenceClassifier
from ..training.evaluation import evaluate_accuracy
from ..training.progress import Progress
from .encoder import (BATCH, ENCODERS, EPOCHS, EncoderTask, apply_in_order, describe_cuts, encoder_settings,
                      text_settings)
from .model_settings import start_settings
from .settings import (FINE_TUNE, LORA, Setting, SettingError, choice, count_setting, make_training_settings, paths,
                       rate_setting, switch)
from .task import sha256

GENERATED = "generated film reviews"
MOST_CLASSES = 20                               # in a confusion matrix


class ClassifierTask(EncoderTask):
    """Trains a SequenceClassifier on labeled texts, with a bag of words as the baseline."""

    name, title, model_class = "classifier", "a classifier of texts", SequenceClassifier
    data_settings = [
        paths("data", "labeled texts: a folder aclImdb or its .tar.gz; two or more files with one class each and one "
                      f"text per line; or a .csv or .tsv with named columns; if left out, {GENERATED}"),
        Setting("text_column", "text", "column of the texts in a .csv or .tsv", metavar="NAME"),
        Setting("label_column", "label", "column of the labels in a .csv or .tsv", metavar="NAME"),
        *text_settings("word", 2000, lower=True, max_len=64),
        choice("reading", "bert", "bert: [CLS] text [SEP]; keras: [CLS] and the lower-case words without punctuation, as "
                                  "in keras.datasets.imdb", "bert", "keras")]
    model_settings = [
        *encoder_settings(64, 2, 256, 0.0, "relu", "rotary"),
        count_setting("hidden", 64, "width of the layer before the output"),
        switch("mask_padding", True, "leave padding out of the attention and of the mean; without it all texts are padded "
                                     "to $max_len and padding counts"),
        rate_setting("ff_dropout", None, "dropout inside the feed-forward layers; the value of $dropout if left out", 1),
        *start_settings()]
    training_settings = [*make_training_settings(
        batch_size=64, steps=1500, lr=2e-3, min_lr=1e-5, warmup=100, schedule="cosine", beta2=0.98, eps=1e-8,
        weight_decay=0.01, label_smoothing=0.0, metrics=["accuracy"]), EPOCHS]
    configurations = {"small": {}, "rt-polarity": dict(
        vocab_size=10_000, num_layers=1, dropout=0.3, weight_decay=0.1, epochs=6, patience=2), "note-001": dict(
        vocab_size=10_000, max_len=200, reading="keras", mask_padding=False, dropout=0.1, ff_dropout=0.0, norm="post",
        positions="sinusoidal", init="keras", schedule="constant", lr=1e-4, warmup=0, beta2=0.999, eps=1e-7,
        weight_decay=0.0, clip=0.0, epochs=5, patience=2),
        "fine-tune": FINE_TUNE | dict(max_len=512, epochs=2), "lora": LORA | dict(max_len=512, epochs=2)}
    starts_from = ENCODERS
    head = "hidden", "output"

    @classmethod
    def unused_settings(cls, settings):
        unused = super().unused_settings(settings)
        if not is_table(settings["data"]):
            unused.append((["text_column", "label_column"], "only $data FILE.csv or FILE.tsv has columns"))
        if settings["reading"] == "keras":
            unused.append((["lower"], "$reading keras always lower-cases words; leave it out, or use $reading bert"))
        if settings["activation"] in FEED_FORWARDS:
            unused.append((["ff_dropout"], "a gated feed-forward layer has no dropout inside; choose another "
                                           "$activation"))
        return unused

    def __init__(self, settings, tokenizers=None, base=None):
        self.settings = s = settings
        self.base = base
        if s["pretrained"] and s["reading"] == "keras":
            raise SettingError(f"$pretrained {s['pretrained']!r} was trained on texts with [SEP] and punctuation, which "
                               "$reading keras leaves out; use $reading bert, or train without $pretrained")
        data = read_data(s)
        self.labels, self.report = data.labels, list(data.report)
        if self.has_one_logit and s["label_smoothing"]:
            raise SettingError(f"$label_smoothing {s['label_smoothing']} would have no effect: with two labels there is "
                               "one logit; leave it out")
        training, validation = data.training, data.validation
        if not validation:
            training, validation = hold_out_tenth(training, s["seed"], lambda example: example[1])
            self.report += report_overlap({"training": training, "validation": validation, "test": []})
        self.test, self.has_test = data.test or validation, bool(data.test)
        self.set_reader(tokenizers, [text for text, _ in training])
        self.make_batches(training, validation)
        self.count_steps()
        texts = "\n".join(f"{label}\t{text}" for text, label in training + validation)
        self.corpus = {"labels": self.labels, "sha256": sha256(texts)}
        test = f"{len(data.test):,}" if data.test else "none"
        self.description = (f"{len(training):,} training texts of {' and '.join(s['data'] or [GENERATED])}, "
                            f"{len(validation):,} for validation, {test} for testing; {len(self.labels)} labels: "
                            f"{', '.join(self.labels[:MOST_CLASSES])}")

    @property
    def has_one_logit(self):
        """True for two labels, unless the model is to be read by others, who expect a logit for each label."""
        return len(self.labels) == 2 and not self.starts_from_published

    def make_batches(self, training, validation):
        """Batches of the training set, of the validation set, and of a sample of the training set of that size."""
        s = self.settings
        self.training = ids_and_labels(self.reader, training)
        self.held_out = ids_and_labels(self.reader, validation)
        given, kept = len(training) + len(validation), len(self.training[0]) + len(self.held_out[0])
        if kept < given:
            self.report.append(f"left out {given - kept:,} texts without a word")
        self.report += describe_cuts(self.reader, kept)
        order = np.random.default_rng([s["seed"], 10]).permutation(len(self.training[0]))
        drawn = order[:len(self.held_out[0])]
        sample = [[side[i] for i in drawn] for side in self.training]
        if s["mask_padding"]:
            width, pool = None, 100             # a batch has texts of similar length, padded to the longest
        else:
            width, pool = s["max_len"], 1
        padding = {"width": width, "pad_id": self.reader.pad_id}
        self.batches = LabeledTexts(*self.training, s["batch_size"], s["seed"], pool, **padding)
        self.validation = LabeledTexts(*self.held_out, BATCH, 0, **padding).batches()
        self.training_sample = LabeledTexts(*sample, BATCH, 0, **padding).batches()

    def model_config(self):
        s = self.settings
        config = super().model_config() | {
            "num_classes": 1 if self.has_one_logit else len(self.labels), "hidden": s["hidden"],
            "mask_padding": s["mask_padding"]}
        if self.starts_from_published and self.base["kind"] != self.name:
            from ..pretrained.family import HEAD_ACTIVATIONS  # only published models need it

            config |= {"pool": "first", "head_activation": HEAD_ACTIVATIONS.get(self.base["origin"]["family"], "tanh")}
        return config

    def make_model(self):
        model = super().make_model()
        if self.settings["ff_dropout"] is not None:
            for block in model.encoder.blocks:
                block.feed_forward.dropout.p = self.settings["ff_dropout"]
        return model

    @classmethod
    def published_settings(cls, options):
        return super().published_settings(options) | {
            "hidden": options["d_model"], "mask_padding": True, "ff_dropout": options.get("ff_dropout")}

    def weights_taken_over(self, state, run):
        """Returns all weights of the encoder; BERT's pooler, which an encoder without a head does not use, is the hidden
        layer.
        """
        state = super().weights_taken_over(state, run)
        unused = run.model.origin.unused if self.starts_from_published else {}
        if unused and self.base["origin"]["family"] == "bert":
            pooler = {name.split(".")[-1]: array for name, array in unused.items() if "pooler.dense." in name}
            state = {f"hidden.{name}": np.ascontiguousarray(array.T) for name, array in pooler.items()} | state
        return state

    def make_criterion(self, label_smoothing=0.0):
        return BinaryCrossEntropyLoss() if self.has_one_logit else CrossEntropyLoss(label_smoothing)

    def make_validation(self, model):
        """Returns a function that measures loss and accuracy on the validation set, and the accuracy on a sample of the
        training set.
        """
        def measure():
            measures = evaluate_accuracy(model, self.make_criterion(), self.validation)
            sample = evaluate_accuracy(model, self.make_criterion(), self.training_sample)
            return {**measures, "training_accuracy": sample["accuracy"]}
        return measure

    def results(self, model):
        """Lines on the test set: the accuracy, the confusion matrix, and the accuracy of a bag of words."""
        words = BagOfWords.choose(*self.training, self.held_out, self.reader.vocab_size, len(self.labels))
        rows, labels = ids_and_labels(self.reader, self.test)
        yield f"on the {'test set' if self.has_test else 'validation set, as there is no test set'}:"
        yield from describe_accuracy(model, self.reader, self.labels, rows, labels)
        yield (f"a bag of words, logistic regression on the same texts: {words.accuracy(rows, labels):.4f} "
               f"(penalty l2 = {words.l2:g}, chosen on the validation set)")

    @staticmethod
    def evaluate_files(run, data):
        """Lines on other texts with the labels of a trained run."""
        if not run.is_exclusive:
            raise ValueError(f"the labels of {run.path!r} do not exclude each other (its config.json says "
                             "multi_label_classification), and `evaluate` compares one label of each text; use `classify`")
        labeled_data = read_data(run.settings | {"data": data}, run.labels)
        is_review_folder = kind_of_source(data[0]) == "reviews"
        texts = labeled_data.test if is_review_folder else labeled_data.training + labeled_data.validation + labeled_data.test
        yield from labeled_data.report
        reader = run.reader
        rows, labels = ids_and_labels(reader, texts)
        yield from describe_accuracy(run.model, reader, run.labels, rows, labels)


def is_table(data):
    return bool(data) and str(data[0]).lower().endswith((".csv", ".tsv"))


def read_data(settings, labels=None):
    """Returns the Labeled texts that the settings name, read with a progress bar."""
    if not settings["data"]:
        return reviews(settings["seed"])
    with Progress(count_files(settings["data"]) or 50_000, "reading", "file") as progress:
        return read_labeled(settings["data"], settings["text_column"], settings["label_column"], labels,
                            progress.advance)


def ids_and_labels(reader, examples):
    """Returns (ids, labels) of the texts that contain a word."""
    pairs = [(reader.read(text), label) for text, label in examples if reader.normalize(text)]
    if not pairs:
        raise SettingError(f"none of the {len(examples):,} texts contains a word; name others with $data")
    return tuple(zip(*pairs))


def probabilities(logits):
    """Returns (B, classes). A single logit z is a classifier of two: the probability of class 1 is 1 / (1 + exp(-z))."""
    if logits.ndim == 1:
        logits = np.stack([np.zeros_like(logits), logits], -1)
    return Softmax().eval()(logits)


def independent_probabilities(logits):
    """Returns (B, classes) for labels that do not exclude each other: each one's probability is 1 / (1 + exp(-z))."""
    return probabilities(logits.reshape(-1))[:, 1].reshape(logits.shape)


def classify(model, reader, rows, is_exclusive=True):
    """Returns (N, classes) probabilities of texts as ids, in their order."""
    normalize = probabilities if is_exclusive else independent_probabilities
    return apply_in_order(lambda model, ids: normalize(model(ids)), model, reader, rows)


def describe_accuracy(model, reader, names, rows, labels):
    """Lines on texts as ids: the accuracy, and the confusion matrix."""
    yield from describe_cuts(reader, len(rows))
    predicted_labels = classify(model, reader, rows).argmax(-1)
    yield f"accuracy {np.mean(predicted_labels == labels):.4f} on {len(rows):,} texts"
    if len(names) > MOST_CLASSES:
        yield f"no confusion matrix: it is shown for up to {MOST_CLASSES} classes, and there are {len(names):,}"
        return
    counts = np.zeros((len(names), len(names)), int)
    np.add.at(counts, (np.array(labels), predicted_labels), 1)
    width = max(*map(len, names), 9)
    yield "confusion matrix: a row for each true class, a column for each predicted class"
    yield " " * width + "".join(f"  {name:>{width}}" for name in names) + "   recall"
    for name, row in zip(names, counts):
        recall = f"{row[names.index(name)] / row.sum():8.2%}" if row.sum() else "       -"
        yield f"{name:>{width}}" + "".join(f"  {count:>{width},}" for count in row) + f" {recall}"
