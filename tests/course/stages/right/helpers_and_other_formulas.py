# === helpers.py
"""What several stages share."""
import numpy as np


def rows(x):
    return x.reshape(-1, x.shape[-1])


def over_rows(x):
    """Sum over all axes but the last."""
    return rows(x).sum(0)


def log_softmax(z):
    z = z - z.max(-1, keepdims=True)
    return z - np.log(np.exp(z).sum(-1, keepdims=True))


def run(parts, x):
    for part in parts:
        x = part(x)
    return x


def run_back(parts, dy):
    for part in parts[::-1]:
        dy = part.backward(dy)
    return dy

# === stage01_loss.py
"""Stage 1: softmax and cross-entropy."""
import numpy as np

from helpers import log_softmax
from module import Module


def softmax(z):
    return np.exp(log_softmax(z))


def softmax_backward(p, dp):
    s = np.matmul(p[..., None, :], dp[..., :, None])[..., 0]    # (..., 1)
    return p * (dp - s)


class CrossEntropyLoss(Module):
    def __init__(self, label_smoothing=0.0, ignore_id=None):
        self.label_smoothing = label_smoothing
        self.ignore_id = ignore_id

    def forward(self, logits, targets):
        targets, V, e = np.asarray(targets), logits.shape[-1], self.label_smoothing
        counts = np.full(targets.shape, True) if self.ignore_id is None else targets != self.ignore_id
        n = int(np.count_nonzero(counts))
        hit = np.arange(V) == targets[..., None]
        q = np.where(hit, 1 - e + e / V, e / V).astype(logits.dtype) * counts[..., None]
        lp = log_softmax(logits)
        self.slope = (np.exp(lp) * counts[..., None] - q) / n          # the gradient, ready for backward
        return -(q * lp).sum() / n

    def backward(self):
        return self.slope

# === stage02_linear.py
"""Stage 2: the linear layer and the embedding."""
import numpy as np

from helpers import over_rows, rows
from module import Module, Parameter


class Linear(Module):
    def __init__(self, d_in, d_out, rng):
        self.weight = Parameter(rng.normal(0, 0.02, (d_in, d_out)))
        self.bias = Parameter(np.zeros(d_out))

    def forward(self, x):
        self.remember(dict(x=x))
        return np.matmul(x, self.weight.data) + self.bias.data

    def backward(self, dy):
        x = self.recall()["x"]
        self.weight.grad += np.einsum("ni,nj->ij", rows(x), rows(dy))
        self.bias.grad += over_rows(dy)
        return np.matmul(dy, self.weight.data.T)


class Embedding(Module):
    def __init__(self, vocab_size, d_model, rng):
        self.weight = Parameter(rng.normal(0, 0.02, (vocab_size, d_model)))

    def forward(self, ids):
        self.remember(dict(ids=ids))
        return np.take(self.weight.data, ids, axis=0)

    def backward(self, dx):
        ids = self.recall()["ids"]
        onehot = np.arange(len(self.weight.data))[:, None] == np.ravel(ids)       # (V, n)
        self.weight.grad += np.matmul(onehot, rows(dx))

# === stage03_normalization.py
"""Stage 3: layer normalization."""
import numpy as np

from helpers import over_rows
from module import Module, Parameter


def mean(x):
    return x.mean(-1, keepdims=True)


class LayerNorm(Module):
    def __init__(self, d_model, eps=1e-5):
        self.eps = eps
        self.gamma = Parameter(np.ones(d_model))
        self.beta = Parameter(np.zeros(d_model))

    def forward(self, x):
        c = x - mean(x)
        std = np.sqrt(mean(c * c) + self.eps)
        self.remember(dict(unit=c / std, std=std))
        return c / std * self.gamma.data + self.beta.data

    def backward(self, dy):
        unit, std = self.recall().values()
        self.gamma.grad += over_rows(dy * unit)
        self.beta.grad += over_rows(dy)
        g = dy * self.gamma.data
        return (g - mean(g) - unit * mean(unit * g)) / std

# === stage04_feed_forward.py
"""Stage 4: the activation GELU and the feed-forward layer."""
import math

import numpy as np

from helpers import run, run_back
from module import Module
from stage02_linear import Linear

C = math.sqrt(2 / math.pi)
CUBIC = 0.044715


class GELU(Module):
    def forward(self, x):
        s = 0.5 + 0.5 * np.tanh(C * x * (1 + CUBIC * x * x))           # = sigmoid(2 u)
        # d sigmoid(2u) = 2 s (1 - s) du; keep the slope and not x
        self.remember(s + 2 * x * s * (1 - s) * (C + 3 * C * CUBIC * x * x))
        return x * s

    def backward(self, dy):
        return dy * self.recall()


class FeedForward(Module):
    def __init__(self, d_model, d_ff, rng):
        self.up = Linear(d_model, d_ff, rng)
        self.activation = GELU()
        self.down = Linear(d_ff, d_model, rng)

    def forward(self, x):
        return run([self.up, self.activation, self.down], x)

    def backward(self, dy):
        return run_back([self.up, self.activation, self.down], dy)

# === stage05_attention.py
"""Stage 5: scaled dot-product attention of one head, and the causal mask."""
import math

import numpy as np

from module import Module
from stage01_loss import softmax, softmax_backward


def causal_mask(T):
    t = np.arange(T)
    return t <= t[:, None]


class Attention(Module):
    def forward(self, q, k, v, mask=None):
        scale = 1 / math.sqrt(q.shape[-1])
        q = q * scale                                       # scale the queries and not the scores
        A = np.matmul(q, k.mT)
        if mask is not None:
            A = np.where(mask, A, -math.inf)
        p = self.weights = softmax(A)
        self.remember(dict(q=q, k=k, v=v, p=p, scale=scale))
        return np.matmul(p, v)

    def backward(self, dy):
        q, k, v, p, scale = self.recall().values()
        dA = softmax_backward(p, np.matmul(dy, v.mT))
        return np.matmul(dA, k) * scale, np.matmul(dA.mT, q), np.matmul(p.mT, dy)

# === stage06_heads.py
"""Stage 6: attention with many heads."""
import numpy as np

from module import Module
from stage02_linear import Linear
from stage05_attention import Attention


def split_heads(x, num_heads):
    *rest, D = x.shape
    return np.moveaxis(x.reshape(*rest, num_heads, D // num_heads), -2, -3)


def merge_heads(x):
    x = np.moveaxis(x, -3, -2)
    *rest, H, d = x.shape
    return x.reshape(*rest, H * d)


class MultiHeadAttention(Module):
    def __init__(self, d_model, num_heads, rng):
        self.num_heads = num_heads
        self.query = Linear(d_model, d_model, rng)
        self.key = Linear(d_model, d_model, rng)
        self.value = Linear(d_model, d_model, rng)
        self.attention = Attention()
        self.output = Linear(d_model, d_model, rng)

    def forward(self, x, memory, mask=None):
        uses = (self.query, x), (self.key, memory), (self.value, memory)
        qkv = [split_heads(linear(source), self.num_heads) for linear, source in uses]
        return self.output(merge_heads(self.attention(*qkv, mask)))

    def backward(self, dy):
        dheads = split_heads(self.output.backward(dy), self.num_heads)
        dq, dk, dv = map(merge_heads, self.attention.backward(dheads))
        return self.query.backward(dq), self.key.backward(dk) + self.value.backward(dv)

# === stage07_block.py
"""Stage 7: the block, with its residual connections."""
from helpers import run, run_back
from module import Module
from stage03_normalization import LayerNorm
from stage04_feed_forward import FeedForward
from stage06_heads import MultiHeadAttention


class Block(Module):
    def __init__(self, d_model, num_heads, d_ff, rng):
        self.norm1 = LayerNorm(d_model)
        self.attention = MultiHeadAttention(d_model, num_heads, rng)
        self.norm2 = LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, d_ff, rng)

    def forward(self, x, mask=None):
        h = self.norm1(x)
        x = x + self.attention(h, h, mask)
        return x + run([self.norm2, self.feed_forward], x)

    def backward(self, dy):
        dy = dy + run_back([self.norm2, self.feed_forward], dy)
        return dy + self.norm1.backward(sum(self.attention.backward(dy)))

# === stage08_model.py
"""Stage 8: the language model, whose output layer is the transposed embedding."""
import numpy as np

from helpers import rows, run_back
from module import Module, Parameter
from stage02_linear import Embedding
from stage03_normalization import LayerNorm
from stage05_attention import causal_mask
from stage07_block import Block


class LanguageModel(Module):
    def __init__(self, vocab_size, max_len, d_model, num_heads, d_ff, num_layers, rng):
        self.embedding = Embedding(vocab_size, d_model, rng)
        self.positions = Parameter(rng.normal(0, 0.02, (max_len, d_model)))
        self.blocks = [Block(d_model, num_heads, d_ff, rng) for _ in range(num_layers)]
        self.norm = LayerNorm(d_model)

    def forward(self, ids):
        T = ids.shape[-1]
        x, mask = self.embedding(ids) + self.positions.data[:T], causal_mask(T)
        for block in self.blocks:
            x = block(x, mask)
        h = self.norm(x)
        self.remember(dict(h=h))
        return np.matmul(h, self.embedding.weight.data.T)

    def backward(self, dlogits):
        h, E = self.recall()["h"], self.embedding.weight
        E.grad += np.einsum("nv,nd->vd", rows(dlogits), rows(h))
        dx = run_back([*self.blocks, self.norm], np.matmul(dlogits, E.data))
        self.embedding.backward(dx)
        self.positions.grad[:dx.shape[-2]] += dx.reshape(-1, *dx.shape[-2:]).sum(0)

# === stage09_training.py
"""Stage 9: AdamW, clipping, the learning rate, and the training loop."""
import math

import numpy as np


class AdamW:
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        self.parameters = list(parameters)
        self.lr, self.betas, self.eps, self.weight_decay = lr, betas, eps, weight_decay
        self.m = [np.zeros_like(parameter.data) for parameter in self.parameters]
        self.v = [np.zeros_like(parameter.data) for parameter in self.parameters]
        self.t = 0

    def step(self):
        self.t += 1
        b1, b2 = self.betas
        # m_hat / (sqrt(v_hat) + eps)  =  root / (1 - b1^t) * m / (sqrt(v) + root eps)
        root = math.sqrt(1 - b2 ** self.t)
        rate = self.lr * root / (1 - b1 ** self.t)
        for p, m, v in zip(self.parameters, self.m, self.v):
            g = p.grad
            m += (1 - b1) * (g - m)
            v += (1 - b2) * (g * g - v)
            p.data *= 1 - self.lr * self.weight_decay
            p.data -= rate * m / (np.sqrt(v) + self.eps * root)


def clip_gradients(parameters, max_norm):
    grads = [p.grad for p in parameters]
    norm = math.hypot(*(np.linalg.norm(g.astype(float)) for g in grads))
    if norm > max_norm:
        for g in grads:
            g *= max_norm / norm


def learning_rate(n, d_model, warmup):
    return min(1 / math.sqrt(n), n / warmup ** 1.5) / math.sqrt(d_model)


def train(model, loss, optimizer, batches, rate, max_norm=1.0):
    losses, parameters = [], optimizer.parameters
    for n, (*inputs, targets) in enumerate(batches, 1):
        for p in parameters:
            p.grad[...] = 0
        losses.append(loss(model(*inputs), targets))
        model.backward(loss.backward())
        clip_gradients(parameters, max_norm)
        optimizer.lr = rate(n)
        optimizer.step()
    return losses

# === stage10_sampling.py
"""Stage 10: text from the model, with a key-value cache."""
import math

import numpy as np

from stage01_loss import softmax
from stage06_heads import merge_heads, split_heads


def next_probabilities(logits, temperature=1.0, top_k=None):
    if temperature == 0:
        return (np.arange(len(logits)) == logits.argmax()).astype(logits.dtype)
    kept = np.argsort(-logits, kind="stable")[:top_k]           # [:None] keeps all
    z = np.full_like(logits, -math.inf)
    z[kept] = (logits[kept] - logits.max()) / temperature       # softmax of the kept ones only: no second division
    return softmax(z)


class KeyValueCache:
    def __init__(self, num_layers):
        self.pairs = [None] * num_layers
        self.length = 0


def cached_attention(attention, x, cache, i):
    q, *new = (split_heads(part(x), attention.num_heads) for part in (attention.query, attention.key, attention.value))
    if cache.pairs[i] is not None:
        new = [np.concatenate(both, axis=-2) for both in zip(cache.pairs[i], new)]
    cache.pairs[i] = keys, values = tuple(new)
    T, S = q.shape[-2], keys.shape[-2]
    return attention.output(merge_heads(attention.attention(q, keys, values, np.tri(T, S, S - T, dtype=bool))))


def cached_forward(model, ids, cache):
    C, T = cache.length, ids.shape[-1]
    x = model.embedding(ids) + model.positions.data[C:C + T]
    for i, block in enumerate(model.blocks):
        x = x + cached_attention(block.attention, block.norm1(x), cache, i)
        x = x + block.feed_forward(block.norm2(x))
    cache.length += T
    logits = np.matmul(model.norm(x), model.embedding.weight.data.T)
    model.forget()
    return logits


def generate(model, ids, count, temperature=1.0, top_k=None, rng=None):
    text, fresh, cache = [int(i) for i in ids], ids, KeyValueCache(len(model.blocks))
    for _ in range(count):
        p = next_probabilities(cached_forward(model, np.array(fresh), cache)[-1], temperature, top_k)
        if temperature != 0:
            p = p.astype(float)
            p = rng.multinomial(1, p / p.sum())                 # one draw: a 1 at the token
        fresh = [int(p.argmax())]
        text += fresh
    return text

# === stage11_gpt2.py
"""Stage 11: the weights and the tokenizer of GPT-2, from a folder of Hugging Face."""
import json
import math
import re
from pathlib import Path

import numpy as np

from stage03_normalization import LayerNorm
from stage08_model import LanguageModel

WORDS = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+| ?\d+| ?(?:[^\w\s]|_)+|\s+(?!\S)|\s+")
TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}
LAYERS = {"attn.c_proj": "attention.output", "mlp.c_fc": "feed_forward.up", "mlp.c_proj": "feed_forward.down"}


def read_safetensors(path):
    raw = Path(path).read_bytes()
    first = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:first])
    header.pop("__metadata__", None)
    return {name: np.ndarray(a["shape"], TYPES[a["dtype"]], raw, first + a["data_offsets"][0]).copy()
            for name, a in header.items()}


def load_gpt2(folder):
    config = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
    V, max_len, D, H, L = (config[key] for key in "vocab_size n_positions n_embd n_head n_layer".split())
    model = LanguageModel(V, max_len, D, H, config.get("n_inner") or 4 * D, L, np.random.default_rng(0))

    arrays = read_safetensors(Path(folder) / "model.safetensors")
    arrays = {name.removeprefix("transformer."): array for name, array in arrays.items()}
    weights = {"embedding.weight": arrays["wte.weight"], "positions": arrays["wpe.weight"]}

    def norm(mine, theirs):
        weights[f"{mine}.gamma"], weights[f"{mine}.beta"] = arrays[f"{theirs}.weight"], arrays[f"{theirs}.bias"]

    norm("norm", "ln_f")
    for n in range(L):
        norm(f"blocks.{n}.norm1", f"h.{n}.ln_1")
        norm(f"blocks.{n}.norm2", f"h.{n}.ln_2")
        for kind in ("weight", "bias"):
            for theirs, mine in LAYERS.items():
                weights[f"blocks.{n}.{mine}.{kind}"] = arrays[f"h.{n}.{theirs}.{kind}"]
            for part, a in zip(("query", "key", "value"), np.split(arrays[f"h.{n}.attn.c_attn.{kind}"], 3, axis=-1)):
                weights[f"blocks.{n}.attention.{part}.{kind}"] = a.copy()
    for name, parameter in model.named_parameters().items():
        parameter.data, parameter.grad = weights[name], np.zeros_like(weights[name])
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
    def __init__(self, folder):
        self.ids = json.loads((Path(folder) / "vocab.json").read_text(encoding="utf-8"))
        self.tokens = {number: token for token, number in self.ids.items()}
        lines = (Path(folder) / "merges.txt").read_text(encoding="utf-8").split("\n")
        pairs = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
        self.rank = {pair: n for n, pair in enumerate(pairs)}
        self.letters = byte_letters()
        self.bytes = {letter: byte for byte, letter in self.letters.items()}

    def merge(self, word):
        parts = list(word)
        while True:
            best = min(zip(parts, parts[1:]), key=lambda pair: self.rank.get(pair, math.inf), default=None)
            if best not in self.rank:
                return parts
            joined = []
            for part in parts:
                if joined and (joined[-1], part) == best:   # a joined one is longer than best[0], so it is not joined twice
                    joined[-1] += part
                else:
                    joined.append(part)
            parts = joined

    def encode(self, text):
        words = ("".join(self.letters[byte] for byte in word.encode()) for word in WORDS.findall(text))
        return [self.ids[token] for word in words for token in self.merge(word)]

    def decode(self, ids):
        return bytes(self.bytes[c] for i in ids for c in self.tokens[i]).decode("utf-8", "replace")

# === stage12_translation.py
"""Stage 12: encoder, cross-attention, and beam search."""
import numpy as np

from helpers import log_softmax, run, run_back
from module import Module, Parameter
from stage02_linear import Embedding, Linear
from stage03_normalization import LayerNorm
from stage04_feed_forward import FeedForward
from stage05_attention import causal_mask
from stage06_heads import MultiHeadAttention
from stage07_block import Block


class DecoderBlock(Module):
    def __init__(self, d_model, num_heads, d_ff, rng):
        self.norm1 = LayerNorm(d_model)
        self.attention = MultiHeadAttention(d_model, num_heads, rng)
        self.norm2 = LayerNorm(d_model)
        self.cross_attention = MultiHeadAttention(d_model, num_heads, rng)
        self.norm3 = LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, d_ff, rng)

    def forward(self, x, memory, mask=None, memory_mask=None):
        h = self.norm1(x)
        x = x + self.attention(h, h, mask)
        x = x + self.cross_attention(self.norm2(x), memory, memory_mask)
        return x + run([self.norm3, self.feed_forward], x)

    def backward(self, dy):
        dy = dy + run_back([self.norm3, self.feed_forward], dy)
        dq, dmemory = self.cross_attention.backward(dy)
        dy = dy + self.norm2.backward(dq)
        return dy + self.norm1.backward(sum(self.attention.backward(dy))), dmemory


class EncoderDecoder(Module):
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

    def embed(self, ids, positions):
        return self.embedding(ids) + positions.data[:ids.shape[-1]]

    def embed_back(self, dx, positions):
        self.embedding.backward(dx)
        positions.grad[:dx.shape[1]] += dx.sum(0)

    def encode(self, source):
        mask = (source != self.pad_id)[:, None, None]
        x = self.embed(source, self.source_positions)
        for block in self.encoder:
            x = block(x, mask)
        return self.encoder_norm(x), mask

    def decode(self, target, memory, memory_mask):
        self.remember(np.zeros_like(memory))            # where the sum of the gradients of memory begins
        x, mask = self.embed(target, self.target_positions), causal_mask(target.shape[-1])
        for block in self.decoder:
            x = block(x, memory, mask, memory_mask)
        return run([self.decoder_norm, self.output], x)

    def forward(self, source, target):
        return self.decode(target, *self.encode(source))

    def backward(self, dlogits):
        dx, dmemory = run_back([self.decoder_norm, self.output], dlogits), self.recall()
        for block in self.decoder[::-1]:
            dx, d = block.backward(dx)
            dmemory = dmemory + d
        self.embed_back(dx, self.target_positions)
        self.embed_back(run_back([*self.encoder, self.encoder_norm], dmemory), self.source_positions)


def beam_search(model, source, bos, eos, max_len, beam=4, alpha=0.6):
    memory, mask = model.encode(source[None])
    texts, sums, done = [[bos]], np.zeros(1), []
    for length in range(1, max_len + 1):
        n = len(texts)
        logits = model.decode(np.array(texts), memory.repeat(n, 0), mask.repeat(n, 0))[:, -1]
        total = sums[:, None] + log_softmax(logits)                             # (n, V)
        order = [divmod(int(j), total.shape[1]) for j in np.argsort(-total, axis=None, kind="stable")]
        for i, token in order[:beam]:
            if token == eos or length == max_len:
                done.append((texts[i][1:] + [token], float(total[i, token]) / ((5 + length) / 6) ** alpha))
        on = [(i, token) for i, token in order if token != eos][:beam]
        if len(done) >= beam or not on:
            break
        texts, sums = [texts[i] + [token] for i, token in on], np.array([total[i, token] for i, token in on])
    model.forget()
    return max(done, key=lambda pair: pair[1])
