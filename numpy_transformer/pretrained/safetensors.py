"""The .safetensors format: arrays by name in one file, without anything that could be executed.

A file has three parts:

    8 bytes         n, the length of the header, an integer with its lowest byte first
    n bytes         the header, JSON: {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
    the rest        the arrays one after another; data_offsets are counted from here, and leave no gaps

The key "__metadata__" of the header is not an array but a dict of strings. Spaces after the JSON text fill the header
to a multiple of 8 bytes, so that every array starts at an address that suits its dtype.
Source: the description of the format in github.com/huggingface/safetensors.
"""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..file_checks import MALFORMED, check_form, check_name, count_of, quoted, reason_of
from ..outputs import open_new

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "<i1",
          "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "<u1", "BOOL": "?", "BF16": "<u2"}
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items() if name != "BF16"}
LONGEST_HEADER = 100 * 2 ** 20                  # the limit of the format
FORM = {"dtype": str, "shape": [int], "data_offsets": [int]}
LFS_POINTER = b"version "                       # the first 8 bytes of the text that Git LFS keeps in place of a file


class TensorEntry(NamedTuple):
    """Where one array lies in a file: its bytes are those from `start` up to `stop`."""
    dtype: str
    shape: tuple
    start: int
    stop: int


class TensorFile(Mapping):
    """The arrays of a .safetensors file by name. Each access reads the array from the file, into memory of its own.

    bfloat16, which NumPy does not have, becomes float32, which represents its values exactly.

    Parameters: path : path of the file
    Attributes: `entries`, {name: TensorEntry}, read from the header; `metadata`, {str: str}
    Raises: ValueError if the file is damaged or not a .safetensors file; for an array of a dtype that NumPy lacks
    """

    def __init__(self, path):
        self.path = path
        self.metadata = {}
        try:
            with open(path, "rb") as file:
                if file.read(8) == LFS_POINTER:
                    raise ValueError("it holds only a pointer to the weights, which `git lfs pull` downloads")
                file.seek(0)
                self.entries = self.read_header(file, os.path.getsize(path))
        except (OSError, ValueError, *MALFORMED) as error:
            raise ValueError(f"cannot read the arrays of {str(path)!r}: {reason_of(error)}; copy or download the file "
                             "again") from error

    def read_header(self, file, size):
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(LONGEST_HEADER, size - 8):
            raise ValueError(f"its first 8 bytes announce a header of {length:,} bytes, and the file has {size:,}")
        header = json.loads(file.read(length))
        self.metadata = header.pop("__metadata__", {})
        check_form(self.metadata, {str: str}, "__metadata__")
        entries = {}
        end = start = 8 + length
        for name, description in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            check_name(name)
            check_form(description, FORM, name)
            first, last = description["data_offsets"]
            entry = TensorEntry(description["dtype"], tuple(description["shape"]), start + first, start + last)
            check_entry(name, entry, end)
            entries[name] = entry
            end = entry.stop
        if end != size:
            raise ValueError(f"its arrays need {end:,} bytes, but the file has {size:,}")
        return entries

    def __getitem__(self, name):
        entry = self.entries[name]
        if entry.dtype not in DTYPES:
            raise ValueError(f"{name} in {str(self.path)!r} has the dtype {entry.dtype}, which NumPy does not have")
        array = np.fromfile(self.path, DTYPES[entry.dtype], math.prod(entry.shape), offset=entry.start)
        if entry.dtype == "BF16":               # the upper half of the bits of a float32
            array = np.left_shift(array, 16, dtype=np.uint32).view(np.float32)
        return array.reshape(entry.shape)

    def __iter__(self):
        return iter(self.entries)

    def __len__(self):
        return len(self.entries)


def check_entry(name, entry, end):
    """Raises ValueError unless the array begins where the one before it ends, and its bytes fit its shape."""
    if entry.start != end or entry.stop < entry.start:
        raise ValueError(f"{name} lies at bytes {entry.start:,} to {entry.stop:,}, but the array before it ends at "
                         f"{end:,}")
    if not entry.dtype.isidentifier() or len(entry.dtype) > 20:
        raise ValueError(f"{name} has the dtype {quoted(entry.dtype)}, which is none")
    size, count = entry.stop - entry.start, count_of(name, entry.shape)
    if entry.dtype in DTYPES and size != count * np.dtype(DTYPES[entry.dtype]).itemsize:
        raise ValueError(f"{name} has {size:,} bytes, which do not make an array {entry.shape} of {entry.dtype}")


def write_safetensors(path, arrays, metadata=None):
    """Writes arrays by name to a .safetensors file, flushed to the disk.

    The largest dtype comes first, and names are in alphabetical order, so that the same arrays give the same bytes as
    in the reference implementation. An array is copied only if it is not contiguous, while it is written.

    Parameters: path : path of the file; arrays : {name: array}; metadata : {str: str} or None ({"format": "pt"},
        without which transformers does not read the file)
    Raises: ValueError for an array of a dtype that the format lacks; OSError if the file cannot be written
    """
    header = {"__metadata__": {"format": "pt"} if metadata is None else metadata}
    end = 0
    order = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    for name in order:
        array = arrays[name]
        dtype = array.dtype.newbyteorder("<")
        if dtype not in NAMES:
            raise ValueError(f"{name} has the dtype {array.dtype}, which .safetensors files cannot hold; "
                             "convert it to float32")
        header[name] = {"dtype": NAMES[dtype], "shape": list(array.shape),
                        "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with open_new(Path(path)) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            array = arrays[name]
            file.write(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(-1).view(np.uint8).data)
        file.flush()
        os.fsync(file.fileno())
