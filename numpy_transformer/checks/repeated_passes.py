"""What one backward pass does not show: whether gradients accumulate, and whether two passes disturb each other."""

import copy

import numpy as np

from .gradcheck import Checker, as_list, is_float, parameters, set_remembering

TOLERANCE = 1e-9                                # relative: the same sums, perhaps in another order
ADDED = "a layer that is used twice needs the sum of both gradients; write += in backward"


def problems(module, *inputs, seed=0):
    """Returns (what is wrong, remarks), two lists of sentences about several passes through a module.

    Wrong is a gradient that is overwritten instead of added to `.grad`, and a second forward and backward that gives
    something else than the first. A module that keeps the values of a single forward is worth a remark: its gradients
    are right as long as it is used once before each backward.
    """
    passes = Passes(Checker(module, inputs, seed, randomize=True))
    wrong = passes.repeated()
    remarks = [] if wrong else passes.two_forwards()
    return wrong, remarks


def plain_arrays(module):
    """Returns the names of a module's float arrays that are not parameters, so that their gradients are not checked."""
    return [name for name, value in vars(module).items()
            if isinstance(value, np.ndarray) and is_float(value) and value.size and not name.startswith("_")]


class Passes:
    """Runs the module of a Checker several times; its gradients of one pass are known."""

    def __init__(self, checker):
        self.checker, self.module = checker, checker.module
        self.parameters = parameters(self.module)
        self.inputs, self.dy = checker.inputs, checker.dy
        self.other_inputs = [other(x) for x in self.inputs]
        count = len(checker.gradients) - len(self.parameters)
        self.dx, self.sums = checker.gradients[:count], checker.gradients[count:]

    def repeated(self):
        """Repeats the pass without clearing the gradients, and returns what is wrong with them."""
        self.start()
        for (_, parameter), sums in zip(self.parameters, self.sums):
            parameter.grad = sums.copy()
        again = self.backward(self.forward(self.inputs), self.dy)
        overwritten = [name for (name, parameter), sums in zip(self.parameters, self.sums)
                       if sums.any() and near(parameter.grad, sums)]
        if overwritten:
            are = "is" if len(overwritten) == 1 else "are"
            return [f"{joined_names(f'{name}.grad' for name in overwritten)} {are} overwritten, not added to: {ADDED}"]
        names = [name for name, a, b in zip(self.checker.names, again, self.dx) if not near(a, b)]
        names += [name for (name, parameter), sums in zip(self.parameters, self.sums)
                  if not near(parameter.grad, 2 * sums)]
        if not names:
            return []
        return [f"a second forward and backward with the same arrays gives another gradient of {joined_names(names)}: "
                "something is left over from the first pass"]

    def two_forwards(self):
        """Compares two passes in a row with forward, forward, backward, backward. Returns a remark if they differ."""
        self.start()
        apart = [*self.backward(self.forward(self.inputs), self.dy)]
        dy_other = other(self.dy)
        y = self.forward(self.other_inputs)
        apart += self.backward(y, dy_other) + self.gradients()
        self.start()
        try:
            y = self.forward(self.inputs)
            y_other = self.forward(self.other_inputs)
            dx_other = self.backward(y_other, dy_other)
            nested = [*self.backward(y, self.dy), *dx_other, *self.gradients()]
            is_right = len(nested) == len(apart) and all(map(near, nested, apart))
        except Exception:                       # such as a missing value at the second backward
            is_right = False
        if is_right:
            return []
        return ["after two forward passes, the gradients of the two backward passes are wrong: forward keeps the "
                "values of one pass only. That is enough if the layer is used once before each backward; otherwise "
                "append them to a list, and let backward pop them"]

    def start(self):
        """Sets gradients to zero and random generators to their first state."""
        if hasattr(self.module, "forget"):
            self.module.forget()
        set_remembering(self.module, True)
        self.checker.generator_states.restore(self.module)
        for _, parameter in self.parameters:
            parameter.grad = np.zeros_like(parameter.data)

    def forward(self, inputs):
        return np.array(self.module.forward(*copy.deepcopy(inputs)))

    def backward(self, y, dy):
        """Returns the gradients of the inputs, as the Checker does for its own pass."""
        if not self.checker.takes_dy:
            return [np.array(dx) for dx in as_list(self.module.backward())]
        return [np.array(dx) for dx in as_list(self.module.backward(dy.copy() if y.ndim else float(dy)))]

    def gradients(self):
        return [np.array(parameter.grad) for _, parameter in self.parameters]


def other(x):
    """Returns an input of the same shape and kind with other values."""
    if not isinstance(x, np.ndarray):
        return x
    if is_float(x):
        return 0.3 - 0.7 * x
    return np.flip(x).copy()


def near(a, b):
    return np.shape(a) == np.shape(b) and np.linalg.norm(a - b) <= TOLERANCE * max(float(np.linalg.norm(b)), 1e-300)


def joined_names(names):
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
