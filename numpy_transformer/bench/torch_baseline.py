"""Times the same models in eager PyTorch, in a separate process.

    python -m numpy_transformer.bench.torch_baseline NAME THREADS [JOB]

It answers its parent as child_process.py describes.
"""

import sys
from dataclasses import replace

import torch
from torch import nn
from torch.nn import functional

from .child_process import answer_parent
from .configs import CONFIGS
from .measure import timer
from .torch_models import MODELS, Cache

MOST_TOKENS = 2 ** 16                           # after which --decoding measures the next round


def timed_training(config, prepare=lambda function: function):
    """Returns a function of a count, which runs that many training steps and returns the milliseconds of each.

    `prepare`, such as torch.compile, is applied to the function that computes the loss.
    """
    model = MODELS[config.kind](config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    inputs, targets = config.batch_of_ids()
    inputs, targets = [torch.from_numpy(ids) for ids in inputs], torch.from_numpy(targets)

    @prepare
    def compute_loss():
        logits = model(*inputs)
        return functional.cross_entropy(logits.flatten(0, -2), targets.flatten())

    def step():
        loss = compute_loss()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    return timer(lambda: step().item())


def timed_forward(config):
    """The same for the output of a batch, without gradients."""
    model = MODELS[config.kind](config).eval()
    inputs = [torch.from_numpy(ids) for ids in config.batch_of_ids()[0]]

    def run(count):
        with torch.inference_mode():
            return timer(lambda: model(*inputs))(count)

    return run


def timed_decoding(config):
    """The same for the tokens that follow a text of the configuration's length, one by one with the key-value cache."""
    model = MODELS["lm"](config).eval()

    def generate(count):
        ids, cache = torch.randint(0, config.vocab, (1, config.length + count)), Cache(config.length + count)
        with torch.inference_mode():
            model(ids[:, :config.length], cache)
            return timer(lambda: model(ids[:, cache.length:cache.length + 1], cache))(count)

    return generate


def timed_matmul(config):
    """The same for the first matmul of a feed-forward layer."""
    x, w = (torch.randn(shape) for shape in config.up_shapes)
    return timer(lambda: x @ w)


JOBS = {"step": timed_training, "forward": timed_forward, "decode": timed_decoding, "embed": timed_forward,
        "matmul": timed_matmul}


def main(name, threads, job="step"):
    torch.manual_seed(0)
    torch.set_num_threads(int(threads))
    if name.startswith("decoding-"):
        length = int(name.removeprefix("decoding-"))
        task = timed_decoding(replace(CONFIGS["nanogpt-cpu"], length=length, max_len=length + MOST_TOKENS))
    else:
        task = JOBS[job](CONFIGS[name])
    answer_parent(task, int(threads))


if __name__ == "__main__":
    main(*sys.argv[1:])
