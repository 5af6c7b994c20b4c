"""Exercise 60: Teacher forcing

About 3 lines, 10 minutes.  Lesson: numpy-transformer lesson 15
Check:  numpy-transformer exercise check 60
Hint:   numpy-transformer exercise hint 60
"""

import math

import numpy as np


def teacher_forcing(target):
    """What a decoder reads in training, what it should say there, and what of it counts.

    target: (B, T) integers, in each row 1 = BOS, the ids of a text (from 3 on), 2 = EOS, and then 0 = PAD, up to the
    longest row's length. In training the decoder reads the right tokens, whatever it would have said itself, and at
    each one is asked for the one that follows.
    Return three arrays (B, T - 1): decoder_input: the ids read; wanted: the id asked for at each of them; counted:
    boolean, True where wanted is not PAD. The first two are parts of target as they stand there, with the EOS and PAD
    of shorter rows: no id is replaced.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
