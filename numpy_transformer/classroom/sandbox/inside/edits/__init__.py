"""Every program that differs from a Python function in one place: an operator, a constant, an axis, a call, a name.

The tests edit solutions in this way, to see whether the cases of an exercise find every mistake of this size. The
checker edits a student's answer in this way, to see where one change would make it right. It runs in the sandbox as
well, so it uses the standard library alone.
"""

import ast
import copy
import itertools
from dataclasses import dataclass

OPERATORS = {
    ast.Add: (ast.Sub, ast.Mult), ast.Sub: (ast.Add,), ast.Mult: (ast.Div, ast.Add), ast.Div: (ast.Mult,),
    ast.MatMult: (ast.Mult,), ast.Pow: (ast.Mult,), ast.FloorDiv: (ast.Div, ast.Mod), ast.Mod: (ast.FloorDiv,),
    ast.BitAnd: (ast.BitOr,), ast.BitOr: (ast.BitAnd,), ast.BitXor: (ast.BitOr,),
    ast.Lt: (ast.LtE, ast.Gt), ast.LtE: (ast.Lt, ast.GtE), ast.Gt: (ast.GtE, ast.Lt), ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq, ast.LtE, ast.GtE), ast.NotEq: (ast.Eq, ast.Lt, ast.Gt),
    ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
    ast.And: (ast.Or,), ast.Or: (ast.And,),
}
ORDERED = (ast.Sub, ast.Div, ast.MatMult, ast.Pow, ast.FloorDiv, ast.Mod)       # a op b is not b op a
FUNCTIONS = {
    "sum": ("mean", "max"), "mean": ("sum",), "max": ("min", "sum"), "min": ("max",), "var": ("std",), "std": ("var",),
    "maximum": ("minimum",), "minimum": ("maximum",), "argmax": ("argmin",), "argmin": ("argmax",),
    "zeros": ("ones",), "ones": ("zeros",), "zeros_like": ("ones_like",), "ones_like": ("zeros_like",),
    "tril": ("triu",), "triu": ("tril",), "any": ("all",), "all": ("any",), "sin": ("cos",), "cos": ("sin",),
    "exp": ("log",), "log": ("exp",), "floor": ("ceil",), "ceil": ("floor",), "outer": ("inner",),
    "append": ("remove",),
}
REDUCTIONS = ("sum", "mean", "max", "min", "var", "std", "any", "all", "argmax", "argmin")
NAMED = (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.BinOp)           # expressions that may lack a factor


@dataclass(frozen=True)
class Edit:
    """One change. `before` and `after` are the source of the smallest part that differs, `statement` surrounds it."""

    line: int
    column: int                                 # of the part, from 0
    end_line: int
    end_column: int
    kind: str                                   # such as "operator", "axis", "keepdims", "call" or "name"
    before: str
    after: str
    statement: str


def edits(tree, name, insertions=False, methods=()):
    """Yields each one-edit variant of a function or class; `tree` contains the edit until the next one is asked for.

    Parameters:
        tree : ast.Module with the function or class
        name : its name
        insertions : also use other names, swap two of them, and insert factors, terms, signs and transpositions
        methods : of a class, those that are edited; empty: all
    """
    functions = [node for part in tree.body if getattr(part, "name", None) == name for node in ast.walk(part)
                 if isinstance(node, ast.FunctionDef) and (not methods or part is node or node.name in methods)]
    outer = [node for node in functions
             if not any(node is not other and node in ast.walk(other) for other in functions)]
    for replacements in (change, *([swap, exchange, wrap, insert] if insertions else [])):
        for function in outer:
            terms = terms_of(function)
            for site in list(sites(function)):
                yield from at(site, replacements(site.node, site, terms))


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


def changed(node, **fields):
    """Returns a copy of a node with other fields; the parts that stay are shared."""
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


def exchanged(items, i):
    """Returns a list in which items i and i + 1 have changed places."""
    return [*items[:i], items[i + 1], items[i], *items[i + 2:]]


def without(items, i):
    return [*items[:i], *items[i + 1:]]


# --------------------------------------------------------------------------------------- changes of what is there

def change(node, site, terms):
    """Yields (kind, replacement) for the changes of what stands there."""
    yield from CHANGES.get(type(node), lambda node, site: ())(node, site)


def change_binary(node, site):
    for other in OPERATORS.get(type(node.op), ()):
        yield "operator", changed(node, op=other())
    if isinstance(node.op, ORDERED):
        yield "order", changed(node, left=node.right, right=node.left)
    yield "operand", node.left
    yield "operand", node.right


def change_unary(node, site):
    yield "sign" if isinstance(node.op, ast.USub) else "operator", node.operand


def change_comparison(node, site):
    for i, op in enumerate(node.ops):
        for other in OPERATORS.get(type(op), ()):
            yield "comparison", changed(node, ops=[*node.ops[:i], other(), *node.ops[i + 1:]])


def change_boolean(node, site):
    yield "operator", changed(node, op=OPERATORS[type(node.op)][0]())
    for i in range(len(node.values)):
        rest = without(node.values, i)
        yield "condition", rest[0] if len(rest) == 1 else changed(node, values=rest)


def change_constant(node, site):
    value = node.value
    kind = "axis" if is_axis(site) else "constant"
    if isinstance(value, bool):
        yield "constant", ast.Constant(not value)
    elif isinstance(value, int):
        negative = isinstance(site.parent, ast.UnaryOp)
        others = [value + 1, value - 1, 2 * value] + ([] if negative else [-value])
        for other in others:
            if other >= 0:
                yield kind, ast.Constant(other)
            elif not negative:
                yield kind, ast.UnaryOp(ast.USub(), ast.Constant(-other))
    elif isinstance(value, float):
        for other in (2 * value, value / 2, value + 1, -value):
            yield kind, ast.Constant(other) if other >= 0 else ast.UnaryOp(ast.USub(), ast.Constant(-other))


def is_axis(site):
    """True if a constant is the axis of a call, or selects an entry of a shape."""
    parents = [parent for parent in site.ancestors if not isinstance(parent, (ast.UnaryOp, ast.Tuple))]
    parent = parents[-1]
    if isinstance(parent, ast.keyword):
        return parent.arg in ("axis", "axes")
    if isinstance(parent, ast.Subscript):
        return isinstance(parent.value, ast.Attribute) and parent.value.attr == "shape"
    return isinstance(parent, ast.Call) and function_name(parent) in (*REDUCTIONS, "transpose", "swapaxes", "moveaxis")


def function_name(call):
    """The last part of a called name: "exp" for np.exp(x), "sum" for x.sum()."""
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def change_call(node, site):
    name = function_name(node)
    for other in FUNCTIONS.get(name, ()):
        field = "attr" if isinstance(node.func, ast.Attribute) else "id"
        yield "call", changed(node, func=changed(node.func, **{field: other}))
    named = [keyword.arg for keyword in node.keywords]
    for i, keyword in enumerate(node.keywords):
        kind = keyword.arg if keyword.arg in ("axis", "keepdims") else "argument"
        yield kind, changed(node, keywords=without(node.keywords, i))
    if name in REDUCTIONS and "keepdims" not in named and not (is_numpy(node) and len(node.args) > 2):
        yield "keepdims", changed(node, keywords=[*node.keywords, ast.keyword("keepdims", ast.Constant(True))])
    for i in range(len(node.args) - 1):
        yield "order", changed(node, args=exchanged(node.args, i))
    for i in range(len(node.args)):
        if len(node.args) > 1 or name in REDUCTIONS and not is_numpy(node):
            yield "argument", changed(node, args=without(node.args, i))
    if node.args and not isinstance(site.parent, ast.Expr):
        yield "call", node.args[0]
    if isinstance(node.func, ast.Attribute) and not is_numpy(node) and not isinstance(site.parent, ast.Expr):
        yield "call", node.func.value
    if name == "range" and len(node.args) == 1:
        end = node.args[0]
        yield "constant", changed(node, args=[ast.Constant(1), end])
        for op in (ast.Add(), ast.Sub()):
            yield "constant", changed(node, args=[ast.BinOp(end, op, ast.Constant(1))])


def is_numpy(call):
    """True for np.sum(x, 0) and the like, whose first argument is the array."""
    return isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) and \
        call.func.value.id in ("np", "numpy", "math")


def change_attribute(node, site):
    if node.attr in ("T", "mT") and isinstance(node.ctx, ast.Load):
        yield "transposition", node.value
        yield "transposition", changed(node, attr="mT" if node.attr == "T" else "T")


def change_subscript(node, site):
    if isinstance(node.ctx, ast.Load) and not isinstance(node.value, ast.Attribute | ast.Name) or is_plain(node):
        yield "index", node.value


def is_plain(node):
    """True for x[...] where x is an array rather than a shape."""
    return isinstance(node.ctx, ast.Load) and getattr(node.value, "attr", "") != "shape"


def change_slice(node, site):
    for field in ("lower", "upper", "step"):
        if getattr(node, field) is not None:
            yield "index", changed(node, **{field: None})
    if node.lower is None and node.upper is None and node.step is None:
        return
    for field in ("lower", "upper"):
        bound = getattr(node, field)
        if bound is not None and not isinstance(bound, (ast.Constant, ast.UnaryOp)):
            for op in (ast.Add(), ast.Sub()):
                yield "index", changed(node, **{field: ast.BinOp(bound, op, ast.Constant(1))})


def change_choice(node, site):
    yield "condition", node.body
    yield "condition", node.orelse


def change_tuple(node, site):
    for i in range(len(node.elts) - 1):
        yield "order", changed(node, elts=exchanged(node.elts, i))


def change_if(node, site):
    yield "condition", changed(node, test=ast.UnaryOp(ast.Not(), node.test))
    for value in (True, False):
        yield "condition", changed(node, test=ast.Constant(value))


def change_comprehension(node, site):
    for i in range(len(node.ifs)):
        yield "condition", changed(node, ifs=without(node.ifs, i))


def change_assignment(node, site):
    yield "statement", ast.Pass()


def change_augmented(node, site):
    for other in OPERATORS.get(type(node.op), ()):
        yield "operator", changed(node, op=other())
    yield "statement", ast.Assign([node.target], node.value)
    yield "statement", ast.Pass()


CHANGES = {
    ast.BinOp: change_binary, ast.UnaryOp: change_unary, ast.Compare: change_comparison, ast.BoolOp: change_boolean,
    ast.Constant: change_constant, ast.Call: change_call, ast.Attribute: change_attribute,
    ast.Subscript: change_subscript, ast.Slice: change_slice, ast.IfExp: change_choice, ast.Tuple: change_tuple,
    ast.If: change_if, ast.comprehension: change_comprehension, ast.Assign: change_assignment,
    ast.Expr: change_assignment, ast.AugAssign: change_augmented, ast.Continue: change_assignment,
    ast.Break: change_assignment,
}


# -------------------------------------------------------------------- other names, and what may have been left out

@dataclass
class Terms:
    """The names of a function: the arguments that it takes, except self, and the variables that it assigns."""

    taken: list
    assigned: list

    @property
    def all(self):
        return list(dict.fromkeys(self.taken + self.assigned))


def terms_of(function):
    """Returns the Terms of a function."""
    taken = [argument.arg for argument in function.args.args if argument.arg != "self"]
    assigned = [node.id for node in ast.walk(function)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return Terms(taken, assigned)


def swap(node, site, terms):
    """Yields (kind, replacement) in which two of the function's names, in different parts of this one, are swapped."""
    if not isinstance(node, (ast.BinOp, ast.Call, ast.Tuple)) or isinstance(getattr(node, "ctx", None), ast.Store):
        return
    found = list(ast.walk(node))
    parts = [[i for i, inner in enumerate(found) if is_inside(inner, part) and isinstance(inner, ast.Name)
              and inner.id in terms.all] for part in ast.iter_child_nodes(node)]
    for ours, theirs in itertools.combinations(parts, 2):
        for i, j in itertools.product(ours, theirs):
            if found[i].id == found[j].id or {found[i], found[j]} <= set(ast.iter_child_nodes(node)):
                continue                        # names that are parts themselves: `change` exchanges the parts
            other = copy.deepcopy(node)
            nodes = list(ast.walk(other))
            nodes[i].id, nodes[j].id = found[j].id, found[i].id
            yield "names", other


def is_inside(node, part):
    return any(node is inner for inner in ast.walk(part))


def exchange(node, site, terms):
    """Yields (kind, replacement) with another name in place of one of the function's."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in terms.all:
        for other in terms.all:
            yield "name", ast.Name(other, ast.Load())


def may_lack(node, site):
    """True for a value that may lack a step or a factor."""
    return isinstance(node, NAMED) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load) and not inside_index(site)


def wrap(node, site, terms):
    """Yields (kind, replacement) with one more step, such as a sign or a sum."""
    if not may_lack(node, site):
        return
    yield "sign", ast.UnaryOp(ast.USub(), node)
    for name in ("mT", "T"):
        yield "transposition", ast.Attribute(node, name, ast.Load())
    yield "power", ast.BinOp(node, ast.Pow(), ast.Constant(2))
    yield "operand", ast.BinOp(ast.Constant(1), ast.Sub(), node)
    for name in ("sqrt", "exp", "log"):
        yield "call", numpy_call(name, node)
    for axis in (-1, 0, -2):
        sum_over = ast.Call(ast.Attribute(node, "sum", ast.Load()), [constant(axis)], [])
        yield "axis", sum_over
        yield "axis", changed(sum_over, keywords=[ast.keyword("keepdims", ast.Constant(True))])


def insert(node, site, terms):
    """Yields (kind, replacement) with another factor or term."""
    if not may_lack(node, site):
        return
    for term in factors(terms):
        for op in (ast.Mult(), ast.Div()):
            yield "factor", ast.BinOp(node, op, term)
    for name in terms.all:
        for op in (ast.Add(), ast.Sub()):
            yield "operand", ast.BinOp(node, op, ast.Name(name, ast.Load()))


def inside_index(site):
    """True for a part of an index, of a shape or of a keyword argument."""
    return any(isinstance(parent, (ast.keyword, ast.Slice)) for parent in site.ancestors) or site.field == "slice"


def factors(terms):
    """Yields the names, the arguments' sizes along their first and last two axes, and the root of the last one."""
    for name in terms.all:
        yield ast.Name(name, ast.Load())
    for name in terms.taken:
        for axis in (-1, -2, 0):
            shape = ast.Attribute(ast.Name(name, ast.Load()), "shape", ast.Load())
            size = ast.Subscript(shape, constant(axis), ast.Load())
            yield size
            if axis == -1:
                yield numpy_call("sqrt", size)


def numpy_call(name, argument):
    return ast.Call(ast.Attribute(ast.Name("np", ast.Load()), name, ast.Load()), [argument], [])


def constant(number):
    return ast.Constant(number) if number >= 0 else ast.UnaryOp(ast.USub(), ast.Constant(-number))
