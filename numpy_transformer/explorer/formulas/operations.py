"""What the operations of formulas do with numbers: as NumPy does it, with infinities and nan in place of errors."""

import math
import operator

COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq,
           "!=": operator.ne}


def divide(a, b):
    if b == 0:
        return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1, b)
    return a / b


def power(a, b):
    try:
        return a ** b
    except OverflowError:
        return math.inf


ARITHMETIC = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": divide, "pow": power,
              "//": operator.floordiv, "%": operator.mod}
REDUCE = {"sum": sum, "mean": lambda values: divide(sum(values), len(values)),
          "max": lambda values: max(values, default=-math.inf)}


def call(name, value):
    """Returns a function of a number; where Python raises an error, the infinity or nan that NumPy has."""
    if name == "abs":
        return abs(value)
    if name in ("log", "log1p") and value == (0 if name == "log" else -1):
        return -math.inf
    try:
        return getattr(math, name)(value)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan
