"""Finds the parameters of a student's layers, and gives them arrays."""

import numpy as np


def parameters_of(part, prefix=""):
    """Returns {dotted name: parameter} of everything inside that has data and grad."""
    found = {}
    for name, value in vars(part).items():
        if name.startswith("_"):
            continue
        for i, item in enumerate(value if isinstance(value, (list, tuple)) else [value]):
            path = f"{prefix}{name}.{i}" if isinstance(value, (list, tuple)) else prefix + name
            if hasattr(item, "data") and hasattr(item, "grad"):
                found[path] = item
            elif hasattr(item, "forward"):
                found |= parameters_of(item, f"{path}.")
    return found


def filled(part, arrays):
    """Gives the parameters these arrays, {name: array}, and gradients of zero. Returns the part."""
    parameters = parameters_of(part)
    for name, array in arrays.items():
        if name not in parameters:
            raise AttributeError(f"{type(part).__name__} has no parameter {name}; it has {', '.join(parameters) or 'none'}")
        if np.shape(parameters[name].data) != array.shape:
            raise ValueError(f"{name} of {type(part).__name__} has the shape {np.shape(parameters[name].data)}, not "
                             f"{array.shape}")
        parameters[name].data = array
        parameters[name].grad = np.zeros_like(array)
    return part


def gradients(part, arrays):
    """Returns the gradients of these parameters, one after the other in one vector."""
    parameters = parameters_of(part)
    return np.concatenate([np.ravel(parameters[name].grad) for name in arrays])
