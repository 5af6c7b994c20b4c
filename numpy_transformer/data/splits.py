"""Splits examples into a training set and a validation set."""

from collections import Counter

import numpy as np

from .plurals import counted

MOST_VALIDATION_PAIRS = 1000


def hold_out_tenth(examples, seed, class_of=lambda example: None):
    """Returns (training, validation): a random tenth of the examples is held out, at least one.

    Parameters:
        examples : list
        seed : int
        class_of : function of an example; the last training example of a class is never held out
    """
    left = Counter(map(class_of, examples))
    held_out = set()
    for i in np.random.default_rng([seed, 8]).permutation(len(examples)).tolist():
        needs_more = len(held_out) < max(1, len(examples) // 10)
        if needs_more and left[class_of(examples[i])] > 1:
            left[class_of(examples[i])] -= 1
            held_out.add(i)
    if not held_out:
        raise ValueError(f"cannot hold out any of {counted(len(examples), 'training example')} for validation; give "
                         "at least 2 examples of one class")
    training = [example for i, example in enumerate(examples) if i not in held_out]
    return training, [example for i, example in enumerate(examples) if i in held_out]


def hold_out_sources(pairs, seed):
    """Returns (training, validation): a random tenth of the pairs is held out, at most 1,000; no source is in both."""
    order = np.random.default_rng([seed, 6]).permutation(len(pairs))
    count = max(1, min(MOST_VALIDATION_PAIRS, len(pairs) // 10))
    chosen = {pairs[i][0] for i in order[:count]}
    validation = [pair for pair in pairs if pair[0] in chosen]
    training = [pair for pair in pairs if pair[0] not in chosen]
    if not training:
        raise ValueError(f"{counted(len(pairs), 'pair')} with {counted(len(chosen), 'distinct source')} cannot be "
                         "split into a training set and a validation set; use longer files")
    return training, validation
