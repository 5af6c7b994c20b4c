"""Small tasks to learn from one sequence to another, all made from a seed."""

import string
from dataclasses import dataclass

import numpy as np

from .dates import YEARS, date_pairs
from .tokenizers import CharTokenizer

TRAINING, VALIDATION, TEST = 100_000, 500, 2_000         # pairs


@dataclass
class GeneratedPairs:
    """Lists of (source, target) texts; no source occurs twice, in one list or in two."""

    name: str
    training: list
    validation: list
    test: list
    held_out_years: tuple = ()          # those of the test, where there are any

    def tokenizers(self):
        """(source, target) CharTokenizers of all the texts: nothing in the test is unknown to them."""
        sources, targets = zip(*self.training, *self.validation, *self.test)
        return CharTokenizer("".join(sources)), CharTokenizer("".join(targets))


def copy(seed):
    """Ten digits, to be written again: the first example of the annotated Transformer."""
    sources = distinct_words(np.random.default_rng([seed, 1]), string.digits, 10, 10)
    return split("copy", sources, sources)


def reverse(seed):
    """Three to twelve letters, to be written backwards."""
    sources = distinct_words(np.random.default_rng([seed, 2]), string.ascii_lowercase, 3, 12)
    return split("reverse", sources, [word[::-1] for word in sources])


def sort(seed):
    """Three to twelve letters, to be written in the order of the alphabet."""
    sources = distinct_words(np.random.default_rng([seed, 3]), string.ascii_lowercase, 3, 12)
    return split("sort", sources, ["".join(sorted(word)) for word in sources])


def dates(seed):
    """Every day of a hundred years in four written forms, to be read; ten years are for the test, two for validation.

    The lists are in order of date: pair i has form i % 4 of `written_forms`.
    """
    years = np.random.default_rng([seed, 4]).permutation(YEARS).tolist()
    test, validation, training = sorted(years[:10]), sorted(years[10:12]), sorted(years[12:])
    return GeneratedPairs("dates", date_pairs(training), date_pairs(validation), date_pairs(test), tuple(test))


GENERATED_PAIRS = {"copy": copy, "reverse": reverse, "sort": sort, "dates": dates}


def distinct_words(rng, letters, shortest, longest):
    """As many words as a task has pairs, in the order drawn; a word drawn again does not count."""
    count, words = TRAINING + VALIDATION + TEST, {}
    while len(words) < count:
        drawn = np.array(list(letters))[rng.integers(len(letters), size=(count, longest))]
        drawn[np.arange(longest) >= rng.integers(shortest, longest + 1, (count, 1))] = ""
        words |= dict.fromkeys(drawn.view(f"U{longest}")[:, 0].tolist())        # a row of letters, read as one string
    return list(words)[:count]


def split(name, sources, targets):
    pairs = list(zip(sources, targets))
    return GeneratedPairs(name, pairs[:TRAINING], pairs[TRAINING:-TEST], pairs[-TEST:])
