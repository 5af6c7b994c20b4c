# === stage01_loss.py
"""Stage 1: softmax and cross-entropy."""

import numpy as np

from module import Module


def row_max(z):
    return z.max(axis=-1, keepdims=True)


def log_softmax(z):
    """log p_i = z_i - log sum_j exp z_j, invariant under z -> z - c, so take c = max."""
    shifted = z - row_max(z)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def softmax(z):
    """Probabilities p = exp(z) / sum of exp(z) over the last axis. Shape: z (..., V) -> p (the same)."""
    a = np.exp(z - row_max(z))
    return a / a.sum(axis=-1, keepdims=True)


def softmax_backward(p, dp):
    """The gradient dz of the logits, from p = softmax(z) and dp. Shape: p and dp (..., V) -> dz (the same).

    Jacobian: J_ij = d p_i / d z_j = p_i (delta_ij - p_j), and dz_j = sum_i dp_i J_ij.
    """
    delta = np.eye(p.shape[-1], dtype=p.dtype)
    jacobian = np.einsum("...i,ij->...ij", p, delta) - np.einsum("...i,...j->...ij", p, p)
    return np.einsum("...i,...ij->...j", dp, jacobian)


class CrossEntropyLoss(Module):
    """The mean over all counted targets of -sum_v q_v log p_v, where p = softmax(logits).

    Parameters: label_smoothing : the e in q = (1 - e) onehot + e / V; ignore_id : targets with this id do not count, and
        with None all of them do
    Shape: logits (..., V), targets (...) integers -> a number; backward returns dlogits (..., V)
    """

    def __init__(self, label_smoothing=0.0, ignore_id=None):
        self.label_smoothing = label_smoothing
        self.ignore_id = ignore_id

    def forward(self, logits, targets):
        V, e = logits.shape[-1], self.label_smoothing
        onehot = (targets[..., None] == np.arange(V)).astype(logits.dtype)      # no indexing: an ignored id gives a zero row
        q = (1 - e) * onehot + e / V
        if self.ignore_id is None:
            counted = np.ones(targets.shape, dtype=logits.dtype)
        else:
            counted = (targets != self.ignore_id).astype(logits.dtype)
        N = int(counted.sum())
        log_p = log_softmax(logits)
        self.remember(log_p, q, counted, N)
        row_losses = -np.einsum("...v,...v->...", q, log_p)
        return (counted * row_losses).sum() / N

    def backward(self):
        # L = -1/N sum_n c_n sum_v q_nv (z_nv - lse_n), d lse_n / d z_nj = p_nj, sum_v q_nv = 1
        # => dL/dz_nj = c_n (p_nj - q_nj) / N
        log_p, q, counted, N = self.recall()
        return counted[..., None] * (np.exp(log_p) - q) / N

# === stage02_linear.py
"""Stage 2: the linear layer and the embedding."""

import math

import numpy as np

from module import Module, Parameter


def as_rows(array, width):
    """(..., width) -> (N, width), N the product of the leading sizes (1 if there are none)."""
    N = math.prod(array.shape[:-1])
    return array.reshape(N, width)


class Linear(Module):
    """y = x W + b. Shape: x (..., d_in) -> y (..., d_out); weight W (d_in, d_out), bias b (d_out,)."""

    def __init__(self, d_in, d_out, rng):
        self.weight = Parameter(rng.normal(0, 0.02, (d_in, d_out)))
        self.bias = Parameter(np.zeros(d_out))

    def forward(self, x):
        self.remember(x)
        return np.einsum("...d,df->...f", x, self.weight.data) + self.bias.data

    def backward(self, dy):
        # y_nf = sum_d x_nd W_df + b_f
        #   dL/dx_nd = sum_f dy_nf W_df ;  dL/dW_df = sum_n x_nd dy_nf ;  dL/db_f = sum_n dy_nf
        x = self.recall()
        W = self.weight.data
        X, DY = as_rows(x, W.shape[0]), as_rows(dy, W.shape[1])
        self.weight.grad += np.einsum("nd,nf->df", X, DY)
        self.bias.grad += np.einsum("nf->f", DY)
        return np.einsum("...f,df->...d", dy, W)


class Embedding(Module):
    """The row of the table for each id. Shape: ids (...) integers -> x (..., d_model); weight (vocab_size, d_model).

    backward returns nothing, because ids have no gradient.
    """

    def __init__(self, vocab_size, d_model, rng):
        self.weight = Parameter(rng.normal(0, 0.02, (vocab_size, d_model)))

    def forward(self, ids):
        self.remember(ids)
        return self.weight.data[ids]

    def backward(self, dx):
        # x = P E with P_ti = [ids_t = i], so dE = P^T dx
        ids = self.recall()
        V, D = self.weight.data.shape
        P = (ids.reshape(-1, 1) == np.arange(V)).astype(dx.dtype)
        self.weight.grad += P.T @ as_rows(dx, D)

# === stage03_normalization.py
"""Stage 3: layer normalization."""

import numpy as np

from module import Module, Parameter


class LayerNorm(Module):
    """y = gamma (x - mean) / sqrt(variance + eps) + beta, over the last axis.

    Shape: x (..., d_model) -> y (the same); gamma and beta (d_model,). The variance divides by d_model.
    """

    def __init__(self, d_model, eps=1e-5):
        self.eps = eps
        self.gamma = Parameter(np.ones(d_model))
        self.beta = Parameter(np.zeros(d_model))

    def forward(self, x):
        c = x - x.mean(axis=-1, keepdims=True)
        r = (np.mean(c**2, axis=-1, keepdims=True) + self.eps) ** -0.5
        self.remember(c, r)
        return self.gamma.data * c * r + self.beta.data

    def backward(self, dy):
        # xhat_i = c_i r, c = x - mean, r = (mean(c^2) + eps)^(-1/2)
        # dc_i/dx_j = delta_ij - 1/D ;  dr/dx_j = -r^3 / 2 * 2 c_j / D  (the sum of c is 0)
        # K_ij = d xhat_i / d x_j = r (delta_ij - 1/D) - r^3 c_i c_j / D   -- symmetric
        c, r = self.recall()
        D = c.shape[-1]
        rows = tuple(range(dy.ndim - 1))
        self.gamma.grad += np.sum(dy * c * r, axis=rows)
        self.beta.grad += np.sum(dy, axis=rows)
        r3 = r[..., None]
        projector = np.eye(D, dtype=c.dtype) - 1 / D
        K = r3 * projector - r3**3 / D * np.einsum("...i,...j->...ij", c, c)
        return np.einsum("...i,i,...ij->...j", dy, self.gamma.data, K)

# === stage04_feed_forward.py
"""Stage 4: the activation GELU and the feed-forward layer."""

import math

import numpy as np

from module import Module
from stage02_linear import Linear

C = math.sqrt(2 / math.pi)                      # of GELU's tanh form
CUBIC = 0.044715


def logistic_form(x):
    """(1 + tanh u) / 2 = 1 / (1 + exp(-2u)) = s, s' = 2 s (1 - s) u', and u'."""
    u = C * (x + CUBIC * x**3)
    du = C * (1 + 3 * CUBIC * x**2)
    s = (1 + np.tanh(u)) / 2
    return s, du


class Composition(Module):
    """f_n o ... o f_1; by the chain rule backward runs through the factors in the opposite order."""

    def chain(self):
        raise NotImplementedError

    def forward(self, x):
        for f in self.chain():
            x = f(x)
        return x

    def backward(self, dy):
        for f in reversed(self.chain()):
            dy = f.backward(dy)
        return dy


class GELU(Module):
    """y = x (1 + tanh(u)) / 2, where u = C (x + CUBIC x^3). Shape: x (any) -> y (the same)."""

    def forward(self, x):
        s, du = logistic_form(x)
        self.remember(x, s, du)
        return x * s

    def backward(self, dy):
        # y = x s ; y' = s + x s' ; s = (1 + t)/2, s' = (1 - t^2) u' / 2 = 2 s (1 - s) u'
        x, s, du = self.recall()
        return dy * (s + x * 2 * s * (1 - s) * du)


class FeedForward(Composition):
    """y = down(GELU(up(x))): two linear layers, d_model -> d_ff -> d_model. Shape: x (..., d_model) -> y (the same)."""

    def __init__(self, d_model, d_ff, rng):
        self.up = Linear(d_model, d_ff, rng)
        self.activation = GELU()
        self.down = Linear(d_ff, d_model, rng)

    def chain(self):
        return (self.up, self.activation, self.down)

# === stage05_attention.py
"""Stage 5: scaled dot-product attention of one head, and the causal mask."""

import math

import numpy as np

from module import Module
from stage01_loss import softmax, softmax_backward

HIDDEN = -1e30


def causal_mask(T):
    """A boolean array (T, T), True where query t may see key s: at s <= t."""
    index = np.arange(T)
    return index[None, :] <= index[:, None]


class Attention(Module):
    """y = p v, p = softmax(q k^T / sqrt(d)); scores that the mask hides become -infinity before the softmax.

    Shape: q (..., T, d), k (..., S, d), v (..., S, e), mask: boolean, True = may see, of a shape that fits (..., T, S), or
        None: everything is visible -> y (..., T, e). `weights` holds the latest p (..., T, S). backward returns dq, dk, dv.
    """

    def forward(self, q, k, v, mask=None):
        A = np.einsum("...ti,...si->...ts", q, k) / math.sqrt(q.shape[-1])
        if mask is not None:
            A[np.broadcast_to(~mask, A.shape)] = HIDDEN          # A is ours: in place is allowed; exp(-1e30 - max) = 0
        p = softmax(A)
        self.weights = p
        self.remember(q, k, v, p)
        return np.einsum("...ts,...se->...te", p, v)

    def backward(self, dy):
        # y_te = sum_s p_ts v_se:   dp_ts = sum_e dy_te v_se,  dv_se = sum_t p_ts dy_te
        # A_ts = sum_i q_ti k_si / sqrt d:  dq_ti = sum_s dA_ts k_si / sqrt d,  dk_si = sum_t dA_ts q_ti / sqrt d
        q, k, v, p = self.recall()
        dp = np.einsum("...te,...se->...ts", dy, v)
        dv = np.einsum("...ts,...te->...se", p, dy)
        dA = softmax_backward(p, dp) / math.sqrt(q.shape[-1])
        dq = np.einsum("...ts,...si->...ti", dA, k)
        dk = np.einsum("...ts,...ti->...si", dA, q)
        return dq, dk, dv

# === stage06_heads.py
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
        q, k, v = (split_heads(f(z), self.num_heads) for f, z in ((self.query, x), (self.key, memory), (self.value, memory)))
        return self.output(merge_heads(self.attention(q, k, v, mask)))

    def backward(self, dy):
        # split is a permutation of coordinates, so its transpose is its inverse, merge
        dheads = split_heads(self.output.backward(dy), self.num_heads)
        dq, dk, dv = map(merge_heads, self.attention.backward(dheads))
        return self.query.backward(dq), self.key.backward(dk) + self.value.backward(dv)

# === stage07_block.py
"""Stage 7: the block, with its residual connections."""

from module import Module
from stage03_normalization import LayerNorm
from stage04_feed_forward import FeedForward
from stage06_heads import MultiHeadAttention


class Branch:
    """The map x -> x + f(norm(x)), i.e. 1 + F; its transposed derivative is 1 + F'^T.

    No Module: it holds nothing, it only borrows the norm and the layer of a block.
    """

    def __init__(self, norm, layer):
        self.norm, self.layer = norm, layer

    def forward(self, x, *more):
        return x + self.layer(self.norm(x), *more)

    def backward(self, dy):
        return dy + self.norm.backward(self.layer.backward(dy))


class SelfBranch(Branch):
    """The layer reads h twice, so dh is a sum."""

    def forward(self, x, mask=None):
        h = self.norm(x)
        return x + self.layer(h, h, mask)

    def backward(self, dy):
        return dy + self.norm.backward(sum(self.layer.backward(dy)))


class Block(Module):
    """x + attention(norm1(x)), and then x + feed_forward(norm2(x)).

    Shape: x (..., T, d_model), mask as in MultiHeadAttention -> y (..., T, d_model); backward returns dx.
    """

    def __init__(self, d_model, num_heads, d_ff, rng):
        self.norm1 = LayerNorm(d_model)
        self.attention = MultiHeadAttention(d_model, num_heads, rng)
        self.norm2 = LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, d_ff, rng)

    def branches(self):
        return SelfBranch(self.norm1, self.attention), Branch(self.norm2, self.feed_forward)

    def forward(self, x, mask=None):
        first, second = self.branches()
        return second.forward(first.forward(x, mask))

    def backward(self, dy):
        first, second = self.branches()
        return first.backward(second.backward(dy))

# === stage08_model.py
"""Stage 8: the language model, whose output layer is the transposed embedding."""

import numpy as np

from module import Module, Parameter
from stage02_linear import Embedding, as_rows
from stage03_normalization import LayerNorm
from stage05_attention import causal_mask
from stage07_block import Block


class LanguageModel(Module):
    """Logits of the next token at every position: norm(blocks(embedding + positions)) E^T.

    Shape: ids (..., T) integers, T <= max_len -> logits (..., T, vocab_size); positions (max_len, d_model). The embedding's
        table E is used twice, so its gradient has two parts. backward returns nothing.
    """

    def __init__(self, vocab_size, max_len, d_model, num_heads, d_ff, num_layers, rng):
        self.embedding = Embedding(vocab_size, d_model, rng)
        self.positions = Parameter(rng.normal(0, 0.02, (max_len, d_model)))
        self.blocks = [Block(d_model, num_heads, d_ff, rng) for _ in range(num_layers)]
        self.norm = LayerNorm(d_model)

    def forward(self, ids):
        T = ids.shape[-1]
        mask = causal_mask(T)
        x = self.embedding(ids) + self.positions.data[:T]
        for block in self.blocks:
            x = block(x, mask)
        h = self.norm(x)
        self.remember(h)
        return np.einsum("...td,vd->...tv", h, self.embedding.weight.data)

    def backward(self, dlogits):
        # z_ntv = sum_d h_ntd E_vd:   dh_ntd = sum_v dz_ntv E_vd ;  dE_vd = sum_nt dz_ntv h_ntd
        h = self.recall()
        E = self.embedding.weight
        V, D = E.data.shape
        T = h.shape[-2]
        E.grad += np.einsum("nv,nd->vd", as_rows(dlogits, V), as_rows(h, D))
        dx = self.norm.backward(np.einsum("...v,vd->...d", dlogits, E.data))
        for block in self.blocks[::-1]:
            dx = block.backward(dx)
        self.positions.grad[:T] += np.einsum("ntd->td", dx.reshape(-1, T, D))
        self.embedding.backward(dx)

# === stage09_training.py
"""Stage 9: AdamW, clipping, the learning rate, and the training loop."""

import math

import numpy as np


def mix(b, old, new):
    """The point (1 - b) of the way from old to new."""
    return b * old + (1 - b) * new


class AdamW:
    """Adam with decoupled weight decay.

    m and v are running means of g and g^2; with the step t from 1 on, m / (1 - b1^t) and v / (1 - b2^t) are unbiased, and
    data -= lr weight_decay data,   data -= lr m_hat / (sqrt(v_hat) + eps).

    Parameters: parameters : list of Parameter; lr; betas : (b1, b2); eps; weight_decay
    """

    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        self.parameters = list(parameters)
        self.lr, self.betas, self.eps, self.weight_decay = lr, betas, eps, weight_decay
        self.m = [np.zeros_like(parameter.data) for parameter in self.parameters]
        self.v = [np.zeros_like(parameter.data) for parameter in self.parameters]
        self.t = 0

    def step(self):
        """Changes the data of every parameter in place, from its grad. Does not change the gradients."""
        self.t += 1
        b1, b2 = self.betas
        gradients = [parameter.grad for parameter in self.parameters]
        self.m = [mix(b1, m, g) for m, g in zip(self.m, gradients)]
        self.v = [mix(b2, v, g**2) for v, g in zip(self.v, gradients)]
        # m_hat / (sqrt(v_hat) + eps) = (m / c1) / (sqrt(v) / sqrt(c2) + eps) = sqrt(c2) / c1 * m / (sqrt(v) + eps sqrt(c2))
        c1, c2 = 1 - b1**self.t, 1 - b2**self.t
        root = math.sqrt(c2)
        for parameter, m, v in zip(self.parameters, self.m, self.v):
            w = parameter.data
            w *= 1 - self.lr * self.weight_decay
            w -= self.lr * root / c1 * m / (np.sqrt(v) + self.eps * root)


def clip_gradients(parameters, max_norm):
    """Scales all gradients by one factor, in place, if their joint norm is above max_norm."""
    parameters = list(parameters)
    norm = math.hypot(*(float(np.linalg.norm(parameter.grad)) for parameter in parameters))
    if norm > max_norm:
        for parameter in parameters:
            parameter.grad *= max_norm / norm


def learning_rate(n, d_model, warmup):
    """The rate of step n, from 1 on: d_model^-0.5 min(n^-0.5, n warmup^-1.5)."""
    return d_model**-0.5 * min(n**-0.5, n * warmup**-1.5)


def train(model, loss, optimizer, batches, rate, max_norm=1.0):
    """One step for each batch (inputs..., targets): zero the gradients, forward, backward, clip, set lr, step.

    Parameters: model, loss : Modules; optimizer : AdamW; batches : list of tuples of arrays, whose last one is the targets;
        rate : function of n, the number of the step from 1 on
    Returns: the list of the losses, each of before its step
    """
    losses = []
    for n, (*inputs, targets) in enumerate(batches, start=1):
        for parameter in optimizer.parameters:
            parameter.grad = np.zeros_like(parameter.data)
        losses.append(loss(model(*inputs), targets))
        model.backward(loss.backward())
        clip_gradients(optimizer.parameters, max_norm)
        optimizer.lr = rate(n)
        optimizer.step()
    return losses

# === stage10_sampling.py
"""Stage 10: text from the model, with a key-value cache."""

import numpy as np

from stage01_loss import softmax
from stage06_heads import merge_heads, split_heads
from stage07_block import Branch


def next_probabilities(logits, temperature=1.0, top_k=None):
    """softmax(logits / temperature) (V,) of the top_k most likely tokens; temperature 0: the most likely one has 1."""
    V = len(logits)
    if temperature == 0:
        return np.where(np.arange(V) == np.argmax(logits), 1.0, 0.0)
    # conditioning p on the set of the k largest = softmax in which the others have the logit -infinity
    z = (logits - logits.max()) / float(temperature)
    if top_k is not None and top_k < V:
        smallest = np.argsort(-z, kind="stable")[top_k:]
        z[smallest] = -np.inf
    return softmax(z)


class KeyValueCache:
    """The keys and values of all tokens so far: one pair (..., num_heads, length, d) for each attention layer."""

    def __init__(self, num_layers):
        self.pairs = [None] * num_layers
        self.length = 0


def join(old, new):
    return new if old is None else np.concatenate([old, new], axis=-2)


def cached_attention(attention, x, cache, i):
    """What MultiHeadAttention returns for the new tokens x (..., T, d_model) of a text, whose earlier ones are in the cache.

    Adds the keys and values of x to the pair of layer i; cache.length does not change here. Each token sees those before
    it, and itself.
    """
    q, k, v = (split_heads(f(x), attention.num_heads) for f in (attention.query, attention.key, attention.value))
    old_k, old_v = cache.pairs[i] or (None, None)
    keys, values = cache.pairs[i] = join(old_k, k), join(old_v, v)
    T, S = q.shape[-2], keys.shape[-2]
    C = S - T
    mask = np.arange(S) <= C + np.arange(T)[:, None]
    return attention.output(merge_heads(attention.attention(q, keys, values, mask)))


def cached_forward(model, ids, cache):
    """The logits (..., T, vocab_size) of new tokens ids (..., T), whose earlier ones are in the cache."""
    C, T = cache.length, ids.shape[-1]
    x = model.embedding(ids) + model.positions.data[C : C + T]
    for i, block in enumerate(model.blocks):
        x = Branch(block.norm1, lambda h: cached_attention(block.attention, h, cache, i)).forward(x)
        x = Branch(block.norm2, block.feed_forward).forward(x)
    logits = np.einsum("...td,vd->...tv", model.norm(x), model.embedding.weight.data)
    cache.length += T
    model.forget()
    return logits


def draw(p, rng):
    """Inverse distribution function: the first i with F(i) > u, for u uniform in [0, F(V - 1))."""
    F = np.cumsum(p, dtype=np.float64)
    u = rng.random() * F[-1]
    return int(np.argmax(F > u))


def generate(model, ids, count, temperature=1.0, top_k=None, rng=None):
    """The list of prompt ids followed by `count` new ones; the model's max_len is the longest that they can be together."""
    text = [int(i) for i in ids]
    cache = KeyValueCache(len(model.blocks))
    new = text
    for _ in range(count):
        logits = cached_forward(model, np.array(new), cache)[-1]
        p = next_probabilities(logits, temperature, top_k)
        token = int(np.argmax(p)) if temperature == 0 else draw(p, rng)
        new = [token]
        text = text + new
    return text

# === stage11_gpt2.py
"""Stage 11: the weights and the tokenizer of GPT-2, from a folder of Hugging Face."""

import json
import re
from pathlib import Path

import numpy as np

from module import Module
from stage03_normalization import LayerNorm
from stage08_model import LanguageModel

WORDS = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+| ?\d+| ?(?:[^\w\s]|_)+|\s+(?!\S)|\s+")
TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}


def read_safetensors(path):
    """{name: array} of a file: 8 bytes with the length n of the header, n bytes of JSON, then the arrays' bytes."""
    data = Path(path).read_bytes()
    n = sum(byte * 256**i for i, byte in enumerate(data[:8]))
    header = json.loads(data[8 : 8 + n])
    body = data[8 + n :]
    arrays = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        start, end = entry["data_offsets"]
        arrays[name] = np.frombuffer(body[start:end], TYPES[entry["dtype"]]).reshape(entry["shape"]).copy()
    return arrays


class Affine:
    """A pair (a, b) of the file, and the two parameters it goes into."""

    def __init__(self, arrays, name):
        self.a, self.b = arrays[name + ".weight"], arrays[name + ".bias"]

    def into(self, layer):
        if isinstance(layer, LayerNorm):
            layer.gamma.data, layer.beta.data = self.a, self.b
        else:
            layer.weight.data, layer.bias.data = self.a, self.b

    def thirds(self):
        for a, b in zip(np.split(self.a, 3, axis=1), np.split(self.b, 3)):
            part = object.__new__(Affine)
            part.a, part.b = a.copy(), b.copy()
            yield part


def load_gpt2(folder):
    """A LanguageModel with the sizes of config.json and the weights of model.safetensors."""
    folder = Path(folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    arrays = {name.removeprefix("transformer."): a for name, a in read_safetensors(folder / "model.safetensors").items()}
    D = config["n_embd"]
    F = config.get("n_inner") or 4 * D
    model = LanguageModel(config["vocab_size"], config["n_positions"], D, config["n_head"], F, config["n_layer"],
                          np.random.default_rng(0))
    model.embedding.weight.data = arrays["wte.weight"]
    model.positions.data = arrays["wpe.weight"]
    Affine(arrays, "ln_f").into(model.norm)
    for N, block in enumerate(model.blocks):
        attention, mlp = block.attention, block.feed_forward
        targets = {"ln_1": block.norm1, "ln_2": block.norm2, "attn.c_proj": attention.output, "mlp.c_fc": mlp.up,
                   "mlp.c_proj": mlp.down}
        for name, layer in targets.items():
            Affine(arrays, f"h.{N}.{name}").into(layer)
        for part, layer in zip(Affine(arrays, f"h.{N}.attn.c_attn").thirds(), (attention.query, attention.key, attention.value)):
            part.into(layer)
    for _, part in model.parts():
        if isinstance(part, LayerNorm):
            part.eps = config["layer_norm_epsilon"]
    return model


def byte_letters():
    """{byte: character}: GPT-2 writes every byte as a visible character; the others become those from 256 on."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in visible]
    return {byte: chr(byte) for byte in visible} | {byte: chr(256 + i) for i, byte in enumerate(others)}


class BytePairEncoding:
    """GPT-2's tokenizer: words, written as the letters of their bytes, are merged pair by pair.

    Parameters: folder : with vocab.json, {token: id}, and merges.txt, one pair in each line, the most important first
    """

    def __init__(self, folder):
        self.ids = json.loads((Path(folder) / "vocab.json").read_text(encoding="utf-8"))
        self.tokens = {number: token for token, number in self.ids.items()}
        lines = (Path(folder) / "merges.txt").read_text(encoding="utf-8").split("\n")
        pairs = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
        self.rank = {pair: n for n, pair in enumerate(pairs)}
        self.letters = byte_letters()
        self.bytes = {letter: byte for byte, letter in self.letters.items()}

    def merge(self, word):
        """The tokens of a word: of all neighbors, the pair of the lowest rank is merged everywhere, again and again."""
        parts = list(word)
        while known := set(zip(parts, parts[1:])) & self.rank.keys():
            best = min(known, key=self.rank.get)
            i = 0
            while i < len(parts) - 1:
                if (parts[i], parts[i + 1]) == best:
                    parts[i : i + 2] = ["".join(best)]
                i += 1
        return parts

    def encode(self, text):
        """The list of ids of a text."""
        visible = ("".join(self.letters[byte] for byte in word.encode("utf-8")) for word in WORDS.findall(text))
        return [self.ids[token] for word in visible for token in self.merge(word)]

    def decode(self, ids):
        """The text of a list of ids."""
        letters = "".join(self.tokens[i] for i in ids)
        return bytes(self.bytes[letter] for letter in letters).decode("utf-8", "replace")

# === stage12_translation.py
"""Stage 12: encoder, cross-attention, and beam search."""

import numpy as np

from module import Module, Parameter
from stage01_loss import log_softmax
from stage02_linear import Embedding, Linear
from stage03_normalization import LayerNorm
from stage04_feed_forward import FeedForward
from stage05_attention import causal_mask
from stage06_heads import MultiHeadAttention
from stage07_block import Block, Branch, SelfBranch


class CrossBranch(Branch):
    """(x, memory) -> x + layer(norm(x), memory); two arguments, so backward returns two gradients."""

    def backward(self, dy):
        dh, dmemory = self.layer.backward(dy)
        return dy + self.norm.backward(dh), dmemory


class DecoderBlock(Module):
    """A Block with attention to the encoder's output, memory, between its two parts: each is x + f(norm(x)).

    Shape: x (..., T, d_model), memory (..., S, d_model), mask and memory_mask as in MultiHeadAttention
        -> y (..., T, d_model). backward returns dx, dmemory.
    """

    def __init__(self, d_model, num_heads, d_ff, rng):
        self.norm1 = LayerNorm(d_model)
        self.attention = MultiHeadAttention(d_model, num_heads, rng)
        self.norm2 = LayerNorm(d_model)
        self.cross_attention = MultiHeadAttention(d_model, num_heads, rng)
        self.norm3 = LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, d_ff, rng)

    def branches(self):
        return (SelfBranch(self.norm1, self.attention), CrossBranch(self.norm2, self.cross_attention),
                Branch(self.norm3, self.feed_forward))

    def forward(self, x, memory, mask=None, memory_mask=None):
        first, second, third = self.branches()
        return third.forward(second.forward(first.forward(x, mask), memory, memory_mask))

    def backward(self, dy):
        first, second, third = self.branches()
        da, dmemory = second.backward(third.backward(dy))
        return first.backward(da), dmemory


class EncoderDecoder(Module):
    """Logits of the next token of a target, for a source text. Tokens with pad_id are hidden in the source.

    Shape: source (B, S), target (B, T) integers -> logits (B, T, vocab_size); S and T at most max_len. Source and target
        have one embedding, and a table of positions each. backward returns nothing.
    """

    def __init__(self, vocab_size, max_len, d_model, num_heads, d_ff, num_layers, rng, pad_id=0):
        self.pad_id = pad_id
        self.embedding = Embedding(vocab_size, d_model, rng)
        self.source_positions = Parameter(rng.normal(0, 0.02, (max_len, d_model)))
        self.target_positions = Parameter(rng.normal(0, 0.02, (max_len, d_model)))
        self.encoder = [Block(d_model, num_heads, d_ff, rng) for _ in range(num_layers)]
        self.encoder_norm = LayerNorm(d_model)
        self.decoder = [DecoderBlock(d_model, num_heads, d_ff, rng) for _ in range(num_layers)]
        self.decoder_norm = LayerNorm(d_model)
        self.output = Linear(d_model, vocab_size, rng)

    def encode(self, source):
        """The encoder's output (B, S, d_model), and the mask (B, 1, 1, S) of the tokens that may be seen."""
        mask = (source != self.pad_id)[:, None, None, :]
        x = self.embedding(source) + self.source_positions.data[: source.shape[1]]
        for block in self.encoder:
            x = block(x, mask)
        return self.encoder_norm(x), mask

    def decode(self, target, memory, memory_mask):
        """The logits (B, T, vocab_size) of what comes after each token of the target."""
        T = target.shape[1]
        self.remember(np.zeros_like(memory))                # where the sum of dmemory starts, even with no block at all
        x = self.embedding(target) + self.target_positions.data[:T]
        mask = causal_mask(T)
        for block in self.decoder:
            x = block(x, memory, mask, memory_mask)
        return self.output(self.decoder_norm(x))

    def forward(self, source, target):
        return self.decode(target, *self.encode(source))

    def backward(self, dlogits):
        dmemory = self.recall()
        dx = self.decoder_norm.backward(self.output.backward(dlogits))
        for block in self.decoder[::-1]:
            dx, part = block.backward(dx)
            dmemory = dmemory + part
        self.target_positions.grad[: dx.shape[1]] += np.einsum("btd->td", dx)
        self.embedding.backward(dx)
        dx = self.encoder_norm.backward(dmemory)
        for block in self.encoder[::-1]:
            dx = block.backward(dx)
        self.source_positions.grad[: dx.shape[1]] += np.einsum("bsd->sd", dx)
        self.embedding.backward(dx)


class Hypothesis:
    """ids, which begin with bos, and the sum of the log probabilities of all others."""

    def __init__(self, ids, total):
        self.ids, self.total, self.last = ids, total, ids[-1]

    def continued(self, model, memory, memory_mask):
        logits = model.decode(np.array([self.ids]), memory, memory_mask)[0, -1]
        return [Hypothesis((*self.ids, i), self.total + term) for i, term in enumerate(log_softmax(logits).tolist())]


def beam_search(model, source, bos, eos, max_len, beam=4, alpha=0.6):
    """The best target of one source (S,) that the search finds: (list of ids, score).

    At each length, every unfinished target is continued with every token, and these candidates are ordered by the sum of
    their log probabilities. Those among the best `beam` that end in eos, or have max_len tokens, are finished; their score
    is the sum divided by ((5 + length) / 6) ** alpha. The best `beam` of all candidates without eos go on, until `beam` or
    more targets are finished. The ids of the result do not include bos, and the length counts eos.
    """
    memory, memory_mask = model.encode(source[None])
    alive, finished = [Hypothesis((bos,), 0.0)], []
    for length in range(1, max_len + 1):
        candidates = [new for old in alive for new in old.continued(model, memory, memory_mask)]
        candidates.sort(key=lambda h: -h.total)             # stable
        for h in candidates[:beam]:
            if h.last == eos or length == max_len:
                finished.append((h.total / ((5 + length) / 6) ** alpha, h))
        alive = [h for h in candidates if h.last != eos][:beam]
        if len(finished) >= beam or not alive:
            break
    model.forget()
    score, best = max(finished, key=lambda pair: pair[0])
    return list(best.ids[1:]), score
