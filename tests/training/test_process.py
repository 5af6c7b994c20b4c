"""The settings of the process that make NumPy quick: BLAS threads, and memory that is kept."""

import ctypes
import json
import subprocess
import sys

import numpy as np

import numpy_transformer as nt
from numpy_transformer import threads
from numpy_transformer.training import process, trainer


def test_blas_threads_are_set_and_the_number_before_is_returned():
    before = threads.set_blas_threads(2)
    try:
        assert before >= 1 and threads.blas()[0]() == 2
        assert threads.set_blas_threads(1) == 2 and threads.blas()[0]() == 1
    finally:
        threads.set_blas_threads(before)


def test_cores_are_those_that_this_process_may_use(monkeypatch):
    assert threads.cores() >= 1
    monkeypatch.setattr(threads.os, "sched_getaffinity", lambda pid: {1, 4, 6}, raising=False)
    assert threads.cores() == 3
    monkeypatch.delattr(threads.os, "sched_getaffinity")
    monkeypatch.setattr(threads.os, "cpu_count", lambda: None)
    assert threads.cores() == 1


def test_freed_memory_is_kept_where_malloc_can_be_set(monkeypatch):
    class Library:
        told = []

        def mallopt(self, option, value):
            self.told.append((option, value))
            return int(option != refuses)

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library())
    refuses = None
    assert process.keep_freed_memory() is True
    assert sorted(Library.told) == [(-8, 1), (-3, 2 ** 25), (-2, 2 ** 26), (-1, 2 ** 30)]     # numbers of malloc.h
    refuses = -1
    assert process.keep_freed_memory() is False
    for missing in (AttributeError, OSError, TypeError):    # no glibc; no such library; Windows takes no None
        def fails(name, missing=missing):
            raise missing

        monkeypatch.setattr(ctypes, "CDLL", fails)
        assert process.keep_freed_memory() is False


def test_fit_keeps_memory_and_a_step_alone_does_not(monkeypatch):
    called = []
    monkeypatch.setattr(trainer, "keep_freed_memory", lambda: called.append(1))
    model = nt.Linear(3, 2, rng=0)
    run = nt.Trainer(model, nt.CrossEntropyLoss(), nt.SGD(model.parameters(), 0.1), workers=1)
    batch = np.ones((4, 3), np.float32), np.zeros(4, int)
    run.step([batch])
    assert not called
    run.fit([batch], 2)
    assert called == [1]


def test_importing_the_package_changes_no_setting_of_the_process():
    code = ("import ctypes, json, numpy\n"
            "called = []\n"
            "load = ctypes.CDLL\n"
            "ctypes.CDLL = lambda *names, **more: called.append(names) or load(*names, **more)\n"
            "import threading, numpy_transformer\n"
            "from numpy_transformer import threads\n"
            "print(json.dumps([called, threads.blas.cache_info().currsize, threading.active_count()]))\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[], 0, 1]
