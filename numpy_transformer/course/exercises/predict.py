"""Predictions of shapes, sums, signs and influences, made before anything is run."""

import math

import numpy as np

from ...inspection.influence import influence
from ...layers import (CrossAttention, CrossEntropyLoss, FeedForward, LayerNorm, SelfAttention, Softmax, causal_mask,
                       padding_mask)
from ...layers.heads import split_heads
from ...models import Decoder, Encoder
from .definition import Exercise, Mistake


def shapes_in_attention(B, T, S, D, H):
    """Cross-attention with H heads from x (B, T, D) to memory (B, S, D).

    Predict the shapes, without running a model. Return these six in a tuple, each shape as an array such as
    np.array([B, T, D]):
    1. the shape of the queries after they have been split into heads, ready to be multiplied by the keys
    2. the shape of the attention weights
    3. the sum of all attention weights, if nothing is hidden
    4. the shape of the smallest mask that hides the padding of each memory, with as many axes as the weights have
    5. the shape of the gradient of the key matrix W_K
    6. the shape of dmemory
    """
    queries = np.array([B, H, T, D // H])
    weights = np.array([B, H, T, S])
    total = B * H * T
    mask = np.array([B, 1, 1, S])
    gradient = np.array([D, D])
    dmemory = np.array([B, S, D])
    return queries, weights, total, mask, gradient, dmemory


def draw_shapes(rng, n):
    """Draws sizes that all differ; D is a multiple of H."""
    B, T, S, H, d = map(int, 2 + rng.permutation(8)[:5])
    return B, T, S, H * d, H


def run_attention(B, T, S, D, H):
    rng = np.random.default_rng(61)
    x = rng.standard_normal((B, T, D))
    memory = rng.standard_normal((B, S, D))
    ids = rng.integers(0, 3, (B, S))
    layer = CrossAttention(D, H, rng=rng).astype(np.float64)
    queries = split_heads(layer.query.eval()(x), H)
    layer.train()(x, memory)
    dx, dmemory = layer.backward(rng.standard_normal(x.shape))
    return (np.array(queries.shape), np.array(layer.weights.shape), round(layer.weights.sum(), 9),
            np.array(padding_mask(ids).shape), np.array(layer.key.weight.grad.shape), np.array(dmemory.shape))


def sums_and_signs(N, V):
    """Softmax and cross-entropy, N rows of V logits z; loss: the mean of -log p of the targets; dz = dloss/dz.

    Predict, without running a model. Return these six numbers in a tuple; some of them depend on N or V:
    1. the sum of each row of dz
    2. the sign of dz at the target (-1, 0 or 1)
    3. the sign of dz at every other class
    4. the loss if all logits are equal (you may use math.log)
    5. dz at the target if all logits are equal
    6. each entry of the gradient of z through softmax alone, p = softmax(z), if dp is 1 everywhere
    """
    row_sum = 0
    at_target = -1
    elsewhere = 1
    loss = math.log(V)
    entry = (1 / V - 1) / N
    constant = 0
    return row_sum, at_target, elsewhere, loss, entry, constant


def run_losses(N, V):
    rng = np.random.default_rng(62)
    z = rng.standard_normal((N, V))
    targets = rng.integers(0, V, N)
    criterion = CrossEntropyLoss()
    softmax = Softmax()
    criterion(z, targets)
    dz = criterion.backward()
    elsewhere = np.delete(dz.ravel(), np.arange(N) * V + targets)
    loss = criterion(np.ones((N, V)), targets)
    equal = criterion.backward()
    softmax(z)
    return (only(dz.sum(-1)), only(np.sign(dz[np.arange(N), targets])), only(np.sign(elsewhere)), float(loss),
            only(equal[np.arange(N), targets]), only(softmax.backward(np.ones((N, V)))))


def only(values):
    """Returns the one number to which all entries of an array are equal, up to rounding."""
    first, = {round(float(value), 12) + 0.0 for value in np.ravel(values)}
    return first


def what_moves_what():
    """Tokens 0 to 4. If one input is changed, which outputs can change? The blocks have residual connections.

    Predict, without running anything. Return five arrays in a tuple, each such as np.array([1, 0, 0, 0, 0]), where 1
    means that this output can change and 0 that it stays the same:
    1. a decoder of two blocks with a causal mask; input 2 is changed
    2. an encoder of two blocks; tokens 3 and 4 are padding, hidden by a mask (B, 1, 1, S); input 3 is changed
    3. an encoder of two blocks in which each token may attend to itself and to the previous one; input 1 is changed
    4. a feed-forward layer; input 1 is changed
    5. one cross-attention layer without a mask from 5 target tokens to 5 source tokens; source token 4 is changed
    """
    causal = np.array([0, 0, 1, 1, 1])
    padded = np.array([0, 0, 0, 1, 0])
    window = np.array([0, 1, 1, 1, 0])
    alone = np.array([0, 1, 0, 0, 0])
    cross = np.array([1, 1, 1, 1, 1])
    return causal, padded, window, alone, cross


def run_influence():
    rng = np.random.default_rng(63)
    T = 5
    x, memory = rng.standard_normal((2, T, 6))
    near = np.tri(T, dtype=bool) & ~np.tri(T, k=-2, dtype=bool)
    changes = (influence(Decoder(2, 6, 2, 8, rng=1), x, causal_mask(T))[:, 2],
               influence(Encoder(2, 6, 2, 8, rng=2), x, padding_mask(np.array([5, 6, 7, 0, 0])))[:, 3],
               influence(Encoder(2, 6, 2, 8, rng=3), x, near)[:, 1],
               influence(FeedForward(6, 8, rng=4), x)[:, 1],
               influence(CrossAttention(6, 2, rng=5), x, memory, argument=1)[:, 4])
    return tuple((change > 0).astype(int) for change in changes)


def gradients_without_computing():
    """Gradients that you can know without computing them; dy is the gradient of the output y.

    Predict, without running anything. Return these six numbers in a tuple:
    1. LayerNorm with random x, gamma and dy: the sum of dx over the features of a token
    2. LayerNorm with x (3, 5, 12) and dy = 1 everywhere: each entry of dbeta
    3. LayerNorm with random x, gamma = 1 and dy = 1 everywhere: each entry of dx
    4. self-attention with biases, random x and dy: each entry of the gradient of the key bias
    5. y = x + f(x), where f is a feed-forward layer whose last weight and bias are 0; dy = 1 everywhere: each entry of
       dx
    6. in the setting of 5, with random x: is the gradient of that last weight 0 as well (1 for yes, 0 for no)?
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
    x, dy = rng.standard_normal((2, 3, 5, 12))
    ones = np.ones((3, 5, 12))
    norm, attention, f = (layer.astype(np.float64) for layer in (
        LayerNorm(12), SelfAttention(12, 2, rng=rng), FeedForward(12, 16, rng=rng)))
    norm(x)
    all_ones = norm.backward(ones)
    dbeta = norm.beta.grad.copy()
    norm.gamma.data = rng.standard_normal(12)
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
        solution=shapes_in_attention, reference=run_attention, inputs=draw_shapes,
        outputs=tuple(f"answer {i} ({what})" for i, what in enumerate((
            "queries", "weights", "total", "mask", "dW_K", "dmemory"), 1)),
        hints=("Which axes does each array have: batch, heads, tokens, features? Write down the letter "
               "of each.",
               "Each head has D / H features. Each query has one row of weights over all keys, and each row of weights "
               "sums to 1.",
               "Queries (B, H, T, d), weights (B, H, T, S), their sum B H T, the mask (B, 1, 1, S). A gradient has the "
               "shape of its array."),
        mistakes=(
            Mistake("PRD-07.7a", {"[B, H, T, D // H]": "[B, T, H, D // H]"},
                    "Answer 1: this is the shape after reshape, before the axes are swapped. The heads come before the "
                    "tokens."),
            Mistake("PRD-07.7b", {"[B, H, T, D // H]": "[B, H, T, D]"},
                    "Answer 1: each head has only a part of the features. All heads together have D."),
            Mistake("PRD-07.7c", {"[B, H, T, S]": "[B, T, S]"}, "Answer 2: each head has its own weights."),
            Mistake("PRD-07.7d", {"[B, H, T, S]": "[B, H, S, T]"},
                    "Answer 2: your shape is transposed. Rows are queries, with one weight for every key."),
            Mistake("PRD-07.7e", {"[B, H, T, S]": "[B, H, T, T]"},
                    "Answer 2: this would be self-attention. Here the keys come from the memory."),
            Mistake("PRD-07.7f", {"total = B * H * T": "total = 1"},
                    "Answer 3: each row sums to 1, not the whole array. How many rows are there?"),
            Mistake("PRD-07.7g", {"total = B * H * T": "total = B * T"},
                    "Answer 3: you count the rows of one head. Every head has that many."),
            Mistake("PRD-07.7h", {"total = B * H * T": "total = B * H * S"},
                    "Answer 3: you count the keys. There is one softmax for each query, not for each key."),
            Mistake("PRD-07.7i", {"[B, 1, 1, S]": "[B, S]"},
                    "Answer 4: NumPy would align these two axes with (T, S). The axes between them need size 1, so "
                    "that all heads and queries share the mask."),
            Mistake("PRD-07.7j", {"[B, 1, 1, S]": "[B, 1, S, 1]"},
                    "Answer 4: your mask lies along the axis of the queries. A mask hides keys."),
            Mistake("PRD-07.7k", {"[B, 1, 1, S]": "[B, 1, T, S]"},
                    "Answer 4: this hides the right keys, but it is not the smallest such mask. All queries can share "
                    "one row."),
            Mistake("PRD-07.7l", {"[D, D]": "[B, D, D]"},
                    "Answer 5: the whole batch shares the matrix, so its gradient is summed over the batch."),
            Mistake("PRD-07.7m", {"[D, D]": "[D, D // H]"},
                    "Answer 5: this is the part of one head. W_K contains the parts of all heads."),
            Mistake("PRD-07.7n", {"[B, S, D]": "[B, T, D]"},
                    "Answer 6: this is the shape of dx. memory has S tokens."),
            Mistake("PRD-07.7o", {"[B, H, T, D // H]": "[B, H, D // H, T]"},
                    "Answer 1: this is the shape of transposed keys. In the queries, the tokens come before the "
                    "features."),
            Mistake("PRD-07.7p", {"[B, H, T, D // H]": "[B, T, D]"},
                    "Answer 1: this is the shape before the heads are split."),
            Mistake("PRD-07.7q", {"[B, H, T, D // H]": "[B, T, D // H]"},
                    "Answer 1: this is the shape of one head. All heads are kept in one array."),
            Mistake("PRD-07.7r", {"[B, H, T, S]": "[B, H, S, S]"},
                    "Answer 2: this would be self-attention within the memory. The queries come from x."),
            Mistake("PRD-07.7s", {"total = B * H * T": "total = H * T"},
                    "Answer 3: you count the rows of one sequence. Every sequence of the batch has that many."),
            Mistake("PRD-07.7t", {"total = B * H * T": "total = B * H * T * S"},
                    "Answer 3: this is the number of weights. Each of them is less than 1."),
            Mistake("PRD-07.7u", {"total = B * H * T": "total = B * H"},
                    "Answer 3: you count one row for each head. A head has a row of weights for each query."),
            Mistake("PRD-07.7v", {"[B, 1, 1, S]": "[1, 1, 1, S]"},
                    "Answer 4: each memory has its own padding, so the sequences cannot share one mask."),
            Mistake("PRD-07.7w", {"[B, 1, 1, S]": "[B, H, T, S]"},
                    "Answer 4: a mask of this shape can hide the padding, but it is not the smallest. Which axes can "
                    "share one entry?"),
            Mistake("PRD-07.7x", {"[B, 1, 1, S]": "[B, 1, 1, T]"},
                    "Answer 4: the padding is that of the memory, whose tokens are the keys."),
            Mistake("PRD-07.7y", {"[D, D]": "[B, S, D]"},
                    "Answer 5: this is the shape of the keys. A gradient has the shape of its own array, here of a "
                    "matrix of parameters."),
            Mistake("PRD-07.7z", {"[B, S, D]": "[B, H, S, D // H]"},
                    "Answer 6: this is the shape of the gradient of the split keys. memory has not been split into "
                    "heads."),
        )),
    Exercise(
        "01.6", "Predict: sums and signs of a loss", minutes=10, lines=7, kind="predict",
        solution=sums_and_signs, reference=run_losses,
        inputs=lambda rng, n: tuple(map(int, 3 + rng.permutation(20)[:2])),
        outputs=tuple(f"answer {i}" for i in range(1, 7)),
        hints=("How does the loss change if one logit increases a little? And if all logits of a row increase "
               "together?",
               "dz = (p - onehot) / N. If all logits are equal, every p is 1 / V.",
               "The rows of p and of onehot both sum to 1; -log(1/V) = log V; (1/V - 1) / N. With a constant dp, you "
               "differentiate the sum of p, which never changes."),
        mistakes=(
            Mistake("PRD-01.6a", {"row_sum = 0": "row_sum = 1"},
                    "Answer 1: a row of p sums to 1, but so does the onehot vector that is subtracted from it."),
            Mistake("PRD-01.6b", {"at_target = -1": "at_target = 1", "elsewhere = 1": "elsewhere = -1"},
                    "Answers 2 and 3: your signs are reversed. A larger logit of the target makes the loss smaller, so "
                    "its derivative is negative."),
            Mistake("PRD-01.6c", {"elsewhere = 1": "elsewhere = 0"},
                    "Answer 3: the other logits matter too. If one of them grows, the probability of the target "
                    "falls."),
            Mistake("PRD-01.6d", {"math.log(V)": "math.log2(V)"},
                    "Answer 4: yours is in bits. The loss uses the natural logarithm."),
            Mistake("PRD-01.6e", {"math.log(V)": "N * math.log(V)"},
                    "Answer 4: this is the sum over the rows. The loss is their mean."),
            Mistake("PRD-01.6f", {"math.log(V)": "math.log(N)"},
                    "Answer 4: there are V classes in a row. N is the number of rows."),
            Mistake("PRD-01.6g", {"math.log(V)": "1 / V"},
                    "Answer 4: this is the probability of the target, not its negative logarithm."),
            Mistake("PRD-01.6h", {"(1 / V - 1) / N": "1 / V - 1"},
                    "Answer 5: the loss is a mean over N rows, so the gradient of each row is divided by N."),
            Mistake("PRD-01.6i", {"(1 / V - 1) / N": "(1 / V - 1) / V"},
                    "Answer 5: you divide by V. The mean is over the rows, not over the classes."),
            Mistake("PRD-01.6j", {"(1 / V - 1) / N": "1 / V / N"},
                    "Answer 5: this is the value for the other classes. At the target, 1 is subtracted from p."),
            Mistake("PRD-01.6k", {"constant = 0": "constant = 1"},
                    "Answer 6: with dp = 1, the question is how the sum of p changes. That sum is always 1."),
            Mistake("PRD-01.6l", {"constant = 0": "constant = 1 / V"},
                    "Answer 6: this would be p times dp with equal logits. But every output depends on every logit, "
                    "and the terms cancel."),
            Mistake("PRD-01.6m", {"row_sum = 0": "row_sum = 1 / N"},
                    "Answer 1: this is the sum of a row of p / N. The onehot vector that is subtracted has a sum "
                    "too."),
            Mistake("PRD-01.6n", {"row_sum = 0": "row_sum = -1"},
                    "Answer 1: this is the sum of a row of -onehot. The row of p has a sum too."),
            Mistake("PRD-01.6o", {"at_target = -1": "at_target = 1"},
                    "Answer 2: a larger logit of the target makes the loss smaller. What does that say of its "
                    "derivative?"),
            Mistake("PRD-01.6p", {"at_target = -1": "at_target = 0"},
                    "Answer 2: the gradient at the target would be 0 only if its probability were exactly 1."),
            Mistake("PRD-01.6q", {"elsewhere = 1": "elsewhere = -1"},
                    "Answer 3: a larger logit of another class makes the probability of the target smaller and the "
                    "loss larger."),
            Mistake("PRD-01.6r", {"math.log(V)": "0"},
                    "Answer 4: the loss is 0 only if the target has the probability 1. With equal logits all classes "
                    "have the same probability."),
            Mistake("PRD-01.6s", {"math.log(V)": "-math.log(V)"},
                    "Answer 4: the sign is wrong. The loss is the negative logarithm of a probability, so it is not "
                    "negative."),
            Mistake("PRD-01.6t", {"math.log(V)": "math.log(V) / N"},
                    "Answer 4: the loss is already a mean over the rows, and all rows have the same loss."),
            Mistake("PRD-01.6u", {"(1 / V - 1) / N": "0"},
                    "Answer 5: the gradient is 0 only where p equals the onehot vector. With equal logits it does "
                    "not."),
            Mistake("PRD-01.6v", {"(1 / V - 1) / N": "(1 - 1 / V) / N"},
                    "Answer 5: the sign is wrong. A larger logit of the target makes the loss smaller."),
            Mistake("PRD-01.6w", {"(1 / V - 1) / N": "-1 / N"},
                    "Answer 5: this is the part of the onehot vector alone. The probability of the target is added "
                    "to it."),
            Mistake("PRD-01.6x", {"(1 / V - 1) / N": "1 / V"},
                    "Answer 5: this is the probability of the target. The gradient also depends on the onehot vector "
                    "and on the number of rows."),
        )),
    Exercise(
        "06.4", "Predict: which outputs change", minutes=10, lines=6, kind="predict",
        solution=what_moves_what, reference=run_influence,
        outputs=tuple(f"answer {i} ({what})" for i, what in enumerate((
            "causal", "padding", "window", "feed-forward", "cross-attention"), 1)),
        hints=("For each output, to which tokens does it attend in the last block? And to which did those attend in "
               "the block before?",
               "A residual connection always leads from a token to itself, whatever the mask hides.",
               "1: input 2 reaches itself and all later tokens. 2: no query attends to a padding token, but the "
               "residual connection remains. 3: the change moves one token further in each block. 4: no tokens are "
               "mixed. 5: every query attends to every source token."),
        mistakes=(
            Mistake("PRD-06.4a", {"[0, 0, 1, 1, 1]": "[1, 1, 1, 0, 0]"},
                    "Answer 1: these are the inputs that output 2 depends on. The question is which outputs depend on "
                    "input 2."),
            Mistake("PRD-06.4b", {"[0, 0, 1, 1, 1]": "[0, 0, 0, 1, 1]"},
                    "Answer 1: a token attends to itself too."),
            Mistake("PRD-06.4c", {"[0, 0, 1, 1, 1]": "[1, 1, 1, 1, 1]"},
                    "Answer 1: this would let earlier tokens depend on a later one, which the causal mask prevents."),
            Mistake("PRD-06.4d", {"[0, 0, 0, 1, 0]": "[0, 0, 0, 0, 0]"},
                    "Answer 2: no token attends to it, but the residual connection still carries it to its own "
                    "output."),
            Mistake("PRD-06.4e", {"[0, 0, 0, 1, 0]": "[0, 0, 0, 1, 1]"},
                    "Answer 2: token 4 does not attend to token 3. The mask hides a key from all queries, including "
                    "padding tokens."),
            Mistake("PRD-06.4f", {"[0, 0, 0, 1, 0]": "[1, 1, 1, 1, 1]"},
                    "Answer 2: this would be the answer without the mask, which hides the padding token from every "
                    "query."),
            Mistake("PRD-06.4g", {"[0, 1, 1, 1, 0]": "[0, 1, 1, 0, 0]"},
                    "Answer 3: this is right for one block. In the second block the change moves one token further."),
            Mistake("PRD-06.4h", {"[0, 1, 1, 1, 0]": "[1, 1, 0, 0, 0]"},
                    "Answer 3: your direction is reversed. Token 1 and the token after it attend to token 1."),
            Mistake("PRD-06.4i", {"[0, 1, 0, 0, 0]": "[1, 1, 1, 1, 1]"},
                    "Answer 4: a feed-forward layer mixes the features of a token, not the tokens."),
            Mistake("PRD-06.4j", {"[1, 1, 1, 1, 1])\n    return": "[0, 0, 0, 0, 1])\n    return"},
                    "Answer 5: without a mask, every query attends to the whole source. The positions in source and "
                    "target have nothing to do with each other."),
            Mistake("PRD-06.4k", {"[0, 0, 1, 1, 1]": "[0, 0, 1, 0, 0]"},
                    "Answer 1: later tokens attend to token 2, so their outputs can change too."),
            Mistake("PRD-06.4l", {"[0, 0, 0, 1, 0]": "[1, 1, 1, 1, 0]"},
                    "Answer 2: the mask hides token 3 from the real tokens, so their outputs stay the same."),
            Mistake("PRD-06.4m", {"[0, 0, 0, 1, 0]": "[1, 1, 1, 0, 0]"},
                    "Answer 2: these are the tokens that can be seen. The question is which outputs depend on the "
                    "hidden token 3."),
            Mistake("PRD-06.4n", {"[0, 1, 1, 1, 0]": "[0, 1, 1, 1, 1]"},
                    "Answer 3: with two blocks, a change moves at most two tokens further."),
            Mistake("PRD-06.4o", {"[0, 1, 1, 1, 0]": "[1, 1, 1, 0, 0]"},
                    "Answer 3: a token attends to the previous one, not to the next one, so no change moves back."),
            Mistake("PRD-06.4p", {"[0, 1, 0, 0, 0]": "[0, 1, 1, 1, 1]"},
                    "Answer 4: this would be a causal attention. A feed-forward layer works on each token by itself."),
            Mistake("PRD-06.4q", {"[1, 1, 1, 1, 1])\n    return": "[0, 0, 0, 0, 0])\n    return"},
                    "Answer 5: the outputs are weighted means over the source tokens, and the source has changed."),
        )),
    Exercise(
        "10.6", "Predict: gradients without computing", minutes=10, lines=7, kind="predict",
        solution=gradients_without_computing, reference=run_gradients,
        outputs=tuple(f"answer {i}" for i in range(1, 7)),
        hints=("Which change of the input leaves the output unchanged? In that direction the gradient is 0.",
               "LayerNorm does not change if a constant is added to all features of a token, nor softmax if a constant "
               "is added to a whole row of scores. The gradient of a parameter that all rows share is a sum over the "
               "rows.",
               "A key bias b adds q · b to all scores of a query. With gamma = dy = 1, the loss changes like the sum "
               "of x_hat, which is always 0. The derivative of the residual connection is 1. The gradient of a matrix "
               "W is (its input)ᵀ dy, which does not contain W."),
        mistakes=(
            Mistake("PRD-10.6a", {"row_sum = 0": "row_sum = 1"},
                    "Answer 1: there is no reason for a gradient to sum to 1. What does LayerNorm return for x + 1?"),
            Mistake("PRD-10.6b", {"dbeta = 15": "dbeta = 1"},
                    "Answer 2: all tokens share beta, so its gradient is a sum over all of them."),
            Mistake("PRD-10.6c", {"dbeta = 15": "dbeta = 12"},
                    "Answer 2: this is the number of features. beta has one entry per feature; the sum is over the "
                    "tokens."),
            Mistake("PRD-10.6d", {"dbeta = 15": "dbeta = 5"},
                    "Answer 2: you sum over one sequence. All sequences of the batch share beta as well."),
            Mistake("PRD-10.6e", {"dbeta = 15": "dbeta = 180"},
                    "Answer 2: you sum over all entries. beta has one entry per feature, so the sum is over the tokens "
                    "only."),
            Mistake("PRD-10.6k", {"dbeta = 15": "dbeta = 3"},
                    "Answer 2: you count the sequences. Each of their tokens adds 1."),
            Mistake("PRD-10.6l", {"dbeta = 15": "dbeta = 60"},
                    "Answer 2: you multiply by the number of features. beta has one entry per feature, so the sum is "
                    "over the tokens only."),
            Mistake("PRD-10.6f", {"all_ones = 0": "all_ones = 1"},
                    "Answer 3: dx equals dy only if the layer does nothing. The sum of x_hat over the features is "
                    "always 0."),
            Mistake("PRD-10.6g", {"key_bias = 0": "key_bias = 1"},
                    "Answer 4: a key bias adds the same number to all scores of a query, which does not change their "
                    "softmax."),
            Mistake("PRD-10.6h", {"dx = 1": "dx = 0"},
                    "Answer 5: this is the part that comes through f. The residual connection adds another part."),
            Mistake("PRD-10.6i", {"dx = 1": "dx = 2"},
                    "Answer 5: no gradient comes back through f, because its last weight is 0."),
            Mistake("PRD-10.6j", {"weight_too = 0": "weight_too = 1"},
                    "Answer 6: a weight's gradient depends on its input and dy, not on the weight itself. A weight "
                    "that is 0 can still learn."),
        )),
]
