"""Scaled dot-product attention, forward and backward."""

import math

import numpy as np

from ...layers import Dropout, ScaledDotProductAttention
from .definition import Exercise, Mistake
from .softmax import softmax, softmax_backward


def attention(q, k, v):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    p = softmax(scores)
    return p @ v, p


def draw_forward(rng, n):
    *batch, T = n.lead
    return tuple(rng.standard_normal((*batch, length, n.d)) for length in (T, n.S, n.S))


def edges(rng):
    q, k, v = rng.standard_normal((3, 3, 3, 3))
    return [("sizes_equal", (q, k, v)), ("wider_values", (q[:2, :2], k[:2], rng.standard_normal((2, 3, 5))))]


def by_attention(q, k, v):
    layer = ScaledDotProductAttention()
    return layer(q, k, v), layer.weights


def attention_backward(q, k, v, p, m, dy):
    dv = (p * m).mT @ dy
    dp = dy @ v.mT * m
    ds = softmax_backward(p, dp)
    ds = ds / math.sqrt(q.shape[-1])
    dq = ds @ k
    dk = ds.mT @ q
    return dq, dk, dv


def with_gradient(rng, q, k, v, mask=True):
    """Arguments for backward; dropout keeps three quarters of the weights."""
    scores = np.where(mask, q @ k.mT / math.sqrt(q.shape[-1]), -np.inf)
    m = (rng.random(scores.shape) < 0.75) / 0.75
    return q, k, v, softmax(scores), m, rng.standard_normal((*scores.shape[:-1], v.shape[-1]))


def edges_backward(rng):
    (_, square), (_, wider) = edges(rng)
    return [("keys_hidden_by", with_gradient(rng, *square, np.tri(3, dtype=bool))),
            ("wider_values", with_gradient(rng, *wider))]


def by_attention_backward(q, k, v, p, m, dy):
    layer = ScaledDotProductAttention()
    layer.dropout = Dropout(0.25)
    layer.dropout.draw = lambda weights: m.copy()
    layer(q, k, v, np.any(p > 0, axis=tuple(range(p.ndim - 2))))
    return layer.backward(dy)


SCALE = " / math.sqrt(q.shape[-1])"


EXERCISES = [
    Exercise(
        "05.1", minutes=15, lines=3, size_letters="TSd",
        solution=attention, reference=by_attention, given=(softmax,), outputs=("y", "p"),
        inputs=draw_forward, edges=edges,
        must_be_zero={"rows_p_sum": lambda inputs, outputs: outputs[1].sum(-1) - 1},
        mistakes=(
            Mistake("ATF-1", {" / math.sqrt(q.shape[-1])": ""}),
            Mistake("ATF-2a", {" / math.sqrt(q.shape[-1])": " * math.sqrt(q.shape[-1])"}),
            Mistake("ATF-2b", {" / math.sqrt(q.shape[-1])": " / q.shape[-1]"}),
            Mistake("ATF-2c", {" / math.sqrt(q.shape[-1])": " / math.sqrt(k.shape[-2])"}),
            Mistake("ATF-3", {
                " / math.sqrt(q.shape[-1])": "",
                "softmax(scores)": "softmax(scores) / math.sqrt(q.shape[-1])"}),
            Mistake("ATF-4", {"softmax(scores)": "softmax(scores.mT).mT"}),
            Mistake("ATF-5a", {"q @ k.mT": "k @ q.mT"}),
            Mistake("ATF-5b", {"p @ v": "p.mT @ v"}),
            Mistake("ATF-6", {"k.mT": "k.T"}),
            Mistake("ATF-7", {"softmax(scores)": "scores"}),
            Mistake("ATF-8", {"p @ v": "p @ k"}),
            Mistake("ATF-9", {"p @ v, p": "p, p @ v"}),
            Mistake("ATF-2d", {" / math.sqrt(q.shape[-1])": " / math.sqrt(q.shape[-2])"}),
            Mistake("ATF-2e", {" / math.sqrt(q.shape[-1])": " / math.sqrt(len(q))"}),
            Mistake("ATF-2f", {" / math.sqrt(q.shape[-1])": " / math.sqrt(v.shape[-1])"}),
            Mistake("ATF-2g", {" / math.sqrt(q.shape[-1])": " / q.shape[-1] ** 0.25"}),
            Mistake("ATF-10", {" / math.sqrt(q.shape[-1])": "", "p @ v, p": "p @ v / math.sqrt(q.shape[-1]), p"}),
            Mistake("ATF-11", {
                "softmax(scores)": "softmax(np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf))"}),
            Mistake("ATF-12", {"q @ k.mT": "q * k"}),
            Mistake("ATF-13", {"q @ k.mT": "q @ k"}),
            Mistake("ATF-6c", {"k.mT": "k.swapaxes(1, 2)"}),
            Mistake("ATF-4b", {"softmax(scores)": "np.exp(scores) / np.exp(scores).sum(1, keepdims=True)"}),
            Mistake("ATF-4c", {"softmax(scores)": "np.exp(scores) / np.exp(scores).sum(0, keepdims=True)"}),
            Mistake("ATF-14", {"softmax(scores)": "softmax(-scores)"}),
            Mistake("ATF-15", {"p @ v, p": "scores @ v, p"}),
            Mistake("ATF-16", {"p @ v, p": "p * v, p"}),
            Mistake("ATF-17", {"p @ v, p": "p @ v, scores"}),
            Mistake("ATF-2h", {" / math.sqrt(q.shape[-1])": " / math.sqrt(q.shape[1])"}),
        ),
        alternatives={"einsum": {"q @ k.mT": 'np.einsum("...td,...sd->...ts", q, k)'},
                      "scaled queries": {f"q @ k.mT{SCALE}": f"(q{SCALE}) @ k.mT"},
                      "swapaxes": {"k.mT": "np.swapaxes(k, -1, -2)"},
                      "own softmax": {"softmax(scores)": "np.exp(scores) / np.exp(scores).sum(-1)[..., None]"},
                      "one maximum for the array": {"p = softmax(scores)": "p = np.exp(scores - scores.max())\n"
                                              "    p = p / p.sum(-1, keepdims=True)"}}),
    Exercise(
        "05.2", minutes=25, lines=7, size_letters="TSd",
        solution=attention_backward, reference=by_attention_backward, given=(softmax_backward,),
        inputs=lambda rng, n: with_gradient(rng, *draw_forward(rng, n)), edges=edges_backward,
        outputs=("dq", "dk", "dv"),
        must_be_zero={"dk_summed_over": lambda inputs, outputs: outputs[1].sum(-2)},
        mistakes=(
            Mistake("ATB-1a", {" / math.sqrt(q.shape[-1])": ""}),
            Mistake("ATB-1b", {"ds @ k": "ds @ k * math.sqrt(k.shape[-1])"}, context=" / math.sqrt(q.shape[-1])"),
            Mistake("ATB-1c", {"ds.mT @ q": "ds.mT @ q * math.sqrt(k.shape[-1])"}, context=" / math.sqrt(q.shape[-1])"),
            Mistake("ATB-2", {" / math.sqrt(q.shape[-1])": " / q.shape[-1]"}),
            Mistake("ATB-3", {"(p * m).mT @ dy": "(p * m) @ dy"}),
            Mistake("ATB-4a", {"ds.mT @ q": "ds @ q"}),
            Mistake("ATB-4b", {"ds @ k": "ds.mT @ k"}),
            Mistake("ATB-5", {"ds @ k": "ds @ q", "ds.mT @ q": "ds.mT @ k"}),
            Mistake("ATB-6", {"dq, dk, dv": "dk, dq, dv"}),
            Mistake("ATB-7", {"softmax_backward(p, dp)": "dp"}),
            Mistake("ATB-8a", {"softmax_backward(p, dp)": "p * dp"}),
            Mistake("ATB-8b", {"softmax_backward(p, dp)": "p * (1 - p) * dp"}),
            Mistake("ATB-8c", {"softmax_backward(p, dp)": "softmax_backward(p.mT, dp.mT).mT"}),
            Mistake("ATB-9", {"dy @ v.mT": "dy @ v"}),
            Mistake("ATB-10a", {" @ v.mT * m": " @ v.mT"}),
            Mistake("ATB-10b", {"(p * m).mT": "p.mT"}),
            Mistake("ATB-10c", {"softmax_backward(p, dp)": "softmax_backward(p * m, dp)"}),
            Mistake("ATB-10d", {" @ v.mT * m": " @ v.mT", "softmax_backward(p, dp)": "softmax_backward(p, dp) * m"}),
            Mistake("ATB-10e", {" @ v.mT * m": " @ v.mT * (m > 0)"}),
            Mistake("ATB-10f", {" @ v.mT * m": " @ v.mT", "softmax_backward(p, dp)": "softmax_backward(p * m, dp)"}),
            Mistake("ATB-13", {"(p * m).mT": "(p * m).T", "ds.mT": "ds.T", "v.mT": "v.T"}),
            Mistake("ATB-11", {
                "dv = (p":
                    "e = np.exp(q @ k.mT / math.sqrt(q.shape[-1]))\n    p = e / e.sum(-1, keepdims=True)\n    dv = (p"},
                ),
            Mistake("ATB-12", {"softmax_backward(p, dp)": "softmax_backward(dp, p)"}),
            Mistake("ATB-2b", {" / math.sqrt(q.shape[-1])": " * math.sqrt(q.shape[-1])"}),
            Mistake("ATB-2c", {" / math.sqrt(q.shape[-1])": " / math.sqrt(k.shape[-2])"}),
            Mistake("ATB-2d", {" / math.sqrt(q.shape[-1])": " / math.sqrt(q.shape[-2])"}),
            Mistake("ATB-2e", {" / math.sqrt(q.shape[-1])": " / math.sqrt(v.shape[-1])"}),
            Mistake("ATB-2f", {"(p * m).mT @ dy": "(p * m).mT @ dy / math.sqrt(q.shape[-1])"}),
            Mistake("ATB-8d", {"softmax_backward(p, dp)": "p * (dp - dp.sum(-1, keepdims=True))"}),
            Mistake("ATB-10g", {" @ v.mT * m": " @ v.mT * m * m"}),
            Mistake("ATB-10h", {"(p * m).mT": "(p * (m > 0)).mT", " @ v.mT * m": " @ v.mT * (m > 0)"}),
            Mistake("ATB-10i", {" @ v.mT * m": " @ v.mT / np.where(m > 0, m, 1)"}),
            Mistake("ATB-14", {"softmax_backward(p, dp)": "softmax_backward(q @ k.mT / math.sqrt(q.shape[-1]), dp)"}),
            Mistake("ATB-4c", {"ds.mT @ q": "q.mT @ ds"}),
            Mistake("ATB-15", {"dq, dk, dv": "dv, dk, dq"}),
            Mistake("ATB-9b", {"dy @ v.mT": "v @ dy.mT"}),
            Mistake("ATB-2g", {" / math.sqrt(q.shape[-1])": " / math.sqrt(q.shape[1])"}),
            Mistake("ATB-8e", {"softmax_backward(p, dp)": "p * (dp - (p * dp).sum())"}),
        ),
        alternatives={"scaled late": {SCALE: "", "ds @ k": "ds @ k / math.sqrt(k.shape[-1])",
                                      "ds.mT @ q": "ds.mT @ (q / math.sqrt(k.shape[-1]))"},
                      "einsum": {"(p * m).mT @ dy": 'np.einsum("...ts,...te->...se", p * m, dy)',
                                 "dy @ v.mT": 'np.einsum("...te,...se->...ts", dy, v)'}}),
]
