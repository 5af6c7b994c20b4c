"""Fewer numbers to keep: the bytes of a cache, attention to latent vectors, and the backward pass of latent vectors."""

import math

import numpy as np

from ...decoding import KeyValueCache
from ...layers import AbsorbedLatentAttention, Block, Identity, LatentAttention, ScaledDotProductAttention, SelfAttention
from ...models import Stack
from .definition import Exercise, Mistake


def cache_bytes(tokens, num_layers, num_heads, num_kv_heads, d_head, d_latent, d_rotary, itemsize):
    multi_head = 2 * num_heads * d_head
    grouped = 2 * num_kv_heads * d_head
    latent = d_latent + d_rotary
    return np.array([multi_head, grouped, latent]) * tokens * num_layers * itemsize


def draw_sizes(rng, n):
    d_latent, d_rotary = int(rng.integers(17, 30)), 2 * int(rng.integers(2, 5))
    return (int(rng.integers(5, 12)), int(rng.integers(2, 5)), 3 * n.H, n.H, 2 * int(rng.integers(5, 9)), d_latent, d_rotary,
            int(rng.choice([4, 8])))


def special_sizes(rng):
    tokens, width, latent = int(rng.integers(5, 20)), int(rng.integers(5, 12)), int(rng.integers(13, 30))
    return [("one_key_head", (tokens, 3, 5, 1, width, latent, 4, 4)), ("one_token", (1, 4, 6, 3, width, latent, 4, 8))]


def counted(tokens, num_layers, num_heads, num_kv_heads, d_head, d_latent, d_rotary, itemsize):
    """Returns the bytes in the caches of three small models that have read the tokens."""
    totals = []
    for build in (lambda: SelfAttention(4, num_heads, d_head=d_head),
                  lambda: SelfAttention(4, num_heads, num_kv_heads, d_head=d_head),
                  lambda: AbsorbedLatentAttention(4, num_heads, d_latent, d_head, d_rotary)):
        stack = Stack([Block(build(), Identity(), Identity(), Identity()) for _ in range(num_layers)])
        cache = KeyValueCache()
        cache.caching(stack.astype(f"f{itemsize}").eval())(np.ones((1, tokens, 4), f"f{itemsize}"))
        totals.append(sum(kept.array.nbytes for kept in cache.arrays.values()))
    return np.array(totals)


def absorbed_attention(q, q_rotary, c, k_rotary, W_K, W_V):
    absorbed = q @ W_K.mT
    scale = 1 / math.sqrt(q.shape[-1] + q_rotary.shape[-1])
    scores = scale * (absorbed @ c.T + q_rotary @ k_rotary.T)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    return absorbed, (p @ c) @ W_V


def draw_attention(rng, n, latent=None):
    m, r, e = n.D + 1 if latent is None else latent, n.H + 2, n.V - n.d
    return [rng.standard_normal(shape) / divisor for shape, divisor in (
        ((n.H, n.T, n.d), 2), ((n.H, n.T, r), 2), ((n.S, m), 2), ((n.S, r), 2), ((n.H, m, n.d), 2), ((n.H, m, e), 2))]


def special_attention(rng):
    def arrays(H, T, S, m, n, r, e):
        shapes = (H, T, n), (H, T, r), (S, m), (S, r), (H, m, n), (H, m, e)
        return [rng.standard_normal(shape) for shape in shapes]

    large = arrays(2, 3, 4, 5, 3, 2, 4)
    large[1] = 9000 * large[1]
    return [("one_new_token", arrays(3, 1, 6, 5, 4, 2, 3)), ("equal_widths", arrays(2, 4, 4, 4, 4, 4, 4)),
            ("large_scores", large)]


def by_keys_of_all_heads(q, q_rotary, c, k_rotary, W_K, W_V):
    """Makes the keys and values of all heads, and attends to them."""
    k, v = np.einsum("sm,hmn->hsn", c, W_K), np.einsum("sm,hme->hse", c, W_V)
    k = np.concatenate([k, np.broadcast_to(k_rotary, (len(k), *k_rotary.shape))], -1)
    y = ScaledDotProductAttention()(np.concatenate([q, q_rotary], -1), k, v)
    return np.einsum("htn,hmn->htm", q, W_K), y


def latent_backward(dk, dv, c, W_up):
    H, S, e = dv.shape
    n = W_up.shape[1] // H - e
    dkv = np.concatenate([dk[..., :n], dv], -1)
    dkv = dkv.swapaxes(0, 1).reshape(S, -1)
    dc = dkv @ W_up.T
    dW_up = c.T @ dkv
    dk_rotary = dk[..., n:].sum(0)
    return dc, dW_up, dk_rotary


def draw_gradients(rng, n):
    e, r, m = n.V - n.d, n.H + 3, n.D + 1
    return [rng.standard_normal(shape) for shape in ((n.H, n.S, n.d + r), (n.H, n.S, e), (n.S, m), (m, n.H * (n.d + e)))]


def special_gradients(rng):
    def arrays(H, S, n, r, e, m):
        return [rng.standard_normal(shape) for shape in ((H, S, n + r), (H, S, e), (S, m), (m, H * (n + e)))]

    return [("a_single_head", arrays(1, 4, 3, 2, 5, 6)), ("equal_widths", arrays(4, 4, 4, 4, 4, 4))]


class Received:
    """An attention whose backward returns gradients that were chosen beforehand."""

    def __init__(self, *gradients):
        self.gradients = gradients

    def __call__(self, q, k, v, mask):
        return v

    def backward(self, dy):
        return self.gradients


def by_layer(dk, dv, c, W_up):
    (H, S, e), m = dv.shape, len(W_up)
    n = W_up.shape[1] // H - e
    layer = LatentAttention(2, H, m, n, dk.shape[-1] - n, e).astype(np.float64)
    layer.attention, layer.up.weight.data = Received(None, dk, dv), W_up
    layer.attend(None, c, np.zeros((1, S, dk.shape[-1] - n)), None)
    _, dc, dk_rotary = layer.attend_backward(None)
    return dc, layer.up.weight.grad, dk_rotary[0]


POWERS = ({"q": 3, "W_K": -3}, {"q": -3, "W_K": 3}, {"q_rotary": 6, "k_rotary": -6}, {"q_rotary": -6, "k_rotary": 6},
          {"c": 3, "W_K": -3}, {"W_V": 3})              # the scores stay as they are
HEADS = "dkv.swapaxes(0, 1).reshape(S, -1)"


EXERCISES = [
    Exercise(
        "23.1", minutes=10, lines=4,
        solution=cache_bytes, reference=counted, inputs=draw_sizes, edges=special_sizes, outputs=("bytes",),
        mistakes=(
            Mistake("LAT-1a", {"2 * num_heads * d_head": "num_heads * d_head", "2 * num_kv_heads": "num_kv_heads"}),
            Mistake("LAT-1b", {"= d_latent + d_rotary": "= 2 * (d_latent + d_rotary)"}),
            Mistake("LAT-1c", {"= d_latent + d_rotary": "= 2 * d_latent + d_rotary"}),
            Mistake("LAT-1d", {"= d_latent + d_rotary": "= d_latent + num_heads * d_rotary"}),
            Mistake("LAT-1e", {"= d_latent + d_rotary": "= num_heads * (d_latent + d_rotary)"}),
            Mistake("LAT-1f", {"= d_latent + d_rotary": "= d_latent"}),
            Mistake("LAT-1g", {" * num_layers": ""}),
            Mistake("LAT-1h", {" * itemsize": ""}),
            Mistake("LAT-1i", {" * tokens": ""}),
            Mistake("LAT-1j", {"2 * num_kv_heads * d_head": "(num_heads + num_kv_heads) * d_head"}),
            Mistake("LAT-1k", {"2 * num_kv_heads * d_head": "2 * num_heads // num_kv_heads * d_head"}),
        )),
    Exercise(
        "23.2", minutes=20, lines=6,
        solution=absorbed_attention, reference=by_keys_of_all_heads, inputs=draw_attention, edges=special_attention,
        outputs=("absorbed", "y"), number_sizes=("tiny",), powers=POWERS,
        mistakes=(
            Mistake("LAT-2a", {"q.shape[-1] + q_rotary.shape[-1]": "absorbed.shape[-1] + q_rotary.shape[-1]"}),
            Mistake("LAT-2b", {"q.shape[-1] + q_rotary.shape[-1]": "q.shape[-1]"}),
            Mistake("LAT-2c", {"q.shape[-1] + q_rotary.shape[-1]": "absorbed.shape[-1]"}),
            Mistake("LAT-2d", {" + q_rotary @ k_rotary.T": ""}),
            Mistake("LAT-2e", {"scale * (absorbed @ c.T + q_rotary @ k_rotary.T)":
                               "scale * (absorbed @ c.T) + q_rotary @ k_rotary.T"}),
            Mistake("LAT-2f", {"scale * (absorbed @ c.T + q_rotary @ k_rotary.T)": "absorbed @ c.T + q_rotary @ k_rotary.T"}),
            Mistake("LAT-2g", {"q @ W_K.mT": "q @ W_K[0].mT"}),
            Mistake("LAT-2h", {"scores.max(-1, keepdims=True)": "0"}),
            Mistake("LAT-2i", {"p.sum(-1, keepdims=True)": "p.sum(-2, keepdims=True)"}),
            Mistake("LAT-2j", {"@ W_V": "@ W_V[0]"}),
        ),
        alternatives={
            "W_V first": {"(p @ c) @ W_V": "p @ (c @ W_V)"},
            "one key": {"absorbed @ c.T + q_rotary @ k_rotary.T":
                        "np.concatenate([absorbed, q_rotary], -1) @ np.concatenate([c, k_rotary], -1).T"},
            "einsum": {"q @ W_K.mT": 'np.einsum("htn,hmn->htm", q, W_K)'}}),
    Exercise(
        "23.3", minutes=20, lines=8,
        solution=latent_backward, reference=by_layer, inputs=draw_gradients, edges=special_gradients,
        outputs=("dc", "dW_up", "dk_rotary"),
        mistakes=(
            Mistake("LAT-3a", {".sum(0)": ".mean(0)"}),
            Mistake("LAT-3b", {"dk[..., n:].sum(0)": "dk[0, :, n:]"}),
            Mistake("LAT-3c", {".sum(0)": ""}),
            Mistake("LAT-3d", {"dkv.swapaxes(0, 1).reshape(S, -1)": "dkv.reshape(S, -1)"}),
            Mistake("LAT-3e", {"[dk[..., :n], dv]": "[dv, dk[..., :n]]"}),
            Mistake("LAT-3f", {
                "np.concatenate([dk[..., :n], dv], -1)":
                    "np.concatenate([x.swapaxes(0, 1).reshape(S, -1) for x in (dk[..., :n], dv)], -1)",
                "    dkv = dkv.swapaxes(0, 1).reshape(S, -1)\n": ""}),
            Mistake("LAT-3g", {"[dk[..., :n], dv]": "[dk[..., :n], 0 * dv]"}),
            Mistake("LAT-3h", {"[dk[..., :n], dv]": "[0 * dk[..., :n], dv]"}),
            Mistake("LAT-3i", {"[dk[..., :n], dv]": "[dk[..., -n:], dv]", "dk[..., n:]": "dk[..., :-n]"}),
        ),
        alternatives={
            "head by head": {"dkv @ W_up.T": 'np.einsum("she,mhe->sm", dkv.reshape(S, H, -1), W_up.reshape(len(W_up), H, -1))'},
            "moveaxis": {HEADS: "np.moveaxis(dkv, 0, 1).reshape(S, -1)"}}),
]
