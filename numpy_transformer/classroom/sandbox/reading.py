"""Reads files that a student's program left behind: no links, no pipes, no pickles and nothing large."""

import json
import os
import re
import stat

import numpy as np

from .worker import MESSAGE_LENGTH

LARGEST = 1 << 20                               # bytes of a file that is read
LARGEST_REPORT = 1 << 16                        # bytes of a report
HEADER = re.compile(rb"\{'descr': '([<>|=][fiub]\d{1,2})', 'fortran_order': (True|False), "
                    rb"'shape': \(((?:\d{1,9}, ?)*\d{0,9})\), \} *\n")


def read_bytes(path, most=LARGEST, whole=True):
    """Returns the first `most` bytes of a regular file, or None. Never follows a link and never blocks.

    Parameters:
        whole : if True, returns None for a file that is larger than `most`
    """
    flags = [getattr(os, f"O_{name}", 0) for name in ("RDONLY", "NOFOLLOW", "NONBLOCK", "BINARY")]
    try:
        descriptor = os.open(path, sum(flags))
    except OSError:                             # missing, a link, or not readable
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or whole and status.st_size > most:
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(most)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def read_array(path, most=LARGEST):
    """Returns the numeric array in a .npy file as NumPy writes it, or None if the file is anything else."""
    data = read_bytes(path, most) or b""
    header = HEADER.match(data, 10)
    if data[:8] != b"\x93NUMPY\x01\x00" or not header or header.end() != 10 + int.from_bytes(data[8:10], "little"):
        return None
    shape = tuple(map(int, re.findall(rb"\d+", header[3])))
    try:
        entries = np.frombuffer(data, header[1].decode(), offset=header.end())
        return entries.reshape(shape, order="F" if header[2] == b"True" else "C")
    except (TypeError, ValueError, OverflowError):          # no such dtype, or the size does not fit the shape
        return None


def read_report(path):
    """Returns the short texts, and lists of short texts, in a JSON report of the worker. Drops everything else."""
    try:
        report = json.loads(read_bytes(path, LARGEST_REPORT) or b"{}")
    except (ValueError, RecursionError):        # not JSON, or nested too deeply: written by the student's program
        return {}
    report = report if isinstance(report, dict) else {}
    texts = {key: value[:MESSAGE_LENGTH] for key, value in report.items() if isinstance(value, str)}
    lists = {key: [item[:200] for item in value[:20]] for key, value in report.items()
             if isinstance(value, list) and all(isinstance(item, str) for item in value)}
    return texts | lists
