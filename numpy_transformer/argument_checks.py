"""Checks of arguments that the components share. Each error names the value, the limit and the remedy.

A model checks its arguments in the parts of which it consists. What a script has called is the model, though, so that is
the class that an error names: `CausalLanguageModel: d_model = 10 is not divisible by num_heads = 3`.
"""

import numbers
import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any

import numpy as np

LARGEST_DIVISOR = 1024                          # of those that an error lists
PACKAGE = __name__.partition(".")[0]


def called_class(default: str = "") -> str:
    """Returns the name of the component's class whose constructor or method a script has called; it may lie far above."""
    frame: FrameType | None = sys._getframe(1)
    name = default
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == PACKAGE:
        component = frame.f_locals.get("self")
        if hasattr(component, "forward") and hasattr(component, "backward"):
            name = type(component).__name__
        frame = frame.f_back
    return name


def called() -> str:
    """Returns "SelfAttention: ", the beginning of an error, or "" if no component has been called."""
    name = called_class()
    return f"{name}: " if name else ""


def check_array(layer: Any, *arrays: Any) -> None:
    """Raises TypeError unless all arrays are NumPy arrays."""
    for x in arrays:
        if not isinstance(x, (np.ndarray, np.generic)):
            name = called_class(type(layer).__name__)
            raise TypeError(f"{name} takes NumPy arrays, got {type(x).__name__}; use np.array")


def check_last_dim(layer: Any, x: np.ndarray, name: str, size: int) -> None:
    """Raises an error unless x is an array (..., size); `name` is what the layer calls this dimension."""
    check_array(layer, x)
    if x.shape[-1:] != (size,):
        raise ValueError(f"{called_class(type(layer).__name__)}: the last dimension must be {name} = {size}, got shape "
                         f"{x.shape}; pass (..., {size}), or build the layer with another {name}")


def check_positive(**sizes: Any) -> None:
    """Raises ValueError unless every size is an integer of at least 1."""
    for name, size in sizes.items():
        is_integer = isinstance(size, (int, np.integer)) and not isinstance(size, bool)
        if not is_integer or size < 1:
            raise ValueError(f"{called()}{name} must be a whole number of at least 1, got {size!r}")


def check_numbers(**values: Any) -> None:
    """Raises TypeError unless every value is a number."""
    for name, value in values.items():
        if not isinstance(value, numbers.Real) or isinstance(value, bool):
            raise TypeError(f"{called()}{name} must be a number, got {value!r}")


def check_divides(whole_name: str, whole: int, part_name: str, part: int) -> None:
    """Raises ValueError unless both sizes are positive integers and `part` divides `whole`."""
    check_positive(**{whole_name: whole, part_name: part})
    if whole % part:
        divisors = [n for n in range(1, min(whole, LARGEST_DIVISOR) + 1) if whole % n == 0]
        raise ValueError(f"{called()}{whole_name} = {whole} is not divisible by {part_name} = {part}; "
                         f"choose {part_name} among {divisors}")


def check_choice(name: str, value: Any, choices: Iterable[Any]) -> None:
    """Raises ValueError unless `value` is one of the choices."""
    if value not in tuple(choices):
        raise ValueError(f"{called()}{name} = {value!r} is unknown; choose one of {', '.join(map(repr, choices))}")


def check_integers(values: Any, size: int, what: str, limit_name: str) -> np.ndarray:
    """Returns `values`, integers from 0 to size - 1, as an array of np.intp, the dtype with which NumPy indexes.

    Raises TypeError for another dtype and IndexError for a value outside this range.
    """
    values = as_integers(values, what)
    if values.size and (values.min() < 0 or values.max() >= size):
        first = tuple(map(int, np.argwhere((values < 0) | (values >= size))[0]))
        raise IndexError(f"{called()}{what} must lie in 0 to {size - 1} ({limit_name} = {size}), got {values[first]} "
                         f"at index {list(first)}; check the tokenizer, or build with a larger {limit_name}")
    return values.astype(np.intp, copy=False)


def as_integers(values: Any, what: str) -> np.ndarray:
    """Returns `values` as an array. Raises TypeError for another dtype and ValueError for rows of different lengths."""
    try:
        values = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{called()}{what} have rows of different lengths; pad them to one length, as "
                         "numpy_transformer.data.pad does") from error
    if values.dtype.kind not in "iu":
        remedy = "convert them with .astype(int)" if values.dtype.kind in "fb" else "turn a text into ids with a tokenizer"
        raise TypeError(f"{called()}{what} must be integers, got dtype {values.dtype}; {remedy}")
    return values


def check_ids(ids: Any, max_len: int, segments: np.ndarray | None = None) -> np.ndarray:
    """Returns the ids of one text (T,) or of several (B, T) as an array.

    Raises ValueError unless T is from 1 to max_len and the segments, if given, have the shape of the ids.
    """
    ids = as_integers(ids, "token ids")
    if ids.ndim not in (1, 2) or ids.size == 0 or ids.shape[-1] > max_len:
        raise ValueError(f"{called()}ids have shape {ids.shape}: wanted (B, T) or (T,) with T from 1 to max_len = "
                         f"{max_len}; shorten the text, or build the model with a larger max_len")
    if segments is not None and np.shape(segments) != ids.shape:
        raise ValueError(f"{called()}segments have shape {np.shape(segments)}: wanted the shape of the ids, {ids.shape}, "
                         "with one segment for each token")
    return ids


def check_token_mask(mask: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Returns a mask of tokens as a boolean array of this shape; True marks a real token."""
    mask = np.asarray(mask)
    if mask.dtype != bool or mask.shape != shape:
        raise ValueError(f"{called()}mask has dtype {mask.dtype} and shape {mask.shape}: wanted booleans, True = real "
                         f"token, of shape {shape}, one for each token")
    return mask
