"""Experts: the gates of a router, the sum of what experts return, and the loss that balances their use."""

import numpy as np

from ...layers import BalancedRouter, Linear, Router
from ...module import Module
from .definition import Exercise, Mistake


def expert_gates(z, k, dg):
    best = np.argsort(-z, axis=-1)[..., :k]
    kept = np.zeros(z.shape, bool)
    np.put_along_axis(kept, best, True, axis=-1)
    masked = np.where(kept, z, -np.inf)
    e = np.exp(masked - masked.max(-1, keepdims=True))
    g = e / e.sum(-1, keepdims=True)
    dz = g * (dg - (g * dg).sum(-1, keepdims=True))
    return g, dz


def draw_gates(rng, n, k=None):
    shape = *n.lead, n.V
    return rng.standard_normal(shape), k or n.H, rng.standard_normal(shape)


def special_gates(rng):
    def logits(*shape):
        return rng.standard_normal(shape)
    return [("one_expert", (logits(4, 5), 1, logits(4, 5))), ("all_experts", (logits(3, 4), 4, logits(3, 4))),
            ("far_apart", (3 * logits(4, 6) + [[-3000], [0], [1000], [-200]], 3, logits(4, 6)))]


def identity_of(width):
    """A Linear that returns its input."""
    linear = Linear(width, width, bias=False).astype(np.float64)
    linear.weight.data = np.eye(width)
    return linear


def by_router(z, k, dg):
    router = Router(z.shape[-1], z.shape[-1], k).astype(np.float64)
    router.linear = identity_of(z.shape[-1])
    g = router(z.reshape(-1, z.shape[-1]))
    return g.reshape(z.shape), router.backward(dg.reshape(g.shape)).reshape(z.shape)


def combine(h, g, tokens, dy):
    y = np.zeros(dy.shape, dy.dtype)
    np.add.at(y, tokens, g[:, None] * h)
    dh = g[:, None] * dy[tokens]
    dg = (h * dy[tokens]).sum(-1)
    return y, dh, dg


def draw_pairs(rng, n):
    tokens = rng.permutation(np.repeat(np.arange(n.T), n.H))
    return rng.standard_normal((len(tokens), n.D)), rng.standard_normal(len(tokens)), tokens, rng.standard_normal((n.T, n.D))


def special_pairs(rng):
    def pairs(tokens, N, D=3):
        return rng.standard_normal((len(tokens), D)), rng.standard_normal(len(tokens)), np.array(tokens), \
            rng.standard_normal((N, D))
    return [("token_without_expert", pairs([0, 2, 0, 2, 2, 0, 0, 2], 4)), ("one_expert_each", pairs([2, 0, 1, 3], 4)),
            ("only_token", pairs([0, 0, 0], 1))]


def by_loops(h, g, tokens, dy):
    y, dh, dg = np.zeros(dy.shape), np.zeros(h.shape), np.zeros(g.shape)
    for pair, token in enumerate(tokens):
        for i in range(dy.shape[1]):
            y[token, i] += g[pair] * h[pair, i]
            dh[pair, i] = g[pair] * dy[token, i]
            dg[pair] += h[pair, i] * dy[token, i]
    return y, dh, dg


def balancing_loss(z, chosen, coefficient):
    N, E = z.shape
    p = np.exp(z - z.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    f = (np.bincount(chosen.ravel(), minlength=E) / chosen.size).astype(z.dtype)
    loss = coefficient * E * (f * p.mean(0)).sum()
    dz = coefficient * E / N * p * (f - (f * p).sum(-1, keepdims=True))
    return loss, dz


def draw_choices(rng, N, E, k):
    return np.argsort(rng.random((N, E)), axis=-1)[:, :k] if k < E else np.tile(np.arange(E), (N, 1))


def draw_balance(rng, n):
    return rng.standard_normal((n.T, n.V)), draw_choices(rng, n.T, n.V, n.H), round(float(rng.uniform(1.5, 2.5)), 3)


def special_balance(rng):
    z = rng.standard_normal((6, 4))
    far = z * [[1000], [1], [1], [1], [1], [1]] + 2000 * np.array([[1], [0], [-1]] * 2)
    return [("all_choose_expert_0", (z, np.zeros((6, 1), int), 0.01)), ("k_1", (z, draw_choices(rng, 6, 4, 1), 0.5)),
            ("equal_use", (z, draw_choices(rng, 6, 4, 4), 0.5)),
            ("logits_thousands", (far, draw_choices(rng, 6, 4, 2), 0.5))]


class Chosen(Module):
    """A router that has chosen already."""

    def __init__(self, chosen, num_experts):
        self.chosen, self.num_experts, self.linear = chosen, num_experts, identity_of(num_experts)

    def forward(self, x):
        return self.linear(x)

    def backward(self, dg):
        return self.linear.backward(dg)


def by_balanced_router(z, chosen, coefficient):
    router = BalancedRouter(Chosen(chosen, z.shape[-1]), coefficient)
    router(z)
    return float(router.auxiliary_loss), router.backward(np.zeros(z.shape))


MASKED, WEIGHTED = "masked = np.where(kept, z, -np.inf)", "g = e / e.sum(-1, keepdims=True)"
DZ = "dz = g * (dg - (g * dg).sum(-1, keepdims=True))"
ADDED, SHARE, SLOPE = "np.add.at(y, tokens, g[:, None] * h)", "/ chosen.size", "p * (f - (f * p).sum(-1, keepdims=True))"


EXERCISES = [
    Exercise(
        "25.1", minutes=15, lines=8, number_sizes=("tiny",), powers=({"dg": 3},),
        solution=expert_gates, reference=by_router, inputs=draw_gates, edges=special_gates, outputs=("g", "dz"),
        must_be_zero={"gates_sum_1": lambda inputs, outputs: outputs[0].sum(-1) - 1,
                      "dz_sums_0": lambda inputs, outputs: outputs[1].sum(-1)},
        mistakes=(
            Mistake("GAT-1", {MASKED: "masked = z", WEIGHTED: "g = kept * e / e.sum(-1, keepdims=True)"}),
            Mistake("GAT-2", {DZ: "dz = g * dg"}),
            Mistake("GAT-3", {DZ: "dz = g * (dg - dg.sum(-1, keepdims=True))"}),
            Mistake("GAT-4", {MASKED: "masked = np.where(kept, z, 0)"}),
            Mistake("GAT-5", {"np.argsort(-z": "np.argsort(z"}),
            Mistake("GAT-6", {MASKED: "z[~kept] = -np.inf\n    masked = z"}),
            Mistake("GAT-7", {DZ: "p = np.exp(z - z.max(-1, keepdims=True))\n    p = p / p.sum(-1, keepdims=True)\n"
                                  "    dz = p * (dg - (p * dg).sum(-1, keepdims=True))"}),
            Mistake("GAT-8", {WEIGHTED: "g = kept / k"}),
        ),
        alternatives={
            "the k-th largest": {"kept = np.zeros(z.shape, bool)\n    np.put_along_axis(kept, best, True, axis=-1)":
                                 "kept = z >= np.sort(z, axis=-1)[..., -k, None]"},
            "softmax over all, divided by the chosen": {
                MASKED: "masked = z",
                "e = np.exp(masked - masked.max(-1, keepdims=True))":
                    "e = kept * np.exp(masked - masked.max(-1, keepdims=True))"}}),
    Exercise(
        "25.2", minutes=15, lines=5, size_letters="D",
        solution=combine, reference=by_loops, inputs=draw_pairs, edges=special_pairs, outputs=("y", "dh", "dg"),
        mistakes=(
            Mistake("CMB-1a", {ADDED: "y[tokens] += g[:, None] * h"}, twin="CMB-1b"),
            Mistake("CMB-1b", {ADDED: "y[tokens] = g[:, None] * h"}, twin="CMB-1a"),
            Mistake("CMB-2", {ADDED: "np.add.at(y, tokens, h)"}),
            Mistake("CMB-3", {"dh = g[:, None] * dy[tokens]": "dh = dy[tokens]"}),
            Mistake("CMB-4", {"(h * dy[tokens])": "(g[:, None] * h * dy[tokens])"}),
            Mistake("CMB-5", {"(h * dy[tokens]).sum(-1)": "(h * dy[tokens]).mean(-1)"}),
            Mistake("CMB-6", {"dh = g[:, None] * dy[tokens]":
                              "dh = g[:, None] * np.repeat(dy, len(tokens) // len(dy), axis=0)",
                              "(h * dy[tokens])": "(h * np.repeat(dy, len(tokens) // len(dy), axis=0))"}),
        ),
        alternatives={
            "one-hot": {ADDED: "y += (tokens == np.arange(len(dy))[:, None]).astype(dy.dtype) @ (g[:, None] * h)"},
            "einsum": {"(h * dy[tokens]).sum(-1)": 'np.einsum("pd,pd->p", h, dy[tokens])'}}),
    Exercise(
        "25.3", minutes=20, lines=7, number_sizes=("tiny",),
        solution=balancing_loss, reference=by_balanced_router, inputs=draw_balance, edges=special_balance,
        outputs=("loss", "dz"), must_be_zero={"dz_sums_0": lambda inputs, outputs: outputs[1].sum(-1)},
        mistakes=(
            Mistake("BAL-1", {SLOPE: "p * (p.mean(0) - (p.mean(0) * p).sum(-1, keepdims=True))"}),
            Mistake("BAL-2", {"loss = coefficient * E *": "loss = coefficient *", "dz = coefficient * E / N": "dz = coefficient / N"}),
            Mistake("BAL-3", {SHARE: "/ N"}),
            Mistake("BAL-4", {"coefficient * E / N * p": "coefficient * E * p"}),
            Mistake("BAL-5", {SLOPE: "np.tile(f, (N, 1))"}),
            Mistake("BAL-6", {SLOPE: "p * f"}),
            Mistake("BAL-7", {"(f * p.mean(0)).sum()": "(f * p.mean(0)).mean()"}),
            Mistake("BAL-8", {"p = p / p.sum(-1, keepdims=True)":
                              "kept = np.zeros(z.shape)\n    np.put_along_axis(kept, chosen, 1, axis=-1)\n"
                              "    p = kept * p / (kept * p).sum(-1, keepdims=True)"}),
            Mistake("BAL-9", {"np.bincount(chosen.ravel(), minlength=E) / chosen.size":
                              "np.bincount(chosen[:, 0], minlength=E) / N"}),
        ),
        alternatives={
            "one-hot": {"np.bincount(chosen.ravel(), minlength=E) / chosen.size":
                        "(chosen[..., None] == np.arange(E)).mean((0, 1))"},
            "matrix product": {"(f * p.mean(0)).sum()": "(p @ f).mean()", "(f * p).sum(-1, keepdims=True)": "(p @ f)[:, None]"}}),
]
