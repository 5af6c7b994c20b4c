"""What differs between what a submission returned and what is correct: where, by how much, and what no longer holds."""

import math

import numpy as np

from ...texts import Message
from .comparison import close, compare_arrays, compare_shapes, lost_precision, show_entries


def first_wrong_output(answer_key, run, role=""):
    """Returns (case, output, where its entries are wrong, stage) of the first wrong output, or None.

    The first two are indices. NaN and infinity come first.

    Parameters:
        role : of the cases that are compared; "": the main cases
    """
    compared = [i for i, case in enumerate(answer_key.cases) if case.role == role]
    for stage in ("finite", "values"):
        for i in compared:
            returned, all_expected = run.results[i].outputs, answer_key.expected_in(i).outputs
            for j, expected in enumerate(all_expected):
                if returned[j].shape != expected.shape:
                    return i, j, None, stage
                yours, right = np.asarray(returned[j], float), np.asarray(expected, float)
                if stage == "finite":
                    wrong = np.isfinite(right) & ~np.isfinite(yours)
                else:
                    wrong = ~close(returned[j], right, all_expected)
                if wrong.any():
                    return i, j, wrong, stage
    return None


def difference(answer_key, run, i, j, wrong):
    """Returns the Message on what is wrong in output j of case i, and those for the student.

    Parameters:
        wrong : array that is True at wrong entries; None if the shape is wrong
    """
    name, returned = answer_key.exercise.outputs[j], run.results[i].outputs[j]
    all_expected = answer_key.expected_in(i).outputs
    expected = np.asarray(all_expected[j])
    if wrong is None:
        note = Message("verdict.shape.wrong", name=name, shape=str(returned.shape), expected=str(expected.shape),
                       difference=compare_shapes(returned.shape, expected.shape))
        return note, (note,)
    yours, right = np.asarray(returned, float), np.asarray(expected, float)
    if answer_key.exercise.hides_answers:
        value = f"{yours + 0.0:.6g}" if yours.ndim == 0 else yours.tolist()
        return (Message("verdict.values.hidden", name=name),
                (Message("verdict.values.hidden_value", name=name, value=str(value)),))
    error = np.where(wrong, np.nan_to_num(abs(yours - right), nan=np.inf), -1)
    index = tuple(map(int, np.unravel_index(np.argmax(error), right.shape)))
    kind = expected.dtype.kind
    values = dict(zip(("yours", "expected"), show_entries(yours[index], right[index], kind)))
    note = Message("verdict.values.entry", name=f"{name}{list(index)}" if index else name, **values)
    key = "worst" if kind == "f" else "first"
    distance = compare_arrays(yours, expected)
    said = [Message(f"verdict.values.{key if index else 'number'}", name=name, index=str(list(index)), **values),
            distance and Message("verdict.values.whole", name=name, distance=distance),
            lost_precision(name, returned, expected, all_expected), *broken_invariants(answer_key, run, i)]
    return note, tuple(filter(None, said))


def broken_invariants(answer_key, run, i):
    """Returns a Message for each invariant of the exercise that the outputs of case i break."""
    messages = []
    for sentence, measure in answer_key.exercise.invariants:
        try:
            size = float(np.max(abs(measure(answer_key.cases[i].inputs, run.results[i].outputs)), initial=0))
        except Exception:                       # an invariant is written for correct answers and may fail on others
            continue
        if 1e-6 < size < math.inf:
            messages.append(Message("verdict.values.invariant", invariant=sentence, error=size))
    return messages
