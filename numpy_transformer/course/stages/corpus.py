"""What the student's models are trained on: small generated stories, one token a word, and dates to be rewritten."""

import functools

import numpy as np

from ...data.generated_pairs import dates
from ...data.stories import story
from ...data.tokenizers import WordTokenizer

STORIES, SEED = 3000, 0
PAD, BOS, EOS = 0, 1, 2                         # of dates


@functools.cache
def stories(count=STORIES):
    """Returns a text of this many stories and its WordTokenizer."""
    rng = np.random.default_rng(SEED)
    text = "\n\n".join(story(rng).text for _ in range(count))
    return text, WordTokenizer.train(text, 1000)


def windows(ids, length, count, steps, rng):
    """Returns `steps` pairs of inputs and targets (count, length): the targets are the inputs, one token later."""
    starts = rng.integers(0, len(ids) - length - 1, (steps, count))
    rows = starts[..., None] + np.arange(length + 1)
    return ids[rows[..., :-1]], ids[rows[..., 1:]]


def date_batches(count, steps, rng):
    """Returns sources (steps, count, S), and inputs and targets (steps, count, T) of a decoder; and the letters."""
    pairs = dates(SEED)
    letters = sorted({letter for pair in pairs.training for text in pair for letter in text})
    number = {letter: i for i, letter in enumerate(letters, EOS + 1)}
    chosen = [pairs.training[i] for i in rng.integers(0, len(pairs.training), steps * count)]
    longest = max(len(source) for source, _ in pairs.training)
    sources = np.array([[*map(number.get, source), *[PAD] * (longest - len(source))] for source, _ in chosen])
    framed = np.array([[BOS, *map(number.get, target), EOS] for _, target in chosen])
    split = (steps, count, -1)
    return sources.reshape(split), framed[:, :-1].reshape(split), framed[:, 1:].reshape(split), letters


def some_dates(count, seed):
    """Returns pairs of a written date and its ISO form, on which no model is trained."""
    pairs = dates(SEED).test
    return [pairs[i] for i in np.random.default_rng(seed).choice(len(pairs), count, replace=False)]
