"""Exercise 74: Question: residuals and norms

About 9 lines, 10 minutes.  Lesson: numpy-transformer lesson 10
Check:  numpy-transformer exercise check 74
Hint:   numpy-transformer exercise hint 74
"""

import math

import numpy as np


def residuals_and_norms():
    """What do residual connections and layer norms do?  Say it without running anything.

    Six layers in a row, one feature each, the gradient at the output is 1. What is the gradient at the input, if
    1. each is y = f(x) and f has the slope 1/2 everywhere
    2. each is y = x + f(x) with the same f
    3. each is y = x + f(x), and f has the slope 0
    LayerNorm with gamma = 1, beta = 0 and an eps so small that it does not count; x a token whose features differ:
    4. the mean of the output's features
    5. the mean of their squares
    6. x becomes 1000 x: by which factor does the output change
    7. there, for the same gradient dy at the output: by which factor does the gradient dx change
    8. Which block lets dy reach its input unchanged if attention and feed-forward pass nothing back: 0 pre-norm,
       1 post-norm
    Return these eight numbers in a tuple.
    """
    # TODO: replace this line.
    raise NotImplementedError
