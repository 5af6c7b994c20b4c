"""Named checks: the table of all of them, and the assertions that they are made of."""

import copy
import math
import warnings
from dataclasses import dataclass
from typing import Callable

import numpy as np

from ..module import Module
from .gradcheck import is_float

CHECKS: dict[str, "Check"] = {}                 # filled by the files that define checks


@dataclass(frozen=True)
class Check:
    """One property of a component: `run(thing, *inputs)` raises AssertionError with a sentence if it does not hold.

    No check compares a component with a correct copy of itself. The expected values come from loops written from the
    formula, from finite differences, or from a value that must not change.

    Attributes:
        name : what is checked
        run : function (thing, *inputs) that raises AssertionError
        applies : function (thing, *inputs) -> bool, whether the check makes sense for this thing
    """

    name: str
    run: Callable
    applies: Callable

    def failure(self, thing, inputs):
        """Returns None if the check passes, otherwise a sentence. An exception counts as a failure. Works on copies."""
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.run(copy.deepcopy(thing), *copy.deepcopy(inputs))
        except AssertionError as error:
            return str(error)
        except Exception as error:              # any error that the thing raises instead of returning a result
            return f"{type(error).__name__}: {error}".splitlines()[0]
        return None


def check(name, *kinds, when=None):
    """Adds the decorated function to CHECKS.

    Parameters:
        name : name of the check
        kinds : classes that it applies to; any Module if none is given
        when : function (thing, *inputs) -> bool that restricts it further; None: no restriction
    """
    def enter(function):
        def applies(thing, *inputs):
            return isinstance(thing, kinds or Module) and (when is None or bool(when(thing, *inputs)))

        expect(name not in CHECKS, f"two checks are named {name!r}")
        CHECKS[name] = Check(name, function, applies)
        return function
    return enter


def verdicts(thing, inputs):
    """Returns {name of each check that applies: None if it passes, otherwise the sentence}."""
    return {name: check.failure(thing, inputs) for name, check in CHECKS.items() if check.applies(thing, *inputs)}


def expect(condition, sentence):
    """Raises AssertionError unless the condition holds, also under `python -O`."""
    if not condition:
        raise AssertionError(sentence)


def expect_close(what, found, wanted, tolerance=1e-11):
    """Expects the same shape, the same infinities, no NaN, and a relative error of at most `tolerance`."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    expect(found.shape == wanted.shape, f"{what}: shape {found.shape} instead of {wanted.shape}")
    finite = np.isfinite(wanted)
    expect(np.array_equal(found[~finite], wanted[~finite]) and np.isfinite(found[finite]).all(),
           f"{what}: NaN or infinite where it should be finite, or the reverse")
    error = np.linalg.norm(found[finite] - wanted[finite]) / max(np.linalg.norm(wanted[finite]), 1e-6)
    expect(error <= tolerance, f"{what}: relative error {error:.1e}")


def expect_equal(found, wanted, sentence):
    """Expects two arrays to be equal in every entry."""
    expect(np.array_equal(found, wanted), sentence)


def prepared(module, inputs, dtype=np.float64, seed=0):
    """Returns a copy of the module and the inputs in dtype. Parameters are random: gamma is not 1, biases are not 0."""
    module = copy.deepcopy(module).astype(dtype)
    rng = np.random.default_rng([seed, 3])
    for p in module.parameters():
        fan_in = p.data.shape[0] if p.data.ndim > 1 else 1
        p.data = rng.standard_normal(p.data.shape) / math.sqrt(fan_in)
    return module, tuple(x.astype(dtype) if is_float(x) else x for x in inputs)


def upstream(y, seed=5):
    """Returns a random upstream gradient for an output, 0.7 for a loss."""
    return np.random.default_rng(seed).standard_normal(np.shape(y)).astype(y.dtype) if np.ndim(y) else 0.7


def forward_and_backward(module, inputs, seed=5):
    """Runs both once and returns the output, the input gradients as a tuple, and copies of the parameter gradients."""
    module.zero_grad()
    y = module(*inputs)
    dx = module.backward(upstream(y, seed))
    return y, as_tuple(dx), [p.grad.copy() for p in module.parameters()]


def as_tuple(dx):
    """Returns what backward returned as a tuple of gradients."""
    if dx is None:
        return ()
    return dx if isinstance(dx, tuple) else (dx,)


def reversed_batch(inputs):
    """Returns different inputs of the same kind: the batch in reverse order."""
    return tuple(x[::-1].copy() if isinstance(x, np.ndarray) else x for x in inputs)
