"""Bigram baseline for masked language models: predicts a masked token from its neighbors."""

import numpy as np

from .reader import TextReader


class Bigrams:
    """Predicts a masked token w from its neighbors, with counts of the token pairs in a text.

        from the left neighbor : the w with the largest P(w | left) = (count(left, w) + P(w)) / (count(left) + 1)
        from both neighbors    : the w with the largest P(w | left) P(right | w)

    Adding P(w) to each count breaks ties in favor of the more frequent token. A neighbor that is a special id or does
    not occur in the text is ignored; if both are, the prediction is the most frequent token.

    Parameters:
        ids : int array, the text as ids of a tokenizer, without the reader's offset added
        vocab_size : int, the vocab_size of the reader
        reader : TextReader or its class; it knows the special ids

    Source: Jelinek and Mercer 1980, for the mixture with P(w); MacKay and Peto 1995, for its weight.
    """

    def __init__(self, ids, vocab_size, reader=TextReader):
        ids = np.asarray(ids, np.intp) + reader.offset
        self.vocab_size = vocab_size
        self.pad_id = reader.pad_id
        self.count = np.bincount(ids, minlength=vocab_size)
        self.probability = self.count / len(ids)
        ids = ids.astype(np.int64)              # np.intp may be too small for vocab_size²
        self.next_pairs = np.unique(ids[:-1] * vocab_size + ids[1:], return_counts=True)
        self.previous_pairs = np.unique(ids[1:] * vocab_size + ids[:-1], return_counts=True)

    def __repr__(self):
        return f"Bigrams({self.count.sum():,} tokens, vocab_size={self.vocab_size})"

    def guess(self, inputs, positions, both=False):
        """Returns the predicted ids (B, K) at the positions (B, K) of masked inputs (B, T).

        both=False uses the left neighbor, both=True the left and the right one.
        """
        padded = np.pad(inputs, ((0, 0), (1, 1)), constant_values=self.pad_id).astype(np.int64)
        left = np.take_along_axis(padded, positions, 1)
        right = np.take_along_axis(padded, positions + 2, 1) if both else np.full_like(positions, self.pad_id)
        pairs, inverse = np.unique(left * self.vocab_size + right, return_inverse=True)
        best = np.array([self.best(*divmod(pair, self.vocab_size)) for pair in pairs.tolist()])
        return best[inverse].reshape(positions.shape)

    def best(self, left, right):
        score = self.neighbor_counts(self.next_pairs, left) + self.probability
        if self.count[right]:
            right_counts = self.neighbor_counts(self.previous_pairs, right) + self.probability[right]
            score = score * right_counts / (self.count + 1)
        return score.argmax()

    def neighbor_counts(self, pairs, token):
        """Returns how often each token of the vocabulary is a neighbor of this one, (vocab_size,)."""
        keys, counts = pairs
        neighbors = slice(*np.searchsorted(keys, [token * self.vocab_size, (token + 1) * self.vocab_size]))
        row = np.zeros(self.vocab_size)
        row[keys[neighbors] - token * self.vocab_size] = counts[neighbors]
        return row
