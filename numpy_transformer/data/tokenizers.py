"""Tokenizers that turn text into ids and back, by character, by word or both, and their JSON form."""

import re
import reprlib
import unicodedata
from collections import Counter

import numpy as np

from .bpe import BytePairTokenizer, check_ids, check_training
from .llama2c_tokenizer import StoryTokenizer
from .pretrained_tokenizer import PretrainedTokenizer

PIECES = re.compile(r" ?\w+| ?[^\w\s]+|\s")


class CharTokenizer:
    """Character tokenizer: one id for each distinct character of a text, in sorted order.

    Parameters:
        text : str, a text that contains every character of the vocabulary

    Raises:
        ValueError if the text is empty; in `encode`, for a character that is not in the vocabulary.
    """

    def __init__(self, text):
        if not text:
            raise ValueError("the text is empty, but a character tokenizer needs at least 1 character; pass a longer "
                             "text")
        self.characters = sorted(set(text))
        self.ids = {character: i for i, character in enumerate(self.characters)}

    def __repr__(self):
        return f"CharTokenizer(vocab_size={self.vocab_size})"

    @property
    def vocab_size(self):
        return len(self.characters)

    def encode(self, text):
        try:
            return np.array([self.ids[character] for character in text], np.intp)
        except KeyError as error:
            raise ValueError(f"the character {printable(error.args[0])} is not among the {self.vocab_size} that the "
                             "tokenizer knows from its training text; leave it out, or train on a text that has it") from error

    def decode(self, ids):
        return "".join(self.characters[i] for i in check_ids(ids, self.vocab_size))

    def to_json(self):
        return {"kind": "char", "characters": "".join(self.characters)}


class WordTokenizer:
    """Word tokenizer: one id for each known piece of a text; id 0, <unk>, represents all other pieces.

    A piece is a word or a run of punctuation with the space before it, or a single whitespace character.

    Parameters:
        words : list of the known pieces, such as ["The", " cat", "\\n"]; their ids count from 1

    Raises:
        ValueError if a word is not a str, is empty or occurs twice.

    Source: Radford et al. 2019, for attaching the space to the word that follows it.
    """

    kind = "word"
    pattern = PIECES

    def __init__(self, words):
        self.words = list(words)
        self.ids = {}
        for i, word in enumerate(self.words, 1):
            if not isinstance(word, str) or not word or word in self.ids:
                raise ValueError(f"word {i} is {reprlib.repr(word)}, but it must be a str of at least 1 character that "
                                 "does not occur before; pass the words of a trained tokenizer")
            self.ids[word] = i

    @classmethod
    def train(cls, text, vocab_size):
        """Returns a tokenizer of the vocab_size - 1 most frequent pieces of a text, or of all if there are fewer.

        Ties in frequency are broken by the order of the pieces as strings.
        """
        check_training(text, "vocab_size", vocab_size, 2)
        counts = Counter(cls.pattern.findall(text))
        return cls(sorted(counts, key=lambda piece: (-counts[piece], piece))[:vocab_size - 1])

    def __repr__(self):
        return f"{type(self).__name__}(vocab_size={self.vocab_size})"

    @property
    def vocab_size(self):
        return len(self.words) + 1

    def encode(self, text):
        return np.array([self.ids.get(piece, 0) for piece in self.pattern.findall(text)], np.intp)

    def decode(self, ids):
        ids = check_ids(ids, self.vocab_size)
        text = "".join(self.words[i - 1] if i else " <unk>" for i in ids)
        return text[1:] if ids[:1] == [0] else text

    def to_json(self):
        return {"kind": self.kind, "words": list(self.words)}


class SpacedTokenizer(WordTokenizer):
    """Word tokenizer that splits at whitespace only: " don't" is one piece, not three."""

    kind = "spaced"
    pattern = re.compile(r" ?\S+|\s")


class MixedTokenizer:
    """Word and character tokenizer: one id for each known piece; where several pieces match, the longest is used.

    With words and single characters as pieces, known words are one token each and all other text is read character by
    character.

    Parameters:
        pieces : list of the known pieces, such as ["reverse: ", " garden", "a", "b"]; their ids count from 0

    Raises:
        ValueError if a piece is not a str, is empty or occurs twice, or if there is none; in `encode`, where no piece
        matches.
    """

    def __init__(self, pieces):
        self.pieces = list(pieces)
        self.ids = {}
        for i, piece in enumerate(self.pieces):
            if not isinstance(piece, str) or not piece or piece in self.ids:
                raise ValueError(f"piece {i} is {reprlib.repr(piece)}, but it must be a str of at least 1 character that "
                                 "does not occur before; pass the pieces of an existing tokenizer")
            self.ids[piece] = i
        if not self.pieces:
            raise ValueError("there are no pieces, but a tokenizer needs at least 1; pass words or characters")
        longest_first = sorted(self.pieces, key=len, reverse=True)
        self.pattern = re.compile("|".join(map(re.escape, longest_first)) + "|.", re.DOTALL)    # ".": unknown

    def __repr__(self):
        return f"MixedTokenizer(vocab_size={self.vocab_size})"

    @property
    def vocab_size(self):
        return len(self.pieces)

    def encode(self, text):
        try:
            return np.array([self.ids[piece] for piece in self.pattern.findall(text)], np.intp)
        except KeyError as error:
            raise ValueError(f"at the character {printable(error.args[0])}, none of the {self.vocab_size} known pieces "
                             "matches; leave it out, or train on texts that have it") from error

    def decode(self, ids):
        return "".join(self.pieces[i] for i in check_ids(ids, self.vocab_size))

    def to_json(self):
        return {"kind": "mixed", "pieces": list(self.pieces)}


def read_prompt(tokens, text):
    """Returns the ids of a text as a language model reads it: after the id with which a published model begins a text."""
    return np.concatenate([getattr(tokens, "begin", []), tokens.encode(text)]).astype(np.intp)


def token_name(tokens, token):
    """Returns the text of a single id; that of a special one, too, which `decode` leaves out."""
    return tokens.name(token) if hasattr(tokens, "name") else tokens.decode([token])


def printable(character):
    """Returns a character for an error message; a combining mark, which would merge with the quote, is escaped."""
    return ascii(character) if unicodedata.category(character)[0] == "M" else repr(character)


KINDS = {"char": (CharTokenizer, "characters", str), "word": (WordTokenizer, "words", list),
         "bpe": (BytePairTokenizer, "merges", list), "mixed": (MixedTokenizer, "pieces", list),
         "spaced": (SpacedTokenizer, "words", list)}
PUBLISHED = {"pretrained": PretrainedTokenizer, "llama2.c": StoryTokenizer}


def tokenizer_from_json(data):
    """Returns the tokenizer that `to_json` turned into this dict. Raises ValueError if the dict is of another form."""
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind in list(PUBLISHED):                 # a list, because kind may be unhashable
        return PUBLISHED[kind].from_json(data)
    if kind not in list(KINDS):
        raise ValueError(f"{reprlib.repr(kind)} is not a kind of tokenizer; the kinds are {', '.join(map(repr, KINDS))}. "
                         "Pass what the to_json of a tokenizer returned")
    make, field, expected = KINDS[kind]
    value = data.get(field)
    is_valid = isinstance(value, expected) and (kind != "char" or list(value) == sorted(set(value)))
    if not is_valid:
        raise ValueError(f"{field!r} of a {kind!r} tokenizer must be a {expected.__name__} as its to_json writes it, "
                         f"got {reprlib.repr(value)}; pass what the to_json of a tokenizer returned")
    return make(value)
