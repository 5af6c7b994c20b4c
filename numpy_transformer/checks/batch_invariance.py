"""What a batch must not change: its size, and what else is in it."""

import numpy as np

from ..layers import BinaryCrossEntropyLoss, CrossEntropyLoss
from ..models import CausalLanguageModel, EncoderDecoder
from .check import as_tuple, check, expect, expect_close, prepared, upstream

LOSSES = (CrossEntropyLoss, BinaryCrossEntropyLoss)


def twice(x):
    return np.concatenate([x, x]) if isinstance(x, np.ndarray) and len(x) > 1 else x


@check("doubled batch, loss", *LOSSES)
def a_doubled_batch_has_the_same_mean_loss(criterion, *inputs):
    criterion, (logits, targets) = prepared(criterion, inputs)
    loss, dz = criterion(logits, targets), criterion.backward()
    loss2, dz2 = criterion(twice(logits), twice(targets)), criterion.backward()
    expect_close("loss of a doubled batch", loss2, loss)
    expect_close("gradient of a doubled batch", 2 * dz2, twice(dz))


@check("doubled batch, model", CausalLanguageModel, EncoderDecoder)
def a_doubled_batch_has_the_same_gradients(module, *inputs):
    """Anything divided by B, or by B T a second time, comes apart here."""
    module, inputs = prepared(module, inputs)
    module.eval(remember=True)
    criterion = CrossEntropyLoss(label_smoothing=0.1, ignore_id=0)
    *places, classes = module(*inputs).shape
    targets, gradients = np.random.default_rng(0).integers(0, classes, places), []
    for batch, answer in ((inputs, targets), (tuple(map(twice, inputs)), twice(targets))):
        module.forget()
        module.zero_grad()
        criterion(module(*batch), answer)
        module.backward(criterion.backward())
        gradients.append([p.grad.copy() for p in module.parameters()])
    largest = max(np.linalg.norm(g) for g in gradients[0])
    for (name, _), g, g2 in zip(module.named_parameters(), *gradients, strict=True):
        expect(np.linalg.norm(g) > 0, f"{name} has no gradient")
        expect(np.linalg.norm(g - g2) <= 1e-12 * largest, f"gradient of {name} changes with a doubled batch")


@check("rows of a batch apart", when=lambda module, *inputs: not isinstance(module, LOSSES))
def rows_of_a_batch_know_nothing_of_each_other(module, *inputs):
    """Output and input gradients of one sequence are the same alone and in a batch."""
    module, inputs = prepared(module, inputs)
    module.eval(remember=True)
    y, size = module(*inputs), len(inputs[0])
    dy = upstream(y)
    dx = as_tuple(module.backward(dy))
    for n in range(size):
        row = [x[n:n + 1] if isinstance(x, np.ndarray) and len(x) == size else x for x in inputs]
        expect_close("output of a sequence alone", module(*row), y[n:n + 1])
        for alone, d in zip(as_tuple(module.backward(dy[n:n + 1])), dx, strict=True):
            expect_close("gradient of a sequence alone", alone, d[n:n + 1])
