"""Sampling: each token drawn from the model's own distribution."""

import numpy as np

from ..layers.softmax import Softmax


def generate(model, ids, count, temperature=1.0, rng=None):
    """ids (T,) continued by `count` tokens, each drawn from softmax(logits / temperature).

    model : a CausalLanguageModel in eval(); only the latest max_len tokens are seen.
    """
    if not temperature > 0:
        raise ValueError(f"temperature = {temperature} must be above 0; 1 samples from the model as it is")
    rng = np.random.default_rng(rng)
    ids = list(ids)
    softmax = Softmax().eval()
    for _ in range(count):
        logits = model(np.array(ids[-model.max_len:]))[-1]
        p = softmax(logits.astype(np.float64) / temperature)
        ids.append(int(rng.choice(len(p), p=p)))
    return ids
