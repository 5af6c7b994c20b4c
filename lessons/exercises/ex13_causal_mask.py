"""Exercise 13: The causal mask

About 1 line, 5 minutes.  Lesson: numpy-transformer lesson 06
Check:  numpy-transformer exercise check 13
Hint:   numpy-transformer exercise hint 13
"""

import math

import numpy as np


def causal_mask(T):
    """Which tokens a token may see, if it must not see those after it.

    T: int.  Return mask: (T, T) boolean, a row for each query and a column for each key; True = may attend. Token t may
    attend to the tokens 0 to t, itself included.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
