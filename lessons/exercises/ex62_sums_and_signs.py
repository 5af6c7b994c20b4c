"""Exercise 62: Predict: sums and signs of a loss

About 7 lines, 10 minutes.  Lesson: numpy-transformer lesson 01
Check:  numpy-transformer exercise check 62
Hint:   numpy-transformer exercise hint 62
"""

import math

import numpy as np


def sums_and_signs():
    """Softmax and cross-entropy, N = 4 rows of V = 5 logits z; loss: the mean of -log p of the targets; dz = dloss/dz.

    Predict, without running anything. Return these six numbers in a tuple:
    1. the sum of each row of dz
    2. the sign of dz at the target (-1, 0 or 1)
    3. the sign of dz at any other token
    4. the loss if all logits are equal (math.log is there)
    5. dz at the target if all logits are equal
    6. every entry of the gradient of z through softmax alone, p = softmax(z), if dp is 1 everywhere
    """
    # TODO: replace this line.
    raise NotImplementedError
