"""Makes a program record the values of its expressions while it runs."""

import ast

SEEN = "_seen_"                                 # the function that takes (number of a node, value) and returns the value


def instrumented(tracer):
    """Returns the syntax tree of a tracing.Tracer with calls that record the values. The tree is changed."""
    for function in tracer.functions.values():
        function.body = Recording(tracer.numbers).statements(function.body)
    return ast.fix_missing_locations(tracer.tree)


def replaced(tracer, wanted):
    """Does what `instrumented` does for a single node, whose value becomes what the call returns."""
    numbers = {key: number for key, number in tracer.numbers.items() if number == wanted}
    for function in tracer.functions.values():
        function.body = Replacing(numbers).statements(function.body)
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
                new_body.append(ast.copy_location(self.after(name, number), statement))
        return new_body

    def after(self, name, number):
        """Returns the statement that records what a statement has changed."""
        return ast.Expr(record(number, ast.parse(name, mode="eval").body))

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


class Replacing(Recording):
    """Puts the calls in place of the values, also of those that a statement has changed."""

    def after(self, name, number):
        statement = ast.parse(f"{name} = {name}").body[0]
        statement.value = record(number, statement.value)
        return statement


def record(number, value):
    return ast.Call(ast.Name(SEEN, ast.Load()), [ast.Constant(number), value], [])
