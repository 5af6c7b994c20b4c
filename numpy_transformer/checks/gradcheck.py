"""The gradient check: compares backward with central differences and with the complex-step derivative.

It assumes only that a module has forward and backward, and that its parameters can be found as in `Module`.
"""

import copy
import inspect
import math
import warnings
from typing import Any, NamedTuple

import numpy as np

from ..module import is_frozen, is_module, is_parameter, named_parts
from ..tree import parts_with_loss
from .report import GradcheckReport, GradcheckRow

CENTRAL_STEP = 1e-5                     # near eps^(1/3), where truncation and rounding errors are equally large
COMPLEX_STEP = 1e-100                   # the complex step subtracts nothing, so it can be arbitrarily small
SMALLER_STEPS = (1e-6, 1e-7)            # a crossed ReLU kink disappears with a smaller step, a wrong gradient does not
LARGER_STEP = 1e-3                      # for derivatives so small that rounding dominates; used with extrapolation
ZERO = 1e-9                             # relative norm below which a gradient counts as zero
DISAGREEMENT = 1e-3                     # the numeric methods differ by more only if one of them misses a dependency
TINY = 1e-5                             # relative norm below which a mismatch may be rounding
NEARLY = 100                            # times the tolerance: an error that rounding may have caused
LOCALIZED_TENSORS = 2                   # after a check along random directions: wrong tensors of which an entry is named,
LOCALIZED_ENTRIES = 200                 # and the number of entries that are checked for it


class Tolerances(NamedTuple):
    """The largest errors that count as agreement, and whether a missing complex step counts as a failure."""

    central: float = 1e-6
    complex: float = 1e-12
    need_complex: bool = False


def gradcheck(module: Any, *inputs: Any, seed: int = 0, directions: int | None = None, randomize: bool = True,
              central_tolerance: float = 1e-6, complex_tolerance: float = 1e-12, need_complex: bool = False,
              name: str | None = None) -> GradcheckReport:
    """Checks every gradient that module.backward computes at the given inputs, and returns a GradcheckReport.

    The check differentiates L = sum(dy * forward(...)) with a random normal dy. It works in float64 on a copy, so the
    module is not changed. Before each forward, random generators held by the module are restored to the same state, so
    that dropout uses one mask. Outputs of -inf (hidden scores) do not count in L. A part with an attribute
    `auxiliary_loss` adds the gradient of a loss of its own in backward, so this number of the latest forward is added to L.

    Parameters:
        module : any object with forward and backward
        inputs : arguments of forward; gradients of float arrays are checked, anything else is passed on
        seed : seed of the parameters, dy and the directions
        directions : None checks every entry. An integer k checks k random normal directions per tensor, which is
            faster for a whole model; of the first tensors that disagree, some entries are then checked, to name one.
        randomize : whether to draw new parameters, so that for instance gamma is not 1 and biases are not 0
        central_tolerance : largest error against central differences
        complex_tolerance : largest error against the complex-step derivative
        need_complex : whether a forward that does not work with complex numbers counts as wrong
        name : title of the report; None: name of the module's class

    Raises:
        ValueError if backward returns the wrong number of gradients or one of a wrong shape, if forward or backward
        changes its arguments, or if there is nothing to check
    """
    tolerances = Tolerances(central_tolerance, complex_tolerance, need_complex)
    return Checker(module, inputs, seed, randomize).run(name or type(module).__name__, directions, tolerances)


class Checker:
    """Holds a module at one point: its tensors, backward's gradients, and methods for numeric derivatives.

    `arrays[i]`, `names[i]` and `gradients[i]` belong to tensor i: first the float inputs, then the parameters.
    """

    def __init__(self, module, inputs, seed, randomize):
        self.rng = np.random.default_rng([seed, 6172])      # its own stream, so that dy does not repeat the inputs
        self.module = convert(copy.deepcopy(module), np.float64)
        self.inputs = [np.array(x, np.float64) if is_float(x) else x for x in inputs]
        if randomize:
            for _, parameter in parameters(self.module, trained=False):
                shape = np.shape(parameter.data)
                parameter.data = self.rng.standard_normal(shape) / math.sqrt(shape[0] if len(shape) > 1 else 1)
        self.generator_states = GeneratorStates(self.module)
        self.own_losses = OwnLosses()
        self.run_backward()
        self.twin = convert(copy.deepcopy(self.module), np.complex128)      # for the complex step
        self.twin_inputs = [x.astype(np.complex128) if is_float(x) else x for x in self.inputs]
        self.arrays = self.tensors_of(self.module, self.inputs)
        self.twin_arrays = self.tensors_of(self.twin, self.twin_inputs)
        if not self.arrays:
            raise ValueError(f"{type(module).__name__} has no parameters and was given no float inputs: "
                             "there is no gradient to check")

    def tensors_of(self, module, inputs):
        return [x for x in inputs if is_float(x)] + [parameter.data for _, parameter in parameters(module)]

    def run_backward(self):
        """Runs forward and backward once, and keeps the names of the tensors and their gradients."""
        for _, parameter in parameters(self.module):
            parameter.grad = np.zeros_like(parameter.data)
        set_remembering(self.module, True)
        inputs_before = copy.deepcopy(self.inputs)
        y = np.array(self.module.forward(*self.inputs))     # a copy, because forward may return its input
        self.counts = ~np.isneginf(y)                       # hidden scores are constants
        self.takes_dy = bool(positional(self.module.backward))
        self.dy = self.rng.standard_normal(y.shape) if self.takes_dy else np.ones(())
        self.weights = np.append(self.dy, np.ones(len(self.own_losses(self.module))))
        dy = self.dy.copy() if y.ndim else float(self.dy)
        dx = self.module.backward(dy) if self.takes_dy else self.module.backward()
        set_remembering(self.module, False)                 # the forwards below have no backward
        if not all(map(np.array_equal, inputs_before, self.inputs)) or not np.array_equal(dy, self.dy):
            raise ValueError(f"{type(self.module).__name__} changes its arguments in place; the caller's arrays must "
                             "not change, so work on a copy")
        self.collect_gradients(as_list(dx))

    def collect_gradients(self, dx):
        """Checks the number and the shapes of the gradients, and keeps them with their names."""
        floats = [i for i, x in enumerate(self.inputs) if is_float(x)]
        if len(dx) != len(floats):
            raise ValueError(f"backward returned {len(dx)} gradient(s), but forward was given {len(floats)} float "
                             "input(s); return one for each, in forward's order, and pass inputs without a gradient "
                             "as integers or booleans")
        argument_names = dict(enumerate(positional(self.module.forward)))
        named_parameters = parameters(self.module)
        self.names = [argument_names.get(i, f"input{i}") for i in floats] + [name for name, _ in named_parameters]
        self.gradients = [np.array(grad, np.float64) for grad in dx + [parameter.grad for _, parameter in named_parameters]]
        for name, array, grad in zip(self.names, self.tensors_of(self.module, self.inputs), self.gradients):
            if grad.shape != array.shape:
                raise ValueError(f"the gradient of {name} has shape {grad.shape}, but {name} has shape {array.shape}; "
                                 "sum over the axes along which it was broadcast, or look for a missing transpose")

    def value(self, module, inputs):
        """Returns what L adds up with `weights`: the entries of forward's output, with the same random numbers each time
        and 0 for hidden scores, and the losses that parts of the module add.
        """
        self.restore_generators(module)
        y = np.where(self.counts, module.forward(*inputs), 0)
        return np.append(y, self.own_losses(module))

    def restore_generators(self, module):
        self.generator_states.restore(module)

    def central(self, array, direction, step):
        """Returns the derivative of L along a direction of an array, by central differences."""
        start = array.copy()
        array[...] = start + step * direction
        high = array.copy()
        plus = self.value(self.module, self.inputs)
        array[...] = start - step * direction
        low = array.copy()
        minus = self.value(self.module, self.inputs)
        array[...] = start
        moved = np.sum((high - low) * direction) / np.sum(direction * direction)    # the step after rounding
        return np.sum(self.weights * (plus - minus)) / moved

    def alternatives(self, array, direction):
        """Returns central differences at smaller steps, and extrapolated ones at a larger step."""
        near, far = (self.central(array, direction, step) for step in (LARGER_STEP, 2 * LARGER_STEP))
        return [*(self.central(array, direction, step) for step in SMALLER_STEPS), (4 * near - far) / 3]

    def complex_step(self, array, direction):
        """Returns the derivative of L along a direction of an array of the complex twin."""
        array.imag = COMPLEX_STEP * direction
        with warnings.catch_warnings():
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            y = self.value(self.twin, self.twin_inputs)
        array.imag = 0
        return np.sum(self.weights * y.imag) / COMPLEX_STEP

    def measure(self, tensor, directions, tolerance):
        """Returns backward's, central and complex-step derivatives along each direction, and a note.

        Where the central difference misses the tolerance, the alternative that agrees best replaces it.
        """
        a = np.array([np.sum(self.gradients[tensor] * u) for u in directions])
        n = np.array([self.central(self.arrays[tensor], u, CENTRAL_STEP) for u in directions])
        allowed = tolerance * max(np.linalg.norm(a), np.linalg.norm(n)) / math.sqrt(len(a))
        for i in np.flatnonzero(abs(a - n) > allowed)[:50]:
            candidates = [n[i], *self.alternatives(self.arrays[tensor], directions[i])]
            n[i] = min(candidates, key=lambda x: abs(x - a[i]))
        try:
            return a, n, np.array([self.complex_step(self.twin_arrays[tensor], u) for u in directions]), ""
        except (TypeError, np.exceptions.ComplexWarning) as error:
            return a, n, None, f"no complex step: forward does not accept complex numbers ({error})"

    def run(self, name, count, tolerances):
        """Returns the report for every entry (count None) or for `count` random directions per tensor."""
        directions = [self.directions(i, count) for i in range(len(self.arrays))]
        measured = [self.measure(i, directions[i], tolerances.central) for i in range(len(self.arrays))]
        largest = max(np.linalg.norm(values) for a, n, *_ in measured for values in (a, n))
        rows = [self.row(i, result, largest, tolerances=tolerances, directions=directions[i])
                for i, result in enumerate(measured)]
        if count:
            self.check_entries(rows, largest, tolerances)
        return GradcheckReport(name, rows)

    def check_entries(self, rows, largest, tolerances):
        """Checks tensors that disagree along random directions entry by entry.

        A tensor that is nearly right is checked whole, since only rounding may be in the way. Of the others the first
        ones are checked at some entries, to name the worst of these: whole models would take too long.
        """
        localized = 0
        for i, row in enumerate(rows):
            if row.ok:
                continue
            nearly_right = row.central <= NEARLY * tolerances.central and (row.complex or 0) <= NEARLY * tolerances.complex
            if not nearly_right:
                localized += 1
                if localized > LOCALIZED_TENSORS:
                    continue
            entries = Entries(self.arrays[i].shape, None if nearly_right else LOCALIZED_ENTRIES)
            measured = self.measure(i, entries, tolerances.central)
            new_row = self.row(i, measured, largest, tolerances=tolerances, directions=entries)
            if nearly_right or not new_row.ok:
                rows[i] = new_row

    def directions(self, tensor, count):
        shape = self.arrays[tensor].shape
        return [self.rng.standard_normal(shape) for _ in range(count)] if count else Entries(shape)

    def row(self, tensor, result, largest, tolerances, directions):
        a, n, z, note = result
        shape = self.arrays[tensor].shape
        if z is not None and disagree(n, z, largest):
            z = None
            note = ("no complex step: it contradicts the differences, as it does for np.abs, var and std; with "
                    "c = x - mean, (c * c).mean(-1) is a variance that it can check")
        best = n if z is None else z
        scale = norm = max(np.linalg.norm(a), np.linalg.norm(best))
        is_zero = bool(norm < ZERO * largest)
        if is_zero:
            scale = largest
        central = relative(a - n, scale)
        if z is None:
            exact, exact_ok = None, not tolerances.need_complex
        else:
            exact = relative(a - z, scale)
            exact_ok = exact <= tolerances.complex
        ok = bool(central <= tolerances.central and exact_ok)
        if not ok and scale < TINY * largest:
            note = (f"tiny: {scale / largest:.0e} of the largest gradient, so this may be rounding; "
                    "try other inputs")
        worst = int(np.argmax(np.nan_to_num(abs(a - best), nan=np.inf)))
        index = directions.index(worst) if isinstance(directions, Entries) else ("direction", worst)
        return GradcheckRow(self.names[tensor], shape, central, exact, ok=ok, zero=is_zero, index=index,
                            backward=float(a[worst]), numeric=float(best[worst]), cosine=cosine(a, best), note=note)


class Entries:
    """The directions of a check entry by entry: for each entry, an array that is 1 there and 0 elsewhere.

    With `most`, a larger array is represented by that many of its entries, evenly spaced.
    """

    def __init__(self, shape, most=None):
        self.shape = shape
        size = math.prod(shape)
        self.entries = range(size) if most is None else np.unique(np.linspace(0, size - 1, most, dtype=int))

    def __len__(self):
        return len(self.entries)

    def __getitem__(self, n):
        if n >= len(self):
            raise IndexError(n)
        direction = np.zeros(self.shape)
        direction.flat[self.entries[n]] = 1
        return direction

    def index(self, n):
        """Returns the index of the n-th entry in the array."""
        return tuple(map(int, np.unravel_index(self.entries[n], self.shape)))


class GeneratorStates:
    """Keeps the states of NumPy's global random generator and of those that a module holds, to restore them later."""

    def __init__(self, module):
        self.states = [rng.bit_generator.state if isinstance(rng, np.random.Generator) else rng.get_state()
                       for rng in generators(module)]
        self.found = {}                         # {id: (module, its generators)}, because finding them takes time

    def restore(self, module):
        if id(module) not in self.found:
            self.found[id(module)] = module, generators(module)
        for rng, state in zip(self.found[id(module)][1], self.states):
            if isinstance(rng, np.random.Generator):
                rng.bit_generator.state = state
            else:
                rng.set_state(state)


class OwnLosses:
    """The `auxiliary_loss` of each part of a module that has one, of the latest forward."""

    def __init__(self):
        self.found = {}                         # {id: (module, its parts with a loss)}, because finding them takes time

    def __call__(self, module):
        if id(module) not in self.found:
            self.found[id(module)] = module, parts_with_loss(module)
        return [part.auxiliary_loss for part in self.found[id(module)][1]]


def generators(module):
    """Returns NumPy's global generator and those in the attributes of the module's parts."""
    held = {id(value): value for _, part in named_parts(module) if is_module(part) for value in vars(part).values()
            if isinstance(value, (np.random.Generator, np.random.RandomState))}
    return [np.random, *held.values()]


def parameters(module, trained=True):
    """Returns a list of (dotted name, parameter), by default without those that are frozen."""
    return [(name, part) for name, part in named_parts(module)
            if is_parameter(part) and not (trained and is_frozen(part))]


def set_remembering(module, flag):
    for _, part in named_parts(module):
        if hasattr(part, "remembering"):
            part.remembering = flag


def convert(module, dtype):
    """Converts parameters to dtype and tables to its real counterpart, in a module of any class. Returns the module."""
    for _, part in named_parts(module):
        if hasattr(part, "forget"):
            part.forget()
        if hasattr(part, "build_tables"):
            part.build_tables(np.empty(0, dtype).real.dtype)
    for _, parameter in parameters(module, trained=False):
        if hasattr(parameter, "astype"):
            parameter.astype(dtype)
        else:
            parameter.data = np.array(parameter.data, dtype)
    return module


def is_float(x):
    return getattr(x, "dtype", np.dtype(bool)).kind in "fc"


def as_list(dx):
    """Returns what backward returned as a list of gradients."""
    if dx is None:
        return []
    return list(dx) if isinstance(dx, (tuple, list)) else [dx]


def positional(function):
    """Returns the names of the parameters that can be given by position."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in inspect.signature(function).parameters.values() if p.kind in kinds]


def disagree(n, z, largest):
    """Whether central and complex-step derivatives differ by more than their errors, in a gradient that is not zero."""
    norm = max(np.linalg.norm(n), np.linalg.norm(z))
    return norm > ZERO * largest and relative(n - z, norm) > DISAGREEMENT


def relative(difference, scale):
    """Returns ‖difference‖ / scale, where 0 / 0 is 0."""
    size = float(np.linalg.norm(difference))
    if scale:
        return float(size / scale)
    return math.inf if size else 0.0


def cosine(a, b):
    """Returns the cosine of the angle between two arrays, NaN if one of them is zero."""
    sizes = np.linalg.norm(a) * np.linalg.norm(b)
    return float(np.sum(a * b) / sizes) if sizes else math.nan
