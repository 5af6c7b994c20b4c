"""What the times depend on besides the programs: the processor, and how fast each library multiplies matrices on it."""

import contextlib
import os
import platform
import statistics
from pathlib import Path

from ..threads import openblas
from .configs import CONFIGS
from .measure import TURN, in_turns, python_process
from .other_libraries import LIBRARIES, RIVALS

VARIABLES = "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"     # they replace what OpenBLAS finds out about the processor
MULTIPLIED = CONFIGS["mid"]                     # the matmul that is timed is the first of its feed-forward layers


def machine():
    """Returns what every row of results carries: the processor, NumPy's kernels, and variables that may slow them down."""
    return {"processor": processor(), "kernels": kernels(),
            "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ}}


def processor():
    """Returns the name of this machine's processor."""
    with contextlib.suppress(OSError):          # Linux alone has this file
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def kernels():
    """Returns NumPy's BLAS library, its version and the processor that its kernels are for: "OpenBLAS 0.3.31 SkylakeX"."""
    for prefix in ("scipy_openblas", "openblas"):
        for suffix in ("64_", ""):
            with contextlib.suppress(AttributeError):
                core = c_string(getattr(openblas(), f"{prefix}_get_corename{suffix}"))
                library, version, *_ = c_string(getattr(openblas(), f"{prefix}_get_config{suffix}")).split()
                return f"{library} {version} {core}"
    with contextlib.suppress(ImportError, IndexError):      # another BLAS library, which threadpoolctl may support
        from threadpoolctl import ThreadpoolController
        properties = ThreadpoolController().select(user_api="blas").info()[0]
        return " ".join(str(properties[name]) for name in ("internal_api", "version", "architecture") if properties.get(name))
    return "unknown"


def c_string(function):
    """Returns the text that a C function without arguments returns."""
    import ctypes

    function.restype = ctypes.c_char_p
    return function().decode()


def warning(variables):
    """Returns a sentence about the variables that are set, {name: value}, or ""."""
    if not variables:
        return ""
    settings = " and ".join(f"{name}={value}" for name, value in variables.items())
    unset = " ".join(f"-u {name}" for name in VARIABLES)
    return (f"Warning: {settings} is set, which can halve the speed of NumPy's matmuls; to unset it, run "
            f"`env {unset} numpy-transformer bench`.")


def matmul_speeds(rivals, threads, turn=TURN, rounds=3):
    """Returns {library: {number of threads: Gflop/s}} of one matmul, in NumPy and in the libraries of the rivals.

    The matmul is (tokens, d_model) @ (d_model, d_ff) in the sizes of MULTIPLIED.
    """
    libraries = ["NumPy", *dict.fromkeys(RIVALS[name].library for name in rivals)]
    with contextlib.ExitStack() as stack:
        children = {}
        for library in libraries:
            for count in sorted({1, threads}):
                child = python_process(LIBRARIES[library], MULTIPLIED.name, count, "matmul")
                children[library, count] = child
                stack.callback(child.close)
        times = in_turns({key: child.times for key, child in children.items()}, turn, rounds, lambda: None)
    flops = 2 * MULTIPLIED.tokens * MULTIPLIED.d_model * MULTIPLIED.d_ff
    speeds = {library: {} for library in libraries}
    for (library, count), milliseconds in times.items():
        speeds[library][count] = flops / (1e6 * statistics.median(milliseconds))
    return speeds
