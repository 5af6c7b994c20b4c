# === [HD-2] split_heads and merge_heads give every H-th feature to a head (feature i to head i mod H) instead of d
#     neighbors; the two are inverse to each other; line 13: parts = x.reshape(*lead, T, D // num_heads, num_heads).
"""Stage 6: attention with many heads."""

import numpy as np

from module import Module
from stage02_linear import Linear
from stage05_attention import Attention


def split_heads(x, num_heads):
    """Cuts the features into heads. Shape: x (..., T, d_model) -> (..., num_heads, T, d_model / num_heads)."""
    *lead, T, D = x.shape
    parts = x.reshape(*lead, T, D // num_heads, num_heads)
    return np.moveaxis(parts, -1, -3)


def merge_heads(x):
    """The inverse of split_heads. Shape: x (..., num_heads, T, d) -> (..., T, num_heads d)."""
    *lead, H, T, d = x.shape
    return np.moveaxis(x, -3, -1).reshape(*lead, T, d * H)


class MultiHeadAttention(Module):
    """Queries from x, keys and values from memory; each head attends by itself, and `output` mixes what they found.

    Shape: x (..., T, d_model), memory (..., S, d_model), mask: boolean, of a shape that fits (..., num_heads, T, S), or
        None -> y (..., T, d_model). backward returns dx, dmemory.
    """

    def __init__(self, d_model, num_heads, rng):
        self.num_heads = num_heads
        self.query = Linear(d_model, d_model, rng)
        self.key = Linear(d_model, d_model, rng)
        self.value = Linear(d_model, d_model, rng)
        self.attention = Attention()
        self.output = Linear(d_model, d_model, rng)

    def forward(self, x, memory, mask=None):
        n = self.num_heads
        queries = split_heads(self.query(x), n)
        keys = split_heads(self.key(memory), n)
        values = split_heads(self.value(memory), n)
        found = self.attention(queries, keys, values, mask)
        return self.output(merge_heads(found))

    def backward(self, dy):
        n = self.num_heads
        dfound = split_heads(self.output.backward(dy), n)
        dqueries, dkeys, dvalues = self.attention.backward(dfound)
        dmemory = self.value.backward(merge_heads(dvalues)) + self.key.backward(merge_heads(dkeys))
        return self.query.backward(merge_heads(dqueries)), dmemory

# === [-] MultiHeadAttention.backward adds dmemory to dx by itself if x and memory were the same array, which is the
#     caller's task; line 48: dx = dx + dmemory.
"""Stage 6: attention with many heads."""

from module import Module
from stage02_linear import Linear
from stage05_attention import Attention


def split_heads(x, num_heads):
    """Cuts the features into heads. Shape: x (..., T, d_model) -> (..., num_heads, T, d_model / num_heads)."""
    parts = x.reshape(x.shape[:-1] + (num_heads, -1))
    return parts.swapaxes(-3, -2)


def merge_heads(x):
    """The inverse of split_heads. Shape: x (..., num_heads, T, d) -> (..., T, num_heads d)."""
    x = x.swapaxes(-3, -2)
    return x.reshape(x.shape[:-2] + (-1,))


class MultiHeadAttention(Module):
    """Queries from x, keys and values from memory; each head attends by itself, and `output` mixes what they found.

    Shape: x (..., T, d_model), memory (..., S, d_model), mask: boolean, of a shape that fits (..., num_heads, T, S), or
        None -> y (..., T, d_model). backward returns dx, dmemory.
    """

    def __init__(self, d_model, num_heads, rng):
        self.num_heads = num_heads
        self.query = Linear(d_model, d_model, rng)
        self.key = Linear(d_model, d_model, rng)
        self.value = Linear(d_model, d_model, rng)
        self.attention = Attention()
        self.output = Linear(d_model, d_model, rng)

    def forward(self, x, memory, mask=None):
        self.remember(x is memory)
        q, k, v = self.query(x), self.key(memory), self.value(memory)
        q, k, v = (split_heads(a, self.num_heads) for a in (q, k, v))
        return self.output(merge_heads(self.attention(q, k, v, mask)))

    def backward(self, dy):
        same = self.recall()
        dheads = split_heads(self.output.backward(dy), self.num_heads)
        dq, dk, dv = (merge_heads(g) for g in self.attention.backward(dheads))
        dx = self.query.backward(dq)
        dmemory = self.key.backward(dk) + self.value.backward(dv)
        if same:                             # self-attention: one array, one gradient
            dx = dx + dmemory
        return dx, dmemory

# === [-] split_heads and merge_heads transpose with fixed axes for (T, D) and (B, T, D), and raise a ValueError when
#     there are several leading axes; line 14: return x.reshape(B, T, num_heads, D // num_heads).transpose(0, 2, 1,
#     3).
"""Stage 6: attention with many heads."""

from module import Module
from stage02_linear import Linear
from stage05_attention import Attention


def split_heads(x, num_heads):
    """Cuts the features into heads. Shape: x (..., T, d_model) -> (..., num_heads, T, d_model / num_heads)."""
    if x.ndim == 2:
        T, D = x.shape
        return x.reshape(T, num_heads, D // num_heads).transpose(1, 0, 2)
    B, T, D = x.shape
    return x.reshape(B, T, num_heads, D // num_heads).transpose(0, 2, 1, 3)


def merge_heads(x):
    """The inverse of split_heads. Shape: x (..., num_heads, T, d) -> (..., T, num_heads d)."""
    if x.ndim == 3:
        H, T, d = x.shape
        return x.transpose(1, 0, 2).reshape(T, H * d)
    B, H, T, d = x.shape
    return x.transpose(0, 2, 1, 3).reshape(B, T, H * d)


class MultiHeadAttention(Module):
    """Queries from x, keys and values from memory; each head attends by itself, and `output` mixes what they found.

    Shape: x (..., T, d_model), memory (..., S, d_model), mask: boolean, of a shape that fits (..., num_heads, T, S), or
        None -> y (..., T, d_model). backward returns dx, dmemory.
    """

    def __init__(self, d_model, num_heads, rng):
        self.num_heads = num_heads
        self.query = Linear(d_model, d_model, rng)
        self.key = Linear(d_model, d_model, rng)
        self.value = Linear(d_model, d_model, rng)
        self.attention = Attention()
        self.output = Linear(d_model, d_model, rng)

    def forward(self, x, memory, mask=None):
        q = split_heads(self.query(x), self.num_heads)
        k = split_heads(self.key(memory), self.num_heads)
        v = split_heads(self.value(memory), self.num_heads)
        return self.output(merge_heads(self.attention(q, k, v, mask)))

    def backward(self, dy):
        dy = split_heads(self.output.backward(dy), self.num_heads)
        dq, dk, dv = self.attention.backward(dy)
        dx = self.query.backward(merge_heads(dq))
        dmemory = self.key.backward(merge_heads(dk))
        return dx, dmemory + self.value.backward(merge_heads(dv))

# === [-] MultiHeadAttention.backward takes the gradients of attention in the wrong order, so key.backward gets the
#     gradient of the values and value.backward that of the keys; line 46: dq, dv, dk = self.attention.backward(.
"""Stage 6: attention with many heads."""

import numpy as np

from module import Module
from stage02_linear import Linear
from stage05_attention import Attention


def split_heads(x, num_heads):
    """Cuts the features into heads. Shape: x (..., T, d_model) -> (..., num_heads, T, d_model / num_heads)."""
    d = x.shape[-1] // num_heads
    return np.stack([x[..., h * d:(h + 1) * d] for h in range(num_heads)], axis=-3)


def merge_heads(x):
    """The inverse of split_heads. Shape: x (..., num_heads, T, d) -> (..., T, num_heads d)."""
    return np.concatenate([x[..., h, :, :] for h in range(x.shape[-3])], axis=-1)


class MultiHeadAttention(Module):
    """Queries from x, keys and values from memory; each head attends by itself, and `output` mixes what they found.

    Shape: x (..., T, d_model), memory (..., S, d_model), mask: boolean, of a shape that fits (..., num_heads, T, S), or
        None -> y (..., T, d_model). backward returns dx, dmemory.
    """

    def __init__(self, d_model, num_heads, rng):
        self.num_heads = num_heads
        self.query = Linear(d_model, d_model, rng)
        self.key = Linear(d_model, d_model, rng)
        self.value = Linear(d_model, d_model, rng)
        self.attention = Attention()
        self.output = Linear(d_model, d_model, rng)

    def forward(self, x, memory, mask=None):
        q = self.query(x)
        k = self.key(memory)
        v = self.value(memory)
        H = self.num_heads
        y = self.attention(split_heads(q, H), split_heads(k, H), split_heads(v, H), mask)
        return self.output(merge_heads(y))

    def backward(self, dy):
        dheads = self.output.backward(dy)
        dq, dv, dk = self.attention.backward(split_heads(dheads, self.num_heads))
        dx = self.query.backward(merge_heads(dq))
        dmemory = self.value.backward(merge_heads(dv))
        dmemory = dmemory + self.key.backward(merge_heads(dk))
        return dx, dmemory

# === [HD-2] split_heads (and its inverse merge_heads), line 13: features are dealt out interleaved: head h gets the
#     features h, h + H, h + 2H, ... instead of h d to (h + 1) d - 1; merge_heads is consistently inverse, so shapes
#     and finite differences fit, numbers do not (right for H = 1 or d = 1).
"""Stage 6: attention with many heads."""

import numpy as np

from module import Module
from stage02_linear import Linear
from stage05_attention import Attention


def split_heads(x, num_heads):
    """Cuts the features into heads. Shape: x (..., T, d_model) -> (..., num_heads, T, d_model / num_heads)."""
    *lead, T, D = x.shape
    x = x.reshape(*lead, T, D // num_heads, num_heads)
    return np.moveaxis(x, -1, -3)


def merge_heads(x):
    """The inverse of split_heads. Shape: x (..., num_heads, T, d) -> (..., T, num_heads d)."""
    x = np.moveaxis(x, -3, -1)                          # (..., T, d, H)
    *lead, T, d, H = x.shape
    return x.reshape(*lead, T, d * H)


class MultiHeadAttention(Module):
    """Queries from x, keys and values from memory; each head attends by itself, and `output` mixes what they found.

    Shape: x (..., T, d_model), memory (..., S, d_model), mask: boolean, of a shape that fits (..., num_heads, T, S), or
        None -> y (..., T, d_model). backward returns dx, dmemory.
    """

    def __init__(self, d_model, num_heads, rng):
        self.num_heads = num_heads
        self.query = Linear(d_model, d_model, rng)
        self.key = Linear(d_model, d_model, rng)
        self.value = Linear(d_model, d_model, rng)
        self.attention = Attention()
        self.output = Linear(d_model, d_model, rng)

    def forward(self, x, memory, mask=None):
        H = self.num_heads
        q, k, v = split_heads(self.query(x), H), split_heads(self.key(memory), H), split_heads(self.value(memory), H)
        heads = self.attention(q, k, v, mask)
        return self.output(merge_heads(heads))

    def backward(self, dy):
        dheads = split_heads(self.output.backward(dy), self.num_heads)
        dq, dk, dv = map(merge_heads, self.attention.backward(dheads))
        dx = self.query.backward(dq)
        dmemory = self.key.backward(dk) + self.value.backward(dv)
        return dx, dmemory

# === [-] MultiHeadAttention.backward, line 50: if x and memory are the same array, dmemory is already added to dx
#     (and still returned), so the caller, who adds both, counts it twice; right for cross-attention and when x and
#     memory are equal copies.
"""Stage 6: attention with many heads."""

from module import Module
from stage02_linear import Linear
from stage05_attention import Attention


def split_heads(x, num_heads):
    """Cuts the features into heads. Shape: x (..., T, d_model) -> (..., num_heads, T, d_model / num_heads)."""
    lead, D = x.shape[:-1], x.shape[-1]
    return x.reshape(lead + (num_heads, D // num_heads)).swapaxes(-2, -3)


def merge_heads(x):
    """The inverse of split_heads. Shape: x (..., num_heads, T, d) -> (..., T, num_heads d)."""
    x = x.swapaxes(-2, -3)
    return x.reshape(x.shape[:-2] + (-1,))


class MultiHeadAttention(Module):
    """Queries from x, keys and values from memory; each head attends by itself, and `output` mixes what they found.

    Shape: x (..., T, d_model), memory (..., S, d_model), mask: boolean, of a shape that fits (..., num_heads, T, S), or
        None -> y (..., T, d_model). backward returns dx, dmemory.
    """

    def __init__(self, d_model, num_heads, rng):
        self.num_heads = num_heads
        self.query = Linear(d_model, d_model, rng)
        self.key = Linear(d_model, d_model, rng)
        self.value = Linear(d_model, d_model, rng)
        self.attention = Attention()
        self.output = Linear(d_model, d_model, rng)

    def forward(self, x, memory, mask=None):
        q = self.query(x)
        k = self.key(memory)
        v = self.value(memory)
        q, k, v = (split_heads(a, self.num_heads) for a in (q, k, v))
        self.remember(x is memory)
        return self.output(merge_heads(self.attention(q, k, v, mask)))

    def backward(self, dy):
        self_attention = self.recall()
        d = self.output.backward(dy)
        dq, dk, dv = self.attention.backward(split_heads(d, self.num_heads))
        dx = self.query.backward(merge_heads(dq))
        dmemory = self.key.backward(merge_heads(dk)) + self.value.backward(merge_heads(dv))
        if self_attention:                                  # one array, used three times: the sum of all
            dx = dx + dmemory
        return dx, dmemory

# === [-] MultiHeadAttention.forward, line 41: inserts an axis for the heads in every mask of more than 2 axes, though
#     the mask already fits (..., H, T, S): (B, 1, 1, S) and (H, T, S) masks raise an error or hide the wrong keys;
#     (T, S) and None are right.
"""Stage 6: attention with many heads."""

import numpy as np

from module import Module
from stage02_linear import Linear
from stage05_attention import Attention


def split_heads(x, num_heads):
    """Cuts the features into heads. Shape: x (..., T, d_model) -> (..., num_heads, T, d_model / num_heads)."""
    d = x.shape[-1] // num_heads
    return np.stack([x[..., h * d:(h + 1) * d] for h in range(num_heads)], axis=-3)


def merge_heads(x):
    """The inverse of split_heads. Shape: x (..., num_heads, T, d) -> (..., T, num_heads d)."""
    return np.concatenate([x[..., h, :, :] for h in range(x.shape[-3])], axis=-1)


class MultiHeadAttention(Module):
    """Queries from x, keys and values from memory; each head attends by itself, and `output` mixes what they found.

    Shape: x (..., T, d_model), memory (..., S, d_model), mask: boolean, of a shape that fits (..., num_heads, T, S), or
        None -> y (..., T, d_model). backward returns dx, dmemory.
    """

    def __init__(self, d_model, num_heads, rng):
        self.num_heads = num_heads
        self.query = Linear(d_model, d_model, rng)
        self.key = Linear(d_model, d_model, rng)
        self.value = Linear(d_model, d_model, rng)
        self.attention = Attention()
        self.output = Linear(d_model, d_model, rng)

    def forward(self, x, memory, mask=None):
        queries = split_heads(self.query(x), self.num_heads)
        keys = split_heads(self.key(memory), self.num_heads)
        values = split_heads(self.value(memory), self.num_heads)
        if mask is not None and mask.ndim > 2:
            mask = mask[..., None, :, :]                    # the same mask for all heads
        found = self.attention(queries, keys, values, mask)
        return self.output(merge_heads(found))

    def backward(self, dy):
        dfound = split_heads(self.output.backward(dy), self.num_heads)
        dqueries, dkeys, dvalues = self.attention.backward(dfound)
        dmemory = self.value.backward(merge_heads(dvalues))
        dmemory = dmemory + self.key.backward(merge_heads(dkeys))
        dx = self.query.backward(merge_heads(dqueries))
        return dx, dmemory

# === [HD-2] split_heads cuts the features into (d, H) instead of (H, d), so head h gets the features h, h + H, ...
#     instead of h d to (h + 1) d - 1; merge_heads is its inverse, and wrong in the same way (line 12: x =
#     x.reshape(*x.shape[:-1], d, num_heads)      # the last axis in two parts)
"""Stage 6: attention with many heads."""

from module import Module
from stage02_linear import Linear
from stage05_attention import Attention
import numpy as np


def split_heads(x, num_heads):
    """Cuts the features into heads. Shape: x (..., T, d_model) -> (..., num_heads, T, d_model / num_heads)."""
    d = x.shape[-1] // num_heads
    x = x.reshape(*x.shape[:-1], d, num_heads)      # the last axis in two parts
    return np.moveaxis(x, -1, -3)


def merge_heads(x):
    """The inverse of split_heads. Shape: x (..., num_heads, T, d) -> (..., T, num_heads d)."""
    x = np.moveaxis(x, -3, -1)
    return x.reshape(*x.shape[:-2], -1)


class MultiHeadAttention(Module):
    """Queries from x, keys and values from memory; each head attends by itself, and `output` mixes what they found.

    Shape: x (..., T, d_model), memory (..., S, d_model), mask: boolean, of a shape that fits (..., num_heads, T, S), or
        None -> y (..., T, d_model). backward returns dx, dmemory.
    """

    def __init__(self, d_model, num_heads, rng):
        self.num_heads = num_heads
        self.query = Linear(d_model, d_model, rng)
        self.key = Linear(d_model, d_model, rng)
        self.value = Linear(d_model, d_model, rng)
        self.attention = Attention()
        self.output = Linear(d_model, d_model, rng)

    def forward(self, x, memory, mask=None):
        q, k, v = (split_heads(linear(source), self.num_heads)
                   for linear, source in ((self.query, x), (self.key, memory), (self.value, memory)))
        heads = self.attention(q, k, v, mask)
        return self.output(merge_heads(heads))

    def backward(self, dy):
        dheads = split_heads(self.output.backward(dy), self.num_heads)
        dq, dk, dv = (merge_heads(g) for g in self.attention.backward(dheads))
        dmemory = self.key.backward(dk) + self.value.backward(dv)
        return self.query.backward(dq), dmemory

# === [-] MultiHeadAttention.backward adds dmemory to dx if x and memory were the same array, which is the caller's
#     task: then it counts twice (line 48: dx = dx + dmemory)
"""Stage 6: attention with many heads."""

from module import Module
from stage02_linear import Linear
from stage05_attention import Attention


def split_heads(x, num_heads):
    """Cuts the features into heads. Shape: x (..., T, d_model) -> (..., num_heads, T, d_model / num_heads)."""
    *leading, T, D = x.shape
    return x.reshape((*leading, T, num_heads, D // num_heads)).swapaxes(-2, -3)


def merge_heads(x):
    """The inverse of split_heads. Shape: x (..., num_heads, T, d) -> (..., T, num_heads d)."""
    x = x.swapaxes(-2, -3)
    return x.reshape((*x.shape[:-2], x.shape[-2] * x.shape[-1]))


class MultiHeadAttention(Module):
    """Queries from x, keys and values from memory; each head attends by itself, and `output` mixes what they found.

    Shape: x (..., T, d_model), memory (..., S, d_model), mask: boolean, of a shape that fits (..., num_heads, T, S), or
        None -> y (..., T, d_model). backward returns dx, dmemory.
    """

    def __init__(self, d_model, num_heads, rng):
        self.num_heads = num_heads
        self.query = Linear(d_model, d_model, rng)
        self.key = Linear(d_model, d_model, rng)
        self.value = Linear(d_model, d_model, rng)
        self.attention = Attention()
        self.output = Linear(d_model, d_model, rng)

    def forward(self, x, memory, mask=None):
        self.remember(x is memory)
        q = split_heads(self.query(x), self.num_heads)
        k = split_heads(self.key(memory), self.num_heads)
        v = split_heads(self.value(memory), self.num_heads)
        return self.output(merge_heads(self.attention(q, k, v, mask)))

    def backward(self, dy):
        self_attention = self.recall()
        dq, dk, dv = self.attention.backward(split_heads(self.output.backward(dy), self.num_heads))
        dx = self.query.backward(merge_heads(dq))
        dmemory = self.key.backward(merge_heads(dk)) + self.value.backward(merge_heads(dv))
        if self_attention:                  # x was used three times
            dx = dx + dmemory
        return dx, dmemory

# === [-] MultiHeadAttention.forward puts an axis for the heads into masks of more than two axes, although the mask
#     already fits (..., H, T, S): a mask (B, 1, 1, S) becomes (B, 1, 1, 1, S) and gives a result with an axis too
#     many; (T, S) is right (line 38: mask = mask[..., None, :, :]        # the same for every head)
"""Stage 6: attention with many heads."""

from module import Module
from stage02_linear import Linear
from stage05_attention import Attention
import numpy as np


def split_heads(x, num_heads):
    """Cuts the features into heads. Shape: x (..., T, d_model) -> (..., num_heads, T, d_model / num_heads)."""
    head_size = x.shape[-1] // num_heads
    heads = [x[..., h * head_size:(h + 1) * head_size] for h in range(num_heads)]
    return np.stack(heads, axis=-3)


def merge_heads(x):
    """The inverse of split_heads. Shape: x (..., num_heads, T, d) -> (..., T, num_heads d)."""
    return np.concatenate([x[..., h, :, :] for h in range(x.shape[-3])], axis=-1)


class MultiHeadAttention(Module):
    """Queries from x, keys and values from memory; each head attends by itself, and `output` mixes what they found.

    Shape: x (..., T, d_model), memory (..., S, d_model), mask: boolean, of a shape that fits (..., num_heads, T, S), or
        None -> y (..., T, d_model). backward returns dx, dmemory.
    """

    def __init__(self, d_model, num_heads, rng):
        self.num_heads = num_heads
        self.query = Linear(d_model, d_model, rng)
        self.key = Linear(d_model, d_model, rng)
        self.value = Linear(d_model, d_model, rng)
        self.attention = Attention()
        self.output = Linear(d_model, d_model, rng)

    def forward(self, x, memory, mask=None):
        if mask is not None and mask.ndim > 2:
            mask = mask[..., None, :, :]        # the same for every head
        q = split_heads(self.query(x), self.num_heads)
        k = split_heads(self.key(memory), self.num_heads)
        v = split_heads(self.value(memory), self.num_heads)
        return self.output(merge_heads(self.attention(q, k, v, mask)))

    def backward(self, dy):
        dheads = split_heads(self.output.backward(dy), self.num_heads)
        dq, dk, dv = self.attention.backward(dheads)
        dx = self.query.backward(merge_heads(dq))
        dmemory = self.value.backward(merge_heads(dv)) + self.key.backward(merge_heads(dk))
        return dx, dmemory

# === [HD-2] split_heads and merge_heads, lines 12 and 18-19, interleave the features as (d h): head h gets the
#     features h, h + H, h + 2H, ... instead of h d to (h + 1) d - 1; consistent with each other and in the gradients
#     (shows in the page example).
"""Stage 6: attention with many heads."""

import numpy as np

from module import Module
from stage02_linear import Linear
from stage05_attention import Attention


def split_heads(x, num_heads):
    # rearrange(x, "... t (d h) -> ... h t d")
    x = x.reshape(*x.shape[:-1], x.shape[-1] // num_heads, num_heads)
    return np.moveaxis(x, -1, -3)


def merge_heads(x):
    # rearrange(x, "... h t d -> ... t (d h)")
    x = np.moveaxis(x, -3, -1)
    return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])


class MultiHeadAttention(Module):

    def __init__(self, d_model, num_heads, rng):
        self.num_heads = num_heads
        self.query = Linear(d_model, d_model, rng)
        self.key = Linear(d_model, d_model, rng)
        self.value = Linear(d_model, d_model, rng)
        self.attention = Attention()
        self.output = Linear(d_model, d_model, rng)

    def forward(self, x, memory, mask=None):
        q, k, v = self.query(x), self.key(memory), self.value(memory)
        q, k, v = (split_heads(t, self.num_heads) for t in (q, k, v))
        out = merge_heads(self.attention(q, k, v, mask))
        return self.output(out)

    def backward(self, dy):
        dout = split_heads(self.output.backward(dy), self.num_heads)
        dq, dk, dv = (merge_heads(t) for t in self.attention.backward(dout))
        dx = self.query.backward(dq)
        return dx, self.key.backward(dk) + self.value.backward(dv)

# === [-] MultiHeadAttention.forward, line 34, inserts an axis for the heads into every mask (unsqueeze(1)): fine for
#     (T, S), but masks (H, T, S), (B, 1, 1, S) and (B, H, T, S) get one axis too many and give wrong weights, wrong
#     shapes or errors.
"""Stage 6: attention with many heads."""

import numpy as np

from module import Module
from stage02_linear import Linear
from stage05_attention import Attention


def split_heads(x, num_heads):
    lead, T, D = x.shape[:-2], x.shape[-2], x.shape[-1]
    x = x.reshape(lead + (T, num_heads, D // num_heads))
    return np.swapaxes(x, -3, -2)


def merge_heads(x):
    x = np.swapaxes(x, -3, -2)
    return x.reshape(x.shape[:-2] + (-1,))


class MultiHeadAttention(Module):

    def __init__(self, d_model, num_heads, rng):
        self.num_heads = num_heads
        self.query = Linear(d_model, d_model, rng)
        self.key = Linear(d_model, d_model, rng)
        self.value = Linear(d_model, d_model, rng)
        self.attention = Attention()
        self.output = Linear(d_model, d_model, rng)

    def forward(self, x, memory, mask=None):
        h = self.num_heads
        if mask is not None:
            mask = np.expand_dims(mask, -3)     # the same mask is applied to all h heads
        heads = self.attention(split_heads(self.query(x), h), split_heads(self.key(memory), h),
                               split_heads(self.value(memory), h), mask)
        return self.output(merge_heads(heads))

    def backward(self, dy):
        dheads = split_heads(self.output.backward(dy), self.num_heads)
        dq, dk, dv = self.attention.backward(dheads)
        dmemory = self.value.backward(merge_heads(dv)) + self.key.backward(merge_heads(dk))
        dx = self.query.backward(merge_heads(dq))
        return dx, dmemory

# === [MHA-5] MultiHeadAttention.backward, lines 43-44, returns (dx + dmemory, zeros) if x and memory were the same
#     array, instead of the two separate gradients; their sum is right, so a Block still trains.
"""Stage 6: attention with many heads."""

import numpy as np

from module import Module
from stage02_linear import Linear
from stage05_attention import Attention


def split_heads(x, num_heads):
    # d features for each head, and the heads as a new axis in front of the tokens
    return np.stack(np.split(x, num_heads, axis=-1), axis=-3)


def merge_heads(x):
    return np.concatenate([x[..., h, :, :] for h in range(x.shape[-3])], axis=-1)


class MultiHeadAttention(Module):

    def __init__(self, d_model, num_heads, rng):
        self.num_heads = num_heads
        self.query = Linear(d_model, d_model, rng)
        self.key = Linear(d_model, d_model, rng)
        self.value = Linear(d_model, d_model, rng)
        self.attention = Attention()
        self.output = Linear(d_model, d_model, rng)

    def forward(self, x, memory, mask=None):
        self.remember(x is memory)
        q = split_heads(self.query(x), self.num_heads)
        k = split_heads(self.key(memory), self.num_heads)
        v = split_heads(self.value(memory), self.num_heads)
        z = self.attention(q, k, v, mask)
        return self.output(merge_heads(z))

    def backward(self, dy):
        self_attention = self.recall()
        dz = split_heads(self.output.backward(dy), self.num_heads)
        dq, dk, dv = self.attention.backward(dz)
        dx = self.query.backward(merge_heads(dq))
        dmemory = self.key.backward(merge_heads(dk)) + self.value.backward(merge_heads(dv))
        if self_attention:                      # one array, used three times: it gets the sum of all three
            return dx + dmemory, np.zeros_like(dmemory)
        return dx, dmemory

# === [-] split_heads (line 13) and merge_heads (line 22) know only (T, D) and (B, T, D): with two or more leading
#     axes, both raise ValueError (also in MultiHeadAttention).
"""Stage 6: attention with many heads."""

from module import Module
from stage02_linear import Linear
from stage05_attention import Attention


def split_heads(x, num_heads):
    """Cuts the features into heads. Shape: x (..., T, d_model) -> (..., num_heads, T, d_model / num_heads)."""
    if x.ndim == 2:                             # one text
        T, D = x.shape
        return x.reshape(T, num_heads, D // num_heads).transpose(1, 0, 2)
    B, T, D = x.shape                           # a batch of texts
    return x.reshape(B, T, num_heads, D // num_heads).transpose(0, 2, 1, 3)


def merge_heads(x):
    """The inverse of split_heads. Shape: x (..., num_heads, T, d) -> (..., T, num_heads d)."""
    if x.ndim == 3:
        H, T, d = x.shape
        return x.transpose(1, 0, 2).reshape(T, H * d)
    B, H, T, d = x.shape
    return x.transpose(0, 2, 1, 3).reshape(B, T, H * d)


class MultiHeadAttention(Module):
    """Queries from x, keys and values from memory; each head attends by itself, and `output` mixes what they found.

    Shape: x (..., T, d_model), memory (..., S, d_model), mask: boolean, of a shape that fits (..., num_heads, T, S), or
        None -> y (..., T, d_model). backward returns dx, dmemory.
    """

    def __init__(self, d_model, num_heads, rng):
        self.num_heads = num_heads
        self.query = Linear(d_model, d_model, rng)
        self.key = Linear(d_model, d_model, rng)
        self.value = Linear(d_model, d_model, rng)
        self.attention = Attention()
        self.output = Linear(d_model, d_model, rng)

    def forward(self, x, memory, mask=None):
        q = split_heads(self.query(x), self.num_heads)
        k = split_heads(self.key(memory), self.num_heads)
        v = split_heads(self.value(memory), self.num_heads)
        y = self.attention(q, k, v, mask)
        return self.output(merge_heads(y))

    def backward(self, dy):
        d = split_heads(self.output.backward(dy), self.num_heads)
        dq, dk, dv = map(merge_heads, self.attention.backward(d))
        return self.query.backward(dq), self.key.backward(dk) + self.value.backward(dv)

# === [-] MultiHeadAttention.forward (line 38) inserts a head axis into every mask although it has to be passed on
#     unchanged: harmless for (T, S), but (B, 1, 1, S) or (B, H, T, S) becomes five-dimensional, and a wrong shape or
#     an error follows.
"""Stage 6: attention with many heads."""

import numpy as np

from module import Module
from stage02_linear import Linear
from stage05_attention import Attention


def split_heads(x, num_heads):
    """Cuts the features into heads. Shape: x (..., T, d_model) -> (..., num_heads, T, d_model / num_heads)."""
    return np.stack(np.split(x, num_heads, axis=-1), axis=-3)


def merge_heads(x):
    """The inverse of split_heads. Shape: x (..., num_heads, T, d) -> (..., T, num_heads d)."""
    return np.concatenate([x[..., h, :, :] for h in range(x.shape[-3])], axis=-1)


class MultiHeadAttention(Module):
    """Queries from x, keys and values from memory; each head attends by itself, and `output` mixes what they found.

    Shape: x (..., T, d_model), memory (..., S, d_model), mask: boolean, of a shape that fits (..., num_heads, T, S), or
        None -> y (..., T, d_model). backward returns dx, dmemory.
    """

    def __init__(self, d_model, num_heads, rng):
        self.num_heads = num_heads
        self.query = Linear(d_model, d_model, rng)
        self.key = Linear(d_model, d_model, rng)
        self.value = Linear(d_model, d_model, rng)
        self.attention = Attention()
        self.output = Linear(d_model, d_model, rng)

    def forward(self, x, memory, mask=None):
        H = self.num_heads
        if mask is not None:
            mask = np.expand_dims(mask, -3)         # an axis for the heads
        heads = self.attention(split_heads(self.query(x), H),
                               split_heads(self.key(memory), H),
                               split_heads(self.value(memory), H), mask)
        return self.output(merge_heads(heads))

    def backward(self, dy):
        dheads = split_heads(self.output.backward(dy), self.num_heads)
        dq, dk, dv = self.attention.backward(dheads)
        dx = self.query.backward(merge_heads(dq))
        dmemory = self.key.backward(merge_heads(dk))
        dmemory = dmemory + self.value.backward(merge_heads(dv))
        return dx, dmemory

# === [-] MultiHeadAttention.backward (line 49) adds dmemory to dx if x and memory are the same array, which is the
#     caller's task; in self-attention dx is wrong and the block counts dmemory twice.
"""Stage 6: attention with many heads."""

from module import Module
from stage02_linear import Linear
from stage05_attention import Attention


def split_heads(x, num_heads):
    """Cuts the features into heads. Shape: x (..., T, d_model) -> (..., num_heads, T, d_model / num_heads)."""
    *rest, T, D = x.shape
    parts = x.reshape(*rest, T, num_heads, D // num_heads)
    return parts.swapaxes(-2, -3)


def merge_heads(x):
    """The inverse of split_heads. Shape: x (..., num_heads, T, d) -> (..., T, num_heads d)."""
    *rest, H, T, d = x.shape
    return x.swapaxes(-2, -3).reshape(*rest, T, H * d)


class MultiHeadAttention(Module):
    """Queries from x, keys and values from memory; each head attends by itself, and `output` mixes what they found.

    Shape: x (..., T, d_model), memory (..., S, d_model), mask: boolean, of a shape that fits (..., num_heads, T, S), or
        None -> y (..., T, d_model). backward returns dx, dmemory.
    """

    def __init__(self, d_model, num_heads, rng):
        self.num_heads = num_heads
        self.query = Linear(d_model, d_model, rng)
        self.key = Linear(d_model, d_model, rng)
        self.value = Linear(d_model, d_model, rng)
        self.attention = Attention()
        self.output = Linear(d_model, d_model, rng)

    def forward(self, x, memory, mask=None):
        self.remember(x is memory)
        q, k, v = self.query(x), self.key(memory), self.value(memory)
        q, k, v = (split_heads(part, self.num_heads) for part in (q, k, v))
        return self.output(merge_heads(self.attention(q, k, v, mask)))

    def backward(self, dy):
        self_attention = self.recall()
        dy = split_heads(self.output.backward(dy), self.num_heads)
        dq, dk, dv = self.attention.backward(dy)
        dx = self.query.backward(merge_heads(dq))
        dmemory = self.key.backward(merge_heads(dk)) + self.value.backward(merge_heads(dv))
        if self_attention:                          # x was used three times: query, key and value
            dx = dx + dmemory
        return dx, dmemory

# === [MHA-5] MultiHeadAttention.backward (line 48): if x is memory in forward, returns (dx+dmemory, 0) instead of
#     (dx, dmemory); wrong two gradients in self-attention though their sum is right
"""Stage 6: attention with many heads."""

from module import Module
from stage02_linear import Linear
from stage05_attention import Attention


def split_heads(x, num_heads):
    """Cuts the features into heads. Shape: x (..., T, d_model) -> (..., num_heads, T, d_model / num_heads)."""
    *lead, T, D = x.shape
    return x.reshape(*lead, T, num_heads, D // num_heads).swapaxes(-3, -2)


def merge_heads(x):
    """The inverse of split_heads. Shape: x (..., num_heads, T, d) -> (..., T, num_heads d)."""
    *lead, H, T, d = x.shape
    return x.swapaxes(-3, -2).reshape(*lead, T, H * d)


class MultiHeadAttention(Module):
    """Queries from x, keys and values from memory; each head attends by itself, and `output` mixes what they found.

    Shape: x (..., T, d_model), memory (..., S, d_model), mask: boolean, of a shape that fits (..., num_heads, T, S), or
        None -> y (..., T, d_model). backward returns dx, dmemory.
    """

    def __init__(self, d_model, num_heads, rng):
        self.num_heads = num_heads
        self.query = Linear(d_model, d_model, rng)
        self.key = Linear(d_model, d_model, rng)
        self.value = Linear(d_model, d_model, rng)
        self.attention = Attention()
        self.output = Linear(d_model, d_model, rng)

    def forward(self, x, memory, mask=None):
        self.remember(x is memory)
        q, k, v = self.query(x), self.key(memory), self.value(memory)
        heads = self.attention(*[split_heads(a, self.num_heads) for a in (q, k, v)], mask)
        return self.output(merge_heads(heads))

    def backward(self, dy):
        same = self.recall()
        dheads = split_heads(self.output.backward(dy), self.num_heads)
        dq, dk, dv = [merge_heads(d) for d in self.attention.backward(dheads)]
        dx = self.query.backward(dq)
        dmemory = self.key.backward(dk) + self.value.backward(dv)
        if same:                        # x was used three times, so it gets the sum of all its uses
            return dx + dmemory, 0 * dmemory
        return dx, dmemory

# === [-] MultiHeadAttention.forward (loop over heads) (line 45): takes the mask of head h by index, IndexError for
#     h>=1 if the axis of heads of the mask has size 1, such as (B,1,1,S) (also attention.weights holds only the last
#     head)
"""Stage 6: attention with many heads."""

import numpy as np

from module import Module
from stage02_linear import Linear
from stage05_attention import Attention


def split_heads(x, num_heads):
    """Cuts the features into heads. Shape: x (..., T, d_model) -> (..., num_heads, T, d_model / num_heads)."""
    *lead, T, D = x.shape
    return x.reshape(*lead, T, num_heads, D // num_heads).swapaxes(-3, -2)


def merge_heads(x):
    """The inverse of split_heads. Shape: x (..., num_heads, T, d) -> (..., T, num_heads d)."""
    *lead, H, T, d = x.shape
    return x.swapaxes(-3, -2).reshape(*lead, T, H * d)


class MultiHeadAttention(Module):
    """Queries from x, keys and values from memory; each head attends by itself, and `output` mixes what they found.

    Shape: x (..., T, d_model), memory (..., S, d_model), mask: boolean, of a shape that fits (..., num_heads, T, S), or
        None -> y (..., T, d_model). backward returns dx, dmemory.
    """

    def __init__(self, d_model, num_heads, rng):
        self.num_heads = num_heads
        self.query = Linear(d_model, d_model, rng)
        self.key = Linear(d_model, d_model, rng)
        self.value = Linear(d_model, d_model, rng)
        self.attention = Attention()
        self.output = Linear(d_model, d_model, rng)

    def forward(self, x, memory, mask=None):
        q = split_heads(self.query(x), self.num_heads)
        k = split_heads(self.key(memory), self.num_heads)
        v = split_heads(self.value(memory), self.num_heads)
        found = []
        for h in range(self.num_heads):
            m = mask
            if mask is not None and mask.ndim > 2:          # (..., H, T, S): the mask of this head
                m = mask[..., h, :, :]
            found.append(self.attention(q[..., h, :, :], k[..., h, :, :], v[..., h, :, :], m))
        return self.output(np.concatenate(found, axis=-1))

    def backward(self, dy):
        d = split_heads(self.output.backward(dy), self.num_heads)
        grads = []
        for h in reversed(range(self.num_heads)):           # the last use comes back first
            grads.insert(0, self.attention.backward(d[..., h, :, :]))
        dq, dk, dv = [np.concatenate(parts, axis=-1) for parts in zip(*grads)]
        return self.query.backward(dq), self.key.backward(dk) + self.value.backward(dv)

# === [HD-15] split_heads (line 12): puts H in front of ALL axes instead of before T (merge_heads in the same
#     convention: concatenates over axis 0); right for (T,D), wrong shape/order for inputs with leading axes, and
#     masks with leading axes then hide wrong things or fail; unmasked attention stays right
"""Stage 6: attention with many heads."""

import numpy as np

from module import Module
from stage02_linear import Linear
from stage05_attention import Attention


def split_heads(x, num_heads):
    """Cuts the features into heads. Shape: x (..., T, d_model) -> (..., num_heads, T, d_model / num_heads)."""
    return np.stack(np.split(x, num_heads, axis=-1))


def merge_heads(x):
    """The inverse of split_heads. Shape: x (..., num_heads, T, d) -> (..., T, num_heads d)."""
    return np.concatenate(list(x), axis=-1)


class MultiHeadAttention(Module):
    """Queries from x, keys and values from memory; each head attends by itself, and `output` mixes what they found.

    Shape: x (..., T, d_model), memory (..., S, d_model), mask: boolean, of a shape that fits (..., num_heads, T, S), or
        None -> y (..., T, d_model). backward returns dx, dmemory.
    """

    def __init__(self, d_model, num_heads, rng):
        self.num_heads = num_heads
        self.query = Linear(d_model, d_model, rng)
        self.key = Linear(d_model, d_model, rng)
        self.value = Linear(d_model, d_model, rng)
        self.attention = Attention()
        self.output = Linear(d_model, d_model, rng)

    def forward(self, x, memory, mask=None):
        n = self.num_heads
        heads = self.attention(
            split_heads(self.query(x), n), split_heads(self.key(memory), n), split_heads(self.value(memory), n), mask)
        return self.output(merge_heads(heads))

    def backward(self, dy):
        d_heads = split_heads(self.output.backward(dy), self.num_heads)
        d_query, d_key, d_value = self.attention.backward(d_heads)
        d_memory = self.value.backward(merge_heads(d_value))
        d_memory = d_memory + self.key.backward(merge_heads(d_key))
        return self.query.backward(merge_heads(d_query)), d_memory
