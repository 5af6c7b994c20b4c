"""Predictions of shapes, sums, signs and influences, made before anything is run."""

import math

import numpy as np

from ...inspection.influence import influence
from ...layers import (CrossAttention, CrossEntropyLoss, FeedForward, LayerNorm, SelfAttention, Softmax, causal_mask,
                       padding_mask)
from ...layers.heads import split_heads
from ...models import Decoder, Encoder
from .definition import Exercise, Mistake


def shapes_in_attention(B, T, S, D, H):
    queries = np.array([B, H, T, D // H])
    weights = np.array([B, H, T, S])
    total = B * H * T
    mask = np.array([B, 1, 1, S])
    gradient = np.array([D, D])
    dmemory = np.array([B, S, D])
    return queries, weights, total, mask, gradient, dmemory


def draw_shapes(rng, n):
    """Draws sizes that all differ; D is a multiple of H."""
    B, T, S, H, d = map(int, 2 + rng.permutation(8)[:5])
    return B, T, S, H * d, H


def run_attention(B, T, S, D, H):
    rng = np.random.default_rng(61)
    x = rng.standard_normal((B, T, D))
    memory = rng.standard_normal((B, S, D))
    ids = rng.integers(0, 3, (B, S))
    layer = CrossAttention(D, H, rng=rng).astype(np.float64)
    queries = split_heads(layer.query.eval()(x), H)
    layer.train()(x, memory)
    dx, dmemory = layer.backward(rng.standard_normal(x.shape))
    return (np.array(queries.shape), np.array(layer.weights.shape), round(layer.weights.sum(), 9),
            np.array(padding_mask(ids).shape), np.array(layer.key.weight.grad.shape), np.array(dmemory.shape))


def sums_and_signs(N, V):
    row_sum = 0
    at_target = -1
    elsewhere = 1
    loss = math.log(V)
    entry = (1 / V - 1) / N
    constant = 0
    return row_sum, at_target, elsewhere, loss, entry, constant


def run_losses(N, V):
    rng = np.random.default_rng(62)
    z = rng.standard_normal((N, V))
    targets = rng.integers(0, V, N)
    criterion = CrossEntropyLoss()
    softmax = Softmax()
    criterion(z, targets)
    dz = criterion.backward()
    elsewhere = np.delete(dz.ravel(), np.arange(N) * V + targets)
    loss = criterion(np.ones((N, V)), targets)
    equal = criterion.backward()
    softmax(z)
    return (only(dz.sum(-1)), only(np.sign(dz[np.arange(N), targets])), only(np.sign(elsewhere)), float(loss),
            only(equal[np.arange(N), targets]), only(softmax.backward(np.ones((N, V)))))


def only(values):
    """Returns the one number to which all entries of an array are equal, up to rounding."""
    first, = {round(float(value), 12) + 0.0 for value in np.ravel(values)}
    return first


def what_moves_what():
    causal = np.array([0, 0, 1, 1, 1])
    padded = np.array([0, 0, 0, 1, 0])
    window = np.array([0, 1, 1, 1, 0])
    alone = np.array([0, 1, 0, 0, 0])
    cross = np.array([1, 1, 1, 1, 1])
    return causal, padded, window, alone, cross


def run_influence():
    rng = np.random.default_rng(63)
    T = 5
    x, memory = rng.standard_normal((2, T, 6))
    near = np.tri(T, dtype=bool) & ~np.tri(T, k=-2, dtype=bool)
    changes = (influence(Decoder(2, 6, 2, 8, rng=1), x, causal_mask(T))[:, 2],
               influence(Encoder(2, 6, 2, 8, rng=2), x, padding_mask(np.array([5, 6, 7, 0, 0])))[:, 3],
               influence(Encoder(2, 6, 2, 8, rng=3), x, near)[:, 1],
               influence(FeedForward(6, 8, rng=4), x)[:, 1],
               influence(CrossAttention(6, 2, rng=5), x, memory, argument=1)[:, 4])
    return tuple((change > 0).astype(int) for change in changes)


def gradients_without_computing():
    row_sum = 0
    dbeta = 15
    all_ones = 0
    key_bias = 0
    dx = 1
    weight_too = 0
    return row_sum, dbeta, all_ones, key_bias, dx, weight_too


def run_gradients():
    rng = np.random.default_rng(64)
    x, dy = rng.standard_normal((2, 3, 5, 12))
    ones = np.ones((3, 5, 12))
    norm, attention, f = (layer.astype(np.float64) for layer in (
        LayerNorm(12), SelfAttention(12, 2, rng=rng), FeedForward(12, 16, rng=rng)))
    norm(x)
    all_ones = norm.backward(ones)
    dbeta = norm.beta.grad.copy()
    norm.gamma.data = rng.standard_normal(12)
    norm(x)
    row_sums = norm.backward(dy).sum(-1)
    attention(x)
    attention.backward(dy)
    f.down.weight.data = f.down.bias.data = 0
    f(x)
    dx = ones + f.backward(ones)
    return (only(row_sums), only(dbeta), only(all_ones), only(attention.key.bias.grad), only(dx),
            int(not f.down.weight.grad.any()))


EXERCISES = [
    Exercise(
        "07.7", minutes=10, lines=7, size_letters="TSD", kind="predict",
        solution=shapes_in_attention, reference=run_attention, inputs=draw_shapes,
        outputs=tuple(f"answer {i} ({what})" for i, what in enumerate((
            "queries", "weights", "total", "mask", "dW_K", "dmemory"), 1)),
        mistakes=(
            Mistake("PRD-07.7a", {"[B, H, T, D // H]": "[B, T, H, D // H]"}),
            Mistake("PRD-07.7b", {"[B, H, T, D // H]": "[B, H, T, D]"}),
            Mistake("PRD-07.7c", {"[B, H, T, S]": "[B, T, S]"}),
            Mistake("PRD-07.7d", {"[B, H, T, S]": "[B, H, S, T]"}),
            Mistake("PRD-07.7e", {"[B, H, T, S]": "[B, H, T, T]"}),
            Mistake("PRD-07.7f", {"total = B * H * T": "total = 1"}),
            Mistake("PRD-07.7g", {"total = B * H * T": "total = B * T"}),
            Mistake("PRD-07.7h", {"total = B * H * T": "total = B * H * S"}),
            Mistake("PRD-07.7i", {"[B, 1, 1, S]": "[B, S]"}),
            Mistake("PRD-07.7j", {"[B, 1, 1, S]": "[B, 1, S, 1]"}),
            Mistake("PRD-07.7k", {"[B, 1, 1, S]": "[B, 1, T, S]"}),
            Mistake("PRD-07.7l", {"[D, D]": "[B, D, D]"}),
            Mistake("PRD-07.7m", {"[D, D]": "[D, D // H]"}),
            Mistake("PRD-07.7n", {"[B, S, D]": "[B, T, D]"}),
            Mistake("PRD-07.7o", {"[B, H, T, D // H]": "[B, H, D // H, T]"}),
            Mistake("PRD-07.7p", {"[B, H, T, D // H]": "[B, T, D]"}),
            Mistake("PRD-07.7q", {"[B, H, T, D // H]": "[B, T, D // H]"}),
            Mistake("PRD-07.7r", {"[B, H, T, S]": "[B, H, S, S]"}),
            Mistake("PRD-07.7s", {"total = B * H * T": "total = H * T"}),
            Mistake("PRD-07.7t", {"total = B * H * T": "total = B * H * T * S"}),
            Mistake("PRD-07.7u", {"total = B * H * T": "total = B * H"}),
            Mistake("PRD-07.7v", {"[B, 1, 1, S]": "[1, 1, 1, S]"}),
            Mistake("PRD-07.7w", {"[B, 1, 1, S]": "[B, H, T, S]"}),
            Mistake("PRD-07.7x", {"[B, 1, 1, S]": "[B, 1, 1, T]"}),
            Mistake("PRD-07.7y", {"[D, D]": "[B, S, D]"}),
            Mistake("PRD-07.7z", {"[B, S, D]": "[B, H, S, D // H]"}),
        )),
    Exercise(
        "01.6", minutes=10, lines=7, kind="predict",
        solution=sums_and_signs, reference=run_losses,
        inputs=lambda rng, n: tuple(map(int, 3 + rng.permutation(20)[:2])),
        outputs=tuple(f"answer {i}" for i in range(1, 7)),
        mistakes=(
            Mistake("PRD-01.6a", {"row_sum = 0": "row_sum = 1"}),
            Mistake("PRD-01.6b", {"at_target = -1": "at_target = 1", "elsewhere = 1": "elsewhere = -1"}),
            Mistake("PRD-01.6c", {"elsewhere = 1": "elsewhere = 0"}),
            Mistake("PRD-01.6d", {"math.log(V)": "math.log2(V)"}),
            Mistake("PRD-01.6e", {"math.log(V)": "N * math.log(V)"}),
            Mistake("PRD-01.6f", {"math.log(V)": "math.log(N)"}),
            Mistake("PRD-01.6g", {"math.log(V)": "1 / V"}),
            Mistake("PRD-01.6h", {"(1 / V - 1) / N": "1 / V - 1"}),
            Mistake("PRD-01.6i", {"(1 / V - 1) / N": "(1 / V - 1) / V"}),
            Mistake("PRD-01.6j", {"(1 / V - 1) / N": "1 / V / N"}),
            Mistake("PRD-01.6k", {"constant = 0": "constant = 1"}),
            Mistake("PRD-01.6l", {"constant = 0": "constant = 1 / V"}),
            Mistake("PRD-01.6m", {"row_sum = 0": "row_sum = 1 / N"}),
            Mistake("PRD-01.6n", {"row_sum = 0": "row_sum = -1"}),
            Mistake("PRD-01.6o", {"at_target = -1": "at_target = 1"}),
            Mistake("PRD-01.6p", {"at_target = -1": "at_target = 0"}),
            Mistake("PRD-01.6q", {"elsewhere = 1": "elsewhere = -1"}),
            Mistake("PRD-01.6r", {"math.log(V)": "0"}),
            Mistake("PRD-01.6s", {"math.log(V)": "-math.log(V)"}),
            Mistake("PRD-01.6t", {"math.log(V)": "math.log(V) / N"}),
            Mistake("PRD-01.6u", {"(1 / V - 1) / N": "0"}),
            Mistake("PRD-01.6v", {"(1 / V - 1) / N": "(1 - 1 / V) / N"}),
            Mistake("PRD-01.6w", {"(1 / V - 1) / N": "-1 / N"}),
            Mistake("PRD-01.6x", {"(1 / V - 1) / N": "1 / V"}),
        )),
    Exercise(
        "06.4", minutes=10, lines=6, kind="predict",
        solution=what_moves_what, reference=run_influence,
        outputs=tuple(f"answer {i} ({what})" for i, what in enumerate((
            "causal", "padding", "window", "feed-forward", "cross-attention"), 1)),
        mistakes=(
            Mistake("PRD-06.4a", {"[0, 0, 1, 1, 1]": "[1, 1, 1, 0, 0]"}),
            Mistake("PRD-06.4b", {"[0, 0, 1, 1, 1]": "[0, 0, 0, 1, 1]"}),
            Mistake("PRD-06.4c", {"[0, 0, 1, 1, 1]": "[1, 1, 1, 1, 1]"}),
            Mistake("PRD-06.4d", {"[0, 0, 0, 1, 0]": "[0, 0, 0, 0, 0]"}),
            Mistake("PRD-06.4e", {"[0, 0, 0, 1, 0]": "[0, 0, 0, 1, 1]"}),
            Mistake("PRD-06.4f", {"[0, 0, 0, 1, 0]": "[1, 1, 1, 1, 1]"}),
            Mistake("PRD-06.4g", {"[0, 1, 1, 1, 0]": "[0, 1, 1, 0, 0]"}),
            Mistake("PRD-06.4h", {"[0, 1, 1, 1, 0]": "[1, 1, 0, 0, 0]"}),
            Mistake("PRD-06.4i", {"[0, 1, 0, 0, 0]": "[1, 1, 1, 1, 1]"}),
            Mistake("PRD-06.4j", {"[1, 1, 1, 1, 1])\n    return": "[0, 0, 0, 0, 1])\n    return"}),
            Mistake("PRD-06.4k", {"[0, 0, 1, 1, 1]": "[0, 0, 1, 0, 0]"}),
            Mistake("PRD-06.4l", {"[0, 0, 0, 1, 0]": "[1, 1, 1, 1, 0]"}),
            Mistake("PRD-06.4m", {"[0, 0, 0, 1, 0]": "[1, 1, 1, 0, 0]"}),
            Mistake("PRD-06.4n", {"[0, 1, 1, 1, 0]": "[0, 1, 1, 1, 1]"}),
            Mistake("PRD-06.4o", {"[0, 1, 1, 1, 0]": "[1, 1, 1, 0, 0]"}),
            Mistake("PRD-06.4p", {"[0, 1, 0, 0, 0]": "[0, 1, 1, 1, 1]"}),
            Mistake("PRD-06.4q", {"[1, 1, 1, 1, 1])\n    return": "[0, 0, 0, 0, 0])\n    return"}),
        )),
    Exercise(
        "10.6", minutes=10, lines=7, kind="predict",
        solution=gradients_without_computing, reference=run_gradients,
        outputs=tuple(f"answer {i}" for i in range(1, 7)),
        mistakes=(
            Mistake("PRD-10.6a", {"row_sum = 0": "row_sum = 1"}),
            Mistake("PRD-10.6b", {"dbeta = 15": "dbeta = 1"}),
            Mistake("PRD-10.6c", {"dbeta = 15": "dbeta = 12"}),
            Mistake("PRD-10.6d", {"dbeta = 15": "dbeta = 5"}),
            Mistake("PRD-10.6e", {"dbeta = 15": "dbeta = 180"}),
            Mistake("PRD-10.6k", {"dbeta = 15": "dbeta = 3"}),
            Mistake("PRD-10.6l", {"dbeta = 15": "dbeta = 60"}),
            Mistake("PRD-10.6f", {"all_ones = 0": "all_ones = 1"}),
            Mistake("PRD-10.6g", {"key_bias = 0": "key_bias = 1"}),
            Mistake("PRD-10.6h", {"dx = 1": "dx = 0"}),
            Mistake("PRD-10.6i", {"dx = 1": "dx = 2"}),
            Mistake("PRD-10.6j", {"weight_too = 0": "weight_too = 1"}),
        )),
]
