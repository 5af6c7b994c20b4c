"""Other processes, as /proc shows them."""

import time
from pathlib import Path


def descendants(pid):
    """Identifiers of all processes below this one."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = path.read_text().split()
        except OSError:                         # it has ended
            continue
        for child in map(int, children):
            found += [child, *descendants(child)]
    return found


def alive(pid):
    """True if this process runs: it has not ended, and is not only waiting for its parent to notice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(condition, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end and not condition():
        time.sleep(0.02)
    assert condition()
