"""Each backward of a stage against central differences of the same student's forward."""

import numpy as np

from ..program.stage01_loss import CrossEntropyLoss, softmax, softmax_backward
from ..program.stage02_linear import Embedding, Linear
from ..program.stage03_normalization import LayerNorm
from ..program.stage04_feed_forward import GELU, FeedForward
from ..program.stage05_attention import Attention
from ..program.stage06_heads import MultiHeadAttention
from ..program.stage07_block import Block
from ..program.stage08_model import LanguageModel
from ..program.stage12_translation import EncoderDecoder
from .filling import parameters_of

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
