"""Exercise 70: Read a figure: why sqrt(d)

About 8 lines, 5 minutes.  Lesson: numpy-transformer lesson 05
Check:  numpy-transformer exercise check 70
Hint:   numpy-transformer exercise hint 70
"""

import math

import numpy as np


def scaling_in_the_figure():
    """Look at figures/05_scaling.png: attention to 16 random keys, its scores divided by sqrt(d) or not, over d.

    Return seven numbers in a tuple: 1 for each statement that the figure bears out, else 0, and the number of 7.
    1. Not divided, the variance of the scores is about d.
    2. Divided, the variance of the scores grows with d, but more slowly.
    3. Not divided, at d = 512 one key has more than 0.9 of the weight on average.
    4. Divided, the largest weight stays below 0.3 for every d of the figure.
    5. Not divided, the larger d is, the more of the gradient passes through softmax.
    6. At d = 512 the division lets more than a hundred times as much of the gradient through.
    7. Of d = 2, 8, 32, 128, 512: the smallest at which, not divided, the largest weight exceeds one half.
    """
    # TODO: replace this line.
    raise NotImplementedError
