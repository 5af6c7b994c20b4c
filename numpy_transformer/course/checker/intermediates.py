"""Compares the values that a student's own lines compute with those of correct solutions.

Fingerprints of all values are recorded while both run. A value that occurs in no correct solution is not wrong for that
reason, because there are many ways. It is suspicious if nothing computed from it is correct either.
"""

import ast
import functools
import itertools

import numpy as np

from ..exercises.observation import copy_arrays
from ..sandbox.inside import fingerprints, instrumenting, tracing
from ..sandbox.inside.case_arguments import produce
from ..sandbox.inside.fingerprints import AXES, BAD, BEFORE, CONSTANT, KIND, PROJECTED, SHAPE, TOTAL, WIDTH

CLOSE = 1e-7                                    # relative difference of fingerprints of equal values
MOST_PARTS, MOST_KNOWN = 30, 8                  # parts of an array, and visits of a node, that are compared
ARGUMENT = -1                                   # the group of all arguments


class SolutionValues:
    """The values that correct solutions compute in each of these cases: the solution and its alternatives.

    Attributes:
        kept : for each case, a list of (group, array); a value has the same group in all cases
        solutions : for each solution, the set of its groups
    """

    def __init__(self, exercise, cases):
        self.kept = [[(ARGUMENT, value) for array in case.arrays() for value in (array, *steps_of_softmax(array))]
                     for case in cases]
        self.tables, groups = {}, {}
        self.solutions = []
        for edits in ({}, *exercise.alternatives.values()):
            self.solutions.append({ARGUMENT})
            source = f"{exercise.code_with_given}\n\n{exercise.edited_code(edits)}"
            for values in self.trace(exercise, source, cases):
                content = tuple((array.shape, array.tobytes()) for arrays in values for array in arrays)
                if content not in groups:       # most values of an alternative are those of the solution
                    groups[content] = len(groups)
                    for kept, arrays in zip(self.kept, values):
                        kept += [(groups[content], array) for array in arrays]
                self.solutions[-1].add(groups[content])

    @staticmethod
    def trace(exercise, source, cases):
        """Returns for each node of a solution the lists of its values in each case."""
        tracer = tracing.Tracer(ast.parse(source), source)
        keeper = Keeper()
        names = {instrumenting.SEEN: keeper}
        exec(compile(instrumenting.instrumented(tracer), exercise.file, "exec"), names)
        by_case = []
        for case in cases:
            keeper.kept = {}
            with np.errstate(all="ignore"):
                produce(names[exercise.name], *copy_arrays((case.inputs, case.calls)), exercise.paths)
            by_case.append(keeper.kept)
        return [[kept.get(number, []) for kept in by_case] for number in range(len(tracer.nodes))]

    def table(self, i, parts):
        """Returns (fingerprints, groups, forms) of case i, one a row: of values, or of their parts."""
        if (i, parts) not in self.tables:
            entries = [(fingerprints.fingerprint(part), group, form) for group, array in self.kept[i]
                       for part, form in (loop_parts(array) if parts else [(array, "")])]
            entries = [row for row in entries if row[0] is not None]
            rows = np.array([row for row, _, _ in entries]).reshape(-1, WIDTH)
            self.tables[i, parts] = rows, np.array([g for _, g, _ in entries], int), np.array([f for _, _, f in entries])
        return self.tables[i, parts]


class Keeper:
    """Takes the values of the nodes of a correct solution in one case."""

    def __init__(self):
        self.kept = {}

    def __call__(self, number, value):
        kept, array = self.kept.setdefault(number, []), fingerprints.as_array(value)
        if array is not None and len(kept) < MOST_KNOWN:
            kept.append(array.copy())
        return value


def steps_of_softmax(z):
    """Returns what most people compute on the way to softmax, even where a solution avoids it."""
    if z.dtype.kind != "f" or not z.size or not z.ndim:
        return []
    with np.errstate(all="ignore"):
        largest = z.max(-1, keepdims=True)
        e = np.exp(z - largest)
        total = e.sum(-1, keepdims=True)
        return [largest, z - largest, e, total, e / total]


def loop_parts(array):
    """Yields what a loop over the first axes sees."""
    for axes in range(1, array.ndim):
        for at in itertools.islice(np.ndindex(array.shape[:axes]), MOST_PARTS):
            yield array[at], "part"


def same_sums(rows, row):
    """Returns a boolean array: which rows have the weighted sums of this row."""
    scale = CLOSE * (rows[:, TOTAL] + row[TOTAL]) / 2 + 1e-300
    return (abs(rows[:, PROJECTED:] - row[PROJECTED:]) <= scale[:, None]).all(1)


def same_shape(rows, row):
    return (rows[:, AXES:BAD + 1] == row[AXES:BAD + 1]).all(1)


def says_nothing(row):
    """True for integers, masks, and arrays whose entries are all equal: they occur everywhere, or in many forms."""
    size = np.prod(row[SHAPE:SHAPE + int(row[AXES])])
    if row[KIND] != fingerprints.KINDS.index("f"):
        return True
    return bool(row[CONSTANT]) and (size != 1 or row[TOTAL] == int(row[TOTAL]))


class Values:
    """The fingerprints of a student's nodes in each case, and the correct values that they equal.

    Parameters:
        known : SolutionValues
        nodes : list of tracing.Node
        values : rows of fingerprints.Recorder
    Attributes:
        rows : {node: {case: list of fingerprints}}
        groups : {node: groups of the correct values that it equals in every case}
        entries : the same if shapes need not agree
    """

    def __init__(self, known, nodes, values):
        self.known, self.nodes, self.rows = known, nodes, {}
        for row in values:
            i, number = int(row[0]), int(row[1])
            if 0 <= i < len(known.kept) and 0 <= number < len(nodes) and nodes[number].text:
                self.rows.setdefault(number, {}).setdefault(i, []).append(row[BEFORE:])
        self.groups = {number: self.equal_in_all(number) for number in self.rows}
        self.entries = {number: self.equal_in_all(number, "reshaped") for number in self.rows}

    def equal_in_case(self, i, number, form=""):
        """Returns the groups that contain all values of this node in case i; in a loop, these may be parts."""
        groups = None
        for row in self.rows[number][i]:
            near = self.near(self.known.table(i, False), row, form)
            if not near and self.nodes[number].in_loop and not form:
                near = self.near(self.known.table(i, True), row, "part")
            groups = near if groups is None else groups & near
        return groups

    @staticmethod
    def near(table, row, form):
        rows, groups, forms = table
        if form == "reshaped":
            return set(groups[same_sums(rows, row) & (forms == "")])
        return set(groups[same_shape(rows, row) & same_sums(rows, row) & (forms == form)])

    def equal_in_all(self, number, form=""):
        return functools.reduce(set.intersection, (self.equal_in_case(i, number, form) for i in self.rows[number]))

    def says_nothing(self, number):
        return all(says_nothing(row) for rows in self.rows[number].values() for row in rows)


class Comparison:
    """Values next to those of one correct solution.

    Attributes:
        neutral : the nodes about which nothing can be said
        right : the nodes with a value of this solution that is none of the arguments, and is telling
    """

    def __init__(self, values, solution):
        self.nodes, self.values = values.nodes, values
        self.groups = {number: groups & solution for number, groups in values.groups.items()}
        entries = {number: groups & solution for number, groups in values.entries.items()}
        silent = {number for number in values.rows if values.says_nothing(number)}
        self.right = {number for number in set(self.groups) - silent
                      if self.groups[number] and ARGUMENT not in self.groups[number]}
        self.neutral = {number for number, node in enumerate(self.nodes)
                        if number not in values.rows or number in silent or entries[number] or node.is_part
                        or not any(self.nodes[i].text == "" for i in self.upstream({number}))}     # sizes and constants

    @functools.cached_property
    def redeemed(self):
        """The nodes from which a correct value was computed by expressions and variables."""
        ancestors, waiting = set(), list(self.right)
        while waiting:
            for number in self.nodes[waiting.pop()].feeds - ancestors:
                if self.nodes[number].text:
                    ancestors.add(number)
                    waiting.append(number)
        return ancestors

    def is_suspicious(self, number):
        return not (number in self.neutral or self.groups[number] or number in self.redeemed)

    def upstream(self, numbers):
        """Returns these nodes and all that feed them."""
        node_numbers, waiting = set(numbers), list(numbers)
        while waiting:
            more = self.nodes[waiting.pop()].feeds - node_numbers
            node_numbers |= more
            waiting += more
        return node_numbers

    def suspicious(self, roots):
        """Returns the suspicious nodes among those that feed these roots, in order."""
        return sorted(filter(self.is_suspicious, self.upstream(roots)),
                      key=lambda number: (self.nodes[number].line, number))

    def first_wrong(self, roots):
        """Returns the suspicious nodes among those that feed these roots and are fed by no suspicious one, in order.

        A node that feeds itself, in a loop, may have been spoilt by a later one, and is left out.
        """
        return [number for number in self.suspicious(roots)
                if not any(map(self.is_suspicious, self.upstream(self.nodes[number].feeds)))]
