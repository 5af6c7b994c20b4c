"""A tagger of named entities, and the tags that the words alone would get."""

import numpy as np

from ..data.batches import IGNORE, TaggedTexts
from ..data.conll import read_conll
from ..data.entities import entity_scores, scores_table, tag_baseline, to_bio
from ..data.tagged import tagged_sentences
from ..layers import CrossEntropyLoss
from ..models import TokenClassifier
from ..training.trainer import evaluate
from .settings import paths
from .classifier import hold_out_tenth
from .encoder import BATCH, EPOCHS, PRETRAINED, EncoderRecipe, encoder_settings, text_settings
from .parts import digest, training_settings

GENERATED = "a generated language"


class Tagger(EncoderRecipe):
    """A TokenClassifier on sentences with tags, IOB1 or BIO, which it learns as BIO at the first piece of each word."""

    name, title, model_class = "tagger", "a tagger of named entities", TokenClassifier
    source = [paths("data", "one to three files in CoNLL columns, a word and its tag a line: to learn from, to "
                            f"validate, to test; if left out, {GENERATED}"),
              *text_settings("bpe", 800, lower=False, max_len=64)]
    model = [*encoder_settings(64, 2, 256, 0.1, "pre", "relu", "sinusoidal"), PRETRAINED]
    training = [*training_settings(batch_size=32, steps=1500, lr=2e-3, min_lr=1e-4, warmup=150, schedule="cosine",
                                   beta2=0.98, eps=1e-8, weight_decay=0.01, smoothing=0.0, scores=["f1"]), EPOCHS]
    presets = {"small": {}, "wnut-17": dict(vocab_size=4003, max_len=256, d_model=128, d_ff=512, steps=600, warmup=60,
                                            validate_every=50, patience=12, watch="f1")}

    def __init__(self, settings, tokenizers=None):
        self.settings = s = settings
        self.learned, self.held_out, test = read_data(s)
        self.test = test or self.held_out
        known = self.learned + self.held_out if len(s["data"] or []) == 1 else self.learned
        self.labels = ["O", *sorted({tag for _, tags in known for tag in tags} - {"O"})]
        self.read_with(tokenizers, [" ".join(words) for words, _ in self.learned])
        sides, lost = zip(*(examples(self.reader, self.labels, part) for part in (self.learned, self.held_out)))
        self.report = [f"left out {sum(lost):,} words: behind the first {s['max_len']} tokens of their sentence "
                       "(--max-len), or signs that --lower does not read"] if any(lost) else []
        self.batches = TaggedTexts(*sides[0], s["batch_size"], s["seed"])
        self.validation = TaggedTexts(*sides[1], BATCH, 0).batches()
        self.count_steps()
        self.corpus = {"labels": self.labels, "sha256": digest(repr((self.learned, self.held_out)))}
        tested = f"{len(test):,}" if test else "none"
        self.description = (f"{len(self.learned):,} sentences of {s['data'][0] if s['data'] else GENERATED}, "
                            f"{len(self.held_out):,} to validate, {tested} to test; tags: {', '.join(self.labels)}")

    def config(self):
        return super().config() | {"num_classes": len(self.labels)}

    def criterion(self, smoothing=0.0):
        return CrossEntropyLoss(smoothing, ignore_id=IGNORE)

    def validate(self, model):
        """A function that measures the loss, and F1 of whole entities."""
        def measure():
            loss = evaluate(model, self.criterion(), self.validation)
            return {"validation": loss, "f1": score(model, self.reader, self.labels, self.held_out).all.f1}
        return measure

    def results(self, model):
        """Lines on the test: the scores of each type, and beside them what the words alone reach."""
        yield f"on the {'sentences that validate, as there is no test' if self.test is self.held_out else 'test'}:"
        yield from tagged(model, self.reader, self.labels, self.test)
        right = [tags for _, tags in self.test]
        words = entity_scores(right, tag_baseline(self.learned, [words for words, _ in self.test])).all
        yield (f"each word's most frequent tag: F1 {words.f1:.2%}, precision {words.precision:.2%}, recall "
               f"{words.recall:.2%}")

    @staticmethod
    def measured(run, data):
        """Lines on other sentences with tags."""
        sentences = [(words, to_bio(tags)) for path in data for words, tags in read_conll(path)]
        yield from tagged(run.model, run.reader, run.labels, sentences)


def read_data(settings):
    """Three lists of (words, tags in BIO): to learn from, to validate, and, perhaps empty, to test."""
    files = settings["data"]
    if not files:
        made = tagged_sentences(settings["seed"])
        return made.training, made.validation, made.test
    if len(files) > 3:
        raise ValueError(f"--data names {len(files)} files; give at most 3: to learn from, to validate, to test")
    learned, *others = [[(words, to_bio(tags)) for words, tags in read_conll(path)] for path in files]
    if not others:
        learned, held_out = hold_out_tenth(learned, settings["seed"])
        others = [held_out]
    return learned, others[0], others[1] if len(others) > 1 else []


def examples(reader, labels, sentences):
    """((ids, tags) of the sentences, how many words were cut off)."""
    known, rows, lost = {label: n for n, label in enumerate(labels)}, [], 0
    for words, tags in sentences:
        ids, places = reader.read_words(words)
        row = np.full(len(ids), IGNORE)
        row[places[places > 0]] = [label_id(known, tag) for tag, place in zip(tags, places) if place]
        rows.append((ids, row))
        lost += np.count_nonzero(places == 0)
    return tuple(zip(*rows)), lost


def label_id(known, tag):
    if tag not in known:
        raise ValueError(f"the tag {tag!r} is none of those that are learned, {', '.join(known)}; learn from sentences "
                         "that have it, or take it out")
    return known[tag]


def find_tags(model, reader, labels, texts, unread="O"):
    """Tags for lists of words; `unread` where a word was cut off."""
    read = [reader.read_words(words) for words in texts]
    numbers = [np.full(1, n) for n in range(len(texts))]                    # which row of a batch is which text
    found = [None] * len(texts)
    for (ids,), rows in TaggedTexts([ids for ids, _ in read], numbers, BATCH, 0).batches():
        best = model.eval()(ids).argmax(-1)
        for n, line in zip(rows[:, 0], best):
            found[n] = [labels[line[place]] if place else unread for place in read[n][1]]
    return found


def score(model, reader, labels, sentences):
    return entity_scores([tags for _, tags in sentences],
                         find_tags(model, reader, labels, [words for words, _ in sentences]))


def tagged(model, reader, labels, sentences):
    """Lines: the scores of each type."""
    yield f"entities in {len(sentences):,} sentences, as conlleval counts them:"
    yield scores_table(score(model, reader, labels, sentences))
