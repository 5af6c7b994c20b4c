"""Finds the expressions of a program, and which of them feed which, by reading its text alone.

instrumenting.py makes a program record the values of these expressions while it runs, and fingerprints.py compares
values.
"""

import ast

LONGEST_TEXT = 200                              # characters of the source of an expression
MOST_NODES = 300
SIZES = "shape", "ndim", "size", "dtype"        # they do not depend on an array's entries
WITHOUT_ENTRIES = {"len", "range", *(f"np.{name}" for name in (
    "zeros_like", "ones_like", "empty_like", "full_like", "zeros", "ones", "empty", "full", "eye", "arange", "shape"))}
MUTATING = {"add.at", "put_along_axis", "fill_diagonal", "copyto", "put", "place"}     # np.NAME(array, ...)


class Node:
    """An expression or a changed variable: where it is, and the numbers of the nodes that feed it.

    Arguments of functions, their results and attributes of self are nodes without a text and without values. A part is
    an operand of a longer product or sum, such as a * b in a * b * c, which might as well be computed as a * (b * c),
    or an array of which only some entries have got their values.
    """

    def __init__(self, line=0, text="", in_loop=False, is_part=False):
        self.line, self.text, self.in_loop, self.is_part = line, text[:LONGEST_TEXT], in_loop, is_part
        self.name, self.feeds = "", set()

    def as_list(self):
        return [self.line, self.text, self.in_loop, self.is_part, self.name, sorted(self.feeds)]


class Tracer:
    """Finds the expressions of the functions in a module, except in those named in `given`.

    Attributes:
        nodes : list of Node
        returned : {function: list of sets of nodes, one for each returned value}; a method's name is Class.method
        attributes : {"self.x": number of a node}
    """

    def __init__(self, tree, source, given=()):
        self.tree, self.lines, self.loops = tree, source.splitlines(), 0
        self.nodes, self.numbers, self.returned, self.attributes = [], {}, {}, {}
        self.return_lines, self.parts = {}, set()
        self.functions, self.results, self.arguments = {}, {}, {}
        for item in tree.body:
            if isinstance(item, ast.FunctionDef) and item.name not in given:
                self.functions[item.name] = item
            elif isinstance(item, ast.ClassDef) and item.name not in given:
                self.functions |= {f"{item.name}.{part.name}": part for part in item.body
                                   if isinstance(part, ast.FunctionDef)}
        for name, function in self.functions.items():
            self.results[name] = self.new()
            takes = (*function.args.posonlyargs, *function.args.args)
            self.arguments[name] = {argument.arg: self.new() for argument in takes}
        for name, function in self.functions.items():
            self.name, self.variables = name, {arg: {i} for arg, i in self.arguments[name].items()}
            self.returned[name] = []
            self.block(function.body)

    def new(self, item=None):
        if item is None:
            self.nodes.append(Node())
        else:
            text = part_of(self.lines, *place_of(item))
            self.nodes.append(Node(item.lineno, text, self.loops > 0, id(item) in self.parts))
        return len(self.nodes) - 1

    def number(self, item, what=""):
        """Returns the number of the node of this syntax tree, which is the same when a loop is read again."""
        key = id(item), what
        if key not in self.numbers:
            self.numbers[key] = self.new(item)
        return self.numbers[key]

    def attribute(self, name):
        if name not in self.attributes:
            self.attributes[name] = self.new()
        return self.attributes[name]

    def block(self, statements):
        for statement in statements:
            self.statement(statement)

    def statement(self, item):
        if isinstance(item, ast.Assign):
            for target in item.targets:
                self.assign(target, item.value, item)
        elif isinstance(item, ast.AnnAssign) and item.value is not None:
            self.assign(item.target, item.value, item)
        elif isinstance(item, ast.AugAssign):
            self.change(item.target, self.feeds(item.value) | self.feeds(item.target), item)
        elif isinstance(item, ast.Return):
            self.returns(item)
        elif isinstance(item, ast.Expr):
            feeds = self.feeds(item.value)
            changed = changed_by(item.value)
            if changed is not None:
                self.change(changed, feeds | self.feeds(changed), item)
        elif isinstance(item, (ast.For, ast.While)):
            self.loop(item)
        elif isinstance(item, ast.If):
            self.feeds(item.test)
            self.branches(item.body, item.orelse)
        elif isinstance(item, ast.With):
            self.block(item.body)
        elif isinstance(item, ast.Try):
            self.branches(item.body + item.orelse, *(handler.body for handler in item.handlers))
            self.block(item.finalbody)

    def loop(self, item):
        """The second reading finds what one round of the loop passes to the next."""
        before = dict(self.variables)
        self.loops += 1
        for _ in range(2):
            if isinstance(item, ast.For):
                self.bind(item.target, self.feeds(item.iter))
            else:
                self.feeds(item.test)
            self.block(item.body)
            self.variables = merged(before, self.variables)
        self.loops -= 1
        self.block(item.orelse)

    def branches(self, *bodies):
        before, after = dict(self.variables), {}
        for body in bodies:
            self.variables = dict(before)
            self.block(body)
            after = merged(after, self.variables)
        self.variables = after

    def assign(self, target, value, statement):
        pairs = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts)
        if pairs:
            part_feeds = [self.feeds(part) for part in value.elts]
            for part, feeds in zip(target.elts, part_feeds):
                self.bind(part, feeds)
        elif isinstance(target, ast.Tuple):
            feeds = self.feeds(value)
            for part in target.elts:
                self.bind(part, feeds)
                if isinstance(part, ast.Name):  # each part is a value of its own
                    self.change(part, feeds, statement)
                    self.nodes[self.number(statement, part.id)].text = part.id
        elif isinstance(target, (ast.Name, ast.Attribute)):
            feeds = self.feeds(value)
            self.bind(target, feeds)
            if isinstance(target, ast.Name) and (id(value), "") in self.numbers:
                self.nodes[self.numbers[id(value), ""]].name = target.id
        else:
            self.change(target, self.feeds(value) | self.feeds(target), statement)

    def bind(self, target, feeds):
        """A name gets a new value."""
        if isinstance(target, ast.Name):
            self.variables[target.id] = set(feeds)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for part in target.elts:
                self.bind(part, feeds)
        elif isinstance(target, ast.Attribute) and dotted(target):
            self.nodes[self.attribute(dotted(target))].feeds |= feeds

    def change(self, target, feeds, statement):
        """A statement changes the value of a name, or of a part of it."""
        whole = target
        while isinstance(target, (ast.Subscript, ast.Starred)):
            target = target.value
        name = dotted(target)
        if not name:
            return
        if target is not whole:                 # an array that is being filled
            self.parts.add(id(statement))
        number = self.number(statement, name)
        self.nodes[number].feeds |= feeds - {number}
        self.nodes[number].name = name
        self.bind(target, {number})

    def returns(self, item):
        if item.value is None:
            return
        parts = item.value.elts if isinstance(item.value, ast.Tuple) else [item.value]
        part_feeds = [self.feeds(part) for part in parts]
        self.nodes[self.results[self.name]].feeds |= set().union(*part_feeds)
        self.return_lines[self.name] = item.lineno
        if len(self.returned[self.name]) != len(part_feeds):
            self.returned[self.name] = [set() for _ in part_feeds]
        for mine, feeds in zip(self.returned[self.name], part_feeds):
            mine |= feeds

    def feeds(self, item):
        """Returns the nodes whose values make up an expression: its own, if it has one, or those of its parts."""
        if isinstance(item, ast.Name):
            return set(self.variables.get(item.id, ()))
        if isinstance(item, ast.Attribute) and dotted(item).startswith("self."):
            name = dotted(item)
            return {number for key, number in [*self.attributes.items(), (name, self.attribute(name))]
                    if f"{key}.".startswith(f"{name}.") or f"{name}.".startswith(f"{key}.")}
        if isinstance(item, ast.Attribute) and item.attr in SIZES:
            self.feeds(item.value)
            return set()
        self.parts |= set(map(id, parts_of_chain(item)))
        repeats = isinstance(item, (ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp, ast.Lambda))
        self.loops += repeats
        sources = set().union(*(self.feeds(part) for part in ast.iter_child_nodes(item)), ())
        self.loops -= repeats
        if isinstance(item, ast.Call) and dotted(item.func) in WITHOUT_ENTRIES:
            sources = set()
        if isinstance(item, ast.Call):
            sources |= self.call(item)
        if not is_recorded(item) or len(self.nodes) >= MOST_NODES:
            return sources
        number = self.number(item)
        self.nodes[number].feeds |= sources - {number}
        return {number}

    def call(self, item):
        """A call of another function of this module: its result feeds the call, and the arguments feed its own."""
        name = dotted(item.func)
        owner = self.name.partition(".")[0]
        if name.startswith("self.") and f"{owner}.{name[5:]}" in self.functions:
            name = f"{owner}.{name[5:]}"
        if name not in self.functions:
            return set()
        takes = [number for argument, number in self.arguments[name].items() if argument != "self"]
        for number, value in zip(takes, item.args):
            self.nodes[number].feeds |= self.feeds(value)
        return {self.results[name]}

    def roots(self, name, methods, paths):
        """Returns [line, nodes] for each output: what a function returns, or a class's calls and its attributes."""
        names = [f"{name}.{method}" for method in methods] or [name]
        return self.returned_by(names) + self.stored_in(paths)

    def returned_by(self, names):
        """Returns [line, nodes] for each value that these functions and methods return."""
        return [[self.return_lines.get(each, 0), sorted(feeds)] for each in names
                for feeds in self.returned.get(each) or [set()]]

    def stored_in(self, paths):
        """Returns [0, nodes] for each of these attributes of self."""
        return [[0, sorted(self.feeds(ast.parse(f"self.{path}", mode="eval").body))] for path in paths]


def place_of(item):
    return item.lineno, item.col_offset, item.end_lineno, item.end_col_offset


def part_of(lines, line, column, end_line, end_column):
    """Returns a part of the source, given as its lines, on one line."""
    lines = lines[line - 1:end_line]
    lines[-1] = lines[-1].encode()[:end_column].decode("utf-8", "replace")
    lines[0] = lines[0].encode()[column:].decode("utf-8", "replace")
    return " ".join(" ".join(lines).split())


def is_recorded(item):
    """Returns True for expressions that compute something."""
    if isinstance(item, ast.Attribute):
        return item.attr in ("T", "mT") and isinstance(item.ctx, ast.Load)
    if isinstance(item, ast.Subscript):
        return isinstance(item.ctx, ast.Load)
    if isinstance(item, ast.Call) and dotted(item.func) in ("np.empty", "np.empty_like"):
        return False                            # their entries are arbitrary
    return isinstance(item, (ast.BinOp, ast.UnaryOp, ast.Call, ast.Compare, ast.IfExp)) and not isinstance(
        getattr(item, "operand", None), ast.Constant)


def parts_of_chain(item):
    """Returns the operands of a product or sum that are products or sums themselves."""
    for kinds in (ast.Mult, ast.Div, ast.MatMult), (ast.Add, ast.Sub):
        if isinstance(item, ast.BinOp) and isinstance(item.op, kinds):
            return [part for part in (item.left, item.right)
                    if isinstance(part, ast.BinOp) and isinstance(part.op, kinds)]
    return []


def changed_by(call):
    """Returns what a call that is a statement changes, such as x in np.add.at(x, ids, dy) and x.append(y), or None."""
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    name = dotted(call.func)
    if name.startswith(("np.", "numpy.")):
        return call.args[0] if name.partition(".")[2] in MUTATING and call.args else None
    return call.func.value


def dotted(item):
    """Returns the text of a name or of a chain of attributes, else ""."""
    if isinstance(item, ast.Name):
        return item.id
    if isinstance(item, ast.Attribute):
        before = dotted(item.value)
        return before and f"{before}.{item.attr}"
    return ""


def merged(a, b):
    return {name: a.get(name, set()) | b.get(name, set()) for name in (*a, *b)}
