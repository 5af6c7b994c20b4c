"""How the texts of encoder-only models become arrays: a class, a tag for each word, or masked words are the targets."""

import numpy as np

from ..data.batches import IGNORE
from ..layers import BinaryCrossEntropyLoss, CrossEntropyLoss
from .examples import Example, check_length, labels_of_ids, note_on_targets, shorten, visible
from .wording import counted, sentence


class EncoderExample(Example):
    """The common part of the encoder-only models, which read [CLS] text [SEP]."""

    def vocabulary(self):
        names = [visible(self.reader.name(i)) for i in range(self.reader.vocab_size)]
        return [*names, *[""] * (len(self.model.embedding.weight.data) - len(names))]

    def read_ids(self, text):
        """Returns [CLS] text [SEP] as ids."""
        special = self.reader.max_len - self.reader.max_text_tokens
        check_length(self.reader.pieces(text), self.reader.max_text_tokens, problem="length_special",
                     special=counted("special_token", special))
        return self.reader.read(text)

    def logits(self, ids):
        return self.model(ids[None])[0]


class ClassifierExample(EncoderExample):
    """A classifier of texts: the target is a class."""

    kind = "classifier"

    @property
    def is_binary(self):
        return self.model.output.d_out == 1     # one logit for two classes

    def make_criterion(self):
        return BinaryCrossEntropyLoss() if self.is_binary else CrossEntropyLoss()

    def clean(self, text, name):
        return text if name == "target" else super().clean(text, name)

    def read_texts(self, text, target):
        ids = self.read_ids(text)
        note = "given"
        if target is None:
            target = self.answer(text.strip())
            note = "right"
        if target is None:
            logits = self.logits(ids)
            target = self.labels[int(logits > 0) if self.is_binary else int(logits.argmax())]
            note = "predicted"
        number = find_label(target.strip(), self.labels, "class")
        vocabulary = self.vocabulary()
        tokens = {"source": [labels_of_ids(vocabulary, ids)], "target": [[self.labels[number]]], "vocabulary": vocabulary,
                  "classes": list(self.labels), "note": note_on_targets(note)}
        return (ids[None],), np.array([number]), tokens


class TaggerExample(EncoderExample):
    """A tagger of words: the target is a tag for each word."""

    kind = "tagger"

    def clean(self, text, name):
        return text if name == "target" else super().clean(text, name)

    def read_texts(self, text, target):
        words = text.split()
        ids, positions = self.reader.read_words(words)
        if not positions.all():
            raise ValueError(sentence("errors.encoder_examples.word_does_not_fit",
                                      word=shorten(words[int(positions.argmin())]),
                                   most=self.reader.max_len))
        if target is None:
            tags = self.logits(ids)[positions].argmax(-1)
        else:
            tags = [find_label(tag, self.labels, "tag") for tag in target.split()]
        if len(tags) != len(words):
            raise ValueError(sentence("errors.encoder_examples.tags", tags=counted("tag", len(tags)),
                                   words=counted("word", len(words))))
        targets = np.full(len(ids), IGNORE)
        targets[positions] = tags
        vocabulary = self.vocabulary()
        tokens = {"source": [labels_of_ids(vocabulary, ids)], "target": [labels_of_ids(self.labels, targets)],
                  "vocabulary": vocabulary,
                  "classes": list(self.labels), "note": note_on_targets("predicted" if target is None else "given")}
        return (ids[None],), targets[None], tokens


class MaskedWordExample(EncoderExample):
    """A masked language model: the target is the word at each [MASK]."""

    kind = "mlm"

    def clean(self, text, name):
        if self.words is None:
            return text
        return " [MASK] ".join(super(MaskedWordExample, self).clean(part, name) if part.strip() else ""
                               for part in text.replace("[mask]", "[MASK]").split("[MASK]"))

    def read_texts(self, text, target):
        ids = self.reader.read_masked(text)
        positions = np.flatnonzero(ids == self.reader.mask_id)
        if target is None:
            logits = self.logits(ids)[positions]
            logits[:, list(self.reader.special_names)] = -np.inf
            words = logits.argmax(-1)
        else:
            words = self.reader.pieces(target)
        if len(words) != len(positions):
            raise ValueError(sentence("errors.encoder_examples.masks", tokens=counted("token", len(words)),
                                   masks=len(positions)))
        targets = np.full(len(ids), IGNORE)
        targets[positions] = words
        vocabulary = self.vocabulary()
        tokens = {"source": [labels_of_ids(vocabulary, ids)], "target": [labels_of_ids(vocabulary, targets)],
                  "vocabulary": vocabulary,
                  "note": note_on_targets("predicted" if target is None else "given")}
        return (ids[None],), targets[None], tokens


def find_label(name, labels, what):
    if name not in labels:
        raise ValueError(sentence(f"errors.encoder_examples.{what}", name=shorten(name), labels=", ".join(labels)))
    return labels.index(name)
