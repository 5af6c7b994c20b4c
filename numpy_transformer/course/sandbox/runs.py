"""Runs students' files on the cases of exercises, each in a process of its own. None of the results is trusted."""

import contextlib
import itertools
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .inside import worker
from .isolation import NO_LAYER
from .protocol import pack, read_case, read_loading, read_records, request
from .scratch import scratch
from .server import PRINTED, TO_SPARE, Stopped
from .visible_files import ENVIRONMENT, ISOLATED

TIME_SIGNALS = [-getattr(signal, name) for name in ("SIGXCPU", "SIGALRM", "SIGKILL") if hasattr(signal, name)]
STOPPED = "full", "flood"                       # it wrote too much, or it printed or returned too much
MOST_SOURCE, LONGEST_NAME = 16 << 20, 200       # bytes of all files of a student, and of the name of one
RERUN_SECONDS, RERUN_MEGABYTES = 5, 400         # an edit may take long, or make an array huge
MODULE = re.compile(r"(\w+/)*\w+\.py")


@dataclass
class ProgramTask:
    """One exercise of one student."""

    exercise: object                            # an Exercise
    cases: list                                 # its cases
    file: str                                   # name of the student's file for it, such as "ex01_2.py"
    rerun: dict = None                          # what reruns.py does in place of running the cases

    def limits(self, seconds, megabytes):
        """Returns these limits, or lower ones for what reruns.py does."""
        if self.rerun is None:
            return seconds, megabytes
        return min(seconds, RERUN_SECONDS), min(megabytes, RERUN_MEGABYTES)


@dataclass
class CaseResult:
    """What a student's program returned in one case."""

    outputs: list                               # arrays; None for an output that could not be read
    after: list                                 # the arguments after the call
    report: dict                                # what the process reports of this case, used only in messages


@dataclass
class ProgramRun:
    """How one student's program ended and what it returned."""

    ended: str                                  # "", "timeout", "memory" or "killed"
    code: int
    seconds: float                              # of processor time; the limit if the time ran out
    printed: str
    report: dict                                # what the process reports of loading the file, used only in messages
    results: list = field(default_factory=list) # a CaseResult for each case
    records: dict = field(default_factory=dict) # {(kind, case, index): bytes} of all that was sent
    line: int = 0                               # where it was shortly before its time ran out; 0: not known


def run_files(files, tasks, layer, seconds=10, megabytes=1024, stop=lambda: False):
    """Runs one student's files in a sandbox, each task in a child process of its own. Yields a ProgramRun for each task.

    A task that ends the whole sandbox is "killed" or "timeout"; the next one gets a new sandbox.

    Parameters:
        files : {name: bytes} of all Python files of the student, which can import each other; if they are too large
            together, the first ones count
        tasks : iterable of ProgramTask; a list may grow meanwhile
        layer : a Layer that works, or NO_LAYER: no protection
        seconds, megabytes : limits of each task
        stop : function that is called several times a second; the program is killed once it returns True
    Raises: Stopped if `stop` returned True, OSError if the sandbox does not start.
    """
    files = usable(files)
    if layer.name == NO_LAYER.name:
        for task in tasks:
            yield run_alone(files, task, seconds, megabytes, stop)
        return
    names = {name: len(content) for name, content in files.items()}
    greeting = request(names, b"", b"".join(files.values()))
    with contextlib.ExitStack() as stack:
        server = None
        for task in tasks:
            if server is None:
                server = stack.enter_context(layer.server(stop))
                server.send(greeting)
            most, memory = task.limits(seconds, megabytes)
            start = time.monotonic()
            reply = server.ask(make_request(task, files, most, memory), most + TO_SPARE)
            ended = "timeout" if time.monotonic() > start + most else "killed"
            yield make_run(task, reply or (-9, ended, 0.0, "", b""), most)
            if reply is None or reply[1]:       # it may have left something behind
                stack.close()
                server = None


def usable(files):
    """Returns the files that can be imported, in order, up to a total size."""
    names = [name for name in files if MODULE.fullmatch(name) and len(name.encode()) <= LONGEST_NAME]
    sizes = itertools.accumulate(len(files[name]) for name in names)
    return {name: files[name] for name, size in zip(names, sizes) if size <= MOST_SOURCE}


def run(source, exercise, cases, seconds=10, megabytes=1024, stop=lambda: False):
    """Runs a file, given as a path or as bytes, without a sandbox: a student's own, on the student's own machine."""
    source = source if isinstance(source, bytes) else Path(source).read_bytes()
    return run_task(source, ProgramTask(exercise, cases, exercise.file), seconds, megabytes, stop)


def run_task(source, task, seconds=10, megabytes=1024, stop=lambda: False):
    """Runs a task on a file, given as bytes, without a sandbox."""
    return run_alone({task.file: source}, task, seconds, megabytes, stop)


def make_request(task, files, seconds, megabytes, **more):
    job = {"file": task.file, "name": task.exercise.entry, "paths": task.exercise.paths, "seconds": seconds,
           "processor": processor_seconds(seconds), "megabytes": megabytes, "printed": 4 * PRINTED,
           "given": [part.__name__ for part in task.exercise.given], **more}
    job["imported"] = [part.__name__ for part in task.exercise.imported]
    if any(worker.HELPERS.encode() in content for content in files.values()):       # the others do not see that there are any
        job["helpers"] = task.exercise.code_with_given if task.exercise.imported else ""
    if task.exercise.driver:
        job |= {"driver": task.exercise.driver, "roots": task.exercise.roots, "stored": task.exercise.stored,
                "suspects": task.exercise.suspects}
    if task.rerun is not None:
        job["rerun"] = task.rerun
    return request(job, *pack(tuple(task.cases)))


def processor_seconds(seconds):
    """Returns the limit of processor time of a program that may take this long."""
    return max(1, round(0.8 * seconds))


def make_run(task, reply, seconds):
    """Returns the ProgramRun of a reply of a worker: exit code, how it ended, seconds, what it printed, and its results."""
    code, ended, spent, printed, data = reply
    if code in TIME_SIGNALS and ended in ("", "spoilt") and spent > 0.85 * processor_seconds(seconds):
        ended = "timeout"
    if ended == "timeout":
        spent = seconds                         # so that all programs that run out of time show the same number
    records = read_records(data)
    report = read_loading(records)
    results = [CaseResult(*read_case(records, case, i, len(task.exercise.outputs)))
               for i, case in enumerate(task.cases)]
    for result in results:
        if ended in STOPPED and not result.report:
            result.report = {"kind": "OSError", "error": "stopped", "stopped": ended}
    errors = [str(part.get("error", "")) for part in (report, *(result.report for result in results))]
    if ended in ("", "spoilt"):
        ended = "killed" if code else ""
        if any(error.startswith("MemoryError") for error in errors):
            ended = "memory"
    elif ended in STOPPED:
        ended = "killed"
    return ProgramRun(ended, code, spent, printed, report, results, records)


def run_alone(files, task, seconds, megabytes, stop):
    """Runs one task in a process of its own, in a temporary folder, with limits but without a sandbox."""
    seconds, megabytes = task.limits(seconds, megabytes)
    environment = {**ENVIRONMENT, "SYSTEMROOT": os.environ.get("SYSTEMROOT", "")}
    with (scratch() as folder, tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as printed,
          tempfile.TemporaryFile() as sent):
        (folder / "files").mkdir()
        (folder / "work").mkdir()
        for name, content in files.items():
            (folder / "files" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "files" / name).write_bytes(content)
        environment |= {"HOME": str(folder / "work"), "TMPDIR": str(folder / "work")}
        asked.write(make_request(task, files, seconds, megabytes, folder=str(folder / "files"), trace=str(folder / "trace"),
                                 numpy=str(Path(np.__file__).resolve().parents[1])))
        asked.seek(0)
        command = (sys.executable, *ISOLATED, worker.__file__)
        start = time.monotonic()
        child = subprocess.Popen(command, cwd=folder / "work", env=environment, stdin=asked, stdout=sent,
                                 stderr=printed, start_new_session=True)
        try:
            ended = wait(child, seconds, folder / "work", stop)
        finally:
            kill(child)
        spent = time.monotonic() - start
        printed.seek(0)
        sent.seek(0)
        text = printed.read(4 * PRINTED).decode("utf-8", "replace")[:PRINTED]
        run = make_run(task, (child.returncode, ended, spent, text, sent.read(worker.MOST_SENT)), seconds)
        run.line = line_in_trace(folder / "trace", task.file) if run.ended == "timeout" else 0
        return run


def line_in_trace(path, file):
    """Returns the innermost line of a student's file in a trace of faulthandler, or 0 if there is none."""
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    match = re.search(rf'^  File "(?:.*[/\\])?{re.escape(file)}", line (\d+)', text, re.M)
    return int(match[1]) if match else 0


def wait(child, seconds, work, stop):
    """Waits for the process. Returns "", or "timeout" or "full" if it has to be stopped. Raises Stopped."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(subprocess.TimeoutExpired):        # still running after 0.1 s: check and wait again
            child.wait(max(0, min(0.1, end - time.monotonic())))
            return ""
        if stop():
            raise Stopped
        if worker.is_full(work):
            return "full"
    return "timeout"


def kill(child):
    """Kills the process and its group repeatedly until none is left, because some may be starting others."""
    for _ in range(500 if hasattr(os, "killpg") else 0):
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):       # macOS raises PermissionError for ended processes
            break
        child.poll()
        time.sleep(0.002)
    child.kill()
    child.wait()
