"""Exercise 71: Read a figure: dot products of positions

About 8 lines, 5 minutes.  Lesson: numpy-transformer lesson 04
Check:  numpy-transformer exercise check 71
Hint:   numpy-transformer exercise hint 71
"""

import math

import numpy as np


def positions_in_the_figure():
    """Look at figures/04_dot_products.png: dot products PE(t) · PE(s) of the sinusoid's rows, 100 positions, D = 128.

    Return seven numbers in a tuple: 1 for each statement that the figure bears out, else 0, and the number of 7.
    1. The dot product depends on the distance of t and s alone.
    2. Each position has its largest dot product with itself.
    3. With every further step of distance the dot product becomes smaller.
    4. The dot product tells whether s lies before or behind t.
    5. Positions more than 50 steps apart have dot products near 0, that is between -10 and 10.
    6. From distance 0 to distance 1 the dot product loses less than a tenth.
    7. The dot product of a position with itself: a whole number.
    """
    # TODO: replace this line.
    raise NotImplementedError
