"""numpy-transformer gradcheck: the package's components, or a class that a student wrote."""

import ast
import contextlib
import importlib.util
import inspect
import json
import sys
import traceback
from pathlib import Path

import numpy as np

from ..checks import samples
from ..checks.gradcheck import gradcheck, positional, show
from ..module import is_parameter, named_parts
from ..training.progress import Progress
from .parser import add_command, whole_number

WIDTH = max(len(sample.name) for sample in samples.SAMPLES)


def add(commands):
    parser = add_command(
        commands, "gradcheck", run, help="compare backward with numbers",
        description="Compare every backward with central differences and with the complex step, in float64 and with "
                    "random parameters. Exit code 1 if anything disagrees.")
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help="components such as LayerNorm (all if none is given), or FILE.py:Class, "
                             "a class of your own with forward and backward")
    parser.add_argument("--json", metavar="FILE", help="also write every row as JSON, - for standard output")
    parser.add_argument("--all", action="store_true", help="print every tensor, not only the worst of each component")
    parser.add_argument("--seed", type=whole_number(0), default=0, help="of parameters and inputs")
    own = parser.add_argument_group("a class of your own")
    own.add_argument("--shape", dest="inputs", metavar="3,5,12", action="append", type=float_input,
                     help="shape of a float input of forward; once for each, in forward's order")
    own.add_argument("--ids", dest="inputs", metavar="11:3,5", action="append", type=id_input,
                     help="an integer input instead: ids below 11, of shape 3,5")
    own.add_argument("--args", metavar="12,16", default=None,
                     help="arguments of the constructor; if left out, the last number of --shape for the first, and a "
                          "guess for others named d_out, d_ff, num_heads, dropout, p or eps")


def run(arguments):
    own = [name for name in arguments.names if ".py:" in name]
    if own and len(arguments.names) > 1:
        raise ValueError("check one FILE.py:Class at a time, without other names")
    if (arguments.inputs or arguments.args) and not own:
        raise ValueError("--shape, --ids and --args are for a class of your own: name it as FILE.py:Class")
    check_writable(arguments.json)
    text = sys.stderr if arguments.json == "-" else sys.stdout
    if own:
        report, notes = check_own(own[0], arguments)
        reports = [report]
        print(*notes, report, sep="\n", file=text)
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
    """Before the work; what stands in the file stays until there is something to replace it."""
    if name in (None, "-"):
        return
    try:
        open(name, "a", encoding="utf-8").close()
    except OSError as error:
        raise ValueError(f"cannot write {name!r}: {error.strerror}; name a file in a folder that is there") from error


def check_components(names, seed):
    """A report for each sample of the named components."""
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
    """One line a component with its worst errors; every tensor where asked for or where something is wrong."""
    lines = [f"{'component':<{WIDTH}} {'tensors':>7} {'central':>9} {'complex':>9}"]
    for report in reports:
        lines.append(f"{report.name:<{WIDTH}} {len(report.rows):>7} {show(report.worst('central')):>9} "
                     f"{show(report.worst('complex')):>9}  {'ok' if report.ok else 'WRONG'}")
    good = sum(report.ok for report in reports)
    lines.append(f"{good} of {len(reports)} components agree: central differences within 1e-6, "
                 "the complex step within 1e-12")
    details = [str(report) for report in reports if every_tensor or not report.ok]
    return "\n".join([*details, *lines])


def check_own(name, arguments):
    """The report on a student's class, and what is to be said before it."""
    path, _, class_name = name.rpartition(":")
    path = Path(path).resolve()
    cls = load_class(path, class_name)
    inputs = arguments.inputs or []
    if not inputs:
        raise ValueError(f"give the shape of each input of {class_name}.forward{inspect.signature(cls.forward)}, "
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
        notes.append(f"built as {class_name}({', '.join(map(str, built))}); --args gives other arguments")
    if not any(is_parameter(part) for _, part in named_parts(module)):
        notes.append("no parameters found (attributes with .data and .grad, such as nt.Parameter)")
    return report, notes


@contextlib.contextmanager
def errors_of(path):
    """What the student's file raises becomes a sentence with its line."""
    try:
        yield
    except (Exception, SystemExit) as error:
        lines = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
        if not lines and type(error) is ValueError:
            raise                                           # a sentence already, such as gradcheck's own
        where = f", line {lines[-1].lineno}, in {lines[-1].name}" if lines else ""
        raise ValueError(f"{path.name}{where}: {type(error).__name__}: {error}") from error


def load_class(path, class_name):
    if not path.is_file():
        raise ValueError(f"there is no file {path.name!r} in {path.parent}; give FILE.py:Class")
    spec = importlib.util.spec_from_file_location(f"_checked_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))                    # so that it can import what lies beside it
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ValueError(f"{path.name} cannot be imported: {type(error).__name__}: {error}") from error
    cls = getattr(module, class_name, None)
    if not isinstance(cls, type):
        classes = [key for key, value in vars(module).items() if isinstance(value, type)]
        raise ValueError(f"{path.name} defines no class {class_name!r}; it has {', '.join(classes) or 'none'}")
    for method in ("forward", "backward"):
        if not callable(getattr(cls, method, None)):
            raise ValueError(f"{class_name} has no {method}; a component has forward and backward")
    return cls


def constructor_arguments(cls, text, first_input):
    """As given, or guessed: the last dimension for the first, others by their names."""
    required = [p for p in inspect.signature(cls).parameters.values()
                if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if text is not None:
        try:
            values = ast.literal_eval(f"({text},)")
        except (SyntaxError, ValueError) as error:
            raise ValueError(f"--args {text!r} are not Python literals such as 12,16") from error
    else:
        width = first_input[1][-1]
        guesses = {"d_out": width + 4, "d_ff": width + 5, "dropout": 0.3, "p": 0.3, "eps": 1e-5,
                   "num_heads": next((n for n in range(2, width) if width % n == 0), 1)}
        values = [guesses.get(p.name, None if i or first_input[0] else width) for i, p in enumerate(required)]
        if None in values:
            raise ValueError(f"{cls.__name__} takes {', '.join(p.name for p in required)}; give them with --args, "
                             "in this order and best distinct, for instance --args 12,16")
    return values


def check_count(module, class_name, inputs):
    names = positional(module.forward)
    required = [p for p in inspect.signature(module.forward).parameters.values()
                if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if not len(required) <= len(inputs) <= max(len(names), len(required)):
        raise ValueError(f"{class_name}.forward takes {', '.join(names)}, but {len(inputs)} input(s) were given; "
                         "give --shape (or --ids) once for each")


def float_input(text):
    return None, parse_shape(text)


def id_input(text):
    limit, _, shape = text.partition(":")
    return parse_shape(limit)[0], parse_shape(shape)


def parse_shape(text):
    """"3,5,12" -> (3, 5, 12); argparse turns the ValueError into its own message."""
    shape = tuple(int(number) for number in text.split(","))
    if min(shape) < 1:
        raise ValueError(text)
    return shape


float_input.__name__, id_input.__name__ = "shape", "ids (LIMIT:SHAPE)"     # as argparse names them in errors
