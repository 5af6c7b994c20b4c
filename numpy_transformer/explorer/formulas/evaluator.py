"""The value of one entry of an array, worked out by its formula, with every number on the way.

`spell(formula, arrays, index)` returns what FORMAT.md calls a spelling: the formula's tree, in which each node has its
value. The page does the same in evaluate.js.
"""

import itertools

from ..wording import sentence
from .operations import ARITHMETIC, COMPARE, REDUCE, call
from .spelling import entries_of, jsonable, keys_of, walk

LISTED = 5_000                                      # terms of intermediate entries that a spelling lists, about
MOST = 500_000                                      # terms that are worked out for one number: about two seconds


def spell(formula, arrays, index):
    """Returns the spelling of the entry at `index` of the formula's target, ready for JSON.

    Parameters:
        formula : Formula, or its tree
        arrays : dict name -> array of the op's inputs, parameters and outputs, and of their gradients ("dy")
        index : one whole number for each axis of the target
    Raises: ValueError if the index does not fit, or an array that the formula reads is missing.
    """
    return jsonable(Spelling(formula, arrays).at(index))


def index_text(index):
    return ", ".join(map(str, index))


class Spelling:
    """A formula and its arrays. Values of intermediates are worked out once and kept, so further entries cost little."""

    def __init__(self, formula, arrays):
        self.formula = formula if isinstance(formula, dict) else formula.tree()
        self.arrays = arrays
        self.definitions = {}                       # name of an intermediate array -> its "let" node
        self.known = {}                             # "g[0,2,1]" -> (name, places, value) of an intermediate entry
        self.kinds = {}                             # id of a node -> its kind
        self.count = 0                              # of the terms worked out so far

    def at(self, index):
        """Returns the evaluated formula of one entry. Numbers that are not finite are floats in it."""
        tree = self.tree(index)
        named = self.reachable(tree)
        return {"target": self.formula["target"], "index": [int(i) for i in index], "value": tree["value"], "tree": tree,
                "named": named, "entries": entries_of([tree, *named.values()])}

    def value(self, index):
        """Returns only the number."""
        return self.tree(index)["value"]

    def tree(self, index):
        target = self.formula["target"]
        shape = self.shape_of_target(target)
        index = tuple(int(i) for i in index)
        if len(index) != len(shape) or not all(0 <= i < n for i, n in zip(index, shape)):
            raise ValueError(sentence("page.formula.no_entry", name=target, index=index_text(index),
                                      shape=" × ".join(map(str, shape))))
        self.count = 0
        return self.term(self.formula["body"], bind(self.formula["index"], list(zip(index, shape))))

    def shape_of_target(self, target):
        for name in (target, target.removeprefix("d")):
            if name in self.arrays:
                return self.arrays[name].shape
        raise ValueError(sentence("page.formula.no_array", name=target.removeprefix("d")))

    def term(self, node, scope):
        """Returns the evaluated TERM of a node; scope maps variables to (value, length of the axis)."""
        self.count += 1
        if self.count > MOST:
            raise ValueError(sentence("page.formula.too_long", name=self.formula["target"], most=f"{MOST:,}"))
        if id(node) not in self.kinds:              # the same nodes are worked out for many entries
            self.kinds[id(node)] = next(key for key in KINDS if key in node)
        return KINDS[self.kinds[id(node)]](self, node, scope)

    def number(self, node, scope):
        value = node["number"]
        term = {"kind": "number", "value": float(value) if isinstance(value, str) else value, "terms": []}
        return {**term, "name": node["name"]} if "name" in node else term

    def variable(self, node, scope):
        return {"kind": "var", "value": scope[node["var"]][0], "terms": [], "name": node["var"]}

    def entry(self, node, scope):
        name = node["entry"]
        if name in self.definitions:
            return self.named_entry(name, node["index"], scope)
        if name not in self.arrays:
            raise ValueError(sentence("page.formula.no_array", name=name))
        array = self.arrays[name]
        index = self.place(name, array.shape, node["index"], scope)
        return {"kind": "entry", "value": python_number(array[tuple(index)]), "terms": [], "array": name, "index": index}

    def named_entry(self, name, items, scope):
        places = self.places(items, scope)
        index = [value for value, _ in places]
        key = f"{name}[{','.join(map(str, index))}]"
        if key not in self.known:
            self.known[key] = (name, places, self.derivation(name, places)["value"])
        return {"kind": "named", "value": self.known[key][-1], "terms": [], "array": name, "index": index, "key": key}

    def derivation(self, name, places):
        """Returns the evaluated definition of one entry of an intermediate array."""
        definition = self.definitions[name]
        return self.term(definition["is"], bind(definition["index"], places))

    def let(self, node, scope):
        self.definitions[node["let"]] = node
        return self.term(node["in"], scope)

    def places(self, items, scope):
        """Returns (value, length of the axis or None) for each axis that the items of an index stand for."""
        places = []
        for item in items:
            if "rest" in item:
                places += scope.get("...", [])
            elif "var" in item:
                places.append(scope[item["var"]])
            else:
                places.append((int(self.term(item["at"], scope)["value"]), None))
        return places

    def place(self, name, shape, items, scope):
        """Returns the index into an array of this shape: broadcast, and aligned at the right where "..." stands."""
        places = self.places(items, scope)
        missing = len(shape) - len(places)
        if {"rest": True} in items:
            start = items.index({"rest": True})
            places = places[:start] + [(0, None)] * missing + places[start + max(-missing, 0):]
        index = [fit(value, length, size) for (value, length), size in zip(places, shape)]
        if len(places) != len(shape) or not all(0 <= i < n for i, n in zip(index, shape)):
            raise ValueError(sentence("page.formula.other_shape", name=name, index=index_text(index),
                                      shape=" × ".join(map(str, shape))))
        return index

    def arithmetic(self, node, scope):
        kind = self.kinds[id(node)]
        terms = [self.term(part, scope) for part in node[kind]]
        value = terms[0]["value"]
        for other in terms[1:]:
            value = ARITHMETIC[kind](value, other["value"])
        return {"kind": kind, "value": value, "terms": terms}

    def negative(self, node, scope):
        of = self.term(node["neg"], scope)
        return {"kind": "neg", "value": -of["value"], "terms": [of]}

    def call(self, node, scope):
        of = self.term(node["of"], scope)
        return {"kind": "call", "value": call(node["call"], of["value"]), "terms": [of], "name": node["call"]}

    def where(self, node, scope):
        condition = self.term(node["where"], scope)
        taken = bool(condition["value"])
        branch = self.term(node["then" if taken else "else"], scope)
        return {"kind": "where", "value": branch["value"], "terms": [branch], "taken": taken, "condition": condition}

    def compare(self, node, scope):
        left, right = self.term(node["left"], scope), self.term(node["right"], scope)
        value = COMPARE[node["compare"]](left["value"], right["value"])
        return {"kind": "compare", "value": value, "terms": [left, right], "name": node["compare"]}

    def conjunction(self, node, scope):
        terms = [self.term(part, scope) for part in node["and"]]
        return {"kind": "and", "value": all(term["value"] for term in terms), "terms": terms}

    def reduction(self, node, scope):
        """Evaluates a sum, mean or maximum. Terms whose condition does not hold are left out."""
        kind = self.kinds[id(node)]
        terms = []
        places = []
        names = [over.get("var", "...") for over in node["over"]]
        for values in itertools.product(*(self.range(over, scope) for over in node["over"])):
            inner = {**scope, **dict(zip(names, values))}
            if "if" not in node or self.term(node["if"], inner)["value"]:
                terms.append(self.term(node[kind], inner))
                places.append({name: numbers_of(value) for name, value in zip(names, values)})
        value = REDUCE[kind]([term["value"] for term in terms])
        return {"kind": kind, "value": value, "terms": terms, "over": names, "places": places}

    def range(self, over, scope):
        """Returns the bindings that a variable of a sum runs through."""
        if "count" in over:
            count = int(self.term(over["count"], scope)["value"])
            return [(i, None) for i in range(count)]
        shape = self.arrays[over["array"]].shape
        if "rest" in over:
            shape = shape[:len(shape) - over["less"]]
            return [list(zip(index, shape)) for index in itertools.product(*map(range, shape))]
        size = shape[over["axis"]]
        return [(i, size) for i in range(size)]

    def reachable(self, tree):
        """Returns the intermediates that the tree leads to, nearest first, until they have LISTED terms."""
        derivations = {}
        waiting = [tree]
        count = 0
        for term in waiting:
            for key in keys_of(term):
                if key not in derivations and count < LISTED:
                    name, places, _ = self.known[key]
                    derivations[key] = self.derivation(name, places)
                    count += sum(1 for _ in walk(derivations[key]))
                    waiting.append(derivations[key])
        return derivations


KINDS = {"number": Spelling.number, "let": Spelling.let, "entry": Spelling.entry, "neg": Spelling.negative,
         "sum": Spelling.reduction, "mean": Spelling.reduction, "max": Spelling.reduction, "call": Spelling.call,
         "where": Spelling.where, "compare": Spelling.compare, "and": Spelling.conjunction, "var": Spelling.variable,
         **dict.fromkeys(("add", "sub", "mul", "div", "pow", "//", "%"), Spelling.arithmetic)}


def bind(items, places):
    """Returns the scope in which the items of a definition's index stand for these places."""
    scope = {}
    after = len(items)
    for number, item in enumerate(items):
        if "rest" in item:
            after = len(items) - number - 1
            scope["..."] = places[number:len(places) - after]
        elif "..." in scope:
            scope[item["var"]] = places[number - len(items)]
        else:
            scope[item["var"]] = places[number]
    return scope


def fit(value, length, size):
    """Returns the entry of an axis of `size` that belongs to entry `value` of an axis of `length` entries."""
    if size == 1:
        return 0
    if length is not None and length > size and length % size == 0:
        return value // (length // size)
    return value


def python_number(number):
    """Returns a NumPy number as Python's int or float; booleans become 0 and 1, as they are in the page."""
    number = number.item()
    return int(number) if isinstance(number, bool) else number


def numbers_of(binding):
    return [value for value, _ in binding] if isinstance(binding, list) else binding[0]
