"""Drivers: functions of plain arrays that build a stage's classes, run them forward and backward, and return arrays.

A driver's source is run after a student's file, in a copy of its names, so that the checker of the exercises can treat a
class like any other answer. Here the names are those of the reference program; `package.driven` runs the drivers with the package's components.

filling.py                          finds the parameters of layers, and gives them arrays
layers.py, attention.py, models.py  stages 1 to 4; 5 to 7; 8 and 12
training.py, sampling.py, gpt2.py   stages 9, 10 and 11
gradient_checks.py, whole_model.py  backward against differences of forward; a training of the whole model
"""

from . import attention, filling, gpt2, gradient_checks, layers, models, sampling, training, whole_model
from .filling import filled, parameters_of
from .gpt2 import write_gpt2

MODULES = filling, layers, attention, models, training, sampling, gpt2, gradient_checks, whole_model
NAMES = {name: value for module in MODULES for name, value in vars(module).items()}

__all__ = ["MODULES", "NAMES", "filled", "parameters_of", "write_gpt2"]
