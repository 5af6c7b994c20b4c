"""What the graph of a step consists of: values, operations, groups, and what the code of a component can use."""

from dataclasses import dataclass, field

import numpy as np


@dataclass(eq=False, repr=False)
class Value:
    """An array that flows through the step, or a parameter. See FORMAT.md.

    Attributes:
        id, title, kind, array, axes : as in FORMAT.md; axes is a list of dicts
        producer : the Op that computed it, or None
        consumers : list of (Op, slot)
        gradient : dL/d(value) as backward computed it, or None
        contributions : {(op id, slot): what this consumer adds to the gradient}
        mismatch : difference between the gradient and the sum of the contributions, relative to the largest entry
        parameter : the parameter object, or None
        handle : how the value can be changed in another run of the model, see rerun.py; None: not at all
    """

    id: str
    title: str
    kind: str
    array: np.ndarray
    axes: list = field(default_factory=list)
    producer: object = None
    consumers: list = field(default_factory=list)
    gradient: np.ndarray = None
    contributions: dict = field(default_factory=dict)
    mismatch: float = 0.0
    parameter: object = None
    handle: tuple = None

    def __repr__(self):
        return f"Value({self.id!r}, {self.kind}, shape={self.array.shape})"


@dataclass(eq=False, repr=False)
class Op:
    """One operation. See FORMAT.md.

    Attributes:
        id, name, label, kind, parent : as in FORMAT.md; parent is the id of the group
        class_name, module : of the component; "" and None for a computation in the code of a composite component
        inputs, parameters, outputs : {name: Value}
        numbers : {name: number}, the component's settings and the numbers given to its forward
        call : the recorded StepCall, or None
        enclosing : for other computations, the StepCall of the component in whose code they stand
        computation : for other computations, the Computation that knows its backward
        lines : {"forward": (file, line, first line of the function), "backward": ...}, what called the component
    """

    id: str
    name: str
    label: str
    kind: str
    parent: str
    class_name: str = ""
    module: object = None
    inputs: dict = field(default_factory=dict)
    parameters: dict = field(default_factory=dict)
    outputs: dict = field(default_factory=dict)
    numbers: dict = field(default_factory=dict)
    call: object = None
    enclosing: object = None
    computation: object = None
    lines: dict = field(default_factory=dict)

    def __repr__(self):
        return f"Op({self.id!r}, {self.class_name or self.kind})"

    def arrays(self):
        """Returns the arrays of this op by the names that formulas use: x, gamma, y, and dx, dgamma, dy.

        dx is what this op contributes to the gradient of x; dy is the whole gradient of y.
        """
        arrays = {}
        for name, value in {**self.inputs, **self.parameters}.items():
            arrays[name] = value.array
            if (self.id, name) in value.contributions:
                arrays[f"d{name}"] = value.contributions[self.id, name]
        for name, value in self.outputs.items():
            arrays[name] = value.array
            if value.gradient is not None:
                arrays[f"d{name}"] = value.gradient
        return arrays


@dataclass(eq=False, repr=False)
class Group:
    """The call of a composite component. See FORMAT.md."""

    id: str
    name: str
    label: str
    class_name: str
    parent: str
    call: object
    inputs: dict = field(default_factory=dict)
    outputs: dict = field(default_factory=dict)

    def __repr__(self):
        return f"Group({self.id!r}, {self.class_name})"


@dataclass(eq=False, repr=False)
class Scope:
    """What the code of a composite component can use: `values` in the order in which they came to be."""

    group: str                                  # its id
    call: object
    outer: object                               # the enclosing Scope, or None
    values: list = field(default_factory=list)
    parameters: list = field(default_factory=list)

    def add(self, *values):
        """Enters values that the code can use from now on."""
        self.values.extend(value for value in values if value not in self.values)
