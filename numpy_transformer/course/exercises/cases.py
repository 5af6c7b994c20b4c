"""The cases of an exercise: how its arguments are drawn for one seed, and how a case is described to a student."""

import itertools
import math
import textwrap
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import numpy as np

from ...texts import texts_of
from ..sandbox.inside.case_arguments import BESIDE, Function, instances
from . import further_cases

# All sizes and all ratios of sizes differ, so that a wrong factor can be attributed to one of them. The square case
# hides a missing transpose from the shape check. The third entry lists the leading axes of arguments of shape (..., n).
SIZES = (
    ("ordinary", dict(B=3, T=5, S=7, H=2, d=6, D=12, F=16, V=11), "BT"),
    ("other", dict(B=5, T=7, S=9, H=3, d=6, D=18, F=22, V=13), "BT"),
    ("square", dict(B=3, T=6, S=6, H=2, d=6, D=12, F=12, V=12), "BT"),
    ("rows", dict(B=3, T=7, S=5, H=2, d=5, D=10, F=14, V=11), "T"),
    ("one_more_axis", dict(B=3, T=5, S=7, H=2, d=7, D=14, F=10, V=9), "BHT"),
)
EQUAL = "TSd", "DFV"                            # the sizes that are equal in the square case
ROLES = "again", "float32", *further_cases.FURTHER
LONGEST = 160                                   # characters that describe the arguments of a case


@dataclass(frozen=True, eq=False)               # compared by identity, so that it can be a dictionary key
class Case:
    """The arguments of a function, or the constructor's arguments of a class and the calls that follow."""

    note: str
    inputs: tuple
    calls: tuple = ()                           # (method, arguments) in order
    sizes: dict = field(default_factory=dict)   # {letter: size}
    role: str = ""                              # of a case that is not a main case: one of ROLES
    reuses: "Case" = None                       # an earlier case, whose arrays get the values of this one

    def arrays(self):
        """Returns all arrays among the arguments, in order."""
        return instances((self.inputs, self.calls), np.ndarray)


def draw_cases(exercise, seed):
    """Returns the cases of one seed: the main cases, and those that only a right answer to these has to pass.

    The first case is repeated in float32 if it has floating-point arrays, and once more at the end, to see whether the
    second call gives the same result. further_cases.py describes those in between.
    """
    streams, place = itertools.count(), int(exercise.number.replace(".", ""))        # each exercise has its own

    def stream():
        return np.random.default_rng([seed, place, next(streams)])

    def ordinary(rng, size=""):
        case = draw_case(exercise, rng, *SIZES[0])
        return replace(case, note=case_words(size)) if size else case

    drawn = every_size_and_edge(exercise, stream)
    cases = [case for case in drawn if not case.role]
    if len(cases) == 1:
        return cases
    single = [as_float32(cases[0])] if has_floats(cases[0]) else []
    other_sizes = [case for case in drawn if case.role] + further_cases.sizes(exercise, stream, ordinary)
    if exercise.single_row:
        row = draw_case(exercise, np.random.default_rng([seed, place, 1]), "single_row", SIZES[0][1], "")
        other_sizes.append(replace(row, sizes={}, role="size"))
    alike = ordinary(further_cases.Alike(np.random.default_rng([seed, place, 0]), stream()))
    redrawn = [case for case in every_size_and_edge(exercise, stream) if not case.role]
    other_values = further_cases.others(exercise, cases, redrawn, alike,
                                        lambda note: case_words("other_values", note=note))
    functions = further_cases.returning(exercise, cases[0], case_words("returning"))
    return [*cases, *single, *other_sizes, *other_values, *functions, replace(cases[0], role="again", reuses=cases[0])]


def every_size_and_edge(exercise, stream):
    """Returns one case for each of SIZES and the edge cases, each of SIZES with a random generator of its own."""
    cases = []
    for key, sizes, lead in SIZES:
        cases.append(draw_case(exercise, stream(), key, sizes, lead))
        has_arguments = cases[0].inputs or cases[0].calls
        if not has_arguments:                   # a question: one case is enough
            return cases
    for key, arguments in exercise.edges(stream()):
        edge = make_case(exercise, exercise.texts[f"case.{key}"], arguments, {})
        cases.append(replace(edge, role="size") if key in exercise.further_edges else edge)
    return cases


def draw_case(exercise, rng, key, sizes, lead):
    """Returns the case of one of SIZES."""
    n = SimpleNamespace(**sizes, lead=tuple(sizes[letter] for letter in lead))
    arguments = exercise.inputs(rng, n)
    note = note_of(key, exercise.size_letters)
    if all(isinstance(value, (int, float)) for value in arguments):
        note = case_words("drawn")              # numbers that need not have the sizes that the note describes
    return make_case(exercise, note, arguments, {**sizes, "N": math.prod(n.lead)})


def case_words(key, **values):
    return texts_of("exercises")["cases"][key].format(**values)


def note_of(key, letters):
    """Returns the note of one of SIZES. Of the square case, it names the equal sizes among these letters."""
    if key != "square":
        return case_words(key)
    equal = [[letter for letter in group if letter in letters] for group in EQUAL]
    named = ", ".join(" = ".join(group) for group in equal if len(group) > 1)
    return case_words("square", sizes=named or case_words("equal"))


def make_case(exercise, note, arguments, sizes):
    """Returns the Case of what `inputs` or `edges` returned."""
    return Case(note, *arguments, sizes) if exercise.is_class else Case(note, arguments, (), sizes)


def describe_case(exercise, case):
    """Returns the note of a case and its arguments: the shapes of arrays, and other values."""
    parts = [f"{name} {brief(value)}" for name, value in zip(exercise.parameters, case.inputs)]
    parts += [f"{method}({', '.join(map(brief, arguments))})" for method, arguments in case.calls
              if not method.startswith(BESIDE)]
    if any(method.startswith(BESIDE) for method, _ in case.calls):
        parts.insert(0, case_words("beside"))
    return f"{case.note}: {textwrap.shorten(', '.join(parts), LONGEST)}" if parts else case.note


def brief(value):
    """Returns a short description of an argument: the shape of an array, or the value of anything else."""
    if isinstance(value, (tuple, list)):
        parts = list(map(brief, value))
        all_equal = len(parts) >= 3 and len(set(parts)) == 1
        return case_words("times", count=len(parts), part=parts[0]) if all_equal else f"[{', '.join(parts)}]"
    if isinstance(value, dict):
        return case_words("entries", count=len(value))
    if isinstance(value, Function):
        return case_words("function")
    return str(value.shape if isinstance(value, np.ndarray) else value)


def labels(exercise, case):
    """Returns a name for each of the case's arrays."""
    calls = [(case_words("argument", method=method.removeprefix(BESIDE)), arguments) for method, arguments in case.calls]
    named = (*zip(exercise.parameters, case.inputs), *calls)
    return [name for name, value in named for _ in instances(value, np.ndarray)]


def argument_names(exercise, case):
    """Returns a name for each of the case's arguments, those of the calls after the inputs."""
    calls = [case_words("argument", method=method.removeprefix(BESIDE))
             for method, arguments in case.calls for _ in arguments]
    return [*exercise.parameters[:len(case.inputs)], *calls]


def factors(exercise, case):
    """Returns {name: value} of possible factors: the sizes, each float argument p, and 1 - p. {} for edge cases.

    A size that is itself an argument, such as T, has the value of the argument.
    """
    if not case.sizes:
        return {}
    arguments = dict(zip(exercise.parameters, case.inputs))
    numbers = {name: value for name, value in arguments.items() if isinstance(value, float)}
    numbers |= {f"(1 - {name})": 1 - value for name, value in numbers.items()}
    sizes = case.sizes | {name: value for name, value in arguments.items()
                          if name in case.sizes and isinstance(value, int)}
    return {**sizes, **{name: value for name, value in numbers.items() if value > 0}}


def as_float32(value):
    """Converts float64 arrays to float32 in cases, tuples, lists and dictionaries."""
    if isinstance(value, Case):
        return replace(value, inputs=as_float32(value.inputs), calls=as_float32(value.calls), role="float32")
    if isinstance(value, (tuple, list)):
        return type(value)(map(as_float32, value))
    if isinstance(value, dict):
        return {key: as_float32(part) for key, part in value.items()}
    return value.astype(np.float32) if getattr(value, "dtype", None) == np.float64 else value


def has_floats(case):
    """Returns True if a case can be repeated in float32: it has float64 arrays, and no functions as arguments."""
    has_functions = instances((case.inputs, case.calls), Function)
    return not has_functions and any(array.dtype == np.float64 for array in case.arrays())
