"""Exercises: a solution, the known mistakes, and the cases on which a student's answer is compared with both.

A known mistake is an edit of the solution's text. This shows the wrong code next to the correct code, lets several
mistakes be combined automatically, and makes it possible to write the files of a simulated class.
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

from ..sandbox.inside.worker import Function, instances
from .counted_loops import Steps, with_counted_loops
from .numbering import FORMER, stream
from .observation import observe

IMPORTS = "import math\n\nimport numpy as np\n"
AGREE = "probes.agree.agree"                    # kind of the complaint about inputs that do not show a bug
TODO = "# TODO: replace this line{}.\nraise NotImplementedError"

# All sizes and all ratios of sizes differ, so that a wrong factor can be attributed to one of them. The square case
# hides a missing transpose from the shape check. The third entry lists the leading axes of arguments of shape (..., n).
SIZES = (
    ("ordinary sizes", dict(B=3, T=5, S=7, H=2, d=6, D=12, F=16, V=11), "BT"),
    ("other sizes", dict(B=5, T=7, S=9, H=3, d=6, D=18, F=22, V=13), "BT"),
    ("square: T = S = d, D = F = V", dict(B=3, T=6, S=6, H=2, d=6, D=12, F=12, V=12), "BT"),
    ("rows without a batch", dict(B=3, T=7, S=5, H=2, d=5, D=10, F=14, V=11), "T"),
    ("one more axis", dict(B=3, T=5, S=7, H=2, d=7, D=14, F=10, V=9), "BHT"),
)


@dataclass(frozen=True, eq=False)               # compared by identity, so that it can be a dictionary key
class Mistake:
    """A known mistake. Each of its `edits` replaces a text that occurs once in the solution by a wrong text."""

    name: str                                   # such as "SMB-1"
    edits: dict                                 # {correct text: wrong text}
    explanation: str                            # tells the student what is wrong and why, but not the answer
    twin: str = ""                              # name of another mistake with the same results in every case
    shown_by: Callable = None                   # function (*outputs): whether they show it; for "find the bug" only
    context: str = ""                           # part of a line without which the edits cannot be understood


@dataclass(frozen=True, eq=False)               # compared by identity, too
class Case:
    """The arguments of a function, or the constructor's arguments of a class and the calls that follow."""

    note: str
    inputs: tuple
    calls: tuple = ()                           # (method, arguments) in order
    sizes: dict = field(default_factory=dict)   # {letter: size}
    role: str = ""                              # "again" or "float32" if it repeats the first case

    def arrays(self):
        """Returns all arrays among the arguments, in order."""
        return instances((self.inputs, self.calls), np.ndarray)


@dataclass(frozen=True, eq=False)
class Exercise:
    """Everything about one exercise except the students' files.

    Parameters:
        number : the lesson and the place in it, such as "01.2"
        title : such as "Softmax, backward"
        minutes : time that a student needs who has done the lesson
        lines : lines of code that the solution needs
        solution : function or class of plain arrays; its docstring is the student's specification
        hints : three sentences, each closer to the answer
        reference : the package's own components, taking the same arguments as the solution; for a class, a function
            that returns an object with the same methods and parameters
        inputs : function (rng, n) that returns the arguments, where n holds the sizes and `lead`; for a class, the
            constructor's arguments and the calls
        edges : function (rng) that returns a list of (note, arguments) for edge cases
        outputs : names of the returned values; for a class, of what its calls return, followed by attribute paths
            such as "weight.grad"
        mistakes : the catalog of known mistakes
        invariants : (sentence, function (inputs, outputs) that returns an array that must be 0)
        alternatives : {name: edits} of solutions that are also correct
        given : functions and classes that the student's file contains ready to use
        write : for a class, the methods that students write; the others are given
        judge : function (*outputs) that returns None, or the Message about what is wrong; replaces the comparison with
            `reference`
        kind : "write", "predict", "find the bug", "explain" or "question"
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
    kind: str = "write"

    @property
    def name(self):
        return self.solution.__name__

    @property
    def file(self):
        """The name of the student's file, such as ex01_2_softmax_backward.py."""
        words = re.sub(r"(?<!^)([A-Z])", r"_\1", self.name).lower()
        return f"ex{self.number.replace('.', '_')}_{words}.py"

    @property
    def former_file(self):
        """The name of the file before exercises were numbered by lesson (kept for one release)."""
        if self.number not in FORMER:
            return self.file
        return self.file.replace(self.number.replace(".", "_"), FORMER[self.number], 1)

    @property
    def lesson(self):
        """The number of its lesson, such as "01"."""
        return self.number.split(".")[0]

    @property
    def points(self):
        """One point for every five minutes."""
        return max(1, round(self.minutes / 5))

    @property
    def paths(self):
        """The outputs that are attributes of an object, such as "weight.grad"."""
        return [name for name in self.outputs if "." in name]

    @property
    def hides_answers(self):
        """True for questions and predictions: the checker says which answer is wrong, but not what is right."""
        return self.kind == "predict" or not self.parameters

    @property
    def is_class(self):
        return isinstance(self.solution, type)

    def cases(self, seed):
        """Returns the cases of one seed.

        The first case is repeated at the end to see whether the second call gives the same result. If it has
        floating-point arrays, it is repeated once more in float32.
        """
        streams = itertools.count()
        cases = []
        for note, sizes, lead in SIZES:
            rng = np.random.default_rng([seed, stream(self.number), next(streams)])
            n = SimpleNamespace(**sizes, lead=tuple(sizes[letter] for letter in lead))
            arguments = self.inputs(rng, n)
            if all(isinstance(value, (int, float)) for value in arguments):
                note = "drawn numbers"          # which need not have the sizes that the note describes
            cases.append(self.case(self.own_letters(note), arguments, {**sizes, "N": math.prod(n.lead)}))
            has_arguments = cases[0].inputs or cases[0].calls
            if not has_arguments:               # a question: one case is enough
                return cases
        rng = np.random.default_rng([seed, stream(self.number), next(streams)])
        cases += [self.case(note, arguments, {}) for note, arguments in self.edges(rng)]
        repeated = [replace(cases[0], role="again")]
        if has_floats(cases[0]):
            repeated.append(as_float32(cases[0]))
        return cases + repeated

    def own_letters(self, note):
        """Returns the note of a case without sizes that the docstring does not name."""
        words, _, sizes = note.partition(": ")
        known = self.solution.__doc__
        if not sizes or not known:
            return note
        named = [[letter for letter in part.split(" = ") if re.search(rf"\b{letter}\b", known)]
                 for part in sizes.split(", ")]
        named = ", ".join(" = ".join(letters) for letters in named if len(letters) > 1)
        return f"{words}: {named}" if named else f"{words}: equal sizes"

    @functools.cached_property
    def parameters(self):
        """The names of the arguments; for a class, those of its constructor."""
        return list(inspect.signature(self.solution).parameters)

    def describe(self, case):
        """Returns the note of a case and its arguments: the shapes of arrays, and other values."""
        words = [f"{name} {brief(value)}" for name, value in zip(self.parameters, case.inputs)]
        words += [f"{method}({', '.join(map(brief, arguments))})" for method, arguments in case.calls]
        return f"{case.note}: {textwrap.shorten(', '.join(words), 160)}" if words else case.note

    def labels(self, case):
        """Returns a name for each of the case's arrays."""
        calls = [(f"an argument of {method}", arguments) for method, arguments in case.calls]
        named = (*zip(self.parameters, case.inputs), *calls)
        return [name for name, value in named for _ in instances(value, np.ndarray)]

    def letters(self, case):
        """Returns {name: value} of possible factors: the sizes, each float argument p, and 1 - p. {} for edge cases.

        A size that is itself an argument, such as T, has the value of the argument.
        """
        if not case.sizes:
            return {}
        arguments = dict(zip(self.parameters, case.inputs))
        numbers = {name: value for name, value in arguments.items() if isinstance(value, float)}
        numbers |= {f"(1 - {name})": 1 - value for name, value in numbers.items()}
        sizes = case.sizes | {name: value for name, value in arguments.items()
                              if name in case.sizes and isinstance(value, int)}
        return {**sizes, **{name: value for name, value in numbers.items() if value > 0}}

    def case(self, note, arguments, sizes):
        """Returns the Case of what `inputs` or `edges` returned."""
        return Case(note, *arguments, sizes) if self.is_class else Case(note, arguments, (), sizes)

    @functools.cached_property
    def text(self):
        """The source of the solution."""
        return textwrap.dedent(inspect.getsource(self.solution))

    @functools.cached_property
    def header(self):
        """The part of the file above the solution: imports and given functions."""
        return IMPORTS + "".join(f"\n\n{textwrap.dedent(inspect.getsource(part))}" for part in self.given) + "\n\n"

    @functools.cached_property
    def header_names(self):
        """The names that the header defines."""
        names = {}
        exec(self.header, names)
        return names

    def edited(self, *edits):
        """Returns the file of a student who made these edits, or None if two edits touch the same text."""
        text = self.edited_text(*edits)
        return None if text is None else self.header + text

    def edited_text(self, *edits):
        """Returns the solution without its header, with these edits, or None if two of them touch the same text."""
        spans = sorted((self.text.index(old), old, new) for edit in edits for old, new in edit.items())
        text, end = "", 0
        for start, old, new in spans:
            if start < end:
                return None
            text += self.text[end:start] + new
            end = start + len(old)
        return text + self.text[end:]

    def target(self, source, bounded=False):
        """Returns the function or class that a trusted source defines: a whole file, or the solution without header.

        Parameters:
            bounded : its loops end with an error when `steps` has none left; mistakes together may make them endless
        """
        names = {**self.header_names}
        if bounded:
            names["count_step"] = self.steps.count
            source = with_counted_loops(source)
        exec(compile(source, self.file, "exec"), names)
        return names[self.name]

    @functools.cached_property
    def steps(self):
        """The steps that loops of bounded targets may still take."""
        return Steps()

    @functools.cached_property
    def compiled_methods(self):
        """Cache of `assembled`: {source of a method: the names that it defines}."""
        return {}

    def assembled(self, text):
        """Does what `target` does for a class, but compiles a method only once that occurs in many combinations."""
        members = {}
        for part in re.split("^(?=    def )", text, flags=re.M)[1:]:
            if part not in self.compiled_methods:
                self.compiled_methods[part] = vars(self.target(f"class {self.name}:\n{part}", bounded=True))
            members |= {name: value for name, value in self.compiled_methods[part].items() if callable(value)}
        return type(self.name, (), members)

    @property
    def keeps_float32(self):
        """True if an answer is checked in float32 and returns arrays of floats, not only integers or one number."""
        cases = self.cases(0)
        outputs = observe(self, self.solution, cases[0]).outputs
        return cases[-1].role == "float32" and any(y.ndim and y.dtype.kind == "f" for y in outputs)

    def skeleton(self):
        """Returns the file that a student starts with."""
        lines = f"About {self.lines} line{'' if self.lines == 1 else 's'}, {self.minutes} minutes."
        if self.keeps_float32:
            lines += " float32 in, float32 out."
        head = (f'"""Exercise {self.number}: {self.title}\n\n{lines}  Lesson: numpy-transformer lesson {self.lesson}\n'
                f"Check:  numpy-transformer exercise check {self.number}\n"
                f'Hint:   numpy-transformer exercise hint {self.number}\n"""\n\n')
        return head + self.header + with_todo(self.text, self.write)


def brief(value):
    """Returns a short description of an argument: the shape of an array, or the value of anything else."""
    if isinstance(value, (tuple, list)):
        words = list(map(brief, value))
        all_equal = len(words) >= 3 and len(set(words)) == 1
        return f"[{len(words)} times {words[0]}]" if all_equal else f"[{', '.join(words)}]"
    if isinstance(value, Function):
        return "function"
    return str(value.shape if isinstance(value, np.ndarray) else value)


def as_float32(value):
    """Converts float64 arrays to float32 in cases, tuples and lists."""
    if isinstance(value, Case):
        return replace(value, inputs=as_float32(value.inputs), calls=as_float32(value.calls), role="float32")
    if isinstance(value, (tuple, list)):
        return type(value)(map(as_float32, value))
    return value.astype(np.float32) if getattr(value, "dtype", None) == np.float64 else value


def has_floats(case):
    """Returns True if a case can be repeated in float32: it has float64 arrays, and no functions as arguments."""
    has_functions = instances((case.inputs, case.calls), Function)
    return not has_functions and any(array.dtype == np.float64 for array in case.arrays())


def with_todo(text, methods):
    """Returns the source with a TODO in place of the body of the function, or of these methods of the class."""
    tree, lines = ast.parse(text).body[0], text.splitlines()
    functions = [item for item in tree.body if isinstance(item, ast.FunctionDef) and item.name in methods] or [tree]
    for function in reversed(functions):
        first = function.body[ast.get_docstring(function) is not None]
        indent = " " * first.col_offset
        start = first.lineno - 1
        while lines[start - 1].strip().startswith("#"):     # comments above the first line belong to the answer
            start -= 1
        takes = [argument for argument in function.args.args if argument.arg != "self"]
        todo = TODO.format("; do not change the arguments in place" if takes else "")
        lines[start:function.end_lineno] = textwrap.indent(todo, indent).splitlines()
    return "\n".join(lines) + "\n"
