"""Finds students whose files agree in ways that are rare in their class. It collects evidence and gives no verdict.

An exercise of two lines has few good solutions, so two files that are alike say little by themselves. What counts is how
rare an agreement is: a feature that f of n files have is worth about log2(n / f) bits for two students who share it.
Features of the exercise's own text (skeleton, solution, alternatives and known mistakes) are worth nothing. Within one
exercise features depend on each other, so the largest counts in full, the next by half, then a quarter, and a few bits
are chance. Then the exercises of two students are added: fifteen files that agree in odd ways say more than one.

How many bits independent students reach depends on the class, so the class itself sets the limit: most of its pairs are
independent, and the scores of such pairs fall off exponentially. A pair is listed if its score is so high that about one
in seven classes of independent students would have one such pair.

Share of copying pairs that were listed in simulated classes of 30 (tests/helpers/variants.py), by what was changed:

    exercises    unchanged   new names   new format   new comments   new order   all of these   wrong pairs a class
    15, all         100%        94%         100%          100%          100%          50%              0.1
    15, a third      88%        12%          81%           62%           25%           0%              0.1
    5, all          100%        38%         100%           94%           75%          19%              0.2
    1                50%        19%          44%           25%           12%           0%              0.0
"""

import collections
import itertools
import math
from dataclasses import dataclass, field

import numpy as np

from .features import expected_features, file_features
from .identical import find_identical

# A prior: how many equally likely alternatives a feature of each kind has.
ALTERNATIVES = {"statement": 16, "tokens": 16, "structure": 8, "names": 16, "text": 16, "comment": 200, "name": 30,
                "answer": 30}
DAMPING, CHANCE = 0.5, 4.0                      # of the next feature in an exercise; bits of an exercise that are chance
LEAST, EACH = 11.0, 1.0                         # bits below which no pair is listed, and for each exercise
FEW = 20                                        # students who are too few to set a limit themselves
MOST_HOLDERS, SHARE = 60, 0.2                   # a feature of more students than this, or of this share, is common
HABITS = "habits"                               # takes the place of a number: names that a student uses anywhere


@dataclass
class Pair:
    """Two students and what they share: {number of an exercise: [(bits, feature), ...]}, the rarest first."""

    students: tuple
    bits: float
    shared: dict = field(default_factory=dict)


@dataclass
class Similarity:
    """The pairs that are listed, the most similar first, the limit that they exceed, and sets with identical files."""

    pairs: list
    limit: float
    students: int
    chosen: list
    identical: list = field(default_factory=list)


def find(students, answers, chosen):
    """Returns the Similarity of a class.

    Parameters:
        students : list of arrival.Student
        answers : {(student, number): digest of a wrong answer that no known mistake explains}
        chosen : list of Exercise
    """
    names = sorted(student.name for student in students)
    scores, habits = Scores(len(names)), collections.defaultdict(set)
    for exercise in chosen:
        table = Table.of_exercise(students, answers, exercise, habits)
        scores.add(*table.pair_scores(names))
    scores.add(*Table(habits, {}, len(names)).pair_scores(names))
    least = LEAST + EACH * len(chosen)
    limit = least if len(names) < FEW else max(least, scores.limit())
    pairs = [Pair((names[i], names[j]), bits) for i, j, bits in scores.above(limit)]
    explain(pairs, students, answers, chosen)
    return Similarity(pairs, limit, len(names), chosen, find_identical(students, chosen))


def explain(pairs, students, answers, chosen):
    """Adds to each pair what its two students share."""
    if not pairs:
        return
    habits = collections.defaultdict(set)
    tables = {exercise.number: Table.of_exercise(students, answers, exercise, habits) for exercise in chosen}
    tables[HABITS] = Table(habits, {}, len(students))
    for number, table in tables.items():
        worths = table.worths()
        for pair in pairs:
            shared = [(bits, feature) for feature, bits in worths.items() if {*pair.students} <= table.holders[feature]]
            if shared:
                pair.shared[number] = sorted(shared, reverse=True, key=lambda item: item[0])


class Table:
    """Who has which feature.

    Parameters:
        holders : {feature: set of students}
        implied : {feature: a feature that everyone has who has it}
        files : number of students with a file
    """

    def __init__(self, holders, implied, files):
        self.holders, self.implied, self.files = holders, implied, files

    @classmethod
    def of_exercise(cls, students, answers, exercise, habits):
        """Returns the Table of one exercise. Adds the names of variables to `habits`, of the same form as `holders`."""
        holders, implied, files, expected = collections.defaultdict(set), {}, 0, expected_features(exercise)
        for student in students:
            attempts = student.attempts.get(exercise.number, [])
            files += bool(attempts)
            for file in attempts:
                for feature, other in file_features(file.content, exercise).items():
                    if feature not in expected:
                        place = habits if feature[0] == "name" else holders
                        place[feature].add(student.name)
                        implied[feature] = other
            if answers.get((student.name, exercise.number)):
                holders["answer", answers[student.name, exercise.number]].add(student.name)
        return cls(holders, implied, files)

    def rarity(self, feature):
        """Returns how many bits it is worth that two students have a feature; it depends on how many others have it."""
        kind, value = feature
        alternatives = ALTERNATIVES[kind]
        if kind in ("structure", "names", "text"):      # of a whole file: the longer, the less likely
            statements = min(value.count("\n"), 24)
            alternatives *= 2 ** (statements / 2 if kind == "structure" else statements)
        others = len(self.holders[feature]) - 2
        return math.log2((max(0, self.files - 2) + alternatives / 2) / (others + 0.5))

    def worths(self):
        """Returns {feature: bits} of the features that at least two and not too many students share.

        What a feature implies is subtracted: files of the same text have the same names in the same structure.
        """
        most = min(MOST_HOLDERS, max(8, SHARE * self.files))
        found = {}
        for feature, who in self.holders.items():
            if 2 <= len(who) <= most:
                other = self.implied.get(feature)
                worth = self.rarity(feature) - (self.rarity(other) if other in self.holders else 0.0)
                if worth > 0:
                    found[feature] = worth
        return found

    def pair_scores(self, names):
        """Returns an array of pairs, i * len(names) + j with i < j, and an array of their bits."""
        index = {name: i for i, name in enumerate(names)}
        codes, bits, own = [], [], []
        for feature, worth in self.worths().items():
            who = np.array(sorted(index[name] for name in self.holders[feature]))
            i, j = np.triu_indices(len(who), 1)
            codes.append(who[i] * len(names) + who[j])
            bits.append(np.full(len(i), worth))
            own.append(np.full(len(i), feature[0] == "comment"))
        if not codes:
            return np.zeros(0, int), np.zeros(0)
        return damped_sums(*map(np.concatenate, (codes, bits, own)))


def damped_sums(codes, bits, own):
    """Returns the distinct codes, and for each the sum of its bits, with decreasing weights and less what is chance.

    Parameters:
        own : True where bits count in full, because they do not depend on the others
    """
    order = np.lexsort((-bits, own, codes))
    codes, bits, own = codes[order], bits[order], own[order]
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    rank = np.arange(len(codes)) - np.repeat(starts, np.diff(starts, append=len(codes)))
    sums = np.add.reduceat(bits * np.where(own, 1.0, DAMPING ** rank), starts)
    return codes[starts], np.maximum(0.0, sums - CHANCE)


class Scores:
    """The bits of all pairs of n students that share anything."""

    def __init__(self, n):
        self.n, self.codes, self.bits = n, np.zeros(0, int), np.zeros(0)

    def add(self, codes, bits):
        self.codes, where = np.unique(np.concatenate((self.codes, codes)), return_inverse=True)
        self.bits = np.bincount(where, np.concatenate((self.bits, bits)), len(self.codes))

    def limit(self):
        """Returns the score that a pair of independent students exceeds in about one of seven classes.

        The tail beyond the r-th highest score is taken to be exponential, with the median that the (r / 2)-th shows.
        """
        pairs = self.n * (self.n - 1) // 2
        rank = max(2, min(pairs // 10, self.n))
        highest = np.sort(np.append(self.bits, np.zeros(rank + 1)))[::-1]
        start, median = highest[rank - 1], highest[rank // 2 - 1]
        return start + (median - start) / math.log(2) * (math.log(rank) + 2)

    def above(self, limit):
        """Returns (i, j, bits) of the pairs above a limit, the highest first."""
        chosen = np.flatnonzero(self.bits > limit)
        chosen = chosen[np.lexsort((self.codes[chosen], -self.bits[chosen]))]
        return [(*divmod(int(self.codes[k]), self.n), float(self.bits[k])) for k in chosen]


def groups(pairs):
    """Returns lists of pairs that are connected by common students, in the order of their first pair."""
    group = {}
    for pair in pairs:
        merged = {*itertools.chain.from_iterable(group.get(name, {name}) for name in pair.students)}
        group |= dict.fromkeys(merged, merged)
    found = collections.defaultdict(list)
    for pair in pairs:
        found[id(group[pair.students[0]])].append(pair)
    return list(found.values())
