"""The proof by nudging: the loss with one number changed by +-h, beside the gradient that backward computed.

The central difference (L(x + h) - L(x - h)) / 2h has an error that falls with h² until rounding, which grows with 1/h,
takes over. Over h the error has the shape of a U.
"""

import math

import numpy as np

from .batched_nudges import NotIndependent, RepeatedStep
from .wording import sentence

STEPS = tuple(10.0 ** -k for k in range(1, 13))
H = 1e-5
SMALLEST = 1e-4                                 # of the step's largest gradient: below it, rounding of the loss dominates
LARGEST_NUDGE = 1e3
MOST_ONE_BY_ONE = 2000                          # forwards for one value, beyond which its curve is left out


def nudge(step, value, index, number=None):
    """Returns what the loss does when one entry of a value is changed by +-number.

    Parameters: step : Step; value : id of a value; index : of the entry; number : float or None (H)
    Returns: {"h", "plus", "minus", "loss", "numeric", "gradient", "difference", "curve": [[h, difference], ...]}; the
        differences of quotient and gradient relate to the largest entry of the gradient, as in the proof
    Raises: ValueError for a value that cannot be nudged, or a number that is not above 0.
    """
    h = H if number is None else number
    is_number = isinstance(h, (int, float)) and not isinstance(h, bool) and math.isfinite(h)
    if not is_number or not 0 < h <= LARGEST_NUDGE:
        raise ValueError(sentence("errors.nudge.size", largest=LARGEST_NUDGE, number=number))
    entry = step.values.get(value) if isinstance(value, str) else None
    if entry is None:
        raise ValueError(sentence("errors.nudge.value", value=value))
    if entry.gradient is None or entry.handle is None:
        raise ValueError(sentence("errors.nudge.no_gradient", value=value))
    index = tuple(index)
    gradient = float(entry.gradient[index])
    scale = scale_of(entry, step)

    def difference(h):
        return [step.loss_with(value, index, sign * h) for sign in (1, -1)]

    with np.errstate(all="ignore"):
        plus, minus = difference(h)
        curve = [[size, abs(float(np.subtract(*difference(size))) / (2 * size) - gradient) / scale] for size in STEPS]
    numeric = (plus - minus) / (2 * h)
    return {"h": h, "plus": plus, "minus": minus, "loss": step.loss, "numeric": numeric, "gradient": gradient,
            "difference": abs(numeric - gradient) / scale, "curve": curve}


def scale_of(value, step):
    """Returns what errors relate to: the largest entry of a value's gradient, but at least SMALLEST of the step's largest."""
    return max(largest(value.gradient), SMALLEST * largest_of(step))


def largest_of(step):
    """Returns the largest gradient of a step, which is at least 1, that of the loss itself."""
    if not hasattr(step, "largest_gradient"):
        gradients = [value.gradient for value in step.values.values() if value.gradient is not None]
        step.largest_gradient = max(1.0, *map(largest, gradients))
    return step.largest_gradient


def largest(array):
    return float(np.abs(np.nan_to_num(array)).max(initial=0.0))


def proof(step, progress=None):
    """Returns (proof, {ref: array}): central differences for every entry of every value that has a gradient.

    proof is the entry of the document; the arrays are `numeric <value>` and `curve <value>`.
    """
    errors, arrays = {}, {}
    repeated = RepeatedStep(step)
    for value in step.values.values():
        if value.gradient is None or value.handle is None:
            continue
        differences = central_differences(step, repeated, value)
        has_curve = differences.shape[1] == len(STEPS)
        at_h = STEPS.index(H) if has_curve else 0
        gradient = value.gradient.reshape(-1, 1)
        scale = scale_of(value, step)
        with np.errstate(all="ignore"):
            error = np.abs(differences - gradient) / scale
        errors[value.id] = float(error[:, at_h].max())
        arrays[f"numeric {value.id}"] = differences[:, at_h].reshape(value.gradient.shape)
        if has_curve:
            arrays[f"curve {value.id}"] = as_bytes(error)
        if progress is not None:
            progress.advance()
    return {"worst": max(errors.values(), default=0.0), "errors": errors, "h": H, "steps": list(STEPS)}, arrays


def as_bytes(error):
    """Returns relative errors as uint8: b stands for 10^(-b/16), 0 for errors of 1 and more and for NaN."""
    with np.errstate(divide="ignore"):
        return np.clip(np.nan_to_num(np.rint(-16 * np.log10(error)), nan=0.0, posinf=255.0), 0, 255).astype(np.uint8)


def central_differences(step, repeated, value):
    """Returns (entries, sizes): the central differences at each entry of a value for each h of STEPS.

    Where nudges have to be tried one by one and would be many, h takes the value H alone.
    """
    size = value.array.size
    sizes = STEPS
    with np.errstate(all="ignore"):
        try:
            losses = repeated.losses(value, *nudges_of(size, sizes))
        except NotIndependent:
            sizes = STEPS if 2 * size * len(STEPS) <= MOST_ONE_BY_ONE else (H,)
            losses = np.array([step.loss_with(value.id, np.unravel_index(entry, value.array.shape), h)
                               for entry, h in zip(*nudges_of(size, sizes))])
        plus, minus = losses.reshape(size, len(sizes), 2).transpose(2, 0, 1)
        return (plus - minus) / (2 * np.array(sizes))


def nudges_of(size, sizes):
    """Returns (entries, steps): for each entry of an array and each h the two nudges +h and -h."""
    return np.repeat(np.arange(size), 2 * len(sizes)), np.tile(np.ravel([(h, -h) for h in sizes]), size)
