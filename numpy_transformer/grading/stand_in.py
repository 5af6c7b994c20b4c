"""Stands in for the sandbox until it is there. To be deleted."""

from dataclasses import dataclass

from ..classroom.sandbox.isolation import Stopped, run


@dataclass
class Task:
    exercise: object
    cases: list
    file: str


@dataclass
class Layer:
    name: str
    works: bool
    sentence: str


def layers():
    return [Layer("process", True, "a separate process without a sandbox")]


NO_LAYER = Layer("none", False, "")


def best_layer():
    return layers()[0]


def run_files(files, tasks, layer, seconds=10, megabytes=1024, stop=lambda: False):
    for task in tasks:
        yield run(files[task.file], task.exercise, task.cases, seconds, megabytes, None, stop)
