"""Compares the values that a student's own lines compute with those of correct solutions.

Both run with tracing.py, which records fingerprints of all values. A value that occurs in no correct solution is not
wrong for that reason, because there are many ways. It is suspicious if nothing computed from it is correct either.
"""

import ast
import functools

import numpy as np

from .exercise import copy_arrays
from .sandbox.inside import tracing
from .sandbox.inside.tracing import BAD, CONSTANT, KIND, PROJECTED, SHAPE, TOTAL, WIDTH
from .sandbox.inside.worker import produce

CLOSE = 1e-7                                    # relative difference of fingerprints of equal values
MOST_SLICES, MOST_KNOWN = 64, 16                # slices of an array, and visits of a node, that are compared
ARGUMENT = -1                                   # the group of all arguments


class Known:
    """The values that correct solutions compute in each main case: the solution and its alternatives.

    Attributes:
        rows : for each case, the fingerprints, one a row
        groups : for each case, the group of each row; a value has the same group in all cases
        forms : for each case, the form of each row: "", "transposed" or "part"
    """

    def __init__(self, answer_key):
        exercise, cases = answer_key.exercise, answer_key.main_cases
        self.kept = [[] for _ in cases]         # (group, array)
        for edits in ({}, *exercise.alternatives.values()):
            self.trace(exercise, exercise.edited(edits), cases)
        for kept, case in zip(self.kept, cases):
            kept += [(ARGUMENT, array) for array in case.arrays()]
        self.tables = {}

    def trace(self, exercise, source, cases):
        tracer = tracing.Tracer(ast.parse(source), source)
        recorder = Keeper(max((group for kept in self.kept for group, _ in kept), default=-1) + 1)
        names = {tracing.SEEN: recorder}
        exec(compile(tracer.instrumented(), exercise.file, "exec"), names)
        for kept, case in zip(self.kept, cases):
            recorder.kept, recorder.visits = kept, {}
            with np.errstate(all="ignore"):
                produce(names[exercise.name], *copy_arrays((case.inputs, case.calls)), exercise.paths)

    def table(self, i, slices):
        """Returns (fingerprints, groups, forms) of case i, one a row: of all values, transposed, and their slices."""
        if (i, slices) not in self.tables:
            found = [(tracing.fingerprint(part), group, form) for group, array in self.kept[i]
                     for part, form in forms(array, slices)]
            found = [row for row in found if row[0] is not None]
            rows = np.array([row for row, _, _ in found]).reshape(-1, WIDTH - KIND)
            self.tables[i, slices] = rows, np.array([g for _, g, _ in found], int), np.array([f for _, _, f in found])
        return self.tables[i, slices]


class Keeper:
    """Takes the values of the nodes of a correct solution."""

    def __init__(self, first):
        self.first, self.kept, self.visits = first, [], {}

    def __call__(self, number, value):
        self.visits[number] = self.visits.get(number, 0) + 1
        if self.visits[number] <= MOST_KNOWN and isinstance(value, (np.ndarray, np.generic, bool, int, float)):
            self.kept.append((self.first + number, np.array(value)))
        return value


def forms(array, slices):
    yield array, ""
    if array.ndim > 1:
        yield array.swapaxes(-1, -2), "transposed"
    if slices:
        for axes in range(1, array.ndim):
            every = list(np.ndindex(array.shape[:axes]))
            yield from ((array[at], "part") for at in every[:MOST_SLICES])


C = {name: column - KIND for name, column in dict(shape=SHAPE, bad=BAD, constant=CONSTANT, total=TOTAL).items()}


def same_sums(rows, row):
    """Returns a boolean array: which rows have the weighted sums of this row."""
    scale = CLOSE * (rows[:, C["total"]] + row[C["total"]]) / 2 + 1e-300
    return (abs(rows[:, PROJECTED - KIND:] - row[PROJECTED - KIND:]) <= scale[:, None]).all(1)


def same_shape(rows, row):
    return (rows[:, 1:C["bad"] + 1] == row[1:C["bad"] + 1]).all(1)


def says_nothing(row):
    """True for integers and for arrays whose entries are all equal: they occur everywhere."""
    size = np.prod(row[C["shape"]:C["shape"] + int(row[1])])
    if row[0] == tracing.KINDS.index("i"):
        return True
    return bool(row[C["constant"]]) and (size != 1 or row[C["total"]] == int(row[C["total"]]))


class Comparison:
    """A student's nodes and values, next to those of correct solutions.

    Parameters:
        known : Known
        nodes : list of tracing.Node
        values : rows of tracing.Recorder
    Attributes:
        groups : {node: groups of the correct values that it equals in every case}
        neutral : the nodes about which nothing can be said
    """

    def __init__(self, known, nodes, values):
        self.known, self.nodes, self.rows = known, nodes, {}
        for row in values:
            i, number = int(row[0]), int(row[1])
            if 0 <= i < len(known.kept) and 0 <= number < len(nodes) and nodes[number].text:
                self.rows.setdefault(number, {}).setdefault(i, []).append(row[KIND:])
        self.groups = {number: self.equal_in_all(by_case) for number, by_case in self.rows.items()}
        silent = {number for number, by_case in self.rows.items() if not self.groups[number]
                  and all(says_nothing(row) for rows in by_case.values() for row in rows)}
        self.neutral = {number for number in range(len(nodes))
                        if number not in self.rows or number in silent or ARGUMENT in self.groups[number]}

    def equal_in_case(self, i, rows, form=""):
        """Returns the groups that contain all these values in case i."""
        table, groups, found_forms = self.known.table(i, len(rows) > 1)
        found = None
        for row in rows:
            near = same_shape(table, row) & same_sums(table, row) & ((found_forms == form) | (found_forms == "part"))
            found = set(groups[near]) if found is None else found & set(groups[near])
        return found

    def equal_in_all(self, by_case, form=""):
        return functools.reduce(set.intersection, (self.equal_in_case(i, rows, form) for i, rows in by_case.items()))

    def is_right(self, number):
        return number not in self.neutral and bool(self.groups[number])

    def speaks(self, number):
        """True if a correct value is evidence that what it is computed from is correct as well."""
        return self.is_right(number) and not all(says_nothing(row) for rows in self.rows[number].values()
                                                 for row in rows)

    @functools.cached_property
    def redeemed(self):
        """The nodes from which a correct value was computed by expressions and variables."""
        found, waiting = set(), [number for number in range(len(self.nodes)) if self.speaks(number)]
        while waiting:
            for number in self.nodes[waiting.pop()].feeds - found:
                if self.nodes[number].text:
                    found.add(number)
                    waiting.append(number)
        return found

    def is_suspicious(self, number):
        return number not in self.neutral and not self.groups[number] and number not in self.redeemed

    def upstream(self, numbers):
        """Returns these nodes and all that feed them."""
        found, waiting = set(numbers), list(numbers)
        while waiting:
            more = self.nodes[waiting.pop()].feeds - found
            found |= more
            waiting += more
        return found

    def first_wrong(self, roots):
        """Returns the suspicious nodes among those that feed these roots and are fed by no suspicious one, in order."""
        suspicious = [number for number in self.upstream(roots) if self.is_suspicious(number)]
        first = [number for number in suspicious
                 if not any(map(self.is_suspicious, self.upstream(self.nodes[number].feeds) - {number}))]
        return sorted(first, key=lambda number: (self.nodes[number].line, number))

    def relation(self, number):
        """Returns how the values of a node differ from a correct one, as the rest of a sentence "it is", or ""."""
        by_case = self.rows[number]
        wrong = [i for i, rows in by_case.items() if not self.equal_in_case(i, rows)]
        right = {i: rows for i, rows in by_case.items() if i not in wrong}
        if right and self.equal_in_all(right) and len(wrong) < len(by_case):
            return f"correct except in case {wrong[0] + 1}" if len(wrong) == 1 else ""
        if any(len(rows) > 1 for rows in by_case.values()):
            return ""
        if self.equal_in_all(by_case, "transposed") - {ARGUMENT}:
            return "a correct value transposed"
        multiples = [self.multiples(i, rows[0]) for i, rows in by_case.items()]
        for group in functools.reduce(set.intersection, map(set, multiples)):
            factors = [found[group] for found in multiples]
            if max(factors) - min(factors) <= 1e-6 * abs(factors[0]):
                return times(factors[0])
        return ""

    def multiples(self, i, row):
        """Returns {group: factor} of the correct values in case i of which this value is a multiple."""
        rows, groups, found_forms = self.known.table(i, False)
        sums, own = rows[:, PROJECTED - KIND:], row[PROJECTED - KIND:]
        chosen = same_shape(rows, row) & (groups != ARGUMENT) & (found_forms == "") & (rows[:, C["constant"]] == 0)
        with np.errstate(all="ignore"):
            factors = sums @ own / (sums * sums).sum(1)
            near = abs(own - factors[:, None] * sums).max(1) <= CLOSE * row[C["total"]]
        return {int(group): float(factor) for group, factor in zip(groups[chosen & near], factors[chosen & near])
                if factor}


def times(factor):
    return "the negative of a correct value" if abs(factor + 1) < 1e-6 else f"{factor:.6g} times a correct value"
