"""The process in which everything that a student handed in is read. It has limits, and it may be killed at any time.

Files of students are read by programs that a file can slow down or stop: decompression, parsers, pattern matching. So
they run in a process of their own (student_reading.py). It answers one question at a time, and what it says in one
answer depends on the files of one student alone. If it takes too long or dies, the next question gets a new process.
Questions and answers are lines of JSON.
"""

import atexit
import contextlib
import functools
import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path

from ...course.sandbox.visible_files import ENVIRONMENT

SECONDS, MEGABYTES = 10, 1024                   # of processor time for one student, and of memory in all
WAITING = 120                                   # seconds on the clock, for a disk that does not answer
LONGEST_ANSWER = 1 << 28                        # bytes
START = ("import sys; sys.path[0] = sys.argv.pop(); "
         "from numpy_transformer.grading.arrival.student_reading import serve; serve()")


class NoAnswer(Exception):
    """Says why there is no answer, as the end of a sentence that starts with what was read."""


class ReadingProcess:
    """A process that reads what students handed in. It is started by the first question."""

    def __init__(self):
        self.process, self.answers = None, None

    def ask(self, **question):
        """Returns the answer to a question, a dict. Raises NoAnswer."""
        question |= {"seconds": SECONDS, "megabytes": MEGABYTES}
        try:
            self.start()
            self.process.stdin.write(json.dumps(question).encode() + b"\n")
            self.process.stdin.flush()
            line = self.answers.get(timeout=WAITING)
        except queue.Empty:
            line = b""
        except OSError:                         # it died before it had read the question
            line = b""
        except BaseException:                   # Ctrl-C; the answer to this question would be taken for the next one's
            self.stop()
            raise
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise NoAnswer(self.stop())
        return answer

    def start(self):
        """Starts the process, unless it runs. It may have died after its last answer."""
        if self.process is not None and self.process.poll() is None:
            return
        self.stop()
        package = str(Path(__file__).resolve().parents[3])
        self.process = subprocess.Popen(
            [sys.executable, "-B", "-X", "utf8", "-c", START, package], cwd=os.path.abspath(os.sep),
            env={**os.environ, **ENVIRONMENT}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True)
        self.answers = queue.SimpleQueue()
        threading.Thread(target=read_lines, args=(self.process.stdout, self.answers), daemon=True).start()

    def stop(self):
        """Ends the process. Returns why it had not answered."""
        process, self.process = self.process, None
        if process is None:
            return "could not be read"
        has_ended = process.poll() is not None
        process.kill()
        with contextlib.suppress(OSError):
            process.stdin.close()
        process.wait()
        if has_ended and process.returncode == -9:
            return "could not be read: the system stopped the process that read it, which happens when the memory runs out"
        return (f"could not be read within {SECONDS} seconds of processor time and {MEGABYTES} MB of memory")


def read_lines(pipe, lines):
    """Puts the lines of a pipe into a queue, and an empty one at its end."""
    with contextlib.suppress(OSError, ValueError):
        while line := pipe.readline(LONGEST_ANSWER):
            lines.put(line)
    lines.put(b"")
    pipe.close()


@contextlib.contextmanager
def ready_to_read():
    """Starts the process, so that it is ready when the first question comes, and ends it after the block."""
    process = reading_process()
    process.start()
    try:
        yield
    finally:
        process.stop()


@functools.cache
def reading_process():
    """Returns the ReadingProcess of this process, which is ended with it."""
    reading = ReadingProcess()
    atexit.register(reading.stop)
    return reading
