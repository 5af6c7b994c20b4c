"""Masked language modeling: BERT's corruption of a text."""

import numpy as np

from ...data import masked
from ...data.batches import IGNORE, PAD
from ...data.reader import CLS, SEP, SPECIAL
from .definition import Exercise, Mistake


def corrupt(ids, chosen, fate, anything):
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
    return [("fates_exactly_0", (ids, chosen, exact, anything)),
            ("random_word_equals", (ids, chosen, fate, same))]


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


EXERCISES = [
    Exercise(
        "14.1", minutes=15, lines=4,
        solution=corrupt, reference=by_masked_words, inputs=lambda rng, n: draw_words(rng, (n.B, n.S + n.T), n.V),
        edges=borders, outputs=("corrupted", "targets"), mistakes=(
            Mistake("MLM-1", {
                "np.where(chosen & (fate < 0.8), 3, ids)": "np.where(chosen, 3, ids)",
                "np.where(chosen & (fate >= 0.9), anything, corrupted)": "corrupted"}),
            Mistake("MLM-2a", {"chosen & (fate < 0.8)": "fate < 0.8"}),
            Mistake("MLM-2b", {"chosen & (fate >= 0.9)": "fate >= 0.9"}),
            Mistake("MLM-3", {"np.where(chosen, ids, -1)": "ids"}),
            Mistake("MLM-4", {"np.where(chosen, ids, -1)": "np.where(chosen, corrupted, -1)"}),
            Mistake("MLM-5", {"np.where(chosen, ids, -1)": "np.where(corrupted != ids, ids, -1)"}),
            Mistake("MLM-6", {"np.where(chosen, ids, -1)": "np.where(corrupted == 3, ids, -1)"}),
            Mistake("MLM-7", {"np.where(chosen, ids, -1)": "np.where(chosen, ids, 0)"}),
            Mistake("MLM-8", {
                "np.where(chosen & (fate < 0.8), 3, ids)": "np.where(chosen & (fate < 0.8), anything, ids)",
                "np.where(chosen & (fate >= 0.9), anything, corrupted)":
                    "np.where(chosen & (fate >= 0.9), 3, corrupted)"}),
            Mistake("MLM-9", {
                "np.where(chosen & (fate >= 0.9), anything, corrupted)":
                    "np.where(chosen & (fate >= 0.8) & (fate < 0.9), anything, corrupted)"}),
            Mistake("MLM-10", {
                "np.where(chosen & (fate >= 0.9), anything, corrupted)":
                    "np.where(chosen & (fate >= 0.8), anything, corrupted)"}),
            Mistake("MLM-11", {"np.where(chosen & (fate >= 0.9), anything, corrupted)": "corrupted"}),
            Mistake("MLM-12", {"np.where(chosen & (fate < 0.8), 3, ids)": "np.where(chosen & (fate < 0.8), 0, ids)"}),
            Mistake("MLM-13", {
                "    corrupted = np.where(chosen & (fate < 0.8), 3, ids)":
                    "    corrupted = ids\n    corrupted[chosen & (fate < 0.8)] = 3"}),
            Mistake("MLM-26", {
                "np.where(chosen & (fate < 0.8), 3, ids)": "np.where(~chosen & (fate < 0.8), 3, ids)",
                "np.where(chosen & (fate >= 0.9), anything, corrupted)":
                    "np.where(~chosen & (fate >= 0.9), anything, corrupted)"}),
            Mistake("MLM-27", {"np.where(chosen, ids, -1)": "np.where(chosen & (fate < 0.8), 3, -1)"}),
            Mistake("MLM-18", {"np.where(chosen, ids, -1)": "ids[chosen]"}),
            Mistake("MLM-21", {"fate >= 0.9": "fate < 0.9"}),
            Mistake("MLM-24", {"np.where(chosen, ids, -1)": "np.where(chosen, ids, -100)"}),
            Mistake("MLM-25", {
                "np.where(chosen, ids, -1)": "np.where(chosen & ((fate < 0.8) | (fate >= 0.9)), ids, -1)"}),
        ),
        must_be_zero={"tokens_were_not": lambda inputs, outputs: (outputs[0] - inputs[0])[~inputs[1]],
                      "chosen_tokens_no": lambda inputs, outputs: (outputs[1] >= 0).astype(int) - inputs[1]},
        alternatives={
            "on a copy": {f"corrupted = {HIDE}": "hidden = chosen & (fate < 0.8)\n    corrupted = ids.copy()\n    "
                                                 "corrupted[hidden] = 3",
                          f"corrupted = {RANDOM}": "swapped = chosen & (fate >= 0.9)\n    "
                                                   "corrupted[swapped] = anything[swapped]"},
            "select": {RANDOM: "np.select([chosen & (fate < 0.8), chosen & (fate >= 0.9)], [3, anything], ids)"}}),
]
