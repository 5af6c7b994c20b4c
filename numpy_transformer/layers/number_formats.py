"""Small floating-point formats: float32 numbers rounded to those that bfloat16, float16 or float8 can store."""

from typing import NamedTuple

import numpy as np


class NumberFormat(NamedTuple):
    """Numbers ± 1.mmm · 2^e with this many bits for e and for mmm.

    `largest` is the largest finite number. What rounds to a larger one becomes ± largest if `saturates`, else infinity.
    """

    exponent_bits: int
    mantissa_bits: int
    largest: float
    saturates: bool

    @property
    def smallest_exponent(self) -> int:
        """The exponent of the smallest normal numbers; smaller ones have the same spacing as these."""
        return 2 - 2 ** (self.exponent_bits - 1)


NUMBER_FORMATS = {
    "bfloat16": NumberFormat(8, 7, (2 - 2.0 ** -7) * 2.0 ** 127, False),
    "float16": NumberFormat(5, 10, 65504.0, False),
    "float8_e4m3": NumberFormat(4, 3, 448.0, True),
    "float8_e5m2": NumberFormat(5, 2, 57344.0, True),
}


def round_to(x: np.ndarray, number_format: str) -> np.ndarray:
    """Returns each number of x rounded to the nearest number of a small format, in the dtype of x.

    Between 2^e and 2^(e+1), the numbers of a format with m mantissa bits are multiples of 2^(e-m). A number halfway
    between two of them becomes the one that is an even multiple. Below the smallest normal exponent the spacing stays
    the same (subnormal numbers). In both float8 formats, numbers beyond the largest one, and infinities, become ± the
    largest one; in bfloat16 and float16 they become infinite. NaN stays NaN.

    Parameters: x : array of floats; number_format : "bfloat16", "float16", "float8_e4m3" or "float8_e5m2"
    Raises: ValueError for another format.
    Source: Micikevicius et al. 2022, table 1 (float8); IEEE 754 (rounding to nearest, ties to even).
    """
    if number_format not in NUMBER_FORMATS:
        raise ValueError(f"there is no number format {number_format!r}; choose among {', '.join(NUMBER_FORMATS)}")
    form = NUMBER_FORMATS[number_format]
    x = np.asarray(x)
    _, exponent = np.frexp(x)                               # |x| is in [2^(exponent-1), 2^exponent)
    step = np.maximum(exponent - 1, form.smallest_exponent) - form.mantissa_bits
    with np.errstate(over="ignore"):                        # the largest float32 numbers become infinite in bfloat16
        y = np.ldexp(np.rint(np.ldexp(x, -step)), step)     # np.rint rounds halves to even
    return np.where(abs(y) > form.largest, np.copysign(form.largest if form.saturates else np.inf, y), y).astype(x.dtype)
