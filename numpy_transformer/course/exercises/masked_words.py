"""Masked language modeling: BERT's corruption of a text."""

import numpy as np

from ...data import masked
from ...data.batches import IGNORE, PAD
from ...data.reader import CLS, SEP, SPECIAL
from .definition import Exercise, Mistake


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


HIDE, WANTED = "np.where(chosen & (fate < 0.8), 3, ids)", "np.where(chosen, ids, -1)"
RANDOM = "np.where(chosen & (fate >= 0.9), anything, corrupted)"
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
    Mistake("MLM-26", {HIDE: "np.where(~chosen & (fate < 0.8), 3, ids)",
                       RANDOM: "np.where(~chosen & (fate >= 0.9), anything, corrupted)"},
            "You corrupt the tokens that were not chosen and leave the chosen ones as they are. It is the chosen "
            "tokens that the model must not see."),
    Mistake("MLM-27", {WANTED: "np.where(chosen & (fate < 0.8), 3, -1)"},
            "Your targets are 3, the id of [MASK]. The model has to predict the original tokens, of all chosen "
            "positions."),
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
]
