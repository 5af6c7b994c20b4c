"""What the words beside a masked one would guess: the figure that a masked language model has to beat."""

import numpy as np

from .batches import PAD
from .reader import SPECIAL


class Bigrams:
    """Guesses a masked token w from its neighbours by how often tokens stood side by side in a text.

    From the left one alone: the largest P(w | left) = (count(left, w) + P(w)) / (count(left) + 1); from both: the
    largest P(w | left) P(right | w). The one count that is added, shared out by P(w), lets the more frequent token win
    a tie. A neighbour that is a special id or never stood in the text tells nothing: the other decides, or else P(w).

    Parameters: ids : the text as ids of a tokenizer, without SPECIAL; vocab_size : int, the tokenizer's + SPECIAL
    Source: Jelinek and Mercer 1980, for the mixture with P(w); MacKay and Peto 1995, for its weight.
    """

    def __init__(self, ids, vocab_size):
        ids = np.asarray(ids, np.int64) + SPECIAL
        self.vocab_size, self.count = vocab_size, np.bincount(ids, minlength=vocab_size)
        self.share = self.count / len(ids)
        self.behind = np.unique(ids[:-1] * vocab_size + ids[1:], return_counts=True)
        self.before = np.unique(ids[1:] * vocab_size + ids[:-1], return_counts=True)

    def guess(self, inputs, places, both=False):
        """(B, K) ids for the places of (B, T) corrupted inputs; each is judged by what stands beside it there."""
        padded = np.pad(inputs, ((0, 0), (1, 1)), constant_values=PAD)
        left = np.take_along_axis(padded, places, 1)
        right = np.take_along_axis(padded, places + 2, 1) if both else np.full_like(places, PAD)
        pairs, where = np.unique(left * self.vocab_size + right, return_inverse=True)
        best = np.array([self.best(*divmod(pair, self.vocab_size)) for pair in pairs.tolist()])
        return best[where].reshape(places.shape)

    def best(self, left, right):
        score = self.counts(self.behind, left) + self.share
        if self.count[right]:
            score = score * (self.counts(self.before, right) + self.share[right]) / (self.count + 1)
        return score.argmax()

    def counts(self, pairs, token):
        """How often each token stood beside this one, (vocab_size,)."""
        keys, counts = pairs
        here = slice(*np.searchsorted(keys, [token * self.vocab_size, (token + 1) * self.vocab_size]))
        row = np.zeros(self.vocab_size)
        row[keys[here] - token * self.vocab_size] = counts[here]
        return row
