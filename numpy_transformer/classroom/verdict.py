"""From what came back to a verdict: the stages in their fixed order, the first that fails, and what is said of it."""

import difflib
import math
import re
from dataclasses import dataclass

import numpy as np

from .diagnosis import relations
from .exercise import Observation, changed, same

LISTS = "list", "tuple", "range", "MaskedArray", "matrix"        # NumPy could make arrays of these
NO_ARRAYS = {"NoneType": "None; is a return missing?", "ndarray": "an array, but not one of real numbers"}
STATUS = ("pass", "fail", "todo", "error", "timeout", "memory", "missing")


@dataclass
class Verdict:
    """One exercise of one student."""

    status: str
    stage: str = ""                             # the first that failed
    note: str = ""                              # one line
    lines: tuple = ()                           # to the student
    mistakes: tuple = ()                        # their names, where they are known
    right: bool = False                         # all values are right

    @property
    def explained(self):
        return any(line.startswith("DIAGNOSIS") for line in self.lines)

    def points(self, most):
        """All for a pass; half, rounded down, where values are right but an argument was changed or the like."""
        return most if self.status == "pass" else most // 2 if self.right else 0


def judge(library, run):
    """The verdict on a Run of the cases of this library."""
    stages = (loading, ending, raising, returning, shaping, valuing, keeping, repeating, narrowing)
    with np.errstate(all="ignore"):
        return next(filter(None, (stage(library, run) for stage in stages)), Verdict("pass", right=True))


def told(said, key, kind=str):
    """What the child said under this key; what is of another kind than it should be counts as unsaid."""
    return said[key] if isinstance(said.get(key), kind) else kind()


def loading(library, run):
    exercise, said = library.exercise, run.said
    if said.get("stage") == "import":
        error = told(said, "error").replace("(submission.py, line", "(line")
        status = "memory" if run.ended == "memory" else "todo" if error.startswith("NotImplementedError") else "error"
        return Verdict(status, "import", f"cannot be loaded: {error}{remark(error)}")
    if said.get("stage") == "name":
        names = told(said, "names", list)
        near = difflib.get_close_matches(exercise.name, names, 1)
        hint = f"perhaps {near[0]}" if near else f"it defines {', '.join(names)[:200] or 'nothing'}"
        return Verdict("error", "name", f"the file defines no function or class {exercise.name} ({hint}); keep the name of "
                                        "the skeleton")
    if said.get("stage") == "arguments":
        return Verdict("error", "arguments", f"{exercise.name} does not take the arguments of the skeleton: "
                                             f"{told(said, 'error')}")


def ending(library, run):
    if run.ended == "timeout":
        return Verdict("timeout", "time", f"stopped after {run.seconds:.3g} seconds; does a loop never end, or is it slow?")
    if run.ended == "memory":
        return Verdict("memory", "memory", "took more memory than is allowed; what is large here need not be")
    kinds = [case.said.get("kind") for case in run.cases]
    if "NotImplementedError" in kinds:
        return Verdict("todo", "TODO", "not written yet: there is still a NotImplementedError")
    silent = [i for i, case in enumerate(run.cases) if not case.said]
    if silent:
        note = f"the program ended by itself (exit code {run.code}); leave out exit and the like"
        return Verdict("error", "ended", note, (*place(library, silent[0]), note))


def raising(library, run):
    for i, came in enumerate(run.cases):
        if "error" in came.said:
            error = told(came.said, "error")
            return diagnosed(library, run, "error", error + remark(error), place(library, i))


REMARKS = (("BdbQuit", "nobody can answer a breakpoint() while the checker runs: run your file by itself for that"),
           ("EOFError", "nobody can answer an input() while the checker runs"),
           ("File too large", "it prints or writes too much"), ("null bytes", "save the file as UTF-8"))


def remark(error):
    """What the text of an error does not tell."""
    return next((f"; {words}" for part, words in REMARKS if part in error), "")


def returning(library, run):
    names = library.exercise.outputs
    for came in run.cases:
        kinds = told(came.said, "kinds", list)
        if len(kinds) != len(names) or len(came.outputs) != len(names):
            what = NO_ARRAYS["NoneType"] if kinds == ["NoneType"] else f"({', '.join(kinds)})"
            what = "a list; return a tuple: return a, b" if kinds == ["list"] else what
            if library.exercise.is_class:
                return Verdict("fail", "type", f"the calls' results and the gradients should be {wanted(names)}, but there "
                               f"came {len(kinds)} values; does each method return what its text says?")
            return Verdict("fail", "type", f"should return {wanted(names)}, but returned {what}")
        for w, kind, name in zip(came.outputs, kinds, names):
            if kind in LISTS and library.exercise.parameters or w is None:
                what = NO_ARRAYS.get(kind, f"a {kind}; return "
                                           + ("a NumPy array" if library.exercise.parameters else "a number or an array"))
                return Verdict("fail", "type", f"{name} is {what}")
        for w, r, name in zip(came.outputs, library.expected[0].outputs if library.expected else (), names):
            if w.size and unlike(w.dtype, r.dtype) and (r.dtype == bool or library.exercise.parameters):
                return diagnosed(library, run, "type", f"{name} is an array of {w.dtype}; expected {r.dtype}")


def unlike(dtype, right):
    """Whether it is no boolean, or no whole number, where one is wanted; any number will do for a float."""
    return right.kind in "bi" and dtype.kind not in {"b": "b", "i": "iu"}[right.kind]


def place(library, i):
    """Which case it was, a line; none for questions."""
    case = library.cases[i]
    where = {"": f"case {i + 1} of {len(library.main)}", "again": "the first case again",
             "float32": "the first case in float32"}[case.role]
    return (f"{where}, {library.exercise.described(case)}",) * (len(library.cases) > 1)


def wanted(names):
    return names[0] if len(names) == 1 else f"{len(names)} values, ({', '.join(names)})"


def shaping(library, run):
    if library.exercise.judge:
        return
    for i, (came, right) in enumerate(zip(run.cases, library.expected)):
        for name, w, r in zip(library.exercise.outputs, came.outputs, right.outputs):
            if w.shape != r.shape:
                note = f"{name} has shape {w.shape}, expected {r.shape}{misshaped(w.shape, r.shape)}"
                if r.dtype.kind == "i" and max(w.size, r.size) <= 12 and library.exercise.parameters:
                    note += f"; yours {w.tolist()}, expected {r.tolist()}"
                return diagnosed(library, run, "shape", note, place(library, i))


def misshaped(shape, right):
    if [n for n in shape if n > 1] == [n for n in right if n > 1]:
        return "; they differ in axes of size 1"
    if len(shape) > len(right):
        return "; more axes than expected: is a sum missing?"
    if len(shape) < len(right):
        return "; fewer axes than expected: was one summed that should stay?"
    if sorted(shape) == sorted(right):
        return "; it looks transposed"
    wrong = [str(axis) for axis, (n, m) in enumerate(zip(shape, right)) if n != m]
    return f"; wrong along axis {', '.join(wrong)}"


def valuing(library, run):
    if library.exercise.judge:
        complaint = library.exercise.judge(*run.cases[0].outputs)
        return diagnosed(library, run, "values", complaint) if complaint else None
    for finite in (True, False):                # what is not finite is said first
        for i, (came, right) in enumerate(zip(run.cases, library.expected)):
            for j, name in enumerate(library.exercise.outputs):
                w, r = np.asarray(came.outputs[j], float), np.asarray(right.outputs[j], float)
                wrong = np.isfinite(r) & ~np.isfinite(w) if finite else ~close(came.outputs[j], r, right.outputs)
                if wrong.any():
                    return differing(library, run, i, name, w, r, wrong, "finite" if finite else "values")


def close(w, r, others, single=False):
    """Which entries are right: rtol 1e-7 and 1e-9 of the largest entry, in float32 1e-4 and 1e-5."""
    rtol, atol = (1e-4, 1e-5) if single or w.dtype == np.float32 else (1e-7, 1e-9)
    largest = max((np.max(abs(other), initial=0, where=np.isfinite(other)) for other in map(np.asarray, others)))
    scale = np.max(abs(r), initial=0, where=np.isfinite(r))
    scale = largest if scale < 1e-9 * largest else scale
    with np.errstate(invalid="ignore"):
        return (abs(w - r) <= rtol * abs(r) + atol * scale) | (w == r) | (np.isnan(w) & np.isnan(r))


def differing(library, run, i, name, w, r, wrong, stage):
    error = np.where(wrong, np.nan_to_num(abs(w - r), nan=np.inf), -1)
    index = tuple(map(int, np.unravel_index(np.argmax(error), r.shape)))
    relative = np.linalg.norm(w - r) / np.linalg.norm(r) if r.any() else np.inf
    cosine = np.vdot(w, r) / (np.linalg.norm(w) * np.linalg.norm(r)) if w.any() and r.any() else np.nan
    if not library.exercise.parameters:         # a question: the answer stays untold
        return diagnosed(library, run, stage, f"{name} is wrong", lines=(f"{name}: yours is {w + 0.0:.6g}" if w.ndim == 0 else
                                                                          f"{name}: yours is {w.tolist()}",))
    note = f"{name}{list(index) if index else ''} is {w[index]:.6g}, expected {r[index]:.6g}"
    lines = [f"{name}{', worst entry ' + str(list(index)) if index else ''}:  yours {w[index]:.6g}   "
             f"expected {r[index]:.6g}"
             + f"      relative error {relative:.1e}, cosine {cosine:.2f}" * bool(r.size > 1 and np.isfinite(relative * cosine))]
    case = library.main[i]
    for sentence, measure in library.exercise.invariants:
        try:
            size = float(np.max(abs(measure(case.inputs, run.cases[i].outputs)), initial=0))
        except Exception:                       # it was made for right answers
            continue
        if 1e-6 < size < math.inf:
            lines.append(f"{sentence}; yours are off by up to {size:.2g}")
    return diagnosed(library, run, stage, note, place(library, i), lines)


def answers(library, run):
    """What came back in the main cases, as Observations."""
    found = []
    for case, came in zip(library.main, run.cases):
        whole = len(came.outputs) == len(library.exercise.outputs) and not any(y is None for y in came.outputs)
        error = re.sub(r" \(line \d+: .*\)$", "", told(came.said, "error") or "-" * (not whole))
        found.append(Observation(error=error) if error else
                     Observation(tuple(came.outputs), "", changed(case.arrays(), came.after)))
    return found


def diagnosed(library, run, stage, note, where=(), lines=None, right=False):
    """The verdict of a stage: where it was, what was seen there (the note if nothing else), and the diagnosis."""
    came = answers(library, run)
    named = library.named(came)
    more = named_lines(named, len(came)) if named else [
        f"DIAGNOSIS {sentence}." for sentence in relations(library, came) * bool(library.exercise.parameters)]
    return Verdict("error" if stage == "error" else "fail", stage, note, (*where, *(lines or [note]), *more),
                   tuple(" and ".join(mistake.name for mistake in mistakes) for mistakes in named), right)


def named_lines(named, count):
    """Which mistakes they are, and what is said of each."""
    said = dict.fromkeys(mistake for mistakes in named for mistake in mistakes)
    names = " or ".join(" and ".join(mistake.name for mistake in mistakes) for mistakes in named)
    gives = "either of these gives" if len(named) > 1 else "these give together" if len(said) > 1 else "this mistake gives"
    return [f"DIAGNOSIS [{names}]" + f" In all {count} cases your answer is the one that {gives}:" * (count > 1),
            *(f"{mistake.name}: " * (len(said) > 1) + mistake.say for mistake in said)]


def keeping(library, run):
    for case, came in zip(library.cases, run.cases):
        for i in changed(case.arrays(), came.after):
            note = (f"the values are right, but {library.exercise.labels(case)[i]} was changed in place; "
                    "leave arguments as they are")
            return diagnosed(library, run, "arguments changed", note, right=True)


def repeating(library, run):
    for case, came in zip(library.cases, run.cases):
        if case.role == "again" and not all(map(same, came.outputs, run.cases[0].outputs)):
            return Verdict("fail", "repeated", "the second call with the same arguments gave another answer; "
                           "nothing may be kept between calls, and nothing drawn", right=True)


def narrowing(library, run):
    for case, came in zip(library.cases, run.cases):
        if case.role == "float32":
            right = library.expected[0]
            for name, w, r in zip(library.exercise.outputs, came.outputs, right.outputs):
                if w.shape != r.shape or not close(w, np.asarray(r, float), right.outputs, single=True).all():
                    return Verdict("fail", "float32", f"{name} is right in float64 and wrong in float32", right=True)
                if r.ndim and r.dtype == np.float64 and w.dtype != np.float32:
                    return Verdict("fail", "float32", f"{name} is {w.dtype} for float32 arguments: np.zeros(shape), "
                                   "np.arange(n), np.sqrt(number), or a mask or its sum in a division make it so; "
                                   "np.zeros_like, math.sqrt, int(...) and .astype(x.dtype) do not", right=True)
