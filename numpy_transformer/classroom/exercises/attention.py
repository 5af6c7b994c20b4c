"""Scaled dot-product attention, forward and backward."""

import math

import numpy as np

from ...layers import Dropout, ScaledDotProductAttention
from ..exercise import Exercise, Mistake
from .softmax import softmax, softmax_backward


def attention(q, k, v):
    """Every query takes a weighted mean of the values.

    y = p v,  p = softmax(q kᵀ / sqrt(d)): row t of p holds the weights with which query t takes the S values.
    q: (..., T, d) queries.  k: (..., S, d) keys.  v: (..., S, e) values.
    Return y: (..., T, e) and p: (..., T, S), each row of which sums to 1, both of the dtype of q: math.sqrt(d) keeps
    float32, np.sqrt(d) makes it float64.
    """
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    p = softmax(scores)
    return p @ v, p


def draw_forward(rng, n):
    *batch, T = n.lead
    return tuple(rng.standard_normal((*batch, length, n.d)) for length in (T, n.S, n.S))


def edges(rng):
    q, k, v = rng.standard_normal((3, 3, 3, 3))
    return [("all sizes equal", (q, k, v)), ("wider values", (q[:2, :2], k[:2], rng.standard_normal((2, 3, 5))))]


def by_attention(q, k, v):
    layer = ScaledDotProductAttention()
    return layer(q, k, v), layer.weights


def attention_backward(q, k, v, p, m, dy):
    """The gradients of attention with dropout on the weights.

    Forward was  s = q kᵀ / sqrt(d),  p = softmax(s) over visible keys,  y = (p * m) v.
    q: (..., T, d).  k: (..., S, d).  v: (..., S, e).  p: (..., T, S), 0 where a mask hid the key.
    m: (..., T, S), a constant: 0 where dropout struck a weight out, 1 / (1 - its rate) elsewhere.
    dy: (..., T, e), dL/dy.  Return dq: (..., T, d), dk: (..., S, d), dv: (..., S, e).
    """
    dv = (p * m).mT @ dy
    dp = dy @ v.mT * m
    ds = softmax_backward(p, dp)
    ds = ds / math.sqrt(q.shape[-1])
    dq = ds @ k
    dk = ds.mT @ q
    return dq, dk, dv


def with_gradient(rng, q, k, v, mask=True):
    """Arguments for backward, three quarters of the weights kept."""
    scores = np.where(mask, q @ k.mT / math.sqrt(q.shape[-1]), -np.inf)
    m = (rng.random(scores.shape) < 0.75) / 0.75
    return q, k, v, softmax(scores), m, rng.standard_normal((*scores.shape[:-1], v.shape[-1]))


def edges_backward(rng):
    (_, square), (_, wider) = edges(rng)
    return [("keys hidden by a causal mask", with_gradient(rng, *square, np.tri(3, dtype=bool))),
            ("wider values", with_gradient(rng, *wider))]


def by_attention_backward(q, k, v, p, m, dy):
    layer = ScaledDotProductAttention()
    layer.dropout = Dropout(0.25)
    layer.dropout.draw = lambda weights: m.copy()
    layer(q, k, v, np.any(p > 0, axis=tuple(range(p.ndim - 2))))
    return layer.backward(dy)


SCALE = " / math.sqrt(q.shape[-1])"

EXERCISES = [
    Exercise(
        "05.1", "Attention", minutes=15, lines=3,
        solution=attention, reference=by_attention, given=(softmax,), outputs=("y", "p"),
        inputs=draw_forward, edges=edges,
        invariants=(("rows of p must sum to 1", lambda inputs, outputs: outputs[1].sum(-1) - 1),),
        hints=("p has a row for each query and a column for each key. Which product of q and k has this shape?",
               "k.mT swaps the last two axes of k, whatever stands before them. d is the last size of q.",
               "scores = q @ k.mT / math.sqrt(q.shape[-1]); p = softmax(scores); return p @ v and p."),
        mistakes=(
            Mistake("ATF-1", {SCALE: ""},
                    "The scores are not divided by sqrt(d): their variance grows with d, and softmax gives nearly all "
                    "the weight to one key where d is large."),
            Mistake("ATF-2a", {SCALE: " * math.sqrt(q.shape[-1])"},
                    "The scores are multiplied by sqrt(d), not divided."),
            Mistake("ATF-2b", {SCALE: " / q.shape[-1]"},
                    "The scores are divided by d, without the root: they become too small, and the weights too even."),
            Mistake("ATF-2c", {SCALE: " / math.sqrt(k.shape[-2])"},
                    "The root is that of the number of keys. A score is a sum of d products, so d sets its size."),
            Mistake("ATF-3", {SCALE: "", "softmax(scores)": f"softmax(scores){SCALE}"},
                    "sqrt(d) divides the weights, behind softmax: their rows no longer sum to 1. The scores are to be "
                    "scaled, before softmax."),
            Mistake("ATF-4", {"softmax(scores)": "softmax(scores.mT).mT"},
                    "Softmax goes over the queries: the columns of p sum to 1. Each query shares its weight among the "
                    "keys."),
            Mistake("ATF-5a", {"q @ k.mT": "k @ q.mT"},
                    "The scores are transposed: a row belongs to a query, a column to a key. This runs where T = S "
                    "alone."),
            Mistake("ATF-5b", {"p @ v": "p.mT @ v"},
                    "p is transposed in the last product: row t of p already holds the weights of query t. This runs "
                    "where T = S alone."),
            Mistake("ATF-6", {"k.mT": "k.T"},
                    ".T reverses all axes, that of the batch too, and is right for two axes only. Swap the last two."),
            Mistake("ATF-7", {"softmax(scores)": "scores"},
                    "There is no softmax: the scores themselves serve as weights, also negative ones."),
            Mistake("ATF-8", {"p @ v": "p @ k"},
                    "Yours is a mean of the keys. Keys are compared, values are handed over."),
            Mistake("ATF-9", {"p @ v, p": "p, p @ v"}, "The two results are in the wrong order: y comes first."),
        ),
        alternatives={"einsum": {"q @ k.mT": 'np.einsum("...td,...sd->...ts", q, k)'},
                      "scaled queries": {f"q @ k.mT{SCALE}": f"(q{SCALE}) @ k.mT"},
                      "swapaxes": {"k.mT": "np.swapaxes(k, -1, -2)"},
                      "another softmax": {"softmax(scores)": "np.exp(scores) / np.exp(scores).sum(-1)[..., None]"},
                      "one maximum for all": {"p = softmax(scores)": "p = np.exp(scores - scores.max())\n"
                                              "    p = p / p.sum(-1, keepdims=True)"}}),
    Exercise(
        "05.2", "Attention, backward", minutes=25, lines=7,
        solution=attention_backward, reference=by_attention_backward, given=(softmax_backward,),
        inputs=lambda rng, n: with_gradient(rng, *draw_forward(rng, n)), edges=edges_backward,
        outputs=("dq", "dk", "dv"),
        invariants=(("dk, summed over all keys, must be 0, for one vector added to all keys changes no weight",
                     lambda inputs, outputs: outputs[1].sum(-2)),),
        hints=("Walk up forward from its last line. In which entries of the line's result does a letter occur, and "
               "with which slope? Each gradient has the shape of its array.",
               "y = (p * m) v gives dv, a sum over queries, and the gradient of p * m; m is a factor, forward and "
               "backward. Then comes softmax_backward, then s = q kᵀ / sqrt(d): dq is a sum over keys, dk over "
               "queries.",
               "dv = (p * m)ᵀ dy, dp = (dy vᵀ) * m, ds = softmax_backward(p, dp) / sqrt(d), dq = ds k, dk = dsᵀ q."),
        mistakes=(
            Mistake("ATB-1a", {SCALE: ""},
                    "1 / sqrt(d) is missing: it is a factor of the scores, so dq and dk carry it too."),
            Mistake("ATB-1b", {"ds @ k": "ds @ k * math.sqrt(k.shape[-1])"},
                    "1 / sqrt(d) is missing in dq: both carry it."),
            Mistake("ATB-1c", {"ds.mT @ q": "ds.mT @ q * math.sqrt(k.shape[-1])"},
                    "1 / sqrt(d) is missing in dk: both carry it."),
            Mistake("ATB-2", {SCALE: " / q.shape[-1]"},
                    "dq and dk are divided by sqrt(d) twice: the scores carry it once."),
            Mistake("ATB-3", {"(p * m).mT @ dy": "(p * m) @ dy"},
                    "In dv the weights are not transposed: value s went to all queries, with the weights of column s. "
                    "This runs where T = S alone."),
            Mistake("ATB-4a", {"ds.mT @ q": "ds @ q"},
                    "Key s occurs in column s of the scores: dk is a sum over queries, and yours goes over keys."),
            Mistake("ATB-4b", {"ds @ k": "ds.mT @ k"},
                    "Query t occurs in row t of the scores: dq is a sum over keys, and yours goes over queries."),
            Mistake("ATB-5", {"ds @ k": "ds @ q", "ds.mT @ q": "ds.mT @ k"},
                    "Yours makes dq of queries and dk of keys. In a product each factor's gradient holds the other "
                    "factor."),
            Mistake("ATB-6", {"dq, dk, dv": "dk, dq, dv"}, "dq and dk are returned in the wrong order."),
            Mistake("ATB-7", {"softmax_backward(p, dp)": "dp"},
                    "The way back leaves out softmax: dp is the gradient of the weights, not of the scores."),
            Mistake("ATB-8a", {"softmax_backward(p, dp)": "p * dp"},
                    "Each weight depends on all scores of its row: the sum over the row is missing. softmax_backward, "
                    "which is given, has it."),
            Mistake("ATB-8b", {"softmax_backward(p, dp)": "p * (1 - p) * dp"},
                    "That is the derivative of the sigmoid, only the diagonal of softmax's Jacobian: each weight "
                    "depends on all scores of its row."),
            Mistake("ATB-8c", {"softmax_backward(p, dp)": "softmax_backward(p.mT, dp.mT).mT"},
                    "Softmax is taken back over the queries; forward it went over the keys."),
            Mistake("ATB-9", {"dy @ v.mT": "dy @ v"},
                    "dp is made with v as it is: a weight meets a value in all its e features, so the sum goes over "
                    "these. This runs where S = e alone."),
            Mistake("ATB-10a", {" @ v.mT * m": " @ v.mT"},
                    "Dropout is left out on the way to dp: a weight that was struck out had no effect on y, so it gets "
                    "gradient 0, and the others were scaled."),
            Mistake("ATB-10b", {"(p * m).mT": "p.mT"},
                    "dv is made with the weights before dropout: y was computed with those after it."),
            Mistake("ATB-10c", {"softmax_backward(p, dp)": "softmax_backward(p * m, dp)"},
                    "softmax_backward is given the weights after dropout: what softmax returned was p."),
            Mistake("ATB-10d", {" @ v.mT * m": " @ v.mT", "softmax_backward(p, dp)": "softmax_backward(p, dp) * m"},
                    "m comes too late: dropout followed softmax in forward, so on the way back it comes before "
                    "softmax_backward."),
            Mistake("ATB-10e", {" @ v.mT * m": " @ v.mT * (m > 0)"},
                    "The gradient of a weight is struck out where the weight was, but not scaled: those that were kept "
                    "were multiplied by m, too."),
            Mistake("ATB-10f", {" @ v.mT * m": " @ v.mT", "softmax_backward(p, dp)": "softmax_backward(p * m, dp)"},
                    "p * m stands in the place of both p and m. They belong to two steps: dropout multiplied by m, and "
                    "so does its backward; then softmax is taken back with what it had returned, p."),
            Mistake("ATB-13", {"(p * m).mT": "(p * m).T", "ds.mT": "ds.T", "v.mT": "v.T"},
                    ".T reverses all axes, that of the batch too, and is right for two axes only. Swap the last two."),
            Mistake("ATB-11", {
                "dv = (p": f"e = np.exp(q @ k.mT{SCALE})\n    p = e / e.sum(-1, keepdims=True)\n    dv = (p"},
                    "The weights are computed again, without the mask of forward: a hidden key gets gradients. Take "
                    "the given p."),
            Mistake("ATB-12", {"softmax_backward(p, dp)": "softmax_backward(dp, p)"},
                    "The arguments of softmax_backward are swapped: the weights come first, then their gradient."),
        ),
        alternatives={"scaled late": {SCALE: "", "ds @ k": "ds @ k / math.sqrt(k.shape[-1])",
                                      "ds.mT @ q": "ds.mT @ (q / math.sqrt(k.shape[-1]))"},
                      "einsum": {"(p * m).mT @ dy": 'np.einsum("...ts,...te->...se", p * m, dy)',
                                 "dy @ v.mT": 'np.einsum("...te,...se->...ts", dy, v)'}}),
]
