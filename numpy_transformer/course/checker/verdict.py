"""Judges what a submission returned: checks in a fixed order, the first one that fails, and its explanation."""

import difflib
import math
from dataclasses import dataclass

import numpy as np

from ...texts import render
from ..exercises.observation import changed, same
from .comparison import close, compare_arrays, compare_shapes, precision, show_entry, unlike
from .explanation import explain
from .wording import case_line, explain_call, explain_error, explain_parameters, reported, wrong_count, wrong_type

SEQUENCES = "list", "tuple", "range", "MaskedArray", "matrix"       # types that NumPy can convert to arrays
STATUS = ("pass", "fail", "todo", "error", "timeout", "memory", "missing")


@dataclass
class Verdict:
    """The result of one exercise of one student."""

    status: str
    stage: str = ""                             # the first check that failed
    note: str = ""                              # one line for the teacher's table
    lines: tuple = ()                           # the explanation for the student
    mistakes: tuple = ()                        # names of the known mistakes that explain the answer
    right: bool = False                         # True if all values are correct

    @property
    def failed_first(self):
        """The first check that failed, in parentheses; "" if the status says as much."""
        return f" ({self.stage})" if self.stage.lower() not in ("", self.status) else ""

    @property
    def explained(self):
        return any(line.startswith("DIAGNOSIS") for line in self.lines)

    def points(self, most):
        """Returns all points for a pass, and half of them, rounded down, if only the values are correct."""
        if self.status == "pass":
            return most
        return most // 2 if self.right else 0


def judge(answer_key, run):
    """Returns the Verdict on a Run of the answer key's cases."""
    with np.errstate(all="ignore"):
        for check in CHECKS:
            verdict = check(answer_key, run)
            if verdict:
                return verdict
    return Verdict("pass", lines=remarks(answer_key, run), right=True)


def remarks(answer_key, run):
    """Returns lines about a correct answer: outputs that are float32 although the arguments are float64."""
    if answer_key.exercise.judge or not any(y.dtype == np.float64 for y in answer_key.cases[0].arrays()):
        return ()
    returned = zip(answer_key.exercise.outputs, run.results[0].outputs, first_expected(answer_key))
    rounded = [name for name, yours, right in returned
               if right.dtype == np.float64 and yours.dtype == np.float32 and right.ndim]
    if not rounded:
        return ()
    verb = "is" if len(rounded) == 1 else "are"
    return (f"Correct, but {' and '.join(rounded)} {verb} float32 for float64 arguments, which loses half of the "
            "digits. Keep the dtype of the arguments.",)


def check_loading(answer_key, run):
    name = answer_key.exercise.name
    stage = run.report.get("stage")
    if stage == "import":
        error = reported(run.report, "error")
        status = "error"
        if run.ended == "memory":
            status = "memory"
        elif error.startswith("NotImplementedError"):
            status = "todo"
        return Verdict(status, "import", f"The file cannot be loaded: {error}{explain_error(error)}")
    if stage == "name":
        names = reported(run.report, "names", list)
        similar = difflib.get_close_matches(name, names, 1)
        hint = f"did you mean {similar[0]}?" if similar else f"it defines {', '.join(names)[:200] or 'nothing'}"
        return Verdict("error", "name", f"The file defines no function or class {name} ({hint}). Keep the name that "
                                        "the exercise gives.")
    if stage == "arguments":
        number = answer_key.exercise.number
        return Verdict("error", "arguments", f"{explain_parameters(answer_key.exercise, run.report)} To start again "
                                             "from a new file, and keep yours as .bak, run numpy-transformer exercise "
                                             f"reset {number}")


def check_ending(answer_key, run):
    if run.ended == "timeout":
        place = f"; shortly before, it was in line {run.line}" if run.line else ""
        return Verdict("timeout", "time", f"The program was stopped after {run.seconds:.3g} seconds{place}. Does a "
                                          "loop never end, or is the code very slow?")
    if run.ended == "memory":
        return Verdict("memory", "memory", "The program used more memory than is allowed. No exercise needs large "
                                           "arrays.")
    kinds = [result.report.get("kind") for result in run.results]
    if "NotImplementedError" in kinds:
        return Verdict("todo", "TODO", "Not written yet: the code still raises NotImplementedError.")
    silent = [i for i, result in enumerate(run.results) if not result.report]
    if silent:
        note = f"The program ended early (exit code {run.code}). Remove exit() and similar calls."
        return Verdict("error", "ended", note, (*case_line(answer_key, silent[0]), note))


def check_errors(answer_key, run):
    for i, result in enumerate(run.results):
        if "error" in result.report:
            error = reported(result.report, "error")
            error += explain_error(error, answer_key.exercise.paths)
            call = explain_call(result.report)
            return diagnose(answer_key, run, "error", error, case_line(answer_key, i), (error, *call))


def check_types(answer_key, run):
    exercise = answer_key.exercise
    names = exercise.outputs
    for result in run.results:
        kinds = reported(result.report, "kinds", list)
        if len(kinds) != len(names) or len(result.outputs) != len(names):
            return Verdict("fail", "type", wrong_count(exercise, kinds))
        for wrong, kind, name in zip(result.outputs, kinds, names):
            if wrong is None or kind in SEQUENCES and not exercise.hides_answers:
                return Verdict("fail", "type", f"{name} is {wrong_type(exercise, kind)}")
        for wrong, right, name in zip(result.outputs, first_expected(answer_key), names):
            matters = right.dtype == bool or not exercise.hides_answers
            if wrong.size and matters and unlike(wrong.dtype, right.dtype):
                note = f"{name} is an array of {wrong.dtype}; expected {right.dtype}"
                return diagnose(answer_key, run, "type", note)


def first_expected(answer_key):
    return answer_key.expected[0].outputs if answer_key.expected else ()


def check_shapes(answer_key, run):
    exercise = answer_key.exercise
    if exercise.judge:
        return
    for i, (result, expected) in enumerate(zip(run.results, answer_key.expected)):
        for name, wrong, right in zip(exercise.outputs, result.outputs, expected.outputs):
            if wrong.shape != right.shape:
                difference = compare_shapes(wrong.shape, right.shape)
                note = f"{name} has shape {wrong.shape}, expected {right.shape}; {difference}"
                short = right.dtype.kind == "i" and max(wrong.size, right.size) <= 12
                if short and not exercise.hides_answers:
                    note += f"; yours {wrong.tolist()}, expected {right.tolist()}"
                return diagnose(answer_key, run, "shape", note, case_line(answer_key, i))


def check_values(answer_key, run):
    exercise = answer_key.exercise
    if exercise.judge:
        complaint = exercise.judge(*run.results[0].outputs)
        return diagnose(answer_key, run, "values", render(complaint)) if complaint else None
    found = first_wrong_output(answer_key, run)
    return describe_difference(answer_key, run, *found) if found else None


def first_wrong_output(answer_key, run):
    """Returns (case, output, where its entries are wrong, stage) of the first wrong output, or None.

    The first two are indices. NaN and infinity come first.
    """
    for stage in ("finite", "values"):
        for i, (result, expected) in enumerate(zip(run.results, answer_key.expected)):
            for j in range(len(answer_key.exercise.outputs)):
                yours, right = np.asarray(result.outputs[j], float), np.asarray(expected.outputs[j], float)
                if stage == "finite":
                    wrong = np.isfinite(right) & ~np.isfinite(yours)
                else:
                    wrong = ~close(result.outputs[j], right, expected.outputs)
                if wrong.any():
                    return i, j, wrong, stage
    return None


def describe_difference(answer_key, run, i, j, wrong, stage):
    """Returns the Verdict on output j of case i, whose entries are wrong where `wrong` is True."""
    name, returned = answer_key.exercise.outputs[j], run.results[i].outputs[j]
    all_expected = answer_key.expected[i].outputs
    expected = np.asarray(all_expected[j])
    yours, right = np.asarray(returned, float), np.asarray(expected, float)
    if answer_key.exercise.hides_answers:
        value = f"{yours + 0.0:.6g}" if yours.ndim == 0 else yours.tolist()
        return diagnose(answer_key, run, stage, f"{name} is wrong", case_line(answer_key, i),
                        (f"{name}: yours is {value}",))
    error = np.where(wrong, np.nan_to_num(abs(yours - right), nan=np.inf), -1)
    index = tuple(map(int, np.unravel_index(np.argmax(error), right.shape)))
    entry = f"{name}{list(index)}" if index else name
    kind = expected.dtype.kind
    shown, wanted = show_entry(yours[index], kind), show_entry(right[index], kind)
    note = f"{entry} is {shown}, expected {wanted}"
    which = f"worst entry {list(index)}" if kind == "f" else f"entry {list(index)}"
    lines = [f"{f'{name}, {which}' if index else name}: yours {shown}, expected {wanted}"]
    lines += [f"{name}, whole array: {distance}" for distance in compare_arrays(yours, expected)]
    lines += [f"{name} {words}." for words in filter(None, [precision(returned, expected, all_expected)])]
    lines += broken_invariants(answer_key, run, i)
    return diagnose(answer_key, run, stage, note, case_line(answer_key, i), lines)


def broken_invariants(answer_key, run, i):
    """Returns a sentence for each invariant of the exercise that the outputs of case i break."""
    found = []
    for sentence, measure in answer_key.exercise.invariants:
        try:
            size = float(np.max(abs(measure(answer_key.main_cases[i].inputs, run.results[i].outputs)), initial=0))
        except Exception:                       # an invariant is written for correct answers and may fail on others
            continue
        if 1e-6 < size < math.inf:
            found.append(f"{sentence}; yours are off by up to {size:.2g}")
    return found


def diagnose(answer_key, run, stage, note, where=(), lines=None, right=False):
    """Returns the Verdict of a failed check, with known mistakes or relations that explain the answer.

    Parameters:
        where : lines that describe the case
        lines : lines that describe what was found there; None: only the note
    """
    explanation, names = explain(answer_key, run, right)
    status = "error" if stage == "error" else "fail"
    return Verdict(status, stage, note, (*where, *(lines or [note]), *explanation), names, right)


def check_arguments_unchanged(answer_key, run):
    for case, result in zip(answer_key.cases, run.results):
        for i in changed(case.arrays(), result.after):
            note = (f"The values are correct, but {answer_key.exercise.labels(case)[i]} was changed in place. Do not "
                    "modify the arguments.")
            return diagnose(answer_key, run, "arguments changed", note, right=True)


def check_second_call(answer_key, run):
    for case, result in zip(answer_key.cases, run.results):
        if case.role == "again" and not all(map(same, result.outputs, run.results[0].outputs)):
            return Verdict("fail", "repeated", "A second call with the same arguments gave a different result. Do not "
                           "keep values between calls, and do not draw random numbers.", right=True)


def check_float32(answer_key, run):
    for case, result in zip(answer_key.cases, run.results):
        if case.role != "float32":
            continue
        expected = answer_key.expected[0].outputs
        for name, yours, right in zip(answer_key.exercise.outputs, result.outputs, expected):
            if yours.shape != right.shape or not close(yours, np.asarray(right, float), expected, single=True).all():
                return Verdict("fail", "float32", f"{name} is correct in float64 but wrong in float32.", right=True)
            if right.ndim and right.dtype == np.float64 and yours.dtype != np.float32:
                return Verdict("fail", "float32", f"{name} is {yours.dtype} for float32 arguments. np.zeros(shape), "
                               "np.arange(n), np.sqrt(number), and dividing by a mask or its sum give float64. "
                               "np.zeros_like, math.sqrt, int(...) and .astype(x.dtype) keep float32.", right=True)


CHECKS = (check_loading, check_ending, check_errors, check_types, check_shapes, check_values, check_arguments_unchanged,
          check_second_call, check_float32)
