"""Exercise 45: BERT's corruption

About 4 lines, 15 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 14
Check:  numpy-transformer exercise check 45
Hint:   numpy-transformer exercise hint 45
"""

import math

import numpy as np


def corrupt(ids, chosen, fate, anything):
    """BERT's corruption of texts for training, with given random numbers. The id of [MASK] is 3.

    ids: (B, T) integers.  chosen: (B, T) boolean, True = this token is to be predicted.  fate: (B, T), uniform in
    [0, 1).  anything: (B, T) integers, ids of random words.
    Of the chosen tokens those with a fate below 0.8 become [MASK], those with a fate of at least 0.9 become what stands
    in `anything`, and those between stay as they are. The model must predict all chosen ones, and no others.
    Return corrupted: (B, T), what the model reads, and targets: (B, T): the chosen tokens' own ids, -1 elsewhere.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
