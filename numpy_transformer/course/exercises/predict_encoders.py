"""Predicting which outputs change and which gradients are zero in an encoder."""

import numpy as np

from ...inspection.influence import influence
from ...inspection.recorder import record
from ...layers import CrossEntropyLoss, padding_mask
from ...models import Encoder, MaskedLanguageModel, SequenceClassifier, TokenClassifier
from .definition import Exercise, Mistake


def what_moves_what_in_an_encoder():
    both_directions = np.array([1, 1, 1, 1, 1])
    padded = np.array([1, 1, 1, 1, 1])
    pooled = np.array([1, 1, 1, 0, 0])
    dlogits = np.array([0, 1, 0, 1, 0])
    at_output = np.array([0, 1, 0, 1, 0])
    at_input = np.array([1, 1, 1, 1, 1])
    table = np.array([0, 0, 0, 1, 1, 1, 1, 0])
    return both_directions, padded, pooled, dlogits, at_output, at_input, table


def run_encoders():
    x = np.random.default_rng(77).standard_normal((5, 6))
    ids, short = np.array([4, 6, 3, 6, 5]), np.array([4, 6, 3, 0, 0])
    targets = [-1, 9, -1, 7, -1]
    classifier, tape = trained(SequenceClassifier(10, 6, 2, 2, num_classes=3, dropout=0, rng=3), short, 1)
    pooled = tape["encoder"].dy
    _, tape = trained(MaskedLanguageModel(10, 6, 2, 2, dropout=0, rng=4), ids, targets)
    tagger, _ = trained(TokenClassifier(8, 6, 2, 2, num_classes=3, dropout=0, rng=5), ids, [0, 1, 2, 1, 0])
    changes = (influence(Encoder(2, 6, 2, 8, rng=1), x)[:, 2],
               influence(Encoder(2, 6, 2, 8, rng=2), x, padding_mask(short))[:, 1])
    rows = (pooled, tape[""].dy, tape["encoder"].dy, tape["encoder"].gradients[0], tagger.embedding.weight.grad)
    return tuple((change > 0).astype(int) for change in changes) + tuple(
        gradient.reshape(-1, gradient.shape[-1]).any(1).astype(int) for gradient in rows)


def trained(model, ids, targets):
    """Runs forward and backward once and returns the model and the recording."""
    criterion = CrossEntropyLoss(ignore_id=-1)
    with record(model) as tape:
        criterion(model(ids), np.array(targets))
        model.backward(criterion.backward())
    return model, tape


EXERCISES = [
    Exercise(
        "14.5", minutes=10, lines=8, kind="predict",
        solution=what_moves_what_in_an_encoder, reference=run_encoders,
        outputs=tuple(f"answer {i} ({what})" for i, what in enumerate((
            "both directions", "padding", "mean", "dlogits", "encoder's output", "encoder's input", "table"), 1)),
        mistakes=(
            Mistake("PRD-14.5a", {
                "both_directions = np.array([1, 1, 1, 1, 1])": "both_directions = np.array([0, 0, 1, 1, 1])"}),
            Mistake("PRD-14.5b", {
                "both_directions = np.array([1, 1, 1, 1, 1])": "both_directions = np.array([0, 0, 1, 0, 0])"}),
            Mistake("PRD-14.5c", {"padded = np.array([1, 1, 1, 1, 1])": "padded = np.array([1, 1, 1, 0, 0])"}),
            Mistake("PRD-14.5d", {"padded = np.array([1, 1, 1, 1, 1])": "padded = np.array([0, 1, 1, 1, 1])"}),
            Mistake("PRD-14.5e", {"pooled = np.array([1, 1, 1, 0, 0])": "pooled = np.array([1, 1, 1, 1, 1])"}),
            Mistake("PRD-14.5f", {"pooled = np.array([1, 1, 1, 0, 0])": "pooled = np.array([1, 0, 0, 0, 0])"}),
            Mistake("PRD-14.5g", {"dlogits = np.array([0, 1, 0, 1, 0])": "dlogits = np.array([1, 1, 1, 1, 1])"}),
            Mistake("PRD-14.5h", {"dlogits = np.array([0, 1, 0, 1, 0])": "dlogits = np.array([1, 0, 1, 0, 1])"}),
            Mistake("PRD-14.5i", {"at_output = np.array([0, 1, 0, 1, 0])": "at_output = np.array([1, 1, 1, 1, 1])"}),
            Mistake("PRD-14.5j", {"at_input = np.array([1, 1, 1, 1, 1])": "at_input = np.array([0, 1, 0, 1, 0])"}),
            Mistake("PRD-14.5k", {"at_input = np.array([1, 1, 1, 1, 1])": "at_input = np.array([1, 0, 1, 0, 1])"}),
            Mistake("PRD-14.5l", {"[0, 0, 0, 1, 1, 1, 1, 0]": "[1, 1, 1, 1, 1, 1, 1, 1]"}),
            Mistake("PRD-14.5m", {"[0, 0, 0, 1, 1, 1, 1, 0]": "[1, 1, 1, 1, 1, 0, 0, 0]"}),
            Mistake("PRD-14.5n", {"padded = np.array([1, 1, 1, 1, 1])": "padded = np.array([0, 1, 0, 0, 0])"}),
            Mistake("PRD-14.5o", {"padded = np.array([1, 1, 1, 1, 1])": "padded = np.array([0, 1, 1, 0, 0])"}),
            Mistake("PRD-14.5p", {"pooled = np.array([1, 1, 1, 0, 0])": "pooled = np.array([0, 0, 1, 0, 0])"}),
            Mistake("PRD-14.5q", {"at_output = np.array([0, 1, 0, 1, 0])": "at_output = np.array([1, 0, 1, 0, 1])"}),
            Mistake("PRD-14.5r", {"[0, 0, 0, 1, 1, 1, 1, 0]": "[0, 0, 1, 1, 1, 1, 0, 0]"}),
        )),
]
