"""Multi-head attention: splitting and merging heads, and the backward pass of the projections."""

import math

import numpy as np

from ... import layers
from ...layers import multi_head
from .definition import Exercise, Mistake
from .given import loaded
from .linear import BATCH_AXIS, REVERSED


def split_heads(x, num_heads):
    """Splits the features of each token among the heads.

    x: (..., T, D).
    num_heads: int, H, a divisor of D; each head has d = D / H features.
    Return heads: (..., H, T, d), where head h contains the features h d to (h + 1) d - 1 of every token.
    """
    heads = x.reshape(*x.shape[:-1], num_heads, -1)
    return heads.swapaxes(-2, -3)


def merge_heads(heads):
    """Concatenates the heads of each token; the inverse of split_heads.

    heads: (..., H, T, d).
    Return x: (..., T, H d), where the features h d to (h + 1) d - 1 of a token are those of head h.
    """
    tokens = heads.swapaxes(-2, -3)
    return tokens.reshape(*tokens.shape[:-2], -1)


def draw_heads(rng, n, count=1):
    *batch, T = n.lead
    return tuple(rng.standard_normal((*batch, n.H, T, n.d)) for _ in range(count))


def multi_head_backward(x, w_q, w_k, w_v, dq, dk, dv):
    """Computes the gradients of the projections at the start of self-attention.

    The forward pass was q = split_heads(x w_q), k = split_heads(x w_k), v = split_heads(x w_v), as in exercise 07.1.

    x: (..., T, D).
    w_q, w_k, w_v: (D, D).
    dq, dk, dv: (..., H, T, d), dL/dq, dL/dk and dL/dv, with H d = D.
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
    """Replaces an attention; its backward returns given gradients."""

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


def for_all_three(text):
    return ", ".join(text.format(gradient) for gradient in ("dq", "dk", "dv"))


THREE = for_all_three("rows.T @ {}")
LAST = "reshape(*tokens.shape[:-2], -1)"
SUM = "dq @ w_q.T + dk @ w_k.T + dv @ w_v.T"
MERGED = "merge_heads(dheads).reshape(-1, D)"
FROM_THE_FRONT = ("You count the axes from the front, which is right for four axes only. There may be any number of "
                  "axes before the heads: one, several or none.")
THREE_WAYS = ("x is used three times, for the queries, the keys and the values, so its gradient is the sum of three "
              "terms.")

EXERCISES = [
    Exercise(
        "07.1", "Splitting heads", minutes=10, lines=2,
        solution=split_heads, reference=multi_head.split_heads, outputs=("heads",),
        inputs=lambda rng, n: (rng.standard_normal((*n.lead, n.D)), n.H),
        hints=("Which axis must be split into H parts of size d? A reshape that changes only this axis keeps the "
               "features of each token together.",
               "After that, the axes are (..., T, H, d). It remains to swap two of them.",
               "x.reshape(*x.shape[:-1], num_heads, -1), followed by .swapaxes(-2, -3)."),
        mistakes=(
            Mistake("HD-1", {"*x.shape[:-1], num_heads, -1": "*x.shape[:-2], num_heads, x.shape[-2], -1",
                             ".swapaxes(-2, -3)": ""},
                    "A single reshape to (..., H, T, d) gives the right shape, but head 0 gets all features of the "
                    "first tokens. Split the last axis first, then move H."),
            Mistake("HD-2", {"num_heads, -1": "-1, num_heads", ".swapaxes(-2, -3)": ".mT.swapaxes(-2, -3)"},
                    "Your head h gets every H-th feature. A head consists of neighboring features, h d to (h + 1) d - "
                    "1."),
            Mistake("HD-6", {".swapaxes(-2, -3)": ".swapaxes(-2, -3).mT"},
                    "You have swapped the axes of tokens and features. The order is head, token, feature."),
            Mistake("HD-7", {".swapaxes(-2, -3)": ""},
                    "Your head axis comes after the token axis. A product over the last two axes would combine the "
                    "heads of one token instead of the tokens of one head."),
            Mistake("HD-8", {"num_heads, -1": "-1, num_heads"},
                    "You use num_heads as the width d of a head. It is the number of heads, and d = D / num_heads."),
            Mistake("HD-14", {".swapaxes(-2, -3)": ".swapaxes(1, 2)"}, FROM_THE_FRONT),
            Mistake("HD-15", {"heads.swapaxes(-2, -3)": "np.stack(np.split(x, num_heads, -1))"},
                    "Your axis of the heads comes first. It comes after the leading axes, next to the tokens."),
            Mistake("HD-16", {"heads.swapaxes(-2, -3)": "np.stack(np.split(x, num_heads, -1), 1)"},
                    "Your axis of the heads is axis 1, which is right for four axes only. Count from the end."),
            Mistake("HD-17", {".swapaxes(-2, -3)": ".T"},
                    ".T reverses all axes. Only those of heads and tokens change places."),
            Mistake("HD-18", {".swapaxes(-2, -3)": ".mT"},
                    "You swap the last two axes, which are heads and features. Heads and tokens must change places."),
            Mistake("HD-19", {".swapaxes(-2, -3)": ".swapaxes(-1, -3)"},
                    "You swap tokens and features. Heads and tokens must change places."),
        ),
        alternatives={"head by head": {"heads.swapaxes(-2, -3)": "np.stack(np.split(x, num_heads, -1), -3)"},
                      "moveaxis": {"heads.swapaxes(-2, -3)": "np.moveaxis(heads, -2, -3)"}}),
    Exercise(
        "07.2", "Merging heads", minutes=10, lines=2,
        solution=merge_heads, reference=multi_head.merge_heads, outputs=("x",), inputs=draw_heads,
        hints=("Which operation undoes the last step of split_heads, and which one the step before it?",
               "A reshape joins neighboring axes, so H must be next to d first.",
               "heads.swapaxes(-2, -3), then a reshape that joins the last two axes."),
        mistakes=(
            Mistake("HD-3", {f"tokens.{LAST}": "heads.reshape(*heads.shape[:-3], heads.shape[-2], -1)"},
                    "You reshape without swapping the axes. The shape is right, but each row contains several tokens "
                    "of one head instead of all heads of one token."),
            Mistake("HD-2", {f"tokens.{LAST}": f"tokens.mT.{LAST}"},
                    "The features of your heads alternate. The features of a head must stay together, h d to (h + 1) d "
                    "- 1."),
            Mistake("HD-4a", {f"tokens.{LAST}": "heads.mean(-3)"},
                    "You average the heads, which loses the differences between them. Concatenate them instead."),
            Mistake("HD-4b", {f"tokens.{LAST}": "heads.sum(-3)"},
                    "You add the heads, which loses the differences between them. Concatenate them instead."),
            Mistake("HD-7", {"heads.swapaxes(-2, -3)": "heads"},
                    "You join the last two axes as they are, which are tokens and features. Swap heads and tokens "
                    "first."),
            Mistake("HD-9", {f"tokens.{LAST}": "heads.reshape(*heads.shape[:-3], -1, heads.shape[-1])"},
                    "You concatenate the heads along the token axis, which gives H T rows of d features. Each token "
                    "must have one row of H d features."),
            Mistake("HD-14", {"swapaxes(-2, -3)": "swapaxes(1, 2)"}, FROM_THE_FRONT),
            Mistake("HD-15", {f"tokens.{LAST}": "np.concatenate(list(heads), -1)"},
                    "You concatenate along the first axis of heads, which is the axis of the heads only if there is "
                    "no batch. Count from the end."),
            Mistake("HD-16", {f"tokens.{LAST}": "np.concatenate([heads[:, h] for h in range(heads.shape[1])], -1)"},
                    "You take axis 1 for the heads, which is right for four axes only. Count from the end."),
            Mistake("HD-18", {"swapaxes(-2, -3)": "mT"},
                    "You swap the last two axes, which are tokens and features. Heads and tokens must change places."),
            Mistake("HD-19", {"swapaxes(-2, -3)": "swapaxes(-1, -3)"},
                    "You swap heads and features. Heads and tokens must change places."),
            Mistake("HD-20", {f"tokens.{LAST}": "tokens"},
                    "You swap the axes but do not join them. Each token must have one row of H d features."),
        ),
        alternatives={"head by head": {f"tokens.{LAST}": "np.concatenate(np.moveaxis(heads, -3, 0), -1)"}}),
    Exercise(
        "07.3", "The projections of self-attention, backward", minutes=20, lines=5,
        solution=multi_head_backward, reference=by_self_attention, given=(merge_heads,), inputs=draw_backward,
        outputs=("dx", "dw_q", "dw_k", "dw_v"),
        hints=("Where does x appear in forward? And what does split_heads do to its gradient on the way back?",
               "The gradient of x w_q is merge_heads(dq). What remains is the backward of three linear layers. x gets "
               "a gradient from each of them.",
               "With dq, dk, dv merged: dx = dq w_qᵀ + dk w_kᵀ + dv w_vᵀ, dw_q = xᵀ dq over all rows of x, and so on."),
        mistakes=(
            Mistake("HD-5a", {SUM: "dq @ w_q.T"}, f"Your dx contains only the term of the queries. {THREE_WAYS}"),
            Mistake("HD-5b", {SUM: "dk @ w_k.T"}, f"Your dx contains only the term of the keys. {THREE_WAYS}"),
            Mistake("HD-5c", {SUM: "dv @ w_v.T"},
                    "Your dx contains only the term of the values. Does each of three lines overwrite the one before? "
                    f"{THREE_WAYS}"),
            Mistake("HD-5d", {SUM: "dq @ w_q.T + dk @ w_k.T"}, f"Your dx lacks the term of the values. {THREE_WAYS}"),
            Mistake("HD-5e", {SUM: "dq @ w_q.T + dv @ w_v.T"}, f"Your dx lacks the term of the keys. {THREE_WAYS}"),
            Mistake("HD-5f", {SUM: "dk @ w_k.T + dv @ w_v.T"}, f"Your dx lacks the term of the queries. {THREE_WAYS}"),
            Mistake("HD-5g", {SUM: f"({SUM}) / 3"}, f"Your dx is the mean of three gradients. {THREE_WAYS}"),
            Mistake("HD-2", {MERGED: "np.moveaxis(dheads, -3, -1).reshape(-1, D)"},
                    "You merge the heads with alternating features. The features of a head must stay together, as in "
                    "split_heads."),
            Mistake("HD-3", {MERGED: "dheads.reshape(-1, D)"},
                    "You merge the heads with a reshape only. The shape is right, but the tokens are mixed up. Forward "
                    "swapped two axes, so backward must swap them again."),
            Mistake("LIN-3a", {THREE: for_all_three("x.mT @ {}.reshape(x.shape)")}, BATCH_AXIS),
            Mistake("LIN-3c", {THREE: for_all_three("x.T @ {}.reshape(x.shape)")}, REVERSED),
            Mistake("LIN-4", {THREE: for_all_three("rows.T @ {} / len(rows)")},
                    "You divide the gradients of the weights by the number of rows. They are sums. If the loss is a "
                    "mean, the upstream gradients already contain that factor."),
            Mistake("HD-11", {"for dheads in (dq, dk, dv)": "for dheads in (dq, dq, dq)"},
                    "You send the gradient of the queries through all three projections. Each projection needs the "
                    "gradient of its own output."),
            Mistake("ATB-6", {"rows.T @ dq, rows.T @ dk": "rows.T @ dk, rows.T @ dq"},
                    "You return dw_q and dw_k in the wrong order."),
            Mistake("LIN-1", {THREE: for_all_three("{}.T @ rows")},
                    "Your gradients of the weights are transposed. Entry (i, j) belongs to feature i of x. The "
                    "matrices are square, so the shape does not reveal the mistake."),
            Mistake("LIN-2", {SUM: "dq @ w_q + dk @ w_k + dv @ w_v"},
                    "You do not transpose the weights when you compute dx. The matrices are square, so this causes no "
                    "error."),
            Mistake("HD-21", {SUM: "(dq + dk + dv) @ (w_q + w_k + w_v).T"},
                    "You add the gradients and the weights before you multiply. The product then also contains terms "
                    "such as dq w_kᵀ. Each gradient belongs to its own weight."),
            Mistake("HD-22", {SUM: "dq @ w_k.T + dk @ w_q.T + dv @ w_v.T"},
                    "You multiply the gradients of the queries and keys by each other's weight. Each gradient goes "
                    "back through its own projection."),
            Mistake("HD-23", {SUM: "dq @ w_q.T + dq @ w_k.T + dq @ w_v.T"},
                    "All three terms of your dx contain the gradient of the queries. Each projection passes on the "
                    "gradient of its own output."),
            Mistake("HD-24", {THREE: ", ".join(["rows.T @ (dq + dk + dv)"] * 3)},
                    "All three weights get the sum of the three gradients. Each weight gets the gradient of its own "
                    "output."),
            Mistake("HD-25", {"dx.reshape(x.shape)": "dx"},
                    "Your dx has lost the leading axes of x. If you flatten them for the sums, restore the shape of "
                    "x for dx."),
            Mistake("HD-26", {f"dx.reshape(x.shape), {THREE}": f"{THREE}, dx.reshape(x.shape)"},
                    "You return the gradients in the wrong order. That of the input comes first, then those of w_q, "
                    "w_k and w_v."),
            Mistake("LIN-3d", {THREE: for_all_three("(x.mT @ {}.reshape(x.shape)).sum(0)")},
                    "You sum the products over the first axis, which is right for three axes only. x may have any "
                    "number of leading axes: one, several or none."),
            Mistake("LIN-4b", {THREE: for_all_three("rows.T @ {} / len(x)")},
                    "You divide the gradients of the weights by the length of the first axis. They are sums. If the "
                    "loss is a mean, the upstream gradients already contain that factor."),
            Mistake("LIN-2b", {SUM: "w_q @ dq + w_k @ dk + w_v @ dv"},
                    "You multiply a weight by a gradient from the left. The gradient has one row for each token, so "
                    "their sizes do not fit."),
        ),
        alternatives={"einsum": {"rows.T @ dv": 'np.einsum("ni,nj->ij", rows, dv)'},
                      "one product": {SUM: "np.hstack([dq, dk, dv]) @ np.hstack([w_q, w_k, w_v]).T"}}),
]
