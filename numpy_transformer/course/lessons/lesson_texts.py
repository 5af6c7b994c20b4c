"""Finds the texts in a cell's code that a reader sees: claims with their details, questions, answers and explanations."""

import ast
import re
from collections.abc import Iterator

FIELD = re.compile(r"\{[^{}]*\}")               # stands for what the lesson computes
WORD = re.compile(r"[^\W\d_]{2}")
ARGUMENTS = {"claim": ("claim", None, "detail"), "predict": ("question", "answer", "why")}
KEPT = {"yes", "no"}                            # the runner translates these answers


def texts_in_code(source: str) -> Iterator[tuple[str, str]]:
    """Yields (kind, text) for each text in a cell: kind is "claim", "detail", "question", "answer", "why" or "name".

    What a lesson computes is a {field}. A name is a text over which a loop runs and that its claims or questions contain.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return
    nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.Call, ast.For))]
    for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ARGUMENTS:
            for kind, argument in texts_of_call(node):
                text = template_of(argument)
                if WORD.search(FIELD.sub("", text)) and text not in KEPT:
                    yield kind, text
        elif isinstance(node, ast.For):
            yield from (("name", text) for text in names_of_loop(node) if WORD.search(text))


def texts_of_call(call):
    """Yields (kind, argument) for the arguments of claim and predict that are texts."""
    kinds = ARGUMENTS[call.func.id]
    yield from ((kind, argument) for kind, argument in zip(kinds, call.args) if kind)
    yield from ((keyword.arg, keyword.value) for keyword in call.keywords if keyword.arg in kinds)


def template_of(node) -> str:
    """Returns a text as it stands in the source, with {fields} for what is computed."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else "{}"
    if isinstance(node, ast.JoinedStr):
        return "".join(map(template_of, node.values))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return template_of(node.left) + template_of(node.right)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return template_of(node.func.value)
    expression = ast.unparse(node.value if isinstance(node, ast.FormattedValue) else node)
    return f"{{{expression}}}" if not set("{}\n") & set(expression) else "{...}"


def names_of_loop(loop) -> Iterator[str]:
    """Yields the texts that a loop over a literal gives to those of its variables that claims or questions contain."""
    used = {name.id for node in ast.walk(loop) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            and node.func.id in ARGUMENTS for _, argument in texts_of_call(node)
            for name in ast.walk(argument) if isinstance(name, ast.Name)}
    targets = loop.target.elts if isinstance(loop.target, ast.Tuple) else [loop.target]
    for place, target in enumerate(targets):
        if isinstance(target, ast.Name) and target.id in used and isinstance(loop.iter, (ast.Tuple, ast.List)):
            for item in loop.iter.elts:
                value = item.elts[place] if isinstance(item, ast.Tuple) and len(targets) > 1 else item
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    yield value.value
