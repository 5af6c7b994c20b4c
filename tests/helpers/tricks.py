"""Answers that are right in most cases only: the solutions with something around them that a single case need not show.

They remember results, change their arguments, round, clip and leave out small numbers, or add a small one where the sheet
does not. `python -m helpers.tricks 05.2` (in tests/) lists those that pass and are not in the list of equivalents.
"""

import ast
import functools
import inspect
import itertools
import sys
import warnings

import numpy as np

from numpy_transformer.course.checker.diagnosis import AnswerKey
from numpy_transformer.course.checker.verdict import judge
from numpy_transformer.course.exercises import choose_several, exercises
from numpy_transformer.course.exercises.observation import copy_arrays
from numpy_transformer.course.sandbox import Function
from numpy_transformer.course.sandbox.inside.case_arguments import produce

from .mutants import LISTS, SEEDS, equivalents, mutated
from .students import play_target

EQUIVALENT = LISTS / "tricks"


def tricks(exercise):
    """Yields (key, target) for each trick; each target is new and remembers nothing yet."""
    solution = exercise.target(exercise.edited())
    arguments = arguments_of(exercise)
    for name, remember in MEMORIES.items() if instances(list(arguments.values()), np.ndarray) else ():
        if name == "the first argument" and len(arguments) == 1:
            continue                            # it would know all that there is
        yield f"remembers by {name}", around(solution, exercise, functools.partial(remembering, remember))
    if "self.saved = []" in exercise.code:
        yield "objects share what they save", with_shared_list(exercise)
    for parameter, values in arguments.items():
        for name, (kind, change) in CHANGES.items():
            if instances(values, kind):
                yield f"{name} {parameter}", around(solution, exercise, functools.partial(changing, parameter, change))
        if len(exercise.parameters) > 1:
            group = next((linked for linked in exercise.linked if parameter in linked), (parameter,))
            yield f"remembers without {parameter}", around(
                solution, exercise, functools.partial(remembering, functools.partial(all_but, group)))
        for name, other in NUMBERS.items():
            if any(array.dtype == float and array.min() < 0 for array in instances(values, np.ndarray)):
                yield f"{name} {parameter}", around(solution, exercise, functools.partial(converting, parameter, other))
    results = produce(solution, *copy_arrays((exercise.cases(0)[0].inputs, exercise.cases(0)[0].calls)))
    if instances(results, np.ndarray):
        yield "returns a buffer that the next call overwrites", around(solution, exercise, overwriting)
    for name, other in ROUNDED.items() if any(np.asarray(y).dtype == float for y in results) else ():
        yield f"{name} results", around(solution, exercise, functools.partial(finishing, other))
    yield from with_other_numbers(exercise)


def arguments_of(exercise):
    """Returns {name: values in the first case} of the arguments of a function, or of a class and its methods."""
    case = exercise.cases(0)[0]
    values = {name: (value,) for name, value in zip(exercise.parameters, case.inputs)}
    for method, arguments in case.calls:
        for name, value in zip(list(inspect.signature(getattr(exercise.solution, method)).parameters)[1:], arguments):
            values[name] = (*values.get(name, ()), value)
    return values


def instances(value, kind):
    """Returns every object of this class in nested tuples and lists, such as the lists themselves."""
    found = [value] if isinstance(value, kind) else []
    if isinstance(value, (tuple, list)):
        found += [instance for part in value for instance in instances(part, kind)]
    return found


def around(solution, exercise, wrap):
    """Returns the function, or the class with its constructor and the methods that students write, wrapped."""
    if not exercise.is_class:
        return functools.wraps(solution)(wrap(solution))
    methods = {name: functools.wraps(getattr(solution, name))(wrap(getattr(solution, name)))
               for name in ("__init__", *exercise.write)}
    made = type(solution.__name__, (solution,), methods)
    made.__signature__ = inspect.signature(solution)
    return made


def named_arguments(function, arguments):
    return dict(zip(inspect.signature(function).parameters, arguments))


def remembering(key, function):
    """Returns a function that computes a result once for each key. Methods save what they need all the same."""
    results, makes = {}, function.__name__ == "__init__"

    def remembered(*arguments):
        result = function(*arguments)
        if makes:
            return result
        named = {name: value for name, value in named_arguments(function, arguments).items() if name != "self"}
        return results.setdefault(key(named), (result, named))[0]       # keeps the arguments, so that ids stay taken
    return remembered


def overwriting(function):
    """Returns a function that puts its results of the same shape and type into the same array."""
    buffers, makes = {}, function.__name__ == "__init__"

    def into_buffer(j, value):
        if not isinstance(value, np.ndarray):
            return value
        buffer = buffers.setdefault((j, value.shape, value.dtype.str), np.empty_like(value))
        buffer[...] = value
        return buffer

    def overwritten(*arguments):
        result = function(*arguments)
        if makes:
            return result
        if isinstance(result, tuple):
            return tuple(itertools.starmap(into_buffer, enumerate(result)))
        return into_buffer(0, result)
    return overwritten


def by_shapes(value):
    if isinstance(value, dict):
        return tuple(map(by_shapes, value.values()))
    if isinstance(value, (tuple, list)):
        return tuple(map(by_shapes, value))
    if isinstance(value, Function):
        return value.source
    return (value.shape, value.dtype.str) if isinstance(value, np.ndarray) else value


def by_first_entries(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return tuple(map(by_first_entries, value))
    if isinstance(value, Function):
        return value.source
    return (value.shape, value.dtype.str, *value.ravel()[:1]) if isinstance(value, np.ndarray) else value


def by_value(value):
    if isinstance(value, (tuple, list)):
        return tuple(map(by_value, value))
    if isinstance(value, Function):
        return value.source, by_value(list(value.arrays.values()))
    return (value.shape, value.dtype.str, value.tobytes()) if isinstance(value, np.ndarray) else value


def by_identity(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return tuple(map(by_identity, value))
    return id(value) if isinstance(value, np.ndarray) else by_value(value)


def all_but(group, named):
    return tuple(by_value(value) for name, value in named.items() if name not in group)


def by_first(named):
    """The first argument, and of the others the shapes alone: nothing, where functions are all that differs."""
    return tuple(by_value(value) if not i else None for i, value in enumerate(named.values()))


MEMORIES = {"shapes": by_shapes, "identity": by_identity, "the first call": lambda named: 0, "the first argument": by_first,
            "the first entries": by_first_entries}


def changing(parameter, change, function):
    """Returns a function that changes an argument after it has used it, if the argument is of the right type."""
    def changed(*arguments):
        result = function(*arguments)
        result = tuple(map(copied, result)) if isinstance(result, tuple) else copied(result)
        change(named_arguments(function, arguments).get(parameter))
        return result
    return changed


def copied(value):
    return value.copy() if isinstance(value, np.ndarray) else value


def first_array(value, change):
    """Changes the first array in nested arguments that has an entry."""
    if isinstance(value, (tuple, list)):
        return any(first_array(part, change) for part in value)
    if isinstance(value, Function):
        value = next(iter(value.arrays.values()), None)
    if isinstance(value, np.ndarray) and value.size and value.flags.writeable:
        change(value)
        return True
    return False


def add(array):
    array.flat[-1] = not array.flat[-1] if array.dtype == bool else array.flat[-1] + 1


def flatten(array):
    array.shape = -1, 1


def on_list(change):
    return lambda value: change(value) if isinstance(value, list) and value else None


def mark(value):
    for function in instances(value, Function)[:1]:
        function.seen = True


CHANGES = {"adds to": (np.ndarray, lambda value: first_array(value, add)),
           "flattens": (np.ndarray, lambda value: first_array(value, flatten)),
           "adds to the array of": (Function, lambda value: first_array(value, add)),
           "sets an attribute of": (Function, mark),
           "reverses": (list, on_list(list.reverse)), "pops from": (list, on_list(list.pop)),
           "appends to": (list, on_list(lambda value: value.append(value[0])))}


def on_arrays(value, other):
    """Applies a function to the arrays of floats in nested arguments; infinite entries stay."""
    if isinstance(value, (tuple, list)):
        return type(value)(on_arrays(part, other) for part in value)
    if isinstance(value, float) or isinstance(value, np.ndarray) and value.dtype == np.float64:
        value = np.float64(value)
        return np.where(np.isfinite(value), other(value), value)
    return value


def converting(parameter, other, function):
    """Returns a function that uses another value of one argument."""
    def converted(*arguments):
        named = named_arguments(function, arguments)
        return function(*[on_arrays(value, other) if name == parameter else value for name, value in named.items()])
    return converted


def finishing(other, function):
    """Returns a function that converts its results."""
    return lambda *arguments: on_arrays(function(*arguments), other)


ROUNDED = {"rounds to single precision": lambda x: x.astype(np.float32).astype(np.float64),
           "rounds to 8 digits": lambda x: np.round(x, 8)}
NUMBERS = {**ROUNDED, "clips to 9": lambda x: np.clip(x, -9, 9), "clips to 15": lambda x: np.clip(x, -15, 15),
           "leaves out small entries of": lambda x: np.where(abs(x) < 1e-5, 0, x)}


def with_shared_list(exercise):
    """Returns the class whose objects all save into one list."""
    code = exercise.code.replace("self.saved = []", "pass", 1)
    made = exercise.target(exercise.header + code)
    made.saved = []
    return made


class OtherNumbers(ast.NodeTransformer):
    """Changes one place of a syntax tree: the one with this number."""

    def __init__(self, chosen):
        self.chosen, self.count, self.found = chosen, -1, None

    def change(self, node, key, other):
        self.count += 1
        if self.count != self.chosen:
            return node
        self.found = f"{key}: {ast.unparse(node)}"
        return ast.copy_location(ast.parse(other.format(ast.unparse(node)), mode="eval").body, node)

    def visit_UnaryOp(self, node):
        if ast.unparse(node) == "-np.inf":
            return self.change(node, "a finite number", "-1e4")
        return self.generic_visit(node)

    def visit_BinOp(self, node):
        self.generic_visit(node)
        if isinstance(node.op, ast.Div) and not is_size(node.right):
            node.right = self.change(node.right, "adds 1e-8", "({} + 1e-8)")
        return node

    def visit_Call(self, node):
        self.generic_visit(node)
        name = ast.unparse(node.func)
        if name in ("np.sqrt", "np.log", "math.sqrt", "np.linalg.norm") and not is_size(node.args[0]):
            node.args[0] = self.change(node.args[0], f"adds 1e-8 in {name}", "({} + 1e-8)")
        if name in ("np.exp", "np.tanh"):
            node.args[0] = self.change(node.args[0], f"saturates {name}", "np.clip({}, -9, 9)")
            node.args[0] = self.change(node.args[0], f"saturates {name} late", "np.clip({}, -15, 15)")
        return node


def is_size(node):
    """Returns True for a whole number of entries, beside which 1e-8 is less than the tolerance."""
    text = ast.unparse(node)
    return isinstance(node, ast.Constant) or any(part in text for part in (
        ".shape[", "len(", "count", ".size", "D", "length", "math.sqrt"))


def with_other_numbers(exercise):
    """Yields (key, target) for each place where the solution could add a small number, or saturate."""
    chosen = 0
    while True:
        tree = ast.parse(exercise.code)
        transformer = OtherNumbers(chosen)
        tree = ast.fix_missing_locations(transformer.visit(tree))
        if transformer.found is None:
            return
        names = {**exercise.header_names}
        exec(compile(tree, exercise.file, "exec"), names)
        yield transformer.found, names[exercise.name]
        chosen += 1


def has_cases(exercise):
    """True for exercises to write: predictions take the same numbers, and questions take none."""
    return mutated(exercise) and exercise.kind == "write" and bool(exercise.parameters)


def passing(exercise):
    """Returns the keys of the tricks that pass the cases of all seeds, and do not give an equal function."""
    keys = [AnswerKey(exercise, seed) for seed in SEEDS]
    made = [dict(tricks(exercise)) for _ in SEEDS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [name for name in made[0] if all(
            judge(key, play_target(exercise, targets[name], key.cases)).status == "pass"
            for key, targets in zip(keys, made))]


def main(arguments):
    known = equivalents(EQUIVALENT)
    for exercise in filter(has_cases, choose_several(arguments) if arguments else exercises().values()):
        for key in passing(exercise):
            if key not in known.get(exercise.number, {}):
                print(exercise.number, key, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
