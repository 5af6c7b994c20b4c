"""Freed memory that is kept, and no setting of the process that changes at import."""

import ctypes
import json

import numpy as np
from helpers.commands import python

import numpy_transformer as nt
from numpy_transformer.training import memory, trainer


def test_freed_memory_is_kept_where_malloc_can_be_set(monkeypatch):
    class Library:
        told = []

        def mallopt(self, option, value):
            self.told.append((option, value))
            return int(option != refuses)

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library())
    refuses = None
    assert memory.keep_freed_memory() is True
    assert sorted(Library.told) == [(-8, 1), (-3, 2 ** 25), (-2, 2 ** 26), (-1, 2 ** 30)]     # numbers of malloc.h
    refuses = -1
    assert memory.keep_freed_memory() is False
    for missing in (AttributeError, OSError, TypeError):    # no glibc; no such library; Windows takes no None
        def fails(name, missing=missing):
            raise missing

        monkeypatch.setattr(ctypes, "CDLL", fails)
        assert memory.keep_freed_memory() is False


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
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[], 0, 1]
