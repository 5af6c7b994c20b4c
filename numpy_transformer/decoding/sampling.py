"""Sampling: each token drawn from the model's own distribution, or from the likelier part of it."""

import numpy as np

from ..layers.softmax import Softmax
from ..argument_checks import check_positive
from .continuation import PromptContinuation


def generate(model, ids, count, temperature=1.0, top_k=None, top_p=None, stop=(), rng=None, cached=True):
    """The prompt ids continued by `count` tokens, or fewer where a stop token comes first (it is kept).

    Parameters:
        model : a CausalLanguageModel in eval(); only the latest max_len tokens are seen
        ids : one prompt, or a list of prompts of any lengths; the result is a list of ids, or a list of such lists
        temperature, top_k, top_p : as next_token_probabilities
        stop : ids that end a text
        rng : generator or seed; each prompt draws from a stream of its own, whatever the others do
        cached : bool, keep keys and values instead of computing them again for each token

    Raises:
        ValueError for an empty prompt, a model in train(), or a choice outside its range.
    """
    single = not len(ids) or np.ndim(ids[0]) == 0
    state = PromptContinuation(model, [ids] if single else ids, cached)
    check_positive(count=count)
    seeds = np.random.default_rng(rng).integers(2 ** 63, size=len(state.ids))
    streams = [np.random.default_rng(seed) for seed in seeds]
    texts = [list(map(int, prompt)) for prompt in ([ids] if single else ids)]
    going, stop = np.ones(len(texts), bool), set(np.ravel(stop).tolist())
    for _ in range(count):
        p = next_token_probabilities(state.logits(), temperature, top_k, top_p)
        tokens = [int(stream.choice(len(row), p=row)) for stream, row in zip(streams, p)]
        for row in np.flatnonzero(going):
            texts[row].append(tokens[row])
            going[row] = tokens[row] not in stop
        if not going.any():
            break
        state.append(tokens)
    return texts[0] if single else texts


def next_token_probabilities(logits, temperature=1.0, top_k=None, top_p=None):
    """softmax(logits / temperature) (..., V) in float64, restricted to the likeliest tokens.

    temperature : 0 gives all to the likeliest token, 1 takes the model as it is, more makes it bolder
    top_k : the k likeliest remain (Fan, Lewis and Dauphin 2018, section 5)
    top_p : the fewest likeliest tokens remain that have probability top_p together (Holtzman et al. 2020, section 3)
    """
    check_choices(temperature, top_k, top_p)
    logits = np.asarray(logits, np.float64)
    if temperature == 0:
        return np.eye(logits.shape[-1])[logits.argmax(-1)]
    p = Softmax().eval()((logits - logits.max(-1, keepdims=True)) / temperature)    # 0 first: it cannot overflow
    order = np.argsort(-p, -1, kind="stable")
    ranked = np.take_along_axis(p, order, -1)
    if top_k is not None:
        ranked[..., top_k:] = 0
    if top_p is not None and top_p < 1:
        ranked /= ranked.sum(-1, keepdims=True)
        ranked[np.cumsum(ranked, -1) - ranked >= top_p] = 0
    np.put_along_axis(p, order, ranked, -1)
    return p / p.sum(-1, keepdims=True)


def check_choices(temperature, top_k, top_p):
    if not 0 <= temperature < np.inf:
        raise ValueError(f"temperature = {temperature} must be 0 (always the likeliest token) or above; 1 samples from "
                         "the model as it is")
    if top_k is not None:
        check_positive(top_k=top_k)
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p = {top_p} must lie in (0, 1]; 1 keeps every token, 0.9 is usual")
