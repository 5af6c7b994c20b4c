"""Masked language modeling: BERT's corruption of a text, and the backward pass of picking the chosen tokens."""

import numpy as np

from ...data import masked
from ...data.batches import IGNORE, PAD
from ...data.reader import CLS, SEP, SPECIAL
from ...layers import Embedding
from ..exercise import Exercise, Mistake


def corrupt(ids, chosen, fate, anything):
    """Corrupts texts for training as BERT does, with random numbers that are given. The id of [MASK] is 3.

    ids: (B, T) integers.
    chosen: (B, T) boolean, True at the tokens that the model has to predict.
    fate: (B, T), uniform in [0, 1).
    anything: (B, T) integers, ids of random words.
    A chosen token with a fate below 0.8 becomes [MASK]; one with a fate of at least 0.9 becomes the word in `anything`;
    any other chosen token stays as it is. The model has to predict all chosen tokens and no others.
    Return corrupted: (B, T), the input of the model, and targets: (B, T), the ids of the chosen tokens, -1 elsewhere.
    """
    corrupted = np.where(chosen & (fate < 0.8), 3, ids)
    corrupted = np.where(chosen & (fate >= 0.9), anything, corrupted)
    targets = np.where(chosen, ids, -1)
    return corrupted, targets


def draw_words(rng, shape, V):
    """Draws texts with [CLS], [SEP] and padding; some words of each are chosen, and a random word is never the same."""
    ids = rng.integers(SPECIAL, V + SPECIAL, shape)
    ids[:, 0], ids[:, -2], ids[:, -1] = CLS, SEP, PAD
    chosen = (ids >= SPECIAL) & (rng.random(shape) < 0.6)
    chosen[:, 1:4] = True
    fate = np.where(rng.random(shape) < 0.5, rng.uniform(0.7, 1, shape), rng.random(shape))
    fate[:, 1:4] = 0.5, 0.85, 0.95              # each of the three fates occurs
    return ids, chosen, fate, SPECIAL + (ids - SPECIAL + rng.integers(1, V, shape)) % V


def borders(rng):
    ids, chosen, fate, anything = draw_words(rng, (2, 9), 20)
    exact, same = fate.copy(), anything.copy()
    exact[0, 1:4] = 0.8, 0.9, 0.0
    exact[1, 1:4] = 0.9, 0.8, 0.79
    same[:, 3] = ids[:, 3]
    return [("fates of exactly 0.8 and 0.9", (ids, chosen, exact, anything)),
            ("a random word equals the original", (ids, chosen, fate, same))]


class Given:
    """Replaces the random generator: returns the draws with which the package hides exactly these tokens of a row."""

    def __init__(self, chosen, fate, anything):
        self.draws = [np.where(chosen, 0.0, 0.5), fate]
        self.anything = anything
    def random(self, shape):
        return self.draws.pop(0).reshape(shape)

    def integers(self, low, high, shape):
        return self.anything.reshape(shape)


def by_masked_words(ids, chosen, fate, anything):
    corrupted, targets = ids.copy(), np.full_like(ids, IGNORE)
    for i, row in enumerate(ids):
        share = chosen[i].sum() / (row >= SPECIAL).sum()
        read, positions, wanted = masked.corrupt(row[None], Given(chosen[i], fate[i], anything[i]), None, share)
        corrupted[i] = read[0]
        targets[i, positions[0]] = wanted[0]
    return corrupted, targets


def pick_backward(positions, dy, T):
    """The gradient of picking tokens: y[b, k] = x[b, positions[b, k]].

    positions: (B, K) integers from 0 to T - 1; a position may occur more than once in a row.
    dy: (B, K, D), dL/dy.
    T: int, the number of tokens in each sequence of x.
    Return dx: (B, T, D), dL/dx, in the dtype of dy.
    """
    dx = np.zeros((len(positions), T, dy.shape[-1]), dy.dtype)
    rows = np.arange(len(positions))[:, None]
    np.add.at(dx, (rows, positions), dy)
    return dx


def draw_positions(rng, B, T, K, D):
    """Draws positions that are not in order; in each sequence one occurs twice, and the last token is not picked."""
    positions = rng.integers(T - 1, size=(B, K))
    positions[:, 0] = T - 2
    positions[:, 1] %= T - 2
    positions[:, -1] = T - 2
    return positions, rng.standard_normal((B, K, D)), T


def by_embedding(positions, dy, T):
    """Computes the gradient with an Embedding per sequence, whose ids are the positions."""
    tables = []
    for ids, dvectors in zip(positions, dy):
        layer = Embedding(T, dy.shape[-1]).astype(np.float64)
        layer(ids)
        layer.backward(dvectors)
        tables.append(layer.weight.grad)
    return np.array(tables)


HIDE, WANTED = "np.where(chosen & (fate < 0.8), 3, ids)", "np.where(chosen, ids, -1)"
RANDOM = "np.where(chosen & (fate >= 0.9), anything, corrupted)"
ADDED = "np.add.at(dx, (rows, positions), dy)"
REPEATS = ("For a position that occurs twice, only the last gradient is kept. dx[rows, positions] is a copy, so the "
           "results of repeated positions overwrite each other. np.add.at adds all of them.")

CORRUPT = (
    Mistake("MLM-1", {HIDE: "np.where(chosen, 3, ids)", RANDOM: "corrupted"},
            "All chosen tokens become [MASK]. One in ten should stay, and one in ten should become a random word, so "
            "that the model also learns to represent visible words: there is no [MASK] when the model is used."),
    Mistake("MLM-2a", {"chosen & (fate < 0.8)": "fate < 0.8"},
            "Tokens that were not chosen become [MASK] too. Most of the text is lost, and the loss does not count "
            "these tokens."),
    Mistake("MLM-2b", {"chosen & (fate >= 0.9)": "fate >= 0.9"},
            "Tokens that were not chosen become random words too. They damage the context, and the loss does not count "
            "them."),
    Mistake("MLM-3", {WANTED: "ids"},
            "Every token is a target. Most of them are visible in the input, so the model would learn to copy."),
    Mistake("MLM-4", {WANTED: "np.where(chosen, corrupted, -1)"},
            "Your targets come from the corrupted text, with [MASK] and random words in it. The model has to predict "
            "the original tokens."),
    Mistake("MLM-5", {WANTED: "np.where(corrupted != ids, ids, -1)"},
            "Chosen tokens that stayed unchanged are not among your targets. The model has to predict them too; "
            "otherwise it would learn that every visible word that it has to predict is wrong."),
    Mistake("MLM-6", {WANTED: "np.where(corrupted == 3, ids, -1)"},
            "Your targets are the tokens that became [MASK]. All chosen tokens are targets, including those that "
            "became another word or stayed."),
    Mistake("MLM-7", {WANTED: "np.where(chosen, ids, 0)"},
            "The other targets are 0, which is the id of the padding token. -1 is not an id, and tells the loss not to "
            "count this token."),
    Mistake("MLM-8", {HIDE: "np.where(chosen & (fate < 0.8), anything, ids)",
                      RANDOM: "np.where(chosen & (fate >= 0.9), 3, corrupted)"},
            "You swapped [MASK] and random words: eight in ten chosen tokens become random words, and one in ten "
            "becomes [MASK]."),
    Mistake("MLM-9", {RANDOM: "np.where(chosen & (fate >= 0.8) & (fate < 0.9), anything, corrupted)"},
            "You swapped the last two tenths: a chosen token should stay for a fate from 0.8 to 0.9, and become a "
            "random word above. The proportions are the same, but for these numbers the result is not."),
    Mistake("MLM-10", {RANDOM: "np.where(chosen & (fate >= 0.8), anything, corrupted)"},
            "None of your chosen tokens stays as it is. All that are not masked become random words, so the model "
            "would learn that every visible word that it has to predict is wrong."),
    Mistake("MLM-11", {RANDOM: "corrupted"},
            "None of your tokens becomes a random word. All that are not masked stay, so the model would learn that a "
            "visible word is always right."),
    Mistake("MLM-12", {HIDE: "np.where(chosen & (fate < 0.8), 0, ids)"},
            "You replace the hidden tokens by 0, the id of the padding token, which attention ignores. [MASK] has its "
            "own id, 3."),
    Mistake("MLM-13", {f"    corrupted = {HIDE}": "    corrupted = ids\n    corrupted[chosen & (fate < 0.8)] = 3"},
            "corrupted = ids gives the same array a second name. You overwrite the original text, and the targets are "
            "then taken from the corrupted one. Work on a copy."),
    Mistake("MLM-14", {"fate < 0.8": "fate <= 0.8"},
            "You mask a token whose fate is exactly 0.8. Only fates below 0.8 become [MASK]."),
    Mistake("MLM-15", {"fate >= 0.9": "fate > 0.9"},
            "You keep a token whose fate is exactly 0.9. A fate of at least 0.9 becomes a random word."),
    Mistake("MLM-16", {"return corrupted, targets": "return targets, corrupted"},
            "You return the two arrays in the wrong order. The model's input comes first, then the targets."),
    Mistake("MLM-17", {"    corrupted = np.where(chosen & (fate < 0.8)":
                       "    chosen = ~chosen\n    corrupted = np.where(chosen & (fate < 0.8)"},
            "You use chosen the other way round. True marks a token that the model has to predict."),
    Mistake("MLM-18", {WANTED: "ids[chosen]"},
            "You return the targets of the chosen tokens only, without their positions. Return one target per token, "
            "-1 where there is none."),
    Mistake("MLM-19", {RANDOM: "np.where(chosen & (fate >= 0.9), anything, ids)"},
            "Your last step starts from ids again, so the [MASK] of the step before is lost. Start from its result."),
    Mistake("MLM-20", {"chosen & (fate < 0.8)": "chosen | (fate < 0.8)"},
            "You mask a token if it is chosen or has a fate below 0.8. Both must hold."),
    Mistake("MLM-21", {"fate >= 0.9": "fate < 0.9"},
            "Your random words replace the tokens with a fate below 0.9, among them all that had become [MASK]. They "
            "belong to the fates of at least 0.9."),
    Mistake("MLM-22", {"fate >= 0.9": "fate < 0.1"},
            "Your random words replace the tokens with a fate below 0.1, which have to become [MASK]. The share is the "
            "same, one in ten, but here it is the fates of at least 0.9."),
    Mistake("MLM-23", {WANTED: "np.where(chosen, -1, ids)"},
            "Your targets are the other way round: the tokens that were not chosen. Only chosen tokens are to be "
            "predicted."),
    Mistake("MLM-24", {WANTED: "np.where(chosen, ids, -100)"},
            "Your other targets are -100, as in some libraries. Here it is -1 that tells the loss not to count a "
            "token."),
    Mistake("MLM-25", {WANTED: "np.where(chosen & ((fate < 0.8) | (fate >= 0.9)), ids, -1)"},
            "You leave out the chosen tokens with a fate from 0.8 to 0.9, which stay as they are. All chosen tokens "
            "are targets."),
)
PICK = (
    Mistake("PICK-1a", {ADDED: "dx[rows, positions] += dy"}, REPEATS, twin="PICK-1b"),
    Mistake("PICK-1b", {ADDED: "dx[rows, positions] = dy"}, REPEATS, twin="PICK-1a"),
    Mistake("PICK-2", {"return dx": "times = np.zeros(dx.shape[:2], dy.dtype)\n    "
                                    "np.add.at(times, (rows, positions), 1)\n    "
                                    "return dx / np.maximum(times, 1)[..., None]"},
            "A token that is picked twice receives the mean of its gradients. Each pick influences the loss "
            "separately, so the gradients must be added."),
    Mistake("PICK-3", {ADDED: "np.add.at(dx.reshape(-1, dy.shape[-1]), positions, dy)"},
            "All gradients end up in the first sequence. A position counts from the start of its own sequence; in the "
            "flattened array, sequence b starts at b T."),
    Mistake("PICK-4", {ADDED: "np.add.at(dx.reshape(-1, dy.shape[-1]), rows * positions.shape[1] + positions, dy)"},
            "In the flattened dx, sequence b starts at b T, not at b K. The positions refer to x, which has T tokens "
            "per sequence."),
    Mistake("PICK-5", {ADDED: "np.add.at(dx, (rows, positions[0]), dy)"},
            "You use the positions of the first sequence for all sequences. Each sequence has its own."),
    Mistake("PICK-6", {"len(positions), T, dy": "len(positions), positions.max() + 1, dy"},
            "Your dx ends at the largest position that was picked. It must have the shape of x, with T tokens."),
    Mistake("PICK-7", {ADDED: "np.add.at(dx, (rows, np.sort(positions)), dy)"},
            "You sort the positions, but not the rows of dy. Row k of dy belongs to entry k of the positions."),
    Mistake("PICK-8", {ADDED: "np.add.at(dx, (rows, positions - 1), dy)"},
            "All your positions are too small by one. They count from 0."),
    Mistake("PICK-9", {ADDED: "np.add.at(dx, (rows, np.arange(positions.shape[1])), dy)"},
            "You put the gradients at the first K tokens, in the order of dy. Each gradient belongs to the token from "
            "which its row of y was taken."),
    Mistake("PICK-10", {"return dx": "return dx / positions.shape[1]"},
            "You divide dx by K. Picking does not average; if the loss is a mean, dy already contains that factor."),
    Mistake("PICK-11", {ADDED: "np.add.at(dx, positions, dy)"},
            "dx[positions] uses the positions as indices of sequences, because the first axis of dx is the batch. You "
            "need two indices: that of the sequence and that of the token."),
    Mistake("PICK-12", {"return dx": "return np.take_along_axis(dx, positions[..., None], 1)"},
            "You pick a second time, so you return K tokens. backward goes the other way: from the K picked tokens to "
            "all T."),
    Mistake("PICK-13", {ADDED: "positions += T * rows\n    np.add.at(dx.reshape(-1, dy.shape[-1]), positions, dy)"},
            "positions += ... writes into the caller's array. positions + ... makes a new one."),
    Mistake("PICK-14", {"return dx": "return dx.mT"},
            "Your dx is transposed. It must have the shape of x, (B, T, D)."),
    Mistake("PICK-15", {ADDED: "dx[:, positions] += dy"},
            "dx[:, positions] selects the tokens of all sequences' positions in every sequence. Row b of the positions "
            "belongs to sequence b alone, so you need two indices: that of the sequence and that of the token."),
    Mistake("PICK-16", {ADDED: "np.add.at(dx[0], positions[0], dy[0])"},
            "Only the first sequence has a gradient. Is there a return inside your loop?"),
    Mistake("PICK-17", {"[:, None]": ""},
            "Your indices of the sequences have shape (B,), so they are paired with the K columns of positions. As a "
            "column, (B, 1), they are combined with each of them."),
    Mistake("PICK-18", {"(rows, positions)": "(positions, rows)"},
            "Your two indices are in the wrong order. The first axis of dx is that of the sequences, the second that "
            "of the tokens."),
    Mistake("PICK-19", {"return dx": "return dx.sum(0)"},
            "You sum dx over the sequences. Each sequence of x has its own gradient."),
)

EXERCISES = [
    Exercise(
        "14.1", "BERT's corruption", minutes=15, lines=4,
        solution=corrupt, reference=by_masked_words, inputs=lambda rng, n: draw_words(rng, (n.B, n.S + n.T), n.V),
        edges=borders, outputs=("corrupted", "targets"), mistakes=CORRUPT,
        invariants=(("tokens that were not chosen must stay unchanged",
                     lambda inputs, outputs: (outputs[0] - inputs[0])[~inputs[1]]),
                    ("the chosen tokens, and no others, must have a target",
                     lambda inputs, outputs: (outputs[1] >= 0).astype(int) - inputs[1])),
        hints=("Three things can happen to a chosen token, and one to any other. Which arrays decide?",
               "np.where(condition, a, b) takes the entry of a where the condition is True. Each condition combines "
               "chosen with a comparison of fate; that of the targets is chosen itself.",
               "np.where(chosen & (fate < 0.8), 3, ids); in the result, the words of anything where chosen & (fate >= "
               "0.9); and the targets np.where(chosen, ids, -1)."),
        alternatives={
            "on a copy": {f"corrupted = {HIDE}": "hidden = chosen & (fate < 0.8)\n    corrupted = ids.copy()\n    "
                                                 "corrupted[hidden] = 3",
                          f"corrupted = {RANDOM}": "swapped = chosen & (fate >= 0.9)\n    "
                                                   "corrupted[swapped] = anything[swapped]"},
            "select": {RANDOM: "np.select([chosen & (fate < 0.8), chosen & (fate >= 0.9)], [3, anything], ids)"}}),
    Exercise(
        "14.2", "Picking tokens, backward", minutes=15, lines=4,
        solution=pick_backward, reference=by_embedding,
        inputs=lambda rng, n: draw_positions(rng, n.B, n.S, n.H + 2, n.D),
        edges=lambda rng: [("B = T = K = D", draw_positions(rng, 5, 5, 5, 5)),
                           ("more picks than tokens", draw_positions(rng, 2, 4, 9, 3))],
        outputs=("dx",), mistakes=PICK,
        invariants=(("the sum of dx must equal the sum of dy",
                     lambda inputs, outputs: outputs[0].sum((0, 1)) - inputs[1].sum((0, 1))),),
        hints=("Where did y[b, k] come from? And what is the gradient of a token that was picked twice?",
               "Picking is an embedding lookup in which each sequence is a table. Start with zeros (B, T, D), and add "
               "dy[b, k] at (b, positions[b, k]). dx[...] += keeps only one of several equal positions.",
               "np.add.at(dx, (np.arange(B)[:, None], positions), dy)."),
        alternatives={
            "loops": {ADDED: "for b, k in np.ndindex(positions.shape):\n        dx[b, positions[b, k]] += dy[b, k]"},
            "one-hot matmul": {ADDED: "hot = (positions[..., None] == np.arange(T)).astype(dy.dtype)\n    "
                                      "dx = hot.mT @ dy"},
            "flat": {ADDED: "np.add.at(dx.reshape(-1, dy.shape[-1]), positions + T * rows, dy)"}}),
]
