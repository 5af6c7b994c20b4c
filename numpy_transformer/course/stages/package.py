"""The package's components under the names and with the constructors of the reference program.

A driver that runs with these names gives the correct results, and with a bug of the zoo in them, that bug's.
"""

import types

import numpy as np

from ... import layers, models, zoo
from ...decoding import KeyValueCache, beam_search
from ...parameter import Parameter
from ...training import AdamW, NoamSchedule, clip_grad_norm
from ..exercises.optimizers import after
from . import drivers


def named(bug=None):
    """Returns {name: function that builds the package's component in float64}, with a bug of the zoo in it, if there is one."""
    def ready(module):
        module = module.astype(np.float64)
        return module if bug is None else zoo.apply(bug, module)

    return {
        "CrossEntropyLoss": lambda *settings: ready(layers.CrossEntropyLoss(*settings)),
        "Linear": lambda d_in, d_out, rng: ready(layers.Linear(d_in, d_out, rng=rng)),
        "Embedding": lambda vocab_size, d_model, rng: ready(layers.Embedding(vocab_size, d_model, rng=rng)),
        "LayerNorm": lambda d_model, eps=1e-5: ready(layers.LayerNorm(d_model, eps)),
        "GELU": lambda: ready(layers.GELU("tanh")),
        "FeedForward": lambda d_model, d_ff, rng: ready(layers.FeedForward(d_model, d_ff, activation="gelu_tanh", rng=rng)),
        "Attention": lambda: ready(layers.ScaledDotProductAttention()),
        "MultiHeadAttention": lambda *sizes: ToItself(ready, *sizes) if bug is not None and issubclass(
            bug.target, layers.SelfAttention) else ready(layers.CrossAttention(*sizes[:2], rng=sizes[2])),
        "Block": lambda d_model, num_heads, d_ff, rng: ready(layers.DecoderBlock(
            d_model, num_heads, d_ff, dropout=0.0, activation="gelu_tanh", rng=rng)),
        "DecoderBlock": lambda d_model, num_heads, d_ff, rng: ready(layers.CrossAttentionBlock(
            d_model, num_heads, d_ff, dropout=0.0, activation="gelu_tanh", rng=rng)),
        "LanguageModel": lambda *sizes: PackageLanguageModel(ready, *sizes),
        "EncoderDecoder": lambda *sizes: PackageEncoderDecoder(ready, *sizes),
    }


class ToItself:
    """A SelfAttention, where memory is x."""

    def __init__(self, ready, d_model, num_heads, rng):
        self._layer = layer = ready(layers.SelfAttention(d_model, num_heads, rng=rng))
        self.query, self.key, self.value, self.output = layer.query, layer.key, layer.value, layer.output

    def forward(self, x, memory, mask=None):
        return self._layer.forward(x, mask)

    def backward(self, dy):
        dx = self._layer.backward(dy)
        return dx, 0 * dx


class PackageLanguageModel:
    """A CausalLanguageModel whose parts have the names of the program's."""

    def __init__(self, ready, vocab_size, max_len, d_model, num_heads, d_ff, num_layers, rng):
        self._model = model = ready(models.CausalLanguageModel(
            vocab_size, d_model, num_heads=num_heads, num_layers=num_layers, d_ff=d_ff, max_len=max_len, dropout=0.0,
            activation="gelu_tanh", rng=rng))
        self.embedding, self.positions = model.embedding, model.positions.weight
        self.blocks, self.norm = model.decoder.blocks, model.decoder.norm
        self.forward, self.backward = model.forward, model.backward


class PackageEncoderDecoder:
    """An EncoderDecoder whose parts have the names of the program's."""

    def __init__(self, ready, vocab_size, max_len, d_model, num_heads, d_ff, num_layers, rng, pad_id=0):
        self._model = model = ready(models.EncoderDecoder(
            vocab_size, vocab_size, d_model, num_heads=num_heads, num_layers=num_layers, d_ff=d_ff, max_len=max_len,
            dropout=0.0, activation="gelu_tanh", positions="learned", tie_weights="embeddings", scale_embedding=False,
            pad_id=pad_id, rng=rng))
        self.embedding, self.output = model.target_embedding, model.output
        self.source_positions, self.target_positions = model.source_positions.weight, model.target_positions.weight
        self.encoder, self.encoder_norm = model.encoder.blocks, model.encoder.norm
        self.decoder, self.decoder_norm = model.decoder.blocks, model.decoder.norm
        self.forward, self.backward = model.forward, model.backward


def driven(driver, bug=None):
    """Returns a driver that runs with the package's components."""
    names = {**drivers.NAMES, **named(bug)}
    names |= {name: types.FunctionType(part.__code__, names, name, part.__defaults__) for name, part in drivers.NAMES.items()
              if isinstance(part, types.FunctionType) and part.__module__.startswith(drivers.__name__)}
    return names[driver.__name__]


def with_bug(part, bug):
    """Returns what gives the results of a part of a stage with a bug of the zoo in the package's component."""
    def softmax(z):
        return zoo.apply(bug, layers.Softmax()).forward(z)

    def softmax_backward(p, dp):
        layer = zoo.apply(bug, layers.Softmax())
        layer.remember(p)
        return layer.backward(dp)

    def adamw_step(w, g, m, v, t, lr, beta1, beta2, eps, weight_decay):
        return after(zoo.apply(bug, AdamW([Parameter(w)], lr, (beta1, beta2), eps, weight_decay)), g, m, v, t)

    def noam_rate(step, d_model, warmup):
        return zoo.apply(bug, NoamSchedule(AdamW([Parameter(np.zeros(1))]), d_model, warmup)).rate(step)

    def cached_logits(ids, ends, num_heads, num_layers, arrays):
        (V, D), d_ff = arrays["embedding.weight"].shape, len(arrays["blocks.0.feed_forward.down.weight"])
        model = named(bug)["LanguageModel"](V, len(arrays["positions"]), D, num_heads, d_ff, num_layers, 0)
        drivers.filled(model, arrays)
        model, cache = model._model.eval(), KeyValueCache()
        return np.concatenate([model(piece, cache=cache) for piece in np.split(ids, list(ends), axis=-1)], -2), np.array(ids.shape[-1]), np.array(0)

    own = {target.__name__: target for target in (softmax, softmax_backward, adamw_step, noam_rate, cached_logits)}
    return own.get(part.name) or driven(part.drives, bug)


def training(arrays, num_heads, num_layers, inputs, targets, warmup, prompt, count):
    """Does what the driver of this name does with the library's model, optimizer and schedule, and without a cache."""
    part = drivers.filled(named()["LanguageModel"](*sizes_of(arrays, "positions"), num_heads,
                                                   len(arrays["blocks.0.feed_forward.down.weight"]), num_layers, 0), arrays)
    losses = losses_of(part._model, arrays["norm.gamma"].size, layers.CrossEntropyLoss(), zip(inputs, targets), warmup)
    text, model = list(prompt), part._model.eval()
    for _ in range(count):
        text.append(int(model(np.array([text]))[0, -1].argmax()))
    return np.array(losses), np.array(text)


def training_to_translate(arrays, num_heads, num_layers, sources, inputs, targets, warmup, bos, eos):
    """Does what the driver of this name does with the library's model, optimizer, schedule and beam search."""
    part = drivers.filled(named()["EncoderDecoder"](*sizes_of(arrays, "source_positions"), num_heads,
                                                    len(arrays["encoder.0.feed_forward.down.weight"]), num_layers, 0), arrays)
    losses = losses_of(part._model, arrays["decoder_norm.gamma"].size, layers.CrossEntropyLoss(0.1, 0),
                       zip(sources, inputs, targets), warmup)
    [[(ids, _)]] = beam_search(part._model.eval(), sources[0, :1], bos, eos, inputs.shape[-1], 2)
    return np.array(losses), np.array(ids)


def sizes_of(arrays, positions):
    """Returns vocab_size, max_len and d_model of a model with these weights."""
    return len(arrays["embedding.weight"]), *arrays[positions].shape


def losses_of(model, d_model, criterion, batches, warmup):
    """Returns the losses of one step of training for each batch (inputs..., targets)."""
    optimizer = AdamW(model.parameters(), 1e-3, (0.9, 0.98), 1e-9, 0.01)
    schedule, losses = NoamSchedule(optimizer, d_model, warmup), []
    for *inputs, targets in batches:
        model.zero_grad()
        losses.append(float(criterion(model(*inputs), targets)))
        model.backward(criterion.backward())
        clip_grad_norm(model.parameters(), 1.0)
        schedule.step()
        optimizer.step()
    return losses
