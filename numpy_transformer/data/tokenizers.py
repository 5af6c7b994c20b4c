"""Text as ids and back: by character, by word and by both here, by byte pairs in bpe.py; and tokenizers as JSON."""

import re
import reprlib
import unicodedata
from collections import Counter

import numpy as np

from .bpe import BytePairTokenizer, check_ids, check_training

PIECES = re.compile(r" ?\w+| ?[^\w\s]+|\s")


class CharTokenizer:
    """One id for each distinct character of a text, in the characters' order.

    Raises:
        ValueError if the text is empty, and in encode for a character that is not in it.
    """

    def __init__(self, text):
        if not text:
            raise ValueError("the text has 0 characters, but an alphabet needs at least 1; pass a longer text")
        self.characters = sorted(set(text))
        self.ids = {character: i for i, character in enumerate(self.characters)}

    @property
    def vocab_size(self):
        return len(self.characters)

    def encode(self, text):
        try:
            return np.array([self.ids[character] for character in text], np.int64)
        except KeyError as error:
            raise ValueError(f"the character {shown(error.args[0])} is not among the {self.vocab_size} of the text "
                             "the tokenizer was made from; leave it out, or train on a text that has it") from error

    def decode(self, ids):
        return "".join(self.characters[i] for i in check_ids(ids, self.vocab_size))

    def to_json(self):
        return {"kind": "char", "characters": "".join(self.characters)}


class WordTokenizer:
    """One id for each known piece of a text; id 0, <unk>, stands for all others.

    A piece is a word or a run of punctuation with the space before it, or else one whitespace character; for a
    SpacedTokenizer, whatever stands between spaces is one piece.

    Parameters:
        words : list of the known pieces, such as ["The", " cat", "\\n"]; their ids count from 1

    Raises:
        ValueError if a word is not a str, is empty or stands there twice.

    Source: Radford et al. 2019 for the space that belongs to the word behind it.
    """

    kind, pattern = "word", PIECES

    def __init__(self, words):
        self.words, self.ids = list(words), {}
        for i, word in enumerate(self.words, 1):
            if not isinstance(word, str) or not word or word in self.ids:
                raise ValueError(f"word {i} is {word!r}, but it must be a str of at least 1 character that is not "
                                 "there before; pass the words of a trained tokenizer")
            self.ids[word] = i

    @classmethod
    def train(cls, text, vocab_size):
        """Knows the vocab_size - 1 most frequent pieces, equals in their order as str, or all if there are fewer."""
        check_training(text, "vocab_size", vocab_size, 2)
        counts = Counter(cls.pattern.findall(text))
        return cls(sorted(counts, key=lambda piece: (-counts[piece], piece))[:vocab_size - 1])

    @property
    def vocab_size(self):
        return len(self.words) + 1

    def encode(self, text):
        return np.array([self.ids.get(piece, 0) for piece in self.pattern.findall(text)], np.int64)

    def decode(self, ids):
        ids = check_ids(ids, self.vocab_size)
        text = "".join(self.words[i - 1] if i else " <unk>" for i in ids)
        return text[1:] if ids[:1] == [0] else text

    def to_json(self):
        return {"kind": self.kind, "words": list(self.words)}


class SpacedTokenizer(WordTokenizer):
    """A WordTokenizer whose pieces are separated by spaces alone: " don't" is one piece, not three."""

    kind, pattern = "spaced", re.compile(r" ?\S+|\s")


class MixedTokenizer:
    """One id for each known piece of a text, a word or a single character; where several fit, the longest counts.

    A small language is so read word by word and everything else letter by letter.

    Parameters:
        pieces : list of the known pieces, such as ["reverse: ", " garden", "a", "b"]; their ids count from 0

    Raises:
        ValueError if a piece is not a str, is empty or stands there twice, if there is none, and in encode where no
        piece fits.
    """

    def __init__(self, pieces):
        self.pieces, self.ids = list(pieces), {}
        for i, piece in enumerate(self.pieces):
            if not isinstance(piece, str) or not piece or piece in self.ids:
                raise ValueError(f"piece {i} is {piece!r}, but it must be a str of at least 1 character that is not "
                                 "there before; pass the pieces of a tokenizer that was made before")
            self.ids[piece] = i
        if not self.pieces:
            raise ValueError("there are 0 pieces, but a tokenizer needs at least 1; pass words or characters")
        longest_first = sorted(self.pieces, key=len, reverse=True)
        self.pattern = re.compile("|".join(map(re.escape, longest_first)) + "|.", re.DOTALL)    # ".": what is unknown

    @property
    def vocab_size(self):
        return len(self.pieces)

    def encode(self, text):
        try:
            return np.array([self.ids[piece] for piece in self.pattern.findall(text)], np.int64)
        except KeyError as error:
            raise ValueError(f"the character {shown(error.args[0])} begins none of the {self.vocab_size} pieces that "
                             "fit there; leave it out, or train on texts that have it") from error

    def decode(self, ids):
        return "".join(self.pieces[i] for i in check_ids(ids, self.vocab_size))

    def to_json(self):
        return {"kind": "mixed", "pieces": list(self.pieces)}


def shown(character):
    """A character as an error names it; marks, which repr would draw on the quote, by their number."""
    return ascii(character) if unicodedata.category(character)[0] == "M" else repr(character)


KINDS = {"char": (CharTokenizer, "characters", str), "word": (WordTokenizer, "words", list),
         "bpe": (BytePairTokenizer, "merges", list), "mixed": (MixedTokenizer, "pieces", list),
         "spaced": (SpacedTokenizer, "words", list)}


def tokenizer_from_json(data):
    """The tokenizer whose to_json gave this dict. Raises ValueError if none did."""
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind not in list(KINDS):                 # a list: what is foreign may have no hash
        raise ValueError(f"{kind!r} is no kind of tokenizer, only {', '.join(map(repr, KINDS))} are; "
                         "pass what the to_json of a tokenizer returned")
    make, field, wanted = KINDS[kind]
    value = data.get(field)
    if not isinstance(value, wanted) or kind == "char" and list(value) != sorted(set(value)):
        raise ValueError(f"{field!r} of a {kind!r} tokenizer must be a {wanted.__name__} as its to_json writes it, got "
                         f"{reprlib.repr(value)}; pass what the to_json of a tokenizer returned")
    return make(value)
