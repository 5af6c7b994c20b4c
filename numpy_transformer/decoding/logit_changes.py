"""What published models ask for between the logits and the choice of a token: each change is called with the logits and
the ids so far.
"""

import numpy as np

from ..argument_checks import check_positive


class RepetitionPenalty:
    """Makes the tokens that a text already has less likely: positive logits are divided by the penalty, others multiplied.

    Parameters: penalty : float; 1 changes nothing, and values below 1 make these tokens more likely
    Source: Keskar et al. 2019, section 4.1, which divides all logits; the two cases are those of transformers.
    """

    def __init__(self, penalty: float) -> None:
        if not 0 < penalty < np.inf:
            raise ValueError(f"penalty = {penalty} must be above 0; 1 changes nothing, 1.1 is usual")
        self.penalty = penalty

    def __call__(self, logits: np.ndarray, texts: list[list[int]]) -> np.ndarray:       # (rows, V), ids of each row
        logits = logits.copy()
        for row, ids in zip(logits, texts):
            seen = list(set(ids))
            row[seen] = np.where(row[seen] > 0, row[seen] / self.penalty, row[seen] * self.penalty)
        return logits


class NoRepeatedNGrams:
    """Forbids a token that would complete an n-gram which the text already has.

    Parameters: size : int, the n of the n-grams
    Source: Paulus et al. 2018, section 2.5, for trigrams.
    """

    def __init__(self, size: int) -> None:
        check_positive(size=size)
        self.size = size

    def __call__(self, logits: np.ndarray, texts: list[list[int]]) -> np.ndarray:
        return forbid(logits, [self.repeats(ids) for ids in texts])

    def repeats(self, ids: list[int]) -> list[int]:
        """Returns the tokens that followed the latest size - 1 ids before."""
        before = self.size - 1
        latest = ids[len(ids) - before:] if before else []
        if len(ids) < before:
            return []
        return [ids[n + before] for n in range(len(ids) - before) if ids[n:n + before] == latest]


class ForbiddenSequences:
    """Forbids the last token of each sequence after its other tokens; a sequence of one token is forbidden everywhere.

    Parameters: sequences : list of lists of ids
    """

    def __init__(self, sequences: list[list[int]]) -> None:
        self.sequences = [list(sequence) for sequence in sequences]

    def __call__(self, logits: np.ndarray, texts: list[list[int]]) -> np.ndarray:
        return forbid(logits, [[last for *first, last in self.sequences if not first or ids[-len(first):] == first]
                               for ids in texts])


class MinimumLength:
    """Forbids the tokens that end a text until it has a number of tokens.

    Parameters: length : int, the prompt included; stops : ids that end a text
    """

    def __init__(self, length: int, stops: list[int]) -> None:
        self.length = length
        self.stops = list(stops)

    def __call__(self, logits: np.ndarray, texts: list[list[int]]) -> np.ndarray:
        return forbid(logits, [self.stops if len(ids) < self.length else [] for ids in texts])


def forbid(logits: np.ndarray, tokens: list[list[int]]) -> np.ndarray:
    """Returns the logits (rows, V) with -inf at the tokens of each row."""
    logits = logits.copy()
    for row, forbidden in zip(logits, tokens):
        row[[token for token in forbidden if 0 <= token < len(row)]] = -np.inf
    return logits
