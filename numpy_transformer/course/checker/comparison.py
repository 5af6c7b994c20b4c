"""Compares arrays: yours with the correct one, and says how they differ; and what two programs did, to match them."""

import math

import numpy as np

from ...texts import Message, listed


def close(yours, right, all_right, single=False):
    """Returns a boolean array: which entries are correct.

    The tolerance is 1e-9 relative plus 1e-11 of the largest entry, which leaves room for any order of summation, but not
    for a small number added in a wrong place, or for rounding in between. If `yours` is float32, it is 1e-6 of both, which
    computing in float32 keeps to but a wrong constant does not.

    Parameters:
        yours, right : the student's output and the correct one
        all_right : all correct outputs; if `right` is only rounding error next to them, they set the scale
        single : the arguments were float32, too, so that `right` depends on numbers that the student's code never
            saw: the tolerance is 1e-4 and 1e-5
    """
    rtol, atol = (1e-6, 1e-6) if yours.dtype == np.float32 else (1e-9, 1e-11)
    if single:
        rtol, atol = 1e-4, 1e-5
    largest = max(np.max(abs(other), initial=0, where=np.isfinite(other)) for other in map(np.asarray, all_right))
    scale = np.max(abs(right), initial=0, where=np.isfinite(right))
    if scale < 1e-9 * largest:
        scale = largest
    with np.errstate(invalid="ignore"):
        near = abs(yours - right) <= rtol * abs(right) + atol * scale
        return near | (yours == right) | (np.isnan(yours) & np.isnan(right))


def is_close(yours, right, all_right):
    """Returns True if an output has the right shape and all its entries are correct."""
    return yours.shape == right.shape and bool(close(yours, np.asarray(right, float), all_right).all())


def unlike(dtype, right):
    """Returns True if the dtype is not boolean, or not an integer, where `right` is. Any number stands for a float."""
    accepted = {"b": "b", "i": "iu"}
    return right.kind in accepted and dtype.kind not in accepted[right.kind]


def same_but_for_ones(shape, other):
    """Returns True if two shapes differ at most in axes of size 1."""
    return [n for n in shape if n != 1] == [n for n in other if n != 1]


def compare_shapes(shape, right):
    """Returns the Message about how a wrong shape differs from the correct one."""
    if same_but_for_ones(shape, right):
        return Message("comparison.shape.size_1")
    if len(shape) > len(right):
        return Message("comparison.shape.too_many")
    if len(shape) < len(right):
        return Message("comparison.shape.too_few")
    if sorted(shape) == sorted(right):
        return Message("comparison.shape.transposed")
    return Message("comparison.shape.axes", axes=listed([axis for axis, (n, m) in enumerate(zip(shape, right)) if n != m]))


def compare_arrays(yours, right):
    """Returns the Message about the relative error and the cosine, or None if they mean nothing.

    For booleans and whole numbers, it counts the wrong entries instead.
    """
    if right.size <= 1:
        return None
    if right.dtype.kind in "biu":
        return count_differences(yours, right)
    if not right.any() or not yours.any():
        return None
    relative = np.linalg.norm(yours - right) / np.linalg.norm(right)
    cosine = np.vdot(yours, right) / (np.linalg.norm(yours) * np.linalg.norm(right))
    if not np.isfinite(relative * cosine):
        return None
    return Message("comparison.array.distance", relative=float(relative), cosine=float(cosine))


def count_differences(yours, right):
    """Returns the Message about how many booleans or whole numbers are wrong, and in which direction."""
    wrong = yours != right
    above, below = int((yours > right)[wrong].sum()), int((yours < right)[wrong].sum())
    keys = ("wrong_booleans", "true", "false") if right.dtype.kind == "b" else ("wrong_numbers", "too_large", "too_small")
    both, only_above, only_below = keys
    key = {(True, True): both, (True, False): only_above, (False, True): only_below}.get((above > 0, below > 0), "wrong")
    return Message(f"comparison.array.{key}", wrong=int(wrong.sum()), size=right.size, above=above, below=below)


def show_entry(value, kind):
    """Returns one entry as it is printed: True or False for booleans (kind "b"), else six digits."""
    return str(bool(value)) if kind == "b" and value in (0, 1) else f"{value:.6g}"


def show_entries(yours, right, kind):
    """Returns two different entries as they are printed, with as many digits as it takes to see the difference."""
    shown = show_entry(yours, kind), show_entry(right, kind)
    digits = 6
    while shown[0] == shown[1] and kind != "b" and digits < 17:
        digits += 1
        shown = f"{yours:.{digits}g}", f"{right:.{digits}g}"
    return shown


def lost_precision(name, yours, right, all_right):
    """Returns the Message about an output that is wrong only because it has lost digits, or None."""
    loose = {np.float32: 1e-4, np.float16: 1e-2}.get(yours.dtype.type)
    if loose is None or right.dtype != np.float64:
        return None
    scale = max(np.max(abs(np.asarray(other, float)), initial=0) for other in all_right)
    if not np.all(abs(yours - right) <= loose * (abs(right) + scale)):
        return None
    return Message("comparison.precision.lost", name=name, dtype=str(yours.dtype))


def answer_fingerprint(observation):
    """Returns what distinguishes most answers.

    This is the type of an error, or the shape, a weighted sum and the sum of absolute values of each output.
    """
    if observation.error:
        return error_type(observation)
    parts = []
    with np.errstate(invalid="ignore"):
        for y in observation.outputs:
            y = np.asarray(y, float)
            weights = np.cos(np.arange(1, y.size + 1) ** 1.5)
            parts.append((y.shape, float(weights @ y.ravel()), float(np.abs(y).sum())))
    return tuple(parts)


def similar(a, b):
    """Returns True if two fingerprints may belong to the same answer."""
    if a is None or isinstance(a, str) or isinstance(b, str):
        return a == b
    return len(a) == len(b) and all(
        shape == shape2 and close_sums(x, x2, max(size, size2)) for (shape, x, size), (shape2, x2, size2) in zip(a, b))


def close_sums(x, x2, size):
    both_nan = x != x and x2 != x2
    return abs(x - x2) <= 1e-4 * size or both_nan or x == x2


def error_type(observation):
    """Returns the name of the error's class, such as "ValueError"; "" if there was no error."""
    return observation.error.split(":")[0]


def matches(observed, answers):
    """Returns True if both agree in every case: equal outputs, or errors with the same text.

    Observations that stop early do not match.
    """
    return len(observed) == len(answers) and all(map(matches_in_case, observed, answers))


def matches_in_case(a, b):
    if a.error or b.error:
        return a.error == b.error
    return len(a.outputs) == len(b.outputs) and all(values_agree(x, y, b.largest) for x, y in zip(a.outputs, b.outputs))


def values_agree(a, b, largest=0):
    """Returns True if both have the same shape and values to 1e-9 of b's largest entry, or 1e-6 if one is float32.

    Parameters:
        largest : largest entry of all outputs of the case; if b is only rounding error next to it, it replaces b's own
    """
    if a is None or b is None or a.shape != b.shape:
        return False
    tolerance = 1e-6 if np.float32 in (a.dtype, b.dtype) else 1e-9
    a, b = np.asarray(a, float), np.asarray(b, float)
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return False
    scale = np.max(abs(b), initial=0, where=finite)
    if scale < 1e-9 * largest:
        scale = largest
    return bool(np.all(abs(a[finite] - b[finite]) <= tolerance * scale))


def agreement_on_changes(observed, answers):
    """Returns 2 if both changed the same arguments in each case, 1 if over all cases together, and 0 otherwise."""
    ours, theirs = ([set(observation.changed) for observation in observations] for observations in (observed, answers))
    return (ours == theirs) + (set().union(*ours) == set().union(*theirs))


def same_changes(a, b):
    """Returns True if two observations changed the same arguments to the same values."""
    return a.changed.keys() == b.changed.keys() and all(values_agree(a.changed[i], b.changed[i]) for i in a.changed)


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
