"""Exercise 47: Beam search

About 14 lines, 40 minutes.  Lesson: numpy-transformer lesson 13
Check:  numpy-transformer exercise check 47
Hint:   numpy-transformer exercise hint 47
"""

import math

import numpy as np


def log_softmax(z):
    """z: (V,) logits.  Return (V,), the logarithms of their probabilities."""
    z = z - z.max()
    return z - np.log(np.exp(z).sum())


def beam_search(model, bos, eos, max_len, beam, alpha):
    """Follow the `beam` best unfinished texts side by side, and return the best finished one.

    At first there is one text, [bos]. In each step every unfinished text is extended by every token, and all these
    candidates are ranked by log P, the sum of the log probabilities of their tokens. Of the `beam` best candidates
    those that end in eos are finished. The `beam` best that do not end in eos are unfinished, and go on.
    In the step that writes the last token, number max_len, all of the `beam` best candidates are finished. The search
    ends there, or as soon as a step leaves `beam` or more finished texts, those of earlier steps counted.
    The best finished text has the highest score: log P / ((5 + length) / 6)^alpha, length counting eos and not bos.

    model: a function of the ids so far, a list or a (T,) array -> logits: (T, V); row t scores the token behind ids[t].
    bos, eos: different ids.  max_len, beam: whole numbers, 1 or more.  alpha: a number, 0 or more.
    Return ids: (n,), an array, without bos and with eos at its end if it came; score: a number. There are no ties.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
