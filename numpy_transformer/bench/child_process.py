"""A benchmark's child process: it runs what its parent asks for, and tells the times and its peak memory."""

import json
import sys
from pathlib import Path


def answer_parent(run, size):
    """Answers the parent (BenchmarkProcess in measure.py), one line of JSON for each line of standard input.

    The first line of output is `size`, the number of threads. A number is answered with the milliseconds of that many runs,
    run(number), and the word "memory" with the peak memory of this process.
    """
    print(size, flush=True)
    for line in sys.stdin:
        answer = peak_memory_of_process() if line.strip() == "memory" else run(int(line))
        print(json.dumps(answer), flush=True)


def peak_memory_of_process():
    """Returns the peak memory of this process in MB (10^6 bytes), or None where the system does not say."""
    status = Path("/proc/self/status")
    if status.exists():                         # on Linux, ru_maxrss may be that of the parent process
        (peak,) = [line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM:")]
        return int(peak.split()[1]) * 1024 / 1e6
    try:
        import resource
    except ImportError:                         # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
