"""Checks that layers agree with reference implementations: plain loops that follow the formulas of the papers."""

import math

import numpy as np

from ..layers import (GELU, BinaryCrossEntropyLoss, CrossEntropyLoss, Embedding, FeedForward, FirstToken, LayerNorm,
                      LearnedPositionalEmbedding, Linear, LogSoftmax, ReLU, QuantizedLinear, RMSNorm, SiLU,
                      SinusoidalPositionalEncoding, Softmax, StraightThroughLinear, SwiGLU, Tanh, Unembedding)
from .check import check, expect_close, prepared


def reference(name, *kinds, large=False):
    """Adds a check that forward in eval mode equals the decorated function, in float64 and in float32.

    Entries for which the function returns NaN are not compared.

    Parameters:
        name : beginning of the check's name
        kinds : classes that it applies to
        large : whether to add a second check, with inputs 10,000 times as large
    """
    def enter(function):
        def compare(module, inputs, dtype, tolerance, factor=1.0):
            module, inputs = prepared(module, inputs, dtype)
            if hasattr(module, "eps"):
                module.eps = 0.1                # large enough to show where it is added
            inputs = [x * dtype(factor) if getattr(x, "dtype", None) == dtype else x for x in inputs]
            output, wanted = np.asarray(module.eval()(*inputs)), np.asarray(function(module, *inputs))
            compared = ~np.isnan(wanted)
            expect_close(f"{dtype.__name__} output", np.where(compared, output, 0), np.where(compared, wanted, 0),
                         tolerance)

        def run(module, *inputs):
            compare(module, inputs, np.float64, 1e-10)
            compare(module, inputs, np.float32, 2e-5)

        check(f"{name} reference", *kinds)(run)
        if large:
            check(f"{name} reference, large inputs", *kinds)(
                lambda module, *inputs: compare(module, inputs, np.float64, 1e-8, factor=1e4))
        return function
    return enter


def for_each_entry(function, x):
    return np.array([function(float(value)) for value in x.flat]).reshape(x.shape)


def softmax_row(scores):
    top = max(scores)
    powers = [math.exp(s - top) for s in scores]
    return [power / math.fsum(powers) for power in powers]


def log_softmax_row(z):
    top = max(z)
    return [s - top - math.log(math.fsum(math.exp(s - top) for s in z)) for s in z]


def for_each_row(function, x):
    return np.array([function([float(value) for value in row]) for row in x.reshape(-1, x.shape[-1])]).reshape(x.shape)


@reference("softmax", Softmax, large=True)
def softmax(module, x):
    return for_each_row(softmax_row, x)


@reference("log-softmax", LogSoftmax, large=True)
def log_softmax(module, x):
    return for_each_row(log_softmax_row, x)


def affine(linear, x):
    """Returns x W + b, computed separately for each output feature."""
    w = linear.weight.data
    b = np.zeros(w.shape[1]) if linear.bias is None else linear.bias.data
    return np.stack([(x * w[:, j]).sum(-1) + b[j] for j in range(w.shape[1])], -1)


@reference("linear", Linear)
def linear(module, x):
    return affine(module, x.astype(np.float64))


@reference("quantized linear", QuantizedLinear)
def quantized_linear(module, x):
    """Multiplies each stored integer by the scale of its group, entry by entry."""
    codes, largest = module.weight.codes, module.weight.largest
    size = module.d_in // len(largest)
    w = np.empty(codes.shape)
    for i, j in np.ndindex(codes.shape):
        w[i, j] = int(codes[i, j]) * float(largest[i // size, j]) / (2 ** (module.weight.bits - 1) - 1)
    b = 0 if module.bias is None else module.bias.data
    return np.stack([(x.astype(np.float64) * w[:, j]).sum(-1) for j in range(w.shape[1])], -1) + b


@reference("straight-through linear", StraightThroughLinear)
def straight_through_linear(module, x):
    w = module.rounding(module.weight.data.astype(np.float64))
    return np.stack([(x.astype(np.float64) * w[:, j]).sum(-1) for j in range(w.shape[1])], -1) + module.bias.data


@reference("unembedding", Unembedding)
def unembedding(module, x):
    return np.stack([module.factor * (x.astype(np.float64) * row).sum(-1) for row in module.weight.data], -1)


@reference("embedding", Embedding)
def embedding(module, ids):
    factor = math.sqrt(module.weight.data.shape[1]) if module.factor != 1 else 1
    y = np.empty((*ids.shape, module.weight.data.shape[1]))
    for position, token in np.ndenumerate(ids):
        row = [factor * float(value) for value in module.weight.data[token]]
        y[position] = 0 if token == module.pad_id else row
    return y


def normalized_row(row, eps, centered):
    mean = math.fsum(row) / len(row) if centered else 0.0
    variance = math.fsum((value - mean) ** 2 for value in row) / len(row)
    return [(value - mean) / math.sqrt(variance + eps) for value in row]


@reference("layer norm", LayerNorm)
def layer_norm(module, x):
    y = for_each_row(lambda row: normalized_row(row, module.eps, True), x) * module.gamma.data
    return y if module.beta is None else y + module.beta.data


@reference("RMS norm", RMSNorm)
def rms_norm(module, x):
    return for_each_row(lambda row: normalized_row(row, module.eps, False), x) * module.gamma.data


def gelu_tanh(x):
    return x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def gelu_erf(x):
    return x * (1 + math.erf(x / math.sqrt(2))) / 2


def silu(x):
    return x / (1 + math.exp(-x))


def relu(x):
    return max(0.0, x)


def formula(activation):
    if isinstance(activation, GELU):
        return gelu_tanh if activation.approximate == "tanh" else gelu_erf
    return {SiLU: silu, Tanh: math.tanh}.get(type(activation), relu)


@reference("activation", ReLU, GELU, SiLU, Tanh)
def activation(module, x):
    return for_each_entry(formula(module), x)


@reference("feed-forward", FeedForward)
def feed_forward(module, x):
    return affine(module.down, for_each_entry(formula(module.activation), affine(module.up, x.astype(np.float64))))


@reference("SwiGLU", SwiGLU)
def swiglu(module, x):
    x = x.astype(np.float64)
    gate = for_each_entry(formula(module.activation), affine(module.gate, x))
    return affine(module.down, gate * affine(module.up, x))


@reference("sinusoid", SinusoidalPositionalEncoding)
def sinusoid(module, x, offset=0):
    y = x.astype(np.float64)
    D = x.shape[-1]
    for t in range(x.shape[-2]):
        for i in range(0, D, 2):
            angle = (offset + t) / 10000 ** (i / D)
            y[..., t, i] += math.sin(angle)
            if i + 1 < D:
                y[..., t, i + 1] += math.cos(angle)
    return y


@reference("learned positions", LearnedPositionalEmbedding)
def learned_positions(module, x):
    return np.stack([x[..., t, :] + module.weight.data[t] for t in range(x.shape[-2])], -2)


@reference("first token", FirstToken)
def first_token(module, x, token_mask):
    return np.array([sequence[0] for sequence in x])


@reference("cross-entropy", CrossEntropyLoss, large=True)
def cross_entropy(module, logits, targets):
    smoothing = module.label_smoothing
    losses = []
    for position, target in np.ndenumerate(targets):
        if target != module.ignore_id:
            logs = log_softmax_row([float(z) for z in logits[position]])
            losses.append(-(1 - smoothing) * logs[target] - smoothing * math.fsum(logs) / len(logs))
    return math.fsum(losses) / len(losses)


@reference("binary cross-entropy", BinaryCrossEntropyLoss, large=True)
def binary_cross_entropy(module, logits, targets):
    """The mean of -log σ(s) = log(1 + exp(-s)), where s is the logit for target 1 and minus the logit for target 0."""
    signed = [float(z) if t else -float(z) for z, t in zip(logits.flat, targets.flat)]
    return math.fsum(max(-s, 0.0) + math.log1p(math.exp(-abs(s))) for s in signed) / targets.size
