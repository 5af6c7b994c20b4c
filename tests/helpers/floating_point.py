"""Floating-point errors as exceptions, also those whose NaN or infinity is thrown away later."""

import contextlib
import warnings

import numpy as np


@contextlib.contextmanager
def no_floating_point_errors(under="ignore"):
    """Raises RuntimeWarning for an overflow, a division by zero and an invalid operation, except for those of matmul.

    OpenBLAS computes with memory that does not enter the result, which at times sets the flags without an error
    (numpy/numpy#24067). A test that uses this therefore also verifies that its results are finite.
    """
    with np.errstate(over="warn", divide="warn", invalid="warn", under=under), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.filterwarnings("ignore", r".* encountered in matmul", RuntimeWarning)
        yield
