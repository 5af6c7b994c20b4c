"""Trains two small models side by side, one correct and one with a bug, with the same weights on the same texts."""

import math

from ..layers import CrossEntropyLoss
from ..training import Adam, AdamW, Muon, NoamSchedule, Trainer, linear_weights, muon_with_adamw
from .bug import contains, find, apply
from .models import MODELS, PAD, SIZES, batch


def trainer(bug, planted, seed):
    """Returns a Trainer for the first model in which the bug can be planted, with the bug or without it.

    If the bug is in a loss, an optimizer or a schedule, that is where it is planted, and the first model is used.
    """
    model = next((sample for sample in MODELS if contains(sample, bug.target)), MODELS[0]).make(seed)[0]
    if bug.target is AdamW:
        optimizer = AdamW(model.parameters(), 0.01, weight_decay=0.1, decay=linear_weights(model))
    elif bug.target is Muon:
        optimizer = muon_with_adamw(model, 0.02, adam_lr=0.01)
    else:
        optimizer = Adam(model.parameters(), 0.01)
    schedule = NoamSchedule(optimizer, SIZES["d_model"], 100, 0.5) if bug.target is NoamSchedule else None
    things = {type(thing): thing for thing in (optimizer, schedule, CrossEntropyLoss(ignore_id=PAD))}
    things |= {type(part): part for part in getattr(optimizer, "optimizers", ())}
    if planted:
        apply(bug, things.get(bug.target, model))
    return Trainer(model, things[CrossEntropyLoss], optimizer, schedule, workers=1)


def race(name, steps=250, seed=0):
    """Yields (loss of the correct model, loss of the wrong one) for each step; NaN after a loss was not finite.

    Each text is used once, so the training loss is the loss on new texts.
    """
    bug = find(name)
    runs = [trainer(bug, planted, seed) for planted in (False, True)]
    for n in range(steps):
        yield tuple(loss(run, n, seed) for run in runs)


def loss(run, n, seed):
    if run.steps < n:                           # an earlier loss was not finite
        return math.nan
    try:
        return run.step([batch(n, run.model, seed)])["loss"]
    except ValueError:                          # the loss is not finite
        return math.nan
