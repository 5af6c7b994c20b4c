"""Rules for components whose inside cannot be inferred from the arrays, because it consists of matrix products."""

import math

from ..layers import Dropout, ScaledDotProductAttention, Softmax
from .matching import Found


def rule_of(call):
    """Returns the rule for a call of a composite component: function (graph, call, scope, inputs); or None."""
    for rule, cls, fits in RULES:
        if isinstance(call.module, cls) and fits(call):
            return rule
    return None


def one_softmax(call):
    """Attention as it should be: softmax, and perhaps dropout after it."""
    kinds = [type(child.module) for child in call.children]
    softmax = [kind for kind in kinds if issubclass(kind, Softmax)]
    others = [kind for kind in kinds if not issubclass(kind, (Softmax, Dropout))]
    return len(softmax) == 1 and not others and {"q", "k", "v"} <= set(call.inputs)


def attention(graph, call, scope, inputs):
    """Scaled dot-product attention: scores = q kᵀ scale, masked; weights = softmax(scores); y = weights v."""
    softmax = next(child for child in call.children if isinstance(child.module, Softmax))
    gradients = call.input_gradients
    scale = getattr(call.module, "scale", 1 / math.sqrt(call.inputs["q"].shape[-1]))
    scores = Found("scores", {name: inputs[name] for name in ("q", "k", "mask") if name in inputs},
                   lambda dy: {name: gradients.get(name) for name in ("q", "k")}, numbers={"scale": float(scale)})
    graph.position = softmax.number
    scope.values.append(graph.add_computation(scores, softmax.inputs["x"], scope))
    weights_gradient = None
    for child in call.children:
        graph.position = child.number
        weights = graph.visit(child, scope, graph.path_of(child, scope.group))[0]
        scope.values.append(weights)
        if child.output_gradients:
            weights_gradient = child.output_gradients[0]
    graph.position = call.children[-1].number + 1
    product = Found("weighted sum", {"p": weights, "v": inputs["v"]},
                    lambda dy: {"p": weights_gradient, "v": gradients.get("v")})
    return [graph.add_computation(product, call.outputs[0], scope)]


RULES = [(attention, ScaledDotProductAttention, one_softmax)]
