"""Rows of the vocabulary that are wrong from one id to another: the text shows it, as only these tokens are unexpected."""

from dataclasses import dataclass

import numpy as np

WORSE_THAN_GUESSING = 1.25              # times log V, the mean loss of tokens with wrong rows, at least
KNOWN = 0.75                            # share of log V, the mean loss of all others, at most
LEAST_IDS = 12                          # different ids that are accused, at least
LEAST_SHARE = 0.03                      # of the tokens that have these ids


@dataclass(frozen=True)
class WrongRows:
    """A range of ids whose tokens are predicted worse than by guessing, while all others are known; str() is the sentence."""

    first: int
    last: int
    inside: float
    outside: float

    def __str__(self):
        return (f"The tokens with ids from {self.first:,} to {self.last:,} have a mean loss of {self.inside:.2f}, which is "
                f"worse than guessing, and all others one of {self.outside:.2f}: the rows of these ids in the embedding or "
                "in the output layer are wrong, in another order, or those of another tokenizer.")


def wrong_rows(targets, losses, log_vocab):
    """Returns the WrongRows of a model with these losses of the target tokens, or None.

    It is the range of ids with the largest sum of (loss - 1.25 log V), as long as the tokens of other ids are known.
    """
    if not np.isfinite(losses).all():
        return None
    ids, places = np.unique(targets, return_inverse=True)
    excess = np.bincount(places, losses - WORSE_THAN_GUESSING * log_vocab)
    sums = np.append(0.0, np.cumsum(excess))
    before = np.minimum.accumulate(sums)
    end = int(np.argmax(sums - before))
    start = int(np.argmin(sums[:end + 1]))
    inside = (places >= start) & (places < end)
    if end - start < LEAST_IDS or inside.mean() < LEAST_SHARE or inside.all():
        return None
    found = WrongRows(int(ids[start]), int(ids[end - 1]), float(losses[inside].mean()), float(losses[~inside].mean()))
    return found if found.outside < KNOWN * log_vocab else None
