"""Stage 9: the optimizer, clipping, the learning rate and the training loop."""

import numpy as np

from ...exercises.definition import Mistake
from ..drivers import training as drivers
from .making import new_part, normal, of_exercise


def draw_loop(rng, n):
    steps, rows = 4, n.B + 2
    w, xs, targets = normal(rng, n.d, n.V), normal(rng, steps, rows, n.d), 9 * normal(rng, steps, rows, n.V)
    rates = [round(float(rate), 3) for rate in rng.uniform(0.05, 0.4, steps)]
    return w, list(xs), list(targets), rates, round(float(rng.uniform(0.3, 0.5)), 3)


def draw_lists(rng, n):
    w, xs, targets, *_ = draw_loop(rng, n)
    return w.tolist(), [x.tolist() for x in xs], [target.tolist() for target in targets]


def loop_by_hand(w, xs, targets, rates, max_norm):
    """The same, by the formulas of the gradient, without a model or an optimizer."""
    losses = []
    for x, t, rate in zip(xs, targets, rates):
        difference = x @ w - t
        losses.append((difference ** 2).mean() / 2)
        gradient = x.T @ difference / difference.size
        norm = np.sqrt((gradient ** 2).sum())
        w = w - rate * gradient * min(1, max_norm / norm)
    return np.array(losses, xs[0].dtype), w, np.array(rates, xs[0].dtype)


def stage_9():
    return (of_exercise(9, "19.2", drivers.adamw_step, ("AdamW.step",)),
            of_exercise(9, "19.4", drivers.clipped, ("clip_gradients",)),
            of_exercise(9, "19.3", drivers.rate, ("learning_rate",)),
            new_part(9, 4, drivers.training_loop, ("train",), draw_loop, ("losses", "weights", "learning rates"), (
                Mistake("LOOP-1", {
                    "        for parameter in optimizer.parameters:\n"
                    "            parameter.grad[...] = 0\n":
                        ""}),
                Mistake("LOOP-2", {"        clip_gradients(optimizer.parameters, max_norm)\n": ""}),
                Mistake("LOOP-3", {
                    "        optimizer.lr = rate(n)\n"
                    "        optimizer.step()":
                        "        optimizer.step()\n"
                        "        optimizer.lr = rate(n)"}),
                Mistake("LOOP-4", {"enumerate(batches, 1)": "enumerate(batches, 2)"}),
                Mistake("LOOP-5", {"        optimizer.lr = rate(n)\n": ""}),
                Mistake("LOOP-6", {
                    "        optimizer.step()\n"
                    "    return":
                        "        optimizer.step()\n"
                        "        losses[-1] = loss(model(*inputs), targets)\n"
                        "    return"}),
                Mistake("LOOP-7", {"        optimizer.step()\n    return": "    return"}),
                Mistake("LOOP-8", {"        model.backward(loss.backward())\n": ""}),
                Mistake("LOOP-10", {
                    "        for parameter in optimizer.parameters:\n"
                    "            parameter.grad[...] = 0\n":
                        "",
                    "        optimizer.step()\n"
                    "    return":
                        "        optimizer.step()\n"
                        "        for parameter in optimizer.parameters:\n"
                        "            parameter.grad[...] = 0\n"
                        "    return"}),
                Mistake("LOOP-9", {"enumerate(batches, 1)": "enumerate(batches)"}),
            ), reference=loop_by_hand),
            new_part(9, 5, drivers.float32_training, ("AdamW.step", "learning_rate", "train"), draw_lists,
                     ("bytes of a weight",), (
                Mistake("FLOAT-1", {"d_model ** -0.5 * min(n ** -0.5": "np.float64(d_model) ** -0.5 * min(n ** -0.5",
                                    "parameter.data -= self.lr * (": "parameter.data = parameter.data - self.lr * ("}),
            ), reference=lambda w, xs, targets: np.array(4)))
