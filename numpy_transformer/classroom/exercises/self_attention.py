"""Self-attention as a class: multi-head, with a mask, forward and backward."""

import math
from types import SimpleNamespace

import numpy as np

from ... import layers
from ..exercise import Exercise, Mistake
from .given import Parameter, loaded
from .heads import THREE_WAYS, merge_heads, split_heads
from .linear import Linear
from .softmax import softmax, softmax_backward


class SelfAttention:
    """Multi-head attention of a sequence on itself; may be used several times before its gradients are asked for.

    q, k, v = heads of query(x), key(x), value(x),  p = softmax(q kᵀ / sqrt(d)) over visible keys,
    y = output(merged heads of p v).  backward belongs to the latest forward that has had no backward yet.
    For float32 arguments y and dx are float32: math.sqrt(d) keeps it, np.sqrt(d) makes it float64.
    """

    def __init__(self, num_heads, query, key, value, output):
        """num_heads: int, H.  query, key, value, output: weight (D, D) and bias (D,) of each Linear; d = D / H."""
        self.num_heads = num_heads
        self.query, self.key, self.value, self.output = Linear(*query), Linear(*key), Linear(*value), Linear(*output)
        self.memory = []                        # what forward remembers, the latest last

    def forward(self, x, mask):
        """x: (..., T, D).  mask: (T, T) boolean, True = may attend, never a whole row False.  Return y: (..., T, D)."""
        q, k, v = (split_heads(part.forward(x), self.num_heads) for part in (self.query, self.key, self.value))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        p = softmax(np.where(mask, scores, -np.inf))
        self.memory.append((q, k, v, p))
        return self.output.forward(merge_heads(p @ v))

    def backward(self, dy):
        """dy: (..., T, D), dL/dy.  Return dx: (..., T, D); the Linears add into their weight.grad and bias.grad."""
        q, k, v, p = self.memory.pop()
        dheads = split_heads(self.output.backward(dy), self.num_heads)
        dv = p.mT @ dheads
        dp = dheads @ v.mT
        ds = softmax_backward(p, dp) / math.sqrt(k.shape[-1])
        dq, dk = ds @ k, ds.mT @ q
        dx = self.query.backward(merge_heads(dq))
        dx = dx + self.key.backward(merge_heads(dk))
        dx = dx + self.value.backward(merge_heads(dv))
        return dx


def draw_twice(rng, n):
    """Used twice, with other lengths and masks, the backwards in reverse order."""
    def normal(length):
        return rng.standard_normal((*n.lead[:-1], length, n.D))
    T, S = n.lead[-1], n.S
    linears = tuple((rng.standard_normal((n.D, n.D)) / math.sqrt(n.D), rng.standard_normal(n.D)) for _ in range(4))
    return (n.H, *linears), (("forward", (normal(T), np.tri(T, dtype=bool))),
                             ("forward", (normal(S), (rng.random((S, S)) < 0.5) | np.eye(S, dtype=bool))),
                             ("backward", (normal(S),)), ("backward", (normal(T),)))


def tiny(rng):
    return [("three tokens", draw_twice(rng, SimpleNamespace(lead=(3,), S=3, D=4, H=2)))]


def by_package(num_heads, *linears):
    layer = layers.SelfAttention(len(linears[0][0]), num_heads)
    return loaded(layer, {f"{name}.{part}": array for name, arrays in zip(("query", "key", "value", "output"), linears)
                          for part, array in zip(("weight", "bias"), arrays)})


SPLIT, HIDDEN, BACK = ("split_heads(part.forward(x), self.num_heads)", "np.where(mask, scores, -np.inf)",
                       "split_heads(self.output.backward(dy), self.num_heads)")

EXERCISES = [
    Exercise(
        "07.6", "Self-attention, a class", minutes=45, lines=15,
        solution=SelfAttention, write=("forward", "backward"), inputs=draw_twice, edges=tiny, reference=by_package,
        given=(Parameter, Linear, softmax, softmax_backward, split_heads, merge_heads),
        outputs=("y", "second y", "second dx", "dx", "query.weight.grad", "query.bias.grad", "key.weight.grad",
                 "value.weight.grad", "value.bias.grad", "output.weight.grad", "output.bias.grad"),
        hints=("Write forward as lines that each do one thing. backward has one line for each of them, from the last "
               "to the first. What must forward remember for it?",
               "Forward: three Linears and their heads, scores, hidden ones -inf, softmax, mean of the values, merge, "
               "output. Backward: output, split, the five lines of attention_backward, and for each of dq, dk, dv "
               "merge and Linear.",
               "A forward keeps q, k, v and p by append, its backward pops them: dv = pᵀ dheads, ds = "
               "softmax_backward(p, dheads vᵀ) / sqrt(d), dq = ds k, dk = dsᵀ q. dx is the sum of what the three "
               "Linears give back."),
        mistakes=(
            Mistake("ATF-1", {"k.mT / math.sqrt(q.shape[-1])": "k.mT"},
                    "forward does not divide the scores by sqrt(d): their variance grows with d."),
            Mistake("ATF-2", {"q.shape[-1]": "x.shape[-1]", "k.shape[-1]": "dy.shape[-1]"},
                    "The scores are divided by sqrt(D), the width of all heads together. A score is a sum over the d "
                    "features of one head."),
            Mistake("ATB-1", {" / math.sqrt(k.shape[-1])": ""},
                    "1 / sqrt(d) is missing in backward: it is a factor of the scores, so dq and dk carry it too."),
            Mistake("ATB-3", {"p.mT @ dheads": "p @ dheads"},
                    "dv needs the weights transposed: value s went to all queries, with the weights of column s."),
            Mistake("ATB-4", {"ds.mT @ q": "ds @ q"},
                    "Key s occurs in column s of the scores: dk is a sum over queries, and yours goes over keys."),
            Mistake("ATB-5", {"ds @ k, ds.mT @ q": "ds @ q, ds.mT @ k"},
                    "Yours makes dq of queries and dk of keys. In a product each factor's gradient holds the other "
                    "factor."),
            Mistake("ATB-7", {"softmax_backward(p, dp)": "dp"},
                    "The way back leaves out softmax: dp is the gradient of the weights, not of the scores."),
            Mistake("ATB-8", {"softmax_backward(p, dp)": "p * (1 - p) * dp"},
                    "That is the derivative of the sigmoid: each weight depends on all scores of its row."),
            Mistake("MSK-1", {HIDDEN: "scores"},
                    "The mask is not used: hidden tokens are seen, the future among them."),
            Mistake("MSK-3", {"(mask, scores, -np.inf)": "(mask, -np.inf, scores)"},
                    "True and False are swapped: True = may attend. The last token of a causal mask has nothing left "
                    "then."),
            Mistake("MSK-7", {HIDDEN: "scores * mask"},
                    "A hidden score becomes 0, and exp(0) = 1: the key keeps a weight. Only a score of -inf has weight "
                    "0."),
            Mistake("HD-1", {SPLIT: "part.forward(x).reshape(*x.shape[:-2], self.num_heads, x.shape[-2], -1)",
                             BACK: "self.output.backward(dy).reshape(q.shape)",
                             "merge_heads(p @ v)": "(p @ v).reshape(x.shape)",
                             "merge_heads(dq)": "dq.reshape(dy.shape)", "merge_heads(dk)": "dk.reshape(dy.shape)",
                             "merge_heads(dv)": "dv.reshape(dy.shape)"},
                    "Heads are split by one reshape and merged by one: a head gets all features of a few tokens, not "
                    "its features of every token. The gradients fit this forward, so no gradient check finds it."),
            Mistake("HD-3", {"merge_heads(p @ v)": "(p @ v).reshape(x.shape)"},
                    "forward merges the heads by a reshape alone: the right shape, with tokens mixed up."),
            Mistake("HD-5a", {"dx = dx + self.key.": "self.key.", "dx = dx + self.value.": "self.value."},
                    f"dx comes from the queries alone. {THREE_WAYS}"),
            Mistake("HD-5b", {"dx = dx + self.value.": "dx = self.value."},
                    f"dx comes from the values alone: each line overwrites the one before. {THREE_WAYS}"),
            Mistake("HD-5c", {"dx = dx + self.value.": "self.value."}, f"The values are missing in dx. {THREE_WAYS}"),
            Mistake("HD-5d", {"dx = dx + self.key.": "self.key."}, f"The keys are missing in dx. {THREE_WAYS}"),
            Mistake("HD-5e", {"dx = dx + self.key.": "dx = self.key."}, f"The queries are missing in dx. {THREE_WAYS}"),
            Mistake("HD-10", {"self.memory.append((q, k, v, p))": "self.memory = [(q, k, v, p)]",
                              "self.memory.pop()": "self.memory[-1]"},
                    "forward keeps one set of arrays, and its second use overwrites the first: append to a list, and "
                    "pop."),
            Mistake("HD-13", {BACK: "split_heads(dy, self.num_heads)"},
                    "backward leaves out the output layer: dy goes through its backward first, which also finds the "
                    "gradients of its weight and bias."),
            Mistake("HD-12", {"self.memory.pop()": "self.memory.pop(0)"},
                    "backward takes the oldest memory. It belongs to the latest forward without one: last in, first "
                    "out."),
        ),
        alternatives={"einsum": {"p.mT @ dheads": 'np.einsum("...ts,...td->...sd", p, dheads)'},
                      "scaled queries": {"q @ k.mT / math.sqrt(q.shape[-1])": "(q / math.sqrt(q.shape[-1])) @ k.mT"},
                      "-1e9": {HIDDEN: "np.where(mask, scores, -1e9)"}}),
]
