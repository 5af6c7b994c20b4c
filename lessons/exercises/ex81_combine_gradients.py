"""Exercise 81: The gradient of a batch from its parts

About 5 lines, 10 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 20
Check:  numpy-transformer exercise check 81
Hint:   numpy-transformer exercise hint 81
"""

import math

import numpy as np


def combine_gradients(gradients, counts):
    """The gradient of a batch's mean loss from the gradients of its parts.

    gradients: (n, ...), gradients[k] is the gradient of the mean over the targets of part k that count.
    counts: (n,) integers, how many targets of part k count; at least one of them is above 0. A part in which all
        targets are padding has the count 0. Its mean is 0 / 0, so its gradient is NaN; it must not matter.
    Return gradient: (...), that of the mean over the targets of all parts that count. For float32 gradients it is
        float32: a NumPy integer such as counts[0] would make float64 of it; multiply and divide by int(...) of them.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
