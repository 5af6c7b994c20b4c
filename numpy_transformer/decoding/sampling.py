"""Sampling: each token is drawn from the model's distribution, or from its more likely part."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..argument_checks import check_positive
from ..layers.softmax import Softmax
from ..models import LanguageModel
from ..types import Seed
from .continuation import PromptContinuation


def generate(model: LanguageModel, ids: Any, count: int, temperature: float = 1.0, top_k: int | None = None,
             top_p: float | None = None, stop: Sequence[int] = (), rng: Seed = None,
             cached: bool = True, changes: Sequence[Callable[..., np.ndarray]] = ()) -> list[int] | list[list[int]]:
    """Returns the prompt ids followed by `count` new tokens, or fewer where a stop token comes first (it is included).

    Parameters:
        model : a LanguageModel in eval(); it sees only the latest max_len tokens
        ids : one prompt, or a list of prompts of any lengths; the result is a list of ids, or a list of such lists
        count : int, the number of new tokens
        temperature=1.0, top_k=None, top_p=None : as in next_token_probabilities
        stop : ids that end a text
        rng : generator or seed, or None; each prompt draws from its own stream, so the other prompts do not affect it
        cached : bool (True), keep keys and values instead of computing them again for each token
        changes : functions (logits (rows, V), ids of each row) -> logits, which are called one after the other in each step,
            such as RepetitionPenalty; see logit_changes.py
    Raises: ValueError for an empty prompt, a model in train(), or a setting outside its range.
    """
    is_single = not len(ids) or np.ndim(ids[0]) == 0
    prompts = [ids] if is_single else ids
    state = PromptContinuation(model, prompts, cached)
    check_positive(count=count)
    stops = set(np.ravel(stop).tolist())
    seeds = np.random.default_rng(rng).integers(2 ** 63, size=len(prompts))
    streams = [np.random.default_rng(seed) for seed in seeds]
    texts = [list(map(int, prompt)) for prompt in prompts]
    unfinished = np.ones(len(texts), bool)
    for _ in range(count):
        logits = state.logits()
        for change in changes:
            logits = change(logits, texts)
        p = next_token_probabilities(logits, temperature, top_k, top_p)
        tokens = [int(stream.choice(len(row), p=row)) for stream, row in zip(streams, p)]
        for row in np.flatnonzero(unfinished):
            texts[row].append(tokens[row])
            unfinished[row] = tokens[row] not in stops
        if not unfinished.any():
            break
        state.append(tokens)
    return texts[0] if is_single else texts


def next_token_probabilities(logits, temperature=1.0, top_k=None, top_p=None):
    """Returns softmax(logits / temperature) (..., V) in float64, restricted to the most likely tokens.

    Parameters:
        logits : (..., V)
        temperature : 1.0 leaves the distribution as it is; lower values favor likely tokens, 0 gives the most likely
            token probability 1, and higher values make the distribution more uniform
        top_k : int or None; only the k most likely tokens remain (Fan, Lewis and Dauphin 2018, section 5)
        top_p : float or None; the smallest set of most likely tokens remains whose probabilities sum to at least top_p
            (Holtzman et al. 2020, section 3)
    Raises: ValueError for a setting outside its range.
    """
    check_settings(temperature, top_k, top_p)
    logits = np.asarray(logits, np.float64)
    if temperature == 0:
        return (np.arange(logits.shape[-1]) == logits.argmax(-1)[..., None]).astype(np.float64)
    z = logits - logits.max(-1, keepdims=True)              # before the division, so that it cannot overflow
    p = Softmax().eval()(z / temperature)
    if top_k is not None or top_p is not None:              # sorting a large vocabulary takes time
        keep_most_likely(p, top_k, top_p)
    return p / p.sum(-1, keepdims=True)


def keep_most_likely(p, top_k, top_p):
    """Sets the probabilities of all other tokens to 0, in place."""
    order = np.argsort(-p, -1, kind="stable")
    ranked = np.take_along_axis(p, order, -1)
    if top_k is not None:
        ranked[..., top_k:] = 0
    if top_p is not None and top_p < 1:
        ranked /= ranked.sum(-1, keepdims=True)
        before = np.cumsum(ranked, -1) - ranked             # the probability of all tokens that are more likely
        ranked[before >= top_p] = 0
    np.put_along_axis(p, order, ranked, -1)


def check_settings(temperature, top_k, top_p):
    if not 0 <= temperature < np.inf:
        raise ValueError(f"temperature = {temperature} must be 0 (always the most likely token) or above; 1 samples "
                         "from the model's distribution as it is")
    if top_k is not None:
        check_positive(top_k=top_k)
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p = {top_p} must lie in (0, 1]; 1 keeps every token, 0.9 is usual")
