"""What every layer obeys: forward remembers, backward recalls, and gradients are added into each parameter's grad.

forward(...) computes the output, and remembers what backward will need. backward(dy) takes the gradient of the loss with
respect to that output; it recalls what forward has remembered, adds to the gradient of each parameter, and returns the
gradient of each float input, in forward's order. The values lie on a stack, because one layer may be used several times
before the first backward: the last use comes back first.
"""

import numpy as np


class Parameter:
    """A trainable array `data`, and `grad`, the gradient of the loss with respect to it."""

    def __init__(self, data):
        self.data = data
        self.grad = np.zeros_like(data)


class Module:
    """Base class of every layer and model. Parameters and layers are found where they are: in attributes and lists."""

    def __call__(self, *inputs):
        return self.forward(*inputs)

    def remember(self, *values):
        """Puts the values that the matching backward will need on the stack."""
        self.__dict__.setdefault("_saved", []).append(values)

    def recall(self):
        """Takes the latest values from the stack: one value, or a tuple of several."""
        values = self._saved.pop()
        return values[0] if len(values) == 1 else values

    def parts(self):
        """Returns a list of (name, Parameter or Module) of everything inside, such as "blocks.0.norm1.gamma"."""
        found = []
        for name, value in vars(self).items():
            group = value if isinstance(value, list) else [value]
            for i, part in enumerate(group):
                label = f"{name}.{i}" if isinstance(value, list) else name
                if isinstance(part, (Parameter, Module)):
                    found.append((label, part))
                if isinstance(part, Module):
                    found += [(f"{label}.{inner}", below) for inner, below in part.parts()]
        return found

    def named_parameters(self):
        """Returns {name: Parameter}."""
        return {name: part for name, part in self.parts() if isinstance(part, Parameter)}

    def forget(self):
        """Drops all remembered values, where no backward will follow."""
        for _, part in [("", self), *self.parts()]:
            part.__dict__.pop("_saved", None)
