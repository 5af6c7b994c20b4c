"""A student's file in a process of its own: inputs go in, raw arrays come out, and nothing that is in them is trusted."""

import contextlib
import io
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from . import worker
from .worker import Function

LARGEST = 4 << 20                               # bytes of a file that is read back
SHOWN = 4000                                    # characters of what the student's file printed


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


def run(path, exercise, cases, seconds=10, megabytes=1024, user=None):
    """Run the file at `path` on the cases, in a temporary folder that is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="exercise-"))     # mode 0700
    try:
        prepare(folder, path, exercise, cases, max(1, round(0.8 * seconds)), megabytes)
        if user is not None:
            for item in (folder, *folder.iterdir()):
                shutil.chown(item, user)
        start = time.perf_counter()
        code, late = finish(folder, seconds, user)
        spent = time.perf_counter() - start
        return collect(folder, exercise, cases, code, late, spent)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def prepare(folder, path, exercise, cases, seconds, megabytes):
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

    shutil.copyfile(path, folder / "submission.py")
    job = {"file": "submission.py", "name": exercise.name, "seconds": seconds, "megabytes": megabytes,
           "numpy": str(Path(np.__file__).resolve().parents[1]), "paths": exercise.paths,
           "cases": [[described(case.inputs), [[method, described(arguments)] for method, arguments in case.calls]]
                     for case in cases]}
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")


def finish(folder, seconds, user):
    """Start the child and wait; its exit code, and whether it had to be stopped. Its group is killed in any case."""
    environment = {name: "1" for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    environment |= {"MPLBACKEND": "Agg", "HOME": str(folder), "TMPDIR": str(folder), "PYTHONIOENCODING": "utf-8"}
    if os.name == "nt":
        environment["SYSTEMROOT"] = os.environ.get("SYSTEMROOT", "")
    rights = {} if user is None else {"user": user, "group": user_group(user), "extra_groups": []}
    with open(folder / "printed.txt", "wb") as printed:
        child = subprocess.Popen([sys.executable, "-I", "-B", worker.__file__], cwd=folder, env=environment,
                                 stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT,
                                 start_new_session=True, **rights)
    try:
        return child.wait(seconds), False
    except subprocess.TimeoutExpired:
        return -signal.SIGTERM, True
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL) if hasattr(os, "killpg") else child.kill()
        child.wait()


def user_group(user):
    import pwd
    return pwd.getpwnam(user).pw_gid


def collect(folder, exercise, cases, code, late, seconds):
    """Read what the child has left, each file with suspicion."""
    said = words(folder / "said.json")
    came = []
    for i, case in enumerate(cases):
        here = words(folder / f"said_{i}.json")
        outputs = [array(folder / f"out_{i}_{j}.npy") for j in range(len(exercise.outputs) + 1)]
        while outputs and outputs[-1] is None and len(outputs) > len(here.get("kinds", [])):
            outputs.pop()
        came.append(Came(outputs, [array(folder / f"after_{i}_{j}.npy") for j in range(len(case.arrays()))], here))
    kinds = [what.get("kind", "") for what in (said, *(case.said for case in came))]
    ended = "timeout" if late or code in (-getattr(signal, "SIGXCPU", 24), -signal.SIGKILL) else (
        "memory" if "MemoryError" in kinds or str(said.get("error", "")).startswith("MemoryError") else
        "killed" if code else "")
    printed = contents(folder / "printed.txt") or b""
    return Run(ended, code, seconds, printed.decode("utf-8", "replace")[:SHOWN], said, came)


def contents(path):
    """The bytes of a regular file of a moderate size, or None; never through a link, and without waiting."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
                             | getattr(os, "O_BINARY", 0))
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST + 1024:
            return None
        return file.read(LARGEST + 1024)


def array(path):
    """The array in a .npy file, or None: numbers alone, and no larger than the file says."""
    data = contents(path)
    if data is None:
        return None
    stream = io.BytesIO(data)
    try:
        if np.lib.format.read_magic(stream) != (1, 0):
            return None
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
        if dtype.kind not in "fiub":
            return None
        return np.frombuffer(data, dtype, offset=stream.tell()).reshape(shape, order="F" if fortran else "C")
    except Exception:                           # whatever a forged header can bring about
        return None


def words(path):
    """What the child said: words and lists of words, all else is dropped."""
    try:
        said = json.loads(contents(path) or b"{}")
    except (ValueError, RecursionError):
        return {}
    return {key: value for key, value in said.items() if isinstance(value, str)
            or isinstance(value, list) and all(isinstance(item, str) for item in value)
            } if isinstance(said, dict) else {}
