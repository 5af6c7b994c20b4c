"""Short film reviews, generated from a seed, that word counts cannot classify.

    review = clause  |  clause and clause  |  losers but winners  |  losers, winners
           | although losers, winners  |  winners, although losers

`losers` and `winners` are one or two clauses joined by "and", at most three in a review. A clause says something good
or bad about an aspect of the film and has zero, one or two negations, each of which reverses its meaning. All winners
have the same meaning, all losers have the opposite one, and the meaning of the winners is the label. Every word, good,
bad or neither, is equally frequent in both classes, because clauses with one negation are as frequent as clauses with
zero or two.
"""

from dataclasses import dataclass

import numpy as np

from .labeled import Labeled

TRAINING, VALIDATION, TEST = 20_000, 1_000, 2_000        # reviews

ASPECTS = "cast film finale hero plot score script story style villain".split()
WORDS = ("bad boring clumsy dull poor stale tired weak".split(),                        # by meaning: negative, positive
         "brilliant charming clever fresh good great gripping lovely".split())
FULL = (                                                                                # by the number of negations
    ("the {aspect} is {word}", "the {aspect} is always {word}", "everything about the {aspect} is {word}",
     "everybody will find the {aspect} {word}"),
    ("the {aspect} is not {word}", "the {aspect} is not {word} at all", "the {aspect} is never {word}",
     "the {aspect} is hardly ever {word}", "nothing about the {aspect} is {word}",
     "nobody will find the {aspect} {word}", "nobody can call the {aspect} {word}",
     "hardly anything about the {aspect} is {word}"),
    ("the {aspect} is never not {word}", "nothing about the {aspect} is not {word}",
     "nobody will find the {aspect} not {word}", "there is nothing about the {aspect} that is not {word}"))
SHORT = (
    ("{word} {aspect}", "a {word} {aspect}", "a {aspect} that is {word}"),
    ("not a {word} {aspect}", "hardly a {word} {aspect}", "a {aspect} that is hardly ever {word}"), ())
CONTRASTS = (("although {losers}, {winners}", FULL), ("{losers}, {winners}", SHORT),
             *((form, frames) for form in ("{losers} but {winners}", "{winners}, although {losers}")
               for frames in (FULL, SHORT)))
SHAPES = [(form, frames, *sizes) for form, frames in CONTRASTS for sizes in ((1, 1), (1, 2), (2, 1))]
SHAPES += [("{winners}", FULL, 0, 1)] + 3 * [("{winners}", FULL, 0, 2), ("{winners}", SHORT, 0, 2)]

GROUPS = 9
HELD_OUT = range(3), range(3, GROUPS)                    # groups of the validation set and of the test set


@dataclass(frozen=True)
class Clause:
    text: str
    aspect: str
    meaning: int                                         # a label


def reviews(seed):
    """Returns Labeled reviews, alternately negative and positive; no text occurs twice.

    The contents of a clause (an aspect, a number of negations and a word) are divided into groups. The clauses of a
    training review come from different groups, and the clauses of a validation or test review all come from one group.
    So every clause occurs in the training set, but no two clauses of a validation or test review, in any wording, occur
    together in a review of another set.
    """
    rng = np.random.default_rng([seed, 9])
    clauses = grouped_clauses(rng)
    used = set()
    validation, test = (write_reviews(rng, clauses, used, count, lambda: [rng.choice(groups)] * 3)
                        for count, groups in zip((VALIDATION, TEST), HELD_OUT))
    training = write_reviews(rng, clauses, used, TRAINING, lambda: rng.permutation(GROUPS))
    return Labeled(["negative", "positive"], training, validation, test, [])


def grouped_clauses(rng):
    """Returns {(frames, group, meaning): list of Clause}."""
    clauses = {}
    contents = [(aspect, negations, word, (meaning + negations) % 2)
                for aspect in ASPECTS for negations in range(len(FULL)) for meaning in (0, 1)
                for word in WORDS[meaning]]
    for group, i in enumerate(rng.permutation(len(contents))):
        aspect, negations, word, meaning = contents[i]
        for frames in (FULL, SHORT):
            clauses.setdefault((frames, group % GROUPS, meaning), []).extend(
                Clause(frame.format(aspect=aspect, word=word), aspect, meaning)
                for frame in frames[negations])
    return clauses


def write_reviews(rng, clauses, used, count, draw_groups):
    """Returns `count` reviews (text, label) that are not in `used`, and adds their texts to it."""
    rows = []
    while len(rows) < count:
        label = len(rows) % 2
        form, frames, losers, winners = SHAPES[rng.integers(len(SHAPES))]
        pools = [clauses[frames, group, label if i < winners else 1 - label]
                 for i, group in enumerate(draw_groups()[:winners + losers])]
        chosen = [pool[rng.integers(len(pool))] for pool in pools]
        text = form.format(winners=" and ".join(clause.text for clause in chosen[:winners]),
                           losers=" and ".join(clause.text for clause in chosen[winners:]))
        has_distinct_aspects = len({clause.aspect for clause in chosen}) == len(chosen)
        if text not in used and has_distinct_aspects:
            used.add(text)
            rows.append((text, label))
    return rows
