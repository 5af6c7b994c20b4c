"""Speculative decoding: a cheap draft guesses several tokens, and the model verifies all of them in one call."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..argument_checks import check_positive
from ..models import LanguageModel
from ..types import Seed
from .continuation import RevisableText
from .sampling import check_settings, next_token_probabilities


@dataclass
class Speculation:
    """What `speculative_decode` returns.

    Attributes:
        ids : list of ids, the prompt and the new tokens
        prompt_length : int
        proposed, accepted : lists of ints with an entry for each call of the model: the number of guesses, and how many of
            them were accepted
    """

    ids: list[int]
    prompt_length: int
    proposed: list[int]
    accepted: list[int]

    @property
    def calls(self) -> int:
        """The number of calls of the model; without a draft it is the number of new tokens."""
        return len(self.proposed)

    @property
    def tokens_per_call(self) -> float:
        return (len(self.ids) - self.prompt_length) / self.calls


def speculative_decode(model: LanguageModel, draft: Any, ids: Sequence[int], count: int, guesses: int = 4,
                       temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None,
                       stop: Sequence[int] = (), rng: Seed = None,
                       changes: Sequence[Callable[..., np.ndarray]] = ()) -> Speculation:
    """Continues a prompt by `count` tokens, or fewer where a stop token comes first, in fewer calls of the model than tokens.

    The text has the distribution of the model, whatever the draft guesses. With temperature=0 it is that of `generate`,
    token for token, up to rounding.

    Parameters:
        model : a LanguageModel in eval(); it sees only the latest max_len tokens
        draft : ModelDraft, NGramDraft, MultiTokenDraft, or another object with a method propose(ids, count, probabilities,
            rng), which returns at most `count` guesses, and the distributions (guesses, V) from which they were drawn
        ids : the prompt
        count : int, the number of new tokens
        guesses : int (4), the largest number of guesses in a call
        temperature=1.0, top_k=None, top_p=None, stop=(), changes=() : as in `generate`, for model and draft alike
        rng : generator or seed, or None
    Returns: Speculation
    Raises: ValueError for an empty prompt, a model in train(), a draft with another vocabulary, or a setting outside its range;
        TypeError for a model that continues no text, or a draft that has no method propose.
    Source: Leviathan, Kalman and Matias 2023, algorithm 1; Chen et al. 2023, algorithm 2.
    """
    check_positive(count=count, guesses=guesses)
    check_settings(temperature, top_k, top_p)
    if not len(ids):
        raise ValueError("a prompt of 0 tokens: it needs at least one to go on from")
    check_draft(model, draft)
    rng = np.random.default_rng(rng)
    text, stops = RevisableText(model), set(stop)
    result = Speculation(list(map(int, ids)), len(ids), [], [])

    def probabilities(logits, texts):
        for change in changes:
            logits = change(logits, texts)
        return next_token_probabilities(logits, temperature, top_k, top_p)

    ids = result.ids
    while count > 0:
        room = model.max_len - len(ids)                     # up to max_len tokens with the cache, then in windows
        wanted = min(guesses, count - 1, room if room > 0 else guesses)     # one more token follows the guesses
        guessed, q = draft.propose(ids, wanted, probabilities, rng) if wanted > 0 else ([], None)
        texts = [ids + guessed[:n] for n in range(len(guessed) + 1)]
        p = probabilities(text.logits(texts[-1], len(texts)), texts)
        if guessed:
            check_vocabulary(p, q)
        new = verify(guessed, p, q, rng)
        result.proposed.append(len(guessed))
        result.accepted.append(len(new) - 1)
        end = next((n + 1 for n, token in enumerate(new) if token in stops), None)
        ids += new[:end]
        count = count - len(new) if end is None else 0
    return result


def verify(guessed: list[int], p: np.ndarray, q: Any, rng: np.random.Generator) -> list[int]:
    """Returns the guesses before the first that is rejected, and one more token. Together they are distributed as p.

    A guess x is accepted with probability min(1, p(x) / q(x)). In the place of the first one that is rejected, a token is
    drawn from max(0, p - q), normalized. If all are accepted, the token after them is drawn from p.

    Parameters: guessed : list of n ids; p (n + 1, V) : distributions of the model; q (n, V) : those of the draft, None if n = 0
    Source: Leviathan, Kalman and Matias 2023, algorithm 1.
    """
    for n, x in enumerate(guessed):
        if rng.random() >= p[n, x] / q[n, x]:
            rest = np.maximum(p[n] - q[n], 0)
            return [*guessed[:n], draw(rest / rest.sum(), rng)]
    return [*guessed, draw(p[-1], rng)]


def draw(p: np.ndarray, rng: np.random.Generator) -> int:
    """Draws an id from the distribution p (V,)."""
    return int(rng.choice(len(p), p=p))


def check_draft(model, draft):
    """Raises TypeError for a draft that cannot guess, and ValueError for one that is known to have another vocabulary."""
    if not callable(getattr(draft, "propose", None)):
        what = type(draft).__name__
        raise TypeError(f"the draft is a {what}, which has no method propose; wrap a smaller model: nt.ModelDraft(model)")
    theirs, ours = vocabulary_of(draft), vocabulary_of(model)
    if None not in (theirs, ours) and theirs != ours:
        raise ValueError(f"the draft has a vocabulary of {theirs} tokens, and the model one of {ours}; use a draft with the same "
                         "vocabulary")


def vocabulary_of(part):
    """Returns the number of tokens that a draft or a model knows, or None if it does not say it."""
    return getattr(part, "vocab_size", None) or getattr(getattr(part, "embedding", None), "vocab_size", None)


def check_vocabulary(p, q):
    if q.shape[-1] != p.shape[-1]:
        raise ValueError(f"the draft has distributions of {q.shape[-1]} tokens, and the model of {p.shape[-1]}; use a draft "
                         "with the same vocabulary")
