"""Multi-head attention: splitting and merging heads, and the backward of the projections."""

import math

import numpy as np

from ... import layers
from ...layers import multi_head
from ..exercise import Exercise, Mistake
from .given import loaded
from .linear import BATCH_AXIS, REVERSED


def split_heads(x, num_heads):
    """The features of each token, dealt out to the heads.

    x: (..., T, D).  num_heads: int, H, which divides D; d = D / H.
    Return heads: (..., H, T, d): head h holds the features h d to (h + 1) d - 1 of every token.
    """
    heads = x.reshape(*x.shape[:-1], num_heads, -1)
    return heads.swapaxes(-2, -3)


def merge_heads(heads):
    """The inverse of split_heads: the heads of each token, side by side.

    heads: (..., H, T, d).  Return x: (..., T, H d): features h d to (h + 1) d - 1 of a token are those of head h.
    """
    tokens = heads.swapaxes(-2, -3)
    return tokens.reshape(*tokens.shape[:-2], -1)


def draw_heads(rng, n, count=1):
    *batch, T = n.lead
    return tuple(rng.standard_normal((*batch, n.H, T, n.d)) for _ in range(count))


def multi_head_backward(x, w_q, w_k, w_v, dq, dk, dv):
    """The gradients of the projections with which self-attention begins.

    Forward was  q = split_heads(x w_q),  k = split_heads(x w_k),  v = split_heads(x w_v), as in exercise 07.1.
    x: (..., T, D).  w_q, w_k, w_v: (D, D).  dq, dk, dv: (..., H, T, d), dL/dq, dL/dk and dL/dv, with H d = D.
    Return dx: (..., T, D), and dw_q, dw_k, dw_v: (D, D).
    """
    D = x.shape[-1]
    rows = x.reshape(-1, D)
    dq, dk, dv = (merge_heads(dheads).reshape(-1, D) for dheads in (dq, dk, dv))
    dx = dq @ w_q.T + dk @ w_k.T + dv @ w_v.T
    return dx.reshape(x.shape), rows.T @ dq, rows.T @ dk, rows.T @ dv


def draw_backward(rng, n):
    weights = rng.standard_normal((3, n.D, n.D)) / math.sqrt(n.D)
    return rng.standard_normal((*n.lead, n.D)), *weights, *draw_heads(rng, n, 3)


class Heads:
    """In place of an attention: its backward returns given gradients."""

    def __init__(self, *gradients):
        self.gradients = gradients

    def __call__(self, q, k, v, mask):
        return q

    def backward(self, dheads):
        return self.gradients


def by_self_attention(x, w_q, w_k, w_v, *gradients):
    layer = layers.SelfAttention(len(w_q), gradients[0].shape[-3], bias=False, attention=Heads(*gradients))
    loaded(layer, {"query.weight": w_q, "key.weight": w_k, "value.weight": w_v, "output.weight": np.eye(len(w_q))})
    dx = layer.backward(layer(x))
    return dx, layer.query.weight.grad, layer.key.weight.grad, layer.value.weight.grad


def in_all(text):
    return ", ".join(text.format(gradient) for gradient in ("dq", "dk", "dv"))


THREE = in_all("rows.T @ {}")
LAST, SUM, MERGED = ("reshape(*tokens.shape[:-2], -1)", "dq @ w_q.T + dk @ w_k.T + dv @ w_v.T",
                     "merge_heads(dheads).reshape(-1, D)")
THREE_WAYS = "x went three ways, to the queries, the keys and the values: its gradient is the sum of three."

EXERCISES = [
    Exercise(
        "07.1", "Splitting heads", minutes=10, lines=2,
        solution=split_heads, reference=multi_head.split_heads, outputs=("heads",),
        inputs=lambda rng, n: (rng.standard_normal((*n.lead, n.D)), n.H),
        hints=("Which axis is cut into H pieces of d? A reshape that touches this axis alone keeps each token "
               "together.",
               "After it the axes are (..., T, H, d). What is left is to exchange two of them.",
               "x.reshape(*x.shape[:-1], num_heads, -1), then .swapaxes(-2, -3)."),
        mistakes=(
            Mistake("HD-1", {"*x.shape[:-1], num_heads, -1": "*x.shape[:-2], num_heads, x.shape[-2], -1",
                             ".swapaxes(-2, -3)": ""},
                    "One reshape to (..., H, T, d) has the right shape, but cuts between tokens: head 0 gets all "
                    "features of the first tokens. Cut the last axis first, then move H."),
            Mistake("HD-2", {"num_heads, -1": "-1, num_heads", ".swapaxes(-2, -3)": ".mT.swapaxes(-2, -3)"},
                    "Head h gets every H-th feature. The features of a head are neighbours: h d to (h + 1) d - 1."),
            Mistake("HD-6", {".swapaxes(-2, -3)": ".swapaxes(-2, -3).mT"},
                    "Time and feature are exchanged: the order is head, time, feature."),
            Mistake("HD-7", {".swapaxes(-2, -3)": ""},
                    "The heads stand behind the time: a product of the last two axes would pair the heads of one token "
                    "instead of the tokens of one head."),
            Mistake("HD-8", {"num_heads, -1": "-1, num_heads"},
                    "num_heads is taken for the width d of a head. It is the number of heads, and d = D / num_heads."),
        ),
        alternatives={"head by head": {"heads.swapaxes(-2, -3)": "np.stack(np.split(x, num_heads, -1), -3)"},
                      "moveaxis": {"heads.swapaxes(-2, -3)": "np.moveaxis(heads, -2, -3)"}}),
    Exercise(
        "07.2", "Merging heads", minutes=10, lines=2,
        solution=merge_heads, reference=multi_head.merge_heads, outputs=("x",), inputs=draw_heads,
        hints=("What undoes the last step of split_heads, and what the one before it?",
               "A reshape joins neighbouring axes: before it, H must stand next to d.",
               "heads.swapaxes(-2, -3), then a reshape that makes the last two axes one."),
        mistakes=(
            Mistake("HD-3", {f"tokens.{LAST}": "heads.reshape(*heads.shape[:-3], heads.shape[-2], -1)"},
                    "The reshape comes without exchanging the axes: the right shape, but each row holds several tokens "
                    "of one head instead of all heads of one token."),
            Mistake("HD-2", {f"tokens.{LAST}": f"tokens.mT.{LAST}"},
                    "The features of the heads alternate. Those of one head stay neighbours: h d to (h + 1) d - 1."),
            Mistake("HD-4a", {f"tokens.{LAST}": "heads.mean(-3)"},
                    "The heads are averaged: what they have found differently is lost. They stand side by side."),
            Mistake("HD-4b", {f"tokens.{LAST}": "heads.sum(-3)"},
                    "The heads are added: what they have found differently is lost. They stand side by side."),
            Mistake("HD-7", {"heads.swapaxes(-2, -3)": "heads"},
                    "The last two axes are joined as they stand, time and feature: exchange heads and time first."),
            Mistake("HD-9", {f"tokens.{LAST}": "heads.reshape(*heads.shape[:-3], -1, heads.shape[-1])"},
                    "The heads stand one below the other, H T rows of d. Each token has one row of H d features."),
        ),
        alternatives={"head by head": {f"tokens.{LAST}": "np.concatenate(np.moveaxis(heads, -3, 0), -1)"}}),
    Exercise(
        "07.3", "The projections of self-attention, backward", minutes=20, lines=5,
        solution=multi_head_backward, reference=by_self_attention, given=(merge_heads,), inputs=draw_backward,
        outputs=("dx", "dw_q", "dw_k", "dw_v"),
        hints=("Where does x occur in forward? And what does merge_heads do to the gradient of a split?",
               "The gradient of x w_q is merge_heads(dq). From there on it is the linear layer's backward, three "
               "times; x has three gradients.",
               "With dq, dk, dv merged: dx = dq w_qᵀ + dk w_kᵀ + dv w_vᵀ, dw_q = xᵀ dq over all rows of x, and so on."),
        mistakes=(
            Mistake("HD-5a", {SUM: "dq @ w_q.T"}, f"dx comes from the queries alone. {THREE_WAYS}"),
            Mistake("HD-5b", {SUM: "dk @ w_k.T"}, f"dx comes from the keys alone. {THREE_WAYS}"),
            Mistake("HD-5c", {SUM: "dv @ w_v.T"},
                    f"dx comes from the values alone; does each of three lines overwrite the one before? {THREE_WAYS}"),
            Mistake("HD-5d", {SUM: "dq @ w_q.T + dk @ w_k.T"}, f"The values are missing in dx. {THREE_WAYS}"),
            Mistake("HD-5e", {SUM: "dq @ w_q.T + dv @ w_v.T"}, f"The keys are missing in dx. {THREE_WAYS}"),
            Mistake("HD-5f", {SUM: "dk @ w_k.T + dv @ w_v.T"}, f"The queries are missing in dx. {THREE_WAYS}"),
            Mistake("HD-5g", {SUM: f"({SUM}) / 3"}, f"dx is the mean of three gradients. {THREE_WAYS}"),
            Mistake("HD-2", {MERGED: "np.moveaxis(dheads, -3, -1).reshape(-1, D)"},
                    "The heads are merged with alternating features. Those of one head stay neighbours, as in the "
                    "split."),
            Mistake("HD-3", {MERGED: "dheads.reshape(-1, D)"},
                    "The heads are merged by a reshape alone: the right shape, with tokens mixed up. Forward exchanged "
                    "two axes, so backward exchanges them again."),
            Mistake("LIN-3a", {THREE: in_all("x.mT @ {}.reshape(x.shape)")}, BATCH_AXIS),
            Mistake("LIN-3c", {THREE: in_all("x.T @ {}.reshape(x.shape)")}, REVERSED),
            Mistake("LIN-4", {THREE: in_all("rows.T @ {} / len(rows)")},
                    "The gradients of the weights are divided by the number of rows. They are sums: if the loss is a "
                    "mean, the upstream gradients carry that factor already."),
            Mistake("HD-11", {"for dheads in (dq, dk, dv)": "for dheads in (dq, dq, dq)"},
                    "The gradient of the queries is sent through all three projections. Each has its own."),
            Mistake("ATB-6", {"rows.T @ dq, rows.T @ dk": "rows.T @ dk, rows.T @ dq"},
                    "dw_q and dw_k are returned in the wrong order."),
            Mistake("LIN-1", {THREE: in_all("{}.T @ rows")},
                    "The gradients of the weights are transposed: entry (i, j) belongs to feature i of x. The matrices "
                    "are square, so no shape gives it away."),
            Mistake("LIN-2", {SUM: "dq @ w_q + dk @ w_k + dv @ w_v"},
                    "dx is made with the weights as they are: the way back goes through them transposed. They are "
                    "square, so this runs."),
        ),
        alternatives={"einsum": {"rows.T @ dv": 'np.einsum("ni,nj->ij", rows, dv)'},
                      "one product": {SUM: "np.hstack([dq, dk, dv]) @ np.hstack([w_q, w_k, w_v]).T"}}),
]
