"""numpy-transformer gradcheck: the package's components, or a class that a student wrote."""

import argparse
import json
import re
import sys
import textwrap

from ..checks import samples
from ..checks.gradcheck import gradcheck
from ..checks.report import show
from ..outputs import check_output, write_output
from ..training.progress import Progress
from .gradcheck_own import check_own, name_class
from .parser import add_command, whole_number
from .terminal import output_columns, wrap

LENGTH = re.compile("0*[1-9][0-9]*")
SHAPE = re.compile(f"{LENGTH.pattern}(,{LENGTH.pattern})*")
LONGEST_NAME = max(len(sample.name) for sample in samples.SAMPLES)


def add_to_parser(commands):
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
    own.add_argument("--like", metavar="LayerNorm",
                     help="compare it with this component and name known mistakes; --shape is then not needed")
    own.add_argument("--args", metavar="12,16", default=None,
                     help="arguments of the constructor (default: the last number of --shape for the first one, and "
                          "a guess for others named d_out, d_ff, num_heads, dropout, p or eps)")


def run(arguments):
    for name in arguments.names:
        if name.endswith(".py"):
            raise ValueError(f"{name!r} names a file; {name_class(name)}")
    own = [name for name in arguments.names if ".py:" in name]
    if own and len(arguments.names) > 1:
        raise ValueError("a FILE.py:Class is checked alone; leave out the other names")
    if (arguments.inputs or arguments.args or arguments.like) and not own:
        raise ValueError("--shape, --ids, --args and --like are only used for your own class; name it as FILE.py:Class")
    if arguments.json not in (None, "-"):
        check_output(arguments.json)            # the work takes time
    text = sys.stderr if arguments.json == "-" else sys.stdout
    if own:
        report, notes, lines, is_right = check_own(own[0], arguments)
        reports = [report]
        print(*map(wrap, notes), report.table(output_columns()), *lines, sep="\n", file=text)
    else:
        reports = check_components(arguments.names, arguments.seed)
        is_right = all(report.ok for report in reports)
        print(error_table(reports, every_tensor=arguments.all or bool(arguments.names)), file=text)
    if arguments.json:
        rows = json.dumps([row for report in reports for row in report.to_json()], indent=1) + "\n"
        if arguments.json == "-":
            print(rows, end="")
        else:
            write_output(arguments.json, rows.encode())
    return 0 if is_right else 1


def check_components(names, seed):
    """Returns a report for each sample of the named components."""
    chosen = [sample for sample in samples.find_samples(names) if sample.gradients]
    if not chosen:
        raise ValueError(f"{names[0]} has neither parameters nor float inputs, so there is no gradient to check; name a "
                         "component that uses it")
    reports = []
    with Progress(len(chosen), "gradcheck", "component") as progress:
        for sample in chosen:
            module, inputs = sample.make(seed)
            reports.append(gradcheck(module, *inputs, seed=seed, directions=sample.directions, need_complex=True,
                                     name=sample.name))
            progress.advance(sample.name)
    return reports


def error_table(reports, every_tensor=False):
    """Returns a table of each component's worst errors, after all tensors of those that are wrong or asked for."""
    numbers_width = 37
    name_width = min(LONGEST_NAME, output_columns() - numbers_width)
    lines = [f"{'component':<{name_width}} {'tensors':>7} {'central':>9} {'complex':>9}"]
    for report in reports:
        name, *rest = textwrap.wrap(report.name, name_width, subsequent_indent="  ", break_on_hyphens=False)
        lines.append(f"{name:<{name_width}} {len(report.rows):>7} {show(report.worst('central')):>9} "
                     f"{show(report.worst('complex')):>9}  {'ok' if report.ok else 'WRONG'}")
        lines += rest
    good = sum(report.ok for report in reports)
    lines.append(wrap(f"{good} of {len(reports)} components agree with central differences within 1e-6 and with the "
                      "complex step within 1e-12"))
    details = [report.table(output_columns()) for report in reports if every_tensor or not report.ok]
    return "\n".join([*details, *lines])


def float_input(text):
    if not SHAPE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a shape; write whole numbers of at least 1 with commas "
                                         "between them, as in 3,5,12")
    return None, parse_shape(text)


def id_input(text):
    limit, _, shape = text.partition(":")
    if not (LENGTH.fullmatch(limit) and SHAPE.fullmatch(shape)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a limit and a shape; write them as in 11:3,5, for ids below "
                                         "11 of shape 3,5")
    return int(limit), parse_shape(shape)


def parse_shape(text):
    return tuple(int(number) for number in text.split(","))
