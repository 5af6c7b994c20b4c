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
        number_sizes=("tiny", "mixed"),
        powers=({"q": 3, "k": -3}, {"q": -3, "k": 3, "v": 3}),
        solution=attention, reference=by_attention, imported=(softmax,), outputs=("y", "p"),
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
            Mistake("ATF-2d", {" / math.sqrt(q.shape[-1])": " / math.sqrt(q.shape[-2])"}),
            Mistake("ATF-10", {" / math.sqrt(q.shape[-1])": "", "p @ v, p": "p @ v / math.sqrt(q.shape[-1]), p"}),
            Mistake("ATF-12", {"q @ k.mT": "q * k"}),
            Mistake("ATF-17", {"p @ v, p": "p @ v, scores"}),
        ),
        alternatives={"einsum": {"q @ k.mT": 'np.einsum("...td,...sd->...ts", q, k)'},
                      "scaled queries": {f"q @ k.mT{SCALE}": f"(q{SCALE}) @ k.mT"},
                      "swapaxes": {"k.mT": "np.swapaxes(k, -1, -2)"},
                      "own softmax": {"softmax(scores)": "np.exp(scores) / np.exp(scores).sum(-1)[..., None]"},
                      "one maximum for the array": {"p = softmax(scores)": "p = np.exp(scores - scores.max())\n"
                                              "    p = p / p.sum(-1, keepdims=True)"}}),
    Exercise(
        "05.2", minutes=25, lines=7, size_letters="TSd",
        number_sizes=("tiny", "mixed"),
        powers=({"q": 3, "k": -3}, {"q": -3, "k": 3, "v": 3, "dy": 3}), linked=(("q", "k", "p"),),
        solution=attention_backward, reference=by_attention_backward, imported=(softmax_backward,),
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
            Mistake("ATB-10f", {" @ v.mT * m": " @ v.mT", "softmax_backward(p, dp)": "softmax_backward(p * m, dp)"}),
            Mistake("ATB-12", {"softmax_backward(p, dp)": "softmax_backward(dp, p)"}),
            Mistake("ATB-2e", {" / math.sqrt(q.shape[-1])": " / math.sqrt(v.shape[-1])"}),
        ),
        alternatives={"scaled late": {SCALE: "", "ds @ k": "ds @ k / math.sqrt(k.shape[-1])",
                                      "ds.mT @ q": "ds.mT @ (q / math.sqrt(k.shape[-1]))"},
                      "einsum": {"(p * m).mT @ dy": 'np.einsum("...ts,...te->...se", p * m, dy)',
                                 "dy @ v.mT": 'np.einsum("...te,...se->...ts", dy, v)'}}),
]
