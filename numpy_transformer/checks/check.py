"""What a named check is, and the table of all of them."""

import copy
import math
import warnings
from dataclasses import dataclass
from typing import Callable

import numpy as np

from ..module import Module
from .gradcheck import is_float

CHECKS = {}                                     # by name; the files of checks fill it


@dataclass(frozen=True)
class Check:
    """One promise: run(thing, *inputs) raises AssertionError, with a sentence, where `thing` breaks it.

    No check compares with a right copy of the same component: what is right comes from loops that were written from
    the formula, from differences, or from what must not change.
    """

    name: str
    run: Callable
    applies: Callable                           # (thing, *inputs) -> bool

    def failure(self, thing, inputs):
        """None, or what is wrong in one sentence; an exception is wrong too. Works on copies."""
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.run(copy.deepcopy(thing), *copy.deepcopy(inputs))
        except AssertionError as error:
            return str(error)
        except Exception as error:              # whatever the thing raises where it should answer
            return f"{type(error).__name__}: {error}".splitlines()[0]
        return None


def check(name, *kinds, when=lambda thing, *inputs: True):
    """Put the function below into CHECKS, for things of these classes (none: any Module) of which `when` is true."""
    def enter(function):
        expect(name not in CHECKS, f"two checks are named {name!r}")
        CHECKS[name] = Check(name, function, lambda thing, *inputs: isinstance(thing, kinds or Module)
                             and bool(when(thing, *inputs)))
        return function
    return enter


def verdicts(thing, inputs):
    """{name of each check that applies: None where it passes, else the sentence}."""
    return {name: check.failure(thing, inputs) for name, check in CHECKS.items() if check.applies(thing, *inputs)}


def expect(condition, sentence):
    """An assert that python -O keeps."""
    if not condition:
        raise AssertionError(sentence)


def expect_close(what, found, wanted, tolerance=1e-11):
    """The same shape, the same infinities, no NaN, and a relative error of at most `tolerance`."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    expect(found.shape == wanted.shape, f"{what}: shape {found.shape} instead of {wanted.shape}")
    finite = np.isfinite(wanted)
    expect(np.array_equal(found[~finite], wanted[~finite]) and np.isfinite(found[finite]).all(),
           f"{what}: not finite where it should be, or finite where it should not")
    error = np.linalg.norm(found[finite] - wanted[finite]) / max(np.linalg.norm(wanted[finite]), 1e-6)
    expect(error <= tolerance, f"{what}: relative error {error:.1e}")


def expect_equal(what, found, wanted):
    expect(np.array_equal(found, wanted), f"{what}, and it should not")


def prepared(module, inputs, dtype=np.float64, seed=0):
    """A copy of the module in dtype with all parameters random, gamma not 1 and no bias 0; the inputs in dtype."""
    module, rng = copy.deepcopy(module).astype(dtype), np.random.default_rng([seed, 3])
    for p in module.parameters():
        p.data = rng.standard_normal(p.data.shape) / math.sqrt(p.data.shape[0] if p.data.ndim > 1 else 1)
    return module, tuple(x.astype(dtype) if is_float(x) else x for x in inputs)


def upstream(y, seed=5):
    return np.random.default_rng(seed).standard_normal(np.shape(y)).astype(y.dtype) if np.ndim(y) else 0.7


def pair(module, inputs, seed=5):
    """One forward and its backward: output, input gradients as a tuple, parameter gradients of this pair alone."""
    module.zero_grad()
    y = module(*inputs)
    dx = module.backward(upstream(y, seed))
    return y, as_tuple(dx), [p.grad.copy() for p in module.parameters()]


def as_tuple(dx):
    return () if dx is None else dx if isinstance(dx, tuple) else (dx,)


def upside_down(inputs):
    """Other inputs of the same kind: the batch in reverse order."""
    return tuple(x[::-1].copy() if isinstance(x, np.ndarray) else x for x in inputs)
