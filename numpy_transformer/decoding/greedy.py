"""Greedy decoding: always the most likely token."""

import numpy as np

from ..argument_checks import check_positive
from ..models import EncoderDecoder
from .continuation import TargetContinuation


def greedy_decode(model: EncoderDecoder, source: np.ndarray, bos: int, eos: int, max_len: int,
                  cached: bool = True) -> np.ndarray:
    """Returns target ids (B, at most max_len), each the most likely token given those before it; bos is not included.

    A row that has reached eos is filled with eos. Decoding stops when all rows have reached it.

    Parameters:
        model : an EncoderDecoder in eval()
        source : (B, S) ids
        bos, eos : ids of the tokens that begin and end a target
        max_len : int, the length of the longest result
        cached : bool (True), keep keys and values instead of computing them again for each token
    Raises: ValueError for a model in train(), or sources without tokens.
    """
    check_positive(max_len=max_len)
    state = TargetContinuation(model, source, bos, cached)
    ended = np.zeros(len(state.ids), bool)
    while state.written.shape[1] < max_len and not ended.all():
        tokens = np.where(ended, eos, state.logits().argmax(-1))
        state.append(tokens)
        ended |= tokens == eos
    return state.written
