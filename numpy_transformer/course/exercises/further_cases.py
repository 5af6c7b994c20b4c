"""Further cases of an exercise, which refuse answers that are right only for the numbers of the ordinary ones.

`sizes` draws numbers that are much smaller, much larger, or of very different sizes, with zeros among them. `others`
repeats cases with other values in the same arrays, where an answer that keeps results of earlier calls is wrong.
`returning` repeats one with functions that return their own argument, where an answer that changes what a function
returned changes the argument. None of them is used to name a mistake: they are compared only if all other cases are right.
"""

from dataclasses import replace

import numpy as np

from ..sandbox.inside.case_arguments import BESIDE, Function, parts
from .observation import copy_arrays, observe

FURTHER = "size", "other", "functions"          # roles of these cases
TINY, LARGE = 1e-6, 1e3                         # factors of all normal numbers of a case
SMALLEST, LARGEST = -6, 1                       # powers of ten of the factors where sizes differ, and of the rows' own
ZEROS = 0.15                                    # share of the zeros there, and of the rows that are all zero


class Numbers:
    """A random generator whose normal numbers have other sizes. What is not drawn from them stays as it is.

    Probabilities, ids, masks and positive parameters are drawn in other ways or computed, so they remain possible.
    """

    def __init__(self, rng, size):
        self.rng, self.size, self.used = rng, size, False

    def standard_normal(self, shape=()):
        self.used = True
        values = self.rng.standard_normal(shape)
        if self.size != "mixed":
            return values * {"tiny": TINY, "large": LARGE}[self.size]
        lowest = np.where(self.rng.random(np.shape(values)) < 0.5, SMALLEST, 0)        # half of them are not small
        values = values * 10 ** self.rng.uniform(lowest, LARGEST)
        kept = self.rng.random(np.shape(values)) >= ZEROS
        if np.ndim(values) > 1:
            rows = (*np.shape(values)[:-1], 1)
            values = values * 10 ** np.minimum(0, self.rng.uniform(SMALLEST, -SMALLEST, rows))
            kept &= self.rng.random(rows) >= ZEROS
        return values * kept

    def __getattr__(self, name):
        return getattr(self.rng, name)


class Alike:
    """A random generator whose arrays begin and end like those of another one. Single numbers are the same.

    A program that knows its arguments by their first row, column or number takes the second case for the first.
    """

    def __init__(self, rng, other):
        self.rng, self.other = rng, other

    def standard_normal(self, shape=()):
        return self.alike(self.rng.standard_normal(shape), self.other.standard_normal(shape))

    def integers(self, *arguments, **keywords):
        return self.alike(self.rng.integers(*arguments, **keywords), self.other.integers(*arguments, **keywords))

    def alike(self, values, others):
        if np.size(values) <= 1:
            return values
        others[0], others[..., 0], others.flat[-1] = values[0], values[..., 0], values.flat[-1]
        return others

    def __getattr__(self, name):
        return getattr(self.rng, name)


def sizes(exercise, stream, draw):
    """Returns the cases with numbers of other sizes; none if the exercise draws no normal numbers.

    Parameters:
        stream : function () that returns a new random generator
        draw : function (rng, words) that returns a case of ordinary shapes, drawn from this generator
    """
    cases = []
    for size in exercise.number_sizes:
        rng = Numbers(stream(), size)
        case = draw(rng, size)
        if rng.used:
            cases.append(replace(case, sizes={}, role="size"))
    for powers in exercise.powers:
        case = draw(stream(), "powers")
        inputs = tuple(multiplied(value, 10.0 ** powers.get(name, 0))
                       for name, value in zip(exercise.parameters, case.inputs))
        cases.append(replace(case, inputs=inputs, sizes={}, role="size"))
    return cases


def multiplied(value, factor):
    """Returns an argument, an array or nested arrays, times a number."""
    if parts(value) is not None:
        return type(value)(multiplied(part, factor) for part in value)
    return value * factor if isinstance(value, np.ndarray) and factor != 1 else value


def others(exercise, cases, redrawn, alike, note):
    """Returns each of these cases with other values, and some with a single other argument at a time.

    The latter are the first case and, for functions of numbers alone, all cases.

    Parameters:
        cases, redrawn : the same cases, drawn twice
        alike : the first case with arrays that begin and end like its own
        note : function (note of a case) that returns the note of its repetition
    """
    pairs = [(cases[0], redrawn[0])]
    if not any(case.arrays() for case in cases):
        pairs += zip(cases, [*cases[1:], cases[0]])
    single = [(case, replace(case, inputs=inputs, calls=calls)) for case, other in pairs
              for inputs, calls in one_at_a_time(exercise, case, other)]
    return [replace(other, note=note(case.note), sizes={}, role="other", reuses=case)
            for case, other in [*single, (cases[0], alike), *zip(cases, redrawn)]
            if exact((case.inputs, case.calls)) != exact((other.inputs, other.calls))]


def one_at_a_time(exercise, case, other):
    """Yields the arguments of a case, of which one, or those that belong together, have the values of another case.

    A number or truth value that is the same in both gets another value. The calls of a class are made by themselves,
    and in turn with those of a second object, whose saved values must not get into the way.
    """
    if exercise.is_class:
        if shapes(other.calls) == shapes(case.calls):
            yield case.inputs, with_equal_inputs(case.calls)
            yield case.inputs, other.calls
            yield case.inputs, in_turn(other.calls, case.calls)
        return
    groups = [{exercise.parameters.index(name) for name in linked} for linked in exercise.linked]
    groups += [{i} for i in range(len(case.inputs)) if not any(i in group for group in groups)]
    if len(groups) == 1:
        return
    for group in groups:
        values = {i: other.inputs[i] for i in group}
        if len(group) == 1:
            values = {i: another(value) if value is case.inputs[i] or isinstance(value, (int, float))
                      and value == case.inputs[i] else value for i, value in values.items()}
        if all(shapes(case.inputs[i]) == shapes(value) for i, value in values.items()):
            yield tuple(values.get(i, value) for i, value in enumerate(case.inputs)), ()


class Watched:
    """A function among the arguments. While a solution runs, it sees which of its own arguments it could return instead.

    These have the shape and dtype of what the function returns, or of the first of several values, in all of its calls.
    """

    def __init__(self, function):
        self.function, self.fitting, self.several = function, None, False

    def __call__(self, *given):
        result = self.function(*given)
        self.several = isinstance(result, tuple)
        first = result[0] if self.several else result
        fitting = {k for k, value in enumerate(given) if isinstance(first, np.ndarray) and shapes(value) == shapes(first)}
        self.fitting = fitting if self.fitting is None else self.fitting & fitting
        return result

    def returning(self):
        """Returns a function that returns the last such argument itself, such as dy; the function if there is none."""
        if not self.fitting:
            return self.function
        own = f"given[{max(self.fitting)}]"
        rest = f"({own}, *({self.function.source})(*given)[1:])" if self.several else own
        return Function(f"lambda *given: {rest}", **self.function.arrays)


def returning(exercise, case, note):
    """Returns the case with functions that return their own argument, in a list; [] if none of its functions can."""
    watched = {}

    def watch(function):
        return watched.setdefault(function, Watched(function))
    observe(exercise, exercise.solution, replace(case, inputs=with_functions(case.inputs, watch)))
    inputs = with_functions(case.inputs, lambda function: watched[function].returning())
    fitting = any(function.fitting for function in watched.values())
    return [replace(case, note=note, inputs=inputs, sizes={}, role="functions")] if fitting else []


def with_functions(value, other):
    """Returns nested arguments with other functions."""
    if isinstance(value, (tuple, list)):
        return type(value)(with_functions(part, other) for part in value)
    return other(value) if isinstance(value, Function) else value


def another(value):
    """Returns another number or truth value; any other value as it is. Half of a probability is one, too."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return value / 2
    return value + 1 if isinstance(value, int) else value


def with_equal_inputs(calls):
    """Returns calls of a class in which the later ones of forward get the inputs of the first, if they have its shapes."""
    first = next(arguments for method, arguments in calls if method == "forward")
    return tuple((method, copy_arrays(first) if method == "forward" and shapes(arguments) == shapes(first) else arguments)
                 for method, arguments in calls)


def in_turn(others, calls):
    """Returns calls of a class in which a second object takes each of them first, with other arguments."""
    return tuple(call for (method, arguments), own in zip(others, calls) for call in ((BESIDE + method, arguments), own))


def shapes(value):
    """Returns what two arguments share that a program takes for one another."""
    if parts(value) is not None:
        return [shapes(part) for part in parts(value)]
    return (value.shape, value.dtype) if isinstance(value, np.ndarray) else type(value)


def exact(value):
    """Returns what two equal arguments share: values, and the bytes of arrays."""
    if parts(value) is not None:
        return [exact(part) for part in parts(value)]
    if isinstance(value, Function):
        return value.source, exact(value.arrays)
    return value.tobytes() if isinstance(value, np.ndarray) else value
