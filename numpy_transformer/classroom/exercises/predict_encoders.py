"""Predicting which outputs change and which gradients are zero in an encoder."""

import numpy as np

from ...inspection.influence import influence
from ...inspection.recorder import record
from ...layers import CrossEntropyLoss, padding_mask
from ...models import Encoder, MaskedLanguageModel, SequenceClassifier, TokenClassifier
from ..exercise import Exercise, Mistake


def what_moves_what_in_an_encoder():
    """A text of 5 tokens in encoders of two blocks, without a causal mask. Which outputs move, which gradients are 0?

    Predict, without running anything. Return seven arrays in a tuple, 1 to 6 such as np.array([1, 0, 0, 0, 0]), where
    1 = this token's vector can change, or its row of the gradient is not 0, and 0 = it stays, or is exactly 0:
    1. nothing is padding; input 2 is changed: which outputs can change?
    2. tokens 3 and 4 are padding, hidden by the mask (B, 1, 1, S); input 1 is changed: which outputs can change?
    3. a SequenceClassifier, tokens 3 and 4 are padding: the gradient of the encoder's output
    4. a MaskedLanguageModel, nothing is padding, targets (-1, 9, -1, 7, -1), the loss ignores -1: dlogits
    5. there: the gradient of the encoder's output, before the layers that make logits of it token by token
    6. there: the gradient of the encoder's input, the vectors that enter the first block
    7. A TokenClassifier reads the ids (4, 6, 3, 6, 5), and all 5 tags count: the gradient of its embedding table, which
       has 8 rows: 8 numbers, one for each row
    """
    both_ways = np.array([1, 1, 1, 1, 1])
    padded = np.array([1, 1, 1, 1, 1])
    pooled = np.array([1, 1, 1, 0, 0])
    dlogits = np.array([0, 1, 0, 1, 0])
    at_output = np.array([0, 1, 0, 1, 0])
    at_input = np.array([1, 1, 1, 1, 1])
    table = np.array([0, 0, 0, 1, 1, 1, 1, 0])
    return both_ways, padded, pooled, dlogits, at_output, at_input, table


def run_encoders():
    x, ids, targets = np.random.default_rng(77).standard_normal((5, 6)), np.array([4, 6, 3, 6, 5]), [-1, 9, -1, 7, -1]
    short = np.array([4, 6, 3, 0, 0])
    classifier, tape = trained(SequenceClassifier(10, 6, 2, 2, num_classes=3, dropout=0, rng=3), short, 1)
    pooled = tape["encoder"].dy
    _, tape = trained(MaskedLanguageModel(10, 6, 2, 2, dropout=0, rng=4), ids, targets)
    tagger, _ = trained(TokenClassifier(8, 6, 2, 2, num_classes=3, dropout=0, rng=5), ids, [0, 1, 2, 1, 0])
    moved = (influence(Encoder(2, 6, 2, 8, rng=1), x)[:, 2],
             influence(Encoder(2, 6, 2, 8, rng=2), x, padding_mask(short))[:, 1])
    rows = (pooled, tape[""].dy, tape["encoder"].dy, tape["encoder"].gradients[0], tagger.embedding.weight.grad)
    return tuple((xray > 0).astype(int) for xray in moved) + tuple(
        gradient.reshape(-1, gradient.shape[-1]).any(1).astype(int) for gradient in rows)


def trained(model, ids, targets):
    """The model after one forward and backward, and what was recorded of them."""
    criterion = CrossEntropyLoss(ignore_id=-1)
    with record(model) as tape:
        criterion(model(ids), np.array(targets))
        model.backward(criterion.backward())
    return model, tape


PREDICT = (
    Mistake("PRD-14.5a", {"both_ways = np.array([1, 1, 1, 1, 1])": "both_ways = np.array([0, 0, 1, 1, 1])"},
            "Answer 1: that would be a decoder. Without a causal mask the tokens before it see it as well."),
    Mistake("PRD-14.5b", {"both_ways = np.array([1, 1, 1, 1, 1])": "both_ways = np.array([0, 0, 1, 0, 0])"},
            "Answer 1: attention leads from each token to every other one, in each block."),
    Mistake("PRD-14.5c", {"padded = np.array([1, 1, 1, 1, 1])": "padded = np.array([1, 1, 1, 0, 0])"},
            "Answer 2: the mask hides padded keys, not padded queries: these still look at the real tokens. Nobody "
            "uses what comes out there."),
    Mistake("PRD-14.5d", {"padded = np.array([1, 1, 1, 1, 1])": "padded = np.array([0, 1, 1, 1, 1])"},
            "Answer 2: token 0 sees token 1: there is no causal mask."),
    Mistake("PRD-14.5e", {"pooled = np.array([1, 1, 1, 0, 0])": "pooled = np.array([1, 1, 1, 1, 1])"},
            "Answer 3: the mean is over the real tokens alone, so padding has no slope."),
    Mistake("PRD-14.5f", {"pooled = np.array([1, 1, 1, 0, 0])": "pooled = np.array([1, 0, 0, 0, 0])"},
            "Answer 3: that would be a classifier on the vector of the first token. This one takes the mean of all "
            "real ones."),
    Mistake("PRD-14.5g", {"dlogits = np.array([0, 1, 0, 1, 0])": "dlogits = np.array([1, 1, 1, 1, 1])"},
            "Answer 4: an ignored target has no term in the loss, so its logits have no slope."),
    Mistake("PRD-14.5h", {"dlogits = np.array([0, 1, 0, 1, 0])": "dlogits = np.array([1, 0, 1, 0, 1])"},
            "Answer 4: turned round: -1 is what the loss ignores."),
    Mistake("PRD-14.5i", {"at_output = np.array([0, 1, 0, 1, 0])": "at_output = np.array([1, 1, 1, 1, 1])"},
            "Answer 5: what stands between the encoder and the logits works token by token: a row of 0 stays 0 until "
            "the way back reaches attention."),
    Mistake("PRD-14.5j", {"at_input = np.array([1, 1, 1, 1, 1])": "at_input = np.array([0, 1, 0, 1, 0])"},
            "Answer 6: the masked tokens have looked at all others to be guessed: these get their gradients through "
            "attention."),
    Mistake("PRD-14.5k", {"at_input = np.array([1, 1, 1, 1, 1])": "at_input = np.array([1, 0, 1, 0, 1])"},
            "Answer 6: the places that are asked about have a gradient too: through the residual connections at least."
            ""),
    Mistake("PRD-14.5l", {"[0, 0, 0, 1, 1, 1, 1, 0]": "[1, 1, 1, 1, 1, 1, 1, 1]"},
            "Answer 7: here the table is a lookup alone: a row whose id does not occur has no influence. With an "
            "output that is tied to it, as a masked language model has, all rows would move."),
    Mistake("PRD-14.5m", {"[0, 0, 0, 1, 1, 1, 1, 0]": "[1, 1, 1, 1, 1, 0, 0, 0]"},
            "Answer 7: the rows of the table are words, not places in the text: id 6 moves row 6."),
)

EXERCISES = [
    Exercise(
        "14.5", "Predict: what moves what in an encoder", minutes=10, lines=8, kind="predict",
        solution=what_moves_what_in_an_encoder, reference=run_encoders,
        outputs=tuple(f"answer {i} ({what})" for i, what in enumerate((
            "both ways", "padding", "mean", "dlogits", "encoder's output", "encoder's input", "table"), 1)),
        hints=("Which parts mix tokens: attention, feed-forward, the mean, the output layer?",
               "Only attention and the mean do. A mask hides keys, not queries, and the loss and the mean pass "
               "nothing to what they do not count.",
               "1 and 2: all tokens look at the changed one. 3: the real ones. 4 and 5: the places that are asked "
               "about. 6: attention spreads that to all. 7: the ids that occur."),
        mistakes=PREDICT),
]
