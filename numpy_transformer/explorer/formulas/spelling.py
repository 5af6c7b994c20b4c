"""Ways through a spelling, which is a formula with all its numbers (FORMAT.md)."""

import math


def walk(term):
    """Yields a term and all terms below it."""
    yield term
    for part in term["terms"]:
        yield from walk(part)
    if "condition" in term:
        yield from walk(term["condition"])


def keys_of(tree):
    return [term["key"] for term in walk(tree) if term["kind"] == "named"]


def entries_of(trees):
    """Returns the entries of arrays that the trees read, each once."""
    entries = {}
    for tree in trees:
        for term in walk(tree):
            if term["kind"] == "entry":
                entries.setdefault((term["array"], *term["index"]),
                                   {"array": term["array"], "index": term["index"], "value": term["value"]})
    return list(entries.values())


def jsonable(value):
    """Returns the same with the strings "inf", "-inf" and "nan" for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: jsonable(part) for key, part in value.items()}
    if isinstance(value, list):
        return [jsonable(part) for part in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
