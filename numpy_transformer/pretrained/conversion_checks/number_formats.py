"""Numbers that were read as those of another format: bfloat16 as float16, or with their bytes in the wrong order."""

import numpy as np

from .changes import Note

LEAST_ENTRIES = 64
NARROW, WIDE = 0.8, 4.0                 # standard deviations of log2 |w| that weights have; normal numbers have 1.6


def misread_numbers(model):
    """Yields a Note for each way of reading numbers wrongly whose undoing gives weights their usual spread of magnitudes."""
    odd = {name: parameter.data for name, parameter in model.named_parameters()
           if parameter.data.ndim == 2 and parameter.data.size >= LEAST_ENTRIES and not is_usual(parameter.data)}
    explained = {}
    for name, array in odd.items():
        explanation = next((how for how, undo in UNDO.items() if is_usual(undo(array))), None)
        explained.setdefault(explanation, []).append(name)
    for explanation, names in explained.items():
        if explanation is not None:
            yield Note(f"The numbers of {', '.join(names)} have magnitudes that no weights have, and usual ones if "
                       f"they are {explanation}: convert these arrays again with the dtype that the file names.",
                       tuple(names))


def whole_numbers(model):
    """Yields a Note about matrices of whole numbers: quantized weights that were not multiplied by their scale."""
    names = tuple(name for name, parameter in model.named_parameters()
                  if parameter.data.ndim == 2 and np.ptp(parameter.data) > 2
                  and (parameter.data == np.rint(parameter.data)).all())
    if names:
        yield Note(f"The entries of {', '.join(names)} are whole numbers: these are quantized weights, which have to be "
                   "multiplied by their scale.", names)


def is_usual(array):
    """Returns True if the magnitudes of the nonzero entries spread as those of weights do."""
    array = np.abs(array[np.isfinite(array) & (array != 0)], dtype=np.float64)
    return len(array) >= LEAST_ENTRIES and NARROW < np.log2(array).std() < WIDE


def bfloat16_taken_for_float16(array):
    with np.errstate(over="ignore"):
        bits = array.astype(np.float16).view(np.uint16)
    return (bits.astype(np.uint32) << 16).view(np.float32)


def float16_taken_for_bfloat16(array):
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32) >> 16
    return bits.astype(np.uint16).view(np.float16).astype(np.float32)


def bytes_of_float32_swapped(array):
    return np.ascontiguousarray(array, np.float32).byteswap()


def bytes_of_float16_swapped(array):
    with np.errstate(over="ignore"):
        return array.astype(np.float16).byteswap().astype(np.float32)


UNDO = {"read as bfloat16 instead of float16": bfloat16_taken_for_float16,
        "read as float16 instead of bfloat16": float16_taken_for_bfloat16,
        "read with their bytes in the other order": bytes_of_float32_swapped,
        "read as float16 with their bytes in the other order": bytes_of_float16_swapped}
