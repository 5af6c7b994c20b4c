"""The computation graph of a recorded step: values, the operations between them, and the groups they stand in.

Components are told by their calls. How the code of a composite component computes its parts' inputs, a residual sum for
example, is inferred from the arrays: see matching.py, and component_rules.py for components whose inside cannot be
inferred.
"""

import numpy as np

from ..layers import Dropout
from ..module import is_parameter, named_parts
from .axes import (axes_like, axes_of_constant, axes_of_inputs, axes_of_output, axes_of_parameter, axes_of_targets,
                   finish_axes)
from .calls import own_parameters
from .component_rules import AS_ONE, rule_of
from .elements import Group, Op, Scope, Value
from .gradients import flow
from .matching import find_value
from .naming import label_of, label_of_computation, title_of, title_of_computation
from .origin import Computation
from .rerun import handle_of
from .sources import line_of


class Graph:
    """The graph of a recording.

    Attributes:
        recording : the StepRecording
        values, ops, groups : dicts by id, in the order of forward
        outputs : the Values that the model returned
        loss : the Value of the loss
    """

    def __init__(self, recording):
        self.recording = recording
        self.values = {}
        self.ops = {}
        self.groups = {}
        self.names = {}                         # id of a parameter object -> its Value
        self.latest = {}                        # id of a copy -> its latest Value
        self.taken = set()                      # ids of ops and groups
        self.position = 0                       # number of the call before which a computation stands
        self.outputs = []
        self.loss = None
        self.build()

    def build(self):
        """Walks through the calls in the order of forward, then through the gradients in the order of backward."""
        step = self.recording
        self.add_parameters(step.model, "")
        self.add_parameters(step.criterion, "loss.")
        outer = Scope("", None, None)
        for name, array in arrays_of(step.root):
            outer.add(self.add_value(f"input:{name}", name, "input", array))
        axes_of_inputs(outer.values)
        self.outputs = self.visit(step.root, outer, "")
        outer.add(*self.outputs)
        self.loss = self.add_loss(outer)
        self.loss.kind = "loss"
        flow(self)
        for value in self.values.values():
            value.handle = handle_of(value, self)
            if value.parameter is not None:
                value.axes = axes_of_parameter(value)
            elif value.kind == "constant":
                value.axes = axes_of_constant(value)

    def add_loss(self, outer):
        """Adds what follows the model's output: the criterion, or a sum; returns the Value of the loss."""
        step = self.recording
        output = self.outputs[0]
        if step.criterion_call is not None:
            finish_axes(self, output)
            for name, array in arrays_of(step.criterion_call)[1:]:
                value = self.add_value(f"loss:{name}", name, "input", array)
                value.axes = axes_of_targets(output.axes[:array.ndim])
                outer.add(value)
            return self.visit(step.criterion_call, outer, "loss")[0]
        if output.array.ndim == 0:
            return output
        total = Computation("sum", {"x": output}, lambda dy: {"x": np.full(output.array.shape, dy)})
        return self.add_computation(total, np.asarray(step.loss), Scope("", step.root, outer))

    def add_parameters(self, root, prefix):
        if root is None:
            return
        for name, part in named_parts(root):
            if is_parameter(part) and id(part) not in self.names:
                value = self.add_value(prefix + name, title_of(self, prefix + name), "parameter", np.array(part.data))
                value.parameter = part
                self.names[id(part)] = value

    def parameters_of(self, module):
        """Returns the Values of the parameters that a module holds itself, by the names that it gives them."""
        return {name: self.names[id(part)] for name, part in own_parameters(module).items() if id(part) in self.names}

    def add_value(self, name, title, kind, array):
        value = Value(self.unused(name, self.values), title, kind, array)
        self.values[value.id] = value
        self.latest[id(array)] = value
        return value

    @staticmethod
    def unused(name, taken):
        """Returns the name, with @2, @3, ... if it is taken."""
        repeat = 1
        unused = name
        while unused in taken:
            repeat += 1
            unused = f"{name}@{repeat}"
        return unused

    def visit(self, call, scope, path):
        """Adds the ops and groups of a call; returns its outputs as a list of Values."""
        inputs = {}
        for name, array in arrays_of(call):
            inputs[name] = self.resolve(array, scope, f"{path or 'constant'}:{name}")
        if drops_nothing(call):
            return [next(iter(inputs.values()))]
        if isinstance(call.module, AS_ONE) or all(drops_nothing(child) for child in call.children):
            return self.add_component(call, scope, path, inputs)
        return self.add_group(call, scope, path, inputs, rule_of(call))

    def add_component(self, call, scope, path, inputs):
        """Adds the op of a component without parts."""
        name = path or "model"
        op = Op(self.unused(name, self.taken), name, label_of(name, call.module), "component", scope.group,
                type(call.module).__name__, call.module, inputs, call=call, enclosing=scope.call)
        op.parameters = self.parameters_of(call.module)
        op.numbers = {**numbers_in(vars(call.module)), **numbers_in(call.inputs)}
        op.lines = call.lines
        return self.add_op(op, call.outputs)

    def add_computation(self, computation, array, scope):
        """Adds the op of a computation in the code of a composite component; returns its output."""
        prefix = f"{scope.group}." if scope.group else ""
        name = prefix + computation.name
        number = 1
        while name in self.taken:               # add, add2, add3
            number += 1
            name = f"{prefix}{computation.name}{number}"
        op = Op(name, name, label_of_computation(computation), computation.kind, scope.group, enclosing=scope.call,
                computation=computation, numbers=dict(computation.numbers))
        op.inputs = {slot: value for slot, value in computation.inputs.items() if value.kind != "parameter"}
        op.parameters = {slot: value for slot, value in computation.inputs.items() if value.kind == "parameter"}
        sources = {slot: source_call(value, scope) for slot, value in computation.inputs.items()}
        calls = [call for call in sources.values() if call is not None]
        calls = calls or [call for call in scope.call.children if call.number < self.position]
        if calls:
            op.lines = max(calls, key=lambda call: call.number).lines
        labels = {slot: label_of(self.path_of(call, ""), call.module) if call else "" for slot, call in sources.items()}
        return self.add_op(op, [array], title_of_computation(self, op, computation, labels))[0]

    def add_op(self, op, arrays, title=None):
        """Enters an op with its outputs; returns them as a list of Values."""
        title = title_of(self, op.id) if title is None else title
        self.taken.add(op.id)
        self.ops[op.id] = op
        for slot, value in {**op.inputs, **op.parameters}.items():
            value.consumers.append((op, slot))
        outputs = []
        for index, array in enumerate(arrays):
            if isinstance(array, np.ndarray):
                slot = f"y{index + 1}" if index else "y"
                value = self.add_value(f"{op.id}:{slot}", f"{title}: {slot}", "activation", array)
                value.producer = op
                op.outputs[slot] = value
                value.axes = axes_of_output(op, value)
                outputs.append(value)
        return outputs

    def add_group(self, call, scope, path, inputs, rule):
        """Adds the call of a composite component with everything in it; the model itself is no group."""
        group = path
        if path:
            group = self.unused(path, self.taken)
            self.taken.add(group)
            self.groups[group] = Group(group, path, label_of(path, call.module), type(call.module).__name__, scope.group, call,
                                       inputs)
        inner = Scope(group, call, scope, list(dict.fromkeys(inputs.values())))
        inner.parameters = list(self.parameters_of(call.module).values())
        if rule is not None:
            outputs = rule(self, call, inner, inputs)
        else:
            for child in call.children:
                self.visit_child(child, inner)
            outputs = [self.resolve(array, inner, f"{group or 'constant'}:y") for array in call.outputs
                       if isinstance(array, np.ndarray)]
        if path:
            self.groups[group].outputs = {f"y{index + 1}" if index else "y": value
                                          for index, value in enumerate(outputs)}
        return outputs

    def visit_child(self, call, scope):
        """Visits a call that the code of a scope makes, and lets the scope use its outputs."""
        self.position = call.number
        outputs = self.visit(call, scope, self.path_of(call, scope.group))
        self.position = call.number + 1
        scope.add(*outputs)
        return outputs

    def path_of(self, call, group):
        """Returns the name of a component inside a group: the attribute in which the parent holds it."""
        names = []
        for key, value in vars(call.parent.module).items():
            if value is call.module:
                names.append(key)
            elif isinstance(value, (list, tuple)):
                names.extend(f"{key}.{index}" for index, item in enumerate(value) if item is call.module)
        if not names:                           # held more deeply, in a list of lists for example
            names = [name for name, part in named_parts(call.parent.module) if part is call.module]
        if len(names) > 1:                      # one component under several names: the one in the calling line
            line = line_of(call.lines.get("forward"))
            names = [name for name in names if f".{name}" in line] or names
        name = names[0] if names else type(call.module).__name__.lower()
        return f"{group}.{name}" if group else name

    def resolve(self, array, scope, name):
        """Returns the Value of an array that the code of a scope uses; computations that it finds become ops.

        An array of unknown origin, such as a causal mask, becomes a constant of this name.
        """
        value = self.latest.get(id(array))
        if value is None and scope.call is not None:
            origin = find_value(array, scope, self.recording.copies)
            if isinstance(origin, Computation):
                value = self.add_computation(origin, array, scope)
            else:
                value = origin
        if value is None:
            value = self.add_value(name, title_of(self, name.removeprefix("constant:")), "constant", array)
            value.axes = axes_like(array, self.values.values())
        scope.add(value)
        return value


def arrays_of(call):
    """Returns the inputs of a call that are arrays, as a list of (name, array)."""
    return [(name, value) for name, value in call.inputs.items() if isinstance(value, np.ndarray)]


def source_call(value, scope):
    """Returns the call made by the code of this scope that returned a value, or None."""
    for call in scope.call.children:
        if any(array is value.array for array in call.outputs):
            return call
    return None


def numbers_in(attributes):
    """Returns the public numbers among some attributes or arguments: eps, for example."""
    return {name: value for name, value in attributes.items()
            if isinstance(value, (int, float)) and not isinstance(value, bool) and not name.startswith("_")}


def drops_nothing(call):
    """Returns True for a Dropout that is switched off, which passes its input through and is left out of the map."""
    inputs = list(call.inputs.values())
    return isinstance(call.module, Dropout) and bool(call.outputs) and call.outputs[0] is inputs[0]
