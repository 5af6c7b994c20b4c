"""Every program that differs from a Python function in one place: an operator, a constant, an axis, a call, a name.

The tests edit solutions in this way, to see whether the cases of an exercise find every mistake of this size. The
checker edits a student's answer in this way, to see where one change would make it right. It runs in the sandbox as
well, so it uses the standard library alone.

changes.py replaces a part of a program, and insertions.py adds one.
"""

import ast
from dataclasses import dataclass

from .changes import change
from .insertions import exchange, insert, regroup, swap, terms_of, wrap

SIZES = "shape", "ndim", "size"


@dataclass(frozen=True)
class Edit:
    """One change. `before` and `after` are the source of the smallest part that differs, `statement` surrounds it."""

    line: int
    column: int                                 # of the part, from 0
    end_line: int
    end_column: int
    kind: str                                   # such as "operator", "axis", "keepdims", "call", "name" or "shape test"
    before: str
    after: str
    statement: str


def edits(tree, name, insertions=False, methods=()):
    """Yields each one-edit variant of a function or class; `tree` contains the edit until the next one is asked for.

    Parameters:
        tree : ast.Module with the function or class
        name : its name
        insertions : also move parentheses, use other names, swap two of them, and insert factors, terms, signs and transpositions
        methods : of a class, those that are edited; empty: all
    """
    functions = [node for part in tree.body if getattr(part, "name", None) == name for node in ast.walk(part)
                 if isinstance(node, ast.FunctionDef) and (not methods or part is node or node.name in methods)]
    outer = [node for node in functions
             if not any(node is not other and node in ast.walk(other) for other in functions)]
    for replacements in (change, *([regroup, swap, exchange, wrap, insert] if insertions else [])):
        for function in outer:
            terms = terms_of(function)
            for site in list(sites(function)):
                made = replacements(site.node, site, terms)
                yield from at(site, (("shape test", node) for _, node in made) if is_in_shape_test(site) else made)


@dataclass
class Site:
    """The place of a node: `parent.field`, or `parent.field[index]`."""

    node: ast.AST
    parent: ast.AST
    field: str
    index: int | None
    statement: ast.stmt
    ancestors: tuple                            # from the function down to the parent

    def put(self, node):
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


def sites(function):
    """Yields the Site of each statement and expression in the body of a function that can be edited."""
    body = [(function, "body", i, node, (function,)) for i, node in enumerate(function.body)]
    if ast.get_docstring(function) is not None:
        del body[0]
    waiting, statement = body[::-1], None
    while waiting:
        parent, field, index, node, ancestors = waiting.pop()
        if isinstance(node, ast.stmt):
            statement = node
        yield Site(node, parent, field, index, statement, ancestors)
        children = []
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "ctx", "op", "ops"):
                continue
            if name == "func" and isinstance(value, ast.Name):
                continue
            if name == "func" and isinstance(value, ast.Attribute):         # np.exp: nothing to edit; x.sum: x
                children.append((value, "value", None, value.value, (*ancestors, node, value)))
                continue
            items = value if isinstance(value, list) else [value]
            children += [(node, name, i if isinstance(value, list) else None, item, (*ancestors, node))
                         for i, item in enumerate(items) if isinstance(item, ast.AST)]
        waiting += children[::-1]


def is_in_shape_test(site):
    """Returns True for a statement or expression that a shape decides on, and for a part of what decides."""
    for node in (site.node, *site.ancestors):
        test = getattr(node, "test", None)
        if test is not None and any(getattr(part, "attr", "") in SIZES for part in ast.walk(test)):
            if node is site.node or any(part is site.node for part in ast.walk(test)):
                return True
    return False


def at(site, replacements):
    """Puts each replacement in its place, yields its Edit, and takes it back."""
    before = ast.unparse(site.node)
    statement = ast.unparse(site.statement).splitlines()[0]
    place = getattr(site.node, "lineno", site.statement.lineno), getattr(site.node, "col_offset", 0)
    end = getattr(site.node, "end_lineno", place[0]), getattr(site.node, "end_col_offset", place[1])
    seen = {before}
    for kind, node in replacements:
        for part in ast.walk(node):
            if "lineno" in part._attributes and not hasattr(part, "lineno"):
                ast.copy_location(part, site.node if hasattr(site.node, "lineno") else site.statement)
        after = ast.unparse(node)
        if after in seen:
            continue
        seen.add(after)
        site.put(node)
        try:
            yield Edit(*place, *end, kind, before, after, statement)
        finally:
            site.put(site.node)
