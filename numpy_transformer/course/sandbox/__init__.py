"""Runs students' files apart from everything: inputs go in, plain arrays come out, and nothing else is in reach.

runs.py, server.py, protocol.py     runs files on cases; talks with the process; reads its answers strictly
isolation.py, bubblewrap.py         what this machine offers to keep programs apart
visible_files.py, scratch.py        which files a program sees; where it may write
inside/                             what runs in the student's process
"""

from .inside.case_arguments import Function
from .isolation import NO_LAYER, Layer, best_layer, layers
from .runs import CaseResult, ProgramRun, ProgramTask, run, run_files, run_task
from .scratch import sweep
from .server import Stopped

__all__ = ["NO_LAYER", "CaseResult", "Function", "Layer", "ProgramRun", "ProgramTask", "Stopped", "best_layer", "layers",
           "run", "run_files", "run_task", "sweep"]
