"""Exercise 77: Predict: what moves what in an encoder

About 8 lines, 10 minutes.  Lesson: numpy-transformer lesson 14
Check:  numpy-transformer exercise check 77
Hint:   numpy-transformer exercise hint 77
"""

import math

import numpy as np


def what_moves_what_in_an_encoder():
    """A text of 5 tokens in encoders of two blocks, without a causal mask. Which outputs move, which gradients are 0?

    Predict, without running anything. Return seven arrays in a tuple, 1 to 6 such as np.array([1, 0, 0, 0, 0]), where
    1 = this token's vector can change, or its row of the gradient is not 0, and 0 = it stays, or is exactly 0:
    1. nothing is padding; input 2 is changed: which outputs can change?
    2. tokens 3 and 4 are padding, hidden by the mask (B, 1, 1, S); input 1 is changed: which outputs can change?
    3. a SequenceClassifier, tokens 3 and 4 are padding: the gradient of the encoder's output
    4. a MaskedLanguageModel, nothing is padding, targets (-1, 9, -1, 7, -1), the loss ignores -1: dlogits
    5. there: the gradient of the encoder's output, before the layers that make logits of it token by token
    6. there: the gradient of the encoder's input, the vectors that enter the first block
    7. A TokenClassifier reads the ids (4, 6, 3, 6, 5), and all 5 tags count: the gradient of its embedding table, which
       has 8 rows: 8 numbers, one for each row
    """
    # TODO: replace this line.
    raise NotImplementedError
