"""Types that several signatures share. Arrays are np.ndarray everywhere; docstrings say their shapes."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Seed = np.random.Generator | int | None                     # None draws a fresh seed
PathLike = str | os.PathLike
Batch = tuple[Any, Any]                                     # inputs, an array or a tuple of arrays; and targets
Batches = Sequence[Batch] | Callable[[int], Batch]          # a list, or a function that returns batch number n
Validation = Sequence[Batch] | Callable[[], Any]            # a list, or a function that returns the measures
DTypeLike = np.dtype | type | str                           # such as np.float32
Component = Any                                             # a Module, or another object with forward and backward
