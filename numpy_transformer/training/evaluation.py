"""Measures a model on batches."""

import numpy as np

from .data_parallel import as_tuple


def evaluate(model, criterion, batches):
    """Returns the mean loss over all counted targets of the batches, with dropout off."""
    total = counted = 0
    for loss, count, _, _ in predictions(model, criterion, batches):
        total += loss * count
        counted += count
    return total / counted


def evaluate_accuracy(model, criterion, batches):
    """Returns {"validation": mean loss, "accuracy": share of the counted targets that are predicted}, with dropout off.

    Logits of the shape of the targets are those of class 1 of two; otherwise their last axis has one logit per class.
    """
    ignore_id = getattr(criterion, "ignore_id", None)
    total = right = counted = 0
    for loss, count, logits, targets in predictions(model, criterion, batches):
        predicted = logits > 0 if logits.ndim == targets.ndim else logits.argmax(-1)
        is_right = predicted == targets
        if ignore_id is not None:
            is_right &= targets != ignore_id
        total += loss * count
        right += np.count_nonzero(is_right)
        counted += count
    return {"validation": total / counted, "accuracy": right / counted}


def predictions(model, criterion, batches):
    """Yields (mean loss, number of counted targets, logits, targets) of each batch, with dropout off."""
    training = model.training
    model.eval()
    criterion.eval()
    for inputs, targets in batches:
        logits = model(*as_tuple(inputs))
        yield float(criterion(logits, targets)), criterion.count, logits, targets
    criterion.train()
    if training:
        model.train()
