"""Judges what a submission returned: checks in a fixed order, the first one that fails, and its explanation."""

import difflib
from dataclasses import dataclass, replace

import numpy as np

from ...texts import Message, listed, render
from ..exercises.further_cases import FURTHER
from ..exercises.observation import changed, same_array
from .comparison import close, compare_shapes, difference, first_wrong_output, is_close, unlike
from .messages import (DIAGNOSIS, NO_NAME, REMEDY, about_case, about_count, about_error, about_helper, about_mistakes,
                       about_order, about_parameters, about_type, reported, without_equal_alternatives)
from .relations import explains_everything, relations
from .relations.arguments import unused

SEQUENCES = "list", "tuple", "range", "MaskedArray", "matrix"       # types that NumPy can convert to arrays
WRONG_VALUES = "error", "type", "shape", "finite", "values"          # stages at which a mistake may be anywhere in the code
OWN_ARGUMENT = Message("verdict.further.own_argument")
PERHAPS_KEPT = Message("verdict.further.perhaps_kept")
STATUS = ("pass", "fail", "todo", "error", "timeout", "memory", "missing")


@dataclass
class Verdict:
    """The result of one exercise of one student."""

    status: str
    stage: str = ""                             # the first check that failed
    note: Message | str = ""                    # what is wrong, for the teacher's table
    lines: tuple = ()                           # the explanation for the student, a tuple of Messages
    mistakes: tuple = ()                        # names of known mistakes: a tuple for each possible explanation
    right: bool = False                         # True if all values are correct

    @property
    def failed_first(self):
        """The first check that failed; "" if the status says as much."""
        return "" if self.stage.lower() == self.status else self.stage

    @property
    def explained(self):
        return bool(self.mistakes or self.diagnoses)

    @property
    def diagnoses(self):
        """Messages that say what a wrong answer without a name does, or where its mistake is."""
        return [line.values["said"] for line in self.lines if line.kind == DIAGNOSIS]

    def without_remedies(self):
        """Returns the Verdict without the remedies of known mistakes, as a student reads it first."""
        return replace(self, lines=tuple(line for line in self.lines if line.kind != REMEDY))

    @property
    def sentences(self):
        """The explanation in the chosen language."""
        return [render(line) for line in self.lines or filter(None, [self.note])]

    def points(self, most):
        """Returns all points for a pass, and half of them, rounded down, if only the values are correct."""
        if self.status == "pass":
            return most
        return most // 2 if self.right else 0


def judge(answer_key, run):
    """Returns the Verdict on a ProgramRun of the answer key's cases."""
    with np.errstate(all="ignore"):
        for check in CHECKS:
            verdict = check(answer_key, run)
            if verdict:
                return verdict
    return Verdict("pass", lines=remarks(answer_key, run), right=True)


def is_unexplained(answer_key, verdict):
    """Returns True for wrong values without a name, in an exercise whose answer is a program: localize.py may help."""
    exercise = answer_key.exercise
    can_be_run = answer_key.expected and not exercise.hides_answers and exercise.judge is None
    return bool(can_be_run) and verdict.status in ("fail", "error") and verdict.stage in WRONG_VALUES and not (
        verdict.mistakes or verdict.right)


def remarks(answer_key, run):
    """Returns Messages about a correct answer: outputs that are float32 although the arguments are float64."""
    if answer_key.exercise.judge or not any(y.dtype == np.float64 for y in answer_key.cases[0].arrays()):
        return ()
    returned = zip(answer_key.exercise.outputs, run.results[0].outputs, first_expected(answer_key))
    rounded = [name for name, yours, right in returned
               if right.dtype == np.float64 and yours.dtype == np.float32 and right.ndim]
    return (Message("verdict.remark.float32", n=len(rounded), names=listed(rounded)),) if rounded else ()


def check_loading(answer_key, run):
    name = answer_key.exercise.name
    stage = run.report.get("stage")
    if stage == "import":
        status = "error"
        if run.ended == "memory":
            status = "memory"
        elif reported(run.report, "kind") == "NotImplementedError":
            status = "todo"
        return Verdict(status, "import", Message("verdict.loading.import", error=about_error(run.report)))
    if stage == "name":
        names = reported(run.report, "names", list)
        similar = difflib.get_close_matches(name, names, 1)
        key = "other_names" if names else "no_names"
        if similar:
            key = "similar_name"
        return Verdict("error", "name", Message(f"verdict.loading.{key}", name=name, similar="".join(similar),
                                                names=", ".join(names)[:200]))
    if stage == "arguments":
        exercise = answer_key.exercise
        return Verdict("error", "arguments", Message("verdict.loading.arguments", number=exercise.number,
                                                     parameters=about_parameters(exercise, run.report)))


def check_ending(answer_key, run):
    if run.ended == "timeout":
        key = "stopped_in_line" if run.line else "stopped"
        return Verdict("timeout", "time", Message(f"verdict.ending.{key}", seconds=run.seconds, line=run.line))
    if run.ended == "memory":
        return Verdict("memory", "memory", Message("verdict.ending.memory"))
    kinds = [result.report.get("kind") for result in run.results]
    if "NotImplementedError" in kinds:
        return Verdict("todo", "TODO", Message("verdict.ending.todo"))
    silent = [i for i, result in enumerate(run.results) if not result.report]
    if silent:
        note = Message("verdict.ending.ended", code=run.code)
        return Verdict("error", "ended", note, (*about_case(answer_key, silent[0]), note))


def check_errors(answer_key, run):
    for i, error, said in errors(answer_key, run):
        if answer_key.cases[i].role not in FURTHER:
            return diagnose(answer_key, run, "error", error, about_case(answer_key, i), said)


def errors(answer_key, run):
    """Yields the number of each case that ended with an error, the Message about it, and all Messages about it."""
    for i, result in enumerate(run.results):
        if "error" in result.report:
            error = about_error(result.report, answer_key.exercise.paths)
            yield i, error, tuple(filter(None, [error, about_helper(result.report)]))


def check_types(answer_key, run):
    exercise = answer_key.exercise
    names = exercise.outputs
    for result in run.results:
        if "error" in result.report:            # in a further case
            continue
        kinds = reported(result.report, "kinds", list)
        if len(kinds) != len(names) or len(result.outputs) != len(names):
            return Verdict("fail", "type", about_count(exercise, kinds))
        for wrong, kind, name in zip(result.outputs, kinds, names):
            if wrong is None or kind in SEQUENCES and not exercise.hides_answers:
                return Verdict("fail", "type", about_type(exercise, name, kind))
        for wrong, right, name in zip(result.outputs, first_expected(answer_key), names):
            matters = right.dtype == bool or not exercise.hides_answers
            if wrong.size and matters and unlike(wrong.dtype, right.dtype):
                note = Message("verdict.type.dtype", name=name, dtype=str(wrong.dtype), expected=str(right.dtype))
                verdict = diagnose(answer_key, run, "type", note)
                if has_right_values(answer_key, run, names.index(name)):
                    only = Message(DIAGNOSIS, said=Message("verdict.type.right_values", name=name, expected=str(right.dtype)))
                    verdict = replace(verdict, lines=(*verdict.lines, only))
                return verdict


def has_right_values(answer_key, run, j):
    """Returns True if output j has the right shape and values in all main cases."""
    pairs = zip(run.results, answer_key.expected)
    return all(len(result.outputs) > j and result.outputs[j] is not None
               and is_close(result.outputs[j], expected.outputs[j], expected.outputs) for result, expected in pairs)


def first_expected(answer_key):
    return answer_key.expected[0].outputs if answer_key.expected else ()


def check_shapes(answer_key, run):
    exercise = answer_key.exercise
    if exercise.judge:
        return
    for i, (result, expected) in enumerate(zip(run.results, answer_key.expected)):
        for name, wrong, right in zip(exercise.outputs, result.outputs, expected.outputs):
            if wrong.shape != right.shape:
                note = Message("verdict.shape.wrong", name=name, shape=str(wrong.shape), expected=str(right.shape),
                               difference=compare_shapes(wrong.shape, right.shape))
                if right.dtype.kind == "i" and max(wrong.size, right.size) <= 12 and not exercise.hides_answers:
                    note = Message("verdict.shape.wrong_with_entries", **note.values, entries=str(wrong.tolist()),
                                   expected_entries=str(right.tolist()))
                return diagnose(answer_key, run, "shape", note, about_case(answer_key, i))


def check_values(answer_key, run):
    exercise = answer_key.exercise
    if exercise.judge:
        complaint = exercise.judge(*run.results[0].outputs)
        return diagnose(answer_key, run, "values", complaint) if complaint else None
    wrong_output = first_wrong_output(answer_key, run)
    return describe_difference(answer_key, run, *wrong_output) if wrong_output else None


def check_further_errors(answer_key, run):
    """Errors in further cases, if the main cases are right. A mistake that shows only there has no name."""
    for i, error, said in errors(answer_key, run):
        asked = [PERHAPS_KEPT] * (answer_key.cases[i].role == "other")
        return Verdict("error", "error", error, (*about_case(answer_key, i), *said, *asked))


def check_other_sizes(answer_key, run):
    """Compares what is returned for very small and very large numbers. A mistake that shows only there has no name."""
    found = first_wrong_output(answer_key, run, "size")
    if found:
        i, j, wrong, _ = found
        note, said = difference(answer_key, run, i, j, wrong)
        return Verdict("fail", "sizes", note, (Message("verdict.further.sizes"), *about_case(answer_key, i), *said))


def check_other_values(answer_key, run):
    """Compares what is returned for other values of the same shapes: programs that keep results return earlier ones."""
    found = first_wrong_output(answer_key, run, "other")
    if found:
        i, j, wrong, _ = found
        note, said = difference(answer_key, run, i, j, wrong)
        if any(all(map(same_array, run.results[i].outputs, earlier.outputs)) for earlier in run.results[:i]):
            note = Message("verdict.further.kept")
        said = (note,) if note.kind == "verdict.further.kept" else (*said, PERHAPS_KEPT)
        return Verdict("fail", "repeated", note, (*about_case(answer_key, i), *said))


def check_functions(answer_key, run):
    """Compares what is returned if functions return their own argument, so that changing the one changes the other."""
    found = first_wrong_output(answer_key, run, "functions")
    if found:
        i, j, wrong, _ = found
        note, said = difference(answer_key, run, i, j, wrong)
        return Verdict("fail", "functions", note, (*about_case(answer_key, i), *said, OWN_ARGUMENT))


def describe_difference(answer_key, run, i, j, wrong, stage):
    """Returns the Verdict on output j of case i, whose entries are wrong where `wrong` is True."""
    note, said = difference(answer_key, run, i, j, wrong)
    return diagnose(answer_key, run, stage, note, about_case(answer_key, i), said)


def diagnose(answer_key, run, stage, note, where=(), said=None, right=False):
    """Returns the Verdict of a failed check, with known mistakes or relations that explain the answer.

    Parameters:
        where : Messages about the case
        said : Messages about what was found there; None: only the note
    """
    explanation, names = explain(answer_key, run, right)
    status = "error" if stage == "error" else "fail"
    return Verdict(status, stage, note, (*where, *([note] if said is None else said), *explanation), names, right)


def explain(answer_key, run, right=False):
    """Returns Messages that explain a wrong answer, and the names of the known mistakes in each possible explanation.

    Parameters:
        right : True if all values are correct, so that there is no relation between wrong and correct ones
    """
    exercise = answer_key.exercise
    answers = answer_key.answers(run)
    order = about_order(exercise, run.report)
    if order:
        return [Message(DIAGNOSIS, said=order)], ()
    identified = name_mistakes(answer_key, answers)
    if identified:
        names = tuple(tuple(mistake.name for mistake in mistakes) for mistakes in identified)
        wrong = sum(not answer_key.is_right(i, answer) for i, answer in enumerate(answers)) if answer_key.expected else 1
        return about_mistakes(identified, wrong, len(answers)), names
    if right or exercise.hides_answers:         # a relation would give the answer away
        return [], ()
    sentences, facts = relations(answer_key, answers)
    sentences = sentences or list(filter(None, [unused(answer_key, run.results)]))
    return [NO_NAME, *(Message(DIAGNOSIS, said=sentence) for sentence in sentences), *facts], ()


def name_mistakes(answer_key, answers):
    """Returns the combinations of known mistakes that explain what a program did in the main cases.

    Several mistakes in one output are not named if it is the correct output times a number, or the like: one wrong
    operator is one mistake.
    """
    identified = answer_key.identify(answers)
    several = [mistakes for mistakes in identified if len(mistakes) > 1]
    if any(map(answer_key.touch_the_same_output, several)) and explains_everything(answer_key, answers):
        return []
    return without_equal_alternatives(identified)


def check_arguments_unchanged(answer_key, run):
    for number, (case, result) in enumerate(zip(answer_key.cases, run.results)):
        for i in changed(case.arrays(), result.after):
            note = Message("verdict.right_values.changed", argument=answer_key.exercise.labels(case)[i])
            if case.role == "functions":
                lines = *about_case(answer_key, number), note, OWN_ARGUMENT
                return Verdict("fail", "arguments changed", note, lines, right=True)
            return diagnose(answer_key, run, "arguments changed", note, right=True)
        names = answer_key.exercise.argument_names(case)
        altered = [names[int(place)] for place in reported(result.report, "changed", list)
                   if place.isdecimal() and int(place) < len(names)]
        if altered:                             # not an array, but a list, its order, or what it consists of
            note = Message("verdict.right_values.changed", argument=altered[0])
            return Verdict("fail", "arguments changed", note, right=True)


def check_second_call(answer_key, run):
    for case, result in zip(answer_key.cases, run.results):
        if case.role == "again" and not all(map(same_array, result.outputs, run.results[0].outputs)):
            return Verdict("fail", "repeated", Message("verdict.right_values.repeated"), right=True)


def check_results_kept(answer_key, run):
    """Finds arrays that a later call has changed: a program that returns an array which it uses again."""
    names = answer_key.exercise.outputs
    for result in run.results:
        changed_later = [names[int(place)] for place in reported(result.report, "overwritten", list)
                         if place.isdecimal() and int(place) < len(names)]
        if changed_later:
            note = Message("verdict.right_values.overwritten", name=changed_later[0])
            return Verdict("fail", "repeated", note, right=True)


def check_float32(answer_key, run):
    for case, result in zip(answer_key.cases, run.results):
        if case.role != "float32":
            continue
        expected = answer_key.expected[0].outputs
        for name, yours, right in zip(answer_key.exercise.outputs, result.outputs, expected):
            if yours.shape != right.shape or not close(yours, np.asarray(right, float), expected, single=True).all():
                return Verdict("fail", "float32", Message("verdict.right_values.float32", name=name), right=True)
            if right.ndim and right.dtype == np.float64 and yours.dtype != np.float32:
                note = Message("verdict.right_values.dtype", name=name, dtype=str(yours.dtype))
                return Verdict("fail", "float32", note, right=True)


CHECKS = (check_loading, check_ending, check_errors, check_types, check_shapes, check_values, check_further_errors,
          check_other_values, check_other_sizes, check_functions, check_arguments_unchanged, check_results_kept,
          check_second_call, check_float32)
