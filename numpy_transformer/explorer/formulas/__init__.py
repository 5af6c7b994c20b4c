"""The spelling-out of numbers: how each entry of an output or of a gradient follows from other entries.

language.py and operations.py are the language of formulas; evaluator.py and spelling.py work out an entry with all its
numbers; writers.py knows which function writes the formulas of which component. `formulas_of(op)` returns the formulas of one operation, and `spell` puts the numbers in. The formulas of the components
stand in layers.py, normalization.py, attention.py, losses.py, experts.py and modern.py, those of what stands between components in computations.py,
and those of parts that a reader has switched off in switched.py. To give a class of your own formulas, write a function
like those and put `@spells(YourClass)` above it.
"""

from . import attention, computations, experts, layers, losses, modern, normalization, switched
from .evaluator import spell
from .language import Formula, formula
from .writers import formulas_of, spells
