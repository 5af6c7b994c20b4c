"""Readers that turn texts into ids for encoder-only models: [CLS] text [SEP], or the form of keras.datasets.imdb."""

import re

import numpy as np

from .batches import PAD
from .plurals import counted

CLS, SEP, MASK = 1, 2, 3                # after PAD = 0
SPECIAL = 4                             # number of special ids; text ids are the tokenizer's ids + SPECIAL
WORDS = re.compile(r"\w+(?:'\w+)*|[.,;:?!]+|[()]")
FILTERED = str.maketrans(dict.fromkeys('!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~', " "))       # Keras's default filters


class TextReader:
    """Turns texts into ids for an encoder: [CLS] text [SEP].

    A space is put before each word, including the first, so that a word has the same token wherever it occurs.

    Parameters:
        tokens : tokenizer
        max_len : int, the largest number of ids, special ids included; longer texts are truncated at the end
        lower : bool; True lower-cases the text and keeps only words and sentence punctuation, False keeps everything

    Attributes:
        pad_id, cls_id, sep_id, mask_id : int, the ids of [PAD], [CLS], [SEP] and [MASK]
        special_names : {id: name} of all ids that are no part of a text
        offset : int, is added to the tokenizer's ids
        num_truncated : int, the number of texts that `read` truncated
    """

    pad_id, cls_id, sep_id, mask_id = PAD, CLS, SEP, MASK
    special_names = {PAD: "[PAD]", CLS: "[CLS]", SEP: "[SEP]", MASK: "[MASK]"}
    offset = SPECIAL
    end = (SEP,)                                # the ids after a text
    limit = "max_len"                           # what decides how much is read

    def __init__(self, tokens, max_len, lower=True):
        if max_len < 3:
            raise ValueError(f"max_len = {max_len} leaves no room for a text between [CLS] and [SEP]; give at least 3")
        self.tokens = tokens
        self.max_len = max_len
        self.lower = lower
        self.num_truncated = 0

    def __repr__(self):
        return f"{type(self).__name__}({self.tokens!r}, max_len={self.max_len}, lower={self.lower})"

    @property
    def vocab_size(self):
        """The number of ids, special ids included."""
        return self.tokens.vocab_size + self.offset

    @property
    def frame_names(self):
        """The names of the special ids around a text: "[CLS] and [SEP]"."""
        return " and ".join(dict.fromkeys(self.special_names[token] for token in (self.cls_id, *self.end)))

    @property
    def not_words(self):
        """A list of the ids that are not an answer to "which word?": the special ids, and a word tokenizer's <unk>."""
        has_unknown_token = self.tokens.to_json()["kind"] == "word"
        return [*self.special_names, self.offset] if has_unknown_token else list(self.special_names)

    @property
    def max_text_tokens(self):
        """The largest number of tokens that a text may have, without the special ids."""
        return self.max_len - 1 - len(self.end)

    def normalize(self, text):
        """Returns the text as the tokenizer sees it, with a space before each word; empty if no word is left."""
        return plain_words(text) if self.lower else spaced(text.split())

    def pieces(self, text):
        """Returns the ids of a text without [CLS] and [SEP], whatever its length."""
        return self.tokens.encode(self.normalize(text)) + self.offset

    def read(self, text):
        """Returns the ids of a text. Raises ValueError if it contains no word."""
        pieces = self.pieces(text)
        if not text.strip():
            raise ValueError(f"the text {text[:40]!r} is empty; give at least one word")
        if not len(pieces):
            raise ValueError(f"there is no word in {text[:40]!r}; give at least one")
        self.num_truncated += len(pieces) > self.max_text_tokens
        return self.frame([pieces])

    def read_words(self, words):
        """Returns (ids, positions) of a list of words.

        positions[i] is the position in ids of the first piece of word i. It is 0 if the word was truncated or has no
        piece, which is unambiguous because [CLS] is at position 0.
        """
        pieces = [self.pieces(word) for word in words]
        lengths = np.array([len(word) for word in pieces])
        positions = 1 + lengths.cumsum() - lengths
        return self.frame(pieces), np.where((positions <= self.max_text_tokens) & (lengths > 0), positions, 0)

    def has_mask(self, text):
        """Returns True if a word of the text is masked."""
        return self.special_names[self.mask_id].lower() in text.lower()

    def read_masked(self, text):
        """Returns the ids of a text with [MASK] in place of a word. Raises ValueError without [MASK] or if too long."""
        mask = self.special_names[self.mask_id]
        if not self.has_mask(text):
            raise ValueError(f"{text[:40]!r} has no {mask}; write it in place of the word to fill in, as in "
                             f"'The {mask} is a name.'")
        pieces = self.masked_pieces(text)
        length = sum(map(len, pieces)) + 1 + len(self.end)
        if length > self.max_len:
            raise ValueError(f"the text has {counted(length, 'token')}, including {self.frame_names}, but the model "
                             f"reads at most {self.max_len:,}; shorten it")
        return self.frame(pieces)

    def masked_pieces(self, text):
        """Returns a list of the ids of the parts of a text, and of [MASK] between them."""
        mask = re.escape(self.special_names[self.mask_id])
        first, *others = [self.pieces(part) for part in re.split(mask, text, flags=re.IGNORECASE)]
        return [first, *(part for other in others for part in ([self.mask_id], other))]

    def name(self, token):
        """Returns the special name or the text of an id, without the space before it."""
        name = self.special_names.get(token) or self.tokens.decode([token - self.offset])
        return name.removeprefix(" ") or name

    def frame(self, pieces):
        ids = np.concatenate(pieces).astype(np.intp)
        return np.concatenate([[self.cls_id], ids[:self.max_text_tokens], self.end]).astype(np.intp)


class KerasReader(TextReader):
    """Turns texts into ids as keras.datasets.imdb does: [CLS] and the words in lower case, without [SEP].

    Punctuation (Keras's default filters) and `<br />` become spaces, and apostrophes are kept: "I don't!" is the words
    "i" and "don't".

    Source: Tokenizer of keras.preprocessing.text, and keras.datasets.imdb, whose texts begin with the id 1.
    """

    end = ()

    def normalize(self, text):
        return spaced(text.lower().replace("<br />", " ").translate(FILTERED).split())


def spaced(words):
    """Returns the words joined, with a space before each."""
    return "".join(f" {word}" for word in words)


def plain_words(text):
    """Returns the lower-cased words and sentence punctuation, with a space before each; all other characters go."""
    return spaced(WORDS.findall(text.lower().replace("\u2019", "'")))
