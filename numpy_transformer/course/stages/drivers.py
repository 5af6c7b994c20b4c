"""Drivers: functions of plain arrays that build a stage's classes, run them forward and backward, and return arrays.

A driver's source is run after a student's file, in a copy of its names, so that the checker of the exercises can treat a
class like any other answer. Here the names are those of the reference program, and in package.py those of the package.
"""

import contextlib
import json
import math
import os
import tempfile
from pathlib import Path

import numpy as np

from .program.stage01_loss import CrossEntropyLoss, softmax, softmax_backward
from .program.stage02_linear import Embedding, Linear
from .program.stage03_normalization import LayerNorm
from .program.stage04_feed_forward import GELU, FeedForward
from .program.stage05_attention import Attention
from .program.stage06_heads import MultiHeadAttention
from .program.stage07_block import Block
from .program.stage08_model import LanguageModel
from .program.stage09_training import AdamW, clip_gradients, learning_rate, train
from .program.stage10_sampling import KeyValueCache, cached_attention, cached_forward, generate, next_probabilities
from .program.stage11_gpt2 import BytePairEncoding, load_gpt2, read_safetensors
from .program.stage12_translation import DecoderBlock, EncoderDecoder, beam_search


def parameters_of(part, prefix=""):
    """Returns {dotted name: parameter} of everything inside that has data and grad."""
    found = {}
    for name, value in vars(part).items():
        if name.startswith("_"):
            continue
        for i, item in enumerate(value if isinstance(value, (list, tuple)) else [value]):
            path = f"{prefix}{name}.{i}" if isinstance(value, (list, tuple)) else prefix + name
            if hasattr(item, "data") and hasattr(item, "grad"):
                found[path] = item
            elif hasattr(item, "forward"):
                found |= parameters_of(item, f"{path}.")
    return found


def filled(part, arrays):
    """Gives the parameters these arrays, {name: array}, and gradients of zero. Returns the part."""
    parameters = parameters_of(part)
    for name, array in arrays.items():
        if name not in parameters:
            raise AttributeError(f"{type(part).__name__} has no parameter {name}; it has {', '.join(parameters) or 'none'}")
        if np.shape(parameters[name].data) != array.shape:
            raise ValueError(f"{name} of {type(part).__name__} has the shape {np.shape(parameters[name].data)}, not "
                             f"{array.shape}")
        parameters[name].data = array
        parameters[name].grad = np.zeros_like(array)
    return part


def gradients(part, arrays):
    """Returns the gradients of these parameters, one after the other in one vector."""
    parameters = parameters_of(part)
    return np.concatenate([np.ravel(parameters[name].grad) for name in arrays])


# Stage 1

def cross_entropy(logits, targets, smoothing, ignore_id):
    return CrossEntropyLoss(smoothing, ignore_id).forward(logits, targets)


def cross_entropy_backward(logits, targets, smoothing, ignore_id):
    loss = CrossEntropyLoss(smoothing, ignore_id)
    loss.forward(logits, targets)
    return loss.backward()


# Stage 2

def linear(weight, bias):
    return filled(Linear(*weight.shape, np.random.default_rng(0)), {"weight": weight, "bias": bias})


def embedding(weight, ids, more, dx, dmore):
    layer = filled(Embedding(*weight.shape, np.random.default_rng(0)), {"weight": weight})
    x, second = layer.forward(ids), layer.forward(more)
    layer.backward(dmore)
    layer.backward(dx)
    return x, second, layer.weight.grad


# Stage 3

def layer_norm(gamma, beta, eps):
    return filled(LayerNorm(len(gamma), eps), {"gamma": gamma, "beta": beta})


def far_from_zero(x, dy):
    x = np.array(x)
    layer = LayerNorm(x.shape[-1])
    return layer.forward(x), layer.backward(np.array(dy))


# Stage 4

def gelu(x):
    return GELU().forward(x)


def gelu_backward(x, dy):
    layer = GELU()
    layer.forward(x)
    return layer.backward(dy)


def large_numbers(x, dy):
    layer = GELU()
    return layer.forward(x), layer.backward(dy)


def feed_forward(x, dy, more, dmore, arrays):
    layer = filled(FeedForward(x.shape[-1], len(arrays["down.weight"]), np.random.default_rng(0)), arrays)
    y = layer.forward(x)
    second = layer.forward(more)
    dsecond = layer.backward(dmore)
    dx = layer.backward(dy)
    own = parameters_of(layer)
    return (y, second, dsecond, dx, own["up.weight"].grad, own["up.bias"].grad, own["down.weight"].grad,
            own["down.bias"].grad)


# Stage 5

def attention(q, k, v):
    layer = Attention()
    y = layer.forward(q, k, v)
    return y, layer.weights


def masked_softmax(scores, mask):
    layer, S = Attention(), scores.shape[-1]
    identity = np.broadcast_to(np.eye(S, dtype=scores.dtype), (*scores.shape[:-2], S, S)).copy()
    return layer.forward(scores * math.sqrt(S), identity, identity, mask)


def attention_backward(q, k, v, p, m, dy):
    layer = Attention()
    layer.forward(q, k, v, p > 0)
    dq, dk, dv = layer.backward(dy)
    return dq, dk, dv


def attention_twice(q, k, v, mask, dy, q2, k2, v2, mask2, dy2):
    layer = Attention()
    y, second = layer.forward(q, k, v, mask), layer.forward(q2, k2, v2, mask2)
    dq2, dk2, dv2 = layer.backward(dy2)
    dq, dk, dv = layer.backward(dy)
    return y, second, dq2, dk2, dv2, dq, dk, dv


# Stage 6

def self_attention(num_heads, query, key, value, output):
    """Returns an object whose forward takes x and a mask: memory is x."""
    arrays = {f"{name}.{part}": array for name, pair in zip(("query", "key", "value", "output"), (query, key, value, output))
              for part, array in zip(("weight", "bias"), pair)}
    layer = filled(MultiHeadAttention(len(query[0]), num_heads, np.random.default_rng(0)), arrays)
    layer.both = layer.forward, layer.backward
    layer.forward = lambda x, mask: layer.both[0](x, x, mask)

    def backward(dy):
        dx, dmemory = layer.both[1](dy)
        return dx + dmemory

    layer.backward = backward
    return layer


def cross_attention_backward(x, memory, w_q, w_k, w_v, p, dy, dlater):
    D = len(w_q)
    zeros = {f"{name}.bias": np.zeros(D, x.dtype) for name in ("query", "key", "value", "output")}
    layer = filled(MultiHeadAttention(D, 1, np.random.default_rng(0)), {
        "query.weight": w_q, "key.weight": w_k, "value.weight": w_v, "output.weight": np.eye(D, dtype=x.dtype), **zeros})
    layer.forward(x, memory)
    dx, dmemory = layer.backward(dy)
    return dx, dlater + dmemory


def padded_attention(x, memory, mask, dy, num_heads, arrays):
    layer = filled(MultiHeadAttention(x.shape[-1], num_heads, np.random.default_rng(0)), arrays)
    y = layer.forward(x, memory, mask)
    dx, dmemory = layer.backward(dy)
    layer.forward(x, x)
    return y, dx, dmemory, *layer.backward(dy), gradients(layer, arrays)


# Stage 7

def block(x, mask, dy, more, dmore, num_heads, arrays):
    layer = Block(x.shape[-1], num_heads, len(arrays["feed_forward.down.weight"]), np.random.default_rng(0))
    layer = filled(layer, arrays)
    y = layer.forward(x, mask)
    second = layer.forward(more)
    dsecond = layer.backward(dmore)
    dx = layer.backward(dy)
    return y, second, dsecond, dx, gradients(layer, arrays)


# Stage 8

def language_model_of(arrays, num_heads, num_layers):
    (V, D), d_ff = arrays["embedding.weight"].shape, len(arrays["blocks.0.feed_forward.down.weight"])
    model = LanguageModel(V, len(arrays["positions"]), D, num_heads, d_ff, num_layers, np.random.default_rng(0))
    return filled(model, arrays)


def language_model(ids, dlogits, more, dmore, num_heads, num_layers, arrays):
    model = language_model_of(arrays, num_heads, num_layers)
    positions = parameters_of(model)["positions"]
    positions.grad = np.cos(np.arange(positions.grad.size)).reshape(positions.grad.shape).astype(positions.data.dtype)
    logits = model.forward(ids)
    second = model.forward(more)
    model.backward(dmore)
    model.backward(dlogits)
    own = parameters_of(model)
    inside = {name: array for name, array in arrays.items() if name.startswith("blocks.")}
    return (logits, second, own["embedding.weight"].grad, own["positions"].grad, own["norm.gamma"].grad,
            own["norm.beta"].grad, gradients(model, inside))


# Stage 9

class Slot:
    """A parameter in the eyes of an optimizer."""

    def __init__(self, data, grad):
        self.data, self.grad = data, grad


def adamw_step(w, g, m, v, t, lr, beta1, beta2, eps, weight_decay):
    optimizer = AdamW([Slot(w.copy(), g.copy())], lr, (beta1, beta2), eps, weight_decay)
    optimizer.m[0], optimizer.v[0], optimizer.t = m.copy(), v.copy(), t - 1
    optimizer.step()
    return optimizer.parameters[0].data, optimizer.m[0], optimizer.v[0]


def clipped(gradients, max_norm):
    slots = [Slot(np.zeros_like(g), g.copy()) for g in gradients]
    clip_gradients(slots, max_norm)
    return tuple(slot.grad for slot in slots)


def rate(step, d_model, warmup):
    return learning_rate(step, d_model, warmup)


class LinearModel:
    """y = x w: a model with one parameter, to see what the loop does with it."""

    def __init__(self, w):
        self.slot, self.saved = Slot(w, np.full_like(w, 7.0)), []

    def __call__(self, x):
        return self.forward(x)

    def forward(self, x):
        self.saved.append(x)
        return x @ self.slot.data

    def backward(self, dy):
        self.slot.grad = self.slot.grad + self.saved.pop().T @ dy


class SquaredLoss:
    """The mean of (y - t)^2 / 2."""

    def __call__(self, y, t):
        return self.forward(y, t)

    def forward(self, y, t):
        self.difference = y - t
        return (self.difference ** 2).mean() / 2

    def backward(self):
        return self.difference / self.difference.size


class PlainSteps:
    """An optimizer that only subtracts lr times the gradient."""

    def __init__(self, parameters):
        self.parameters, self.lr, self.rates = parameters, 5.0, []

    def step(self):
        self.rates.append(self.lr)
        for parameter in self.parameters:
            parameter.data = parameter.data - self.lr * parameter.grad


def training_loop(w, xs, targets, rates, max_norm):
    model = LinearModel(w.copy())
    optimizer = PlainSteps([model.slot])
    losses = train(model, SquaredLoss(), optimizer, list(zip(xs, targets)), lambda n: rates[n - 1], max_norm)
    kind = w.dtype
    return np.array(losses, kind), model.slot.data, np.array(optimizer.rates, kind)


# Stage 10

class Recorded:
    """A linear layer that takes its part of the features, so that queries, keys and values can be given."""

    def __init__(self, start, end):
        self.start, self.end = start, end

    def __call__(self, x):
        return self.forward(x)

    def forward(self, x):
        return x[..., self.start:self.end]


class GivenAttention:
    """What cached_attention takes for a MultiHeadAttention of one head."""

    def __init__(self, d, attention):
        self.num_heads, self.attention = 1, attention
        self.query, self.key, self.value = Recorded(0, d), Recorded(d, 2 * d), Recorded(2 * d, 3 * d)
        self.output = Recorded(0, d)


def probabilities(logits, temperature, top_k):
    return next_probabilities(logits, temperature, top_k)


def key_value_step(q, k, v, keys, values):
    cache = KeyValueCache(2)
    if keys.shape[-2]:
        cache.pairs[1], cache.length = (keys[..., None, :, :], values[..., None, :, :]), keys.shape[-2]
    y = cached_attention(GivenAttention(q.shape[-1], Attention()), np.concatenate([q, k, v], -1), cache, 1)
    keys, values = cache.pairs[1]
    return y, keys[..., 0, :, :], values[..., 0, :, :]


def cached_logits(ids, ends, num_heads, num_layers, arrays):
    model, cache = language_model_of(arrays, num_heads, num_layers), KeyValueCache(num_layers)
    parts = np.split(ids, list(ends), axis=-1)
    logits = np.concatenate([cached_forward(model, part, cache) for part in parts], -2)
    apart = KeyValueCache(num_layers)
    cached_attention(model.blocks[0].attention, model.embedding.forward(ids), apart, 0)
    return logits, np.array(cache.length), np.array(apart.length)


def generated(ids, count, num_heads, num_layers, arrays):
    model = language_model_of(arrays, num_heads, num_layers)
    with_top_k = generate(model, list(ids), count, temperature=0.7, top_k=1, rng=np.random.default_rng(0))
    return np.array(generate(model, ids, count, temperature=0)), np.array(with_top_k)


def drawn(ids, draws, temperature, top_k, num_heads, num_layers, arrays):
    """Returns whether tokens are drawn more or less often than their probabilities say, by more than five standard
    deviations; whether others than the top_k are; whether one seed gives two texts; whether two seeds give one; and whether
    the most likely token is always drawn.
    """
    model, rng = language_model_of(arrays, num_heads, num_layers), np.random.default_rng(1)
    z = model.forward(np.array(ids))[-1] / temperature
    p = np.where(z >= np.sort(z)[-top_k], np.exp(z - z.max()), 0)
    p = p / p.sum()
    counts = np.bincount([generate(model, list(ids), 1, temperature, top_k, rng)[-1] for _ in range(draws)], minlength=len(p))
    deviations = abs(counts / draws - p) - 5 * np.sqrt(p * (1 - p) / draws)
    texts = [generate(model, list(ids), 12, 3.0, None, np.random.default_rng(seed)) for seed in (2, 2, 3)]
    return (np.array(deviations.max() > 1e-12), np.array(counts[p == 0].sum() > 0), np.array(texts[0] != texts[1]),
            np.array(texts[0] == texts[2]), np.array(texts[0] == generate(model, list(ids), 12, temperature=0)))


# Stage 11

def folder_for_files():
    """Returns a context with a folder: in a student's process its working folder, as a sandbox lets it delete nothing."""
    is_own = os.environ.get("TMPDIR") == os.getcwd()
    return contextlib.nullcontext(os.getcwd()) if is_own else tempfile.TemporaryDirectory()


def write_safetensors(path, arrays):
    """Writes {name: array} as a file of the format safetensors."""
    header, start = {"__metadata__": {"format": "pt"}}, 0
    for name, array in arrays.items():
        kind = {8: "F64", 4: "F32", 2: "F16"}[array.dtype.itemsize]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [start, start + array.nbytes]}
        start += array.nbytes
    text = json.dumps(dict(reversed(header.items()))).encode()      # the header has another order than the arrays
    text += b" " * (-len(text) % 8)
    content = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays.values())
    Path(path).write_bytes(len(text).to_bytes(8, "little") + text + content)


def write_gpt2(folder, config, arrays):
    """Writes config.json and model.safetensors."""
    (Path(folder) / "config.json").write_text(json.dumps(config), encoding="utf-8")
    write_safetensors(Path(folder) / "model.safetensors", arrays)


def described(arrays):
    """Returns the numbers of arrays in the order of their names, the names with the shapes as bytes, and whether one of
    them cannot be written to.
    """
    names = sorted(arrays)
    return (np.concatenate([arrays[name].ravel() for name in names]), as_bytes(f"{name} {arrays[name].shape}" for name in names),
            np.array(not all(array.flags.writeable for array in arrays.values())))


def safetensors(arrays):
    with folder_for_files() as folder:
        write_safetensors(Path(folder) / "model.safetensors", arrays)
        return described(read_safetensors(Path(folder) / "model.safetensors"))


def gpt2_logits(ids, config, arrays):
    with folder_for_files() as folder:
        write_gpt2(folder, config, arrays)
        model = load_gpt2(folder)
        return model.forward(ids)


def byte_pairs(texts, vocabulary, merges):
    with folder_for_files() as folder:
        ids = {token: number for number, token in enumerate(vocabulary)}
        (Path(folder) / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
        (Path(folder) / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]), encoding="utf-8")
        tokenizer = BytePairEncoding(folder)
        rows = [list(tokenizer.encode(text)) for text in texts]
        decoded = [tokenizer.decode(row) for row in rows]
        cut = [tokenizer.decode(row[:-1]) for row in rows]
    return (np.array([number for row in rows for number in [*row, -1]]),
            np.array([one == text for one, text in zip(decoded, texts)]), as_bytes(decoded), as_bytes(cut))


def as_bytes(texts):
    return np.frombuffer("\n".join(texts).encode(), np.uint8).astype(int)


# Stage 12

def decoder_block(x, memory, mask, memory_mask, dy, num_heads, arrays):
    layer = DecoderBlock(x.shape[-1], num_heads, len(arrays["feed_forward.down.weight"]), np.random.default_rng(0))
    layer = filled(layer, arrays)
    y = layer.forward(x, memory, mask, memory_mask)
    second = layer.forward(x[..., :-1, :], memory)
    dsecond, dmemory2 = layer.backward(dy[..., :-1, :])
    dx, dmemory = layer.backward(dy)
    return y, second, dsecond, dmemory2, dx, dmemory, gradients(layer, arrays)


def encoder_decoder(source, target, dlogits, pad_id, num_heads, num_layers, arrays):
    V, D = arrays["embedding.weight"].shape
    model = EncoderDecoder(V, len(arrays["source_positions"]), D, num_heads,
                           len(arrays["encoder.0.feed_forward.down.weight"]), num_layers, np.random.default_rng(0), pad_id)
    model = filled(model, arrays)
    logits = model.forward(source, target)
    model.backward(dlogits)
    own = parameters_of(model)
    inside = {name: array for name, array in arrays.items() if "." in name and "embedding" not in name}
    return (logits, own["embedding.weight"].grad, own["source_positions"].grad, own["target_positions"].grad,
            gradients(model, inside))


class GivenModel:
    """What beam_search takes for an EncoderDecoder: logits that are a function of the ids alone."""

    def __init__(self, function):
        self.function = function

    def encode(self, source):
        return source, source != 0

    def decode(self, target, memory, memory_mask):
        return np.stack([self.function([int(number) for number in ids]) for ids in target])

    def forget(self):
        pass


def search(model, bos, eos, max_len, beam, alpha):
    ids, score = beam_search(GivenModel(model), np.array([1]), bos, eos, max_len, beam, alpha)
    return np.array(ids), score


# Gradient checks: each backward against central differences of the same student's forward

STEP = 1e-5


def gradient_errors(part, inputs, rng, names=("dx", "dmemory")):
    """Returns {name: relative error} of the gradients of all parameters, and of the inputs that are floats.

    Parameters:
        names : of the gradients of the inputs
    """
    parameters = parameters_of(part)
    for parameter in parameters.values():
        parameter.data = rng.normal(0.3, 0.5, np.shape(parameter.data))
        parameter.grad = np.zeros_like(parameter.data)
    y = part.forward(*inputs)
    weights = rng.standard_normal(np.shape(y)) if np.ndim(y) else 1.0       # of a loss, backward takes no argument
    returned = part.backward(*([weights] if np.ndim(y) else []))
    returned = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    floats = [(name, x) for name, x in zip(names, inputs) if getattr(x, "dtype", None) == np.float64]
    checked = [(name, x, dx) for (name, x), dx in zip(floats, returned) if dx is not None]
    checked += [(name, parameter.data, parameter.grad) for name, parameter in parameters.items()]
    return {name: gradient_error(part, inputs, weights, array, gradient) for name, array, gradient in checked}


def gradient_error(part, inputs, weights, array, gradient):
    """Returns |gradient - differences| / (|gradient| + |differences|) for an array that forward depends on."""
    differences, original = np.zeros_like(array), array.copy()
    for at in np.ndindex(array.shape):
        sides = []
        for step in (STEP, -STEP):
            array[at] = original[at] + step
            sides.append((part.forward(*inputs) * weights).sum())
        array[at] = original[at]
        differences[at] = (sides[0] - sides[1]) / (2 * STEP)
    total = np.sqrt((gradient ** 2).sum()) + np.sqrt((differences ** 2).sum())
    return np.sqrt(((gradient - differences) ** 2).sum()) / total if total > 1e-8 else 0.0


def as_rows(checks):
    """Returns the names, as the bytes of their text, and the errors of several components, {name: {name: error}}."""
    rows = {f"{component}: {name}": error for component, errors in checks.items() for name, error in errors.items()}
    return np.frombuffer("\n".join(rows).encode(), np.uint8).astype(int), np.array(list(rows.values()), float)


class SoftmaxLayer:
    """softmax and softmax_backward as a layer."""

    def forward(self, z):
        self.p = softmax(z)
        return self.p

    def backward(self, dp):
        return softmax_backward(self.p, dp)


def gradients_1():
    rng = np.random.default_rng(0)
    targets = np.array([[2, 0, 4], [1, 3, 2]])
    return as_rows({"softmax": gradient_errors(SoftmaxLayer(), (rng.standard_normal((2, 3, 5)),), rng, ["dz"]),
                    "CrossEntropyLoss": gradient_errors(CrossEntropyLoss(0.1, 0), (rng.standard_normal((2, 3, 5)), targets), rng,
                                                        ["dlogits"])})


def gradients_2():
    rng = np.random.default_rng(0)
    return as_rows({"Linear": gradient_errors(Linear(4, 3, rng), (rng.standard_normal((2, 5, 4)),), rng),
                    "Linear of a single row": gradient_errors(Linear(4, 3, rng), (rng.standard_normal(4),), rng),
                    "Embedding": gradient_errors(Embedding(6, 3, rng), (np.array([[1, 4, 1], [0, 1, 5]]),), rng)})


def gradients_3():
    rng = np.random.default_rng(0)
    return as_rows({"LayerNorm": gradient_errors(LayerNorm(5), (rng.standard_normal((2, 3, 5)),), rng),
                    "LayerNorm of a single row": gradient_errors(LayerNorm(5), (rng.standard_normal(5),), rng)})


def gradients_4():
    rng = np.random.default_rng(0)
    return as_rows({"GELU": gradient_errors(GELU(), (rng.standard_normal((2, 3, 4)),), rng),
                    "FeedForward": gradient_errors(FeedForward(3, 5, rng), (rng.standard_normal((2, 4, 3)),), rng),
                    "FeedForward of a single row": gradient_errors(FeedForward(3, 5, rng), (rng.standard_normal(3),), rng)})


def gradients_5():
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, length, width)) for length, width in ((3, 4), (5, 4), (5, 6)))
    return as_rows({"Attention": gradient_errors(Attention(), (q, k, v, np.tri(3, 5, 2, dtype=bool)), rng,
                                                 ["dq", "dk", "dv"])})


def gradients_6():
    rng = np.random.default_rng(0)
    x, memory = rng.standard_normal((2, 3, 6)), rng.standard_normal((2, 4, 6))
    return as_rows({"MultiHeadAttention": gradient_errors(MultiHeadAttention(6, 2, rng), (x, memory), rng)})


def gradients_7():
    rng = np.random.default_rng(0)
    return as_rows({"Block": gradient_errors(Block(4, 2, 6, rng), (rng.standard_normal((2, 3, 4)), np.tri(3, dtype=bool)), rng)})


def gradients_8():
    rng = np.random.default_rng(0)
    return as_rows({"LanguageModel": gradient_errors(LanguageModel(7, 5, 4, 2, 6, 2, rng), (np.array([[1, 4, 1], [0, 6, 5]]),),
                                                     rng)})


def gradients_12():
    rng = np.random.default_rng(0)
    ids = np.array([[1, 4, 1, 0], [3, 6, 5, 2]]), np.array([[2, 1, 6], [3, 3, 5]])
    return as_rows({"EncoderDecoder": gradient_errors(EncoderDecoder(7, 5, 4, 2, 6, 1, rng), ids, rng)})


# The whole model

def training(arrays, num_heads, num_layers, inputs, targets, warmup, prompt, count):
    """Returns the losses of one step for each batch, and the prompt with the most likely tokens that follow it then."""
    model = language_model_of(arrays, num_heads, num_layers)
    width = arrays["embedding.weight"].shape[1]
    optimizer = AdamW(parameters_of(model).values(), 1e-3, (0.9, 0.98), 1e-9, 0.01)
    losses = train(model, CrossEntropyLoss(), optimizer, list(zip(inputs, targets)),
                   lambda n: learning_rate(n, width, warmup))
    return np.array(losses), np.array(generate(model, list(prompt), count, temperature=0))


def training_to_translate(arrays, num_heads, num_layers, sources, inputs, targets, warmup, bos, eos):
    """Returns the losses of one step for each batch, and the best translation of the first source then."""
    (V, D), d_ff = arrays["embedding.weight"].shape, len(arrays["encoder.0.feed_forward.down.weight"])
    model = EncoderDecoder(V, len(arrays["source_positions"]), D, num_heads, d_ff, num_layers, np.random.default_rng(0))
    model = filled(model, arrays)
    optimizer = AdamW(parameters_of(model).values(), 1e-3, (0.9, 0.98), 1e-9, 0.01)
    losses = train(model, CrossEntropyLoss(0.1, 0), optimizer, list(zip(sources, inputs, targets)),
                   lambda n: learning_rate(n, D, warmup))
    ids, _ = beam_search(model, sources[0, 0], bos, eos, inputs.shape[-1], 2)
    return np.array(losses), np.array(ids)
