"""Short film reviews, all made from a seed, whose label no counting of words can tell.

    review = clause  |  clause and clause  |  losers but winners  |  losers, winners
           | although losers, winners  |  winners, although losers

Losers and winners are one or two clauses with "and" between them, at most three in a review. A clause says a good or a
bad word of an aspect, and holds none, one or two negations; each of them turns its meaning round. All winners mean
the same, all losers the opposite, and what the winners mean is the label. Good and bad words, and all others, stand
as often in one class as in the other: one negation is as frequent as none and two together.
"""

from dataclasses import dataclass

import numpy as np

from .labeled import Labeled

TRAINING, VALIDATION, TEST = 20_000, 1_000, 2_000        # reviews

ASPECTS = "cast film finale hero plot score script story style villain".split()
WORDS = ("bad boring clumsy dull poor stale tired weak".split(),                        # by what they mean
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
HELD_OUT = range(3), range(3, GROUPS)                    # groups of the validation and of the test


@dataclass(frozen=True)
class Clause:
    text: str
    aspect: str
    meaning: int                                         # as a label


def reviews(seed):
    """Labeled reviews, negative and positive in turn; no text occurs twice.

    What a clause can say, an aspect, a number of negations and a word, is dealt into groups. The clauses of a review
    for training come from different groups, the clauses of any other review from one: so each clause is learned, and
    no two of a validation or test review, in whatever wording, stand together in training or in the other list.
    """
    rng = np.random.default_rng([seed, 9])
    clauses, taken = grouped_clauses(rng), set()
    validation, test = (write(rng, clauses, taken, count, lambda: [rng.choice(groups)] * 3)
                        for count, groups in zip((VALIDATION, TEST), HELD_OUT))
    training = write(rng, clauses, taken, TRAINING, lambda: rng.permutation(GROUPS))
    return Labeled(["negative", "positive"], training, validation, test, [])


def grouped_clauses(rng):
    """{(frames, group, meaning): list of Clause}"""
    clauses = {}
    says = [(aspect, negations, word, (meaning + negations) % 2)
            for aspect in ASPECTS for negations in range(len(FULL)) for meaning in (0, 1) for word in WORDS[meaning]]
    for group, i in enumerate(rng.permutation(len(says))):
        aspect, negations, word, meaning = says[i]
        for frames in (FULL, SHORT):
            clauses.setdefault((frames, group % GROUPS, meaning), []).extend(
                Clause(frame.format(aspect=aspect, word=word), aspect, meaning)
                for frame in frames[negations])
    return clauses


def write(rng, clauses, taken, count, draw_groups):
    """So many (text, label) that are not taken yet."""
    rows = []
    while len(rows) < count:
        label = len(rows) % 2
        form, frames, losers, winners = SHAPES[rng.integers(len(SHAPES))]
        pools = [clauses[frames, group, label if i < winners else 1 - label]
                 for i, group in enumerate(draw_groups()[:winners + losers])]
        chosen = [pool[rng.integers(len(pool))] for pool in pools]
        won, lost = (" and ".join(clause.text for clause in side) for side in (chosen[:winners], chosen[winners:]))
        text = form.format(winners=won, losers=lost)
        if text not in taken and len({clause.aspect for clause in chosen}) == len(chosen):
            taken.add(text)
            rows.append((text, label))
    return rows
