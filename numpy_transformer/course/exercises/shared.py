"""Shared by several exercises: a Parameter for the students' classes, and the package's layers with given weights."""

import numpy as np


class Parameter:
    def __init__(self, data):
        self.data = data
        self.grad = np.zeros_like(data)


def loaded(layer, parameters):
    """Returns the package's layer in float64 with these parameters, given as {dotted name: array}."""
    return layer.astype(np.float64).load_state_dict(parameters)
