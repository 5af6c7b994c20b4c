"""The models of the benchmark in JAX: functions of a dict of weights with our names, some of them joined for one matmul."""

import math

import jax
import jax.numpy as jnp
import numpy as np

JOINED = (("attention", "qkv", ("query", "key", "value")), ("cross_attention", "memory", ("key", "value")))


def fused_projections(state):
    """Our arrays {name: array}, with the projections of queries, keys and values of one sequence side by side."""
    arrays = dict(state)
    for name in state:
        for layer, whole, parts in JOINED:
            if f".{layer}.{parts[0]}." in name:
                names = [name.replace(f".{parts[0]}.", f".{part}.") for part in parts]
                arrays[name.replace(f".{parts[0]}.", f".{whole}.")] = np.concatenate([arrays.pop(part) for part in names], -1)
    return arrays


class Model:
    """One pass over the model of a configuration. `key` is a random key for dropout, or None for none.

    Activations are (B * T, d) between the attention layers.
    """

    def __init__(self, config, weights, key=None):
        self.config, self.weights = config, weights
        self.key = key if config.dropout else None

    def linear(self, name, x):
        y = x @ self.weights[f"{name}.weight"]
        return y + self.weights[f"{name}.bias"] if f"{name}.bias" in self.weights else y

    def norm(self, name, x, eps=1e-5):
        centered = x - x.mean(-1, keepdims=True)
        y = centered * jax.lax.rsqrt(jnp.square(centered).mean(-1, keepdims=True) + eps) * self.weights[f"{name}.gamma"]
        return y + self.weights[f"{name}.beta"] if f"{name}.beta" in self.weights else y

    def dropout(self, x):
        if self.key is None:
            return x
        self.key, key = jax.random.split(self.key)
        keep = 1 - self.config.dropout
        return jnp.where(jax.random.bernoulli(key, keep, x.shape), x / keep, 0)

    def attend(self, name, q, k, v, causal=False):
        """Attention of (B * T, H * size) arrays, and the output projection."""
        config = self.config
        q, k, v = (x.reshape(config.batch, -1, config.heads, config.d_model // config.heads) for x in (q, k, v))
        scores = jnp.einsum("bthd,bshd->bhts", q, k) / math.sqrt(q.shape[-1])
        if causal:
            scores = jnp.where(np.tri(q.shape[1], dtype=bool), scores, -jnp.inf)
        y = jnp.einsum("bhts,bshd->bthd", self.dropout(jax.nn.softmax(scores)), v)
        return self.linear(f"{name}.output", y.reshape(-1, config.d_model))

    def self_attention(self, name, x, causal=False):
        return self.attend(name, *jnp.split(self.linear(f"{name}.qkv", x), 3, -1), causal)

    def cross_attention(self, name, x, memory):
        return self.attend(name, self.linear(f"{name}.query", x), *jnp.split(self.linear(f"{name}.memory", memory), 2, -1))

    def feed_forward(self, name, x, activation):
        return self.linear(f"{name}.down", self.dropout(activation(self.linear(f"{name}.up", x))))

    def pre_norm(self, stack, x, activation, memory=None, causal=False):
        """A stack of pre-norm blocks with a final norm."""
        for n in range(self.config.layers):
            block, norm = f"{stack}.blocks.{n}", 1
            x += self.dropout(self.self_attention(f"{block}.attention", self.norm(f"{block}.norm1", x), causal))
            if memory is not None:
                norm += 1
                x += self.dropout(self.cross_attention(f"{block}.cross_attention", self.norm(f"{block}.norm2", x), memory))
            y = self.norm(f"{block}.norm{norm + 1}", x)
            x += self.dropout(self.feed_forward(f"{block}.feed_forward", y, activation))
        return self.norm(f"{stack}.norm", x)

    def post_norm(self, stack, x, activation, eps):
        for n in range(self.config.layers):
            block = f"{stack}.blocks.{n}"
            x = self.norm(f"{block}.norm1", x + self.dropout(self.self_attention(f"{block}.attention", x)), eps)
            x = self.norm(f"{block}.norm2", x + self.dropout(self.feed_forward(f"{block}.feed_forward", x, activation)), eps)
        return x

    def embedded(self, name, ids):
        """A scaled embedding with sinusoidal positions and dropout."""
        d = self.config.d_model
        angles = np.arange(ids.shape[-1])[:, None] / 10000 ** (np.arange(0, d, 2) / d)
        table = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(-1, d)
        return self.dropout(self.weights[f"{name}.weight"][ids] * math.sqrt(d) + table).reshape(-1, d)


def language_model(model, ids):
    weights = model.weights
    x = model.dropout(weights["embedding.weight"][ids] + weights["positions.weight"][:ids.shape[-1]])
    return model.pre_norm("decoder", x.reshape(-1, x.shape[-1]), jax.nn.gelu, causal=True) @ weights["embedding.weight"].T


def sequence_to_sequence(model, source, target):
    memory = model.pre_norm("encoder", model.embedded("source_embedding", source), jax.nn.relu)
    y = model.pre_norm("decoder", model.embedded("target_embedding", target), jax.nn.relu, memory, causal=True)
    return model.linear("output", y)


def classifier(model, ids):
    x = model.post_norm("encoder", model.embedded("embedding", ids), jax.nn.relu, 1e-6)
    x = x.reshape(*ids.shape, -1).mean(1)
    return model.linear("output", model.dropout(jax.nn.relu(model.linear("hidden", x))))


MODELS = {"lm": language_model, "seq2seq": sequence_to_sequence, "classifier": classifier}


def loss_of(config, weights, key, inputs, targets):
    """The mean cross-entropy of a batch."""
    logits = MODELS[config.kind](Model(config, weights, key), *inputs)
    chosen = jnp.take_along_axis(logits, targets.reshape(-1, 1), -1)
    return (jax.nn.logsumexp(logits, axis=-1, keepdims=True) - chosen).mean()
