"""Runs a student's file in a separate process. Inputs go in, arrays come out, and none of the results is trusted."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from . import worker
from .reading import read_array, read_bytes, read_report
from .worker import Function

PRINTED = 4000                                  # characters kept of what the student's file printed
MOST_BYTES, MOST_FILES = 64 << 20, 2000         # in the student's folder; beyond these the process is stopped
TIME_SIGNALS = [-getattr(signal, name) for name in ("SIGXCPU", "SIGALRM", "SIGKILL") if hasattr(signal, name)]
FULL = "stopped: more than 64 MB or 2000 files were written, and an exercise needs none"


class Stopped(Exception):
    """Raised when the grader was interrupted while a student's file was running."""


@dataclass
class CaseResult:
    """What a student's program returned in one case."""

    outputs: list                               # arrays; None for an output that could not be read
    after: list                                 # the arguments after the call
    report: dict                                # what the process reports of this case, used only in messages


@dataclass
class Run:
    """How one student's program ended and what it returned."""

    ended: str                                  # "", "timeout", "memory" or "killed"
    code: int
    seconds: float
    printed: str
    report: dict                                # what the process reports of loading the file, used only in messages
    results: list = field(default_factory=list) # a CaseResult for each case


def run(source, exercise, cases, seconds=10, megabytes=1024, user=None, stop=lambda: False):
    """Runs a student's file on the cases, in a temporary folder that is deleted afterwards. Returns a Run.

    Parameters:
        source : the file's path, or its bytes
        exercise : the Exercise that the file solves
        cases : list of Case
        seconds : time limit
        megabytes : memory limit
        user : id of the user who runs the program; None: the current user
        stop : function that is called several times a second; the program is killed once it returns True
    Raises: Stopped if `stop` returned True.
    """
    folder = Path(tempfile.mkdtemp(prefix="exercise-")).resolve()       # mode 0700
    try:
        source = source if isinstance(source, bytes) else Path(source).read_bytes()
        prepare(folder, source, exercise, cases, max(1, round(0.8 * seconds)), megabytes)
        if user is not None:
            for item in (folder, *folder.iterdir()):
                os.chown(item, user, user)
        start = time.perf_counter()
        code, ended = run_worker(folder, seconds, user, stop)
        spent = time.perf_counter() - start
        if ended == "timeout":
            spent = seconds                     # so that all programs that run out of time show the same number
        return collect_results(folder, exercise, cases, code, ended, spent)
    finally:
        remove(folder)


def prepare(folder, source, exercise, cases, seconds, megabytes):
    """Writes job.json, the arrays of the cases and the student's file into the folder."""
    count = 0

    def as_json(value):
        nonlocal count
        if isinstance(value, (np.ndarray, np.generic)):
            count += 1
            np.save(folder / f"in_{count}.npy", value, allow_pickle=False)
            return {"array": f"in_{count}.npy"}
        if isinstance(value, Function):
            return {"function": value.source, "arrays": {key: as_json(part) for key, part in value.arrays.items()}}
        return [as_json(part) for part in value] if isinstance(value, (tuple, list)) else value

    (folder / "submission.py").write_bytes(source)
    job = {"file": "submission.py", "name": exercise.name, "seconds": seconds, "megabytes": megabytes,
           "numpy": str(Path(np.__file__).resolve().parents[1]), "paths": exercise.paths,
           "secret": str(Path(worker.__file__).resolve().parents[2]),
           "cases": [[as_json(case.inputs), [[method, as_json(arguments)] for method, arguments in case.calls]]
                     for case in cases]}
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")


def run_worker(folder, seconds, user, stop):
    """Runs the worker process. Returns its exit code and "", "timeout" or "full". Always kills its process group."""
    environment = {name: "1" for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    environment |= {"MPLBACKEND": "Agg", "HOME": str(folder), "TMPDIR": str(folder)}
    if os.name == "nt":
        environment["SYSTEMROOT"] = os.environ.get("SYSTEMROOT", "")
    rights = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    with open(folder / "printed.txt", "wb") as printed:
        child = subprocess.Popen([sys.executable, "-I", "-B", "-X", "utf8", worker.__file__], cwd=folder,
                                 env=environment, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT,
                                 start_new_session=True, **rights)
    try:
        ended = wait(child, folder, seconds, stop)
    finally:
        kill(child)
    if not ended and child.returncode in TIME_SIGNALS:
        ended = "timeout"
    return child.returncode, ended


def wait(child, folder, seconds, stop):
    """Waits for the process. Returns "", or "timeout" or "full" if it has to be stopped. Raises Stopped."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(subprocess.TimeoutExpired):        # still running after 0.1 s: check and wait again
            child.wait(min(0.1, max(0, end - time.monotonic())))
            return ""
        if stop():
            raise Stopped
        if is_full(folder):
            return "full"
    return "timeout"


def is_full(folder):
    """Returns True if the folder holds more than any exercise needs to write. Does not follow links."""
    folders, size, count = [folder], 0, 0
    while folders:
        # A folder that is gone, closed or nested too deeply counts as empty: the program may change it at any time.
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as items:
            for item in items:
                size += item.stat(follow_symlinks=False).st_size
                count += 1
                if size > MOST_BYTES or count > MOST_FILES:
                    return True
                if item.is_dir(follow_symlinks=False):
                    folders.append(item.path)
    return False


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


def remove(folder):
    """Deletes the folder, whatever the student's program has left in it."""
    with contextlib.suppress(OSError):          # works for a flat folder, the usual case; any other is deleted below
        for item in list(os.scandir(folder)):
            os.unlink(item)
        return os.rmdir(folder)
    for _ in range(2):
        if shutil.which("rm"):                  # handles deep nesting; rmtree needs a file descriptor for each level
            subprocess.run(["rm", "-rf", str(folder)], stderr=subprocess.DEVNULL)
        else:
            shutil.rmtree(folder, ignore_errors=True)
        if os.path.lexists(folder):
            unlock(folder)


def unlock(folder):
    """Restores the permissions of the folder and those below it, from the top down."""
    with contextlib.suppress(OSError, RecursionError):      # as far as possible; what is left is tried once more
        os.chmod(folder, 0o700)
        for path, folders, _ in os.walk(folder):
            for item in (os.path.join(path, name) for name in folders):
                if not os.path.islink(item):
                    os.chmod(item, 0o700)


def collect_results(folder, exercise, cases, code, ended, seconds):
    """Reads the files that the worker has left. Returns a Run."""
    report = read_report(folder / "report.json")
    results = [read_case(folder, exercise, case, i, ended) for i, case in enumerate(cases)]
    errors = [str(part.get("error", "")) for part in (report, *(result.report for result in results))]
    if not ended and any(error.startswith("MemoryError") for error in errors):
        ended = "memory"
    if ended == "full" or not ended and code:
        ended = "killed"
    printed = read_bytes(folder / "printed.txt", 4 * PRINTED, whole=False) or b""
    return Run(ended, code, seconds, printed.decode("utf-8", "replace")[:PRINTED], report, results)


def read_case(folder, exercise, case, i, ended):
    """Reads what the worker has left of case i. Returns a CaseResult."""
    report = read_report(folder / f"report_{i}.json")
    outputs = [read_array(folder / f"out_{i}_{j}.npy") for j in range(len(exercise.outputs) + 1)]
    while outputs and outputs[-1] is None and len(outputs) > len(report.get("kinds", [])):
        outputs.pop()
    after = [read_array(folder / f"after_{i}_{j}.npy", before.nbytes + 1024) for j, before in enumerate(case.arrays())]
    if ended == "full" and not report:
        report = {"kind": "OSError", "error": FULL}
    return CaseResult(outputs, after, report)
