"""The one law that every component obeys.

`forward(*inputs)` remembers what backward needs; `backward(dy)` recalls it, last in, first out.
backward takes dL/d(output), returns dL/d(each float input) in forward's order, adds into every
`.grad`, and changes none of its arguments.
"""

import numpy as np


class Parameter:
    """A trainable array and its gradient.

    Assigning to `.data` or `.grad` copies into the array that is there, so whatever else holds it (an optimizer, a
    tied layer, a replica) sees the new values. Only an optimizer's constructor moves them, into its flat buffers.

    Parameters: data : array_like, copied; integers become float64. `grad` starts as zeros of the same shape and dtype.
    Raises: ValueError if an assigned array has another shape; TypeError if its dtype does not fit.
    """

    def __init__(self, data):
        data = np.asarray(data)
        self._data = data.astype(data.dtype if data.dtype.kind in "fc" else np.float64)
        self._grad = np.zeros_like(self._data)
        self.held = False               # True once an optimizer keeps arrays of this dtype beside it

    @property
    def data(self):
        return self._data

    @data.setter
    def data(self, value):
        _copy_into(self._data, value)

    @property
    def grad(self):
        return self._grad

    @grad.setter
    def grad(self, value):              # `p.grad += g` ends here too, with the array itself
        _copy_into(self._grad, value)

    def astype(self, dtype):
        self._data = self._data.astype(dtype)
        self._grad = self._grad.astype(dtype)

    def move(self, data, grad):
        """Into these arrays of the same shape, such as views of an optimizer's flat buffer."""
        self._data, self._grad = data, grad

    def twin(self):
        """A Parameter that shares `.data` with this one and has a gradient of its own."""
        twin = Parameter(())
        twin.move(self._data, np.zeros_like(self._grad))
        return twin

    def __deepcopy__(self, memo):       # the copy is new: no optimizer holds it
        copy = Parameter(self._data)
        copy.grad = self._grad
        return copy

    def __repr__(self):
        return f"Parameter(shape={self._data.shape}, dtype={self._data.dtype})"


def _copy_into(array, value):
    if value is array:
        return
    if np.ndim(value) and np.shape(value) != array.shape:
        raise ValueError(f"cannot assign an array of shape {np.shape(value)} to a parameter of "
                         f"shape {array.shape}; reshape it, or build the layer with other sizes")
    np.copyto(array, value, casting="same_kind")


def named_parts(root):
    """Yield (dotted name, part) for root and each module and parameter below it, each once.

    Attributes and lists are walked in the order in which they were set. A module is whatever has
    `forward` and `backward`, a parameter whatever has `.data` and `.grad`, so a class that knows
    nothing of this package is walked too. Names that begin with an underscore are private.
    """
    seen = set()

    def walk(name, part):
        if isinstance(part, (list, tuple)):
            for index, item in enumerate(part):
                yield from walk(f"{name}.{index}" if name else str(index), item)
        elif id(part) not in seen and (is_parameter(part) or is_module(part)):
            seen.add(id(part))
            yield name, part
            if not is_parameter(part):
                for key, value in vars(part).items():
                    if not key.startswith("_"):
                        yield from walk(f"{name}.{key}" if name else key, value)

    return walk("", root)


def is_module(part):
    return isinstance(part, Module) or (not isinstance(part, type) and hasattr(part, "__dict__") and all(
        callable(getattr(part, name, None)) for name in ("forward", "backward")))


def is_parameter(part):
    return isinstance(part, Parameter) or (not isinstance(part, (Module, type))
                                           and hasattr(part, "grad") and hasattr(part, "data"))


class Module:
    """Base class of every component: a tree of modules and parameters, and a memory.

    There is nothing to register and no `super().__init__()` to call: parameters and children are
    found by walking attributes and lists. A tied parameter is the same `Parameter` object and
    counts once. The memory is a stack, so a module that is used twice in one forward answers the
    two backwards in reverse order, each with what its own forward saw.
    """

    training = True
    remembering = True

    def forward(self, *inputs):
        raise NotImplementedError(f"{type(self).__name__} has no forward yet")

    def backward(self, dy):
        raise NotImplementedError(f"{type(self).__name__} has no backward yet")

    def __call__(self, *inputs, **named):
        return self.forward(*inputs, **named)

    def remember(self, *values):
        """Push what the matching backward will need. In eval nothing is kept."""
        if self.remembering:
            self.__dict__.setdefault("_saved", []).append(values)

    def recall(self):
        """Pop what the latest unanswered forward remembered: one value, or a tuple of them."""
        if not self.__dict__.get("_saved"):
            raise RuntimeError(f"{type(self).__name__}.backward has nothing to recall: each forward, in train() or "
                               "eval(remember=True), answers one backward; call forward first")
        values = self._saved.pop()
        return values[0] if len(values) == 1 else values

    def forget(self):
        """Empty every memory of the tree; returns self."""
        for _, module in self.named_modules():
            module.__dict__.pop("_saved", None)
        return self

    def train(self):
        """Switch dropout on and remember; returns self."""
        return self._switch(training=True, remembering=True)

    def eval(self, remember=False):
        """Switch dropout off, and remember only if asked to; returns self."""
        return self._switch(training=False, remembering=remember)

    def _switch(self, training, remembering):
        self.forget()
        for _, module in self.named_modules():
            module.training, module.remembering = training, remembering
        return self

    def named_modules(self):
        """List of (dotted name, module), self first under the name ""."""
        return [(name, part) for name, part in named_parts(self) if is_module(part)]

    def named_parameters(self):
        """List of (dotted name, Parameter); a tied parameter stands once, under its first name."""
        return [(name, part) for name, part in named_parts(self) if is_parameter(part)]

    def parameters(self):
        return [parameter for _, parameter in self.named_parameters()]

    def num_parameters(self):
        """How many numbers the model learns."""
        return sum(parameter.data.size for parameter in self.parameters())

    def zero_grad(self):
        for parameter in self.parameters():
            parameter.grad = 0

    def astype(self, dtype):
        """Convert parameters, gradients and tables in place; returns self.

        Raises ValueError once an optimizer holds the parameters: its state would keep the old dtype.
        """
        if np.dtype(dtype).kind not in "fc":
            raise ValueError(f"astype({np.dtype(dtype).name}): parameters are floats; choose np.float32 or np.float64")
        held = [name for name, parameter in self.named_parameters() if getattr(parameter, "held", False)]
        if held:
            raise ValueError(f"an optimizer holds {held[0]!r} and keeps state of dtype "
                             f"{dict(self.named_parameters())[held[0]].data.dtype}; "
                             "call astype() before the optimizer is made")
        for _, module in self.forget().named_modules():
            module.build_tables(np.empty(0, dtype).real.dtype)
        for parameter in self.parameters():
            parameter.astype(dtype)
        return self

    def build_tables(self, dtype):
        """Compute fixed tables (positions) anew in `dtype`. Most components have none."""

    def state_dict(self):
        """Copies of all parameters by dotted name."""
        return {name: parameter.data.copy() for name, parameter in self.named_parameters()}

    def load_state_dict(self, state):
        """Copy arrays into the parameters of the same names, all or nothing; returns self.

        Raises ValueError that lists missing names, unknown names, wrong shapes and wrong dtypes.
        """
        own = dict(self.named_parameters())
        wrong = [f"{title}: {', '.join(names)}" for title, names in (
            ("missing", [name for name in own if name not in state]),
            ("unknown", [name for name in state if name not in own]),
            ("wrong shape", [f"{name} {np.shape(state[name])} instead of {own[name].data.shape}" for name in own
                             if name in state and np.shape(state[name]) != own[name].data.shape]),
            ("wrong dtype", [f"{name} {np.asarray(state[name]).dtype} instead of {own[name].data.dtype}" for name in own
                             if name in state and not np.can_cast(np.asarray(state[name]).dtype, own[name].data.dtype,
                                                                  "same_kind")])) if names]
        if wrong:
            raise ValueError(f"state_dict does not fit {type(self).__name__}, nothing was loaded; " + "; ".join(wrong))
        for name, parameter in own.items():
            parameter.data = state[name]
        return self

    def summary(self):
        """A table of every parameter: name, shape, count, and the total."""
        rows = [(name, str(p.data.shape), f"{p.data.size:,}") for name, p in self.named_parameters()]
        rows.append((f"total of {type(self).__name__}", "", f"{self.num_parameters():,}"))
        name, shape, count = (max(map(len, column)) for column in zip(*rows))
        return "\n".join(f"{a:<{name}}  {b:<{shape}}  {c:>{count}}" for a, b, c in rows)
