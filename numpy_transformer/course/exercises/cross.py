"""Cross-attention, forward and backward: queries from one sequence, keys and values from another."""

import math
from types import SimpleNamespace

import numpy as np

from ... import layers
from .definition import Exercise, Mistake
from .given import loaded
from .softmax import softmax, softmax_backward


def cross_attention(x, memory, w_q, w_k, w_v):
    """Computes the cross-attention of a decoder's sequence x to the memory, which is the encoder's output.

    y = p v with p = softmax(q kᵀ / sqrt(D)), where the decoder computes the queries q, keys k and values v from x and
    memory. There is one head and no padding.

    x: (..., T, D).
    memory: (..., S, D).
    w_q, w_k, w_v: (D, D), the projections to queries, keys and values.
    Return y: (..., T, D) and p: (..., T, S), of the dtype of x: math.sqrt(D) keeps float32, np.sqrt(D) does not.
    """
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
    """Computes the gradients of both sequences, where several layers of the decoder attend to the same memory.

    The forward pass was q = x w_q, k = memory w_k, v = memory w_v, p = softmax(q kᵀ / sqrt(D)), and y = p v.

    x: (..., T, D).
    memory: (..., S, D).
    w_q, w_k, w_v: (D, D).
    p: (..., T, S).
    dy: (..., T, D), dL/dy.
    dlater: (..., S, D), the gradient that memory gets from the later layers, whose backward has already run.
    Return dx: (..., T, D), and dmemory: (..., S, D), the gradient that memory gets from this layer and the later ones.
    """
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
    return [("all sizes equal", draw_backward(rng, SimpleNamespace(lead=(2, 3), S=3, D=3)))]


def by_cross_attention_backward(x, memory, w_q, w_k, w_v, p, dy, dlater):
    layer = package_layer(w_q, w_k, w_v)
    layer(x, memory)
    dx, dmemory = layer.backward(dy)
    return dx, dmemory + dlater


SCALE = " / math.sqrt(q.shape[-1])"
BOTH = "The memory is used for the keys and for the values, so its gradient is the sum of both terms."

EXERCISES = [
    Exercise(
        "07.4", "Cross-attention", minutes=10, lines=6,
        solution=cross_attention, reference=by_cross_attention, given=(softmax,), outputs=("y", "p"),
        inputs=draw_forward,
        invariants=(("rows of p must sum to 1", lambda inputs, outputs: outputs[1].sum(-1) - 1),),
        hints=("Which sequence asks, and which one is searched? The output has a row for each token of which sequence?",
               "The queries are computed from x, the keys and values from memory. Nothing is masked, because the whole "
               "source is known.",
               "q = x w_q, k = memory w_k, v = memory w_v. The rest is attention: p = softmax(q kᵀ / sqrt(D)), y = p "
               "v."),
        mistakes=(
            Mistake("XAT-1", {"memory @ w_k": "x @ w_k", "memory @ w_v": "x @ w_v"},
                    "You compute keys and values from x. That is self-attention, and the memory has no effect at all."),
            Mistake("XAT-2", {"x @ w_q": "memory @ w_q", "memory @ w_k": "x @ w_k", "memory @ w_v": "x @ w_v"},
                    "You have exchanged the roles of x and memory: your queries come from memory, so y has a row for "
                    "each token of memory."),
            Mistake("XAT-3a", {"memory @ w_v": "x @ w_v"},
                    "You compute the values from x. Keys and values must come from the same sequence, the memory. Your "
                    "code runs without an error only if S = T."),
            Mistake("XAT-3b", {"memory @ w_k": "x @ w_k"},
                    "You compute the keys from x. Keys and values must come from the same sequence, the memory. Your "
                    "code runs without an error only if S = T."),
            Mistake("XAT-4", {"softmax(scores)": "softmax(np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf))"},
                    "You apply a causal mask. The source is complete before the first target token is generated, so "
                    "all of it is visible. The first target token may need the last token of the source."),
            Mistake("XAT-6", {"x @ w_q": "memory @ w_q"},
                    "You compute the queries from memory, so x has no effect at all. They must come from the decoder's "
                    "tokens."),
            Mistake("XAT-7", {"memory @ w_k": "memory @ w_v", "memory @ w_v": "memory @ w_k"},
                    "You have exchanged the matrices of the keys and the values."),
            Mistake("ATF-1", {SCALE: ""},
                    "You do not divide the scores by sqrt(D), so their variance grows with D."),
            Mistake("ATF-2b", {SCALE: " / q.shape[-1]"},
                    "You divide the scores by D instead of its square root. They become too small, and the weights too "
                    "uniform."),
            Mistake("ATF-2c", {SCALE: " / math.sqrt(k.shape[-2])"},
                    "You divide by the square root of the number of keys. A score is a sum of D products, so its size "
                    "depends on D."),
            Mistake("XAT-10", {"memory @ w_v": "memory"},
                    "You use memory itself as the values. It must pass through w_v: the keys, by which a token is "
                    "found, and the values, which it contributes, are two different projections of memory."),
            Mistake("ATF-4", {"softmax(scores)": "softmax(scores.mT).mT"},
                    "Your softmax normalizes over the queries, so the columns of p sum to 1. Each query must "
                    "distribute its weight over the keys."),
            Mistake("ATF-2a", {SCALE: " * math.sqrt(q.shape[-1])"},
                    "You multiply the scores by sqrt(D) instead of dividing."),
            Mistake("ATF-2d", {SCALE: " / math.sqrt(q.shape[-2])"},
                    "You divide by the square root of the number of queries. A score is a sum of D products, so its "
                    "size depends on D."),
            Mistake("ATF-3", {SCALE: "", "softmax(scores)": f"softmax(scores){SCALE}"},
                    "You divide the weights by sqrt(D), after softmax, so their rows no longer sum to 1. Scale the "
                    "scores before softmax instead."),
            Mistake("ATF-7", {"softmax(scores)": "scores"},
                    "The softmax is missing. You use the scores themselves as weights, including the negative ones."),
            Mistake("ATF-8", {"p @ v": "p @ k"},
                    "You return a weighted mean of the keys. The keys only determine the weights; the output is a "
                    "weighted mean of the values."),
            Mistake("ATF-9", {"p @ v, p": "p, p @ v"}, "You return the two results in the wrong order. y comes first."),
            Mistake("ATF-5", {"q @ k.mT": "k @ q.mT"},
                    "Your scores are transposed. A row belongs to a token of x and a column to a token of memory. "
                    "Your code runs without an error only if T = S."),
            Mistake("ATF-6", {"k.mT": "k.T"},
                    ".T reverses all axes, including the batch, and is correct only for two axes. Swap the last two "
                    "axes instead."),
            Mistake("LIN-2", {
                    "x @ w_q": "x @ w_q.T", "memory @ w_k": "memory @ w_k.T", "memory @ w_v": "memory @ w_v.T"},
                    "You transpose the projections. The queries are x w_q, without a transpose. The matrices are "
                    "square, so this causes no error."),
            Mistake("XAT-12", {
                    "memory @ w_k": "np.concatenate([x, memory], -2) @ w_k",
                    "memory @ w_v": "np.concatenate([x, memory], -2) @ w_v"},
                    "Your queries attend to x as well as to memory. Cross-attention takes keys and values from "
                    "memory alone."),
            Mistake("XAT-13", {"x @ w_q": "x @ w_k", "memory @ w_k": "memory @ w_q"},
                    "You have exchanged the matrices of the queries and the keys."),
            Mistake("XAT-14", {"memory @ w_k": "memory"},
                    "You use memory itself as the keys. It must pass through w_k first."),
            Mistake("XAT-15", {"x @ w_q": "x"}, "You use x itself as the queries. It must pass through w_q first."),
            Mistake("XAT-16", {"p @ v, p": "x + p @ v, p"},
                    "You add x to the output. The residual connection is around the attention layer, not in it."),
        ),
        alternatives={"einsum": {"q @ k.mT": 'np.einsum("...td,...sd->...ts", q, k)'}}),
    Exercise(
        "07.5", "Cross-attention, backward", minutes=25, lines=8,
        solution=cross_attention_backward, reference=by_cross_attention_backward, given=(softmax_backward,),
        inputs=draw_backward, edges=tiny, outputs=("dx", "dmemory"),
        hints=("In which lines of forward does x appear, and in which memory?",
               "Exercise 05.2 gives dq, dk and dv. Which of q, k and v are computed from x, and which from memory? If "
               "an array is used several times, its gradients add up.",
               "dx = dq w_qᵀ. dmemory = dlater + dk w_kᵀ + dv w_vᵀ, as a new array."),
        mistakes=(
            Mistake("XAT-1", {"memory @ w_k": "x @ w_k", "memory @ w_v": "x @ w_v"},
                    "You compute keys and values from x, but forward computed them from memory. Your code runs without "
                    "an error only if S = T."),
            Mistake("XAT-2", {"dx, dlater + dmemory": "dlater + dmemory, dx"},
                    "You return dx and dmemory in the wrong order."),
            Mistake("XAT-3", {"memory @ w_v": "x @ w_v"},
                    "You compute the values from x, but forward computed them from memory. Your code runs without an "
                    "error only if S = T."),
            Mistake("XAT-5a", {" + dv @ w_v.T": ""}, f"Your dmemory contains only the term of the keys. {BOTH}"),
            Mistake("XAT-5b", {"dk @ w_k.T + ": ""}, f"Your dmemory contains only the term of the values. {BOTH}"),
            Mistake("XAT-5c", {"dlater + ": ""},
                    "You lose the gradient from the later layers. Every layer of the decoder uses the memory, so the "
                    "gradients of all layers add up."),
            Mistake("XAT-5d", {"dlater + dmemory": "dlater"},
                    "You return the gradient from the later layers unchanged. This layer uses the memory too and adds "
                    "its own term."),
            Mistake("XAT-5e", {"dmemory = ": "dmemory = dlater\n    dmemory += ", "dlater + ": ""},
                    "+= changes dlater, which belongs to the caller. Make a new array with +."),
            Mistake("XAT-8", {"dx = dq @ w_q.T": "dx = dq @ w_q.T + dk @ w_k.T + dv @ w_v.T"},
                    "Your dx is the sum of three terms, as in self-attention. Here x is used only for the queries. "
                    "Your code runs without an error only if S = T."),
            Mistake("XAT-9", {"dk @ w_k.T + dv @ w_v.T": "dk @ w_v.T + dv @ w_k.T"},
                    "You multiply the gradients of the keys and the values by each other's matrix."),
            Mistake("XAT-11", {"dq @ w_q.T": "dq", "dk @ w_k.T + dv @ w_v.T": "dk + dv"},
                    "Your gradients stop at the queries, keys and values. To reach x and memory, they must pass "
                    "through w_q, w_k and w_v."),
            Mistake("LIN-2a", {"w_q.T": "w_q"},
                    "You do not transpose w_q when you compute dx. The matrix is square, so this causes no error."),
            Mistake("LIN-2b", {"dk @ w_k.T + dv @ w_v.T": "dk @ w_k + dv @ w_v"},
                    "You do not transpose the matrices when you compute dmemory. They are square, so this causes no "
                    "error."),
            Mistake("ATB-1", {SCALE: ""},
                    "The factor 1 / sqrt(D) is missing. The scores contain it, so the gradients of the queries and "
                    "keys contain it too."),
            Mistake("ATB-3", {"p.mT @ dy": "p @ dy"},
                    "You do not transpose p in the gradient of the values. Value s contributed to all queries, with "
                    "the weights of column s. Your code runs without an error only if T = S."),
            Mistake("ATB-4", {"ds.mT @ q": "ds @ q"},
                    "Key s occurs in column s of the scores, so its gradient is a sum over queries. Your code runs "
                    "without an error only if T = S."),
            Mistake("ATB-5", {"ds @ k, ds.mT @ q": "ds @ q, ds.mT @ k"},
                    "You compute the gradient of the queries from the queries, and that of the keys from the keys. The "
                    "gradient of one factor of a product contains the other factor. Your code runs without an error "
                    "only if T = S."),
            Mistake("ATB-7", {"softmax_backward(p, dp)": "dp"},
                    "Your backward leaves out softmax. dp is the gradient of the weights, not of the scores."),
            Mistake("ATB-2", {SCALE: " / q.shape[-1]"},
                    "You divide by D. The scores contain the factor 1 / sqrt(D) once."),
            Mistake("ATB-2b", {SCALE: " * math.sqrt(q.shape[-1])"},
                    "You multiply by sqrt(D). Backward does not undo the division of forward: the derivative "
                    "contains the same factor 1 / sqrt(D)."),
            Mistake("ATB-8a", {"softmax_backward(p, dp)": "p * dp"},
                    "Each weight depends on all scores of its row, so the sum over the row is missing. The given "
                    "softmax_backward contains it."),
            Mistake("ATB-8b", {"softmax_backward(p, dp)": "p * (1 - p) * dp"},
                    "This is the derivative of the sigmoid, which is only the diagonal of softmax's Jacobian. Each "
                    "weight depends on all scores of its row."),
            Mistake("ATB-12", {"softmax_backward(p, dp)": "softmax_backward(dp, p)"},
                    "You have swapped the arguments of softmax_backward. The weights come first, then their "
                    "gradient."),
            Mistake("ATB-13", {"p.mT": "p.T", "v.mT": "v.T", "ds.mT": "ds.T"},
                    ".T reverses all axes, including the batch, and is correct only for two axes. Swap the last two "
                    "axes instead."),
            Mistake("ATB-17", {"dy @ v.mT": "dy @ k.mT"},
                    "You compute the gradient of the weights from the keys. In y = p v the other factor is v."),
            Mistake("XAT-5f", {"dlater + dmemory": "(dlater + dmemory) / 2"},
                    "You average the gradients of this layer and the later ones. They add up: every layer that uses "
                    "the memory affects the loss."),
            Mistake("XAT-5g", {"dlater + dmemory": "2 * dlater + dmemory"},
                    "You add the gradient from the later layers twice."),
            Mistake("XAT-5h", {"dv @ w_v.T": "(dv + dlater) @ w_v.T", "dlater + dmemory": "dmemory"},
                    "You send the gradient from the later layers through w_v. It is already a gradient of memory and "
                    "is only added."),
            Mistake("XAT-11b", {"dk @ w_k.T + dv @ w_v.T": "dk + dv"},
                    "Your gradients stop at the keys and values. To reach memory, they must pass through w_k and "
                    "w_v."),
            Mistake("XAT-11c", {"dq @ w_q.T": "dq"},
                    "Your gradient stops at the queries. To reach x, it must pass through w_q."),
            Mistake("XAT-17", {"ds @ k,": "ds @ memory,", "ds.mT @ q": "ds.mT @ x"},
                    "You use x and memory themselves in place of the queries and keys. The scores are the product of "
                    "q and k, so these are the other factors."),
        ),
        alternatives={"one term after the other": {"dk @ w_k.T + dv @ w_v.T": "dk @ w_k.T", "dlater + dmemory":
                                                  "dlater + dmemory + dv @ w_v.T"},
                      "einsum": {"p.mT @ dy": 'np.einsum("...ts,...td->...sd", p, dy)'}}),
]
