"""The language of formulas: text that reads like mathematics, and the tree that FORMAT.md describes.

    formula("y[..., o] = sum(i, x[..., i] * weight[i, o]) + bias[o]")

A formula says how one entry of an array follows from entries of other arrays. It is written in the syntax of Python:
one assignment, with lines before it that name intermediate arrays.

    x[..., i]                   one entry; "..." stands for all leading axes at once
    sum(i, ...), sum(..., i, term, where=condition)     over an axis or several, the term standing last; also mean, max
    sum(r < n, term)            over r = 0 to n - 1
    a if condition else b       one of two terms; conditions are comparisons, entries of boolean arrays, and "and"
    exp(a)                      one of FUNCTIONS

The range of a sum is not written down: i runs over the axis that it indexes in an array of its term.
"""

import ast
import functools
import inspect
import math
from dataclasses import dataclass

FUNCTIONS = ("exp", "log", "log1p", "sqrt", "sin", "cos", "tanh", "erf", "abs")
REDUCTIONS = ("sum", "mean", "max")
ARITHMETIC = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Pow: "pow", ast.FloorDiv: "//",
              ast.Mod: "%"}
COMPARISONS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
KNOWN_NUMBERS = {"pi": math.pi, "inf": "inf"}       # JSON has no infinity, so it is a string


@dataclass(frozen=True)
class Formula:
    """A parsed formula.

    Attributes:
        target : name of the array whose entries it gives, such as "y" or "dx"
        index : the items of the target's index
        text : the text that was parsed
        body : the tree of NODEs of FORMAT.md
        names : names of the arrays that it reads, as a frozenset
    """

    target: str
    index: list
    text: str
    body: dict
    names: frozenset

    def tree(self):
        """Returns the formula as FORMAT.md describes it, ready for JSON."""
        return {"target": self.target, "index": self.index, "text": self.text, "body": self.body}


def formula(text, **numbers):
    """Parses a formula; `numbers` are the names that stand for a number, such as eps=1e-5.

    Raises: ValueError if the text is not a formula.
    """
    return parsed(inspect.cleandoc(text), tuple(numbers.items()))


@functools.lru_cache(1000)                          # most formulas of a model occur once in each block
def parsed(text, numbers):
    parser = Parser(dict(numbers))
    *before, last = [parser.statement(line) for line in ast.parse(text).body]
    target, index, body = last
    for name, items, definition in reversed(before):
        body = {"let": name, "is": definition, "index": items, "in": body}
    return Formula(target, index, text, body, frozenset(parser.arrays))


class Parser:
    """Turns Python's syntax tree into the tree of FORMAT.md, statement by statement."""

    def __init__(self, numbers):
        self.numbers = {**KNOWN_NUMBERS, **numbers}
        self.intermediates = {}                     # name -> (index items, definition)
        self.variables = set()                      # the index variables of the statement that is being read
        self.arrays = set()

    def statement(self, line):
        """Returns (target, index items, tree) of one assignment."""
        if not isinstance(line, ast.Assign):
            raise ValueError(f"a formula is an assignment such as y[i] = x[i], got {ast.unparse(line)!r}")
        target = line.targets[0]
        name, items = (target, []) if isinstance(target, ast.Name) else (target.value, items_of(target))
        self.variables = {item.id for item in items if isinstance(item, ast.Name)}
        index = [self.item(item) for item in items]
        body = self.node(line.value)
        self.intermediates[name.id] = (index, body)
        return name.id, index, body

    def node(self, tree):
        """Returns the NODE of an expression."""
        read = getattr(self, f"read_{type(tree).__name__}", None)
        if read is None:
            raise ValueError(f"formulas have no {type(tree).__name__}: {ast.unparse(tree)!r}")
        return read(tree)

    def read_Constant(self, tree):
        return {"number": tree.value}

    def read_Name(self, tree):
        if tree.id in self.variables:
            return {"var": tree.id}
        if tree.id in self.numbers:
            return {"number": self.numbers[tree.id], "name": tree.id}
        return self.entry(tree.id, [])              # an array without axes

    def read_Subscript(self, tree):
        return self.entry(tree.value.id, [self.item(item) for item in items_of(tree)])

    def read_UnaryOp(self, tree):
        return {"neg": self.node(tree.operand)}

    def read_BinOp(self, tree):
        kind = ARITHMETIC[type(tree.op)]
        left, right = self.node(tree.left), self.node(tree.right)
        if kind in ("add", "mul") and kind in left:         # a + b + c is one sum of three terms
            return {kind: [*left[kind], right]}
        return {kind: [left, right]}

    def read_IfExp(self, tree):
        then, otherwise = self.node(tree.body), self.node(tree.orelse)
        return {"then": then, "else": otherwise, "where": self.node(tree.test)}     # find() looks at a mask last

    def read_BoolOp(self, tree):
        if not isinstance(tree.op, ast.And):
            raise ValueError(f"conditions are joined by \"and\", got {ast.unparse(tree)!r}")
        return {"and": [self.node(value) for value in tree.values]}

    def read_Compare(self, tree):
        kind = COMPARISONS[type(tree.ops[0])]
        return {"compare": kind, "left": self.node(tree.left), "right": self.node(tree.comparators[0])}

    def read_Call(self, tree):
        name = tree.func.id
        if name in REDUCTIONS:
            return self.reduction(name, tree)
        if name not in FUNCTIONS:
            raise ValueError(f"formulas have no function {name!r}; there are {', '.join(FUNCTIONS + REDUCTIONS)}")
        return {"call": name, "of": self.node(tree.args[0])}

    def reduction(self, name, tree):
        *ranges, term = tree.args
        outer = set(self.variables)
        self.variables |= {variable_of(item) for item in ranges}
        node = {name: self.node(term)}
        if tree.keywords:
            node["if"] = self.node(tree.keywords[0].value)
        node["over"] = [self.range(item, node) for item in ranges]
        self.variables = outer
        return node

    def range(self, item, node):
        """Returns what one variable of a sum runs over."""
        if isinstance(item, ast.Compare):           # r < n
            return {"var": item.left.id, "count": self.node(item.comparators[0])}
        variable = variable_of(item)
        axis = self.find(variable, node)
        if axis is None:
            raise ValueError(f"{variable!r} indexes no axis of an array in {node!r}, so its range is unknown")
        return axis

    def find(self, variable, node):
        """Returns {"var", "array", "axis"} or {"rest", "array", "less"}: the first axis that the variable indexes."""
        if isinstance(node, list):
            return first(self.find(variable, part) for part in node)
        if not isinstance(node, dict):
            return None
        if "entry" in node and item_of(variable) in node["index"]:
            return self.axis(variable, node)
        return first(self.find(variable, part) for part in node.values())

    def axis(self, variable, entry):
        name, index = entry["entry"], entry["index"]
        place = index.index(item_of(variable))
        if {"rest": True} in index[:place]:
            place -= len(index)                     # counted from the end, because "..." comes before it
        if name in self.intermediates:              # the axis of an intermediate array is one of an array in it
            items, definition = self.intermediates[name]
            inner = "..." if variable == "..." else items[place]["var"]
            inner_axis = self.find(inner, definition)
            return inner_axis if "rest" in inner_axis else {**inner_axis, "var": variable}
        if variable == "...":
            return {"rest": True, "array": name, "less": len(index) - 1}
        return {"var": variable, "array": name, "axis": place}

    def entry(self, name, index):
        if name not in self.intermediates:
            self.arrays.add(name)
        return {"entry": name, "index": index}

    def item(self, tree):
        """Returns the ITEM of one place of an index."""
        if isinstance(tree, ast.Constant) and tree.value is ...:
            return {"rest": True}
        if isinstance(tree, ast.Name) and tree.id in self.variables:
            return {"var": tree.id}
        return {"at": self.node(tree)}


def items_of(subscript):
    """Returns the syntax trees of the places of an index: x[i] has one, x[..., i] two."""
    return subscript.slice.elts if isinstance(subscript.slice, ast.Tuple) else [subscript.slice]


def variable_of(item):
    """Returns the name of a range's variable, or "..." """
    if isinstance(item, ast.Compare):
        return item.left.id
    return "..." if isinstance(item, ast.Constant) else item.id


def item_of(variable):
    return {"rest": True} if variable == "..." else {"var": variable}


def first(candidates):
    """Returns the first candidate that is not None, or None."""
    return next((candidate for candidate in candidates if candidate is not None), None)
