"""Cross-attention, forward and backward: queries from one sequence, keys and values from another."""

import math
from types import SimpleNamespace

import numpy as np

from ... import layers
from ..exercise import Exercise, Mistake
from .given import loaded
from .softmax import softmax, softmax_backward


def cross_attention(x, memory, w_q, w_k, w_v):
    """A decoder's sequence x attends to the encoder's output, the memory. One head, no padding.

    y = p v,  p = softmax(q kᵀ / sqrt(D)), with queries q, keys k and values v as a decoder makes them of x and memory.
    x: (..., T, D).  memory: (..., S, D).  w_q, w_k, w_v: (D, D), the projections to queries, keys and values.
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
    """The package's layer with one head, and an output that changes nothing."""
    return loaded(layers.CrossAttention(len(w_q), 1, bias=False), {
        "query.weight": w_q, "key.weight": w_k, "value.weight": w_v, "output.weight": np.eye(len(w_q))})


def by_cross_attention(x, memory, *weights):
    layer = package_layer(*weights)
    return layer(x, memory), layer.weights[..., 0, :, :]


def cross_attention_backward(x, memory, w_q, w_k, w_v, p, dy, dlater):
    """The gradients of both sequences. Every layer of the decoder attends to the same memory, this one and later ones.

    Forward was  q = x w_q,  k = memory w_k,  v = memory w_v,  p = softmax(q kᵀ / sqrt(D)),  y = p v.
    x: (..., T, D).  memory: (..., S, D).  w_q, w_k, w_v: (D, D).  p: (..., T, S).  dy: (..., T, D), dL/dy.
    dlater: (..., S, D), what reaches memory through the later layers alone, whose backward has run before.
    Return dx: (..., T, D), and dmemory: (..., S, D), what reaches memory through this layer and the later ones.
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
BOTH = "The memory was used for the keys and for the values: its gradient is the sum of both."

EXERCISES = [
    Exercise(
        "07.4", "Cross-attention", minutes=10, lines=6,
        solution=cross_attention, reference=by_cross_attention, given=(softmax,), outputs=("y", "p"),
        inputs=draw_forward,
        invariants=(("rows of p must sum to 1", lambda inputs, outputs: outputs[1].sum(-1) - 1),),
        hints=("Who asks, and who answers? The output has a row for each token of which sequence?",
               "The queries are made of x, the keys and the values of memory. Nothing is hidden: the whole source is "
               "known.",
               "q = x w_q, k = memory w_k, v = memory w_v; the rest is attention: p = softmax(q kᵀ / sqrt(D)), y = p "
               "v."),
        mistakes=(
            Mistake("XAT-1", {"memory @ w_k": "x @ w_k", "memory @ w_v": "x @ w_v"},
                    "Keys and values are made of x: this is self-attention, and the memory has no effect at all."),
            Mistake("XAT-2", {"x @ w_q": "memory @ w_q", "memory @ w_k": "x @ w_k", "memory @ w_v": "x @ w_v"},
                    "The roles are exchanged: here the memory asks and x answers, so y has a row for each token of the "
                    "memory."),
            Mistake("XAT-3a", {"memory @ w_v": "x @ w_v"},
                    "The values are made of x. Keys and values belong together, to the memory. This runs where S = T "
                    "alone."),
            Mistake("XAT-3b", {"memory @ w_k": "x @ w_k"},
                    "The keys are made of x. Keys and values belong together, to the memory. This runs where S = T "
                    "alone."),
            Mistake("XAT-4", {"softmax(scores)": "softmax(np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf))"},
                    "Yours has a causal mask. The source is complete before the first word is written, so all of it is "
                    "visible; the first word may need the last one of the source."),
            Mistake("XAT-6", {"x @ w_q": "memory @ w_q"},
                    "The queries are made of the memory: x has no effect at all. It is the decoder's tokens that ask."),
            Mistake("XAT-7", {"memory @ w_k": "memory @ w_v", "memory @ w_v": "memory @ w_k"},
                    "The matrices of keys and values are exchanged."),
            Mistake("ATF-1", {SCALE: ""}, "The scores are not divided by sqrt(D): their variance grows with D."),
            Mistake("ATF-2b", {SCALE: " / q.shape[-1]"},
                    "The scores are divided by D, without the root: they become too small, and the weights too even."),
            Mistake("ATF-2c", {SCALE: " / math.sqrt(k.shape[-2])"},
                    "The root is that of the number of keys. A score is a sum of D products, so D sets its size."),
            Mistake("XAT-10", {"memory @ w_v": "memory"},
                    "The memory itself is handed over. It goes through w_v first: what a token is found by and what it "
                    "hands over are two projections of it."),
            Mistake("ATF-4", {"softmax(scores)": "softmax(scores.mT).mT"},
                    "Softmax goes over the queries: the columns of p sum to 1. Each query shares its weight among the "
                    "keys."),
        ),
        alternatives={"einsum": {"q @ k.mT": 'np.einsum("...td,...sd->...ts", q, k)'}}),
    Exercise(
        "07.5", "Cross-attention, backward", minutes=25, lines=8,
        solution=cross_attention_backward, reference=by_cross_attention_backward, given=(softmax_backward,),
        inputs=draw_backward, edges=tiny, outputs=("dx", "dmemory"),
        hints=("In which lines of forward does x occur, and in which memory?",
               "Exercise 05.2 gives dq, dk and dv. Through which of them does the loss depend on x, through which on "
               "memory? Where an array is used several times, its gradients add up.",
               "dx = dq w_qᵀ. dmemory = dlater + dk w_kᵀ + dv w_vᵀ, a new array."),
        mistakes=(
            Mistake("XAT-1", {"memory @ w_k": "x @ w_k", "memory @ w_v": "x @ w_v"},
                    "Keys and values are made of x again. Forward made them of the memory. This runs where S = T "
                    "alone."),
            Mistake("XAT-2", {"dx, dlater + dmemory": "dlater + dmemory, dx"},
                    "dx and dmemory are returned in the wrong order."),
            Mistake("XAT-3", {"memory @ w_v": "x @ w_v"},
                    "The values are made of x. Forward made them of the memory. This runs where S = T alone."),
            Mistake("XAT-5a", {" + dv @ w_v.T": ""}, f"dmemory comes from the keys alone. {BOTH}"),
            Mistake("XAT-5b", {"dk @ w_k.T + ": ""}, f"dmemory comes from the values alone. {BOTH}"),
            Mistake("XAT-5c", {"dlater + ": ""},
                    "What the later layers have sent back is lost: every layer of the decoder has used the memory, so "
                    "the gradients of all layers add up."),
            Mistake("XAT-5d", {"dlater + dmemory": "dlater"},
                    "dmemory is what the later layers have sent back. This layer has used the memory, too, and adds "
                    "its part."),
            Mistake("XAT-5e", {"dmemory = ": "dmemory = dlater\n    dmemory += ", "dlater + ": ""},
                    "+= writes into dlater, which belongs to the caller: make a new array with +."),
            Mistake("XAT-8", {"dx = dq @ w_q.T": "dx = dq @ w_q.T + dk @ w_k.T + dv @ w_v.T"},
                    "dx is the sum of three, as in self-attention. Here x made the queries only. This runs where S = T "
                    "alone."),
            Mistake("XAT-9", {"dk @ w_k.T + dv @ w_v.T": "dk @ w_v.T + dv @ w_k.T"},
                    "The gradients of keys and values are sent back through each other's matrix."),
            Mistake("XAT-11", {"dq @ w_q.T": "dq", "dk @ w_k.T + dv @ w_v.T": "dk + dv"},
                    "The gradients stop at queries, keys and values: on to x and memory they go through w_q, w_k and "
                    "w_v."),
            Mistake("LIN-2a", {"w_q.T": "w_q"},
                    "dx is made with w_q as it is: the way back goes through it transposed. It is square, so this "
                    "runs."),
            Mistake("LIN-2b", {"dk @ w_k.T + dv @ w_v.T": "dk @ w_k + dv @ w_v"},
                    "dmemory is made with the matrices as they are: the way back goes through them transposed. They "
                    "are square, so this runs."),
            Mistake("ATB-1", {SCALE: ""},
                    "1 / sqrt(D) is missing: it is a factor of the scores, so dq and dk carry it too."),
            Mistake("ATB-3", {"p.mT @ dy": "p @ dy"},
                    "dv needs the weights transposed: value s went to all queries, with the weights of column s. This "
                    "runs where T = S alone."),
            Mistake("ATB-4", {"ds.mT @ q": "ds @ q"},
                    "Key s occurs in column s of the scores: dk is a sum over queries. This runs where T = S alone."),
            Mistake("ATB-5", {"ds @ k, ds.mT @ q": "ds @ q, ds.mT @ k"},
                    "Yours makes dq of queries and dk of keys. In a product each factor's gradient holds the other "
                    "factor. This runs where T = S alone."),
            Mistake("ATB-7", {"softmax_backward(p, dp)": "dp"},
                    "The way back leaves out softmax: dp is the gradient of the weights, not of the scores."),
        ),
        alternatives={"one way after the other": {"dk @ w_k.T + dv @ w_v.T": "dk @ w_k.T", "dlater + dmemory":
                                                  "dlater + dmemory + dv @ w_v.T"},
                      "einsum": {"p.mT @ dy": 'np.einsum("...ts,...td->...sd", p, dy)'}}),
]
