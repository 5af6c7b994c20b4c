"""Exercise 73: Question: why positions

About 8 lines, 10 minutes.  Lesson: numpy-transformer lesson 04
Check:  numpy-transformer exercise check 73
Hint:   numpy-transformer exercise hint 73
"""

import math

import numpy as np


def why_positions():
    """Why does a Transformer need a positional encoding?  No dropout, random weights; 1 for yes, 0 for no.

    Say it without running anything. Return these seven in a tuple:
    1. The tokens that an encoder without positions reads are reversed. Are its outputs the old ones, in reversed order?
    2. Does the mean of its outputs over the tokens change when the tokens are reversed?
    3. A sinusoid is added before the encoder. Are the outputs then the old ones in reversed order?
    4. A decoder without positions, one block, causal mask: the first two of five tokens are exchanged. Can the output
       of the last token change?
    5. The same with two blocks?
    6. The sinusoid of position 0 for d_model = 4, sine first: an array of four numbers
    7. How many parameters that are learned does the sinusoid add to a model?
    """
    # TODO: replace this line.
    raise NotImplementedError
