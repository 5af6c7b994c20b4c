"""The first call of every lesson: `lesson.start(__name__)`."""

import contextlib
import signal
import sys
from pathlib import Path

from ...threads import set_blas_threads
from . import environment, helpers
from .files import find_lessons
from .run import parse_arguments, run_lesson
from .translation import Translation

running = False                                 # True while `start` runs the lesson's cells


def start(name, number=None):
    """Runs all cells of a lesson that was started as a script, or steps through them with --step.

    In an editor's cell or a notebook it only makes every run print the same numbers, by using one BLAS thread.

    Parameters:
        name : `__name__`
        number : the lesson's number, in a notebook that `numpy-transformer lesson notebook` has written
    """
    global running
    from ...views import large_fonts  # matplotlib takes a third of a second to import; only lessons need it
    set_blas_threads(1)
    large_fonts()
    environment.given_number = number
    if number is not None:
        helpers.translation = original_translation(number)
    path = environment.script()
    is_script = path is not None and Path(sys.argv[0]).name == path.name and not environment.in_notebook()
    if name != "__main__" or not is_script or running:
        return
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):           # a stream that was replaced, for example by a test
            stream.reconfigure(errors="replace")            # a terminal without ✓ shows ?
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:   # as it is while the command `lesson` imports modules
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        step = parse_arguments(sys.argv[1:])
    except ValueError as error:                 # there is no such language
        sys.exit(str(error))
    running = True
    try:
        sys.exit(run_lesson(path, step))
    finally:
        running = False


def original_translation(number):
    """Returns the Translation of the lesson from which a notebook was written, or None if the lesson is not found."""
    with contextlib.suppress(ValueError):
        lessons = find_lessons()
        return Translation(lessons[number]) if number in lessons else None
