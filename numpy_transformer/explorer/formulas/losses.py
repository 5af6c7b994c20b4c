"""Formulas of the losses."""

import numpy as np

from ...layers import BinaryCrossEntropyLoss, CrossEntropyLoss, ZLoss
from .normalization import top_of_row
from .writers import lines, spells


@spells(CrossEntropyLoss)
def cross_entropy(op):
    forward, loss, backward, gradient, else_zero = cross_entropy_of(op, op.module)
    yield lines(forward, f"y = {loss}")
    yield lines(backward, f"dlogits[..., v] = {gradient}{else_zero}")


@spells(ZLoss)
def z_loss(op):
    """The terms of the cross-entropy inside, and those of log Z."""
    forward, loss, backward, gradient, else_zero = cross_entropy_of(op, op.module.criterion)
    op.name(c=op.module.coefficient)
    log_z = "log_z[...] = log(total[...])"
    if top_of_row(op.arrays["logits"], "logits"):
        log_z = "log_z[...] = top[...] + log(total[...])"
    only_counted = ", where=targets[...] != ignore_id" if else_zero else ""
    yield lines(forward, log_z, f"y = {loss} + c * sum(..., log_z[...] ** 2{only_counted}) / count")
    yield lines(backward, log_z, f"""
        of_log_z[...] = dy * 2 * c * log_z[...] / count
        dlogits[..., v] = {gradient} + of_log_z[...] * p[..., v]{else_zero}
    """)


def cross_entropy_of(op, loss):
    """Returns the text of the lines before the loss, of the loss, of the lines before the gradient, of the gradient, and of what
    makes it 0 where targets are ignored."""
    targets = op.arrays["targets"]
    counted = targets.size
    only_counted = else_zero = ""
    if loss.ignore_id is not None:
        counted = int(np.count_nonzero(targets != loss.ignore_id))
        only_counted = ", where=targets[...] != ignore_id"
        else_zero = " if targets[...] != ignore_id else 0"
    op.name(count=counted, epsilon=loss.label_smoothing, ignore_id=loss.ignore_id, V=op.shape("logits")[-1])
    top = top_of_row(op.arrays["logits"], "logits")
    z = "logits[..., v] - top[...]" if top else "logits[..., v]"
    exponentials = lines(top, f"total[...] = sum(v, exp({z}))")
    log_p = f"log_p[..., v] = {z} - log(total[...])"
    of_target = "log_p[..., targets[...]]"
    q = "1 if v == targets[...] else 0"
    if loss.label_smoothing:
        of_target = f"(1 - epsilon) * {of_target} + epsilon * mean(v, log_p[..., v])"
        q = "epsilon / V + (1 - epsilon if v == targets[...] else 0)"
    p_and_q = lines(exponentials, f"p[..., v] = exp({z}) / total[...]", f"q[..., v] = {q}")
    return (lines(exponentials, log_p), f"-sum(..., {of_target}{only_counted}) / count",
            p_and_q, "dy * (p[..., v] - q[..., v]) / count", else_zero)


@spells(BinaryCrossEntropyLoss)
def binary_cross_entropy(op):
    op.name(count=op.arrays["targets"].size)
    z = "logits[...]"
    log_1_plus_exp = f"log1p(exp({z}))"
    if np.abs(op.arrays["logits"]).max() > 30:      # the same without overflow
        log_1_plus_exp = f"({z} if {z} > 0 else 0) + log1p(exp(-abs({z})))"
    yield f"y = sum(..., {log_1_plus_exp} - targets[...] * {z}) / count"
    yield f"dlogits[...] = dy * (1 / (1 + exp(-{z})) - targets[...]) / count"
