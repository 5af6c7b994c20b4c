"""Stage 1: softmax and cross-entropy."""

import numpy as np

from .module import Module


def softmax(z):
    """Probabilities p = exp(z) / sum of exp(z) over the last axis. Shape: z (..., V) -> p (the same)."""
    p = np.exp(z - z.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def softmax_backward(p, dp):
    """The gradient dz of the logits, from p = softmax(z) and dp. Shape: p and dp (..., V) -> dz (the same)."""
    return p * (dp - (p * dp).sum(-1, keepdims=True))


class CrossEntropyLoss(Module):
    """The mean over all counted targets of -sum_v q_v log p_v, where p = softmax(logits).

    Parameters: label_smoothing : the e in q = (1 - e) onehot + e / V; ignore_id : targets with this id do not count, and
        with None all of them do
    Shape: logits (..., V), targets (...) integers -> a number; backward returns dlogits (..., V)
    """

    def __init__(self, label_smoothing=0.0, ignore_id=None):
        self.label_smoothing = label_smoothing
        self.ignore_id = ignore_id

    def forward(self, logits, targets):
        counted = targets != self.ignore_id
        p, y = softmax(logits[counted]), targets[counted]
        q = np.full_like(p, self.label_smoothing / p.shape[-1])
        q[np.arange(len(y)), y] += 1 - self.label_smoothing
        self.remember(p, q, counted)
        z = logits[counted] - logits[counted].max(-1, keepdims=True)
        log_p = z - np.log(np.exp(z).sum(-1, keepdims=True))
        return -(q * log_p).sum() / len(y)

    def backward(self):
        p, q, counted = self.recall()
        dlogits = np.zeros((*counted.shape, p.shape[-1]), p.dtype)
        dlogits[counted] = (p - q) / len(p)
        return dlogits
