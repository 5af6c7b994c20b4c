"""Takes exercises that a student has solved over into new stage files: the functions as they are, and classes that call them."""

import ast
import textwrap
from dataclasses import dataclass, field

from ..exercises import exercises
from ..workbook import Workbook
from .files import ALLOWED, names_in, parsed
from .table import STAGES, TODO, functions


@dataclass(frozen=True)
class Takeover:
    """How solved exercises become part of a stage.

    Attributes:
        numbers : the exercises, all of which are needed
        bodies : {"Class.method" or "function": body that calls them}; a function with the name of an exercise needs none
        renamed : {name in the exercise: name in the stage}, where the stage has another function of the same name
        methods : the class whose forward and backward are those of the exercise's class
    """

    numbers: tuple
    bodies: dict = field(default_factory=dict)
    renamed: dict = field(default_factory=dict)
    methods: str = ""


TAKEOVERS = {
    1: (Takeover(("01.1",)), Takeover(("01.2",)), Takeover(("01.3", "01.4"), {
        "CrossEntropyLoss.forward": """
            self.remember(logits, targets)
            return cross_entropy(logits, targets, self.label_smoothing, self.ignore_id)""",
        "CrossEntropyLoss.backward": """
            logits, targets = self.recall()
            return cross_entropy_backward(logits, targets, self.label_smoothing, self.ignore_id)"""})),
    2: (Takeover(("02.2",), methods="Linear"),),
    3: (Takeover(("08.3",), methods="LayerNorm"),),
    4: (Takeover(("09.2", "09.3"), {
        "GELU.forward": """
            self.remember(x)
            return gelu(x)""",
        "GELU.backward": """
            return gelu_backward(self.recall(), dy)"""}),),
    5: (Takeover(("06.1",)), Takeover(("05.2",), {
        "Attention.backward": """
            q, k, v, p = self.recall()          # forward must remember these four
            return attention_backward(q, k, v, p, np.ones_like(p), dy)"""})),
    6: (Takeover(("07.1",)), Takeover(("07.2",))),
    9: (Takeover(("19.2",), {
        "AdamW.step": """
            self.t += 1
            for i, parameter in enumerate(self.parameters):
                parameter.data[...], self.m[i], self.v[i] = adamw_step(
                    parameter.data, parameter.grad, self.m[i], self.v[i], self.t, self.lr, *self.betas, self.eps,
                    self.weight_decay)"""}),
        Takeover(("19.4",), {
            "clip_gradients": """
                scaled = scaled_gradients([parameter.grad for parameter in parameters], max_norm)
                for parameter, gradient in zip(parameters, scaled):
                    parameter.grad[...] = gradient"""}, {"clip_gradients": "scaled_gradients"}),
        Takeover(("19.3",), {
            "learning_rate": """
                return noam_rate(n, d_model, warmup)"""})),
}


def taken_from(folder, upto):
    """Returns {stage: (text of its file, numbers of the exercises in it)} for the stages that have any.

    Raises: ValueError if the folder contains no exercises.
    """
    book = Workbook(folder)
    passed = {number for number in exercises() if book.passed(exercises()[number]) and book.path(exercises()[number]).is_file()}
    taken = {}
    for number, takeovers in TAKEOVERS.items():
        text, used = STAGES[number].skeleton, []
        for takeover in takeovers if number <= upto else ():
            added = with_exercises(text, takeover, book) if passed >= set(takeover.numbers) else None
            if added:
                text, used = added, used + list(takeover.numbers)
        if used:
            taken[STAGES[number]] = text, used
    return taken


def with_exercises(text, takeover, book):
    """Returns the text of a stage with these exercises in it, or None if they cannot be put there."""
    pieces, bodies, stage = [], dict(takeover.bodies), ast.parse(text)
    defined = {part.name: part for part in stage.body if isinstance(part, (ast.FunctionDef, ast.ClassDef))}
    available, wanted = set(names_in(stage)), []
    for exercise in (exercises()[number] for number in takeover.numbers):
        source = book.path(exercise).read_text(encoding="utf-8", errors="replace")
        tree = parsed(source)
        if takeover.methods:
            bodies = methods_of(source, tree, takeover.methods)
            return bodies and with_bodies(text, bodies, saved=True)
        if exercise.name not in names_in(tree):
            return None                         # it was changed after it had passed
        given = {part.__name__ for part in (*exercise.given, *exercise.imported)}
        for item in tree.body:
            name = getattr(item, "name", "")
            if isinstance(item, (ast.Import, ast.ImportFrom)):
                wanted.append(item)
            elif name == exercise.name and name in defined and name not in takeover.renamed:
                bodies[name] = same_arguments(item, defined[name]) + body_of(source, item)
            elif isinstance(item, ast.FunctionDef) and name not in given:
                renamed = takeover.renamed.get(name, name)
                if renamed in available:
                    return None                 # a helper with the name of something else
                pieces.append(ast.get_source_segment(source, item).replace(f"def {name}(", f"def {renamed}(", 1))
            elif not isinstance(item, (ast.FunctionDef, ast.Expr)):
                return None                     # constants and classes of the student's own
    used = {node.id for piece in (*pieces, *bodies.values()) for node in ast.walk(ast.parse(textwrap.dedent(piece)))
            if isinstance(node, ast.Name)}
    lines = [line for item in wanted for line in needed_imports(item, used - available)]
    return None if None in lines else with_pieces(with_bodies(text, bodies), pieces, dict.fromkeys(lines))


def same_arguments(theirs, ours):
    """Returns lines that give the arguments of a stage's function the names that they have in the exercise."""
    pairs = zip(theirs.args.args, ours.args.args)
    return "".join(f"{one.arg} = {other.arg}\n" for one, other in pairs if one.arg != other.arg)


def needed_imports(item, names):
    """Yields an import for each of these names that a statement imports; None if it is not from the standard library."""
    for alias in item.names:
        if (alias.asname or alias.name) in names:
            module = getattr(item, "module", None) or alias.name
            part = ast.Import([alias]) if isinstance(item, ast.Import) else ast.ImportFrom(item.module, [alias], item.level)
            yield ast.unparse(part) if module.split(".")[0] in ALLOWED else None


def body_of(source, item):
    """Returns the body of a function without its docstring, not indented."""
    body = item.body[ast.get_docstring(item) is not None:]
    lines = source.splitlines()[body[0].lineno - 1:item.end_lineno]
    return textwrap.dedent("\n".join(lines))


def methods_of(source, tree, name):
    """Returns {"Class.method": body} of forward and backward of a class, or None if they need more than the stage has."""
    parts = {label: part for part, label in functions(tree) if label.startswith(f"{name}.")}
    wanted = {label: parts.get(label) for label in (f"{name}.forward", f"{name}.backward")}
    others = set(parts) - set(wanted) - {f"{name}.__init__"}
    if others or None in wanted.values() or any(set(own_names(part)) - KNOWN for part in wanted.values()):
        return None
    return {label: body_of(source, part) for label, part in wanted.items()}


KNOWN = {"saved", "weight", "bias", "gamma", "beta", "eps"}         # attributes that the stage's class has


def own_names(part):
    """Yields the attributes of self that a method uses."""
    for node in ast.walk(part):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            yield node.attr


def with_bodies(text, bodies, saved=False):
    """Returns the text with these bodies in place of what is to be written.

    Parameters:
        saved : add the list `saved` to the constructor
    """
    lines = text.splitlines()
    for part, label in reversed(functions(ast.parse(text))):
        indent = " " * (part.col_offset + 4)
        if label in bodies:
            body = textwrap.indent(textwrap.dedent(bodies[label]).strip("\n"), indent)
            lines[part.end_lineno - len(TODO.splitlines()):part.end_lineno] = body.splitlines()
        elif saved and label.split(".")[0] in {name.split(".")[0] for name in bodies} and label.endswith(".__init__"):
            lines.insert(part.end_lineno, f"{indent}self.saved = []                         # values for backward")
    return "\n".join(lines) + "\n"


def with_pieces(text, pieces, new_imports):
    """Returns the text with these functions after its imports, and these lines as its first imports."""
    lines = text.splitlines()
    places = [item for item in ast.parse(text).body if isinstance(item, (ast.Import, ast.ImportFrom))]
    lines[places[-1].end_lineno:places[-1].end_lineno] = [line for piece in pieces for line in ("", "", *piece.splitlines())]
    lines[places[0].lineno - 1:places[0].lineno - 1] = [line for new in new_imports for line in (new, "")]
    return "\n".join(lines) + "\n"
