"""The same program as different people write it, and as somebody writes it who copied it and hides that."""

import ast
import copy
import random
import re

NAMES = """x y z out res result tmp t e s num den total scores probs weights grad g d a b c h m mean var std centered diff
expd exps norm denom numer inner dot prod term rows cols mask idx val v w u acc ans output ret temp aux k1 part step delta
shifted scaled logits p1 q1 first second left right upper lower dx_ dz_ my_sum row_sum all_sum""".split()
WORDS = """compute the gradient of softmax subtract maximum for stability sum over last axis normalize rows batch first then
divide by number tokens mask future positions add bias chain rule see lesson shape keepdims needed same as forward value
here because otherwise broadcast wrong todo check this works now dont forget scale trick from slides line paper""".split()
REDUCTIONS = {"sum", "mean", "max", "min", "var", "argmax", "cumsum", "std"}


class Person:
    """The habits of one student. Each is followed most of the time."""

    def __init__(self, seed):
        rng = random.Random(seed)
        self.seed = seed
        self.names = sorted(NAMES, key=lambda name: rng.random() * (1 + NAMES.index(name) / 8))
        self.functions = rng.random() < 0.5         # np.sum(x) rather than x.sum()
        self.axis = rng.random() < 0.6              # axis=-1 rather than -1
        self.splits = rng.choice([0.0, 0.1, 0.3, 0.5])
        self.commutes = rng.choice([0.0, 0.2, 0.5])
        self.root = rng.choice(["math", "np", "power"])
        self.turn = rng.choice(["mT", "swap", "np"])
        self.returns = rng.random() < 0.4           # result = ...; return result
        self.comments = rng.choice([0.0, 0.0, 0.1, 0.3])
        self.tight = rng.choice(["", "", "*", "*/", "*/+-", "="])
        self.blank = rng.choice([0.0, 0.0, 0.2])

    def write(self, exercise, *edits):
        """Returns this person's file for the solution with these edits, or None if two edits touch the same text."""
        text = exercise.edited_text(*edits)
        if text is None:
            return None
        rng = random.Random(f"{self.seed} {exercise.number}")
        tree = ast.parse(text)
        for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
            if not exercise.write or function.name in exercise.write:
                function.body = Rewrite(self, rng, function).body()
        source = ast.unparse(ast.fix_missing_locations(tree))
        return exercise.header + self.formatted(source, rng)

    def formatted(self, source, rng):
        lines, in_docstring = [], False
        for line in source.splitlines():
            quotes = line.count('"""')
            if in_docstring or quotes:
                in_docstring ^= quotes % 2
                lines.append(line)
                continue
            for operator in self.tight if rng.random() < 0.9 else "":
                line = re.sub(rf"(?<=[\w\])]) {re.escape(operator)} (?=[\w(\[-])", operator, line)
            indent = " " * (len(line) - len(line.lstrip()))
            is_code = indent and not line.strip().startswith("def ")
            if is_code and rng.random() < self.comments:
                lines.append(f"{indent}# {comment(rng)}")
            elif is_code and rng.random() < self.comments / 2:
                line += f"  # {comment(rng)}"
            if is_code and rng.random() < self.blank:
                lines.append("")
            lines.append(line)
        return "\n".join(lines) + "\n"


def comment(rng):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(2, 6)))


class Rewrite(ast.NodeTransformer):
    """Writes one function as a person would."""

    def __init__(self, person, rng, function):
        self.person, self.rng, self.function = person, rng, function
        arguments = {argument.arg for argument in function.args.args}
        assigned = dict.fromkeys(node.id for node in ast.walk(function)
                                 if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
        self.taken = arguments | set(assigned)
        self.renamed = {name: self.fresh() for name in assigned if name not in arguments and rng.random() < 0.6}

    def fresh(self):
        free = [name for name in self.person.names if name not in self.taken]
        name = free[min(int(self.rng.expovariate(0.5)), len(free) - 1)]
        self.taken.add(name)
        return name

    def often(self):
        return self.rng.random() < 0.85

    def body(self):
        statements = self.function.body
        start = int(isinstance(statements[0], ast.Expr) and isinstance(statements[0].value, ast.Constant))
        return statements[:start] + self.block(statements[start:])

    def block(self, statements):
        found = []
        for statement in statements:
            statement = self.visit(statement)
            found += self.split(statement)
        return found

    def visit_If(self, node):
        node.test, node.body, node.orelse = self.visit(node.test), self.block(node.body), self.block(node.orelse)
        return node

    def visit_For(self, node):
        node.target, node.iter, node.body = self.visit(node.target), self.visit(node.iter), self.block(node.body)
        return node

    def split(self, statement):
        """Takes a part of an expression out into a variable of its own, or names the result before it is returned."""
        before = []
        if isinstance(statement, (ast.Assign, ast.Return)) and isinstance(statement.value, (ast.BinOp, ast.Call)):
            parts = [node for node in ast.walk(statement.value) if isinstance(node, (ast.BinOp, ast.Call))][1:]
            parts = [node for node in parts if not any(isinstance(inner, (ast.Lambda, ast.comprehension))
                                                       for inner in ast.walk(statement))]
            if parts and self.rng.random() < self.person.splits:
                part, name = self.rng.choice(parts), self.fresh()
                before.append(ast.Assign([ast.Name(name, ast.Store())], copy.deepcopy(part)))
                statement = Replace(part, ast.Name(name, ast.Load())).visit(statement)
        if isinstance(statement, ast.Return) and self.person.returns and self.often() and isinstance(
                statement.value, (ast.BinOp, ast.Call)):
            name = self.fresh()
            before.append(ast.Assign([ast.Name(name, ast.Store())], statement.value))
            statement = ast.Return(ast.Name(name, ast.Load()))
        return [*before, statement]

    def visit_Name(self, node):
        return ast.Name(self.renamed.get(node.id, node.id), node.ctx)

    def visit_BinOp(self, node):
        self.generic_visit(node)
        if isinstance(node.op, (ast.Mult, ast.Add)) and self.rng.random() < self.person.commutes:
            node.left, node.right = node.right, node.left
        return node

    def visit_Attribute(self, node):
        self.generic_visit(node)
        if node.attr == "mT" and self.person.turn != "mT":
            first, second = ast.parse("[-1, -2]", mode="eval").body.elts
            if self.person.turn == "swap":
                return ast.Call(ast.Attribute(node.value, "swapaxes", ast.Load()), [first, second], [])
            return ast.Call(ast.parse("np.swapaxes", mode="eval").body, [node.value, first, second], [])
        return node

    def visit_Call(self, node):
        self.generic_visit(node)
        name = ast.unparse(node.func)
        if isinstance(node.func, ast.Attribute) and node.func.attr in REDUCTIONS and not name.startswith("np."):
            if node.args and self.person.axis and self.often():
                node.keywords.insert(0, ast.keyword("axis", node.args.pop(0)))
            if self.person.functions and self.often():
                node.args.insert(0, node.func.value)
                node.func = ast.Attribute(ast.Name("np", ast.Load()), node.func.attr, ast.Load())
        if name == "math.sqrt" and self.person.root != "math":
            if self.person.root == "np":
                node.func = ast.parse("np.sqrt", mode="eval").body
            else:
                return ast.BinOp(node.args[0], ast.Pow(), ast.Constant(0.5))
        return node


class Replace(ast.NodeTransformer):
    def __init__(self, old, new):
        self.old, self.new = old, new

    def visit(self, node):
        return self.new if node is self.old else self.generic_visit(node)


def disguise(source, exercise, rng, ways):
    """Returns a copied file after changes that do not change what it does.

    Parameters:
        ways : words among "rename", "reformat", "comments" and "reorder"
    """
    start = len(exercise.header)
    head, body = source[:start], source[start:]
    if "comments" in ways:
        body = re.sub(r"(?m)^ +# .*\n|  # .*$", "", body)
        body = "\n".join(f"{line}  # {comment(rng)}" if line.startswith("    ") and rng.random() < 0.15
                         and '"""' not in line and ":" not in line else line for line in body.splitlines()) + "\n"
    if "rename" in ways or "reorder" in ways:
        kept = re.findall(r"(?m)^ +# .*$", body) if "comments" not in ways else []
        tree = ast.parse(body)
        for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
            if not exercise.write or function.name in exercise.write:
                change(function, rng, ways)
        body = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
        if kept:
            body = body.replace("\n    return", f"\n{kept[0]}\n    return", 1)
    if "reformat" in ways:
        body = re.sub(r" ([*/+=-]) ", lambda match: rng.choice([match[1], match[0]]), body)
        body = re.sub(r"(?m)^(    \w+ ?=)", lambda match: rng.choice(["\n", ""]) + match[1], body)
    return head + body


def change(function, rng, ways):
    if "rename" in ways:
        arguments = {argument.arg for argument in function.args.args}
        assigned = {node.id for node in ast.walk(function)
                    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)} - arguments
        new = dict(zip(sorted(assigned), rng.sample([name for name in NAMES if name not in arguments], len(assigned))))
        for node in ast.walk(function):
            if isinstance(node, ast.Name):
                node.id = new.get(node.id, node.id)
    if "reorder" in ways:
        for node in ast.walk(function):
            if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Add)) and rng.random() < 0.3:
                node.left, node.right = node.right, node.left
        body = function.body
        for i in range(len(body) - 1):
            if independent(body[i], body[i + 1]) and rng.random() < 0.5:
                body[i:i + 2] = body[i + 1], body[i]


def independent(a, b):
    """Returns True if two assignments can change places."""
    if not (isinstance(a, ast.Assign) and isinstance(b, ast.Assign)):
        return False
    reads, writes = [], []
    for statement in (a, b):
        names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
        reads.append({node.id for node in names if isinstance(node.ctx, ast.Load)})
        writes.append({node.id for node in names if isinstance(node.ctx, ast.Store)})
    return not (writes[0] & (reads[1] | writes[1]) or writes[1] & reads[0])
