"""Exercise 09: The tied embedding, backward

About 4 lines, 15 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 03
Check:  numpy-transformer exercise check 09
Hint:   numpy-transformer exercise hint 09
"""

import math

import numpy as np


def tied_embedding_backward(ids, dy, h, dz):
    """The gradient of a table that is used at both ends of a model: y = sqrt(D) table[ids], ..., z = h tableᵀ.

    ids: (...), whole numbers from 0 to V - 1, which may repeat.  dy: (..., D), dL/dy.
    h: (..., D), what the model makes of y.  dz: (..., V), dL/dz, the gradient of the logits.
    Return dtable: (V, D), the gradient of the one table, of the dtype of dz.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
