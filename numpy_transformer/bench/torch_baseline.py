"""Times the same models in eager PyTorch, in a separate process.

    python -m numpy_transformer.bench.torch_baseline NAME THREADS

The first line of output is the number of threads, 1 or THREADS, with which PyTorch is faster. After that, each line on
standard input is a number of steps to run, and the answer is a line with the milliseconds of each step, as JSON.
"""

import json
import math
import sys
from dataclasses import replace

import torch
from torch import nn
from torch.nn import functional

from .configs import CONFIGS
from .measure import best_threads, timer


class Attention(nn.Module):
    """Multi-head attention with PyTorch's fused function. Queries, keys and values of one sequence come from one matmul."""

    def __init__(self, config, bias, causal, cross=False):
        super().__init__()
        d = config.d_model
        self.heads, self.dropout, self.causal = config.heads, config.dropout, causal
        self.project = nn.ModuleList([nn.Linear(d, d, bias), nn.Linear(d, 2 * d, bias)] if cross else
                                     [nn.Linear(d, 3 * d, bias)])
        self.output = nn.Linear(d, d, bias)

    def forward(self, x, memory=None, cache=None):
        projected = [layer(y) for layer, y in zip(self.project, (x, memory))]
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for y in projected for part in y.split(x.shape[-1], -1))
        if cache is not None:
            k, v = cache.extend(self, k, v)
        causal = self.causal and q.shape == k.shape
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=causal,
                                                    dropout_p=self.dropout if self.training else 0.0)
        return self.output(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
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


class PostNormBlock(Block):
    def __init__(self, config):
        super().__init__(config, True, nn.ReLU())
        self.norms = nn.ModuleList([nn.LayerNorm(config.d_model, eps=1e-6) for _ in range(2)])

    def forward(self, x):
        x = self.norms[0](x + self.dropout(self.attention(x)))
        return self.norms[1](x + self.dropout(self.down(self.dropout(self.activation(self.up(x))))))


class Stack(nn.Module):
    """A stack of pre-norm blocks with a final norm."""

    def __init__(self, config, bias, activation, **kinds):
        super().__init__()
        self.blocks = nn.ModuleList([Block(config, bias, activation, **kinds) for _ in range(config.layers)])
        self.norm = nn.LayerNorm(config.d_model, bias=bias)

    def forward(self, x, memory=None, cache=None):
        for block in self.blocks:
            x = block(x, memory, cache)
        return self.norm(x)


class LanguageModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embedding = nn.Embedding(config.vocab, config.d_model)
        self.positions = nn.Embedding(config.length, config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        self.decoder = Stack(config, False, nn.GELU(approximate="tanh"), causal=True)
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
        self.encoder = Stack(config, True, nn.ReLU())
        self.decoder = Stack(config, True, nn.ReLU(), causal=True, cross=True)
        self.output = nn.Linear(config.d_model, config.vocab)

    def forward(self, source, target):
        return self.output(self.decoder(self.target(target), self.encoder(self.source(source))))


class Classifier(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embedded = Embedded(config)
        self.blocks = nn.Sequential(*[PostNormBlock(config) for _ in range(config.layers)])
        self.hidden, self.dropout = nn.Linear(config.d_model, 64), nn.Dropout(config.dropout)
        self.output = nn.Linear(64, 2)

    def forward(self, ids):
        return self.output(self.dropout(self.hidden(self.blocks(self.embedded(ids)).mean(1)).relu()))


MODELS = {"lm": LanguageModel, "seq2seq": SequenceToSequence, "classifier": Classifier}


def timed_training(config):
    """Returns a function of a count, which runs that many training steps and returns the milliseconds of each."""
    model = MODELS[config.kind](config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    inputs, targets = config.batch_of_ids()
    inputs, targets = [torch.from_numpy(ids) for ids in inputs], torch.from_numpy(targets)

    def step():
        logits = model(*inputs)
        loss = functional.cross_entropy(logits.flatten(0, -2), targets.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    return timer(lambda: step().item())


def timed_decoding(length):
    """Returns a function of a count, which generates that many tokens after a text of `length` tokens."""
    def generate(count):
        model = LanguageModel(replace(CONFIGS["nanogpt-cpu"], length=length + count)).eval()
        ids, cache = torch.randint(0, 65, (1, length + count)), Cache(length + count)
        with torch.inference_mode():
            model(ids[:, :length], cache)
            return timer(lambda: model(ids[:, cache.length:cache.length + 1], cache))(count)

    return generate


def main(name, threads):
    torch.manual_seed(0)
    if name.startswith("decoding-"):
        task = timed_decoding(int(name.removeprefix("decoding-")))
    else:
        task = timed_training(CONFIGS[name])
    threads = best_threads(task, torch.set_num_threads, int(threads))
    torch.set_num_threads(threads)
    print(threads, flush=True)
    for line in sys.stdin:
        print(json.dumps(task(int(line))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
