"""The gradients of all values: those that backward returned, and what every consumer contributed to them."""

import numpy as np


def flow(graph):
    """Fills in `gradient`, `contributions` and `mismatch` of every value, from the loss back to the inputs."""
    recorded = recorded_gradients(graph)
    for op in reversed(list(graph.ops.values())):
        for value in op.outputs.values():
            settle(value, recorded.get(value.id))
        contribute(op)
    for value in graph.values.values():
        if value.producer is None:
            settle(value, recorded.get(value.id))


def recorded_gradients(graph):
    """Returns {value id: gradient} of what backward received for outputs, and returned for the model's inputs."""
    recorded = {graph.loss.id: np.ones(graph.loss.array.shape)}
    for op in graph.ops.values():
        if op.call is not None:
            enter(recorded, op.outputs.values(), op.call)
    for group in reversed(list(graph.groups.values())):     # inner groups first
        values = [value for value in group.outputs.values() if not used_inside(value, group.id)]
        if len(values) == len(group.outputs):
            enter(recorded, values, group.call)
    root = graph.recording.root
    enter(recorded, graph.outputs, root)
    for name, gradient in root.input_gradients.items():
        recorded[f"input:{name}"] = gradient
    for value in graph.values.values():
        if value.parameter is not None and value.consumers:
            recorded[value.id] = np.array(value.parameter.grad)
    return recorded


def enter(recorded, values, call):
    for value, gradient in zip(values, call.output_gradients or []):
        if gradient.shape == value.array.shape and value.array.dtype.kind == "f":
            recorded.setdefault(value.id, gradient)


def used_inside(value, group):
    """Returns True if an op of this group takes a value that is also the group's output."""
    return any(op.parent == group or op.parent.startswith(f"{group}.") for op, _ in value.consumers)


def settle(value, recorded):
    """Sets the gradient of a value whose consumers have all contributed."""
    given = list(value.contributions.values())
    total = sum(given) if given else None
    unknown = [(op, slot) for op, slot in value.consumers
               if op.kind == "own code" and any(y.gradient is not None for y in op.outputs.values())]
    if recorded is not None and len(unknown) == 1:          # what is left comes from the reader's own code
        op, slot = unknown[0]
        value.contributions[op.id, slot] = recorded if total is None else recorded - total
    elif recorded is not None and total is not None and not unknown:
        largest = max(np.abs(recorded).max(initial=0), np.abs(total).max(initial=0))
        if largest > 0:
            value.mismatch = float(np.abs(recorded - total).max() / largest)
    value.gradient = total if recorded is None else recorded


def contribute(op):
    """Enters what an op contributes to the gradients of its inputs and parameters."""
    gradients = {}
    if op.call is not None and op.call.output_gradients is not None:
        gradients = {**op.call.input_gradients, **op.call.parameter_gradients}
    elif op.found is not None and op.found.backward is not None:
        dy = op.outputs["y"].gradient
        gradients = op.found.backward(dy) if dy is not None else {}
    for name, value in {**op.inputs, **op.parameters}.items():
        gradient = gradients.get(name)
        if gradient is not None and gradient.shape == value.array.shape:
            value.contributions[op.id, name] = gradient
