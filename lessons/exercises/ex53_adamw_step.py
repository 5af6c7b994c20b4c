"""Exercise 53: A step of AdamW

About 7 lines, 10 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 19
Check:  numpy-transformer exercise check 53
Hint:   numpy-transformer exercise hint 53
"""

import math

import numpy as np


def adamw_step(w, g, m, v, t, lr, beta1, beta2, eps, weight_decay):
    """One step of Adam with decoupled weight decay (Loshchilov and Hutter 2019; scaled by lr, as in PyTorch).

    w: (...) the parameters.  g: (...) their gradient.
    m, v: (...) the running means of g and of g², as the step before has left them; 0 before the first step.
    t: the number of this step, 1, 2, 3, ...  lr, beta1, beta2, eps: numbers, as in Adam (exercise 52).
    weight_decay: beside Adam's step, and unseen by m and v, the w that came in shrinks towards 0 by the part
        lr * weight_decay of itself.
    Return w, m, v: (...) after this step; m and v as the next step takes them, not corrected.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
