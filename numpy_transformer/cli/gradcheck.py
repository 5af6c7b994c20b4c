"""numpy-transformer gradcheck: the package's components, or a class that a student wrote."""

import ast
import contextlib
import importlib.util
import inspect
import json
import sys
import textwrap
import traceback
from pathlib import Path

import numpy as np

from ..checks import samples
from ..checks.gradcheck import gradcheck, positional
from ..checks.report import show
from ..module import is_parameter, named_parts
from ..training.progress import Progress
from .parser import add_command, whole_number
from .terminal import columns, wrap

LONGEST_NAME = max(len(sample.name) for sample in samples.SAMPLES)


def add(commands):
    parser = add_command(
        commands, "gradcheck", run, help="verify backward numerically",
        description="Compares every gradient with central differences and with the complex-step derivative, in float64 "
                    "and with random parameters. The exit code is 1 if any of them disagree.")
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help="components such as LayerNorm (default: all), or FILE.py:Class, "
                             "your own class with forward and backward")
    parser.add_argument("--json", metavar="FILE", help="also write the results as JSON; - is standard output")
    parser.add_argument("--all", action="store_true", help="list every tensor, not only each component's worst error")
    parser.add_argument("--seed", type=whole_number(0), default=0, help="seed of parameters and inputs")
    own = parser.add_argument_group("your own class")
    own.add_argument("--shape", dest="inputs", metavar="3,5,12", action="append", type=float_input,
                     help="shape of a float input; repeat it for each input of forward, in order")
    own.add_argument("--ids", dest="inputs", metavar="11:3,5", action="append", type=id_input,
                     help="an integer input instead, here ids below 11 of shape 3,5")
    own.add_argument("--args", metavar="12,16", default=None,
                     help="arguments of the constructor (default: the last number of --shape for the first one, and "
                          "a guess for others named d_out, d_ff, num_heads, dropout, p or eps)")


def run(arguments):
    own = [name for name in arguments.names if ".py:" in name]
    if own and len(arguments.names) > 1:
        raise ValueError("a FILE.py:Class is checked alone; leave out the other names")
    if (arguments.inputs or arguments.args) and not own:
        raise ValueError("--shape, --ids and --args are only used for your own class; name it as FILE.py:Class")
    check_writable(arguments.json)
    text = sys.stderr if arguments.json == "-" else sys.stdout
    if own:
        report, notes = check_own(own[0], arguments)
        reports = [report]
        print(*map(wrap, notes), report.table(columns()), sep="\n", file=text)
    else:
        reports = check_components(arguments.names, arguments.seed)
        print(table(reports, every_tensor=arguments.all or bool(arguments.names)), file=text)
    if arguments.json:
        rows = json.dumps([row for report in reports for row in report.to_json()], indent=1) + "\n"
        if arguments.json == "-":
            print(rows, end="")
        else:
            Path(arguments.json).write_text(rows, encoding="utf-8")
    return 0 if all(report.ok for report in reports) else 1


def check_writable(name):
    """Raises ValueError if the file cannot be written. The check comes first because the work takes time."""
    if name in (None, "-"):
        return
    try:
        open(name, "a", encoding="utf-8").close()
    except OSError as error:
        raise ValueError(f"cannot write {name!r}: {error.strerror}; name a file in an existing folder") from error


def check_components(names, seed):
    """Returns a report for each sample of the named components."""
    chosen = samples.find(names)
    reports = []
    with Progress(len(chosen), "gradcheck", "component") as progress:
        for sample in chosen:
            module, inputs = sample.make(seed)
            reports.append(gradcheck(module, *inputs, seed=seed, directions=sample.directions, need_complex=True,
                                     name=sample.name))
            progress.advance(sample.name)
    return reports


def table(reports, every_tensor=False):
    """Returns a table of each component's worst errors, after all tensors of those that are wrong or asked for."""
    numbers_width = 37
    name_width = min(LONGEST_NAME, columns() - numbers_width)
    lines = [f"{'component':<{name_width}} {'tensors':>7} {'central':>9} {'complex':>9}"]
    for report in reports:
        name, *rest = textwrap.wrap(report.name, name_width, subsequent_indent="  ", break_on_hyphens=False)
        lines.append(f"{name:<{name_width}} {len(report.rows):>7} {show(report.worst('central')):>9} "
                     f"{show(report.worst('complex')):>9}  {'ok' if report.ok else 'WRONG'}")
        lines += rest
    good = sum(report.ok for report in reports)
    lines.append(wrap(f"{good} of {len(reports)} components agree with central differences within 1e-6 and with the "
                      "complex step within 1e-12"))
    details = [report.table(columns()) for report in reports if every_tensor or not report.ok]
    return "\n".join([*details, *lines])


def check_own(name, arguments):
    """Returns the report on a student's class, and notes to print before it."""
    path, _, class_name = name.rpartition(":")
    path = Path(path).resolve()
    cls = load_class(path, class_name)
    inputs = arguments.inputs or []
    if not inputs:
        raise ValueError(f"{class_name}.forward{inspect.signature(cls.forward)} needs inputs; give the shape of each, "
                         "for instance --shape 3,5,12")
    rng = np.random.default_rng(arguments.seed)
    with errors_of(path):
        values = [rng.integers(0, limit, shape) if limit else rng.standard_normal(shape) for limit, shape in inputs]
        built = constructor_arguments(cls, arguments.args, inputs[0])
        module = cls(*built)
        check_count(module, class_name, inputs)
        report = gradcheck(module, *values, seed=arguments.seed, name=class_name)
    notes = []
    if built and arguments.args is None:
        notes.append(f"built as {class_name}({', '.join(map(str, built))}); use --args to give other arguments")
    if not any(is_parameter(part) for _, part in named_parts(module)):
        notes.append("no parameters found; they are attributes with .data and .grad, such as nt.Parameter")
    return report, notes


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


def constructor_arguments(cls, text, first_input):
    """Returns the given arguments, or a guess: the last dimension for the first one, others by their names."""
    required = [p for p in inspect.signature(cls).parameters.values()
                if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if text is not None:
        try:
            values = ast.literal_eval(f"({text},)")
        except (SyntaxError, ValueError) as error:
            raise ValueError(f"--args {text!r} does not consist of Python literals such as 12,16") from error
    else:
        width = first_input[1][-1]
        guesses = {"d_out": width + 4, "d_ff": width + 5, "dropout": 0.3, "p": 0.3, "eps": 1e-5,
                   "num_heads": next((n for n in range(2, width) if width % n == 0), 1)}
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


def float_input(text):
    return None, parse_shape(text)


def id_input(text):
    limit, _, shape = text.partition(":")
    return parse_shape(limit)[0], parse_shape(shape)


def parse_shape(text):
    """Returns the shape in a text such as "3,5,12"; argparse turns the ValueError into its own message."""
    shape = tuple(int(number) for number in text.split(","))
    if min(shape) < 1:
        raise ValueError(text)
    return shape


float_input.__name__, id_input.__name__ = "shape", "ids (LIMIT:SHAPE)"     # as argparse names them in errors
