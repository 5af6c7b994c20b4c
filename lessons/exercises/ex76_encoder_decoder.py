"""Exercise 76: Question: the whole flow

About 13 lines, 45 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 13
Check:  numpy-transformer exercise check 76
Hint:   numpy-transformer exercise hint 76
"""

import math

import numpy as np


def positions(x):
    """The sinusoid for x (..., T, D), D even: (T, D)."""
    T, D = x.shape[-2:]
    angles = np.arange(T)[:, None] / 10000 ** (np.arange(0, D, 2) / D)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(T, D).astype(x.dtype)


def attention(x, memory, mask, weights):
    """Two heads: x (B, T, D) asks, memory (B, S, D) answers, mask (B, T or 1, S), True = may attend.  (B, T, D)"""
    def split(z):
        return z.reshape(*z.shape[:2], 2, -1).swapaxes(1, 2)
    q, k, v = split(x @ weights[0]), split(memory @ weights[1]), split(memory @ weights[2])
    scores = np.where(mask[:, None], q @ k.swapaxes(2, 3) / math.sqrt(q.shape[-1]), -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    y = p / p.sum(-1, keepdims=True) @ v
    return y.swapaxes(1, 2).reshape(x.shape) @ weights[3]


def feed_forward(x, weights):
    """max(0, x W1) W2ᵀ for x (..., D), weights (2, D, F)."""
    return np.maximum(0, x @ weights[0]) @ weights[1].T


def layer_norm(x, weights):
    """gamma x_hat + beta for x (..., D), weights (2, D)."""
    x_hat = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return weights[0] * x_hat + weights[1]


def encoder_decoder(source, target, source_table, target_table, encoder, decoder, output):
    """Can you implement the whole flow?  The encoder-decoder of the paper, post-norm, from the parts above.

    source: (B, S), target: (B, T): ids, 0 = padding, which may stand anywhere but at the first place. Padding is
    hidden as a key in every attention.  source_table, target_table: (V, D), embeddings: multiplied by sqrt(D), then
    positions are added.
    encoder: for each block a list [weights of attention (4, D, D), of feed_forward (2, D, F), of two norms (2, 2, D)].
    decoder: for each block a list [weights of self-attention (4, D, D), of cross-attention (4, D, D), of feed_forward
    (2, D, F), of three norms (3, 2, D)].  output: (D, V).  Return logits: (B, T, V).
    Each norm stands behind its sublayer, norm(x + f(x)); there is no final norm. All decoder blocks attend to the
    output of the encoder's last block. A target token sees itself and those before it.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
