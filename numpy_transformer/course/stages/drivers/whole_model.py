"""The whole model: a training, and what the model writes then."""

import numpy as np

from ..program.stage01_loss import CrossEntropyLoss
from ..program.stage09_training import AdamW, learning_rate, train
from ..program.stage10_sampling import generate
from ..program.stage12_translation import EncoderDecoder, beam_search
from .filling import filled, parameters_of
from .models import language_model_of


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
