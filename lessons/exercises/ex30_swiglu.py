"""Exercise 30: SwiGLU

About 4 lines, 10 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 09
Check:  numpy-transformer exercise check 30
Hint:   numpy-transformer exercise hint 30
"""

import math

import numpy as np


def swiglu(x, Wg, Wu, Wd):
    """The gated feed-forward layer without biases, y = (silu(x Wg) * (x Wu)) Wd, silu(g) = g / (1 + exp(-g)).

    x: (..., D).  Wg, Wu: (D, F), gate and up.  Wd: (F, D), down.  Return y: (..., D). Entries of x Wg may lie in the
    thousands: y must be finite there too. That NumPy warns of an overflow does not matter.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
