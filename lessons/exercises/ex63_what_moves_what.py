"""Exercise 63: Predict: what moves what

About 6 lines, 10 minutes.  Lesson: numpy-transformer lesson 06
Check:  numpy-transformer exercise check 63
Hint:   numpy-transformer exercise hint 63
"""

import math

import numpy as np


def what_moves_what():
    """Tokens 0 to 4. One input is changed: which outputs can change? The blocks have residual connections.

    Predict, without running anything. Return five arrays in a tuple, each one such as np.array([1, 0, 0, 0, 0]), where
    1 = this output can change, 0 = it stays as it is:
    1. a decoder of two blocks with a causal mask, input 2 is changed
    2. an encoder of two blocks with padding at 3 and 4, hidden by the mask (B, 1, 1, S); input 3 is changed
    3. an encoder of two blocks in which each token may attend to itself and to the one before it; input 1 is changed
    4. a feed-forward layer, input 1 is changed
    5. one cross-attention without a mask from 5 target tokens to 5 source tokens; source 4 is changed
    """
    # TODO: replace this line.
    raise NotImplementedError
