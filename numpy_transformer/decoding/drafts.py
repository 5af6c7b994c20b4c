"""What guesses tokens for speculative decoding: a smaller model, n-grams of the text so far, or further heads of the model.

Each has a method propose(ids, count, probabilities, rng). It returns at most `count` guesses of what follows ids, and the
distributions q (guesses, V) from which it drew them. `probabilities` turns logits (n, V) and n texts into distributions (n, V).
"""

from typing import Any

import numpy as np

from ..argument_checks import check_positive
from ..models import LanguageModel
from .continuation import RevisableText
from .speculative import draw, vocabulary_of


class ModelDraft:
    """A smaller LanguageModel with the same vocabulary, which writes its guesses token by token, with a cache of its own.

    Parameters: model : a LanguageModel in eval()
    Source: Leviathan, Kalman and Matias 2023, algorithm 1.
    """

    def __init__(self, model: LanguageModel) -> None:
        self.text = RevisableText(model)

    @property
    def vocab_size(self) -> int | None:
        """The number of tokens that the model knows, or None if it does not say it."""
        return vocabulary_of(self.text.model)

    def propose(self, ids: list[int], count: int, probabilities: Any, rng: np.random.Generator) -> tuple[list[int], np.ndarray]:
        text, q = list(ids), []
        for _ in range(count):
            q.append(probabilities(self.text.logits(text), [text])[0])
            text.append(draw(q[-1], rng))
        return text[len(ids):], np.array(q)


class NGramDraft:
    """Guesses that the text goes on as it did the last time that its latest tokens occurred; it calls no model.

    Parameters:
        vocab_size : int
        size : int (3), the largest number of latest tokens that it looks for; if they do not occur, it looks for fewer
    Source: Saxena 2023 (prompt lookup decoding).
    """

    def __init__(self, vocab_size: int, size: int = 3) -> None:
        check_positive(vocab_size=vocab_size, size=size)
        self.vocab_size = vocab_size
        self.size = size

    def propose(self, ids: list[int], count: int, probabilities: Any, rng: np.random.Generator) -> tuple[list[int], np.ndarray]:
        distance, text = self.distance(ids), list(ids)
        for _ in range(count if distance else 0):
            text.append(text[-distance])
        guesses = text[len(ids):]
        return guesses, np.eye(self.vocab_size)[guesses]    # it is certain of each guess

    def distance(self, ids: list[int]) -> int:
        """Returns how many tokens ago the latest tokens occurred for the last time, as many of them as possible; 0 if never."""
        for n in range(min(self.size, len(ids) - 1), 0, -1):
            for distance in range(1, len(ids) - n + 1):
                if ids[-n - distance:-distance] == ids[-n:]:
                    return distance
        return 0


class MultiTokenDraft:
    """A model with several heads as its own draft: head 0 is the model, and the others guess. No further call is needed.

    It takes the place of both: speculative_decode(own, own, ids, count). Head i of the call that has verified the latest
    guesses knows the text up to the token before the latest, and guesses the i-th token after the latest.

    Parameters: model : a LanguageModel in eval() whose decoder is a MultiTokenStack
    Shape: ids (B, T), mask=None, cache=None -> logits of head 0 (B, T, V)
    Source: Gloeckle et al. 2024, section 2 (self-speculative decoding); Stern, Shazeer and Uszkoreit 2018, section 3.
    """

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self.further = np.empty((0, 0, 0))                  # (heads, T, V): the logits of the other heads, latest call
        self.read = 0                                       # number of tokens that this call and those before it have read

    @property
    def max_len(self) -> int:
        return self.model.max_len

    @property
    def remembering(self) -> bool:
        return self.model.remembering

    def __call__(self, ids: np.ndarray, mask: np.ndarray | None = None, cache: Any = None) -> np.ndarray:
        logits = self.model(ids, mask, cache=cache)
        self.further = logits[0, 1:]
        self.read = ids.shape[-1] if cache is None else cache.length
        return logits[:, 0]

    def propose(self, ids: list[int], count: int, probabilities: Any, rng: np.random.Generator) -> tuple[list[int], np.ndarray]:
        row = len(ids) - 2 - self.read                      # of the token before the latest, from the end
        text, q = list(ids), []
        known = -self.further.shape[1] <= row < 0           # not before the first call for a text
        for logits in self.further[:count, row] if known else ():
            q.append(probabilities(logits[None], [text])[0])
            text.append(draw(q[-1], rng))
        return text[len(ids):], np.array(q)
