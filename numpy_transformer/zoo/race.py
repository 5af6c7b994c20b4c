"""Two small models side by side, one right and one wrong, from the same weights and on the same texts."""

import math

from ..layers import CrossEntropyLoss
from ..training import Adam, AdamW, NoamSchedule, Trainer
from .bug import apply, find, holds
from .models import MODELS, PAD, SIZES, batch


def trainer(bug, planted, seed):
    """A trainer of the bug's model, or of the first one, whose loss, optimizer or schedule may be the bug's target."""
    model = next((sample for sample in MODELS if holds(sample, bug.target)), MODELS[0]).make(seed)[0]
    kind = AdamW if bug.target is AdamW else Adam
    optimizer = kind(model.parameters(), 0.01, **{"weight_decay": 0.1} if kind is AdamW else {})
    schedule = NoamSchedule(optimizer, SIZES["d_model"], 100, 0.5) if bug.target is NoamSchedule else None
    things = {type(thing): thing for thing in (optimizer, schedule, CrossEntropyLoss(ignore_id=PAD))}
    if planted:
        apply(bug, things.get(bug.target, model))
    return Trainer(model, things[CrossEntropyLoss], optimizer, schedule, workers=1)


def race(name, steps=250, seed=0):
    """Yield (loss of the right model, loss of the wrong one) step by step; NaN once a run has broken down.

    Each text is seen once, so the training loss is that of new texts.
    """
    bug = find(name)
    runs = [trainer(bug, planted, seed) for planted in (False, True)]
    for n in range(steps):
        yield tuple(loss(run, n, seed) for run in runs)


def loss(run, n, seed):
    if run.steps < n:                           # it broke down before
        return math.nan
    try:
        return run.step([batch(n, run.model, seed)])["loss"]
    except ValueError:                          # not finite
        return math.nan
