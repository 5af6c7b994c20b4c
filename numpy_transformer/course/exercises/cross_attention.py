"""Cross-attention, forward and backward: queries from one sequence, keys and values from another."""

import math
from types import SimpleNamespace

import numpy as np

from ... import layers
from .definition import Exercise, Mistake
from .shared import loaded
from .softmax import softmax, softmax_backward


def cross_attention(x, memory, w_q, w_k, w_v):
    q = x @ w_q
    k = memory @ w_k
    v = memory @ w_v
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    p = softmax(scores)
    return p @ v, p


def draw_forward(rng, n):
    *batch, T = n.lead
    sequences = rng.standard_normal((*batch, T, n.D)), rng.standard_normal((*batch, n.S, n.D))
    return *sequences, *rng.standard_normal((3, n.D, n.D)) / math.sqrt(n.D)


def package_layer(w_q, w_k, w_v):
    """The package's layer with one head and an identity output projection."""
    return loaded(layers.CrossAttention(len(w_q), 1, bias=False), {
        "query.weight": w_q, "key.weight": w_k, "value.weight": w_v, "output.weight": np.eye(len(w_q))})


def by_cross_attention(x, memory, *weights):
    layer = package_layer(*weights)
    return layer(x, memory), layer.weights[..., 0, :, :]


def cross_attention_backward(x, memory, w_q, w_k, w_v, p, dy, dlater):
    q, k, v = x @ w_q, memory @ w_k, memory @ w_v
    dv = p.mT @ dy
    dp = dy @ v.mT
    ds = softmax_backward(p, dp) / math.sqrt(q.shape[-1])
    dq, dk = ds @ k, ds.mT @ q
    dx = dq @ w_q.T
    dmemory = dk @ w_k.T + dv @ w_v.T
    return dx, dlater + dmemory


def draw_backward(rng, n):
    arguments = draw_forward(rng, n)
    y, p = cross_attention(*arguments)
    return *arguments, p, rng.standard_normal(y.shape), rng.standard_normal(arguments[1].shape)


def tiny(rng):
    return [("sizes_equal", draw_backward(rng, SimpleNamespace(lead=(2, 3), S=3, D=3)))]


def by_cross_attention_backward(x, memory, w_q, w_k, w_v, p, dy, dlater):
    layer = package_layer(w_q, w_k, w_v)
    layer(x, memory)
    dx, dmemory = layer.backward(dy)
    return dx, dmemory + dlater


UNCHANGED_SCORES = ({"x": 3, "w_q": -3, "memory": 3, "w_k": -3}, {"w_q": 3, "w_k": -3}, {"w_q": -3, "w_k": 3, "w_v": 3})


EXERCISES = [
    Exercise(
        "07.4", minutes=10, lines=6, size_letters="TSD",
        number_sizes=("tiny", "mixed"),
        powers=UNCHANGED_SCORES,
        solution=cross_attention, reference=by_cross_attention, imported=(softmax,), outputs=("y", "p"),
        inputs=draw_forward,
        must_be_zero={"rows_p_sum": lambda inputs, outputs: outputs[1].sum(-1) - 1},
        mistakes=(
            Mistake("XAT-1", {"memory @ w_k": "x @ w_k", "memory @ w_v": "x @ w_v"}),
            Mistake("XAT-2", {"x @ w_q": "memory @ w_q", "memory @ w_k": "x @ w_k", "memory @ w_v": "x @ w_v"}),
            Mistake("XAT-3a", {"memory @ w_v": "x @ w_v"}),
            Mistake("XAT-3b", {"memory @ w_k": "x @ w_k"}),
            Mistake("XAT-4", {"softmax(scores)": "softmax(np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf))"}),
            Mistake("XAT-7", {"memory @ w_k": "memory @ w_v", "memory @ w_v": "memory @ w_k"}),
            Mistake("ATF-1", {" / math.sqrt(q.shape[-1])": ""}),
            Mistake("ATF-2b", {" / math.sqrt(q.shape[-1])": " / q.shape[-1]"}),
            Mistake("ATF-2c", {" / math.sqrt(q.shape[-1])": " / math.sqrt(k.shape[-2])"}),
            Mistake("XAT-10", {"memory @ w_v": "memory"}),
            Mistake("ATF-4", {"softmax(scores)": "softmax(scores.mT).mT"}),
            Mistake("ATF-2a", {" / math.sqrt(q.shape[-1])": " * math.sqrt(q.shape[-1])"}),
            Mistake("ATF-2d", {" / math.sqrt(q.shape[-1])": " / math.sqrt(q.shape[-2])"}),
            Mistake("ATF-3", {
                " / math.sqrt(q.shape[-1])": "",
                "softmax(scores)": "softmax(scores) / math.sqrt(q.shape[-1])"}),
            Mistake("ATF-5", {"q @ k.mT": "k @ q.mT"}),
            Mistake("ATF-6", {"k.mT": "k.T"}),
            Mistake("LIN-2", {
                "x @ w_q": "x @ w_q.T",
                "memory @ w_k": "memory @ w_k.T",
                "memory @ w_v": "memory @ w_v.T"}),
            Mistake("XAT-14", {"memory @ w_k": "memory"}),
            Mistake("XAT-15", {"x @ w_q": "x"}),
        ),
        alternatives={"einsum": {"q @ k.mT": 'np.einsum("...td,...sd->...ts", q, k)'}}),
    Exercise(
        "07.5", minutes=25, lines=8, size_letters="TSD",
        number_sizes=("tiny", "mixed"),
        powers=(*UNCHANGED_SCORES, {"dy": 3, "dlater": 3}), linked=(("x", "memory", "w_q", "w_k", "p"),),
        solution=cross_attention_backward, reference=by_cross_attention_backward, imported=(softmax_backward,),
        inputs=draw_backward, edges=tiny, outputs=("dx", "dmemory"),
        mistakes=(
            Mistake("XAT-1", {"memory @ w_k": "x @ w_k", "memory @ w_v": "x @ w_v"}),
            Mistake("XAT-2", {"dx, dlater + dmemory": "dlater + dmemory, dx"}),
            Mistake("XAT-3", {"memory @ w_v": "x @ w_v"}),
            Mistake("XAT-5a", {" + dv @ w_v.T": ""}),
            Mistake("XAT-5b", {"dk @ w_k.T + ": ""}),
            Mistake("XAT-5c", {"dlater + ": ""}),
            Mistake("XAT-5e", {"dmemory = ": "dmemory = dlater\n    dmemory += ", "dlater + ": ""}),
            Mistake("LIN-2a", {"w_q.T": "w_q"}),
            Mistake("LIN-2b", {"dk @ w_k.T + dv @ w_v.T": "dk @ w_k + dv @ w_v"}),
            Mistake("ATB-1", {" / math.sqrt(q.shape[-1])": ""}),
            Mistake("ATB-3", {"p.mT @ dy": "p @ dy"}),
            Mistake("ATB-4", {"ds.mT @ q": "ds @ q"}),
            Mistake("ATB-5", {"ds @ k, ds.mT @ q": "ds @ q, ds.mT @ k"}),
            Mistake("ATB-7", {"softmax_backward(p, dp)": "dp"}),
            Mistake("ATB-2", {" / math.sqrt(q.shape[-1])": " / q.shape[-1]"}),
            Mistake("ATB-8a", {"softmax_backward(p, dp)": "p * dp"}),
            Mistake("ATB-8b", {"softmax_backward(p, dp)": "p * (1 - p) * dp"}),
            Mistake("XAT-5h", {"dv @ w_v.T": "(dv + dlater) @ w_v.T", "dlater + dmemory": "dmemory"}),
            Mistake("XAT-11c", {"dq @ w_q.T": "dq"}),
            Mistake("XAT-17", {"ds @ k,": "ds @ memory,", "ds.mT @ q": "ds.mT @ x"}),
        ),
        alternatives={"one term after the other": {"dk @ w_k.T + dv @ w_v.T": "dk @ w_k.T", "dlater + dmemory":
                                                  "dlater + dmemory + dv @ w_v.T"},
                      "einsum": {"p.mT @ dy": 'np.einsum("...ts,...td->...sd", p, dy)'}}),
]
