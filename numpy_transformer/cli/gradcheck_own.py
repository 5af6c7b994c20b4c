"""numpy-transformer gradcheck FILE.py:Class: a class that a student wrote, perhaps compared with a component."""

import ast
import contextlib
import importlib.util
import inspect
import sys
import traceback
from pathlib import Path

import numpy as np

from ..checks.gradcheck import gradcheck, positional
from ..checks.repeated_passes import joined_names, plain_arrays, problems
from ..course.checker.feedback import WIDTH, feedback
from ..course.checker.own_component import AdaptedClass, compare
from ..module import is_parameter, named_parts
from .terminal import output_columns, wrap


def check_own(name, arguments):
    """Returns the report on a student's class, lines to print before and after it, and whether all is right."""
    path, _, class_name = name.rpartition(":")
    path = Path(path).resolve()
    cls = load_class(path, class_name)
    adapted = AdaptedClass(cls, arguments.like) if arguments.like else None
    with errors_of(path):
        module, values, notes = make(cls, adapted, arguments)
        report = gradcheck(module, *values, seed=arguments.seed, name=class_name)
        wrong, remarks = problems(module, *values, seed=arguments.seed)
    compared = compare(adapted, str(path), arguments.seed) if adapted else []
    lines = [wrap(f"WRONG: {sentence}.") for sentence in wrong] + [wrap(f"note: {sentence}.") for sentence in remarks]
    for comparison in compared:
        lines.append(wrap(f"compared with {adapted.name} in the cases of exercise {comparison.exercise.number}:"))
        lines += feedback(comparison.exercise, comparison.verdict, comparison.printed, min(output_columns(), WIDTH))
    if adapted and report.ok and any(comparison.forward_is_wrong for comparison in compared):
        lines.append(wrap(f"Every gradient agrees with your forward, but your forward is not that of {adapted.name}: "
                          "backward is right for another function."))
    return report, notes, lines, report.ok and not wrong and all(comparison.verdict.status == "pass" for comparison in compared)


def make(cls, adapted, arguments):
    """Returns an object of the class, inputs for its forward, and notes to print."""
    notes = [*adapted.notes] if adapted else []
    inputs = arguments.inputs or []
    if adapted and not inputs:
        module, values = adapted.sample()
    elif not inputs:
        raise ValueError(f"{cls.__name__}.forward{inspect.signature(cls.forward)} needs inputs; give the shape of each,"
                         " for instance --shape 3,5,12")
    else:
        rng = np.random.default_rng(arguments.seed)
        values = [rng.integers(0, limit, shape) if limit else rng.standard_normal(shape) for limit, shape in inputs]
        built = constructor_arguments(cls, arguments.args, inputs[0])
        module = cls(*built)
        check_count(module, cls.__name__, inputs)
        if built and arguments.args is None:
            notes.append(f"built as {cls.__name__}({', '.join(map(str, built))}); use --args to give other arguments")
    arrays = plain_arrays(module)
    if arrays:
        notes.append(about_arrays(arrays))
    elif not adapted and not any(is_parameter(part) for _, part in named_parts(module)):
        notes.append("no parameters found; they are attributes with .data and .grad, such as nt.Parameter")
    return module, values, notes


def about_arrays(names):
    """Returns a sentence about the attributes of a module that are arrays and not parameters."""
    if len(names) == 1:
        return (f"{names[0]} is an array, not a parameter, so its gradient is not checked and no optimizer trains it; "
                "make it an nt.Parameter, unless it never changes")
    return (f"{joined_names(names)} are arrays, not parameters, so their gradients are not checked and no optimizer trains "
            "them; make each an nt.Parameter, unless it never changes")


@contextlib.contextmanager
def errors_of(path):
    """Turns what the student's file raises into a ValueError that names the line."""
    try:
        yield
    except (Exception, SystemExit) as error:
        lines = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
        if not lines and type(error) is ValueError:
            raise                                           # already a sentence, such as gradcheck's own
        where = f", line {lines[-1].lineno}, in {lines[-1].name}" if lines else ""
        raise ValueError(f"{path.name}{where}: {type(error).__name__}: {error}") from error


def load_class(path, class_name):
    if not path.is_file():
        raise ValueError(f"there is no file {path.name!r} in {path.parent}; name the class as FILE.py:Class")
    spec = importlib.util.spec_from_file_location(f"_checked_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))                    # so that it can import from its own folder
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ValueError(f"{path.name} cannot be imported: {type(error).__name__}: {error}") from error
    cls = getattr(module, class_name, None)
    if not isinstance(cls, type):
        classes = [key for key, value in vars(module).items() if isinstance(value, type)]
        raise ValueError(f"{path.name} defines no class {class_name!r}; it defines {', '.join(classes) or 'none'}")
    for method in ("forward", "backward"):
        if not callable(getattr(cls, method, None)):
            raise ValueError(f"{class_name} has no method {method}; a component has forward and backward")
    return cls


def name_class(path):
    """Returns how to name a class of a file, with those that it defines."""
    try:
        tree = ast.parse(Path(path).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return f"name the class in it as {path}:Class"
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    if not classes:
        return f"name a class in it, as in {path}:Class; it defines none"
    return f"name the class in it as {path}:{classes[-1]}; it defines {joined_names(classes)}"


def constructor_arguments(cls, text, first_input):
    """Returns the given arguments, or a guess: the last dimension for the first one, others by their names."""
    required = [p for p in inspect.signature(cls).parameters.values()
                if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if text is not None:
        try:
            values = [*ast.literal_eval(f"({text},)")]
        except (SyntaxError, ValueError) as error:
            raise ValueError(f"--args {text!r} does not consist of Python literals such as 12,16") from error
        names = [p.name for p in required]
        if "rng" in names[len(values):len(values) + 1]:
            values.append(np.random.default_rng(0))         # it cannot be written as a literal
    else:
        width = first_input[1][-1]
        guesses = {"d_out": width + 4, "d_ff": width + 5, "dropout": 0.3, "p": 0.3, "eps": 1e-5,
                   "num_heads": next((n for n in range(2, width) if width % n == 0), 1), "rng": np.random.default_rng(0)}
        first_is_float = first_input[0] is None
        values = [guesses.get(p.name, width if i == 0 and first_is_float else None) for i, p in enumerate(required)]
        if None in values:
            raise ValueError(f"the arguments of {cls.__name__} are {', '.join(p.name for p in required)}; give them "
                             "with --args in this order, preferably all different, for instance --args 12,16")
    return values


def check_count(module, class_name, inputs):
    names = positional(module.forward)
    required = [p for p in inspect.signature(module.forward).parameters.values()
                if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if not len(required) <= len(inputs) <= max(len(names), len(required)):
        raise ValueError(f"{class_name}.forward takes {', '.join(names)}, but {len(inputs)} input(s) were given; "
                         "use --shape (or --ids) once for each")
