"""Running a command inside the test process."""

import re

from numpy_transformer.cli import main

PROGRESS = re.compile(r"[a-z2 ]+: \d+/\d+|byte pairs: ")


def run(capsys, *arguments):
    """Exit code, standard output and standard error; without a terminal neither holds escapes."""
    code = main([str(a) for a in arguments])
    output = capsys.readouterr()
    assert "\x1b" not in output.out + output.err and "\r" not in output.err
    return code, output.out, output.err


def refused(capsys, *arguments):
    """The one line on standard error, progress apart, of a call that is refused with exit code 2."""
    try:
        code, out, err = run(capsys, *arguments)
    except SystemExit as stop:                              # argparse
        code, err = stop.code, capsys.readouterr().err
    lines = [line for line in err.splitlines() if not PROGRESS.match(line)]
    assert code == 2 and "Traceback" not in err and len(lines) == 1, err
    return lines[0]
