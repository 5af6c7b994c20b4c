"""Runs students' files apart from everything: inputs go in, plain arrays come out, and nothing else is in reach."""

from .inside.worker import Function
from .layers import NO_LAYER, Layer, best_layer, layers
from .runs import CaseResult, ProgramRun, ProgramTask, run, run_files, run_task
from .server import Stopped

__all__ = ["NO_LAYER", "CaseResult", "Function", "Layer", "ProgramRun", "ProgramTask", "Stopped", "best_layer", "layers",
           "run", "run_files", "run_task"]
