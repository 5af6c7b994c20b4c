"""What the grader sends to a worker, and the strict reading of what comes back. Nothing in it is trusted or pickled."""

import functools
import json
import re
from dataclasses import dataclass

import numpy as np

from .inside import fingerprints, tracing
from .inside.case_arguments import Function
from .inside.worker import (AFTER, AT_ONCE, AT_THE_END, CASE, EDIT, LOADING, MESSAGE_LENGTH, NODES, OUTPUT, RECORD, REQUEST,
                            TRIED, VALUES)

LARGEST = 1 << 20                               # bytes of an array that is read
LARGEST_REPORT = 1 << 16                        # bytes of a report
MOST_RECORDS = 5000                             # of one task
MOST_NODES, MOST_OUTPUTS = 1000, 50             # of a program, and of an exercise
HEADER = re.compile(rb"\{'descr': '([<>|=][fiub]\d{1,2})', 'fortran_order': (True|False), "
                    rb"'shape': \(((?:\d{1,9}, ?)*\d{0,9})\), \} *\n")


def request(job, cases=b"", arrays=b""):
    """Returns the bytes of one request: a dictionary, the cases as JSON text, and the bytes of their arrays."""
    job = json.dumps(job).encode()
    return REQUEST.pack(len(job), len(cases), len(arrays)) + job + cases + arrays


@functools.lru_cache(maxsize=256)               # the same cases are sent once for each student
def pack(cases):
    """Returns a tuple of cases as JSON text, and the bytes of their arrays."""
    parts, length = [], 0

    def as_json(value):
        nonlocal length
        if isinstance(value, (np.ndarray, np.generic)):
            start = length
            parts.append(value.tobytes())
            length += len(parts[-1])
            return {"array": [value.dtype.str, value.shape, start, length]}
        if isinstance(value, Function):
            return {"function": value.source, "arrays": {key: as_json(part) for key, part in value.arrays.items()}}
        if isinstance(value, tuple):
            return {"tuple": [as_json(part) for part in value]}
        if isinstance(value, dict):
            return {"dictionary": [[key, as_json(part)] for key, part in value.items()]}
        return [as_json(part) for part in value] if isinstance(value, list) else value

    text = json.dumps([[as_json(list(case.inputs)), [[method, as_json(list(arguments))] for method, arguments in case.calls],
                        cases.index(case.reuses) if case.reuses in cases else None] for case in cases])
    return text.encode(), b"".join(parts)


def read_records(data):
    """Returns {(kind, case, index): bytes} of the records at the beginning of `data`; the first of each counts."""
    records, start = {}, 0
    for _ in range(MOST_RECORDS):
        if start + RECORD.size > len(data):
            break
        *key, length = RECORD.unpack_from(data, start)
        start += RECORD.size
        if start + length > len(data):
            break
        records.setdefault(tuple(key), data[start:start + length])
        start += length
    return records


def read_array(data, most=LARGEST):
    """Returns the numeric array in these bytes of a .npy file as NumPy writes it, or None if they are anything else."""
    header = HEADER.match(data, 10)
    if len(data) > most or data[:8] != b"\x93NUMPY\x01\x00" or not header:
        return None
    if header.end() != 10 + int.from_bytes(data[8:10], "little"):
        return None
    shape = tuple(map(int, re.findall(rb"\d+", header[3])))
    try:
        entries = np.frombuffer(data, header[1].decode(), offset=header.end())
        return entries.reshape(shape, order="F" if header[2] == b"True" else "C")
    except (TypeError, ValueError, OverflowError):          # no such dtype, or the size does not fit the shape
        return None


def read_report(data):
    """Returns the short texts, and lists of short texts, in a JSON report of the worker. Drops everything else."""
    if len(data) > LARGEST_REPORT:
        return {}
    try:
        report = json.loads(data or b"{}")
    except (ValueError, RecursionError):        # not JSON, or nested too deeply: written by the student's program
        return {}
    report = report if isinstance(report, dict) else {}
    texts = {key: value[:MESSAGE_LENGTH] for key, value in report.items() if isinstance(value, str)}
    lists = {key: [item[:200] for item in value[:20]] for key, value in report.items()
             if isinstance(value, list) and all(isinstance(item, str) for item in value)}
    return texts | lists


def read_nodes(records):
    """Returns the nodes of a program as a list of tracing.Node, and (line, nodes that feed it) of each output."""
    data = records.get((NODES, 0, 0), b"")
    try:
        graph = json.loads(data) if len(data) <= LARGEST else {}
        roots = [(int(line), read_numbers(feeds)) for line, feeds in graph["roots"][:MOST_OUTPUTS]]
        nodes = [read_node(*values) for values in graph["nodes"][:MOST_NODES]]
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return [], []
    for numbers in (*(feeds for _, feeds in roots), *(node.feeds for node in nodes)):
        numbers.intersection_update(range(len(nodes)))
    return nodes, roots


def read_node(line, text, in_loop, is_part, name, feeds):
    if not all(map(isinstance, (line, text, in_loop, is_part, name), (int, str, bool, bool, str))):
        raise TypeError
    node = tracing.Node(line, text, in_loop, is_part)
    node.name, node.feeds = name[:tracing.LONGEST_TEXT], read_numbers(feeds)
    return node


def read_numbers(values):
    return {value for value in values[:MOST_NODES] if isinstance(value, int)}


def read_rows(data, columns):
    """Returns an array of finite numbers with this many columns; without rows if it is anything else."""
    rows = read_array(data)
    if rows is None or rows.ndim != 2 or rows.shape[1] != columns or rows.dtype != float or not np.isfinite(rows).all():
        return np.zeros((0, columns))
    return rows


def read_values(records):
    """Returns the rows of fingerprints.Recorder: case, node and fingerprint of each recorded value."""
    return read_rows(records.get((VALUES, 0, 0), b""), fingerprints.BEFORE + fingerprints.WIDTH)


def read_tried(records):
    """Returns {number of an edit: fingerprints of its outputs}."""
    return {number: read_rows(data, fingerprints.WIDTH)
            for (kind, _, number), data in records.items() if kind == TRIED}


@dataclass(frozen=True)
class FoundEdit:
    """What the student's process reports of an edit."""

    line: int
    kind: str
    text: str                                   # the part of the student's source that it changes
    around: str                                 # an expression around it, if it is short
    inserts: bool                               # True if it adds something and changes nothing else


def read_edit(records, number):
    """Returns the FoundEdit of this number, or None."""
    data = records.get((EDIT, 0, number), b"")
    try:
        description = json.loads(data) if len(data) <= LARGEST_REPORT else {}
        values = [description[key] for key in ("line", "kind", "text", "around", "inserts")]
    except (ValueError, RecursionError, TypeError, KeyError):
        return None
    if not all(map(isinstance, values, (int, str, str, str, bool))):
        return None
    return FoundEdit(*(value[:tracing.LONGEST_TEXT] if isinstance(value, str) else value for value in values))


def read_loading(records):
    return read_report(records.get((LOADING, 0, 0), b""))


def read_case(records, case, i, outputs):
    """Returns (outputs, arguments after the call, report) of case i of an exercise with this many outputs."""
    report = {}
    for when in (AT_THE_END, AT_ONCE):
        report |= read_report(records.get((CASE, i, when), b""))
    output_arrays = [read_array(records.get((OUTPUT, i, j), b"")) for j in range(outputs + 1)]
    while output_arrays and output_arrays[-1] is None and len(output_arrays) > len(report.get("kinds", [])):
        output_arrays.pop()
    after = []
    for j, before in enumerate(case.arrays()):
        changed = records.get((AFTER, i, j))    # sent only if the call changed the argument
        after.append(before if changed is None else read_array(changed, before.nbytes + 1024))
    return output_arrays, after, report
