"""Exercise 72: Question: the whole structure

About 7 lines, 10 minutes.  Lesson: numpy-transformer lesson 13
Check:  numpy-transformer exercise check 72
Hint:   numpy-transformer exercise hint 72
"""

import math

import numpy as np


def the_whole_structure():
    """Can you draw the whole structure of the Transformer?  Here in numbers, without running anything.

    The parts: 0 self-attention, 1 cross-attention, 2 feed-forward, 3 layer norm. The model has 6 encoder blocks and 6
    decoder blocks. Return these six in a tuple, the first three as arrays such as np.array([0, 1, 2, 3]):
    1. the parts of an encoder block in the order in which they run, post-norm as in the paper: norm(x + f(x))
    2. those of a decoder block, post-norm
    3. those of an encoder block, pre-norm: x + f(norm(x))
    4. how many attention layers the model has
    5. how many of its blocks receive the output of the encoder's last block as a second input
    6. how many layer norms the model has in its pre-norm form, where each stack ends in a further norm
    """
    # TODO: replace this line.
    raise NotImplementedError
