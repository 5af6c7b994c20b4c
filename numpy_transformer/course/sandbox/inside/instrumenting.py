"""Makes a program record the values of its expressions while it runs."""

import ast

SEEN = "_seen_"                                 # the function that takes (number of a node, value) and returns the value


def instrumented(tracer):
    """Returns the syntax tree of a tracing.Tracer with calls that record the values. The tree is changed."""
    for function in tracer.functions.values():
        function.body = Recording(tracer.numbers).statements(function.body)
    return ast.fix_missing_locations(tracer.tree)


class Recording:
    """Puts calls that record values around the expressions, and after the statements, that have a number."""

    def __init__(self, numbers):
        self.numbers = numbers
        self.changes = {}
        for (identity, name), number in numbers.items():
            if name:
                self.changes.setdefault(identity, []).append((name, number))

    def statements(self, body):
        new_body = []
        for statement in body:
            identity = id(statement)
            new_body.append(self.visit(statement))
            for name, number in self.changes.get(identity, ()):
                value = ast.parse(name, mode="eval").body
                new_body.append(ast.copy_location(ast.Expr(record(number, value)), statement))
        return new_body

    def visit(self, item):
        number = self.numbers.get((id(item), ""))
        for name, value in ast.iter_fields(item):
            if name in ("body", "orelse", "finalbody") and isinstance(value, list):
                setattr(item, name, self.statements(value))
            elif name == "func" and isinstance(value, ast.Attribute):
                value.value = self.visit(value.value)
            elif isinstance(value, ast.AST):
                setattr(item, name, self.visit(value))
            elif isinstance(value, list):
                setattr(item, name, [self.visit(part) if isinstance(part, ast.AST) else part for part in value])
        return item if number is None else ast.copy_location(record(number, item), item)


def record(number, value):
    return ast.Call(ast.Name(SEEN, ast.Load()), [ast.Constant(number), value], [])
