"""The programs that the benchmark compares ours with, and how to start them."""

import importlib.util
import os
import shutil
from dataclasses import dataclass


@dataclass(frozen=True)
class Rival:
    """A module of this package that times the same models, and answers its parent as child_process.py describes."""

    module: str
    library: str                                # whose matmuls it uses, among LIBRARIES
    packages: tuple                             # what must be installed, under the names of both pip and import
    compiler: str = ""                          # the program without which it does not run

    def missing(self):
        """Returns what is not installed here, and what to do, or ""."""
        absent = [name for name in self.packages if importlib.util.find_spec(name) is None]
        if absent:
            verb = "is" if len(absent) == 1 else "are"
            return f"{' and '.join(absent)} {verb} not installed here; pip install {' '.join(absent)}"
        if self.compiler and shutil.which(os.environ.get("CXX", self.compiler)) is None:
            return f"the compiler {self.compiler} is not installed here; install it"
        return ""


RIVALS = {"torch": Rival("torch_baseline", "PyTorch", ("torch",)),
          "compile": Rival("compile_baseline", "PyTorch", ("torch",), compiler="g++"),
          "jax": Rival("jax_baseline", "JAX", ("jax", "optax"))}
LIBRARIES = {"NumPy": "jobs", "PyTorch": "torch_baseline", "JAX": "jax_baseline"}  # the modules that time their matmuls
