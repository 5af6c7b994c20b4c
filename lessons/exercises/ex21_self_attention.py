"""Exercise 21: Self-attention, a class

About 15 lines, 45 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 07
Check:  numpy-transformer exercise check 21
Hint:   numpy-transformer exercise hint 21
"""

import math

import numpy as np


class Parameter:
    """A trainable array and its gradient, as in the package: backward adds into grad."""

    def __init__(self, data):
        self.data = data
        self.grad = np.zeros_like(data)


class Linear:
    """y = x weight + bias, a layer that can be used several times before its gradients are asked for.

    forward takes x: (..., d_in) and returns y: (..., d_out). backward takes dy: (..., d_out), returns dx: (..., d_in),
    and adds (+=) into weight.grad (d_in, d_out) and bias.grad (d_out,). It belongs to the latest forward that has had
    no backward yet: of two forwards, the second is answered first.
    """

    def __init__(self, weight, bias):
        self.weight, self.bias = Parameter(weight), Parameter(bias)
        self.memory = []                        # what forward remembers, the latest last

    def forward(self, x):
        """x: (..., d_in).  Return y: (..., d_out)."""
        self.memory.append(x)
        return x @ self.weight.data + self.bias.data

    def backward(self, dy):
        """dy: (..., d_out), dL/dy.  Return dx: (..., d_in); add into weight.grad and bias.grad."""
        x = self.memory.pop()
        rows, drows = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
        self.weight.grad += rows.T @ drows
        self.bias.grad += drows.sum(0)
        return dy @ self.weight.data.T


def softmax(z):
    """p = softmax of each row.

    z: (..., n) logits, in the thousands too. A row is what lies along the last axis; the dots stand for any number of
    axes before it, or none.  Return p: (..., n), p_j = exp(z_j) / sum_k exp(z_k) within each row.
    """
    p = np.exp(z - z.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def softmax_backward(p, dp):
    """The gradient of the logits z, where forward was p = softmax(z) of each row.

    p: (..., n), what forward returned, rows sum to 1.  dp: (..., n), dL/dp.  Return dz: (..., n), dL/dz.
    """
    return p * (dp - (p * dp).sum(-1, keepdims=True))


def split_heads(x, num_heads):
    """The features of each token, dealt out to the heads.

    x: (..., T, D).  num_heads: int, H, which divides D; d = D / H.
    Return heads: (..., H, T, d): head h holds the features h d to (h + 1) d - 1 of every token.
    """
    heads = x.reshape(*x.shape[:-1], num_heads, -1)
    return heads.swapaxes(-2, -3)


def merge_heads(heads):
    """The inverse of split_heads: the heads of each token, side by side.

    heads: (..., H, T, d).  Return x: (..., T, H d): features h d to (h + 1) d - 1 of a token are those of head h.
    """
    tokens = heads.swapaxes(-2, -3)
    return tokens.reshape(*tokens.shape[:-2], -1)


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
        # TODO: replace this line; do not change the arguments in place.
        raise NotImplementedError

    def backward(self, dy):
        """dy: (..., T, D), dL/dy.  Return dx: (..., T, D); the Linears add into their weight.grad and bias.grad."""
        # TODO: replace this line; do not change the arguments in place.
        raise NotImplementedError
