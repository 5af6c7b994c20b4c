"""What the panel of a component shows of its class: docstring, formulas of backward, and source lines."""

import ast
import functools
import inspect
import linecache
import os
import re
import textwrap

from ..module import Module

STEP = r"self\.((?:score|average)(?:_backward)?)\("            # of ScaledDotProductAttention
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def line_of(place):
    """Returns the text of a source line; place is (file, line, first line of the function) or None."""
    return linecache.getline(place[0], place[1]) if place else ""


def describe_class(cls, functions=()):
    """Returns the entry of a class in the document's "classes".

    Parameters: functions : pairs (file, first line) of the functions in which the class called its parts; those that
        stand in a base class are shown too, and the steps of attention that forward and backward consist of
    """
    entry = {"summary": "", "backward": backward_lines(cls), "file": "", "forward": None, "backward_source": None,
             "more": []}
    doc = own_doc(cls)
    if doc:
        entry["summary"] = " ".join(doc.strip().split("\n\n")[0].split())
    for key, name in (("forward", "forward"), ("backward_source", "backward")):
        entry[key] = source_of(getattr(cls, name, None))
    sources = [entry[key] for key in ("forward", "backward_source") if entry[key] is not None]
    entry["file"] = sources[0]["file"] if sources else ""
    steps = {name for source in sources for line in source["lines"] for name in re.findall(STEP, line)}
    for base in cls.__mro__[:-1]:
        for name, function in vars(base).items():
            code = getattr(function, "__code__", None)
            if code is None or (code.co_filename, code.co_firstlineno) not in functions and name not in steps:
                continue
            source = source_of(function)
            if source is not None and source not in sources:
                sources.append(source)
                entry["more"].append({"name": f"{base.__name__}.{name}", **source})
    return entry


def own_doc(cls):
    """Returns the docstring of a class, but not the one that it inherits from Module or object."""
    for base in cls.__mro__:
        if base in (Module, object):
            return ""
        if base.__dict__.get("__doc__"):
            return inspect.cleandoc(base.__doc__)
    return ""


def backward_lines(cls):
    """Returns the lines under "Backward:" in the docstring, of the class or of the first base that has them."""
    for base in cls.__mro__:
        doc = inspect.cleandoc(base.__dict__.get("__doc__") or "")
        match = re.search(r"^Backward:(.*(?:\n[ \t]+.*)*)", doc, re.M)
        if match:
            lines = match.group(1).strip("\n")
            return [line.strip() for line in lines.splitlines() if line.strip()]
    return []


@functools.lru_cache(maxsize=1024)
def source_of(function):
    """Returns {"file", "first": line, "lines": [...]} of a function; None without its source, as in some shells."""
    if function is None:
        return None
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        return None
    return {"file": file_of(function), "first": first, "lines": textwrap.dedent("".join(lines)).splitlines()}


def file_of(function):
    """Returns the file of a function: its path inside the package, or its name; "" for the cell of a notebook."""
    try:
        path = inspect.getsourcefile(function) or ""
    except TypeError:
        return ""
    path = os.path.abspath(path) if os.path.exists(path) else ""
    if path.startswith(PACKAGE + os.sep):
        return os.path.relpath(path, os.path.dirname(PACKAGE)).replace(os.sep, "/")
    return os.path.basename(path)


@functools.lru_cache(maxsize=1024)
def lines_of_arrays(cls, inputs, parameters):
    """Returns {"y": line, "dx": line, "dgamma": line}: where forward and backward make these arrays."""
    forward, backward = (source_of(getattr(cls, name, None)) for name in ("forward", "backward"))
    lines = {}
    if forward:
        lines["y"] = last_return(forward)
    if backward:
        for name in inputs:
            lines[f"d{name}"] = assignment(backward, f"d{name}") or last_return(backward)
        for name in parameters:
            number = next((number for number, text in enumerate(backward["lines"], backward["first"])
                           if f"{name}.grad" in text), None)
            lines[f"d{name}"] = number or last_return(backward)
    return {name: line for name, line in lines.items() if line is not None}


@functools.lru_cache(maxsize=1024)
def lines_of_attention(cls, kind):
    """Returns the lines in which attention makes its scores or its weighted sum, and backward; or masks changed scores.

    They are looked for in the class and in its bases, because a subclass may leave the computation to its base: in the
    methods of this step, or in a forward and a backward that do everything themselves.
    """
    if kind == "mask":
        forward = source_of(cls.forward)
        return {} if forward is None else {"y": assignment(forward, "scores")}
    step, made = ("score", ("dq", "dk")) if kind == "scores" else ("average", ("dp", "dv"))
    steps = {}                                                  # a subclass may leave dq and dk to its base
    for base in cls.__mro__:
        forward, backward = (source_of(vars(base).get(name)) for name in (step, f"{step}_backward"))
        if forward is not None and backward is not None:
            lines = {"y": last_return(forward)} | {name: assignment(backward, name) for name in made}
            steps = {name: line for name, line in lines.items() if line is not None} | steps
        if len(steps) == 3:
            return steps
        forward, backward = (source_of(vars(base).get(name)) for name in ("forward", "backward"))
        if forward is None or backward is None or assignment(forward, "scores") is None:
            continue
        if kind == "scores":
            lines = {"y": assignment(forward, "scores"), "dq": last_return(backward), "dk": assignment(backward, "dk")}
        else:
            lines = {"y": last_return(forward), "dp": assignment(backward, "dp"), "dv": assignment(backward, "dv")}
        return {name: line for name, line in lines.items() if line is not None}
    return {}


def assignment(source, name):
    """Returns the number of the last line that assigns to a name, or None."""
    numbers = [number for number, text in enumerate(source["lines"], source["first"])
               if re.match(rf"\s*{re.escape(name)} [-+*/]?= ", text)]
    return numbers[-1] if numbers else None


def last_return(source):
    try:
        returns = [node.lineno for node in ast.walk(ast.parse("\n".join(source["lines"])))
                   if isinstance(node, ast.Return)]
    except SyntaxError:
        return None
    return source["first"] + max(returns) - 1 if returns else None
