"""Exercise 58: The nearest sentence

About 5 lines, 10 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 14
Check:  numpy-transformer exercise check 58
Hint:   numpy-transformer exercise hint 58
"""

import math

import numpy as np


def nearest_sentences(vectors, others):
    """How similar sentences are, by the cosine of the angle between their vectors, a b / (|a| |b|).

    vectors: (N, D), a vector for each sentence.  others: (M, D), those of the sentences to compare with. No vector
    is 0.
    Return similarity: (N, M), the cosine of each of the N with each of the M, and nearest: (N,) integers, for each of
    the N which of the M, counted from 0, is most similar to it (cosine 1 = the same direction, -1 = the opposite one).
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
