"""Stages 8 and 12."""

import numpy as np

from ..program.stage08_model import LanguageModel
from ..program.stage12_translation import DecoderBlock, EncoderDecoder, beam_search
from .filling import filled, gradients, parameters_of


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
