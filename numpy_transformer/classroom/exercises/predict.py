"""Predictions: shapes, sums, signs and ways, said before anything is run."""

import math

import numpy as np

from ...inspection.influence import influence
from ...layers import (CrossAttention, CrossEntropyLoss, FeedForward, LayerNorm, SelfAttention, Softmax, causal_mask,
                       padding_mask)
from ...layers.multi_head import split_heads
from ...models import Decoder, Encoder
from ..exercise import Exercise, Mistake


def shapes_in_attention():
    """Cross-attention with 2 heads: x (3, 5, 12) asks, memory (3, 7, 12) answers. B = 3, T = 5, S = 7, D = 12, H = 2.

    Predict, without running anything. Return these six in a tuple, each shape as an array such as np.array([3, 5, 12]):
    1. the shape of the queries, split into heads, as they meet the keys
    2. the shape of the weights
    3. the sum of all weights, if nothing is hidden
    4. the shape of a mask that hides the padding of each memory, has one axis for each axis of the weights, and is as
       small as that allows
    5. the shape of the gradient of the key matrix W_K
    6. the shape of dmemory
    """
    queries = np.array([3, 2, 5, 6])
    weights = np.array([3, 2, 5, 7])
    total = 30
    mask = np.array([3, 1, 1, 7])
    gradient = np.array([12, 12])
    dmemory = np.array([3, 7, 12])
    return queries, weights, total, mask, gradient, dmemory


def run_attention():
    rng = np.random.default_rng(61)
    x, memory, ids = rng.standard_normal((3, 5, 12)), rng.standard_normal((3, 7, 12)), rng.integers(0, 3, (3, 7))
    layer = CrossAttention(12, 2, rng=rng).astype(np.float64)
    queries = split_heads(layer.query.eval()(x), 2)
    layer.train()(x, memory)
    dx, dmemory = layer.backward(rng.standard_normal(x.shape))
    return (np.array(queries.shape), np.array(layer.weights.shape), round(layer.weights.sum(), 9),
            np.array(padding_mask(ids).shape), np.array(layer.key.weight.grad.shape), np.array(dmemory.shape))


def sums_and_signs():
    """Softmax and cross-entropy, N = 4 rows of V = 5 logits z; loss: the mean of -log p of the targets; dz = dloss/dz.

    Predict, without running anything. Return these six numbers in a tuple:
    1. the sum of each row of dz
    2. the sign of dz at the target (-1, 0 or 1)
    3. the sign of dz at any other token
    4. the loss if all logits are equal (math.log is there)
    5. dz at the target if all logits are equal
    6. every entry of the gradient of z through softmax alone, p = softmax(z), if dp is 1 everywhere
    """
    row_sum = 0
    at_target = -1
    elsewhere = 1
    loss = math.log(5)
    entry = -0.2
    constant = 0
    return row_sum, at_target, elsewhere, loss, entry, constant


def run_losses():
    rng = np.random.default_rng(62)
    z, targets, criterion, softmax = rng.standard_normal((4, 5)), rng.integers(0, 5, 4), CrossEntropyLoss(), Softmax()
    criterion(z, targets)
    dz = criterion.backward()
    elsewhere = np.delete(dz.ravel(), np.arange(4) * 5 + targets)
    loss, equal = criterion(np.ones((4, 5)), targets), criterion.backward()
    softmax(z)
    return (only(dz.sum(-1)), only(np.sign(dz[np.arange(4), targets])), only(np.sign(elsewhere)), float(loss),
            only(equal[np.arange(4), targets]), only(softmax.backward(np.ones((4, 5)))))


def only(values):
    """The one number that stands everywhere in an array, but for rounding."""
    first, = {round(float(value), 12) + 0.0 for value in np.ravel(values)}
    return first


def what_moves_what():
    """Tokens 0 to 4. One input is changed: which outputs can change? The blocks have residual connections.

    Predict, without running anything. Return five arrays in a tuple, each one such as np.array([1, 0, 0, 0, 0]), where
    1 = this output can change, 0 = it stays as it is:
    1. a decoder of two blocks with a causal mask, input 2 is changed
    2. an encoder of two blocks with padding at 3 and 4, hidden by the mask (B, 1, 1, S); input 3 is changed
    3. an encoder of two blocks in which each token may attend to itself and to the one before it; input 1 is changed
    4. a feed-forward layer, input 1 is changed
    5. one cross-attention without a mask from 5 target tokens to 5 source tokens; source 4 is changed
    """
    causal = np.array([0, 0, 1, 1, 1])
    padded = np.array([0, 0, 0, 1, 0])
    window = np.array([0, 1, 1, 1, 0])
    alone = np.array([0, 1, 0, 0, 0])
    cross = np.array([1, 1, 1, 1, 1])
    return causal, padded, window, alone, cross


def run_influence():
    rng, T = np.random.default_rng(63), 5
    x, memory = rng.standard_normal((2, T, 6))
    near = np.tri(T, dtype=bool) & ~np.tri(T, k=-2, dtype=bool)
    xrays = (influence(Decoder(2, 6, 2, 8, rng=1), x, causal_mask(T))[:, 2],
             influence(Encoder(2, 6, 2, 8, rng=2), x, padding_mask(np.array([5, 6, 7, 0, 0])))[:, 3],
             influence(Encoder(2, 6, 2, 8, rng=3), x, near)[:, 1],
             influence(FeedForward(6, 8, rng=4), x)[:, 1],
             influence(CrossAttention(6, 2, rng=5), x, memory, argument=1)[:, 4])
    return tuple((xray > 0).astype(int) for xray in xrays)


def gradients_without_computing():
    """Gradients that can be said beforehand; dy is the gradient of the output y.

    Predict, without running anything. Return these six numbers in a tuple:
    1. LayerNorm, random x, gamma and dy: the sum of dx over the features of a token
    2. LayerNorm, x (3, 5, 12), dy = 1 everywhere: every entry of dbeta
    3. LayerNorm with gamma = 1 and dy = 1 everywhere, random x: every entry of dx
    4. self-attention with biases, random x and dy: every entry of the gradient of the key bias
    5. y = x + f(x), f a feed-forward layer whose last weight and bias are 0; dy = 1 everywhere: every entry of dx
    6. there, with random x: is the gradient of that last weight 0 as well (1 for yes, 0 for no)?
    """
    row_sum = 0
    dbeta = 15
    all_ones = 0
    key_bias = 0
    dx = 1
    weight_too = 0
    return row_sum, dbeta, all_ones, key_bias, dx, weight_too


def run_gradients():
    rng = np.random.default_rng(64)
    x, dy, ones = *rng.standard_normal((2, 3, 5, 12)), np.ones((3, 5, 12))
    norm, attention, f = (layer.astype(np.float64) for layer in (
        LayerNorm(12), SelfAttention(12, 2, rng=rng), FeedForward(12, 16, rng=rng)))
    norm(x)
    all_ones = norm.backward(ones)
    dbeta, norm.gamma.data = norm.beta.grad.copy(), rng.standard_normal(12)
    norm(x)
    row_sums = norm.backward(dy).sum(-1)
    attention(x)
    attention.backward(dy)
    f.down.weight.data = f.down.bias.data = 0
    f(x)
    dx = ones + f.backward(ones)
    return (only(row_sums), only(dbeta), only(all_ones), only(attention.key.bias.grad), only(dx),
            int(not f.down.weight.grad.any()))


EXERCISES = [
    Exercise(
        "07.7", "Predict: shapes in attention", minutes=10, lines=7, kind="predict",
        solution=shapes_in_attention, reference=run_attention,
        outputs=tuple(f"answer {i} ({what})" for i, what in enumerate((
            "queries", "weights", "total", "mask", "dW_K", "dmemory"), 1)),
        hints=("Which axes does each array have: batch, head, token, feature? Write the letters before the numbers.",
               "Each head has D / H features, each query one row of weights over all keys, and each row of weights "
               "sums to 1.",
               "Queries (B, H, T, d), weights (B, H, T, S), their sum B H T, the mask (B, 1, 1, S); a gradient has "
               "the shape of its array."),
        mistakes=(
            Mistake("PRD-07.7a", {"[3, 2, 5, 6]": "[3, 5, 2, 6]"},
                    "Answer 1: that is the reshape before the swap of axes. The heads come before the tokens."),
            Mistake("PRD-07.7b", {"[3, 2, 5, 6]": "[3, 2, 5, 12]"},
                    "Answer 1: a head has a part of the features, not all twelve: together the heads have D."),
            Mistake("PRD-07.7c", {"[3, 2, 5, 7]": "[3, 5, 7]"}, "Answer 2: each head has weights of its own."),
            Mistake("PRD-07.7d", {"[3, 2, 5, 7]": "[3, 2, 7, 5]"},
                    "Answer 2: transposed. Rows are queries, and each has one weight for every key."),
            Mistake("PRD-07.7e", {"[3, 2, 5, 7]": "[3, 2, 5, 5]"},
                    "Answer 2: that would be self-attention. The keys are those of the memory."),
            Mistake("PRD-07.7f", {"total = 30": "total = 1"},
                    "Answer 3: each row sums to 1, not the whole array. How many rows?"),
            Mistake("PRD-07.7g", {"total = 30": "total = 15"},
                    "Answer 3: the rows of one head only. Each head has as many."),
            Mistake("PRD-07.7h", {"total = 30": "total = 42"},
                    "Answer 3: you counted the keys. There is one softmax for each query, not for each key."),
            Mistake("PRD-07.7i", {"[3, 1, 1, 7]": "[3, 7]"},
                    "Answer 4: two axes would be laid on (T, S). The axes between have size 1: the same for all of "
                    "them."),
            Mistake("PRD-07.7j", {"[3, 1, 1, 7]": "[3, 1, 7, 1]"},
                    "Answer 4: there it stands on the axis of the queries. It is keys that are hidden."),
            Mistake("PRD-07.7k", {"[3, 1, 1, 7]": "[3, 1, 5, 7]"},
                    "Answer 4: that hides the same keys, but it is not as small as it can be: all queries share one "
                    "row."),
            Mistake("PRD-07.7l", {"[12, 12]": "[3, 12, 12]"},
                    "Answer 5: the whole batch shares the matrix, so its gradient is summed over the batch."),
            Mistake("PRD-07.7m", {"[12, 12]": "[12, 6]"},
                    "Answer 5: that is one head's part. W_K holds those of all heads."),
            Mistake("PRD-07.7n", {"[3, 7, 12]": "[3, 5, 12]"},
                    "Answer 6: that is the shape of dx. memory has S tokens."),
        )),
    Exercise(
        "01.6", "Predict: sums and signs of a loss", minutes=10, lines=7, kind="predict",
        solution=sums_and_signs, reference=run_losses,
        outputs=tuple(f"answer {i}" for i in range(1, 7)),
        hints=("What happens to the loss if one logit rises a little? And if all logits of a row rise together?",
               "dz = (p - onehot) / N. With equal logits every p is 1 / V.",
               "Rows of p and of onehot both sum to 1; -log(1/V) = log V; (1/V - 1) / N; and a constant dp asks for "
               "the slope of a sum that never changes."),
        mistakes=(
            Mistake("PRD-01.6a", {"row_sum = 0": "row_sum = 1"},
                    "Answer 1: p sums to 1, but so does the onehot that is subtracted from it."),
            Mistake("PRD-01.6b", {"at_target = -1": "at_target = 1", "elsewhere = 1": "elsewhere = -1"},
                    "Answers 2 and 3 have reversed signs: a larger target logit makes the loss smaller, so its slope "
                    "is negative."),
            Mistake("PRD-01.6c", {"elsewhere = 1": "elsewhere = 0"},
                    "Answer 3: the other logits count as well, each takes probability from the target."),
            Mistake("PRD-01.6d", {"math.log(5)": "math.log2(5)"},
                    "Answer 4 is in bits: the loss takes the natural logarithm."),
            Mistake("PRD-01.6e", {"math.log(5)": "4 * math.log(5)"},
                    "Answer 4 is the sum over the rows: the loss is the mean."),
            Mistake("PRD-01.6f", {"math.log(5)": "math.log(4)"},
                    "Answer 4: the row has V classes; N is the number of rows."),
            Mistake("PRD-01.6g", {"math.log(5)": "0.2"}, "Answer 4 is the probability of the target, not -log of it."),
            Mistake("PRD-01.6h", {"-0.2": "-0.8"},
                    "Answer 5: the loss is a mean over N rows, so each row carries 1/N."),
            Mistake("PRD-01.6i", {"-0.2": "-0.16"},
                    "Answer 5: divided by V. The mean is over the rows, not over the classes."),
            Mistake("PRD-01.6j", {"-0.2": "0.05"},
                    "Answer 5: that is the entry of the other tokens; the target has -1 besides."),
            Mistake("PRD-01.6k", {"constant = 0": "constant = 1"},
                    "Answer 6: with dp = 1 the question is how the sum of p moves. It is always 1."),
            Mistake("PRD-01.6l", {"constant = 0": "constant = 0.2"},
                    "Answer 6: that would be p times dp, and with equal logits. Every output depends on every logit, "
                    "and the terms cancel."),
        )),
    Exercise(
        "06.4", "Predict: what moves what", minutes=10, lines=6, kind="predict",
        solution=what_moves_what, reference=run_influence,
        outputs=tuple(f"answer {i} ({what})" for i, what in enumerate((
            "causal", "padding", "window", "feed-forward", "cross-attention"), 1)),
        hints=("For each output: whom does it see in the last block, and whom had those seen in the block before?",
               "A residual connection always leads from a token to itself, whatever the mask hides.",
               "1: itself and all later ones. 2: no query sees a padded key, but the residual stays. 3: one step "
               "forward for each block. 4: no tokens are mixed. 5: every query sees every source token."),
        mistakes=(
            Mistake("PRD-06.4a", {"[0, 0, 1, 1, 1]": "[1, 1, 1, 0, 0]"},
                    "Answer 1: that is what output 2 sees. Input 2 is seen by itself and by the later ones."),
            Mistake("PRD-06.4b", {"[0, 0, 1, 1, 1]": "[0, 0, 0, 1, 1]"}, "Answer 1: a token sees itself, too."),
            Mistake("PRD-06.4c", {"[0, 0, 1, 1, 1]": "[1, 1, 1, 1, 1]"},
                    "Answer 1: then an earlier token would see the future, which is what the causal mask hides."),
            Mistake("PRD-06.4d", {"[0, 0, 0, 1, 0]": "[0, 0, 0, 0, 0]"},
                    "Answer 2: nobody attends to it, but the residual connection still carries it to its own output."),
            Mistake("PRD-06.4e", {"[0, 0, 0, 1, 0]": "[0, 0, 0, 1, 1]"},
                    "Answer 2: padded queries do not see padded keys either: the mask hides keys from all queries."),
            Mistake("PRD-06.4f", {"[0, 0, 0, 1, 0]": "[1, 1, 1, 1, 1]"},
                    "Answer 2: then the padding would not be hidden: the mask keeps its key from every query."),
            Mistake("PRD-06.4g", {"[0, 1, 1, 1, 0]": "[0, 1, 1, 0, 0]"},
                    "Answer 3: right after one block. In the second one the way goes one token further."),
            Mistake("PRD-06.4h", {"[0, 1, 1, 1, 0]": "[1, 1, 0, 0, 0]"},
                    "Answer 3: the direction is reversed: input 1 is seen by itself and by the one after it."),
            Mistake("PRD-06.4i", {"[0, 1, 0, 0, 0]": "[1, 1, 1, 1, 1]"},
                    "Answer 4: a feed-forward layer mixes features; every token passes by itself."),
            Mistake("PRD-06.4j", {"[1, 1, 1, 1, 1])\n    return": "[0, 0, 0, 0, 1])\n    return"},
                    "Answer 5: source and target positions are not compared, and no causal mask belongs there: all "
                    "queries see the whole source."),
        )),
    Exercise(
        "10.6", "Predict: gradients without computing", minutes=10, lines=7, kind="predict",
        solution=gradients_without_computing, reference=run_gradients,
        outputs=tuple(f"answer {i}" for i in range(1, 7)),
        hints=("Which change of the input does the output not notice at all? In that direction the gradient is 0.",
               "LayerNorm does not notice a number added to all features of a token; softmax does not notice one "
               "added to a whole row of scores. A parameter that all rows share sums over them.",
               "A key bias b adds q · b to all scores of a query. With gamma = dy = 1 the loss moves like the sum of "
               "x_hat, which is always 0. The skip has slope 1. A matrix W gets (its input)ᵀ dy, which does not "
               "contain W."),
        mistakes=(
            Mistake("PRD-10.6a", {"row_sum = 0": "row_sum = 1"},
                    "Answer 1: nothing normalizes a gradient to 1. What does LayerNorm do to x + 1?"),
            Mistake("PRD-10.6b", {"dbeta = 15": "dbeta = 1"},
                    "Answer 2: every token shares beta: its gradient is a sum over all."),
            Mistake("PRD-10.6c", {"dbeta = 15": "dbeta = 12"},
                    "Answer 2: that counts the features. beta has one entry for each; the sum goes over the tokens."),
            Mistake("PRD-10.6d", {"dbeta = 15": "dbeta = 5"},
                    "Answer 2: summed over one sequence. The batch shares beta as well."),
            Mistake("PRD-10.6e", {"dbeta = 15": "dbeta = 180"},
                    "Answer 2: summed over everything. beta has one entry a feature."),
            Mistake("PRD-10.6f", {"all_ones = 0": "all_ones = 1"},
                    "Answer 3: dx is dy only where nothing was done. The sum of x_hat over the features is always 0."),
            Mistake("PRD-10.6g", {"key_bias = 0": "key_bias = 1"},
                    "Answer 4: a key bias adds the same to all scores of a query, and softmax does not notice that."),
            Mistake("PRD-10.6h", {"dx = 1": "dx = 0"},
                    "Answer 5: that is what comes through f alone. The skip leads past it."),
            Mistake("PRD-10.6i", {"dx = 1": "dx = 2"}, "Answer 5: f passes nothing back, since its last weight is 0."),
            Mistake("PRD-10.6j", {"weight_too = 0": "weight_too = 1"},
                    "Answer 6: a weight's gradient is made of its input and dy. That the weight is 0 does not matter: "
                    "it can learn."),
        )),
]
