"""The gradients of all values: those that backward returned, and what every consumer contributed to them."""

import numpy as np

from ..module import is_frozen

ROUNDING = 1e-9                                 # relative differences below are rounding


def flow(graph):
    """Fills in `gradient`, `contributions` and `mismatch` of every value, from the loss back to the inputs."""
    recorded = recorded_gradients(graph)
    unknown = [op for op in graph.ops.values() if op.kind == "own code"]
    for op in reversed(list(graph.ops.values())):
        for value in op.outputs.values():
            settle(value, recorded.get(value.id), unknown, recorded)
        contribute(op)
    for value in graph.values.values():
        if value.producer is None:
            settle(value, recorded.get(value.id), unknown, recorded)


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
        if gradient.shape == root.inputs[name].shape:
            recorded[f"input:{name}"] = gradient
    for value in graph.values.values():
        if value.parameter is not None and value.consumers and not is_frozen(value.parameter):
            recorded[value.id] = np.array(value.parameter.grad)
    return recorded


def enter(recorded, values, call):
    for value, gradient in zip(values, call.output_gradients or []):
        if gradient.shape == value.array.shape and value.array.dtype.kind == "f":
            recorded.setdefault(value.id, gradient)


def used_inside(value, group):
    """Returns True if an op of this group takes a value that is also the group's output."""
    return any(op.parent == group or op.parent.startswith(f"{group}.") for op, _ in value.consumers)


def settle(value, known, unknown, recorded):
    """Sets the gradient of a value whose consumers have all contributed.

    Parameters: known : what backward received for it, or None; unknown : the ops of which no backward is known, which
        contribute what is left; recorded : as recorded_gradients returns it
    """
    own = own_code_of(value, unknown)
    if own is not None and known is None:
        known = through_sum(value, recorded)
    given = list(value.contributions.values())
    total = sum(given[1:], given[0]) if given else None
    value.gradient = total if known is None else known
    if known is None:
        return
    mismatch = relative_difference(known, given)
    uses = [slot for op, slot in value.consumers if op is own]
    if own is not None and (uses or mismatch > ROUNDING):
        slot = uses[0] if uses else f"x{len(own.inputs) + len(own.parameters) + 1}"
        if not uses:
            place = own.inputs if value.parameter is None else own.parameters
            place[slot] = value
            value.consumers.append((own, slot))
        value.contributions[own.id, slot] = known if total is None else known - total
    elif total is not None:
        value.mismatch = mismatch


def own_code_of(value, unknown):
    """Returns the op of unknown code that contributes to a value's gradient: one that is known to use it, or the last
    one that may; None without one."""
    possible = [op for op in unknown if any(value is other for other in op.computation.visible)
                and op.outputs["y"].gradient is not None]
    known = [op for op, _ in value.consumers if op in possible]
    return (known or possible[::-1] or [None])[0]


def relative_difference(known, given):
    """Returns how far a gradient is from the sum of some contributions, relative to the largest entry of all of them.

    Contributions that cancel leave rounding errors, which are small beside them. A NaN on one side alone counts as 1.
    """
    total = sum(given[1:], given[0]) if given else np.zeros(known.shape)
    if np.array_equal(known, total):
        return 0.0
    largest = max(np.abs(array).max(initial=0) for array in (known, *given))
    difference = float(np.abs(known - total).max(initial=0) / largest) if largest > 0 else 0.0
    if np.isfinite(difference):
        return difference
    return 0.0 if np.array_equal(known, total, equal_nan=True) else 1.0


def through_sum(value, recorded):
    """Returns the gradient of a sum that is recorded for one of its operands, which is used nowhere else; or None."""
    op = value.producer
    if op is None or op.kind not in ("add", "combination"):
        return None
    for slot, operand in op.inputs.items():
        if len(operand.consumers) == 1 and operand.array.shape == value.array.shape and operand.id in recorded:
            return recorded[operand.id] / op.numbers.get(f"factor_{slot}", 1)
    return None


def contribute(op):
    """Enters what an op contributes to the gradients of its inputs and parameters."""
    gradients = {}
    if op.call is not None and op.call.output_gradients is not None:
        gradients = {**op.call.input_gradients, **op.call.parameter_gradients}
    elif op.computation is not None and op.computation.backward is not None:
        dy = op.outputs["y"].gradient
        gradients = op.computation.backward(dy) if dy is not None else {}
    for name, value in {**op.inputs, **op.parameters}.items():
        gradient = gradients.get(name)
        if gradient is not None and gradient.shape == value.array.shape:
            value.contributions[op.id, name] = gradient
