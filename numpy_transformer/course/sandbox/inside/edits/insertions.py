"""Other names in a program, and what may have been left out: a sign, a transposition, a step, a factor, a term."""

import ast
import copy
import itertools
from dataclasses import dataclass

from .changes import changed

NAMED = (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.BinOp)           # expressions that may lack a factor


@dataclass
class Terms:
    """The names of a function: the arguments that it takes, except self, the variables that it assigns, what it reads of self."""

    taken: list
    assigned: list
    read: list                                  # such as "self.gamma.data"

    @property
    def all(self):
        return list(dict.fromkeys(self.taken + self.assigned))


def terms_of(function):
    """Returns the Terms of a function."""
    taken = [argument.arg for argument in function.args.args if argument.arg != "self"]
    assigned = [node.id for node in ast.walk(function)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    nodes = list(ast.walk(function))
    parts = {node.value for node in nodes if isinstance(node, ast.Attribute)}
    parts |= {node.func for node in nodes if isinstance(node, ast.Call)}
    read = [ast.unparse(node) for node in nodes
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and node not in parts]
    return Terms(taken, assigned, list(dict.fromkeys(name for name in read if name.startswith("self."))))


def swap(node, site, terms):
    """Yields (kind, replacement) in which two of the function's names, in different parts of this one, are swapped."""
    if not isinstance(node, (ast.BinOp, ast.Call, ast.Tuple)) or isinstance(getattr(node, "ctx", None), ast.Store):
        return
    originals = list(ast.walk(node))
    parts = [[i for i, inner in enumerate(originals) if is_inside(inner, part) and isinstance(inner, ast.Name)
              and inner.id in terms.all] for part in ast.iter_child_nodes(node)]
    for ours, theirs in itertools.combinations(parts, 2):
        for i, j in itertools.product(ours, theirs):
            if originals[i].id == originals[j].id or {originals[i], originals[j]} <= set(ast.iter_child_nodes(node)):
                continue                        # names that are parts themselves: `change` exchanges the parts
            other = copy.deepcopy(node)
            nodes = list(ast.walk(other))
            nodes[i].id, nodes[j].id = originals[j].id, originals[i].id
            yield "names", other


def regroup(node, site, terms):
    """Yields (kind, replacement) with other parentheses, and with a product in place of the last term of a sum."""
    if not isinstance(node, ast.BinOp):
        return
    left, right = node.left, node.right
    if isinstance(left, ast.BinOp):
        yield "grouping", ast.BinOp(left.left, left.op, ast.BinOp(left.right, node.op, right))
        if isinstance(node.op, (ast.Add, ast.Sub)) and isinstance(left.op, (ast.Add, ast.Sub)):
            yield "operator", ast.BinOp(left.left, left.op, ast.BinOp(left.right, ast.Mult(), right))
    if isinstance(right, ast.BinOp):
        yield "grouping", ast.BinOp(ast.BinOp(left, node.op, right.left), right.op, right.right)


def is_inside(node, part):
    return any(node is inner for inner in ast.walk(part))


def exchange(node, site, terms):
    """Yields (kind, replacement) with another name in place of one of the function's."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in terms.all:
        for other in terms.all:
            yield "name", ast.Name(other, ast.Load())


def may_lack(node, site):
    """True for a value that may lack a step or a factor. A limit in the other form would only hide in such a change."""
    is_compared = isinstance(site.parent, ast.Compare) and isinstance(site.parent.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE))
    is_read = isinstance(node, NAMED) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
    return is_read and not is_compared and not inside_index(site)


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
    """Yields the names, what is read of self, the arguments' sizes along their first and last two axes, and the root of the last."""
    for name in terms.all:
        yield ast.Name(name, ast.Load())
    for name in terms.read:
        yield ast.parse(name, mode="eval").body
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
