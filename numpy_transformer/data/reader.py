"""Texts as ids for encoder-only models: [CLS] text [SEP], or [CLS] and the words alone as Keras reads them."""

import re

import numpy as np

from .batches import PAD

CLS, SEP, MASK, SPECIAL = 1, 2, 3, 4    # behind PAD = 0; text ids are the tokenizer's ids + SPECIAL
SPECIALS = dict(zip((PAD, CLS, SEP, MASK), ("[PAD]", "[CLS]", "[SEP]", "[MASK]")))
WORDS = re.compile(r"\w+(?:'\w+)*|[.,;:?!]+|[()]")
FILTERED = str.maketrans(dict.fromkeys('!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~', " "))       # Keras's filters


class TextReader:
    """Texts as ids for an encoder: [CLS] text [SEP].

    Each word has a space before it, the first one too, so that it is the same token wherever it stands.

    Parameters:
        tokens : tokenizer
        max_len : int, ids in all; longer texts lose their end
        lower : bool; True reads words in lower case and the punctuation of sentences, False everything as it is

    `num_truncated` counts the texts that were too long for `read`.
    """

    end = (SEP,)

    def __init__(self, tokens, max_len, lower=True):
        if max_len < 3:
            raise ValueError(f"max_len = {max_len} leaves no room for a text between [CLS] and [SEP]; give at least 3")
        self.tokens, self.max_len, self.lower, self.num_truncated = tokens, max_len, lower, 0

    @property
    def vocab_size(self):
        return self.tokens.vocab_size + SPECIAL

    @property
    def max_text_tokens(self):
        """The number of tokens that a text may have."""
        return self.max_len - 1 - len(self.end)

    def normalize(self, text):
        """The text as the tokenizer sees it: a space before each word; empty if there is nothing to read."""
        return plain_words(text) if self.lower else spaced(text.split())

    def pieces(self, text):
        return self.tokens.encode(self.normalize(text)) + SPECIAL

    def read(self, text):
        """The ids of a text. Raises ValueError if there is no word in it."""
        pieces = self.pieces(text)
        if not len(pieces):
            raise ValueError(f"the text {text[:40]!r} is empty; give at least one word" if not text.strip() else
                             f"there is no word in {text[:40]!r}; give at least one")
        self.num_truncated += len(pieces) > self.max_text_tokens
        return self.frame([pieces])

    def read_words(self, words):
        """(ids, places): where among the ids the first piece of each word stands; 0 for a word that was cut off, or in
        which there is nothing to read.
        """
        pieces = [self.pieces(word) for word in words]
        ids, lengths = self.frame(pieces), np.array([len(word) for word in pieces])
        places = 1 + lengths.cumsum() - lengths
        return ids, np.where((places <= self.max_text_tokens) & (lengths > 0), places, 0)

    def read_masked(self, text):
        """The ids of a text in which [MASK] stands for a word. Raises ValueError if none does, or it is too long."""
        first, *others = [self.pieces(part) for part in re.split(r"\[mask\]", text, flags=re.IGNORECASE)]
        if not others:
            raise ValueError(f"{text[:40]!r} has no [MASK]; write it where a word is to be filled in, as in "
                             "'The [MASK] is a name.'")
        pieces = [first, *(part for other in others for part in ([MASK], other))]
        if (length := sum(map(len, pieces)) + 2) > self.max_len:
            raise ValueError(f"the text has {length:,} tokens, [CLS] and [SEP] included, but the model reads at most "
                             f"{self.max_len:,}; shorten it")
        return self.frame(pieces)

    def name(self, token):
        """What an id stands for, without the space before it."""
        name = SPECIALS[token] if token < SPECIAL else self.tokens.decode([token - SPECIAL])
        return name.removeprefix(" ") or name

    def frame(self, pieces):
        ids = np.concatenate(pieces).astype(np.int64)
        return np.concatenate([[CLS], ids[:self.max_text_tokens], self.end]).astype(np.int64)


class KerasReader(TextReader):
    """[CLS] and the words in lower case without punctuation, as keras.datasets.imdb has them; there is no [SEP].

    Keras's filters and `<br />` become spaces, apostrophes stay: "I don't!" is the words "i" and "don't".
    Source: Tokenizer of keras.preprocessing.text, and keras.datasets.imdb, whose texts begin with the id 1.
    """

    end = ()

    def normalize(self, text):
        return spaced(text.lower().replace("<br />", " ").translate(FILTERED).split())


def spaced(words):
    return "".join(f" {word}" for word in words)


def plain_words(text):
    """The words in lower case and the punctuation of sentences, a space before each; tables and quotes fall away."""
    return spaced(WORDS.findall(text.lower().replace("\u2019", "'")))
