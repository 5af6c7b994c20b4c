"""Multi-head attention: splitting and merging heads, and the backward pass of the projections."""

import math

import numpy as np

from ... import layers
from ...layers import multi_head
from .definition import Exercise, Mistake
from .shared import loaded


def split_heads(x, num_heads):
    heads = x.reshape(*x.shape[:-1], num_heads, -1)
    return heads.swapaxes(-2, -3)


def merge_heads(heads):
    tokens = heads.swapaxes(-2, -3)
    return tokens.reshape(*tokens.shape[:-2], -1)


def draw_heads(rng, n, count=1):
    *batch, T = n.lead
    return tuple(rng.standard_normal((*batch, n.H, T, n.d)) for _ in range(count))


def multi_head_backward(x, w_q, w_k, w_v, dq, dk, dv):
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


LAST = "reshape(*tokens.shape[:-2], -1)"
SUM = "dq @ w_q.T + dk @ w_k.T + dv @ w_v.T"


EXERCISES = [
    Exercise(
        "07.1", minutes=10, lines=2, size_letters="TdD",
        solution=split_heads, reference=multi_head.split_heads, outputs=("heads",),
        inputs=lambda rng, n: (rng.standard_normal((*n.lead, n.D)), n.H),
        edges=lambda rng: [("heads_six", (rng.standard_normal((3, 5, 12)), 6))],
        mistakes=(
            Mistake("HD-1", {
                "*x.shape[:-1], num_heads, -1": "*x.shape[:-2], num_heads, x.shape[-2], -1",
                ".swapaxes(-2, -3)": ""}),
            Mistake("HD-2", {"num_heads, -1": "-1, num_heads", ".swapaxes(-2, -3)": ".mT.swapaxes(-2, -3)"}),
            Mistake("HD-6", {".swapaxes(-2, -3)": ".swapaxes(-2, -3).mT"}),
            Mistake("HD-7", {".swapaxes(-2, -3)": ""}),
            Mistake("HD-8", {"num_heads, -1": "-1, num_heads"}),
            Mistake("HD-14", {".swapaxes(-2, -3)": ".swapaxes(1, 2)"}),
            Mistake("HD-15", {"heads.swapaxes(-2, -3)": "np.stack(np.split(x, num_heads, -1))"}),
            Mistake("HD-18", {".swapaxes(-2, -3)": ".mT"}),
        ),
        alternatives={"head by head": {"heads.swapaxes(-2, -3)": "np.stack(np.split(x, num_heads, -1), -3)"},
                      "moveaxis": {"heads.swapaxes(-2, -3)": "np.moveaxis(heads, -2, -3)"}}),
    Exercise(
        "07.2", minutes=10, lines=2, size_letters="Td",
        solution=merge_heads, reference=multi_head.merge_heads, outputs=("x",), inputs=draw_heads,
        mistakes=(
            Mistake("HD-3", {
                "tokens.reshape(*tokens.shape[:-2], -1)": "heads.reshape(*heads.shape[:-3], heads.shape[-2], -1)"}),
            Mistake("HD-2", {"tokens.reshape(*tokens.shape[:-2], -1)": "tokens.mT.reshape(*tokens.shape[:-2], -1)"}),
            Mistake("HD-4a", {"tokens.reshape(*tokens.shape[:-2], -1)": "heads.mean(-3)"}),
            Mistake("HD-4b", {"tokens.reshape(*tokens.shape[:-2], -1)": "heads.sum(-3)"}),
            Mistake("HD-9", {
                "tokens.reshape(*tokens.shape[:-2], -1)": "heads.reshape(*heads.shape[:-3], -1, heads.shape[-1])"}),
            Mistake("HD-15", {"tokens.reshape(*tokens.shape[:-2], -1)": "np.concatenate(list(heads), -1)"}),
            Mistake("HD-20", {"tokens.reshape(*tokens.shape[:-2], -1)": "tokens"}),
        ),
        alternatives={"head by head": {f"tokens.{LAST}": "np.concatenate(np.moveaxis(heads, -3, 0), -1)"}}),
    Exercise(
        "07.3", minutes=20, lines=5, size_letters="TdD",
        solution=multi_head_backward, reference=by_self_attention, imported=(merge_heads,), inputs=draw_backward,
        outputs=("dx", "dw_q", "dw_k", "dw_v"),
        mistakes=(
            Mistake("HD-5a", {"dq @ w_q.T + dk @ w_k.T + dv @ w_v.T": "dq @ w_q.T"}),
            Mistake("HD-5b", {"dq @ w_q.T + dk @ w_k.T + dv @ w_v.T": "dk @ w_k.T"}),
            Mistake("HD-5c", {"dq @ w_q.T + dk @ w_k.T + dv @ w_v.T": "dv @ w_v.T"}),
            Mistake("HD-5d", {"dq @ w_q.T + dk @ w_k.T + dv @ w_v.T": "dq @ w_q.T + dk @ w_k.T"}),
            Mistake("HD-5e", {"dq @ w_q.T + dk @ w_k.T + dv @ w_v.T": "dq @ w_q.T + dv @ w_v.T"}),
            Mistake("HD-5f", {"dq @ w_q.T + dk @ w_k.T + dv @ w_v.T": "dk @ w_k.T + dv @ w_v.T"}),
            Mistake("HD-5g", {"dq @ w_q.T + dk @ w_k.T + dv @ w_v.T": "(dq @ w_q.T + dk @ w_k.T + dv @ w_v.T) / 3"}),
            Mistake("HD-2", {"merge_heads(dheads).reshape(-1, D)": "np.moveaxis(dheads, -3, -1).reshape(-1, D)"}),
            Mistake("HD-3", {"merge_heads(dheads).reshape(-1, D)": "dheads.reshape(-1, D)"}),
            Mistake("LIN-3a", {
                "rows.T @ dq, rows.T @ dk, rows.T @ dv":
                    "x.mT @ dq.reshape(x.shape), x.mT @ dk.reshape(x.shape), x.mT @ dv.reshape(x.shape)"}),
            Mistake("LIN-4", {
                "rows.T @ dq, rows.T @ dk, rows.T @ dv":
                    "rows.T @ dq / len(rows), rows.T @ dk / len(rows), rows.T @ dv / len(rows)"}),
            Mistake("ATB-6", {"rows.T @ dq, rows.T @ dk": "rows.T @ dk, rows.T @ dq"}),
            Mistake("LIN-1", {"rows.T @ dq, rows.T @ dk, rows.T @ dv": "dq.T @ rows, dk.T @ rows, dv.T @ rows"}),
            Mistake("LIN-2", {"dq @ w_q.T + dk @ w_k.T + dv @ w_v.T": "dq @ w_q + dk @ w_k + dv @ w_v"}),
            Mistake("HD-23", {"dq @ w_q.T + dk @ w_k.T + dv @ w_v.T": "dq @ w_q.T + dq @ w_k.T + dq @ w_v.T"}),
            Mistake("LIN-4b", {
                "rows.T @ dq, rows.T @ dk, rows.T @ dv":
                    "rows.T @ dq / len(x), rows.T @ dk / len(x), rows.T @ dv / len(x)"}),
        ),
        alternatives={"einsum": {"rows.T @ dv": 'np.einsum("ni,nj->ij", rows, dv)'},
                      "one product": {SUM: "np.hstack([dq, dk, dv]) @ np.hstack([w_q, w_k, w_v]).T"}}),
]
