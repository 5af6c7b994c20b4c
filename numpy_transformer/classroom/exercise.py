"""What an exercise is: a solution, the mistakes that are made in it, and the cases on which both are tried.

A mistake is an edit of the solution's text, so the wrong line stands beside the right one, several mistakes
combine by themselves, and a class of students who make them can be written to files.
"""

import ast
import functools
import inspect
import itertools
import math
import re
import textwrap
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Callable

import numpy as np

from .numbers import CURRENT, stream
from .worker import Function, inside, produce

IMPORTS = "import math\n\nimport numpy as np\n"
TODO = "# TODO: replace this line{}.\nraise NotImplementedError"

# Sizes that differ from each other, in ratios that differ, so that a wrong factor has one name; then a square case,
# in which a transpose does not show in the shape, and other numbers of leading axes (`lead`, for (..., n)).
SIZES = (
    ("ordinary sizes", dict(B=3, T=5, S=7, H=2, d=6, D=12, F=16, V=11), "BT"),
    ("other sizes", dict(B=5, T=7, S=9, H=3, d=6, D=18, F=22, V=13), "BT"),
    ("square: T = S = d, D = F = V", dict(B=3, T=6, S=6, H=2, d=6, D=12, F=12, V=12), "BT"),
    ("rows without a batch", dict(B=3, T=7, S=5, H=2, d=5, D=10, F=14, V=11), "T"),
    ("one more axis", dict(B=3, T=5, S=7, H=2, d=7, D=14, F=10, V=9), "BHT"),
)


@dataclass(frozen=True, eq=False)               # each is itself, and can be a key
class Mistake:
    """A known mistake: `edits` turns texts that stand once in the solution into what a student wrote instead."""

    name: str                                   # such as "SMB-1"
    edits: dict                                 # {right text: wrong text}
    say: str                                    # to the student: what it is and why it is wrong; not the answer
    twin: str = ""                              # another mistake that gives the same numbers in every case


@dataclass(frozen=True)
class Case:
    """Arguments of a function; of a class those of its constructor, and then the calls."""

    note: str
    inputs: tuple
    calls: tuple = ()                           # (method, arguments) in order
    sizes: dict = field(default_factory=dict)   # what the letters stand for
    role: str = ""                              # or "again" and "float32": the first case once more

    def arrays(self):
        """All arrays among the arguments, in order."""
        return inside((self.inputs, self.calls), np.ndarray)


@dataclass(frozen=True, eq=False)
class Exercise:
    """Everything about one exercise but the students' files.

    Parameters:
        number : the lesson and the place in it, such as "01.2"
        title : such as "Softmax, backward"
        solution : a function or a class of plain arrays, its docstring the student's specification
        reference : the package's own components behind the same arguments (of a class: returns an object with the
            same methods and parameters)
        inputs : (rng, n) -> the arguments, n having the sizes and `lead`; of a class: arguments, calls
        edges : (rng) -> a list of (note, arguments): what the sizes above do not reach
        outputs : the names of what it returns; of a class what its calls return, then paths such as "weight.grad"
        hints : three, each nearer to the answer
        invariants : (sentence, function(inputs, outputs) -> an array that must be 0)
        alternatives : {name: edits} that are as right as the solution
        given : functions and classes whose source stands in the student's file, ready to use
        write : of a class the methods that students write; the others are given
        judge : (*outputs) -> "" or what is wrong, instead of the comparison with the reference
    """

    number: str
    title: str
    minutes: int
    lines: int
    solution: Callable
    hints: tuple
    reference: Callable = None
    inputs: Callable = lambda rng, n: ()
    edges: Callable = lambda rng: []
    outputs: tuple = ("y",)
    mistakes: tuple = ()
    invariants: tuple = ()
    alternatives: dict = field(default_factory=dict)
    given: tuple = ()
    write: tuple = ()
    judge: Callable = None
    kind: str = "write"                         # or predict, find the bug, explain, question

    @property
    def name(self):
        return self.solution.__name__

    @property
    def file(self):
        """The name of the student's file, such as ex01_2_softmax_backward.py."""
        words = "".join("_" * (i > 0 and c.isupper()) + c.lower() for i, c in enumerate(self.name))
        return f"ex{self.number.replace('.', '_')}_{words}.py"

    @property
    def former_file(self):
        """The name of the file before exercises were numbered by lesson; kept for one release."""
        return f"ex{CURRENT.get(self.number, 'none')}{self.file[6:]}"

    @property
    def lesson(self):
        """The number of its lesson, such as "01"."""
        return self.number.split(".")[0]

    @property
    def points(self):
        """One for each five minutes."""
        return max(1, round(self.minutes / 5))

    @property
    def paths(self):
        """Those outputs that are attributes of an object."""
        return [name for name in self.outputs if "." in name]

    @property
    def is_class(self):
        return isinstance(self.solution, type)

    def cases(self, seed):
        """The cases of one seed; the first one comes once more at the end, and in float32 where there are floats."""
        streams = itertools.count()
        cases = []
        for note, sizes, lead in SIZES:
            rng, n = np.random.default_rng([seed, stream(self.number), next(streams)]), SimpleNamespace(**sizes)
            n.lead = tuple(sizes[letter] for letter in lead)
            cases.append(self.case(note, self.inputs(rng, n), {**sizes, "N": math.prod(n.lead)}))
            if not (cases[0].inputs or cases[0].calls):
                return cases
        edges = self.edges(np.random.default_rng([seed, stream(self.number), next(streams)]))
        cases += [self.case(note, arguments, {}) for note, arguments in edges]
        return [*cases, replace(cases[0], role="again"), *[single(cases[0])] * has_floats(cases[0])]

    @functools.cached_property
    def parameters(self):
        """The names of the arguments; of a class those of its constructor."""
        return list(inspect.signature(self.solution).parameters)

    def described(self, case):
        """The note of a case, and its arguments: shapes of arrays, and values."""
        words = [f"{name} {brief(value)}" for name, value in zip(self.parameters, case.inputs)]
        words += [f"{method}({', '.join(map(brief, arguments))})" for method, arguments in case.calls]
        return f"{case.note}: {textwrap.shorten(', '.join(words), 160)}" if words else case.note

    def labels(self, case):
        """What to call each of the case's arrays."""
        calls = [(f"an argument of {method}", arguments) for method, arguments in case.calls]
        return [name for name, value in (*zip(self.parameters, case.inputs), *calls) for _ in inside(value, np.ndarray)]

    def letters(self, case):
        """What can be a factor in a case: its sizes, the fractions among its arguments, and what they leave of 1."""
        numbers = {name: value for name, value in zip(self.parameters, case.inputs) if isinstance(value, float)}
        numbers |= {f"(1 - {name})": 1 - value for name, value in numbers.items()}
        return {**case.sizes, **{name: value for name, value in numbers.items() if value > 0}} if case.sizes else {}

    def case(self, note, arguments, sizes):
        return Case(note, *arguments, sizes) if self.is_class else Case(note, arguments, (), sizes)

    @functools.cached_property
    def text(self):
        """The source of the solution."""
        return textwrap.dedent(inspect.getsource(self.solution))

    @functools.cached_property
    def above(self):
        """What stands above it in the file: imports and given functions."""
        return IMPORTS + "".join(f"\n\n{textwrap.dedent(inspect.getsource(part))}" for part in self.given) + "\n\n"

    @functools.cached_property
    def names(self):
        """What stands above it, run."""
        names = {}
        exec(self.above, names)
        return names

    def edited(self, *edits):
        """The file of a student who made these edits; None where two of them touch the same text."""
        text = self.edited_text(*edits)
        return None if text is None else self.above + text

    def edited_text(self, *edits):
        """The solution alone with these edits, or None."""
        spans = sorted((self.text.index(right), right, wrong) for edit in edits for right, wrong in edit.items())
        text, end = "", 0
        for start, right, wrong in spans:
            if start < end:
                return None
            text, end = text + self.text[end:start] + wrong, start + len(right)
        return text + self.text[end:]

    def target(self, source):
        """The function or class that a trusted source defines, a whole file or the solution's text alone."""
        names = {**self.names}
        exec(compile(source, self.file, "exec"), names)
        return names[self.name]

    @functools.cached_property
    def methods(self):
        return {}                               # their texts, and what these define

    def assembled(self, text):
        """As `target`, of a class method by method: a method that stands in many combinations is compiled once."""
        members = {}
        for part in re.split("^(?=    def )", text, flags=re.M)[1:]:
            if part not in self.methods:
                self.methods[part] = vars(self.target(f"class {self.name}:\n{part}"))
            members |= {name: value for name, value in self.methods[part].items() if callable(value)}
        return type(self.name, (), members)

    def skeleton(self):
        """The file that a student begins with."""
        lines = f"About {self.lines} line{'s' * (self.lines > 1)}, {self.minutes} minutes."
        lines += " float32 in, float32 out." * any(case.role == "float32" for case in self.cases(0))
        head = (f'"""Exercise {self.number}: {self.title}\n\n{lines}  Lesson: numpy-transformer lesson {self.lesson}\n'
                f"Check:  numpy-transformer exercise check {self.number}\n"
                f'Hint:   numpy-transformer exercise hint {self.number}\n"""\n\n')
        return head + self.above + emptied(self.text, self.write)


def brief(value):
    """An argument in a few letters."""
    if isinstance(value, (tuple, list)):
        words = list(map(brief, value))
        return f"[{', '.join(words)}]" if len(set(words)) > 1 or len(words) < 3 else f"[{len(words)} times {words[0]}]"
    if isinstance(value, Function):
        return "function"
    return str(value.shape if isinstance(value, np.ndarray) else value)


def single(value):
    """float32 for float64, in cases, arrays, tuples and lists."""
    if isinstance(value, Case):
        return replace(value, inputs=single(value.inputs), calls=single(value.calls), role="float32")
    if isinstance(value, (tuple, list)):
        return type(value)(map(single, value))
    return value.astype(np.float32) if getattr(value, "dtype", None) == np.float64 else value


def has_floats(case):
    return not inside((case.inputs, case.calls), Function) and any(a.dtype == np.float64 for a in case.arrays())


def emptied(text, methods):
    """The source with TODO for the body of the function, or of these methods of the class."""
    tree, lines = ast.parse(text).body[0], text.splitlines()
    functions = [item for item in tree.body if isinstance(item, ast.FunctionDef) and item.name in methods] or [tree]
    for function in reversed(functions):
        first = function.body[ast.get_docstring(function) is not None]
        indent = " " * first.col_offset
        start = first.lineno - 1
        while lines[start - 1].strip().startswith("#"):     # comments above the first line are part of the answer
            start -= 1
        takes = [argument for argument in function.args.args if argument.arg != "self"]
        todo = TODO.format("; do not change the arguments in place" if takes else "")
        lines[start:function.end_lineno] = textwrap.indent(todo, indent).splitlines()
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Observation:
    """What one target did in one case: its outputs or the error, and which arguments it changed (`changed`, below)."""

    outputs: tuple = ()
    error: str = ""
    changed: tuple = ()


def observe(exercise, target, case):
    """Run a trusted target on copies of the case's arguments."""
    inputs, calls = copied((case.inputs, case.calls))
    try:
        with np.errstate(all="ignore"):
            outputs = produce(target, inputs, calls, exercise.paths)
    except Exception as error:
        return Observation(error=f"{type(error).__name__}: {error}")
    return Observation(tuple(map(np.asarray, outputs)), "", changed(case.arrays(), inside((inputs, calls), np.ndarray)))


def copied(value):
    """Arrays in nested tuples and lists copied, each by itself, as a child process reads them."""
    if isinstance(value, (tuple, list)):
        return type(value)(map(copied, value))
    return value.copy() if isinstance(value, np.ndarray) else value


def changed(before, after):
    """The numbers of those arrays that are no longer what they were, or are gone."""
    after = [*after, *[None] * len(before)]
    return tuple(i for i, (a, b) in enumerate(zip(before, after)) if b is None or not same(a, b))


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and (      # bytes first: ten times as quick
        a.tobytes() == b.tobytes() or np.array_equal(a, b, equal_nan=True))
