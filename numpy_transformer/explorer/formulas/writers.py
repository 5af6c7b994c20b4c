"""Which function writes the formulas of which component."""

import numpy as np

from ...module import is_frozen
from .language import formula

WRITERS = {}                                        # class, or kind of a computation between components -> function


def spells(*kinds):
    """Decorates a function that yields the formulas of these classes, or of these kinds of computations between components."""
    def register(function):
        WRITERS.update(dict.fromkeys(kinds, function))
        return function
    return register


class FormulaContext:
    """What formulas may depend on: the component and the arrays of one call.

    Attributes:
        module : the component, None between components
        arrays : dict name -> array of the inputs, the parameters and the outputs
        inputs : the names of inputs and parameters
        numbers : dict name -> number; `name` adds to it
    """

    def __init__(self, op):
        self.module = op.module
        self.inputs = [*op.inputs, *op.parameters]
        self.arrays = {name: np.asarray(getattr(value, "array", value))
                       for values in (op.inputs, op.parameters, op.outputs) for name, value in values.items()}
        self.numbers = dict(op.numbers)
        self.readable = {*self.arrays, *(f"d{name}" for name in op.outputs)}

    def name(self, **numbers):
        """Makes these names stand for these numbers in the formulas."""
        self.numbers.update(numbers)

    def has(self, name):
        return name in self.arrays

    def shape(self, name):
        return self.arrays[name].shape


def formulas_of(op):
    """Returns {name of an output or gradient: Formula} for one operation; {} if its class brings no formulas.

    A subclass has the formulas of its base, even if it computes something else: then the page shows the difference. A
    formula that reads an array which the call does not have is left out, and so is the gradient of a frozen parameter.

    Parameters: op : has `module`, `kind`, and the dicts `inputs`, `parameters` and `outputs` (name -> array) and
        `numbers` (name -> number)
    """
    writer = writer_of(op)
    if writer is None:
        return {}
    context = FormulaContext(op)
    try:
        formulas = [formula(text, **context.numbers) for text in writer(context)]
    except (AttributeError, KeyError, IndexError):      # a class of the reader's without an attribute of its base
        return {}
    targets = {*context.arrays, *(f"d{name}" for name in context.inputs if not is_frozen(getattr(op.module, name, None)))}
    return {one.target: one for one in formulas if one.names <= context.readable and one.target in targets}


def writer_of(op):
    """Returns the function that writes the formulas of this operation, or None."""
    if op.module is None or op.kind != "component":
        return WRITERS.get(op.kind)
    return next((WRITERS[base] for base in type(op.module).__mro__ if base in WRITERS), None)


def lines(*texts):
    """Joins lines of formulas, whatever their indentation."""
    return "\n".join(line.strip() for text in texts for line in text.splitlines() if line.strip())
