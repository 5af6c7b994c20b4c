"""Self-attention as a class: several heads, with a mask, forward and backward."""

import math
from types import SimpleNamespace

import numpy as np

from ... import layers
from .definition import Exercise, Mistake
from .heads import merge_heads, split_heads
from .linear import Linear
from .shared import Parameter, loaded
from .softmax import softmax, softmax_backward


class SelfAttention:
    def __init__(self, num_heads, query, key, value, output):
        self.num_heads = num_heads
        self.query = Linear(*query)
        self.key = Linear(*key)
        self.value = Linear(*value)
        self.output = Linear(*output)
        self.saved = []                         # {saved}

    def forward(self, x, mask):
        q, k, v = (split_heads(part.forward(x), self.num_heads) for part in (self.query, self.key, self.value))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        p = softmax(np.where(mask, scores, -np.inf))
        self.saved.append((q, k, v, p))
        return self.output.forward(merge_heads(p @ v))

    def backward(self, dy):
        q, k, v, p = self.saved.pop()
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
    """Three uses with different lengths and masks, and backward for the latest one each time.

    The third forward follows a backward, whose gradients it must leave as they are.
    """
    def normal(length):
        return rng.standard_normal((*n.lead[:-1], length, n.D))
    T, S = n.lead[-1], n.S
    linears = tuple((rng.standard_normal((n.D, n.D)) / math.sqrt(n.D), rng.standard_normal(n.D)) for _ in range(4))
    return (n.H, *linears), (("forward", (normal(T), np.tri(T, dtype=bool))),
                             ("forward", (normal(S), (rng.random((S, S)) < 0.5) | np.eye(S, dtype=bool))),
                             ("backward", (normal(S),)), ("forward", (normal(T), np.tri(T, dtype=bool))),
                             ("backward", (normal(T),)), ("backward", (normal(T),)))


def tiny(rng):
    return [("three_tokens", draw_twice(rng, SimpleNamespace(lead=(3,), S=3, D=4, H=2))),
            ("scores_far_below", far_below(rng))]


def far_below(rng):
    """Queries and keys that are opposite in one feature of each head, so that all scores are about -20,000."""
    (num_heads, query, key, *others), calls = draw_twice(rng, SimpleNamespace(lead=(2, 4), S=3, D=6, H=2))
    for (weight, bias), feature in ((query, 1e5), (key, -0.35)):
        weight[:, ::3] = 0
        bias[::3] = feature
    return (num_heads, query, key, *others), calls


def by_package(num_heads, *linears):
    layer = layers.SelfAttention(len(linears[0][0]), num_heads)
    return loaded(layer, {f"{name}.{part}": array for name, arrays in zip(("query", "key", "value", "output"), linears)
                          for part, array in zip(("weight", "bias"), arrays)})


HIDDEN = "np.where(mask, scores, -np.inf)"


EXERCISES = [
    Exercise(
        "07.6", minutes=45, lines=15,
        number_sizes=("tiny", "mixed"), powers=({"query": 3, "key": -3}, {"query": -3, "key": 3, "value": 3, "output": 3}),
        solution=SelfAttention, write=("forward", "backward"), inputs=draw_twice, edges=tiny, reference=by_package,
        given=(Parameter,), imported=(Linear, softmax, softmax_backward, split_heads, merge_heads),
        outputs=("y", "second y", "second dx", "third y", "third dx", "dx", "query.weight.grad", "query.bias.grad",
                 "key.weight.grad", "value.weight.grad", "value.bias.grad", "output.weight.grad", "output.bias.grad"),
        mistakes=(
            Mistake("ATF-1", {"k.mT / math.sqrt(q.shape[-1])": "k.mT"}),
            Mistake("ATF-2", {"q.shape[-1]": "x.shape[-1]", "k.shape[-1]": "dy.shape[-1]"}),
            Mistake("LIN-7c", {
                "self.saved.append((q, k, v, p))":
                    "for part in (self.query, self.key, self.value, self.output):\n"
                    "            part.weight.grad[:] = 0\n            part.bias.grad[:] = 0\n"
                    "        self.saved.append((q, k, v, p))"}),
            Mistake("ATB-1", {" / math.sqrt(k.shape[-1])": ""}),
            Mistake("ATB-3", {"p.mT @ dheads": "p @ dheads"}),
            Mistake("ATB-4", {"ds.mT @ q": "ds @ q"}),
            Mistake("ATB-5", {"ds @ k, ds.mT @ q": "ds @ q, ds.mT @ k"}),
            Mistake("ATB-7", {"softmax_backward(p, dp)": "dp"}),
            Mistake("ATB-8", {"softmax_backward(p, dp)": "p * (1 - p) * dp"}),
            Mistake("MSK-1", {"np.where(mask, scores, -np.inf)": "scores"}),
            Mistake("MSK-3", {"(mask, scores, -np.inf)": "(mask, -np.inf, scores)"}),
            Mistake("MSK-7", {"np.where(mask, scores, -np.inf)": "scores * mask"}),
            Mistake("HD-1", {
                "split_heads(part.forward(x), self.num_heads)":
                    "part.forward(x).reshape(*x.shape[:-2], self.num_heads, x.shape[-2], -1)",
                "split_heads(self.output.backward(dy), self.num_heads)": "self.output.backward(dy).reshape(q.shape)",
                "merge_heads(p @ v)": "(p @ v).reshape(x.shape)",
                "merge_heads(dq)": "dq.reshape(dy.shape)",
                "merge_heads(dk)": "dk.reshape(dy.shape)",
                "merge_heads(dv)": "dv.reshape(dy.shape)"}),
            Mistake("HD-3", {"merge_heads(p @ v)": "(p @ v).reshape(x.shape)"}),
            Mistake("HD-5a", {"dx = dx + self.key.": "self.key.", "dx = dx + self.value.": "self.value."}),
            Mistake("HD-5b", {"dx = dx + self.value.": "dx = self.value."}),
            Mistake("HD-5c", {"dx = dx + self.value.": "self.value."}),
            Mistake("HD-5d", {"dx = dx + self.key.": "self.key."}),
            Mistake("HD-5e", {"dx = dx + self.key.": "dx = self.key."}),
            Mistake("HD-10", {
                "self.saved.append((q, k, v, p))": "self.saved = [(q, k, v, p)]",
                "self.saved.pop()": "self.saved[-1]"}),
            Mistake("HD-13", {
                "split_heads(self.output.backward(dy), self.num_heads)": "split_heads(dy, self.num_heads)"}),
            Mistake("MSK-2", {"softmax(np.where(mask, scores, -np.inf))": "softmax(scores) * mask"}),
            Mistake("MSK-4", {"np.where(mask, scores, -np.inf)": "np.where(mask.T, scores, -np.inf)"}),
            Mistake("MSK-8", {"np.where(mask, scores, -np.inf)": "np.where(mask, scores, -1.0)"}),
            Mistake("ATF-2b", {
                "k.mT / math.sqrt(q.shape[-1])": "k.mT / q.shape[-1]",
                " / math.sqrt(k.shape[-1])": " / k.shape[-1]"}),
            Mistake("ATF-2c", {"q.shape[-1]": "q.shape[-2]", "k.shape[-1]": "k.shape[-2]"}),
            Mistake("ATF-2d", {"q.shape[-1]": "self.num_heads", "k.shape[-1]": "self.num_heads"}),
            Mistake("ATF-4", {
                "softmax(np.where(mask, scores, -np.inf))": "softmax(np.where(mask, scores, -np.inf).mT).mT"}),
            Mistake("ATF-5", {"merge_heads(p @ v)": "merge_heads(p.mT @ v)"}),
            Mistake("ATB-8a", {"softmax_backward(p, dp)": "p * dp"}),
            Mistake("ATB-6", {"dq, dk = ds @ k, ds.mT @ q": "dk, dq = ds @ k, ds.mT @ q"}),
            Mistake("ATF-6", {"k.mT": "k.T"}),
        ),
        alternatives={"einsum": {"p.mT @ dheads": 'np.einsum("...ts,...td->...sd", p, dheads)'},
                      "scaled queries": {"q @ k.mT / math.sqrt(q.shape[-1])": "(q / math.sqrt(q.shape[-1])) @ k.mT"},
                      "-1e9": {HIDDEN: "np.where(mask, scores, -1e9)"}}),
]
