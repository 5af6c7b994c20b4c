"""Exercise 69: Read a figure: activations

About 8 lines, 5 minutes.  Lesson: numpy-transformer lesson 09
Check:  numpy-transformer exercise check 69
Hint:   numpy-transformer exercise hint 69
"""

import math

import numpy as np


def activations_in_the_figure():
    """Look at figures/09_activations.png: values and slopes of three activations for u from -4 to 4, and a difference.

    Return seven numbers in a tuple: 1 for each statement that the figure bears out, else 0, and the number of 7.
    1. GELU takes negative values.
    2. Of the three, SiLU reaches the lowest value.
    3. The slope of GELU lies between 0 and 1 everywhere.
    4. At u = 0 GELU and SiLU have the same slope.
    5. For every u above 0 the value of SiLU is below that of GELU.
    6. Somewhere the two forms of GELU differ by more than 0.001.
    7. At which u is the slope of GELU largest? Rounded to the nearest half, such as -0.5, 0 or 2.5.
    """
    # TODO: replace this line.
    raise NotImplementedError
