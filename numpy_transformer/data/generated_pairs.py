"""Small sequence-to-sequence tasks whose pairs are generated from a seed."""

import string
from dataclasses import dataclass

import numpy as np

from .dates import YEARS, date_pairs
from .tokenizers import CharTokenizer

TRAINING, VALIDATION, TEST = 100_000, 500, 2_000         # pairs


@dataclass
class GeneratedPairs:
    """Training, validation and test pairs of a task; no source occurs twice.

    Parameters:
        name : str
        training, validation, test : lists of (source text, target text)
        held_out_years : the years of the test set, for dates
    """

    name: str
    training: list
    validation: list
    test: list
    held_out_years: tuple = ()

    def __repr__(self):
        return (f"{type(self).__name__}({self.name!r}, {len(self.training):,} training, {len(self.validation):,} "
                f"validation and {len(self.test):,} test pairs)")

    def tokenizers(self):
        """Returns (source, target) CharTokenizers that know the characters of all sets."""
        sources, targets = zip(*self.training, *self.validation, *self.test)
        return CharTokenizer("".join(sources)), CharTokenizer("".join(targets))


def copy(seed):
    """Copies ten digits: the first example of The Annotated Transformer."""
    sources = distinct_words(np.random.default_rng([seed, 1]), string.digits, 10, 10)
    return split("copy", sources, sources)


def reverse(seed):
    """Reverse three to twelve letters."""
    sources = distinct_words(np.random.default_rng([seed, 2]), string.ascii_lowercase, 3, 12)
    return split("reverse", sources, [word[::-1] for word in sources])


def sort(seed):
    """Sort three to twelve letters alphabetically."""
    sources = distinct_words(np.random.default_rng([seed, 3]), string.ascii_lowercase, 3, 12)
    return split("sort", sources, ["".join(sorted(word)) for word in sources])


def dates(seed):
    """Converts written dates to ISO form: every day of a hundred years in four written forms.

    Ten years are the test set and two are the validation set. The lists are sorted by date, and pair i has form i % 4
    of `written_forms`.
    """
    years = np.random.default_rng([seed, 4]).permutation(YEARS).tolist()
    test = sorted(years[:10])
    validation = sorted(years[10:12])
    training = sorted(years[12:])
    return GeneratedPairs("dates", date_pairs(training), date_pairs(validation), date_pairs(test), tuple(test))


GENERATED_PAIRS = {"copy": copy, "reverse": reverse, "sort": sort, "dates": dates}


def distinct_words(rng, letters, shortest, longest):
    """Draws as many distinct words as a task has pairs; returns them in the order they were drawn."""
    count = TRAINING + VALIDATION + TEST
    words = {}
    while len(words) < count:
        drawn = np.array(list(letters))[rng.integers(len(letters), size=(count, longest))]
        drawn[np.arange(longest) >= rng.integers(shortest, longest + 1, (count, 1))] = ""
        words |= dict.fromkeys(drawn.view(f"U{longest}")[:, 0].tolist())        # joins a row of letters
    return list(words)[:count]


def split(name, sources, targets):
    """Makes the GeneratedPairs of a task from all its sources and targets."""
    pairs = list(zip(sources, targets))
    return GeneratedPairs(name, pairs[:TRAINING], pairs[TRAINING:-TEST], pairs[-TEST:])
