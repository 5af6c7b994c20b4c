"""Checks of what must not depend on the batch: its size, and the other sequences in it."""

import numpy as np

from ..layers import BinaryCrossEntropyLoss, CrossEntropyLoss, MixtureOfExperts, ZLoss, tokens_per_expert
from ..models import LanguageModel, EncoderDecoder
from ..tree import parts_with_loss
from .check import as_tuple, check, expect, expect_close, prepared, upstream

LOSSES = (CrossEntropyLoss, BinaryCrossEntropyLoss, ZLoss)


def doubled(x):
    return np.concatenate([x, x]) if isinstance(x, np.ndarray) and len(x) > 1 else x


@check("doubled batch, loss", *LOSSES)
def a_doubled_batch_has_the_same_mean_loss(criterion, *inputs):
    criterion, (logits, targets) = prepared(criterion, inputs)
    loss, dz = criterion(logits, targets), criterion.backward()
    loss2, dz2 = criterion(doubled(logits), doubled(targets)), criterion.backward()
    expect_close("loss of a doubled batch", loss2, loss)
    expect_close("gradient of a doubled batch", 2 * dz2, doubled(dz))


@check("doubled batch, model", LanguageModel, EncoderDecoder)
def a_doubled_batch_has_the_same_gradients(module, *inputs):
    """Finds gradients that are divided by the batch size B, or by B T a second time."""
    module, inputs = prepared(module, inputs)
    module.eval(remember=True)
    criterion = CrossEntropyLoss(label_smoothing=0.1, ignore_id=0)
    *positions, classes = module(*inputs).shape
    labels = np.random.default_rng(0).integers(0, classes, positions)
    gradients = []
    for batch, targets in ((inputs, labels), (tuple(map(doubled, inputs)), doubled(labels))):
        module.forget()
        module.zero_grad()
        criterion(module(*batch), targets)
        module.backward(criterion.backward())
        gradients.append([p.grad.copy() for p in module.parameters(trained=True)])
    largest = max(np.linalg.norm(g) for g in gradients[0])
    idle = parameters_of_idle_experts(module)
    for (name, parameter), g, g2 in zip(module.named_parameters(trained=True), *gradients, strict=True):
        expect(np.linalg.norm(g) > 0 or id(parameter) in idle, f"{name} has no gradient")
        expect(np.linalg.norm(g - g2) <= 1e-12 * largest, f"gradient of {name} changes with a doubled batch")


def parameters_of_idle_experts(module):
    """Returns the ids of the parameters of experts that no token chose in the latest forward."""
    mixtures = [part for _, part in module.named_modules() if isinstance(part, MixtureOfExperts)]
    return {id(parameter) for part in mixtures for expert, count in zip(part.experts, tokens_per_expert(part.router))
            if not count for parameter in expert.parameters()}


def has_a_sum_over_the_batch(module):
    return isinstance(module, LOSSES) or bool(parts_with_loss(module))


@check("sequences are independent",
       when=lambda module, *inputs: not has_a_sum_over_the_batch(module) and isinstance(inputs[0], np.ndarray))
def sequences_of_a_batch_are_independent(module, *inputs):
    """A sequence has the same output and the same input gradients alone and in a batch."""
    module, inputs = prepared(module, inputs)
    module.eval(remember=True)
    y = module(*inputs)
    size = len(inputs[0])
    dy = upstream(y)
    dx = as_tuple(module.backward(dy))
    for n in range(size):
        row = [x[n:n + 1] if isinstance(x, np.ndarray) and len(x) == size else x for x in inputs]
        expect_close("output of a sequence alone", module(*row), y[n:n + 1])
        for alone, d in zip(as_tuple(module.backward(dy[n:n + 1])), dx, strict=True):
            expect_close("gradient of a sequence alone", alone, d[n:n + 1])
