"""Exercise 44: Greedy decoding

About 5 lines, 15 minutes.  Lesson: numpy-transformer lesson 12
Check:  numpy-transformer exercise check 44
Hint:   numpy-transformer exercise hint 44
"""

import math

import numpy as np


def greedy_decode(model, bos, eos, max_len):
    """The tokens behind bos, each the likeliest one given bos and all tokens before it.

    model: a function of the ids so far, a list or a (T,) array -> logits: (T, V); row t scores the token behind ids[t].
    bos: the id that a text begins with.  eos: another id, which ends it.  max_len: the most tokens to write, 1 or more.
    Return ids: (n,), an array of whole numbers, n at most max_len: without bos, and with eos at its end if it came.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
