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
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from .argument_checks import called_class
from .display import Displayed
from .file_checks import shown
from .parameter import Constant, Parameter, owner_of, unfilled
from .tree import is_frozen, is_module, is_parameter, named_parts
from .types import DTypeLike

ThisModule = TypeVar("ThisModule", bound="Module")              # for what returns the module that it was given
LISTED = 20                                     # names in an error
PILE = 1000                                     # forwards of one component that wait for their backward


class Module(Displayed):
    """Base class of every component: a tree of modules and parameters, with a stack of saved values.

    There is nothing to register and no `super().__init__()` to call: parameters and children are found by walking
    attributes and lists. A tied parameter is the same `Parameter` object in two places, and counts once.

    train() switches dropout on. eval() switches it off and saves nothing in forward, so backward is not possible;
    eval(remember=True) switches dropout off and still saves what backward needs.
    """

    training = True
    remembering = True

    def forward(self, *inputs: Any, **named: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no forward yet")

    def backward(self, dy: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no backward yet")

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        return self.forward(*inputs, **named)

    def remember(self, *values: Any) -> None:
        """Pushes the values that the matching backward will need. After eval() it saves nothing."""
        if self.remembering:
            saved = self.__dict__.setdefault("_saved", [])
            saved.append(values)
            if len(saved) == PILE:
                warn_of_pile(self)

    def recall(self) -> Any:
        """Pops what the latest forward without a backward has saved: one value, or a tuple of several.

        Raises: RuntimeError if no saved values are left.
        """
        saved = self.__dict__.get("_saved")
        if not saved:
            raise RuntimeError(f"{type(self).__name__}.backward has nothing to recall: each backward needs a forward "
                               "of its own, in train() or eval(remember=True); call forward first")
        values = saved.pop()
        return values[0] if len(values) == 1 else values

    def forget(self: ThisModule) -> ThisModule:
        """Drops all saved values of this module and of those below it; returns self."""
        for _, module in self.named_modules():
            module.__dict__.pop("_saved", None)
        return self

    def train(self: ThisModule) -> ThisModule:
        """Switches dropout on and saves what backward needs; returns self."""
        return self._switch(training=True, remembering=True)

    def eval(self: ThisModule, remember: bool = False) -> ThisModule:
        """Switches dropout off, and saves what backward needs only if `remember` is True; returns self."""
        return self._switch(training=False, remembering=remember)

    def _switch(self: ThisModule, training: bool, remembering: bool) -> ThisModule:
        self.forget()
        for _, module in self.named_modules():
            module.training = training
            module.remembering = remembering
        return self

    def named_modules(self) -> list[tuple[str, Any]]:
        """Returns a list of (dotted name, module), self first, under the name ""."""
        return [(name, part) for name, part in named_parts(self) if is_module(part)]

    def named_parameters(self, trained: bool = False) -> list[tuple[str, Parameter]]:
        """Returns a list of (dotted name, Parameter); a tied parameter appears once, under its first name.

        With trained=True, here and in the methods below, frozen parameters are left out.
        """
        return [(name, part) for name, part in named_parts(self)
                if is_parameter(part) and not (trained and is_frozen(part))]

    def parameters(self, trained: bool = False) -> list[Parameter]:
        """Returns a list of all parameters, each once."""
        return [parameter for _, parameter in self.named_parameters(trained)]

    def num_parameters(self, trained: bool = False) -> int:
        """Returns the number of parameters: single numbers, not arrays."""
        return sum(parameter.data.size for parameter in self.parameters(trained))

    def zero_grad(self) -> None:
        """Sets every gradient to zero. A gradient that was not needed so far still takes no memory."""
        for parameter in self.parameters():
            parameter.grad = 0

    def astype(self: ThisModule, dtype: DTypeLike) -> ThisModule:
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

    def build_tables(self, dtype: DTypeLike) -> None:
        """Computes fixed tables (such as sinusoids) in `dtype`. Most components have none."""

    def named_state(self, trained: bool = False) -> list[tuple[str, Parameter]]:
        """Returns a list of (dotted name, Parameter) of what is saved.

        With trained=True, frozen parameters are left out, as they are in the file with which a run began. Constants stay:
        training may change them in other ways than by gradients.
        """
        return [(name, part) for name, part in self.named_parameters()
                if not trained or not is_frozen(part) or isinstance(part, Constant)]

    def state_dict(self, trained: bool = False) -> dict[str, np.ndarray]:
        """Returns copies of all parameters in a dict, by dotted name."""
        return {name: parameter.data.copy() for name, parameter in self.named_state(trained)}

    def load_state_dict(self: ThisModule, state: Mapping[str, np.ndarray], copy: bool = True,
                        trained: bool = False) -> ThisModule:
        """Copies arrays into the parameters of the same names, all or nothing; returns self.

        With copy=False the parameters take over the arrays themselves where they can, which then belong to the model;
        others, such as views, read-only arrays and arrays of another dtype, are copied.

        Raises: ValueError that lists missing names, unknown names, wrong shapes and wrong dtypes.
        """
        own = dict(self.named_state(trained))
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


def warn_of_pile(module: Module) -> None:
    """Warns that the values of many forwards lie in memory, because no backward has used them."""
    warnings.warn(f"{called_class(type(module).__name__)}: a part still saves the values of {PILE:,} forwards that no backward "
                  "has followed, and they take memory; call eval() on a model that is not trained now, or forget() to drop them",
                  stacklevel=2)


def _problems_of_state(own: dict[str, Parameter], state: Mapping[str, np.ndarray]) -> list[str]:
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
    return [f"{title}: {shown(names, LISTED)}" for title, names in lists.items() if names]
