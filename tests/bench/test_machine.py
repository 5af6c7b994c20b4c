"""What the benchmark says about the machine: NumPy's kernels, and the speed of each library's matmuls."""

import platform
import sys

import pytest
from helpers.commands import python

from numpy_transformer.bench import machine
from numpy_transformer.threads import openblas


def test_the_kernels_are_those_that_threadpoolctl_finds():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    (found,) = [library for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"
                and "numpy" in library["filepath"]]
    assert found["version"] in machine.kernels() and found["architecture"] in machine.kernels()


@pytest.mark.skipif(not hasattr(openblas(), "scipy_openblas_get_corename64_"), reason="another BLAS library")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="other kernels")
def test_the_kernels_are_those_that_were_asked_for():
    code = "from numpy_transformer.bench.machine import kernels; print(kernels())"
    done = python("-c", code, OPENBLAS_CORETYPE="Nehalem")
    assert done.stdout.startswith("OpenBLAS 0.") and done.stdout.endswith(" Nehalem\n"), done.stderr


def test_kernels_of_another_library_are_unknown(monkeypatch):
    monkeypatch.setattr(machine, "openblas", lambda: None)
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    assert machine.kernels() == "unknown"


def test_matmul_speeds_are_those_of_each_library_once(monkeypatch):
    """The matmul of mid has 2 * 2048 * 384 * 1536 = 2.4e9 operations."""
    started, closed = [], []

    class Side:
        def __init__(self, *command):
            started.append(command)
            module, _, threads, _ = command
            self.milliseconds = {"jobs": 12.0, "torch_baseline": 24.0}[module] / threads

        def times(self, count):
            return [self.milliseconds] * count

        def close(self):
            closed.append(self)

    monkeypatch.setattr(machine, "python_process", Side)
    monkeypatch.setattr("numpy_transformer.bench.measure.REST", 0)
    speeds = machine.matmul_speeds(["torch", "compile"], 2, turn=0.01)
    assert started == [(module, "mid", threads, "matmul") for module in ("jobs", "torch_baseline") for threads in (1, 2)]
    assert len(closed) == 4
    assert {library: {count: round(speed, 1) for count, speed in found.items()} for library, found in speeds.items()} == {
        "NumPy": {1: 201.3, 2: 402.7}, "PyTorch": {1: 100.7, 2: 201.3}}
