"""Says where in a student's own text a mistake is that no known mistake explains, by running this text again.

One edit: the student's process runs programs that differ from the student's in one place (edits) on the smallest
wrong case, and sends fingerprints of their results (fingerprints.py). The few that are right there run on all cases, and
on as many others that were drawn for this purpose. If one is right in all of them, the mistake is at this place. What the
edit was is not told. An edit that no student's mistake undoes, such as one in a test of shapes, is no evidence.

If no edit helps, put_right.py looks for a value that makes everything right once it is put right.

What is correct in the graded cases never reaches the student's process. It only runs what it is asked to (reruns.py), and
sends values back, which protocol.py reads strictly.
"""

import functools
import re
import weakref
from dataclasses import replace

import numpy as np

from ...texts import Message, listed
from ..exercises.observation import Observation
from ..sandbox import ProgramTask
from ..sandbox.inside.fingerprints import AXES, BAD, PROJECTED, SHAPE, TOTAL, fingerprint
from ..sandbox.protocol import read_case, read_edit, read_nodes, read_tried, read_values
from .comparison import is_close, unlike
from .intermediates import CLOSE, Comparison, SolutionValues, Values, same_shape, same_sums
from .messages import DIAGNOSIS, about_order, reported, shortened
from .put_right import all_of, first_wrong_value
from .relations.pairs import make_pairs
from .relations.whole_arrays import DEPENDS, multiple
from .verdict import is_unexplained

SLOW = 3.0                                      # seconds; an answer that takes longer is not run again
SECONDS = 0.5                                   # of processor time for trying edits, in which most places are found
RESEMBLING = 0.35                               # share of the values in common with the nearest solution
MOST_TRIED = 8                                  # edits that are run on all cases
OUT_OF_BOUNDS = re.compile(r"IndexError: index (\d+) is out of bounds for axis (\d+) with size (\d+)")    # NumPy's words
EDITS = ("operator", "order", "sign", "comparison", "condition", "constant", "axis", "keepdims", "call", "argument",
         "transposition", "index", "name", "names", "grouping", "power", "factor", "operand", "statement")
CERTAIN = ("operator", "sign", "comparison", "condition", "axis", "keepdims", "call", "argument", "transposition", "index",
           "power", "operand", "statement")     # kinds that explain one of several wrong outputs
ADDING = "operand", "factor", "call", "axis", "sign", "power"       # kinds of edits that may add what is missing
STEPS = "call", "axis", "transposition"         # kinds of edits that add a step, but no other value
OF_TYPES = "call", "argument"                   # kinds of edits that explain a wrong type
SOLUTION_VALUES = weakref.WeakKeyDictionary()   # {AnswerKey: SolutionValues}


def localize(answer_key, verdict, run, file, execute, seconds=SECONDS):
    """Returns the Verdict with Messages that say where the mistake is, if that can be found out.

    Parameters:
        verdict : Verdict on the ProgramRun of the student's file
        file : its name
        execute : function that runs a ProgramTask in the process where the student's file belongs; returns its ProgramRun
        seconds : processor time for trying edits
    """
    if not is_unexplained(answer_key, verdict) or run.seconds > SLOW or about_order(answer_key.exercise, run.report):
        return verdict
    observations = answer_key.answers(run)
    said = right_alone(answer_key, observations, file, execute)
    if said:
        return replace(verdict, lines=(*verdict.lines, *said))
    wrong = WrongAnswer(answer_key, observations, file, execute, seconds)
    if verdict.stage == "type":                 # the values may be correct
        said = wrong.one_edit(OF_TYPES)
    else:
        said = wrong.one_edit() or other_indices(answer_key, run) or first_wrong_value(wrong)
    return replace(verdict, lines=(*verdict.lines, *said))


def right_alone(answer_key, observations, file, execute):
    """Returns a Message about a case that is wrong after other ones and right in a process of its own; [] if it is not."""
    right = [answer_key.is_right(i, observation) for i, observation in enumerate(observations)]
    if not right[0] or all(right):
        return []
    i = right.index(False)
    case, expected = answer_key.main_cases[i], answer_key.expected[i].outputs
    for result in execute(ProgramTask(answer_key.exercise, [case], file)).results:
        if "error" not in result.report and len(result.outputs) == len(expected) and all(
                yours is not None and is_close(yours, y, expected) and not unlike(yours.dtype, y.dtype)
                for yours, y in zip(result.outputs, expected)):
            return [Message(DIAGNOSIS, said=Message("places.kept.alone", case=i + 1))]
    return []


class WrongAnswer:
    """A wrong answer whose file can be run again.

    Parameters:
        observations : an Observation of the answer for each main case
        file, execute, seconds : as in `localize`
    Attributes:
        cases, expected : the main cases and fresh ones, with the correct results of each
    """

    def __init__(self, answer_key, observations, file, execute, seconds=SECONDS):
        self.answer_key, self.observations, self.file, self.execute = answer_key, observations, file, execute
        self.fresh = answer_key.fresh
        self.cases = [*answer_key.main_cases, *self.fresh.main_cases]
        self.expected = [*answer_key.expected, *self.fresh.expected]
        every = range(len(observations))
        wrong = [i for i in every if not answer_key.is_right(i, observations[i])] or every
        sizes = [sum(array.size for array in case.arrays()) for case in self.cases]
        self.smallest = min(wrong, key=lambda i: (not observations[i].error, sizes[i]))     # an error spoils all outputs
        self.records = self.rerun(self.cases, seconds=seconds, case=self.smallest)

    def rerun(self, cases, **wanted):
        """Returns what the student's process sends when it does what reruns.py is asked to."""
        return self.execute(ProgramTask(self.answer_key.exercise, cases, self.file, wanted)).records

    def one_edit(self, kinds=EDITS):
        """Returns Messages about the places where one edit of these kinds makes all cases right.

        If there is none, about those where it makes some of the wrong outputs right in all cases: several things may be
        wrong.
        """
        expected = [fingerprint(y) for y in self.expected[self.smallest].outputs]
        if not all(expected):
            return []
        expected, wrong = np.array(expected, float), [*self.wrong_outputs()]
        tried = {number: rows for number, rows in read_tried(self.records).items() if rows.shape == expected.shape}
        equal = {number: [*map(has_fingerprint, rows, expected)] for number, rows in tried.items()}
        complete = [number for number, right in equal.items() if all(right)]
        partial = [number for number, right in equal.items()
                   if any(right[j] for j in wrong) and all(right[j] for j in range(len(right)) if j not in wrong)]
        multiples = [number for number, rows in tried.items() if all(
            is_multiple(rows[j], expected[j]) if j in wrong else equal[number][j] for j in range(len(rows)))]
        return self.confirmed_edits(complete, kinds) or self.confirmed_edits(
            partial, [kind for kind in kinds if kind in CERTAIN], partial=True) or self.edits_to_a_multiple(multiples, kinds)

    def confirmed_edits(self, numbers, kinds, partial=False):
        """Returns Messages about the best of these edits that make outputs right in all cases.

        Parameters:
            partial : some of the wrong outputs are enough, but an edit that adds something explains none of them
        """
        lines = self.suspicious_lines() if numbers else set()
        if partial and any(observation.error for observation in self.observations):
            kinds = [kind for kind in kinds if kind != "statement"]         # without it, its error is gone, whoever caused it
        candidates = {number: read_edit(self.records, number) for number in numbers}
        candidates = {number: edit for number, edit in candidates.items() if edit and edit.kind in kinds}
        candidates = {number: edit for number, edit in candidates.items()
                      if not edit.inserts or not partial and (edit.line in lines or not lines)}
        if not candidates:
            return []
        tried = sorted(candidates, key=lambda number: (*rank(candidates[number], lines), number))[:MOST_TRIED]
        records = self.rerun(self.cases, edits=tried)
        places, before = {}, {j for j in range(len(self.answer_key.exercise.outputs)) if j not in self.wrong_outputs()}
        for position, number in enumerate(tried):
            edit = read_edit(records, number)
            right = {j for j, ok in enumerate(self.right_outputs(records, self.cases, self.expected, position)) if ok}
            if edit and before < right and (partial or len(right) == len(self.answer_key.exercise.outputs)):
                places.setdefault((edit.line, edit.text), (-len(right), rank(edit, lines)[:2], edit, right - before))
        if not places:
            return []
        best = min(quality for *quality, _, _ in places.values())
        chosen = [(edit, made_right) for *quality, edit, made_right in places.values() if quality == best]
        is_guess = best[1][0]                   # another name or an insertion: one place is enough
        names = self.answer_key.exercise.outputs
        made_right = [names[j] for j in sorted(chosen[0][1])] if len(before | chosen[0][1]) < len(names) else []
        return about_places([edit for edit, _ in chosen][:1 if is_guess or made_right else 2], made_right)

    def edits_to_a_multiple(self, numbers, kinds):
        """Returns a Message about an edit that makes all wrong outputs a multiple of the correct ones in all cases, or [].

        An answer with two mistakes may need this edit and a factor. An output that is a multiple without it needs no place.
        """
        seen = self.observations[self.smallest].outputs
        pairs = [(fingerprint(seen[j]), fingerprint(self.expected[self.smallest].outputs[j]))
                 for j in self.wrong_outputs() if seen and numbers]
        if any(yours and is_multiple(np.array(yours, float), np.array(right, float)) for yours, right in pairs):
            return []
        edits = {number: read_edit(self.records, number) for number in numbers}
        edits = {number: edit for number, edit in edits.items()
                 if edit and edit.kind in kinds and edit.kind in (STEPS if edit.inserts else CERTAIN)}
        tried = sorted(edits, key=lambda number: (*rank(edits[number], set()), number))[:MOST_TRIED]
        records = self.rerun(self.cases, edits=tried) if tried else []
        for position, number in enumerate(tried):
            relations = self.multiples(records, position)
            if relations:
                names = self.answer_key.exercise.outputs
                wrong = [names[j] for j in self.wrong_outputs()]
                return [Message(DIAGNOSIS, said=about_edit("multiple", edits[number], names=listed(wrong), relation=Message(
                    relations[0].kind, **relations[0].values, n=len(wrong))))]
        return []

    def multiples(self, records, position):
        """Returns the Messages about the factor of each wrong output of an edited program; [] if not all have the same."""
        pairs = [[] for _ in self.answer_key.exercise.outputs]
        for key, start in ((self.answer_key, 0), (self.fresh, len(self.answer_key.main_cases))):
            answers = []
            for i, (case, expected) in enumerate(zip(key.main_cases, key.expected), position * len(self.cases) + start):
                outputs, _, report = read_case(records, case, i, len(expected.outputs))
                if "error" in report or len(outputs) != len(pairs) or any(y is None for y in outputs):
                    return []
                answers.append(Observation(tuple(outputs)))
            for group, more in zip(pairs, make_pairs(key, answers)):
                group += more
        wrong = self.wrong_outputs()
        if not all(p.fine for j, group in enumerate(pairs) if j not in wrong for p in group):
            return []
        relations = [multiple(pairs[j]) for j in wrong]
        return relations if relations[0] and relations[0].kind != DEPENDS and len(set(relations)) == 1 else []

    def right_outputs(self, records, cases, expected, position):
        """Returns for each output whether it is right in all cases.

        Parameters:
            expected : an Observation for each case
            position : of the program that ran on these cases, among those whose results were sent
        """
        right = [True] * len(self.answer_key.exercise.outputs)
        for i, (case, correct) in enumerate(zip(cases, expected)):
            outputs, _, report = read_case(records, case, position * len(cases) + i, len(correct.outputs))
            if "error" in report or len(outputs) != len(right):
                return [False] * len(right)
            right = [ok and yours is not None and is_close(yours, y, correct.outputs) and not unlike(yours.dtype, y.dtype)
                     for ok, yours, y in zip(right, outputs, correct.outputs)]
        return right

    @functools.cached_property
    def known(self):
        """The SolutionValues of the answer key, which all answers share."""
        if self.answer_key not in SOLUTION_VALUES:
            SOLUTION_VALUES[self.answer_key] = SolutionValues(self.answer_key.exercise, self.cases)
        return SOLUTION_VALUES[self.answer_key]

    @functools.cached_property
    def traced(self):
        """The Values of the student's lines, a Comparison with each solution, and (line, nodes) of each output.

        Solutions with few values in common with the student's lines go another way, and are left out.
        """
        nodes, roots = read_nodes(self.records)
        values = Values(self.known, nodes, read_values(self.records))
        comparisons = [Comparison(values, solution) for solution in self.known.solutions]
        most = max(len(comparison.right) for comparison in comparisons)
        return values, [comparison for comparison in comparisons if len(comparison.right) >= RESEMBLING * most], roots

    @property
    def wrong_roots(self):
        """(line, nodes that feed it) of each wrong output."""
        _, _, roots = self.traced
        return [roots[j] for j in self.wrong_outputs()] if len(roots) == len(self.answer_key.exercise.outputs) else roots

    @functools.cached_property
    def visited(self):
        """The nodes that were run in every wrong case: about other ones, these cases say nothing."""
        values, *_ = self.traced
        wrong = [i for i, answer in enumerate(self.observations) if not self.answer_key.is_right(i, answer)]
        return {number for number, rows in values.rows.items() if rows.keys() >= {*wrong}}

    def suspicious_lines(self):
        """Returns the lines in which a value occurs in no correct solution before any other does."""
        values, comparisons, _ = self.traced
        return {values.nodes[number].line for comparison in comparisons
                for number in comparison.first_wrong(all_of(self.wrong_roots))}

    def wrong_outputs(self):
        """Returns the indices of the outputs that are wrong in some case; all of them if there was an error."""
        every = range(len(self.answer_key.exercise.outputs))
        pairs = [*zip(self.observations, self.answer_key.expected)]
        if any(observation.error for observation, _ in pairs):
            return every
        return [j for j in every if not all(is_close(seen.outputs[j], right.outputs[j], right.outputs)
                                            for seen, right in pairs)]


def other_indices(answer_key, run):
    """Returns a Message about indices that are too large for an array, but fit the same axis of an output.

    An example is a gradient that is read at the places where it should be added.
    """
    failed = [(result.report, expected.outputs) for result, expected in zip(run.results, answer_key.expected)
              if reported(result.report, "error")]
    bad_indices = [(out_of_bounds(report), outputs) for report, outputs in failed]
    for j, name in enumerate(answer_key.exercise.outputs):
        if bad_indices and all(numbers and fits(numbers, outputs[j]) for numbers, outputs in bad_indices):
            (index, axis, size), outputs = bad_indices[0]
            said = Message("places.index.other_output", line=int(failed[0][0]["line"]), index=index, axis=axis, size=size,
                           name=name, length=outputs[j].shape[axis])
            return [Message(DIAGNOSIS, said=said)]
    return []


def out_of_bounds(report):
    """Returns index, axis and size in NumPy's error about an index that is too large, in a line of the student's; or ()."""
    match = OUT_OF_BOUNDS.match(reported(report, "error"))
    return tuple(map(int, match.groups())) if match and reported(report, "line").isdecimal() else ()


def fits(numbers, output):
    """Returns True if this output is long enough for an index that was too large for another array."""
    index, axis, size = numbers
    return output.ndim > axis and output.shape[axis] > index >= size



def has_fingerprint(row, right):
    """Returns True if a fingerprint of an output is that of the expected one."""
    return bool(same_shape(right[None], row)[0] and same_sums(right[None], row)[0] and row[BAD] == right[BAD])


def is_multiple(row, right):
    """Returns True if a fingerprint of an output with several entries is that of a multiple of the expected one."""
    if not same_shape(right[None], row)[0] or row[BAD] or right[BAD] or np.prod(right[SHAPE:SHAPE + int(right[AXES])]) < 2:
        return False
    factor = np.vdot(right[PROJECTED:], row[PROJECTED:]) / max(np.vdot(right[PROJECTED:], right[PROJECTED:]), 1e-300)
    scaled = np.append(abs(factor) * right[TOTAL], factor * right[PROJECTED:])
    return bool(factor and np.all(abs(row[TOTAL:] - scaled) <= CLOSE * scaled[0]))


def rank(edit, lines):
    """Changes come before other names and insertions, then suspicious lines before others, then short parts."""
    return edit.inserts or edit.kind in ("name", "names"), edit.line not in lines, len(edit.text)


def about_places(edits, made_right=()):
    """Returns Messages about the places where one change makes outputs right. They do not say which change.

    Parameters:
        made_right : names of the outputs that it makes right, if others stay wrong; empty: all
    """
    first, *others = edits
    others = [other for other in others if other.line != first.line][:1]
    about = about_edit("some" if made_right else "first", first, names=listed(made_right) if made_right else "")
    return [Message(DIAGNOSIS, said=about), *(about_edit("other", other) for other in others)]


def about_edit(key, edit, **values):
    """Returns the Message about the place of an edit, and about the kind of thing that is wrong there."""
    is_addition = edit.inserts and edit.kind in ADDING
    place = Message("places.place.part_of" if edit.around else "places.place.part", part=shortened(edit.text),
                    expression=shortened(edit.around))
    return Message(f"places.edit.{key}", line=edit.line, place=place,
                   what=Message(f"places.{'missing' if is_addition else 'what'}.{edit.kind}"), **values)
