"""Changes of what stands in a program: an operator, a constant, an axis, a call, an order, a condition."""

import ast
import copy

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


def change(node, site, terms):
    """Yields (kind, replacement) for each change of a node of the program."""
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
        for other in (0.0, 2 * value, value / 2, value + 1, -value):
            yield kind, ast.Constant(other) if other >= 0 else ast.UnaryOp(ast.USub(), ast.Constant(-other))


def is_axis(site):
    """True if a constant is the axis of a call, or selects an entry of a shape."""
    parents = [parent for parent in site.ancestors if not isinstance(parent, (ast.UnaryOp, ast.Tuple))]
    parent = parents[-1]
    if isinstance(parent, ast.keyword):
        return parent.arg in ("axis", "axes")
    if isinstance(parent, ast.Subscript):
        return isinstance(parent.value, ast.Attribute) and parent.value.attr == "shape"
    is_method = isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute)     # not max(a, 1)
    return is_method and function_name(parent) in (*REDUCTIONS, "transpose", "swapaxes", "moveaxis")


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
    if name == "pop" and node.args and not is_numpy(node):
        yield "index", changed(node, args=[])
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
    if isinstance(node.ctx, ast.Load) and getattr(node.value, "attr", "") != "shape":
        yield "index", node.value


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
    kind = "order" if isinstance(node.ctx, ast.Load) else "unpacking"
    for i in range(len(node.elts) - 1):
        yield kind, changed(node, elts=exchanged(node.elts, i))


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
