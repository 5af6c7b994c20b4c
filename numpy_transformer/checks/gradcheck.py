"""Compare a backward with numbers: central differences, the complex step, random directions.

Knows only that a module has forward and backward, and how its parameters are found.
"""

import copy
import inspect
import math
import warnings
from dataclasses import asdict, dataclass

import numpy as np

from ..module import is_module, is_parameter, named_parts

CENTRAL_STEP = 1e-5                     # near eps^(1/3), where truncation and rounding meet
COMPLEX_STEP = 1e-100                   # nothing is subtracted, so it may be as small as it likes
SMALLER_STEPS = (1e-6, 1e-7)            # where a ReLU kink was crossed: it fades with the step, a wrong gradient stays
LARGER_STEP = 1e-3                      # where rounding drowns a tiny derivative: with Richardson's correction
ZERO = 1e-9
BLIND = 1e-3                            # so far apart the two numeric methods are only where one does not see a path


@dataclass
class GradcheckRow:
    """How backward and the numbers agree on one input or parameter; `index` is the worst entry.

    central and complex are ‖a - n‖ / max(‖a‖, ‖n‖); if both norms are below 1e-9 of the module's
    largest, the gradient counts as `zero` and they are ‖a - n‖ over that largest norm.
    """

    tensor: str
    shape: tuple
    central: float
    complex: float | None
    ok: bool
    zero: bool
    index: tuple
    backward: float
    numeric: float
    cosine: float
    note: str = ""


@dataclass
class GradcheckReport:
    """The rows of one module. `ok` if all agree; str() is a table."""

    name: str
    rows: list

    @property
    def ok(self):
        return all(row.ok for row in self.rows)

    def worst(self, method):
        """The largest error of one method, NaN if any is, None if it did not run."""
        errors = [getattr(row, method) for row in self.rows]
        return None if None in errors or not errors else float(np.max(errors))

    def to_json(self):
        """The rows as dicts of plain values; what is not finite becomes None."""
        rows = [{"component": self.name, **asdict(row)} for row in self.rows]
        return [{key: None if isinstance(value, float) and not math.isfinite(value) else value
                 for key, value in row.items()} for row in rows]

    def __str__(self):
        width = max([len(row.tensor) for row in self.rows] + [6])
        lines = [f"{self.name}", f"  {'tensor':<{width}}  {'shape':<14} {'central':>9} {'complex':>9}"]
        for row in self.rows:
            words = "  ".join(filter(None, ["ok" if row.ok else "WRONG", "zero" * row.zero, row.note]))
            lines.append(f"  {row.tensor:<{width}}  {str(row.shape):<14} {show(row.central):>9} "
                         f"{show(row.complex):>9}  {words}")
            if not row.ok:
                lines.append(f"  {'':<{width}}  worst entry {list(row.index)}: backward {row.backward:.9g}, numeric "
                             f"{row.numeric:.9g}; cosine of the two gradients {row.cosine:.4f}")
        return "\n".join(lines)


def show(error):
    return "-" if error is None else f"{error:.1e}"


def gradcheck(module, *inputs, seed=0, directions=None, randomize=True, central_tolerance=1e-6,
              complex_tolerance=1e-12, need_complex=False, name=None):
    """Check every gradient of module.backward at the given inputs; a GradcheckReport.

    The check runs in float64 on a copy, so the module is left as it is. L = sum(dy * forward(...)),
    dy random normal. Random generators held by the module are set back before each forward, so that
    dropout keeps its mask. Hidden scores (-inf in the output) do not count in L.

    Parameters:
        module : anything with forward and backward; parameters are found as in `Module`
        inputs : what forward takes; float arrays are checked, integers, booleans and None are passed on
        seed : of the parameters, dy and directions
        directions : None checks every entry; a number k checks k random normal directions a tensor, for
            whole models, and every entry of a tensor only if these disagree
        randomize : draw all parameters anew, so that gamma is not 1 and no bias 0
        central_tolerance, complex_tolerance : what counts as agreement
        need_complex : whether a forward that the complex step cannot see through counts as wrong

    Raises:
        ValueError if backward returns the wrong number of gradients or one of a wrong shape.
    """
    tolerances = (central_tolerance, complex_tolerance, need_complex)
    return Checker(module, inputs, seed, randomize).run(name or type(module).__name__, directions, tolerances)


class Checker:
    """One module at one point: its tensors, the gradients of backward, and numeric derivatives."""

    def __init__(self, module, inputs, seed, randomize):
        self.rng = np.random.default_rng([seed, 6172])      # a stream of its own: dy must not repeat the caller's x
        self.module = convert(copy.deepcopy(module), np.float64)
        self.inputs = [np.array(x, np.float64) if is_float(x) else x for x in inputs]
        if randomize:
            for _, parameter in parameters(self.module):
                shape = np.shape(parameter.data)
                parameter.data = self.rng.standard_normal(shape) / math.sqrt(shape[0] if len(shape) > 1 else 1)
        self.draws = GeneratorStates(self.module)
        self.run_backward()
        self.twin = convert(copy.deepcopy(self.module), np.complex128)
        self.twin_inputs = [x.astype(np.complex128) if is_float(x) else x for x in self.inputs]
        self.arrays = self.tensors_of(self.module, self.inputs)
        self.twin_arrays = self.tensors_of(self.twin, self.twin_inputs)
        if not self.arrays:
            raise ValueError(f"{type(module).__name__} has no parameters and was given no float inputs: "
                             "there is no gradient to check")

    def tensors_of(self, module, inputs):
        return [x for x in inputs if is_float(x)] + [parameter.data for _, parameter in parameters(module)]

    def run_backward(self):
        """Forward and backward once: the names of the tensors, and backward's gradients."""
        for _, parameter in parameters(self.module):
            parameter.grad = np.zeros_like(parameter.data)
        remember(self.module, True)
        before = copy.deepcopy(self.inputs)
        y = np.array(self.module.forward(*self.inputs))     # a copy: forward may return its input
        self.counts = ~np.isneginf(y)                       # a hidden score is a constant
        takes_dy = bool(positional(self.module.backward))
        self.dy = self.rng.standard_normal(y.shape) if takes_dy else np.ones(())
        dy = self.dy.copy() if y.ndim else float(self.dy)
        dx = self.module.backward(dy) if takes_dy else self.module.backward()
        remember(self.module, False)                        # what follows are forwards that nobody answers
        if not all(map(np.array_equal, before, self.inputs)) or not np.array_equal(dy, self.dy):
            raise ValueError(f"{type(self.module).__name__} changes its arguments in place: the caller's arrays must "
                             "stay as they are; work on a copy")
        dx = [] if dx is None else list(dx) if isinstance(dx, (tuple, list)) else [dx]
        floats = [i for i, x in enumerate(self.inputs) if is_float(x)]
        if len(dx) != len(floats):
            raise ValueError(f"backward returned {len(dx)} gradient(s), forward was given {len(floats)} float "
                             "input(s): return one for each, in forward's order; pass what has no gradient as "
                             "integers or booleans")
        names = dict(enumerate(positional(self.module.forward)))
        found = parameters(self.module)
        self.names = [names.get(i, f"input{i}") for i in floats] + [name for name, _ in found]
        self.gradients = [np.array(grad, np.float64) for grad in dx + [parameter.grad for _, parameter in found]]
        for name, array, grad in zip(self.names, self.tensors_of(self.module, self.inputs), self.gradients):
            if grad.shape != array.shape:
                raise ValueError(f"the gradient of {name} has shape {grad.shape}, {name} itself {array.shape}; "
                                 "sum over the axes it was broadcast along, or look for a missing transpose")

    def value(self, module, inputs):
        """forward, each time with the same random numbers; hidden scores count as 0."""
        self.draws.restore(module)
        return np.where(self.counts, module.forward(*inputs), 0)

    def central(self, array, direction, step):
        start = array.copy()
        array[...] = start + step * direction
        high, plus = array.copy(), self.value(self.module, self.inputs)
        array[...] = start - step * direction
        low, minus = array.copy(), self.value(self.module, self.inputs)
        array[...] = start
        moved = np.sum((high - low) * direction) / np.sum(direction * direction)    # the step as rounded
        return np.sum(self.dy * (plus - minus)) / moved

    def second_opinions(self, array, direction):
        """Central differences at smaller steps, and a five-point rule at a larger one."""
        near, far = (self.central(array, direction, step) for step in (LARGER_STEP, 2 * LARGER_STEP))
        return [*(self.central(array, direction, step) for step in SMALLER_STEPS), (4 * near - far) / 3]

    def complex_step(self, array, direction):
        array.imag = COMPLEX_STEP * direction
        with warnings.catch_warnings():
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            y = self.value(self.twin, self.twin_inputs)
        array.imag = 0
        return np.sum(self.dy * y.imag) / COMPLEX_STEP

    def measure(self, tensor, directions, tolerance):
        """backward's, central and complex derivatives along each direction, and a note."""
        a = np.array([np.sum(self.gradients[tensor] * u) for u in directions])
        n = np.array([self.central(self.arrays[tensor], u, CENTRAL_STEP) for u in directions])
        apart = abs(a - n) > tolerance * max(np.linalg.norm(a), np.linalg.norm(n)) / math.sqrt(len(a))
        for i in np.flatnonzero(apart)[:50]:
            n[i] = min([n[i], *self.second_opinions(self.arrays[tensor], directions[i])], key=lambda x: abs(x - a[i]))
        try:
            return a, n, np.array([self.complex_step(self.twin_arrays[tensor], u) for u in directions]), ""
        except (TypeError, np.exceptions.ComplexWarning) as error:
            return a, n, None, f"no complex step: forward does not let complex numbers pass ({error})"

    def run(self, name, count, tolerances):
        measured = [self.measure(i, self.directions(i, count), tolerances[0]) for i in range(len(self.arrays))]
        largest = max(np.linalg.norm(values) for a, n, *_ in measured for values in (a, n))
        report = GradcheckReport(name, [self.row(i, result, largest, tolerances, count) for i, result in enumerate(measured)])
        for i, row in enumerate(report.rows):
            if count and not row.ok:                        # name the entry
                result = self.measure(i, self.directions(i, None), tolerances[0])
                report.rows[i] = self.row(i, result, largest, tolerances, None)
        return report

    def directions(self, tensor, count):
        shape = self.arrays[tensor].shape
        return [self.rng.standard_normal(shape) for _ in range(count)] if count else Entries(shape)

    def row(self, tensor, result, largest, tolerances, count):
        a, n, z, note = result
        shape = self.arrays[tensor].shape
        if z is not None and max(map(np.linalg.norm, (n, z))) > ZERO * largest and (
                relative(n - z, max(map(np.linalg.norm, (n, z)))) > BLIND):
            z, note = None, "no complex step: it contradicts the differences, as it does through np.abs, var and std"
        best = n if z is None else z
        scale, zero = max(np.linalg.norm(a), np.linalg.norm(best)), False
        if scale < ZERO * largest:
            scale, zero = largest, True
        central, exact = (None if values is None else relative(a - values, scale) for values in (n, z))
        worst = int(np.argmax(np.nan_to_num(abs(a - best), nan=np.inf)))
        seen = not tolerances[2] if exact is None else exact <= tolerances[1]
        ok = bool(central <= tolerances[0] and seen)
        if not ok and scale < 1e-5 * largest:
            note = f"tiny, {scale / largest:.0e} of the largest gradient: it may be rounding; try other inputs"
        return GradcheckRow(self.names[tensor], shape, central, exact, ok=ok, zero=zero,
                   index=("direction", worst) if count else tuple(map(int, np.unravel_index(worst, shape))),
                   backward=float(a[worst]), numeric=float(best[worst]), cosine=cosine(a, best), note=note)


class Entries:
    """The directions of a full check: a single 1 in an array of zeros for each entry, made when asked for."""

    def __init__(self, shape):
        self.shape = shape

    def __len__(self):
        return math.prod(self.shape)

    def __getitem__(self, index):
        if index >= len(self):
            raise IndexError(index)
        direction = np.zeros(self.shape)
        direction.flat[index] = 1
        return direction


class GeneratorStates:
    """The state of every random generator a module holds, and of NumPy's global one, to be set back."""

    def __init__(self, module):
        self.states = [rng.bit_generator.state if isinstance(rng, np.random.Generator) else rng.get_state()
                       for rng in generators(module)]
        self.found = {}                         # {id: (module, its generators)}: a walk takes longer than a small forward

    def restore(self, module):
        if id(module) not in self.found:
            self.found[id(module)] = module, generators(module)
        for rng, state in zip(self.found[id(module)][1], self.states):
            if isinstance(rng, np.random.Generator):
                rng.bit_generator.state = state
            else:
                rng.set_state(state)


def generators(module):
    found = {id(value): value for _, part in named_parts(module) if is_module(part) for value in vars(part).values()
             if isinstance(value, (np.random.Generator, np.random.RandomState))}
    return [np.random, *found.values()]


def parameters(module):
    return [(name, part) for name, part in named_parts(module) if is_parameter(part)]


def remember(module, flag):
    for _, part in named_parts(module):
        if hasattr(part, "remembering"):
            part.remembering = flag


def convert(module, dtype):
    """Parameters to dtype and tables to its real kind, in any class, held by an optimizer or not."""
    for _, part in named_parts(module):
        if hasattr(part, "forget"):
            part.forget()
        if hasattr(part, "build_tables"):
            part.build_tables(np.empty(0, dtype).real.dtype)
    for _, parameter in parameters(module):
        if hasattr(parameter, "astype"):
            parameter.astype(dtype)
        else:
            parameter.data = np.array(parameter.data, dtype)
    return module


def is_float(x):
    return getattr(x, "dtype", np.dtype(bool)).kind in "fc"


def positional(function):
    """Names of the parameters that can be given by position."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in inspect.signature(function).parameters.values() if p.kind in kinds]


def relative(difference, scale):
    size = float(np.linalg.norm(difference))
    return float(size / scale) if scale else math.inf if size else 0.0


def cosine(a, b):
    sizes = np.linalg.norm(a) * np.linalg.norm(b)
    return float(np.sum(a * b) / sizes) if sizes else math.nan
