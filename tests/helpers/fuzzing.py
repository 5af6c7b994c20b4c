"""Feeds a reader with damaged files, in processes whose memory and time are limited.

    PYTHONPATH=.:tests python -m helpers.fuzzing READER FOLDER FIRST COUNT   the mutations from number FIRST on

Each mutation is drawn from its number alone, so that one that fails can be repeated by itself. A reader may succeed, or raise
ValueError or OSError with one sentence. Whatever else it does is a failure: another exception, MemoryError under the limit,
more processor time than `SECONDS`, or a change in its folder.
"""

import contextlib
import dataclasses
import io
import json
import os
import pathlib
import resource
import signal
import sys
import traceback
import zlib
from collections.abc import Callable

import numpy as np

MEMORY = 240 << 20                              # bytes of address space beyond those that the process has already
SECONDS = 10                                    # of processor time for one file; sound ones take milliseconds
BATCH = 250                                     # mutations for each process
LONGEST = 2500                                  # characters of a sentence


@dataclasses.dataclass
class Reader:
    """What is damaged, and what reads it.

    Fields:
        make : (folder) -> paths of sound files, one of which is damaged at a time
        mutate : (bytes, generator) -> bytes
        read : (path), called with the damaged file in the place of the sound one
    """
    make: Callable
    mutate: Callable
    read: Callable


class TooSlow(BaseException):
    """The reader has used up its processor time."""


def too_slow(*_):
    raise TooSlow(f"more than {SECONDS} seconds")


@contextlib.contextmanager
def limits():
    """Limits the memory and the processor time of what runs within this context."""
    used = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    signal.signal(signal.SIGPROF, too_slow)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, hard))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def failure(read, path):
    """Returns what is wrong with how a reader treats a file, or ""."""
    try:
        with limits(), np.errstate(all="ignore"), contextlib.redirect_stdout(io.StringIO()):
            read(path)
    except (ValueError, OSError) as error:
        text = str(error)
        if "\n" in text or "\x1b" in text or not 0 < len(text) <= LONGEST:
            return f"no sentence: {text[:300]!r} ({len(text)} characters)"
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-3:]
        where = " < ".join(f"{frame.name}:{frame.lineno} {os.path.basename(frame.filename)}" for frame in reversed(last))
        return f"{type(error).__name__}: {str(error)[:200]!r} at {where}"
    return ""


def mutate_and_read(name, reader, folder, first, count):
    """Yields (number, failure) of those mutations that fail."""
    files = reader.make(folder)
    sound = [path.read_bytes() for path in files]
    for path in files:                          # what is not damaged is read, and fills caches before memory is counted
        assert not failure(reader.read, path), (path, failure(reader.read, path))
    before = listing(folder)
    for number in range(first, first + count):
        rng = np.random.default_rng([zlib.crc32(name.encode()), number])
        chosen = int(rng.integers(len(files)))
        files[chosen].write_bytes(reader.mutate(sound[chosen], rng))
        found = failure(reader.read, files[chosen])
        files[chosen].write_bytes(sound[chosen])
        if listing(folder) != before:
            found = f"{found}; the folder changed: {set(listing(folder)) ^ set(before)}"
        if found:
            yield number, found


def listing(folder):
    return sorted(str(path) for path in pathlib.Path(folder).rglob("*"))


def failures(name, folder, count=1000):
    """Returns what is wrong with a reader of helpers.fuzzed_readers over `count` mutations, found in several processes."""
    from . import ROOT
    from .commands import python

    found = []
    for first in range(0, count, BATCH):
        place = folder / str(first)
        place.mkdir()
        process = python("-m", "helpers.fuzzing", name, place, first, min(BATCH, count - first), cwd=ROOT / "tests",
                         PYTHONPATH=os.pathsep.join([str(ROOT), str(ROOT / "tests")]), OPENBLAS_NUM_THREADS="1",
                         XDG_STATE_HOME=str(folder))
        found += [line for line in process.stdout.splitlines() if line.startswith("[")]
        if "done" not in process.stdout:
            found.append(f"the process ended with {process.returncode}: {process.stdout[-300:]} {process.stderr[-1500:]}")
    return found


def main(name, folder, first, count):
    from .fuzzed_readers import READERS

    for number, found in mutate_and_read(name, READERS[name], pathlib.Path(folder), int(first), int(count)):
        print(json.dumps([number, found]), flush=True)
    print("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
