"""Masked words: corrupting a text as BERT does, and the gradient of picking the chosen tokens."""

import numpy as np

from ...data import masked
from ...data.batches import IGNORE, PAD
from ...data.reader import CLS, SEP, SPECIAL
from ...layers import Embedding
from ..exercise import Exercise, Mistake


def corrupt(ids, chosen, fate, anything):
    """BERT's corruption of texts for training, with given random numbers. The id of [MASK] is 3.

    ids: (B, T) integers.  chosen: (B, T) boolean, True = this token is to be predicted.  fate: (B, T), uniform in
    [0, 1).  anything: (B, T) integers, ids of random words.
    Of the chosen tokens those with a fate below 0.8 become [MASK], those with a fate of at least 0.9 become what stands
    in `anything`, and those between stay as they are. The model must predict all chosen ones, and no others.
    Return corrupted: (B, T), what the model reads, and targets: (B, T): the chosen tokens' own ids, -1 elsewhere.
    """
    corrupted = np.where(chosen & (fate < 0.8), 3, ids)
    corrupted = np.where(chosen & (fate >= 0.9), anything, corrupted)
    targets = np.where(chosen, ids, -1)
    return corrupted, targets


def draw_words(rng, shape, V):
    """Framed texts with padding; some ordinary tokens of each are chosen, and a random word is not the right one."""
    ids = rng.integers(SPECIAL, V + SPECIAL, shape)
    ids[:, 0], ids[:, -2], ids[:, -1] = CLS, SEP, PAD
    chosen = (ids >= SPECIAL) & (rng.random(shape) < 0.6)
    chosen[:, 1:4] = True
    fate = np.where(rng.random(shape) < 0.5, rng.uniform(0.7, 1, shape), rng.random(shape))
    fate[:, 1:4] = 0.5, 0.85, 0.95              # each of the three ways occurs
    return ids, chosen, fate, SPECIAL + (ids - SPECIAL + rng.integers(1, V, shape)) % V


def borders(rng):
    ids, chosen, fate, anything = draw_words(rng, (2, 9), 20)
    exact, same = fate.copy(), anything.copy()
    exact[0, 1:4], exact[1, 1:4] = (0.8, 0.9, 0.0), (0.9, 0.8, 0.79)
    same[:, 3] = ids[:, 3]
    return [("fates of exactly 0.8 and 0.9", (ids, chosen, exact, anything)),
            ("a random word is the right one", (ids, chosen, fate, same))]


class Given:
    """In place of a generator: the draws by which the package hides exactly these tokens of one row."""

    def __init__(self, chosen, fate, anything):
        self.draws, self.anything = [np.where(chosen, 0.0, 0.5), fate], anything

    def random(self, shape):
        return self.draws.pop(0).reshape(shape)

    def integers(self, low, high, shape):
        return self.anything.reshape(shape)


def by_masked_words(ids, chosen, fate, anything):
    corrupted, targets = ids.copy(), np.full_like(ids, IGNORE)
    for i, row in enumerate(ids):
        share = chosen[i].sum() / (row >= SPECIAL).sum()
        read, positions, wanted = masked.corrupt(row[None], Given(chosen[i], fate[i], anything[i]), None, share)
        corrupted[i], targets[i, positions[0]] = read[0], wanted[0]
    return corrupted, targets


def pick_backward(positions, dy, T):
    """The gradient of picking tokens: y[b, k] = x[b, positions[b, k]].

    positions: (B, K) integers from 0 to T - 1. One place may be named twice.  dy: (B, K, D), dL/dy.  T: int, the number of
    tokens in each sequence of x.
    Return dx: (B, T, D), dL/dx, of the dtype of dy.
    """
    dx = np.zeros((len(positions), T, dy.shape[-1]), dy.dtype)
    rows = np.arange(len(positions))[:, None]
    np.add.at(dx, (rows, positions), dy)
    return dx


def draw_positions(rng, B, T, K, D):
    """One place is named twice in each sequence, in an order that is not ascending; the last token is never picked."""
    positions = rng.integers(T - 1, size=(B, K))
    positions[:, 0], positions[:, 1], positions[:, -1] = T - 2, positions[:, 1] % (T - 2), T - 2
    return positions, rng.standard_normal((B, K, D)), T


def by_embedding(positions, dy, T):
    """Each sequence is a table, and its positions are the ids that are looked up."""
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
REPEATS = ("Of a place that is named twice only the last gradient counts: dx[rows, positions] is a copy of rows, and "
           "where one repeats, the copies overwrite each other. np.add.at adds them all.")

CORRUPT = (
    Mistake("MLM-1", {HIDE: "np.where(chosen, 3, ids)", RANDOM: "corrupted"},
            "All chosen tokens become [MASK]. A tenth of them stays and a tenth becomes any word, so that the model "
            "must mind what it reads: in use there is no [MASK]."),
    Mistake("MLM-2a", {"chosen & (fate < 0.8)": "fate < 0.8"},
            "Tokens that were not chosen become [MASK], too: the text is gone, and nothing asks for them."),
    Mistake("MLM-2b", {"chosen & (fate >= 0.9)": "fate >= 0.9"},
            "Tokens that were not chosen become random words, too: noise that nothing asks about."),
    Mistake("MLM-3", {WANTED: "ids"},
            "Every token is a target. Most of them stand in plain sight, and copying them is what would be learned."),
    Mistake("MLM-4", {WANTED: "np.where(chosen, corrupted, -1)"},
            "The targets are what the model reads, [MASK] and random words. Wanted is what stood there before."),
    Mistake("MLM-5", {WANTED: "np.where(corrupted != ids, ids, -1)"},
            "Chosen tokens that look as before are no targets. They are predicted as well: else each visible word "
            "that is asked about would be a wrong one."),
    Mistake("MLM-6", {WANTED: "np.where(corrupted == 3, ids, -1)"},
            "Only [MASK] is asked about. All chosen tokens are targets, those that became another word or stayed, too."
            ""),
    Mistake("MLM-7", {WANTED: "np.where(chosen, ids, 0)"},
            "Where nothing is asked stands 0. That is an id, of the padding here; -1 is none, and says: do not count."),
    Mistake("MLM-8", {HIDE: "np.where(chosen & (fate < 0.8), anything, ids)",
                      RANDOM: "np.where(chosen & (fate >= 0.9), 3, corrupted)"},
            "[MASK] and random words have changed positions: eight in ten become random words, and one in ten [MASK]."),
    Mistake("MLM-9", {RANDOM: "np.where(chosen & (fate >= 0.8) & (fate < 0.9), anything, corrupted)"},
            "The last two tenths have changed positions: fates from 0.8 to 0.9 stay, those above become random words. "
            "On average that is the same; with these numbers it is not."),
    Mistake("MLM-10", {RANDOM: "np.where(chosen & (fate >= 0.8), anything, corrupted)"},
            "No chosen token stays as it is: all that are not masked become random words, so each visible word that "
            "is asked about is a wrong one."),
    Mistake("MLM-11", {RANDOM: "corrupted"},
            "No token becomes a random word: those not masked all stay, and the model learns that a word which is not "
            "[MASK] is always right."),
    Mistake("MLM-12", {HIDE: "np.where(chosen & (fate < 0.8), 0, ids)"},
            "Hidden tokens become 0, the padding, which nobody attends to. [MASK] is an id of its own, 3."),
    Mistake("MLM-13", {f"    corrupted = {HIDE}": "    corrupted = ids\n    corrupted[chosen & (fate < 0.8)] = 3"},
            "corrupted = ids is the same array under two names: the text is overwritten, and the targets are then "
            "[MASK]. Work on a copy."),
    Mistake("MLM-14", {"fate < 0.8": "fate <= 0.8"},
            "A fate of exactly 0.8 hides the token: below 0.8 is asked for."),
    Mistake("MLM-15", {"fate >= 0.9": "fate > 0.9"},
            "A fate of exactly 0.9 leaves the token: from 0.9 on it becomes a random word."),
    Mistake("MLM-16", {"return corrupted, targets": "return targets, corrupted"},
            "The two come back in the other order: what the model reads first, then the targets."),
    Mistake("MLM-17", {"    corrupted = np.where(chosen & (fate < 0.8)":
                       "    chosen = ~chosen\n    corrupted = np.where(chosen & (fate < 0.8)"},
            "chosen is turned round: True = this token is to be predicted."),
    Mistake("MLM-18", {WANTED: "ids[chosen]"},
            "The targets have lost their positions: one for each token is asked for, -1 where there is none."),
)
PICK = (
    Mistake("PICK-1a", {ADDED: "dx[rows, positions] += dy"}, REPEATS, twin="PICK-1b"),
    Mistake("PICK-1b", {ADDED: "dx[rows, positions] = dy"}, REPEATS, twin="PICK-1a"),
    Mistake("PICK-2", {"return dx": "times = np.zeros(dx.shape[:2], dy.dtype)\n    "
                                    "np.add.at(times, (rows, positions), 1)\n    "
                                    "return dx / np.maximum(times, 1)[..., None]"},
            "A token that is picked twice gets the mean of its gradients. Each pick has its own influence on the "
            "loss, and influences add up."),
    Mistake("PICK-3", {ADDED: "np.add.at(dx.reshape(-1, dy.shape[-1]), positions, dy)"},
            "All gradients arrive in the first sequence. A place counts from the start of its own sequence: b T comes "
            "on top."),
    Mistake("PICK-4", {ADDED: "np.add.at(dx.reshape(-1, dy.shape[-1]), rows * positions.shape[1] + positions, dy)"},
            "Sequence b begins at b T in dx, not at b K: the positions lie in x, which has T tokens a sequence."),
    Mistake("PICK-5", {ADDED: "np.add.at(dx, (rows, positions[0]), dy)"},
            "Every sequence has the positions of the first one. Each has its own."),
    Mistake("PICK-6", {"len(positions), T, dy": "len(positions), positions.max() + 1, dy"},
            "dx ends at the last place that was picked. It must have the shape of x: T tokens."),
    Mistake("PICK-7", {ADDED: "np.add.at(dx, (rows, np.sort(positions)), dy)"},
            "The positions are sorted, but the rows of dy are not: they belong together, the k-th to the k-th."),
    Mistake("PICK-8", {ADDED: "np.add.at(dx, (rows, positions - 1), dy)"},
            "Every place is one too small: they count from 0."),
    Mistake("PICK-9", {ADDED: "np.add.at(dx, (rows, np.arange(positions.shape[1])), dy)"},
            "The gradients stand at the first K tokens, in the order of dy. Each belongs where its row of y came from."
            ""),
    Mistake("PICK-10", {"return dx": "return dx / positions.shape[1]"},
            "dx is divided by K. Picking adds nothing up and averages nothing: if the loss is a mean, dy carries that "
            "factor already."),
    Mistake("PICK-11", {ADDED: "np.add.at(dx, positions, dy)"},
            "dx[positions] takes the positions for numbers of sequences: the first axis of dx is the batch. Two "
            "indices are needed, the sequence's and the token's."),
    Mistake("PICK-12", {"return dx": "return np.take_along_axis(dx, positions[..., None], 1)"},
            "That picks once more: K tokens come back. Backward goes the other way, from K picked ones to T."),
    Mistake("PICK-13", {ADDED: "positions += T * rows\n    np.add.at(dx.reshape(-1, dy.shape[-1]), positions, dy)"},
            "positions += ... writes into the caller's array: positions + ... makes a new one."),
    Mistake("PICK-14", {"return dx": "return dx.mT"},
            "dx comes out transposed: it must have the shape of x, (B, T, D)."),
)

EXERCISES = [
    Exercise(
        "14.1", "BERT's corruption", minutes=15, lines=4,
        solution=corrupt, reference=by_masked_words, inputs=lambda rng, n: draw_words(rng, (n.B, n.S + n.T), n.V),
        edges=borders, outputs=("corrupted", "targets"), mistakes=CORRUPT,
        invariants=(("tokens that were not chosen must stay",
                     lambda inputs, outputs: (outputs[0] - inputs[0])[~inputs[1]]),
                    ("exactly the chosen tokens must have a target",
                     lambda inputs, outputs: (outputs[1] >= 0).astype(int) - inputs[1])),
        hints=("A token can go three ways if it is chosen, and one if it is not. Which arrays decide?",
               "np.where(condition, a, b) takes from a where it is True. The condition of each way is chosen and a "
               "comparison of fate; the targets ask for chosen alone.",
               "np.where(chosen & (fate < 0.8), 3, ids); in what comes out, `anything` where chosen & (fate >= 0.9); "
               "targets np.where(chosen, ids, -1)."),
        alternatives={
            "on a copy": {f"corrupted = {HIDE}": "hidden = chosen & (fate < 0.8)\n    corrupted = ids.copy()\n    "
                                                 "corrupted[hidden] = 3",
                          f"corrupted = {RANDOM}": "swapped = chosen & (fate >= 0.9)\n    "
                                                   "corrupted[swapped] = anything[swapped]"},
            "select": {RANDOM: "np.select([chosen & (fate < 0.8), chosen & (fate >= 0.9)], [3, anything], ids)"}}),
    Exercise(
        "14.2", "Picking tokens, backward", minutes=15, lines=4,
        solution=pick_backward, reference=by_embedding, inputs=lambda rng, n: draw_positions(rng, n.B, n.S, n.H + 2, n.D),
        edges=lambda rng: [("B = T = K = D", draw_positions(rng, 5, 5, 5, 5)),
                           ("more positions than tokens", draw_positions(rng, 2, 4, 9, 3))],
        outputs=("dx",), mistakes=PICK,
        invariants=(("the sum of dx must be that of dy",
                     lambda inputs, outputs: outputs[0].sum((0, 1)) - inputs[1].sum((0, 1))),),
        hints=("Where did y[b, k] come from? And what has a token whose vector was taken twice?",
               "It is a lookup, and each sequence is a table of its own: zeros (B, T, D), into which dy is added at "
               "(b, positions[b, k]). dx[...] += keeps one of several equal positions.",
               "np.add.at(dx, (np.arange(B)[:, None], positions), dy)."),
        alternatives={
            "loops": {ADDED: "for b, k in np.ndindex(positions.shape):\n        dx[b, positions[b, k]] += dy[b, k]"},
            "one-hot matmul": {ADDED: "hot = (positions[..., None] == np.arange(T)).astype(dy.dtype)\n    "
                                      "dx = hot.mT @ dy"},
            "flat": {ADDED: "np.add.at(dx.reshape(-1, dy.shape[-1]), positions + T * rows, dy)"}}),
]
