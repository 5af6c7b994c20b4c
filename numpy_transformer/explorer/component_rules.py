"""Rules for components whose inside cannot be inferred from the arrays, because it consists of matrix products."""

import numpy as np

from ..layers import Dropout, ScaledDotProductAttention, SinkSoftmax, Softmax, ZLoss
from . import expert_rules, latent_rules, rotary_rules
from .origin import Computation


def rule_of(call):
    """Returns the rule for a call of a composite component: function (graph, call, scope, inputs); or None."""
    for rule, cls, fits in RULES:
        if isinstance(call.module, cls) and fits(call):
            return rule
    return None


def one_softmax(call):
    """Attention as it should be: one softmax, perhaps with dropout, and nothing before it but changes of the scores."""
    changes = {id(change) for change in getattr(call.module, "score_changes", [])}
    inner = [child for child in call.children if not isinstance(child.module, Dropout) and id(child.module) not in changes]
    softmax = [child for child in inner if isinstance(child.module, (Softmax, SinkSoftmax))]
    return len(softmax) == 1 and inner[0] is softmax[0] and {"q", "k", "v"} <= set(call.inputs)


def attention(graph, call, scope, inputs):
    """Scaled dot-product attention: scores = q kᵀ scale, masked; weights = softmax(scores); y = weights v.

    Components in `score_changes` stand between the scores and the mask, which is then an operation of its own. A subclass
    may call other components after the weighted sum, which change y.
    """
    gradients = call.input_gradients
    first = next(index for index, child in enumerate(call.children) if isinstance(child.module, (Softmax, SinkSoftmax)))
    softmax = call.children[first]
    after = next((index for index, child in enumerate(call.children)
                  if index > first and not isinstance(child.module, Dropout)), len(call.children))
    usual_scale = 1 / call.module.divisor(call.inputs["q"].shape[-1])
    scale = getattr(call.module, "scale", usual_scale)
    array = softmax.inputs["x"]
    changes = call.children[:first]
    mask = {}
    if "mask" in inputs and not getattr(call.module, "mask_off", False) and hides(inputs["mask"].array, array):
        mask["mask"] = inputs["mask"]
    used = {"q": inputs["q"], "k": inputs["k"], **({} if changes else mask)}
    scores = Computation("scores", used, lambda dy: {name: gradients.get(name) for name in "qk"},
                         numbers={"scale": float(scale)})
    graph.position = call.children[0].number
    scope.add(graph.add_computation(scores, next(iter(changes[0].inputs.values())) if changes else array, scope))
    for change in changes:
        changed = graph.visit_child(change, scope)[0]
    if changes and mask:
        hidden = Computation("mask", {"scores": changed, **mask}, lambda dy: {"scores": np.where(mask["mask"].array, dy, 0)})
        graph.position = softmax.number
        scope.add(graph.add_computation(hidden, array, scope))
    weights_gradient = None
    for child in call.children[first:after]:
        weights = graph.visit_child(child, scope)[0]
        if child.output_gradients:
            weights_gradient = child.output_gradients[0]
    product = Computation("weighted sum", {"p": weights, "v": inputs["v"]},
                    lambda dy: {"p": weights_gradient, "v": gradients.get("v")})
    later = call.children[after:]
    result = next(iter(later[0].inputs.values())) if later else call.outputs[0]
    scope.add(graph.add_computation(product, result, scope))
    for child in later:
        graph.visit_child(child, scope)
    return [graph.resolve(call.outputs[0], scope, f"{scope.group}:y")]


def hides(mask, scores):
    """Returns True if the scores are -inf wherever the mask is False."""
    mask = mask.reshape(mask.shape[-scores.ndim:]) if mask.size == np.prod(mask.shape[-scores.ndim:]) else mask
    try:
        return bool(np.isneginf(scores[~np.broadcast_to(mask, scores.shape)]).all())
    except ValueError:
        return False


RULES = [(attention, ScaledDotProductAttention, one_softmax), *expert_rules.RULES, *latent_rules.RULES, *rotary_rules.RULES]
AS_ONE = (ZLoss,)                                    # one formula tells what they and the components inside them compute
