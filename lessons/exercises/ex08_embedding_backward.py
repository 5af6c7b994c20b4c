"""Exercise 08: The embedding, backward

About 5 lines, 15 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 03
Check:  numpy-transformer exercise check 08
Hint:   numpy-transformer exercise hint 08
"""

import math

import numpy as np


def embedding_backward(ids, dy, vocab_size, pad_id):
    """The gradient of an embedding's table: forward is y = sqrt(D) table[ids], and zeros wherever ids == pad_id.

    ids: (...), whole numbers from 0 to vocab_size - 1, which may repeat.  dy: (..., D), dL/dy.
    vocab_size: V, the number of rows of the table.  pad_id: the id of the padding, or None: then there is none.
    Return dtable: (V, D), of the dtype of dy. A row that had no influence on y has gradient 0.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
