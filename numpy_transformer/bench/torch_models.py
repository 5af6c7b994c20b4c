"""The models of the benchmark in eager PyTorch, with its fused functions."""

import math

import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    """Multi-head attention with PyTorch's fused function. Queries, keys and values of one sequence come from one matmul."""

    def __init__(self, config, bias, causal, cross=False):
        super().__init__()
        d = config.d_model
        self.heads, self.dropout, self.causal = config.heads, config.dropout, causal
        self.project = nn.ModuleList([nn.Linear(d, d, bias), nn.Linear(d, 2 * d, bias)] if cross else
                                     [nn.Linear(d, 3 * d, bias)])
        self.output = nn.Linear(d, d, bias)

    def forward(self, x, memory=None, cache=None, mask=None):
        projected = [layer(y) for layer, y in zip(self.project, (x, memory))]
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for y in projected for part in y.split(x.shape[-1], -1))
        if cache is not None:
            k, v = cache.extend(self, k, v)
        causal = self.causal and q.shape == k.shape
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal,
                                                    dropout_p=self.dropout if self.training else 0.0)
        return self.output(y.transpose(1, 2).flatten(2))


class TorchBlock(nn.Module):
    """A pre-norm block."""

    def __init__(self, config, bias, activation, causal=False, cross=False):
        super().__init__()
        d = config.d_model
        self.attention = Attention(config, bias, causal)
        self.cross = Attention(config, bias, False, cross=True) if cross else None
        self.norms = nn.ModuleList([nn.LayerNorm(d, bias=bias) for _ in range(3 if cross else 2)])
        self.up, self.down = nn.Linear(d, config.d_ff, bias), nn.Linear(config.d_ff, d, bias)
        self.activation, self.dropout = activation, nn.Dropout(config.dropout)

    def forward(self, x, memory=None, cache=None):
        x = x + self.dropout(self.attention(self.norms[0](x), cache=cache))
        if self.cross is not None:
            x = x + self.dropout(self.cross(self.norms[1](x), memory))
        return x + self.dropout(self.down(self.dropout(self.activation(self.up(self.norms[-1](x))))))


class PostNormBlock(TorchBlock):
    def __init__(self, config, activation, eps):
        super().__init__(config, True, activation)
        self.norms = nn.ModuleList([nn.LayerNorm(config.d_model, eps=eps) for _ in range(2)])

    def forward(self, x, mask=None):
        x = self.norms[0](x + self.dropout(self.attention(x, mask=mask)))
        return self.norms[1](x + self.dropout(self.down(self.dropout(self.activation(self.up(x))))))


class TorchStack(nn.Module):
    """A stack of pre-norm blocks with a final norm."""

    def __init__(self, config, bias, activation, **kinds):
        super().__init__()
        self.blocks = nn.ModuleList([TorchBlock(config, bias, activation, **kinds) for _ in range(config.layers)])
        self.norm = nn.LayerNorm(config.d_model, bias=bias)

    def forward(self, x, memory=None, cache=None):
        for block in self.blocks:
            x = block(x, memory, cache)
        return self.norm(x)


class TorchLanguageModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embedding = nn.Embedding(config.vocab, config.d_model)
        self.positions = nn.Embedding(config.max_len or config.length, config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        self.decoder = TorchStack(config, config.bias, nn.GELU(approximate="tanh"), causal=True)
        self.output = nn.Linear(config.d_model, config.vocab, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, ids, cache=None):
        seen = 0 if cache is None else cache.length
        x = self.embedding(ids) + self.positions(torch.arange(seen, seen + ids.shape[-1]))
        x = self.decoder(self.dropout(x), cache=cache)
        if cache is not None:
            cache.length += ids.shape[-1]
        return self.output(x)


class Cache:
    """A key-value cache with space for `size` tokens in each attention layer."""

    def __init__(self, size):
        self.size, self.length, self.layers = size, 0, {}

    def extend(self, layer, *new):
        if layer not in self.layers:
            self.layers[layer] = [x.new_empty(*x.shape[:2], self.size, x.shape[-1]) for x in new]
        stop = self.length + new[0].shape[2]
        for buffer, x in zip(self.layers[layer], new):
            buffer[:, :, self.length:stop] = x
        return [buffer[:, :, :stop] for buffer in self.layers[layer]]


class Embedded(nn.Module):
    """A scaled embedding with sinusoidal positions and dropout."""

    def __init__(self, config):
        super().__init__()
        self.embedding, self.dropout = nn.Embedding(config.vocab, config.d_model), nn.Dropout(config.dropout)
        angles = torch.arange(config.length)[:, None] / 10000 ** (torch.arange(0, config.d_model, 2) / config.d_model)
        self.register_buffer("table", torch.stack([angles.sin(), angles.cos()], -1).flatten(1))
        self.factor = math.sqrt(config.d_model)

    def forward(self, ids):
        return self.dropout(self.embedding(ids) * self.factor + self.table[:ids.shape[-1]])


class SequenceToSequence(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.source, self.target = Embedded(config), Embedded(config)
        self.encoder = TorchStack(config, True, nn.ReLU())
        self.decoder = TorchStack(config, True, nn.ReLU(), causal=True, cross=True)
        self.output = nn.Linear(config.d_model, config.vocab)

    def forward(self, source, target):
        return self.output(self.decoder(self.target(target), self.encoder(self.source(source))))


class Classifier(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embedded = Embedded(config)
        self.blocks = nn.Sequential(*[PostNormBlock(config, nn.ReLU(), 1e-6) for _ in range(config.layers)])
        self.hidden, self.dropout = nn.Linear(config.d_model, 64), nn.Dropout(config.dropout)
        self.output = nn.Linear(64, 2)

    def forward(self, ids):
        return self.output(self.dropout(self.hidden(self.blocks(self.embedded(ids)).mean(1)).relu()))


class SentenceEncoder(nn.Module):
    """BERT's layers, then the mean over the real tokens, as a unit vector."""

    def __init__(self, config):
        super().__init__()
        sizes = {"embedding": config.vocab, "positions": config.max_len or config.length, "segments": 2}
        for name, size in sizes.items():
            setattr(self, name, nn.Embedding(size, config.d_model))
        self.norm, self.dropout = nn.LayerNorm(config.d_model, eps=1e-12), nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList([PostNormBlock(config, nn.GELU(), 1e-12) for _ in range(config.layers)])

    def forward(self, ids):
        real = ids != 0
        x = self.embedding(ids) + self.segments(torch.zeros_like(ids)) + self.positions(torch.arange(ids.shape[-1]))
        x = self.dropout(self.norm(x))
        for block in self.blocks:
            x = block(x, real[:, None, None])
        weights = real[..., None].to(x.dtype)
        return functional.normalize((x * weights).sum(1) / weights.sum(1).clamp(min=1e-9), dim=-1)


MODELS = {"lm": TorchLanguageModel, "seq2seq": SequenceToSequence, "classifier": Classifier, "encoder": SentenceEncoder}
