"""A student's file in a process of its own: inputs go in, arrays come out, and nothing in them is trusted."""

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
from .reading import array, contents, words
from .worker import Function

SHOWN = 4000                                    # characters of what the student's file printed
CROWDED = 64 << 20, 2000                        # bytes and files in the folder at which the child is stopped
TIMES = [-getattr(signal, name) for name in ("SIGXCPU", "SIGALRM", "SIGKILL") if hasattr(signal, name)]
FULL = "stopped: more than 64 MB or 2000 files were written; an exercise needs none"


class Stopped(Exception):
    """The work was interrupted from outside."""


@dataclass
class Run:
    """What came back: arrays by case, what the child said of itself (for wording alone), and how it ended."""

    ended: str                                  # "", or "timeout", "memory" or "killed"
    code: int
    seconds: float
    printed: str
    said: dict                                  # of the import
    cases: list = field(default_factory=list)   # of Came


@dataclass
class Came:
    """What came back from one case."""

    outputs: list                               # arrays; None for one that could not be read
    after: list                                 # the arguments after the call
    said: dict


def run(source, exercise, cases, seconds=10, megabytes=1024, user=None, stop=lambda: False):
    """Run a student's file on the cases, in a temporary folder that is gone afterwards.

    Parameters:
        source : its path, or its bytes
        user : the id of the user who runs it, if not oneself
        stop : asked now and then; if it is true, the child is killed
    Raises: Stopped
    """
    folder = Path(tempfile.mkdtemp(prefix="exercise-")).resolve()       # mode 0700
    try:
        source = source if isinstance(source, bytes) else Path(source).read_bytes()
        prepare(folder, source, exercise, cases, max(1, round(0.8 * seconds)), megabytes)
        if user is not None:
            for item in (folder, *folder.iterdir()):
                os.chown(item, user, user)
        start = time.perf_counter()
        code, ended = finish(folder, seconds, user, stop)
        spent = seconds if ended == "timeout" else time.perf_counter() - start      # one number for all that are late
        return collect(folder, exercise, cases, code, ended, spent)
    finally:
        remove(folder)


def prepare(folder, source, exercise, cases, seconds, megabytes):
    """The job, its arrays and the student's file."""
    count = 0

    def described(value):
        nonlocal count
        if isinstance(value, (np.ndarray, np.generic)):
            count += 1
            np.save(folder / f"in_{count}.npy", value, allow_pickle=False)
            return {"array": f"in_{count}.npy"}
        if isinstance(value, Function):
            return {"function": value.source, "arrays": {key: described(part) for key, part in value.arrays.items()}}
        return [described(part) for part in value] if isinstance(value, (tuple, list)) else value

    (folder / "submission.py").write_bytes(source)
    job = {"file": "submission.py", "name": exercise.name, "seconds": seconds, "megabytes": megabytes,
           "numpy": str(Path(np.__file__).resolve().parents[1]), "paths": exercise.paths,
           "secret": str(Path(worker.__file__).resolve().parents[1]),
           "cases": [[described(case.inputs), [[method, described(arguments)] for method, arguments in case.calls]]
                     for case in cases]}
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")


def finish(folder, seconds, user, stop):
    """Start the child and wait; its exit code, and "", "timeout" or "full". Its group is killed in any case."""
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
    return child.returncode, ended or ("timeout" if child.returncode in TIMES else "")


def wait(child, folder, seconds, stop):
    """Until the child ends: "", or "timeout" or "full" if it has to be stopped. Raises Stopped."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(min(0.1, left))
            return ""
        if stop():
            raise Stopped
        if crowded(folder):
            return "full"
    return "timeout"


def crowded(folder):
    """Whether more is written than an exercise needs; links are not followed."""
    folders, size, count = [folder], 0, 0
    while folders:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as items:      # gone, closed, or too deep
            for item in items:
                size, count = size + item.stat(follow_symlinks=False).st_size, count + 1
                if size > CROWDED[0] or count > CROWDED[1]:
                    return True
                if item.is_dir(follow_symlinks=False):
                    folders.append(item.path)
    return False


def kill(child):
    """The child and its group, again and again until nobody is left: some may be starting others."""
    for _ in range(500 if hasattr(os, "killpg") else 0):
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):       # macOS says the latter of those that have ended
            break
        child.poll()
        time.sleep(0.002)
    child.kill()
    child.wait()


def remove(folder):
    """The folder, however it was left."""
    with contextlib.suppress(OSError):          # flat, as a rule
        for item in list(os.scandir(folder)):
            os.unlink(item)
        return os.rmdir(folder)
    for _ in range(2):
        if shutil.which("rm"):                  # goes deeper than rmtree, which needs a descriptor for each level
            subprocess.run(["rm", "-rf", str(folder)], stderr=subprocess.DEVNULL)
        else:
            shutil.rmtree(folder, ignore_errors=True)
        if os.path.lexists(folder):
            unlock(folder)


def unlock(folder):
    """Give back the rights that were taken away, from the top down."""
    with contextlib.suppress(OSError, RecursionError):
        os.chmod(folder, 0o700)
        for path, folders, _ in os.walk(folder):
            for item in (os.path.join(path, name) for name in folders):
                if not os.path.islink(item):
                    os.chmod(item, 0o700)


def collect(folder, exercise, cases, code, ended, seconds):
    """Read what the child has left, each file with suspicion."""
    said = words(folder / "said.json")
    came = []
    for i, case in enumerate(cases):
        here = words(folder / f"said_{i}.json")
        outputs = [array(folder / f"out_{i}_{j}.npy") for j in range(len(exercise.outputs) + 1)]
        while outputs and outputs[-1] is None and len(outputs) > len(here.get("kinds", [])):
            outputs.pop()
        after = [array(folder / f"after_{i}_{j}.npy", before.nbytes + 1024) for j, before in enumerate(case.arrays())]
        came.append(Came(outputs, after, here or {"kind": "OSError", "error": FULL} if ended == "full" else here))
    errors = [str(what.get("error", "")) for what in (said, *(case.said for case in came))]
    if not ended and any(error.startswith("MemoryError") for error in errors):
        ended = "memory"
    ended = "killed" if ended == "full" or not ended and code else ended
    printed = contents(folder / "printed.txt", 4 * SHOWN, whole=False) or b""
    return Run(ended, code, seconds, printed.decode("utf-8", "replace")[:SHOWN], said, came)
