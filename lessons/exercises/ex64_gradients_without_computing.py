"""Exercise 64: Predict: gradients without computing

About 7 lines, 10 minutes.  Lesson: numpy-transformer lesson 10
Check:  numpy-transformer exercise check 64
Hint:   numpy-transformer exercise hint 64
"""

import math

import numpy as np


def gradients_without_computing():
    """Gradients that can be said beforehand; dy is the gradient of the output y.

    Predict, without running anything. Return these six numbers in a tuple:
    1. LayerNorm, random x, gamma and dy: the sum of dx over the features of a token
    2. LayerNorm, x (3, 5, 12), dy = 1 everywhere: every entry of dbeta
    3. LayerNorm with gamma = 1 and dy = 1 everywhere, random x: every entry of dx
    4. self-attention with biases, random x and dy: every entry of the gradient of the key bias
    5. y = x + f(x), f a feed-forward layer whose last weight and bias are 0; dy = 1 everywhere: every entry of dx
    6. there, with random x: is the gradient of that last weight 0 as well (1 for yes, 0 for no)?
    """
    # TODO: replace this line.
    raise NotImplementedError
