"""Exercise 52: A step of Adam

About 6 lines, 15 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 19
Check:  numpy-transformer exercise check 52
Hint:   numpy-transformer exercise hint 52
"""

import math

import numpy as np


def adam_step(w, g, m, v, t, lr, beta1, beta2, eps):
    """One step of Adam for one array of parameters (Kingma and Ba 2015, algorithm 1).

    w: (...) the parameters.  g: (...) their gradient.
    m, v: (...) the running means of g and of g², as the step before has left them; 0 before the first step.
    t: the number of this step, 1, 2, 3, ...
    lr: the learning rate.  beta1, beta2: the weights of the old mean, in m and in v.
    eps: a number that is added to the root of the corrected v.
    Since they start at 0, m and v lie too close to it at first: the step is made with means corrected for that.
    Return w, m, v: (...) after this step; m and v as the next step takes them, not corrected.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
