"""Greedy decoding: always the likeliest token."""

import numpy as np


def greedy_decode(model, source, bos, eos, max_len):
    """Target ids (B, at most max_len) that follow bos, each the likeliest given those before it.

    model : an EncoderDecoder in eval(); source : (B, S) ids. A row that has reached eos stays there;
    decoding stops when all rows have.
    """
    source = np.asarray(source)
    memory = model.encode(source)
    target = np.full((len(source), 1), bos)
    for _ in range(max_len):
        token = model.decode(target, memory, source)[:, -1].argmax(-1)
        token = np.where((target[:, 1:] == eos).any(1), eos, token)
        target = np.concatenate([target, token[:, None]], 1)
        if (target[:, 1:] == eos).any(1).all():
            break
    return target[:, 1:]
