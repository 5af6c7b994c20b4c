"""Exercise 80: A step of Adam with sharded state

About 7 lines, 15 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 20
Check:  numpy-transformer exercise check 80
Hint:   numpy-transformer exercise hint 80
"""

import math

import numpy as np


def sharded_adam_step(w, gradients, m, v, t, lr, beta1, beta2, eps):
    """One step of Adam on n ranks, each of which keeps m and v of its own chunk only (ZeRO-1, Rajbhandari et al. 2020).

    w: (N,) the weights, the same on all ranks. They are cut into n equal chunks, one after the other.
    gradients: (n, N), row r is the gradient that rank r has computed. The gradient of the batch is their sum.
    m, v: (n, N / n), row r is what rank r keeps: the running means of g and of g² for chunk r.
    t: the number of this step, 1, 2, 3, ...  lr, beta1, beta2, eps: numbers, as in Adam (exercise 52).
    Your function plays all n ranks: reduce-scatter the gradients, update chunk r on rank r, all-gather the weights.
    Return w: (N,) after the step, as every rank has it then; m, v: (n, N / n) after the step, not corrected.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
