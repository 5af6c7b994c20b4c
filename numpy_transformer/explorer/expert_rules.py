"""Rules for routers and mixtures of experts, whose code picks rows, adds some of them up, and may add a loss of its own."""

import numpy as np

from ..layers import BalancedRouter, ClampedSwiGLU, MixtureOfExperts, Router, SigmoidRouter, SoftmaxRouter
from ..layers.routers import sigmoid
from .axes import axes_like
from .origin import Computation


def calls(*names):
    """Returns a function that tells whether a call's code calls just these parts of its component, in this order."""
    def fits(call):
        return [id(child.module) for child in call.children] == [id(getattr(call.module, name, None)) for name in names]
    return fits


def add_constant(graph, scope, name, array):
    value = graph.add_value(f"{scope.group or 'constant'}:{name}", name, "constant", array)
    value.axes = axes_like(array, graph.values.values())
    scope.add(value)
    return value


def add_computation(graph, scope, kind, inputs, backward, array, name="", **numbers):
    value = graph.add_computation(Computation(kind, inputs, backward, name, numbers), array, scope)
    scope.add(value)
    return value


def visit_logits(graph, call, scope):
    """Visits the Linear of a router; returns its output, whose last axis has an entry for each expert."""
    logits, = graph.visit_child(call, scope)
    logits.axes = [*logits.axes[:-1], {"name": "expert"}]
    return logits


def router(graph, call, scope, inputs):
    """Logits that are not among the largest become -inf before the softmax."""
    linear, softmax = call.children
    logits = visit_logits(graph, linear, scope)
    masked = softmax.inputs["x"]
    kept = add_constant(graph, scope, "chosen", np.isfinite(masked))
    add_computation(graph, scope, "choice", {"x": logits, "chosen": kept}, lambda dy: {"x": np.where(kept.array, dy, 0)}, masked)
    return graph.visit_child(softmax, scope)


def softmax_router(graph, call, scope, inputs):
    """The probabilities of experts that were not chosen are multiplied by 0."""
    linear, softmax = call.children
    visit_logits(graph, linear, scope)
    p, = graph.visit_child(softmax, scope)
    kept = add_constant(graph, scope, "chosen", call.outputs[0] != 0)
    return [add_computation(graph, scope, "multiply", {"a": p, "b": kept}, lambda dy: {"a": dy * kept.array}, call.outputs[0])]


def sigmoid_router(graph, call, scope, inputs):
    """Quotients of sigmoids."""
    logits = visit_logits(graph, call.children[0], scope)
    g, factor = call.outputs[0], call.module.factor
    kept = add_constant(graph, scope, "chosen", g != 0)

    def backward(dy):
        s = sigmoid(logits.array)
        total = (s * kept.array).sum(-1, keepdims=True)
        return {"x": kept.array * (factor * dy - (dy * g).sum(-1, keepdims=True)) / total * s * (1 - s)}

    return [add_computation(graph, scope, "gates", {"x": logits, "chosen": kept}, backward, g, factor=float(factor))]


def balanced_router(graph, call, scope, inputs):
    """Gates, and the probabilities from which the balancing loss is computed. This loss is added to that of the step."""
    inner, linear, softmax = call.children
    g = graph.visit_child(inner, scope)
    visit_logits(graph, linear, scope)
    p, = graph.visit_child(softmax, scope)
    part = call.module
    counts = np.count_nonzero(g[0].array, 0)
    f = add_constant(graph, scope, "counts", counts)
    factor = part.coefficient * part.num_experts / (counts.sum() * len(p.array))
    loss = add_computation(graph, scope, "balancing loss", {"p": p, "counts": f},
                           lambda dy: {"p": np.broadcast_to(dy * factor * f.array, p.array.shape)},
                           np.asarray(factor * (p.array @ f.array).sum()), factor=float(factor))
    graph.own_losses.append(loss)
    return g


def runs_in_order(call):
    """A mixture whose code calls its router, then experts, and then the shared one."""
    first, *others = [child.module for child in call.children] or [None]
    shared = [call.module.shared] if call.module.shared is not None else []
    experts = others[:len(others) - len(shared)]
    known = [expert for expert in call.module.experts if any(expert is other for other in experts)]
    return (first is call.module.router and len(known) == len(experts) and all(map(lambda a, b: a is b, known, experts))
            and [id(part) for part in others[len(experts):]] == [id(part) for part in shared])


def mixture(graph, call, scope, inputs):
    """Rows are picked for each expert, and the results, times their gates, are added to the rows that they belong to."""
    part = call.module
    first, *others = call.children
    rows, shape = inputs["x"], inputs["x"].array.shape
    if len(shape) != 2:
        rows = add_computation(graph, scope, "reshape", {"x": rows}, lambda dy: {"x": dy.reshape(shape)}, first.inputs["x"])
    g, = graph.visit_child(first, scope)
    tokens_of = [np.flatnonzero(gates) for gates in g.array.T]
    used = [e for e, tokens in enumerate(tokens_of) if tokens.size]
    slots = {"g": g}
    y = np.zeros(rows.array.shape)
    for e, child in zip(used, others):
        tokens = add_constant(graph, scope, f"tokens{e}", tokens_of[e])
        graph.position = child.number
        add_computation(graph, scope, "select", {"x": rows, "positions": tokens}, scattered(rows.array.shape, tokens.array),
                        child.inputs["x"])
        h, = graph.visit_child(child, scope)
        slots |= {f"h{e}": h, f"tokens{e}": tokens}
        y[tokens.array] += g.array[tokens.array, e, None] * h.array
    final = call.outputs[0]
    last = final if part.shared is None and final.ndim == 2 else y
    total = add_computation(graph, scope, "weighted experts", slots, lambda dy: gradients_of_sum(dy, slots, used), last)
    if part.shared is not None:
        shared, = graph.visit_child(others[-1], scope)
        last = final if final.ndim == 2 else y + shared.array
        total = add_computation(graph, scope, "add", {"a": total, "b": shared}, lambda dy: {"a": dy, "b": dy}, last)
    if final.ndim != 2:
        total = add_computation(graph, scope, "reshape", {"x": total}, lambda dy: {"x": dy.reshape(last.shape)}, final)
    return [total]


def scattered(shape, tokens):
    def backward(dy):
        dx = np.zeros(shape)
        dx[tokens] = dy
        return {"x": dx}
    return backward


def gradients_of_sum(dy, slots, used):
    dg = np.zeros(slots["g"].array.shape)
    gradients = {"g": dg}
    for e in used:
        tokens, h = slots[f"tokens{e}"].array, slots[f"h{e}"].array
        dg[tokens, e] = (dy[tokens] * h).sum(-1)
        gradients[f"h{e}"] = slots["g"].array[tokens, e, None] * dy[tokens]
    return gradients


def clamped_swiglu(graph, call, scope, inputs):
    """Two Linears, whose results are clamped and multiplied."""
    gate, up, down = call.children
    z, = graph.visit_child(gate, scope)
    u, = graph.visit_child(up, scope)
    limit, slope = call.module.limit, call.module.slope

    def backward(dy):
        a, b = np.minimum(z.array, limit), np.clip(u.array, -limit, limit)
        s = sigmoid(slope * a)
        return {"z": dy * (b + 1) * s * (1 + slope * a * (1 - s)) * (z.array < limit),
                "u": dy * a * s * (np.abs(u.array) < limit)}

    graph.position = down.number
    add_computation(graph, scope, "clamped gate", {"z": z, "u": u}, backward, down.inputs["x"], limit=float(limit),
                    slope=float(slope))
    return graph.visit_child(down, scope)


RULES = [(softmax_router, SoftmaxRouter, calls("linear", "softmax")), (sigmoid_router, SigmoidRouter, calls("linear")),
         (router, Router, calls("linear", "softmax")), (mixture, MixtureOfExperts, runs_in_order),
         (clamped_swiglu, ClampedSwiGLU, calls("gate", "up", "down")),
         (balanced_router, BalancedRouter, lambda call: [child.module for child in call.children] == [
             call.module.router, call.module.router.linear, call.module.softmax])]
