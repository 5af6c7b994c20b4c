"""The task of a tagger: the named entities of a sentence."""

import numpy as np

from ..data.batches import IGNORE, TaggedTexts
from ..data.conll import read_conll
from ..data.entities import entity_scores, scores_table, tag_baseline, to_bio
from ..data.splits import hold_out_tenth
from ..data.tagged import tagged_sentences
from ..layers import CrossEntropyLoss
from ..models import TokenClassifier
from ..training.evaluation import evaluate
from .encoder import BATCH, ENCODERS, EPOCHS, EncoderTask, encoder_settings, text_settings
from .model_settings import start_settings
from .settings import FINE_TUNE, LORA, SettingError, make_training_settings, paths
from .task import sha256

GENERATED = "a generated language"


class TaggerTask(EncoderTask):
    """Trains a TokenClassifier on sentences with tags.

    Tags may be IOB1 or BIO; the model learns BIO, at the first piece of each word.
    """

    name, title, model_class = "tagger", "a tagger of named entities", TokenClassifier
    data_settings = [
        paths("data", "one to three files in CoNLL columns, one word and its tag per line: training, validation and test "
                      f"set; if left out, {GENERATED}"),
        *text_settings("bpe", 800, lower=False, max_len=64)]
    model_settings = [*encoder_settings(64, 2, 256, 0.1, "relu", "sinusoidal"), *start_settings()]
    training_settings = [*make_training_settings(
        batch_size=32, steps=1500, lr=2e-3, min_lr=1e-4, warmup=150, schedule="cosine", beta2=0.98, eps=1e-8,
        weight_decay=0.01, label_smoothing=0.0, metrics=["f1"]), EPOCHS]
    configurations = {
        "small": {}, "wnut-17": dict(vocab_size=4003, max_len=256, d_model=128, d_ff=512, steps=600, warmup=60,
                                     validate_every=50, patience=12, watch="f1"),
        "fine-tune": FINE_TUNE | dict(max_len=512, epochs=3), "lora": LORA | dict(max_len=512, epochs=3)}
    starts_from = ENCODERS
    head = ("output",)

    def __init__(self, settings, tokenizers=None, base=None):
        self.settings = s = settings
        self.base = base
        self.training, self.held_out, test = read_data(s)
        self.test = test or self.held_out
        only_one_file = len(s["data"] or []) == 1
        tagged = self.training + self.held_out if only_one_file else self.training
        self.labels = ["O", *sorted({tag for _, tags in tagged for tag in tags} - {"O"})]
        self.set_reader(tokenizers, [" ".join(words) for words, _ in self.training])
        training, lost = ids_and_tags(self.reader, self.labels, self.training)
        validation, also_lost = ids_and_tags(self.reader, self.labels, self.held_out)
        self.report = []
        if lost + also_lost:
            self.report.append(f"left out {lost + also_lost:,} words: they come after the first {s['max_len']} tokens of "
                               "their sentence (max_len), or have only characters that lower does not read")
        self.batches = TaggedTexts(*training, s["batch_size"], s["seed"], pad_id=self.reader.pad_id)
        self.validation = TaggedTexts(*validation, BATCH, 0, pad_id=self.reader.pad_id).batches()
        self.count_steps()
        self.corpus = {"labels": self.labels, "sha256": sha256(repr((self.training, self.held_out)))}
        count = f"{len(test):,}" if test else "none"
        self.description = (f"{len(self.training):,} training sentences of {s['data'][0] if s['data'] else GENERATED}, "
                            f"{len(self.held_out):,} for validation, {count} for testing; tags: {', '.join(self.labels)}")

    def model_config(self):
        return super().model_config() | {"num_classes": len(self.labels)}

    def make_criterion(self, label_smoothing=0.0):
        return CrossEntropyLoss(label_smoothing, ignore_id=IGNORE)

    def make_validation(self, model):
        """Returns a function that measures the loss and the F1 of whole entities on the validation set."""
        def measure():
            loss = evaluate(model, self.make_criterion(), self.validation)
            return {"validation": loss, "f1": score(model, self.reader, self.labels, self.held_out).all.f1}
        return measure

    def results(self, model):
        """Lines on the test set: the scores of each type of entity, and F1 of each word's most frequent tag."""
        has_test = self.test is not self.held_out
        yield f"on the {'test set' if has_test else 'validation set, as there is no test set'}:"
        yield from describe_scores(model, self.reader, self.labels, self.test)
        right = [tags for _, tags in self.test]
        words = entity_scores(right, tag_baseline(self.training, [words for words, _ in self.test])).all
        yield (f"each word's most frequent tag: F1 {words.f1:.2%}, precision {words.precision:.2%}, recall "
               f"{words.recall:.2%}")

    @staticmethod
    def evaluate_files(run, data):
        """Lines on other sentences with tags."""
        sentences = [sentence for path in data for sentence in read_sentences(path)]
        yield from describe_scores(run.model, run.reader, run.labels, sentences)


def read_data(settings):
    """Returns (training, validation, test): lists of (words, tags in BIO); without a file for it the test set is empty."""
    files = settings["data"]
    if not files:
        generated = tagged_sentences(settings["seed"])
        return generated.training, generated.validation, generated.test
    if len(files) > 3:
        raise SettingError(f"$data names {len(files)} files; give at most 3: training, validation and test set")
    sets = [read_sentences(path) for path in files]
    if len(sets) == 1:
        sets = list(hold_out_tenth(sets[0], settings["seed"]))
    return sets if len(sets) == 3 else [*sets, []]


def read_sentences(path):
    return [(words, to_bio(tags)) for words, tags in read_conll(path)]


def ids_and_tags(reader, labels, sentences):
    """Returns ((ids, tags), lost): the tag of a word is that of its first piece; `lost` is the number of words without a
    piece.
    """
    label_ids = {label: n for n, label in enumerate(labels)}
    rows, lost = [], 0
    for words, tags in sentences:
        ids, positions = reader.read_words(words)
        row = np.full(len(ids), IGNORE)
        row[positions[positions > 0]] = [label_id(label_ids, tag) for tag, position in zip(tags, positions) if position]
        rows.append((ids, row))
        lost += np.count_nonzero(positions == 0)
    return tuple(zip(*rows)), lost


def label_id(label_ids, tag):
    if tag not in label_ids:
        raise ValueError(f"the tag {tag!r} does not occur in the training set, which has {', '.join(label_ids)}; train on "
                         "sentences that have it, or remove it")
    return label_ids[tag]


def find_tags(model, reader, labels, texts, unread="O"):
    """Returns the tags of lists of words; `unread` is the tag of a word that was cut off."""
    read = [reader.read_words(words) for words in texts]
    numbers = [np.full(1, n) for n in range(len(texts))]                    # which row of a batch is which text
    tags = [None] * len(texts)
    for (ids,), rows in TaggedTexts([ids for ids, _ in read], numbers, BATCH, 0, pad_id=reader.pad_id).batches():
        best = model.eval()(ids).argmax(-1)
        for n, row in zip(rows[:, 0], best):
            tags[n] = [labels[row[position]] if position else unread for position in read[n][1]]
    return tags


def score(model, reader, labels, sentences):
    return entity_scores([tags for _, tags in sentences],
                         find_tags(model, reader, labels, [words for words, _ in sentences]))


def describe_scores(model, reader, labels, sentences):
    """Lines: the scores of each type of entity."""
    yield f"entities in {len(sentences):,} sentences, counted as conlleval counts them:"
    yield scores_table(score(model, reader, labels, sentences))
