"""Predicting which outputs change and which gradients are zero in an encoder."""

import numpy as np

from ...inspection.influence import influence
from ...inspection.recorder import record
from ...layers import CrossEntropyLoss, padding_mask
from ...models import Encoder, MaskedLanguageModel, SequenceClassifier, TokenClassifier
from .definition import Exercise, Mistake


def what_moves_what_in_an_encoder():
    """A text of 5 tokens in encoders of two blocks without a causal mask.  What changes, and which gradients are 0?

    Predict, without running anything. Return seven arrays in a tuple, the first six such as np.array([1, 0, 0, 0, 0]).
    In 1 and 2, 1 means that this output can change, 0 that it cannot. In the others, 1 means that the row of this token
    in the gradient is not 0, and 0 that it is exactly 0.
    1. an encoder without padding, input 2 is changed: which outputs can change?
    2. tokens 3 and 4 are padding, hidden by a mask (B, 1, 1, S), input 1 is changed: which outputs can change?
    3. a SequenceClassifier, tokens 3 and 4 are padding: the gradient of the encoder's output
    4. a MaskedLanguageModel without padding, targets (-1, 9, -1, 7, -1), a loss that ignores -1: dlogits
    5. the same model: the gradient of the encoder's output, before the layers that turn each token into logits
    6. the same model: the gradient of the encoder's input, the vectors that enter block 0
    7. a TokenClassifier with ids (4, 6, 3, 6, 5), all 5 tags count: the gradient of its embedding table, which has 8
       rows; here the array has 8 entries, one per row
    """
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


PREDICT = (
    Mistake("PRD-14.5a", {"both_directions = np.array([1, 1, 1, 1, 1])": "both_directions = np.array([0, 0, 1, 1, 1])"},
            "Answer 1: this would be a decoder. Without a causal mask, the tokens before it attend to it too."),
    Mistake("PRD-14.5b", {"both_directions = np.array([1, 1, 1, 1, 1])": "both_directions = np.array([0, 0, 1, 0, 0])"},
            "Answer 1: in each block, every token attends to every other token."),
    Mistake("PRD-14.5c", {"padded = np.array([1, 1, 1, 1, 1])": "padded = np.array([1, 1, 1, 0, 0])"},
            "Answer 2: the mask hides padding tokens as keys, not as queries. They still attend to the real tokens, "
            "although their outputs are not used."),
    Mistake("PRD-14.5d", {"padded = np.array([1, 1, 1, 1, 1])": "padded = np.array([0, 1, 1, 1, 1])"},
            "Answer 2: token 0 attends to token 1, because there is no causal mask."),
    Mistake("PRD-14.5e", {"pooled = np.array([1, 1, 1, 0, 0])": "pooled = np.array([1, 1, 1, 1, 1])"},
            "Answer 3: the mean is over the real tokens only, so the gradient of a padding token is 0."),
    Mistake("PRD-14.5f", {"pooled = np.array([1, 1, 1, 0, 0])": "pooled = np.array([1, 0, 0, 0, 0])"},
            "Answer 3: this would be a classifier that uses the vector of the first token. This one uses the mean over "
            "all real tokens."),
    Mistake("PRD-14.5g", {"dlogits = np.array([0, 1, 0, 1, 0])": "dlogits = np.array([1, 1, 1, 1, 1])"},
            "Answer 4: a token that the loss ignores has no term in it, so the gradient of its logits is 0."),
    Mistake("PRD-14.5h", {"dlogits = np.array([0, 1, 0, 1, 0])": "dlogits = np.array([1, 0, 1, 0, 1])"},
            "Answer 4: yours is the other way round. The loss ignores the target -1."),
    Mistake("PRD-14.5i", {"at_output = np.array([0, 1, 0, 1, 0])": "at_output = np.array([1, 1, 1, 1, 1])"},
            "Answer 5: the layers between the encoder and the logits work on each token separately, so a row of 0 "
            "stays 0 until the backward pass reaches attention."),
    Mistake("PRD-14.5j", {"at_input = np.array([1, 1, 1, 1, 1])": "at_input = np.array([0, 1, 0, 1, 0])"},
            "Answer 6: the masked tokens attended to all other tokens, which receive their gradients through "
            "attention."),
    Mistake("PRD-14.5k", {"at_input = np.array([1, 1, 1, 1, 1])": "at_input = np.array([1, 0, 1, 0, 1])"},
            "Answer 6: the masked tokens have a gradient too, at least through the residual connections."),
    Mistake("PRD-14.5l", {"[0, 0, 0, 1, 1, 1, 1, 0]": "[1, 1, 1, 1, 1, 1, 1, 1]"},
            "Answer 7: this table is used for the lookup only, so a row whose id does not occur has no influence. All "
            "rows would have a gradient if the output layer shared the table, as in a masked language model."),
    Mistake("PRD-14.5m", {"[0, 0, 0, 1, 1, 1, 1, 0]": "[1, 1, 1, 1, 1, 0, 0, 0]"},
            "Answer 7: the rows of the table belong to ids, not to positions in the text. Id 6 has row 6."),
    Mistake("PRD-14.5n", {"padded = np.array([1, 1, 1, 1, 1])": "padded = np.array([0, 1, 0, 0, 0])"},
            "Answer 2: in each block, every token attends to all tokens that are not padding."),
    Mistake("PRD-14.5o", {"padded = np.array([1, 1, 1, 1, 1])": "padded = np.array([0, 1, 1, 0, 0])"},
            "Answer 2: there is no causal mask, and the padding tokens are hidden as keys only. As queries, they "
            "attend to token 1 too."),
    Mistake("PRD-14.5p", {"pooled = np.array([1, 1, 1, 0, 0])": "pooled = np.array([0, 0, 1, 0, 0])"},
            "Answer 3: this would be a classifier that uses the vector of the last real token. This one uses the mean "
            "over all real tokens."),
    Mistake("PRD-14.5q", {"at_output = np.array([0, 1, 0, 1, 0])": "at_output = np.array([1, 0, 1, 0, 1])"},
            "Answer 5: yours is the other way round. The tokens with a target have a gradient."),
    Mistake("PRD-14.5r", {"[0, 0, 0, 1, 1, 1, 1, 0]": "[0, 0, 1, 1, 1, 1, 0, 0]"},
            "Answer 7: you count the rows from 1. Id 3 has row 3, the fourth one."),
)

EXERCISES = [
    Exercise(
        "14.5", "Predict: what changes in an encoder", minutes=10, lines=8, kind="predict",
        solution=what_moves_what_in_an_encoder, reference=run_encoders,
        outputs=tuple(f"answer {i} ({what})" for i, what in enumerate((
            "both directions", "padding", "mean", "dlogits", "encoder's output", "encoder's input", "table"), 1)),
        hints=("Which of these mix tokens: attention, feed-forward layers, the mean, the output layer?",
               "Only attention and the mean do. A mask hides keys, not queries. Tokens that the loss or the mean does "
               "not count receive no gradient from it.",
               "1 and 2: all tokens attend to the changed one. 3: the real tokens. 4 and 5: the tokens that have a "
               "target. 6: attention passes the gradient on to all. 7: the ids that occur."),
        mistakes=PREDICT),
]
