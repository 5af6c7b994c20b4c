"""Running a command inside the test process, and Python in a process of its own."""

import contextlib
import os
import re
import subprocess
import sys
from unittest import mock

from numpy_transformer.cli import main

from . import ROOT

PROGRESS = re.compile(r"[a-z2 ]+: \d+/\d+|byte pairs: ")


def run(capsys, *arguments):
    """Exit code, standard output and standard error; without a terminal neither holds escapes.

    The process that reads hand-ins is kept from one `grade` to the next; test_hostile.py sees that it ends with the command.
    """
    with mock.patch("numpy_transformer.cli.grade.ready_to_read", contextlib.nullcontext) if arguments[:1] == (
            "grade",) else contextlib.nullcontext():
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


def python(*arguments, cwd=None, timeout=None, **environment):
    """The finished process of `python ARGUMENTS`, such as "-c", code; it finds this package, and prints UTF-8."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", **environment}
    return subprocess.run([sys.executable, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True,
                          encoding="utf-8", cwd=cwd, timeout=timeout, env=environment)
