"""Exercise 75: Question: encoder and decoder

About 8 lines, 10 minutes.  Lesson: numpy-transformer lesson 13
Check:  numpy-transformer exercise check 75
Hint:   numpy-transformer exercise hint 75
"""

import math

import numpy as np


def encoder_and_decoder():
    """What is the difference of encoder and decoder?  Say it without running anything.

    The source has 4 tokens, the last one is padding; the target has 3, none is padding. Return these seven in a tuple,
    the first three as arrays of 0 and 1, a row for each query, a column for each key, 1 = may attend. As a query, a
    token that is padding has a row like any other:
    1. (4, 4): the self-attention of the encoder
    2. (3, 3): the self-attention of the decoder
    3. (3, 4): the cross-attention
    4. how many numbers the matrices of an encoder block hold, in units of D² (D = d_model, d_ff = 4 D; no biases)
    5. the same for a decoder block with cross-attention
    6. how often the encoder runs while the decoder writes 5 tokens, one after the other
    7. how many cross-attention layers a language model such as GPT-2 has
    """
    # TODO: replace this line.
    raise NotImplementedError
