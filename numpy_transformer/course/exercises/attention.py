"""Scaled dot-product attention, forward and backward."""

import math

import numpy as np

from ...layers import Dropout, ScaledDotProductAttention
from .definition import Exercise, Mistake
from .softmax import softmax, softmax_backward


def attention(q, k, v):
    """Computes scaled dot-product attention, in which each query takes a weighted mean of the values.

    y = p v with p = softmax(q kᵀ / sqrt(d)). Row t of p contains the weights that query t gives to the S values.

    q: (..., T, d), queries.
    k: (..., S, d), keys.
    v: (..., S, e), values.
    Return y: (..., T, e) and p: (..., T, S), whose rows sum to 1. Both have the dtype of q: math.sqrt(d) keeps
        float32, while np.sqrt(d) would convert to float64.
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
    """Computes the gradients of attention with dropout on the weights.

    The forward pass was s = q kᵀ / sqrt(d), p = softmax(s) over the visible keys, and y = (p * m) v.

    q: (..., T, d).
    k: (..., S, d).
    v: (..., S, e).
    p: (..., T, S), the weights, which are 0 where a mask hid the key.
    m: (..., T, S), a constant: 0 where dropout removed a weight, and 1 / (1 - dropout rate) elsewhere.
    dy: (..., T, e), dL/dy.
    Return dq: (..., T, d), dk: (..., S, d), dv: (..., S, e).
    """
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
    return [("keys hidden by a causal mask", with_gradient(rng, *square, np.tri(3, dtype=bool))),
            ("wider values", with_gradient(rng, *wider))]


def by_attention_backward(q, k, v, p, m, dy):
    layer = ScaledDotProductAttention()
    layer.dropout = Dropout(0.25)
    layer.dropout.draw = lambda weights: m.copy()
    layer(q, k, v, np.any(p > 0, axis=tuple(range(p.ndim - 2))))
    return layer.backward(dy)


SCALE = " / math.sqrt(q.shape[-1])"
THREE_AXES = ("Your code is right for three axes only. There may be any number of leading axes before the last two: "
              "one, several or none.")
ONE_AXIS = ("Your softmax normalizes along an axis counted from the front. The weights of a query are along the last "
            "axis, so count from the end.")

EXERCISES = [
    Exercise(
        "05.1", "Attention", minutes=15, lines=3,
        solution=attention, reference=by_attention, given=(softmax,), outputs=("y", "p"),
        inputs=draw_forward, edges=edges,
        invariants=(("rows of p must sum to 1", lambda inputs, outputs: outputs[1].sum(-1) - 1),),
        hints=("p has a row for each query and a column for each key. Which product of q and k has this shape?",
               "k.mT swaps the last two axes of k, however many axes precede them. d is the last size of q.",
               "scores = q @ k.mT / math.sqrt(q.shape[-1]) and p = softmax(scores); return p @ v and p."),
        mistakes=(
            Mistake("ATF-1", {SCALE: ""},
                    "You do not divide the scores by sqrt(d). Their variance grows with d, so for large d softmax "
                    "gives nearly all the weight to one key."),
            Mistake("ATF-2a", {SCALE: " * math.sqrt(q.shape[-1])"},
                    "You multiply the scores by sqrt(d) instead of dividing."),
            Mistake("ATF-2b", {SCALE: " / q.shape[-1]"},
                    "You divide the scores by d instead of its square root. They become too small, and the weights too "
                    "uniform."),
            Mistake("ATF-2c", {SCALE: " / math.sqrt(k.shape[-2])"},
                    "You divide by the square root of the number of keys. A score is a sum of d products, so its size "
                    "depends on d."),
            Mistake("ATF-3", {SCALE: "", "softmax(scores)": f"softmax(scores){SCALE}"},
                    "You divide the weights by sqrt(d), after softmax, so their rows no longer sum to 1. Scale the "
                    "scores before softmax instead."),
            Mistake("ATF-4", {"softmax(scores)": "softmax(scores.mT).mT"},
                    "Your softmax normalizes over the queries, so the columns of p sum to 1. Each query must "
                    "distribute its weight over the keys."),
            Mistake("ATF-5a", {"q @ k.mT": "k @ q.mT"},
                    "Your scores are transposed. A row belongs to a query and a column to a key. Your code runs "
                    "without an error only if T = S."),
            Mistake("ATF-5b", {"p @ v": "p.mT @ v"},
                    "You transpose p in the last product, but row t of p already contains the weights of query t. Your "
                    "code runs without an error only if T = S."),
            Mistake("ATF-6", {"k.mT": "k.T"},
                    ".T reverses all axes, including the batch, and is correct only for two axes. Swap the last two "
                    "axes instead."),
            Mistake("ATF-7", {"softmax(scores)": "scores"},
                    "The softmax is missing. You use the scores themselves as weights, including the negative ones."),
            Mistake("ATF-8", {"p @ v": "p @ k"},
                    "You return a weighted mean of the keys. The keys only determine the weights; the output is a "
                    "weighted mean of the values."),
            Mistake("ATF-9", {"p @ v, p": "p, p @ v"}, "You return the two results in the wrong order. y comes first."),
            Mistake("ATF-2d", {SCALE: " / math.sqrt(q.shape[-2])"},
                    "You divide by the square root of the number of queries. A score is a sum of d products, so its "
                    "size depends on d."),
            Mistake("ATF-2e", {SCALE: " / math.sqrt(len(q))"},
                    "You divide by the square root of the length of the first axis. A score is a sum of d products, "
                    "so its size depends on d, the last size of q."),
            Mistake("ATF-2f", {SCALE: " / math.sqrt(v.shape[-1])"},
                    "You divide by the square root of the width of the values, e. A score is a sum of the d products "
                    "of a query and a key."),
            Mistake("ATF-2g", {SCALE: " / q.shape[-1] ** 0.25"},
                    "You divide by the fourth root of d. That is the factor for q and for k if both are scaled, and "
                    "their product gets the square root."),
            Mistake("ATF-10", {SCALE: "", "p @ v, p": f"p @ v{SCALE}, p"},
                    "You divide the output by sqrt(d) instead of the scores. The scores must be scaled before "
                    "softmax, which is not linear."),
            Mistake("ATF-11", {"softmax(scores)": "softmax(np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf))"},
                    "You apply a causal mask. In this exercise every query attends to all keys."),
            Mistake("ATF-12", {"q @ k.mT": "q * k"},
                    "* multiplies entry by entry. A score is the dot product of a query and a key, for each pair of "
                    "them."),
            Mistake("ATF-13", {"q @ k.mT": "q @ k"},
                    "You do not transpose the keys. A score is the dot product of a query and a key, so the sum runs "
                    "over the features of both."),
            Mistake("ATF-6c", {"k.mT": "k.swapaxes(1, 2)"}, THREE_AXES),
            Mistake("ATF-4b", {"softmax(scores)": "np.exp(scores) / np.exp(scores).sum(1, keepdims=True)"}, ONE_AXIS),
            Mistake("ATF-4c", {"softmax(scores)": "np.exp(scores) / np.exp(scores).sum(0, keepdims=True)"}, ONE_AXIS),
            Mistake("ATF-14", {"softmax(scores)": "softmax(-scores)"},
                    "Your scores have the wrong sign, so a query gives the most weight to the keys that match it "
                    "least."),
            Mistake("ATF-15", {"p @ v, p": "scores @ v, p"},
                    "You compute y from the scores. It is a mean of the values with the weights p."),
            Mistake("ATF-16", {"p @ v, p": "p * v, p"},
                    "* multiplies entry by entry. Each output is a sum over the values, weighted by a row of p, "
                    "which is a matrix product."),
            Mistake("ATF-17", {"p @ v, p": "p @ v, scores"},
                    "You return the scores. The second result is p, the weights after softmax."),
            Mistake("ATF-2h", {SCALE: " / math.sqrt(q.shape[1])"},
                    "You divide by the square root of axis 1, counted from the front. d is the last size of q, and "
                    "there may be any number of leading axes."),
        ),
        alternatives={"einsum": {"q @ k.mT": 'np.einsum("...td,...sd->...ts", q, k)'},
                      "scaled queries": {f"q @ k.mT{SCALE}": f"(q{SCALE}) @ k.mT"},
                      "swapaxes": {"k.mT": "np.swapaxes(k, -1, -2)"},
                      "own softmax": {"softmax(scores)": "np.exp(scores) / np.exp(scores).sum(-1)[..., None]"},
                      "one maximum for the array": {"p = softmax(scores)": "p = np.exp(scores - scores.max())\n"
                                              "    p = p / p.sum(-1, keepdims=True)"}}),
    Exercise(
        "05.2", "Attention, backward", minutes=25, lines=7,
        solution=attention_backward, reference=by_attention_backward, given=(softmax_backward,),
        inputs=lambda rng, n: with_gradient(rng, *draw_forward(rng, n)), edges=edges_backward,
        outputs=("dq", "dk", "dv"),
        invariants=(("dk summed over all keys must be 0, because adding one vector to all keys changes no weight",
                     lambda inputs, outputs: outputs[1].sum(-2)),),
        hints=("Go through forward from its last line to its first. In which entries of each result does a variable "
               "appear, and with which derivative? Each gradient has the shape of its array.",
               "y = (p * m) v gives dv, which is a sum over queries, and the gradient of p * m. The factor m is the "
               "same in forward and backward. Then apply softmax_backward, and then the backward of s = q kᵀ / "
               "sqrt(d): dq is a sum over keys, and dk over queries.",
               "dv = (p * m)ᵀ dy, dp = (dy vᵀ) * m, ds = softmax_backward(p, dp) / sqrt(d), dq = ds k, dk = dsᵀ q."),
        mistakes=(
            Mistake("ATB-1a", {SCALE: ""},
                    "The factor 1 / sqrt(d) is missing. The scores contain it, so dq and dk contain it too."),
            Mistake("ATB-1b", {"ds @ k": "ds @ k * math.sqrt(k.shape[-1])"},
                    "The factor 1 / sqrt(d) is missing in dq. Both dq and dk contain it.", context=SCALE),
            Mistake("ATB-1c", {"ds.mT @ q": "ds.mT @ q * math.sqrt(k.shape[-1])"},
                    "The factor 1 / sqrt(d) is missing in dk. Both dq and dk contain it.", context=SCALE),
            Mistake("ATB-2", {SCALE: " / q.shape[-1]"},
                    "You divide dq and dk by sqrt(d) twice. The scores contain the factor once."),
            Mistake("ATB-3", {"(p * m).mT @ dy": "(p * m) @ dy"},
                    "You do not transpose the weights in dv. Value s contributed to all queries, with the weights of "
                    "column s. Your code runs without an error only if T = S."),
            Mistake("ATB-4a", {"ds.mT @ q": "ds @ q"},
                    "Key s occurs in column s of the scores, so dk is a sum over queries. Yours is a sum over keys."),
            Mistake("ATB-4b", {"ds @ k": "ds.mT @ k"},
                    "Query t occurs in row t of the scores, so dq is a sum over keys. Yours is a sum over queries."),
            Mistake("ATB-5", {"ds @ k": "ds @ q", "ds.mT @ q": "ds.mT @ k"},
                    "You compute dq from the queries and dk from the keys. The gradient of one factor of a product "
                    "contains the other factor."),
            Mistake("ATB-6", {"dq, dk, dv": "dk, dq, dv"}, "You return dq and dk in the wrong order."),
            Mistake("ATB-7", {"softmax_backward(p, dp)": "dp"},
                    "Your backward leaves out softmax. dp is the gradient of the weights, not of the scores."),
            Mistake("ATB-8a", {"softmax_backward(p, dp)": "p * dp"},
                    "Each weight depends on all scores of its row, so the sum over the row is missing. The given "
                    "softmax_backward contains it."),
            Mistake("ATB-8b", {"softmax_backward(p, dp)": "p * (1 - p) * dp"},
                    "This is the derivative of the sigmoid, which is only the diagonal of softmax's Jacobian. Each "
                    "weight depends on all scores of its row."),
            Mistake("ATB-8c", {"softmax_backward(p, dp)": "softmax_backward(p.mT, dp.mT).mT"},
                    "You apply softmax's backward over the queries, but forward normalized over the keys."),
            Mistake("ATB-9", {"dy @ v.mT": "dy @ v"},
                    "You compute dp without transposing v. A weight multiplies all e features of a value, so the sum "
                    "runs over the features. Your code runs without an error only if S = e."),
            Mistake("ATB-10a", {" @ v.mT * m": " @ v.mT"},
                    "You leave out dropout when you compute dp. A weight that was removed had no effect on y, so its "
                    "gradient is 0, and the other weights were scaled by m."),
            Mistake("ATB-10b", {"(p * m).mT": "p.mT"},
                    "You compute dv from the weights before dropout. Forward computed y from the weights after "
                    "dropout."),
            Mistake("ATB-10c", {"softmax_backward(p, dp)": "softmax_backward(p * m, dp)"},
                    "You pass the weights after dropout to softmax_backward. The output of softmax was p."),
            Mistake("ATB-10d", {" @ v.mT * m": " @ v.mT", "softmax_backward(p, dp)": "softmax_backward(p, dp) * m"},
                    "You apply m too late. In forward, dropout came after softmax, so in backward it comes before "
                    "softmax_backward."),
            Mistake("ATB-10e", {" @ v.mT * m": " @ v.mT * (m > 0)"},
                    "You set the gradients of the removed weights to 0, but you do not scale those of the others. The "
                    "weights that were kept were also multiplied by m."),
            Mistake("ATB-10f", {" @ v.mT * m": " @ v.mT", "softmax_backward(p, dp)": "softmax_backward(p * m, dp)"},
                    "You use p * m in place of both p and m, but they belong to two steps. Dropout multiplied by m, "
                    "and so does its backward. After that, softmax's backward needs the output of softmax, p."),
            Mistake("ATB-13", {"(p * m).mT": "(p * m).T", "ds.mT": "ds.T", "v.mT": "v.T"},
                    ".T reverses all axes, including the batch, and is correct only for two axes. Swap the last two "
                    "axes instead."),
            Mistake("ATB-11", {
                "dv = (p": f"e = np.exp(q @ k.mT{SCALE})\n    p = e / e.sum(-1, keepdims=True)\n    dv = (p"},
                    "You compute the weights again, without the mask of forward, so a hidden key gets gradients. Use "
                    "the given p."),
            Mistake("ATB-12", {"softmax_backward(p, dp)": "softmax_backward(dp, p)"},
                    "You have swapped the arguments of softmax_backward. The weights come first, then their gradient."),
            Mistake("ATB-2b", {SCALE: " * math.sqrt(q.shape[-1])"},
                    "You multiply by sqrt(d). Backward does not undo the division of forward: the derivative of s "
                    "with respect to q contains the same factor 1 / sqrt(d)."),
            Mistake("ATB-2c", {SCALE: " / math.sqrt(k.shape[-2])"},
                    "You divide by the square root of the number of keys. The factor is that of forward, 1 / "
                    "sqrt(d)."),
            Mistake("ATB-2d", {SCALE: " / math.sqrt(q.shape[-2])"},
                    "You divide by the square root of the number of queries. The factor is that of forward, 1 / "
                    "sqrt(d)."),
            Mistake("ATB-2e", {SCALE: " / math.sqrt(v.shape[-1])"},
                    "You divide by the square root of the width of the values. The factor is that of forward, 1 / "
                    "sqrt(d)."),
            Mistake("ATB-2f", {"(p * m).mT @ dy": f"(p * m).mT @ dy{SCALE}"},
                    "You divide dv by sqrt(d). That factor belongs to the scores, through which dv does not pass."),
            Mistake("ATB-8d", {"softmax_backward(p, dp)": "p * (dp - dp.sum(-1, keepdims=True))"},
                    "The factor p is missing inside the sum over the row. The given softmax_backward contains it."),
            Mistake("ATB-10g", {" @ v.mT * m": " @ v.mT * m * m"},
                    "You multiply by m twice. Forward multiplied by it once."),
            Mistake("ATB-10h", {"(p * m).mT": "(p * (m > 0)).mT", " @ v.mT * m": " @ v.mT * (m > 0)"},
                    "You use only where m is 0, not its values. The weights that were kept were also multiplied by 1 "
                    "/ (1 - dropout rate)."),
            Mistake("ATB-10i", {" @ v.mT * m": " @ v.mT / np.where(m > 0, m, 1)"},
                    "You divide by m. Backward does not undo forward: the derivative of p * m with respect to p is "
                    "m."),
            Mistake("ATB-14", {"softmax_backward(p, dp)": f"softmax_backward(q @ k.mT{SCALE}, dp)"},
                    "You pass the scores to softmax_backward. Its first argument is the output of softmax, p."),
            Mistake("ATB-4c", {"ds.mT @ q": "q.mT @ ds"},
                    "Your dk is transposed. It must have the shape of k, with a row for each key."),
            Mistake("ATB-15", {"dq, dk, dv": "dv, dk, dq"},
                    "You return the gradients in the wrong order: that of q first, then k, then v."),
            Mistake("ATB-9b", {"dy @ v.mT": "v @ dy.mT"},
                    "Your gradient of the weights is transposed. It must have a row for each query and a column for "
                    "each key. Your code runs without an error only if T = S."),
            Mistake("ATB-2g", {SCALE: " / math.sqrt(q.shape[1])"},
                    "You divide by the square root of axis 1, counted from the front. d is the last size of q, and "
                    "there may be any number of leading axes."),
            Mistake("ATB-8e", {"softmax_backward(p, dp)": "p * (dp - (p * dp).sum())"},
                    "You sum over the whole array. Each row is a softmax of its own; the given softmax_backward sums "
                    "over its last axis."),
        ),
        alternatives={"scaled late": {SCALE: "", "ds @ k": "ds @ k / math.sqrt(k.shape[-1])",
                                      "ds.mT @ q": "ds.mT @ (q / math.sqrt(k.shape[-1]))"},
                      "einsum": {"(p * m).mT @ dy": 'np.einsum("...ts,...te->...se", p * m, dy)',
                                 "dy @ v.mT": 'np.einsum("...te,...se->...ts", dy, v)'}}),
]
