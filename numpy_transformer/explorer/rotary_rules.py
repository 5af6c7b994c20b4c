"""The rule for rotary positions on a part of each head: the other features reach the result without another component."""

import numpy as np

from ..layers import PartialRotary
from .origin import Computation
from .rearranging import into_zeros


def keeps_the_others(call):
    """A PartialRotary whose code rotates the first features and returns the others, of which there are some, unchanged."""
    x, n = call.inputs["x"], call.module.rotary.d_head
    rotated = [child.module for child in call.children] == [call.module.rotary]
    return rotated and n < x.shape[-1] and np.array_equal(call.outputs[0][..., n:], x[..., n:])


def partial_rotary(graph, call, scope, inputs):
    """Two slices of x, of which the first is rotated, side by side."""
    rotary, = call.children
    x, n = inputs["x"], call.module.rotary.d_head
    last = x.array.ndim - 1

    def enter(kind, inputs, backward, array, **numbers):
        value = graph.add_computation(Computation(kind, inputs, backward, numbers={"axis": last, **numbers}), array, scope)
        scope.add(value)
        return value

    def features(start, stop, array):
        place = (..., slice(start, stop))
        return enter("slice", {"x": x}, lambda dy: {"x": into_zeros(x.array.shape, place, dy)}, array, start=start, stop=stop)

    graph.position = rotary.number
    features(0, n, rotary.inputs["x"])
    rotated, = graph.visit_child(rotary, scope)
    others = features(n, x.array.shape[-1], x.array[..., n:])
    return [enter("concatenate", {"x1": rotated, "x2": others}, lambda dy: {"x1": dy[..., :n], "x2": dy[..., n:]},
                  call.outputs[0])]


RULES = [(partial_rotary, PartialRotary, keeps_the_others)]
