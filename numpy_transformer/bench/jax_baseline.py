"""Times the same models in JAX: a whole training step is one function that is compiled by jax.jit.

    python -m numpy_transformer.bench.jax_baseline NAME THREADS [JOB]

It answers its parent as child_process.py describes. XLA uses as many threads as the process may use cores, and where a process cannot
choose its cores (macOS, Windows), that is all of them.
"""

import os
import sys
from functools import partial

import jax
import optax

from .child_process import answer_parent
from .configs import CONFIGS
from .jax_models import fused_projections, loss_of
from .measure import timer


def compiled_step(config):
    """Returns a training step, a function of the state which returns the next state and the loss, and the first state."""
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3, weight_decay=0.01))
    weights = jax.tree.map(jax.numpy.asarray, fused_projections(config.model().state_dict()))
    inputs, targets = jax.tree.map(jax.numpy.asarray, config.batch_of_ids())
    key = jax.random.key(0) if config.dropout else None     # of JAX's default generator, which is faster than its "rbg" here
    state = weights, optimizer.init(weights), key

    @partial(jax.jit, donate_argnums=0)
    def step(state):
        weights, moments, key = state
        key, used = (None, None) if key is None else jax.random.split(key)
        loss, gradients = jax.value_and_grad(partial(loss_of, config))(weights, used, inputs, targets)
        updates, moments = optimizer.update(gradients, moments, weights)
        return (optax.apply_updates(weights, updates), moments, key), loss

    return step, state


def timed_training(config):
    """Returns a function of a count, which runs that many training steps and returns the milliseconds of each."""
    step, state = compiled_step(config)

    def one():
        nonlocal state
        state, loss = step(state)
        return loss.item()

    return timer(one)


def timed_matmul(config):
    """The same for the first matmul of a feed-forward layer."""
    x, w = (jax.random.normal(jax.random.key(0), shape) for shape in config.up_shapes)
    multiply = jax.jit(lambda x, w: x @ w)
    return timer(lambda: multiply(x, w).block_until_ready())


JOBS = {"matmul": timed_matmul, "step": timed_training}


def main(name, threads, job="step"):
    if hasattr(os, "sched_setaffinity"):        # before XLA starts its threads
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:int(threads)])
    answer_parent(JOBS[job](CONFIGS[name]), int(threads))


if __name__ == "__main__":
    main(*sys.argv[1:])
