# === [HD-2] split_heads and merge_heads give every H-th feature to a head (feature i to head i mod H) instead of d
#     neighbors; the two are inverse to each other: parts = x.reshape(*lead, T, D // num_heads, num_heads).
import numpy as np


def split_heads(x, num_heads):
    *lead, T, D = x.shape
    parts = x.reshape(*lead, T, D // num_heads, num_heads)
    return np.moveaxis(parts, -1, -3)


def merge_heads(x):
    *lead, H, T, d = x.shape
    return np.moveaxis(x, -3, -1).reshape(*lead, T, d * H)


class MultiHeadAttention(Module):
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


# === [place] MultiHeadAttention.backward adds dmemory to dx by itself if x and memory were the same array, which is
#     the caller's task: dx = dx + dmemory.
def split_heads(x, num_heads):
    parts = x.reshape(x.shape[:-1] + (num_heads, -1))
    return parts.swapaxes(-3, -2)


def merge_heads(x):
    x = x.swapaxes(-3, -2)
    return x.reshape(x.shape[:-2] + (-1,))


class MultiHeadAttention(Module):
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
#     there are several leading axes: return x.reshape(B, T, num_heads, D // num_heads).transpose(0, 2, 1, 3).
def split_heads(x, num_heads):
    if x.ndim == 2:
        T, D = x.shape
        return x.reshape(T, num_heads, D // num_heads).transpose(1, 0, 2)
    B, T, D = x.shape
    return x.reshape(B, T, num_heads, D // num_heads).transpose(0, 2, 1, 3)


def merge_heads(x):
    if x.ndim == 3:
        H, T, d = x.shape
        return x.transpose(1, 0, 2).reshape(T, H * d)
    B, H, T, d = x.shape
    return x.transpose(0, 2, 1, 3).reshape(B, T, H * d)


class MultiHeadAttention(Module):
    def backward(self, dy):
        dy = split_heads(self.output.backward(dy), self.num_heads)
        dq, dk, dv = self.attention.backward(dy)
        dx = self.query.backward(merge_heads(dq))
        dmemory = self.key.backward(merge_heads(dk))
        return dx, dmemory + self.value.backward(merge_heads(dv))


# === [-] MultiHeadAttention.backward takes the gradients of attention in the wrong order, so key.backward gets the
#     gradient of the values and value.backward that of the keys: dq, dv, dk = self.attention.backward(.
import numpy as np


def split_heads(x, num_heads):
    d = x.shape[-1] // num_heads
    return np.stack([x[..., h * d:(h + 1) * d] for h in range(num_heads)], axis=-3)


def merge_heads(x):
    return np.concatenate([x[..., h, :, :] for h in range(x.shape[-3])], axis=-1)


class MultiHeadAttention(Module):
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


# === [place] MultiHeadAttention.backward: if x and memory are the same array, dmemory is already added to dx (and
#     still returned), so the caller, who adds both, counts it twice; right for cross-attention and when x and memory
#     are equal copies.
def split_heads(x, num_heads):
    lead, D = x.shape[:-1], x.shape[-1]
    return x.reshape(lead + (num_heads, D // num_heads)).swapaxes(-2, -3)


def merge_heads(x):
    x = x.swapaxes(-2, -3)
    return x.reshape(x.shape[:-2] + (-1,))


class MultiHeadAttention(Module):
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


# === [place] MultiHeadAttention.forward: inserts an axis for the heads in every mask of more than 2 axes, though the
#     mask already fits (..., H, T, S): (B, 1, 1, S) and (H, T, S) masks raise an error or hide the wrong keys; (T, S)
#     and None are right.
import numpy as np


def split_heads(x, num_heads):
    d = x.shape[-1] // num_heads
    return np.stack([x[..., h * d:(h + 1) * d] for h in range(num_heads)], axis=-3)


def merge_heads(x):
    return np.concatenate([x[..., h, :, :] for h in range(x.shape[-3])], axis=-1)


class MultiHeadAttention(Module):
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


# === [place] MultiHeadAttention.backward adds dmemory to dx if x and memory were the same array, which is the
#     caller's task: then it counts twice (dx = dx + dmemory)
def split_heads(x, num_heads):
    *leading, T, D = x.shape
    return x.reshape((*leading, T, num_heads, D // num_heads)).swapaxes(-2, -3)


def merge_heads(x):
    x = x.swapaxes(-2, -3)
    return x.reshape((*x.shape[:-2], x.shape[-2] * x.shape[-1]))


class MultiHeadAttention(Module):
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


# === [MHA-5] MultiHeadAttention.backward, lines 43-44, returns (dx + dmemory, zeros) if x and memory were the same
#     array, instead of the two separate gradients; their sum is right, so a Block still trains.
import numpy as np


def split_heads(x, num_heads):
    # d features for each head, and the heads as a new axis in front of the tokens
    return np.stack(np.split(x, num_heads, axis=-1), axis=-3)


def merge_heads(x):
    return np.concatenate([x[..., h, :, :] for h in range(x.shape[-3])], axis=-1)


class MultiHeadAttention(Module):
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


# === [HD-15] split_heads: puts H in front of ALL axes instead of before T (merge_heads in the same convention:
#     concatenates over axis 0); right for (T,D), wrong shape/order for inputs with leading axes, and masks with
#     leading axes then hide wrong things or fail; unmasked attention stays right
import numpy as np


def split_heads(x, num_heads):
    return np.stack(np.split(x, num_heads, axis=-1))


def merge_heads(x):
    return np.concatenate(list(x), axis=-1)


class MultiHeadAttention(Module):
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


# === [HD-2] split_heads (and its inverse merge_heads): features are dealt out interleaved: head h gets the features
#     h, h + H, h + 2H, ... instead of h d to (h + 1) d - 1; merge_heads is consistently inverse, so shapes and finite
#     differences fit, numbers do not (right for H = 1 or d = 1).
import numpy as np


def split_heads(x, num_heads):
    *lead, T, D = x.shape
    x = x.reshape(*lead, T, D // num_heads, num_heads)
    return np.moveaxis(x, -1, -3)


def merge_heads(x):
    x = np.moveaxis(x, -3, -1)                          # (..., T, d, H)
    *lead, T, d, H = x.shape
    return x.reshape(*lead, T, d * H)


class MultiHeadAttention(Module):
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


# === [place] Heads are computed one after the other with one Attention; backward, line 49, goes through the heads in
#     the order of forward, but the stack returns the last head first, so each head is combined with the remembered
#     values of another one.
import numpy as np


def split_heads(x, num_heads):
    # every head is a slice of the features
    return np.stack(np.split(x, num_heads, axis=-1), axis=-3)


def merge_heads(x):
    heads = [x[..., h, :, :] for h in range(x.shape[-3])]
    return np.concatenate(heads, axis=-1)


class MultiHeadAttention(Module):
    def forward(self, x, memory, mask=None):
        q = split_heads(self.query(x), self.num_heads)
        k = split_heads(self.key(memory), self.num_heads)
        v = split_heads(self.value(memory), self.num_heads)
        if mask is not None:                    # so that each head can take its own part
            mask = np.broadcast_to(mask, (*q.shape[:-1], k.shape[-2]))

        # one head after the other, then concatenate
        outs, weights = [], []
        for h in range(self.num_heads):
            head_mask = None if mask is None else mask[..., h, :, :]
            outs.append(self.attention(q[..., h, :, :], k[..., h, :, :], v[..., h, :, :], head_mask))
            weights.append(self.attention.weights)
        self.attention.weights = np.stack(weights, axis=-3)
        return self.output(np.concatenate(outs, axis=-1))

    def backward(self, dy):
        douts = np.split(self.output.backward(dy), self.num_heads, axis=-1)
        dq, dk, dv = [], [], []
        for dout in douts:
            a, b, c = self.attention.backward(dout)
            dq.append(a)
            dk.append(b)
            dv.append(c)
        dq, dk, dv = (np.concatenate(parts, axis=-1) for parts in (dq, dk, dv))
        return self.query.backward(dq), self.key.backward(dk) + self.value.backward(dv)
