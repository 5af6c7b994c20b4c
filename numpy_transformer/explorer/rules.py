"""Rules for components whose inside cannot be inferred from the arrays, because it consists of matrix products."""

import math

from ..layers import Dropout, ScaledDotProductAttention, Softmax
from .matching import Found
from .switches import KeepHeads


def rule_of(call):
    """Returns the rule for a call of a composite component: function (graph, call, scope, inputs); or None."""
    for rule, cls, fits in RULES:
        if isinstance(call.module, cls) and fits(call):
            return rule
    return None


def one_softmax(call):
    """Attention as it should be: softmax, and perhaps dropout after it, and heads that are switched off in the end."""
    kinds = [type(child.module) for child in call.children]
    softmax = [kind for kind in kinds if issubclass(kind, Softmax)]
    others = [kind for kind in kinds if not issubclass(kind, (Softmax, Dropout, KeepHeads))]
    return len(softmax) == 1 and not others and {"q", "k", "v"} <= set(call.inputs)


def attention(graph, call, scope, inputs):
    """Scaled dot-product attention: scores = q kᵀ scale, masked; weights = softmax(scores); y = weights v."""
    softmax = next(child for child in call.children if isinstance(child.module, Softmax))
    gradients = call.input_gradients
    scale = getattr(call.module, "scale", 1 / math.sqrt(call.inputs["q"].shape[-1]))
    names = ("q", "k") if getattr(call.module, "mask_off", False) else ("q", "k", "mask")
    scores = Found("scores", {name: inputs[name] for name in names if name in inputs},
                   lambda dy: {name: gradients.get(name) for name in ("q", "k")}, numbers={"scale": float(scale)})
    graph.position = softmax.number
    scope.values.append(graph.add_computation(scores, softmax.inputs["x"], scope))
    weights_gradient = None
    keep = next((child for child in call.children if isinstance(child.module, KeepHeads)), None)
    for child in call.children:
        if child is keep:
            continue
        graph.position = child.number
        weights = graph.visit(child, scope, graph.path_of(child, scope.group))[0]
        scope.values.append(weights)
        if child.output_gradients:
            weights_gradient = child.output_gradients[0]
    graph.position = call.children[-1].number + (keep is None)
    product = Found("weighted sum", {"p": weights, "v": inputs["v"]},
                    lambda dy: {"p": weights_gradient, "v": gradients.get("v")})
    output = graph.add_computation(product, call.outputs[0] if keep is None else keep.inputs["x"], scope)
    if keep is None:
        return [output]
    scope.values.append(output)
    return graph.visit(keep, scope, graph.path_of(keep, scope.group))


RULES = [(attention, ScaledDotProductAttention, one_softmax)]
