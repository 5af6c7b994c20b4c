"""Greedy decoding: always the likeliest token."""

import numpy as np

from ..argument_checks import check_positive
from .continuation import TargetContinuation


def greedy_decode(model, source, bos, eos, max_len, cached=True):
    """Target ids (B, at most max_len) that follow bos, each the likeliest given those before it.

    model : an EncoderDecoder in eval(); source : (B, S) ids. A row that has reached eos stays there;
    decoding stops when all rows have.
    """
    check_positive(max_len=max_len)
    state = TargetContinuation(model, source, bos, cached)
    ended = np.zeros(len(state.ids), bool)
    while state.written.shape[1] < max_len and not ended.all():
        tokens = np.where(ended, eos, state.logits().argmax(-1))
        state.append(tokens)
        ended |= tokens == eos
    return state.written
