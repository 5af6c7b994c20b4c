"""Formulas of the losses."""

import numpy as np

from ...layers import BinaryCrossEntropyLoss, CrossEntropyLoss
from .normalization import top_of_row
from .room import lines, spells


@spells(CrossEntropyLoss)
def cross_entropy(op):
    loss = op.module
    targets = op.arrays["targets"]
    counted = targets.size
    is_counted = where = ""
    if loss.ignore_id is not None:
        counted = int(np.count_nonzero(targets != loss.ignore_id))
        is_counted, where = " if targets[...] != ignore_id else 0", ", where=targets[...] != ignore_id"
    op.name(count=counted, epsilon=loss.label_smoothing, ignore_id=loss.ignore_id, V=op.shape("logits")[-1])
    top = top_of_row(op.arrays["logits"], "logits")
    z = "(logits[..., v] - top[...])" if top else "logits[..., v]"
    exponentials = lines(top, f"total[...] = sum(v, exp({z}))")
    log_p = "log_p[..., v] = " + z.strip("()") + " - log(total[...])"
    of_target, q = "log_p[..., targets[...]]", "1 if v == targets[...] else 0"
    if loss.label_smoothing:
        of_target = f"(1 - epsilon) * {of_target} + epsilon * mean(v, log_p[..., v])"
        q = "epsilon / V + (1 - epsilon if v == targets[...] else 0)"
    yield lines(exponentials, log_p, f"y = -sum(..., {of_target}{where}) / count")
    yield lines(exponentials, f"p[..., v] = exp({z}) / total[...]", f"q[..., v] = {q}",
                f"dlogits[..., v] = dy * (p[..., v] - q[..., v]) / count{is_counted}")


@spells(BinaryCrossEntropyLoss)
def binary_cross_entropy(op):
    op.name(count=op.arrays["targets"].size)
    z, t = "logits[...]", "targets[...]"
    log_1_plus_exp = f"log1p(exp({z}))"
    if np.abs(op.arrays["logits"]).max() > 30:      # the same without overflow
        log_1_plus_exp = f"({z} if {z} > 0 else 0) + log1p(exp(-abs({z})))"
    yield f"y = sum(..., {log_1_plus_exp} - {t} * {z}) / count"
    yield f"dlogits[...] = dy * (1 / (1 + exp(-{z})) - {t}) / count"
