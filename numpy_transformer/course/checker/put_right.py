"""Finds the first wrong value in a student's own text: with the correct one in its place, the rest of the text is right.

The values of the student's expressions were recorded, and which of them feed which (tracing.py, instrumenting.py).
intermediates.py looks for them among the values of correct solutions. One that is not there is not wrong for that reason,
because there are many ways. So the student's process runs the text again, in fresh cases, with values of correct
solutions in its place. If the results are then right, the mistake is in this value or in what it is computed from.
"""

import collections
import math

import numpy as np

from ...texts import Message, listed
from ..sandbox.inside.fingerprints import AXES, PROJECTED, SHAPE, TOTAL, fingerprint
from .comparison import values_agree
from .intermediates import ARGUMENT
from .messages import DIAGNOSIS, shortened

MOST_SUSPECTS, MOST_DOUBTFUL = 5, 6             # values that are put right
MOST_CANDIDATES = 14                            # correct values tried for each
MOST_CORRECT = 3                                # variables that are named
LARGEST_PUT = 5000                              # entries of a value that is put right
MOST_LINES = 10 ** 6


def first_wrong_value(wrong):
    """Returns a Message about the first value of a WrongAnswer that is wrong for sure, or about those that are right."""
    values, comparisons, roots = wrong.traced
    if not comparisons:
        return []
    used = comparisons[0].upstream(all_of(wrong.wrong_roots))
    right = set.intersection(*(comparison.right for comparison in comparisons)) & used & wrong.visited
    tried = [(number, given, in_parts) for number in suspects(wrong) for given, in_parts in candidates(wrong, number)]
    for found in confirmed(wrong, tried):
        return [about_value(values, right, *found)]
    return about_returned(wrong, right) or about_correct(
        values, right - all_of(wrong.wrong_roots))              # what is returned in the wrong place is right by itself


def suspects(wrong):
    """Returns the nodes whose values occur in no correct solution at all, those that nothing suspicious feeds first.

    Then come those that have the entries of a correct value in another shape, and those of which the values alone say
    nothing, such as integers.
    """
    values, comparisons, _ = wrong.traced
    roots = all_of(wrong.wrong_roots)
    suspicious = set.intersection(*(set(comparison.suspicious(roots)) for comparison in comparisons))
    first = {number for comparison in comparisons for number in comparison.first_wrong(roots)} & suspicious
    doubtful = {number for number in comparisons[0].upstream(roots) - suspicious
                if values.nodes[number].text and not values.nodes[number].is_part}
    order = [[number for number in sorted(group, key=lambda number: (values.nodes[number].line, number))
              if values.rows.get(number) and not values.groups[number]] for group in (first, suspicious - first, doubtful)]
    return [*(order[0] + order[1])[:MOST_SUSPECTS], *order[2][:MOST_DOUBTFUL]]


def candidates(wrong, number):
    """Yields (values, in_parts) of correct solutions that may belong to a node, the nearest first.

    For each fresh case, there is a list of arrays, one for each visit of the node, or a single one for all visits. It is
    given in parts if the node, in a loop, gets one part of the array after the other.
    """
    values, start = wrong.traced[0], len(wrong.answer_key.main_cases)
    by_case = [visits_of(kept) for kept in wrong.known.kept[start:]]            # {group: its arrays}
    rows = [(i, k, row) for i in range(len(by_case)) for k, row in enumerate(values.rows[number].get(start + i, ()))]
    found = []
    for group in sorted(set.intersection(*map(set, by_case)) - {ARGUMENT}) if rows else ():
        for turned in (False, True):
            given = [[array.swapaxes(-1, -2) if turned and array.ndim > 1 else array for array in case[group]]
                     for case in by_case]
            if max(sum(array.size for array in arrays) for arrays in given) > LARGEST_PUT:
                continue
            pairs = [(given[i][min(k, len(given[i]) - 1)], row) for i, k, row in rows]
            in_parts = values.nodes[number].in_loop and all(has_parts(array, shape_of(row)) for array, row in pairs)
            same = in_parts or all(array.shape == shape_of(row) for array, row in pairs)
            if not same and not values.entries[number]:
                given, pairs = reshaped(given, pairs, rows)
            if same or not turned:
                found.append((not same, distance(*pairs[0]), len(found), given, in_parts))
    for *_, given, in_parts in sorted(found, key=lambda candidate: candidate[:3])[:MOST_CANDIDATES]:
        yield given, in_parts


def reshaped(given, pairs, rows):
    """Returns given values, and pairs of them and the recorded ones, in the shapes of these if the numbers of entries agree.

    A student may have all texts in one axis.
    """
    if any(array.size != math.prod(shape_of(row)) for array, row in pairs):
        return given, pairs
    pairs = [(array.reshape(shape_of(row)), row) for array, row in pairs]
    return [[array for (case, *_), (array, _) in zip(rows, pairs) if case == i] for i in range(len(given))], pairs


def visits_of(kept):
    """Returns {group: list of its arrays} of the pairs (group, array) of one case."""
    groups = {}
    for group, array in kept:
        groups.setdefault(group, []).append(array)
    return groups


def shape_of(row):
    """Returns the shape of a recorded value."""
    return tuple(map(int, row[SHAPE:SHAPE + int(row[AXES])]))


def has_parts(array, shape):
    """Returns True if an array consists of parts of this shape."""
    return array.ndim > len(shape) and array.shape[array.ndim - len(shape):] == shape


def distance(array, row):
    """Returns how far an array is from a recorded value, relative to both; both have the same number of entries."""
    other = fingerprint(array)
    return float(abs(np.array(other[PROJECTED:]) - row[PROJECTED:]).sum() / (other[TOTAL] + row[TOTAL] + 1e-300))


def confirmed(wrong, tried):
    """Yields the values that make outputs right that they feed, once they are put right.

    All outputs that they feed have to be wrong in the student's answer: a step that also leads to a right one, as in another
    call of the same method, is not what is wrong. The right outputs have to stay right. Yields the node, whether it is what the function returns, and the names of
    the outputs that it makes right.

    Parameters:
        tried : list of (node, values, in_parts)
    """
    if not tried:
        return
    names, fresh, wrong_outputs = wrong.answer_key.exercise.outputs, wrong.fresh, set(wrong.wrong_outputs())
    records = wrong.rerun(fresh.main_cases, replaced=[
        (number, in_parts, [[as_list(array) for array in arrays] for arrays in given]) for number, given, in_parts in tried])
    results = []
    for position, (number, given, _) in enumerate(tried):
        right = wrong.right_outputs(records, fresh.main_cases, fresh.expected, position)
        fed = outputs_fed_by(wrong, number)
        made_right = [j for j in fed if right[j]]
        stay_right = all(right[j] or j in wrong_outputs for j in range(len(right)))
        if not made_right or not stay_right or not set(fed) <= wrong_outputs:
            continue
        same = [j for j in made_right if all(values_agree(np.sort(arrays[-1], None), np.sort(expected.outputs[j], None))
                                      for arrays, expected in zip(given, fresh.expected))]
        if not same or all(is_returned(wrong, number, j) for j in same) and comes_from_correct_values(wrong, number):
            results.append((number, bool(same), [names[j] for j in same or made_right]))
    order = [number for number, _, _ in tried]
    yield from sorted(results, key=lambda result: (result[1], order.index(result[0])))      # what is returned, last


def is_returned(wrong, number, j):
    """Returns True if output j is what this node computes, so that nothing follows which could be wrong."""
    _, _, roots = wrong.traced
    return len(roots) == len(wrong.answer_key.exercise.outputs) and number in roots[j][1]


def as_list(array):
    """Returns an array as reruns.py reads it: its dtype, its shape and its entries."""
    return str(array.dtype), array.shape, array.ravel().tolist()


def comes_from_correct_values(wrong, number):
    """Returns True if all values of other lines that feed a node are known to occur in a correct solution."""
    values, comparisons, _ = wrong.traced
    nodes, given = values.nodes, tuple(f"{name}(" for name in wrong.answer_key.exercise.given_code)
    return any(all(i in values.rows and (comparison.groups[i] or values.entries[i] or values.says_nothing(i))
                   for i in comparison.upstream(nodes[number].feeds) - {number}
                   if nodes[i].text and nodes[i].line != nodes[number].line and not nodes[i].text.startswith(given))
               for comparison in comparisons)


def outputs_fed_by(wrong, number):
    """Returns the indices of the outputs that are computed from this node."""
    _, comparisons, roots = wrong.traced
    every = range(len(wrong.answer_key.exercise.outputs))
    if len(roots) != len(every):
        return wrong.wrong_outputs() if wrong.answer_key.exercise.driver else every     # a driver calls several methods
    return [j for j in every if number in comparisons[0].upstream(roots[j][1])]


def about_value(values, right, number, is_output, names):
    """Returns the Message about the value that makes the results right, and about the correct ones before it."""
    node = values.nodes[number]
    said = [Message("places.value.output" if is_output else "places.value.put_right", line=node.line,
                    expression=shortened(node.text), names=listed(names))]
    before = names_of(values, right, node.line)
    if before:
        said.append(Message("places.value.correct", n=len(before), names=listed(before)))
    return Message(DIAGNOSIS, said=said)


def about_returned(wrong, right):
    """Returns Messages about an answer that returns a value on the way to the result; [] if it does not."""
    _, _, roots = wrong.traced
    for line, feeds in wrong.wrong_roots:
        if line and feeds and feeds <= right and not any(observation.error for observation in wrong.observations):
            return [Message(DIAGNOSIS, said=Message("places.value.result", line=line))]
    return []


def about_correct(values, right):
    """Returns Messages about variables that are right, which tell where the mistake is not."""
    names = names_of(values, right, MOST_LINES)
    return [Message(DIAGNOSIS, said=Message("places.value.correct", n=len(names), names=listed(names)))] if names else []


def names_of(values, right, line):
    """Returns the names of the last variables before this line that have a correct value."""
    nodes = [values.nodes[number] for number in sorted(right)]
    changed = collections.Counter(node.name for node in values.nodes)           # a name may get another value later
    return [*dict.fromkeys(f"`{node.name}`" for node in nodes
                           if node.name and node.line < line and changed[node.name] == 1)][-MOST_CORRECT:]


def all_of(roots):
    """Returns the nodes that feed any of these outputs."""
    return set().union(*(feeds for _, feeds in roots))
