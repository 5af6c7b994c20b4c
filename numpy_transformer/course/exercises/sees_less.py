"""Attention that sees less: the mask of a window, the gradient of a sink, and linear attention with a running state."""

import numpy as np

from ...layers import LinearAttention, SinkSoftmax, SlidingWindow, causal_mask
from .definition import Exercise, Mistake


def window_mask(T, S, window):
    query = np.arange(S - T, S)[:, None]
    key = np.arange(S)
    return (key <= query) & (query - key < window)


def by_window(T, S, window):
    scores = np.where(causal_mask(T, S - T)[0], 0.0, -np.inf)
    return ~np.isneginf(SlidingWindow(window)(scores))[0]


def draw_window(rng, n):
    S = n.S + int(rng.integers(1, 40))
    return n.S, S, int(rng.integers(2, S))


def window_edges(rng):
    n, few, many = int(rng.integers(5, 12)), int(rng.integers(2, 5)), int(rng.integers(7, 14))
    return [("no_cache", (n, n, 3)), ("one_query", (1, many, few)), ("itself", (few, many, 1)), ("wide", (few, many, many + n))]


def sink_softmax_backward(p, p_sink, dp):
    total = (p * dp).sum(-1, keepdims=True)
    dx = p * (dp - total)
    dsink = -(p_sink * total).sum((-2, -1))
    return dx, dsink


def draw_sinks(rng, n):
    """Draws weights of T queries over S keys and the sink, for one or more heads."""
    x = rng.uniform(-2, 2, (n.H, n.T, n.S + 1))
    p = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    return p[..., :-1], p[..., -1:], rng.standard_normal((n.H, n.T, n.S))


def by_softmax(p, p_sink, dp):
    softmax = SinkSoftmax(len(p)).astype(p.dtype)
    softmax.remember(p, p_sink)
    return softmax.backward(dp), softmax.sinks.grad


def sink_edges(rng):
    def arrays(H, T, S, rest):                              # the sink has the weight `rest`
        p = rng.uniform(0.5, 1.5, (H, T, S))
        return (1 - rest) * p / p.sum(-1, keepdims=True), np.full((H, T, 1), rest), rng.standard_normal((H, T, S))

    return [("one_head", arrays(1, 3, 4, 0.3)), ("sink_takes_much", arrays(2, 3, 5, 0.9)), ("no_weight", arrays(2, 4, 3, 0.0))]


def linear_attention(fq, fk, v):
    y = np.zeros((*fq.shape[:-1], v.shape[-1]), v.dtype)
    state = np.zeros((*fk.shape[:-2], fk.shape[-1], v.shape[-1]), v.dtype)
    total = np.zeros_like(fk[..., 0, :])
    for t in range(fq.shape[-2]):
        state = state + fk[..., t, :, None] * v[..., t, None, :]
        total = total + fk[..., t, :]
        y[..., t, :] = (fq[..., t, None, :] @ state)[..., 0, :] / (fq[..., t, :] * total).sum(-1, keepdims=True)
    return y


def draw_features(rng, n):
    lead = n.lead[:-1]
    return *rng.uniform(0.1, 2, (2, *lead, n.T, n.d)), rng.standard_normal((*lead, n.T, n.H + 2))


def by_attention(fq, fk, v):
    def before_features(f):                                 # φ(x) = f
        return np.where(f > 1, f - 1, np.log(f))

    T = fq.shape[-2]
    return LinearAttention()(before_features(fq), before_features(fk), v, causal_mask(T)[0, 0])


def feature_edges(rng):
    def arrays(T, d, e):
        return *rng.uniform(0.1, 2, (2, T, d)), rng.standard_normal((T, e))

    return [("one_token", arrays(1, 3, 4)), ("one_feature", arrays(5, 1, 2)), ("square", arrays(4, 4, 4))]


STATE = "state + fk[..., t, :, None] * v[..., t, None, :]"
DIVISOR = "(fq[..., t, :] * total).sum(-1, keepdims=True)"


EXERCISES = [
    Exercise(
        "22.1", minutes=10, lines=3, size_letters="TS",
        solution=window_mask, reference=by_window, inputs=draw_window, edges=window_edges, outputs=("mask",),
        mistakes=(
            Mistake("WIN-1", {"query - key < window": "query - key <= window"}),
            Mistake("WIN-2", {"query - key < window": "query - key < window - 1"}),
            Mistake("WIN-3", {"np.arange(S - T, S)": "np.arange(T)"}),
            Mistake("WIN-4", {"(key <= query) & ": ""}),
            Mistake("WIN-5", {"(key <= query) & (query - key < window)": "abs(query - key) < window"}),
            Mistake("WIN-6", {"(key <= query) &": "(key < query) &"}),
            Mistake("WIN-7", {"return (key": "return ~(key", "<= query) & (query": "<= query) | ~(query"}),
            Mistake("WIN-8", {"(key <= query) & (query - key < window)": "(key >= query) & (key - query < window)"}),
        ),
        alternatives={
            "two triangles": {"    query = np.arange(S - T, S)[:, None]\n    key = np.arange(S)\n": "",
                              "(key <= query) & (query - key < window)":
                              "np.tri(T, S, S - T, dtype=bool) & ~np.tri(T, S, S - T - window, dtype=bool)"}}),
    Exercise(
        "22.2", minutes=15, lines=4, linked=(("p", "p_sink"),),
        solution=sink_softmax_backward, reference=by_softmax, inputs=draw_sinks, edges=sink_edges, outputs=("dx", "dsink"),
        mistakes=(
            Mistake("SNK-1", {"-(p_sink": "(p_sink"}),
            Mistake("SNK-2", {"sum((-2, -1))": "mean((-2, -1))"}),
            Mistake("SNK-3", {"-(p_sink * total).sum((-2, -1))": "(p_sink * (1 - p_sink) * total).sum((-2, -1))"}),
            Mistake("SNK-4", {"p * (dp - total)": "p * dp"}),
            Mistake("SNK-5", {"-(p_sink * total)": "-p_sink * dp"}),
            Mistake("SNK-6", {"-(p_sink * total)": "-total"}),
            Mistake("SNK-7", {"(p * dp).sum(-1, keepdims=True)": "(p * dp).sum(-1, keepdims=True) / (1 - p_sink)"}),
            Mistake("SNK-8", {"p * (dp - total)": "p * (dp - total * (1 - p_sink))"}),
        ),
        alternatives={
            "one softmax with the sink": {
                "    total = (p * dp).sum(-1, keepdims=True)\n    dx = p * (dp - total)\n    dsink = -(p_sink * total).sum((-2, -1))\n":
                    "    q = np.concatenate([p, p_sink], -1)\n    dq = np.concatenate([dp, np.zeros_like(p_sink)], -1)\n"
                    "    dz = q * (dq - (q * dq).sum(-1, keepdims=True))\n    dx = dz[..., :-1]\n"
                    "    dsink = dz[..., -1].sum(-1)\n"}}),
    Exercise(
        "22.3", minutes=20, lines=8, size_letters="Td",
        solution=linear_attention, reference=by_attention, inputs=draw_features, edges=feature_edges, outputs=("y",),
        mistakes=(
            Mistake("RST-1", {f" / {DIVISOR}": ""}),
            Mistake("RST-2", {
                "    for t in range(fq.shape[-2]):\n        state = " + STATE + "\n        total = total + fk[..., t, :]\n":
                    "    state = fk.mT @ v\n    total = fk.sum(-2)\n    for t in range(fq.shape[-2]):\n"}),
            Mistake("RST-3", {"total = total + fk[..., t, :]": "total = fk.sum(-2)"}),
            Mistake("RST-4", {"total + fk[..., t, :]": "fk[..., t, :]"}),
            Mistake("RST-5", {DIVISOR: "total.sum(-1, keepdims=True)"}),
            Mistake("RST-6", {DIVISOR: "(t + 1)"}),
            Mistake("RST-7", {STATE: "fk[..., t, :, None] * v[..., t, None, :]"}),
            Mistake("RST-8", {"fq[..., t, None, :] @ state": "fk[..., t, None, :] @ state"}),
        ),
        alternatives={
            "all weights": {
                "    state = np.zeros((*fk.shape[:-2], fk.shape[-1], v.shape[-1]), v.dtype)\n    total = np.zeros_like(fk[..., 0, :])\n": "",
                "    for t in range(fq.shape[-2]):\n        state = " + STATE + "\n        total = total + fk[..., t, :]\n"
                "        y[..., t, :] = (fq[..., t, None, :] @ state)[..., 0, :] / " + DIVISOR + "\n":
                    "    a = np.tril(fq @ fk.mT)\n    y = a / a.sum(-1, keepdims=True) @ v\n"},
            "cumulative sums": {
                "    state = np.zeros((*fk.shape[:-2], fk.shape[-1], v.shape[-1]), v.dtype)\n    total = np.zeros_like(fk[..., 0, :])\n": "",
                "    for t in range(fq.shape[-2]):\n        state = " + STATE + "\n        total = total + fk[..., t, :]\n"
                "        y[..., t, :] = (fq[..., t, None, :] @ state)[..., 0, :] / " + DIVISOR + "\n":
                    "    states = (fk[..., :, None] * v[..., None, :]).cumsum(-3)\n"
                    "    y = (fq[..., None, :] @ states)[..., 0, :] / (fq * fk.cumsum(-2)).sum(-1, keepdims=True)\n"}}),
]
