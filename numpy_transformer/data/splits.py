"""Holds a part of the data out for validation."""

from collections import Counter

import numpy as np

MOST_VALIDATION_PAIRS = 1000


def hold_out_tenth(examples, seed, class_of=lambda example: None):
    """(training, validation): a random tenth of the examples is held out; one of each class stays in the training set."""
    left = Counter(map(class_of, examples))
    held_out = set()
    for i in np.random.default_rng([seed, 8]).permutation(len(examples)).tolist():
        wanted = len(held_out) < max(1, len(examples) // 10)
        if wanted and left[class_of(examples[i])] > 1:
            left[class_of(examples[i])] -= 1
            held_out.add(i)
    if not held_out:
        raise ValueError(f"none of the {len(examples)} training examples can be held out for validation; give more "
                         "examples, at least 2 of one class")
    training = [example for i, example in enumerate(examples) if i not in held_out]
    return training, [example for i, example in enumerate(examples) if i in held_out]


def hold_out_sources(pairs, seed):
    """(training, validation): a tenth of the pairs is held out, at most 1,000; no source is in both."""
    order = np.random.default_rng([seed, 6]).permutation(len(pairs))
    count = max(1, min(MOST_VALIDATION_PAIRS, len(pairs) // 10))
    chosen = {pairs[i][0] for i in order[:count]}
    validation = [pair for pair in pairs if pair[0] in chosen]
    training = [pair for pair in pairs if pair[0] not in chosen]
    if not training:
        raise ValueError(f"{len(pairs)} pairs with {len(chosen)} different sources are too few to train and validate on; "
                         "use longer files")
    return training, validation
