"""Exercise 54: The learning rate of the paper

About 1 line, 10 minutes.  Lesson: numpy-transformer lesson 19
Check:  numpy-transformer exercise check 54
Hint:   numpy-transformer exercise hint 54
"""

import math

import numpy as np


def noam_rate(step, d_model, warmup):
    """The learning rate of the Transformer paper (Vaswani et al. 2017, section 5.3).

    step: int, the number of this training step, 1, 2, 3, ...  d_model, warmup: int.
    Up to step = warmup the rate grows in proportion to step, from then on it falls as 1 / sqrt(step). At step = warmup
    both are the same, 1 / sqrt(d_model * warmup).  Return rate: a number.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
