"""Times one job of a published model's configuration in a process of its own.

    python -m numpy_transformer.bench.jobs NAME THREADS JOB

It answers its parent as child_process.py describes.
"""

import sys

import numpy as np

from ..decoding import KeyValueCache
from ..module import unfilled
from ..threads import set_blas_threads
from ..training import AdamW, Trainer
from ..training.memory import keep_freed_memory
from .child_process import answer_parent
from .configs import CONFIGS
from .measure import timer


def model_of(config):
    """Returns a model with random weights, which takes no more memory than one that is loaded from a file."""
    with unfilled():
        model = config.model()
    rng = np.random.default_rng(0)
    state = {}
    for name, parameter in model.named_parameters():
        state[name] = rng.standard_normal(parameter.data.shape, np.float32)
        state[name] *= 0.02
        state[name] += name.endswith("gamma")
    return model.load_state_dict(state, copy=False)


def timed_training(config):
    """Returns a function of a count, which runs that many training steps and returns the milliseconds of each."""
    model, batch = model_of(config), config.batch_of_ids()
    trainer = Trainer(model, config.criterion(), AdamW(model.parameters(), lr=1e-3), clip=1.0, workers=1)
    return timer(lambda: trainer.step([batch]))


def timed_forward(config):
    """The same for the logits of a batch."""
    model, (inputs, _) = model_of(config).eval(), config.batch_of_ids()
    return timer(lambda: model(*inputs))


def timed_decoding(config):
    """The same for the tokens that follow a text, one by one with the key-value cache."""
    model, (inputs, _) = model_of(config).eval(), config.batch_of_ids()
    text = inputs[0][:1]

    def generate(count):
        cache = KeyValueCache()
        model(text, cache=cache)
        return timer(lambda: model(text[:, :1], cache=cache))(count)

    return generate


def timed_embedding(config):
    """The same for the vectors of a batch of texts."""
    model, (inputs, _) = model_of(config).eval(), config.batch_of_ids()
    return timer(lambda: model.embed(*inputs))


def timed_matmul(config):
    """The same for the first matmul of a feed-forward layer, which shows how fast NumPy's BLAS library is."""
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape, np.float32) for shape in config.up_shapes)
    return timer(lambda: x @ w)


JOBS = {"step": timed_training, "forward": timed_forward, "decode": timed_decoding, "embed": timed_embedding,
        "matmul": timed_matmul}


def main(name, threads, job):
    keep_freed_memory()
    set_blas_threads(int(threads))
    answer_parent(JOBS[job](CONFIGS[name]), int(threads))


if __name__ == "__main__":
    main(*sys.argv[1:])
