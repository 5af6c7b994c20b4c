"""The one law that every component obeys.

`forward(*inputs)` computes the output, and remembers the values that backward will need: its input, for example, or
the weights of a softmax. `backward(dy)` takes dL/dy, the gradient of the loss with respect to that output. It recalls
the saved values, adds the gradient of each parameter into its `.grad`, and returns the gradient of each float input in
forward's order. It changes none of its arguments.

Saved values form a stack, because one component may be used several times before the first backward: one dropout
after two sublayers, or one embedding for source and target. Backward visits the uses in reverse order, so the values
that it needs are always those that were saved last. A single slot would hold the values of the last use only, and the
gradients of the earlier uses would be silently wrong.
"""

import warnings

import numpy as np

from .argument_checks import called_class
from .parameter import Parameter, drawing, owner_of, unfilled, without_memory

PILE = 1000                                     # forwards of one component that wait for their backward


class Module:
    """Base class of every component: a tree of modules and parameters, with a stack of saved values.

    There is nothing to register and no `super().__init__()` to call: parameters and children are found by walking
    attributes and lists. A tied parameter is the same `Parameter` object in two places, and counts once.

    train() switches dropout on. eval() switches it off and saves nothing in forward, so backward is not possible;
    eval(remember=True) switches dropout off and still saves what backward needs.
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
        """Pushes the values that the matching backward will need. After eval() it saves nothing."""
        if self.remembering:
            saved = self.__dict__.setdefault("_saved", [])
            saved.append(values)
            if len(saved) == PILE:
                warn_of_pile(self)

    def recall(self):
        """Pops what the latest forward without a backward has saved: one value, or a tuple of several.

        Raises: RuntimeError if no saved values are left.
        """
        if not self.__dict__.get("_saved"):
            raise RuntimeError(f"{type(self).__name__}.backward has nothing to recall: each backward needs a forward "
                               "of its own, in train() or eval(remember=True); call forward first")
        values = self._saved.pop()
        return values[0] if len(values) == 1 else values

    def forget(self):
        """Drops all saved values of this module and of those below it; returns self."""
        for _, module in self.named_modules():
            module.__dict__.pop("_saved", None)
        return self

    def train(self):
        """Switches dropout on and saves what backward needs; returns self."""
        return self._switch(training=True, remembering=True)

    def eval(self, remember=False):
        """Switches dropout off, and saves what backward needs only if `remember` is True; returns self."""
        return self._switch(training=False, remembering=remember)

    def _switch(self, training, remembering):
        self.forget()
        for _, module in self.named_modules():
            module.training = training
            module.remembering = remembering
        return self

    def named_modules(self):
        """Returns a list of (dotted name, module), self first, under the name ""."""
        return [(name, part) for name, part in named_parts(self) if is_module(part)]

    def named_parameters(self, trained=False):
        """Returns a list of (dotted name, Parameter); a tied parameter appears once, under its first name.

        With trained=True, here and in the methods below, frozen parameters are left out.
        """
        return [(name, part) for name, part in named_parts(self)
                if is_parameter(part) and not (trained and is_frozen(part))]

    def parameters(self, trained=False):
        """Returns a list of all parameters, each once."""
        return [parameter for _, parameter in self.named_parameters(trained)]

    def num_parameters(self, trained=False):
        """Returns the number of parameters: single numbers, not arrays."""
        return sum(parameter.data.size for parameter in self.parameters(trained))

    def zero_grad(self):
        """Sets every gradient to zero. A gradient that was not needed so far still takes no memory."""
        for parameter in self.parameters():
            parameter.grad = 0

    def astype(self, dtype):
        """Converts parameters, gradients and tables in place; returns self.

        Raises: ValueError if dtype is not a float dtype, or if an optimizer holds the parameters, because the
            optimizer's state would keep the old dtype.
        """
        if np.dtype(dtype).kind not in "fc":
            raise ValueError(f"astype({np.dtype(dtype).name}): parameters are floats; choose np.float32 or np.float64")
        for name, parameter in self.named_parameters():
            if getattr(parameter, "held", False):
                raise ValueError(f"an optimizer holds {name!r} and keeps state of dtype {parameter.data.dtype}; "
                                 "call astype() before the optimizer is made")
        for _, module in self.forget().named_modules():
            module.build_tables(np.empty(0, dtype).real.dtype)
        for parameter in self.parameters():
            parameter.astype(dtype)
        return self

    def build_tables(self, dtype):
        """Computes fixed tables (such as sinusoids) in `dtype`. Most components have none."""

    def state_dict(self, trained=False):
        """Returns copies of all parameters in a dict, by dotted name."""
        return {name: parameter.data.copy() for name, parameter in self.named_parameters(trained)}

    def load_state_dict(self, state, copy=True, trained=False):
        """Copies arrays into the parameters of the same names, all or nothing; returns self.

        With copy=False the parameters take over the arrays themselves where they can, which then belong to the model;
        others, such as views, read-only arrays and arrays of another dtype, are copied.

        Raises: ValueError that lists missing names, unknown names, wrong shapes and wrong dtypes.
        """
        own = dict(self.named_parameters(trained))
        problems = _problems_of_state(own, state)
        if problems:
            raise ValueError(f"state_dict does not fit {type(self).__name__}, nothing was loaded; "
                             + "; ".join(problems))
        taken = set()                           # one array cannot belong to two parameters
        for name, parameter in own.items():
            array = np.asarray(state[name])
            if copy or id(owner_of(array)) in taken or not isinstance(parameter, Parameter):
                parameter.data = array
            else:
                parameter.take(array)
                taken.add(id(owner_of(array)))
        return self

    def summary(self):
        """Returns a table of all parameters, one a line: name, shape and count, and at the end the total."""
        rows = [(name, str(p.data.shape), f"{p.data.size:,}") for name, p in self.named_parameters()]
        rows.append((f"total of {type(self).__name__}", "", f"{self.num_parameters():,}"))
        if any(map(is_frozen, self.parameters())):
            rows.append(("not frozen", "", f"{self.num_parameters(trained=True):,}"))
        name_width, shape_width, count_width = (max(map(len, column)) for column in zip(*rows))
        return "\n".join(f"{name:<{name_width}}  {shape:<{shape_width}}  {count:>{count_width}}"
                         for name, shape, count in rows)

    def __repr__(self):
        """Returns the class name with its settings and, if other modules lie inside, the number of parameters."""
        parts = [self.extra_repr()]
        if len(self.named_modules()) > 1:
            parts.append(f"{self.num_parameters():,} parameters")
        return f"{type(self).__name__}({', '.join(filter(None, parts))})"

    def _repr_html_(self):
        """Returns the tree of parts that a notebook shows, with the shapes and counts of their parameters."""
        from . import markup
        names = {id(part): name for name, part in named_parts(self)}
        return markup.tree(*_tree("", self, names))

    def extra_repr(self):
        """Returns what repr shows between the parentheses: by default public numbers, booleans and short strings."""
        shown = []
        for name, value in vars(self).items():
            simple = isinstance(value, (bool, int, float)) or (isinstance(value, str) and len(value) <= 20)
            if simple and not name.startswith("_") and name not in ("training", "remembering"):
                shown.append(f"{name}={value!r}")
        return ", ".join(shown)


def _tree(name, part, names, label=""):
    """Returns (title, note, rows of its own parameters, branches) of a part; `names` has the first names."""
    settings = part.extra_repr() if isinstance(part, Module) else ""
    title = f"{label}{type(part).__name__}({settings})"
    if names[id(part)] != name:
        return title, f"the same as {names[id(part)]}", [], []
    own = [(key, item) for key, item in _items(part) if is_parameter(item)]
    rows = [[key, str(np.shape(item.data)), _count(f"{name}.{key}" if name else key, item, names)] for key, item in own]
    branches = [_tree(f"{name}.{key}" if name else key, item, names, f"{key}: ")
                for key, item in _items(part) if is_module(item)]
    count = sum(np.size(item.data) for _, item in named_parts(part) if is_parameter(item))
    return title, f"{count:,} parameters" if count else "", rows, branches


def _count(name, parameter, names):
    """Returns the number of entries of a parameter, or says where it has been counted already."""
    first = names.get(id(parameter), name)
    return f"{np.size(parameter.data):,}" if first == name else f"the same as {first}"


def _items(part):
    """Yields (name, item) of the modules and parameters directly below a part, those in lists as "blocks.0"."""
    def flat(name, value):
        if isinstance(value, (list, tuple)):
            for index, item in enumerate(value):
                yield from flat(f"{name}.{index}", item)
        elif is_parameter(value) or is_module(value):
            yield name, value

    for key, value in vars(part).items():
        if not key.startswith("_"):
            yield from flat(key, value)


def warn_of_pile(module):
    """Warns that the values of many forwards lie in memory, because no backward has used them."""
    warnings.warn(f"{called_class(type(module).__name__)}: a part still saves the values of {PILE:,} forwards that no backward "
                  "has followed, and they take memory; call eval() on a model that is not trained now, or forget() to drop them",
                  stacklevel=2)


def _problems_of_state(own, state):
    """Returns sentences about the arrays in `state` that do not fit the parameters in `own`; both are dicts by name."""
    missing = [name for name in own if name not in state]
    unknown = [name for name in state if name not in own]
    wrong_shape = []
    wrong_dtype = []
    for name in own:
        if name in state:
            wanted, given = own[name].data, np.asarray(state[name])
            if given.shape != wanted.shape:
                wrong_shape.append(f"{name} {given.shape} instead of {wanted.shape}")
            if not np.can_cast(given.dtype, wanted.dtype, "same_kind"):
                wrong_dtype.append(f"{name} {given.dtype} instead of {wanted.dtype}")
    lists = {"missing": missing, "unknown": unknown, "wrong shape": wrong_shape, "wrong dtype": wrong_dtype}
    return [f"{title}: {', '.join(names)}" for title, names in lists.items() if names]


def named_parts(root):
    """Returns a list of (dotted name, part) for root and for each module and parameter below it, each once.

    Attributes and lists are visited in the order in which they were set. Any object with `forward` and `backward`
    counts as a module, and any object with `.data` and `.grad` as a parameter, so classes that do not use this package
    work too. Attributes whose names begin with an underscore are skipped.
    """
    found = []
    seen = set()

    def walk(name, part):
        if isinstance(part, (list, tuple)):
            for index, item in enumerate(part):
                walk(f"{name}.{index}" if name else str(index), item)
        elif id(part) not in seen and (is_parameter(part) or is_module(part)):
            seen.add(id(part))
            found.append((name, part))
            if not is_parameter(part):
                for key, value in vars(part).items():
                    if not key.startswith("_"):
                        walk(f"{name}.{key}" if name else key, value)

    walk("", root)
    return found


def is_module(part):
    """Returns True for a Module, and for any other object that has the methods forward and backward."""
    if isinstance(part, Module):
        return True
    if isinstance(part, type) or not hasattr(part, "__dict__"):
        return False
    return callable(getattr(part, "forward", None)) and callable(getattr(part, "backward", None))


def is_frozen(parameter):
    """Returns True for a parameter that training leaves as it is; parameters of other classes are never frozen."""
    return getattr(parameter, "frozen", False)


def is_parameter(part):
    """Returns True for a Parameter, and for any other object that has .data and .grad."""
    if isinstance(part, Parameter):
        return True
    if isinstance(part, (Module, type)):
        return False
    return hasattr(part, "grad") and hasattr(part, "data")
