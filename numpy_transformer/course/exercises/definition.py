"""What an exercise is: a solution, the known mistakes, and the cases on which an answer is compared with both.

Here is code only. The words that students read stand in texts/en/exercises/, in a section for each exercise: its title,
task and hints, and the explanation of each mistake. sheet.py puts them into the file that a student gets.
"""

import ast
import functools
import inspect
import re
import textwrap
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Mapping

from ...texts import texts_of
from . import cases, sheet
from .observation import observe

IMPORTS = "import math\n\nimport numpy as np\n"
MOST_STEPS = 2000                               # of all loops of a known mistake in one case
AGREE = "exercises.find.agree"                  # kind of the Message that a wrong version and the right one agree


@dataclass(frozen=True, eq=False)               # compared by identity, so that it can be a dictionary key
class Mistake:
    """A known mistake is an edit of the solution's text.

    So the wrong code stands next to the correct code, several mistakes are combined automatically, and the files of a
    simulated class can be written.
    """

    name: str                                   # such as "SMB-1"
    edits: dict                                 # {text that occurs once in the solution: wrong text}
    twin: str = ""                              # name of another mistake with the same results in every case
    shown_by: Callable = None                   # function (*outputs): whether they show it; for "find the bug" only
    context: str = ""                           # part of a line without which the edits cannot be understood
    exercise: Any = field(default=None, repr=False)     # the Exercise, which sets it

    @property
    def explanation(self):
        """Tells the student what is wrong and why, and how to put it right, but not the answer."""
        return " ".join(filter(None, self.parts))

    @property
    def parts(self):
        """What is wrong, and the remedy, which stands in a line of its own; "" if the text has none."""
        what, _, remedy = self.exercise.texts[self.name].partition(f"\n{sheet.LINE}")
        return what, remedy


@dataclass(frozen=True, eq=False)               # compared by identity, too
class Exercise:
    """Everything about one exercise except its words and the students' files.

    Parameters:
        number : the lesson and the place in it, such as "01.2"
        minutes : time that a student needs who has done the lesson
        lines : lines of code that the solution needs
        solution : function or class of plain arrays
        reference : the package's own components, taking the same arguments as the solution; for a class, a function
            that returns an object with the same methods and parameters
        inputs : function (rng, n) that returns the arguments, where n holds the sizes and `lead`; for a class, the
            constructor's arguments and the calls
        edges : function (rng) that returns a list of (name, arguments) for edge cases
        further_edges : names of edge cases that do not help to name mistakes, because answers with the same one differ
        outputs : names of the returned values; for a class, of what its calls return, followed by attribute paths
            such as "weight.grad"
        mistakes : the catalog of known mistakes
        must_be_zero : {name of an invariant: function (inputs, outputs) that returns an array that must be 0}
        alternatives : {name: edits} of solutions that are also correct
        given : functions and classes that the student's file contains ready to use
        imported : those that it imports from course/helpers.py, because other exercises ask for them
        write : for a class, the methods that students write; the others are given
        judge : function (*outputs) that returns None or a Message that says what is wrong; replaces the comparison
            with `reference`
        kind : "write", "predict", "find the bug", "explain" or "question"
        size_letters : the letters of sizes that the task names, such as "TD"
        number_sizes : in which of the sizes "tiny", "large" and "mixed" normal numbers are drawn once more
        powers : {argument: power of ten} by which the arguments are multiplied in a further case each, for exercises
            whose normal numbers cannot all be large
        single_row : True if the arguments (..., n) are drawn once more as a single row, (n,)
        linked : groups of names of arguments that belong together, because one is computed from the others
        words : {key: text}; None: those of its number in texts/
    """

    number: str
    minutes: int
    lines: int
    solution: Callable
    reference: Callable = None
    inputs: Callable = lambda rng, n: ()
    edges: Callable = lambda rng: []
    further_edges: tuple = ()
    outputs: tuple = ("y",)
    mistakes: tuple = ()
    must_be_zero: dict = field(default_factory=dict)
    alternatives: dict = field(default_factory=dict)
    given: tuple = ()
    imported: tuple = ()
    write: tuple = ()
    judge: Callable = None
    kind: str = "write"
    size_letters: str = ""
    number_sizes: tuple = ("tiny", "large", "mixed")
    powers: tuple = ()
    single_row: bool = False
    linked: tuple = ()
    words: Mapping = None

    def __post_init__(self):
        object.__setattr__(self, "mistakes", tuple(replace(mistake, exercise=self) for mistake in self.mistakes))

    @property
    def texts(self):
        """{key: text} in the language of the moment."""
        return self.words or texts_of("exercises")[self.number]

    @property
    def title(self):
        return self.texts["title"]

    @property
    def hints(self):
        """Three sentences, each closer to the answer."""
        return tuple(self.texts[key] for key in ("hint1", "hint2", "hint3"))

    @property
    def invariants(self):
        """Pairs (sentence, function (inputs, outputs) that returns an array that must be 0)."""
        return tuple((self.texts[f"invariant.{name}"], measure) for name, measure in self.must_be_zero.items())

    @property
    def name(self):
        return self.solution.__name__

    @property
    def most_steps(self):
        """The steps of all loops of a known mistake in one case."""
        return MOST_STEPS

    @property
    def entry(self):
        """The name of what is run in the student's file."""
        return self.name

    @property
    def driver(self):
        """The source that is run after the student's file, in a copy of its names; "" if nothing is."""
        return ""

    @property
    def roots(self):
        """The functions and methods of the student's file whose results are the outputs; () if `entry` is the only one."""
        return ()

    @property
    def stored(self):
        """Attributes of the student's objects, such as "weight.grad", that are outputs as well as what the roots return."""
        return ()

    @property
    def file(self):
        """The name of the student's file, such as ex01_2_softmax_backward.py."""
        words = re.sub(r"(?<!^)([A-Z])", r"_\1", self.name).lower()
        return f"ex{self.number.replace('.', '_')}_{words}.py"

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

    @functools.cached_property
    def parameters(self):
        """The names of the arguments; for a class, those of its constructor."""
        return list(inspect.signature(self.solution).parameters)

    def cases(self, seed):
        """Returns the cases of one seed."""
        return cases.draw_cases(self, seed)

    def describe(self, case):
        """Returns the note of a case and its arguments."""
        return cases.describe_case(self, case)

    def labels(self, case):
        """Returns a name for each of the case's arrays."""
        return cases.labels(self, case)

    def argument_names(self, case):
        """Returns a name for each of the case's arguments, those of the calls after the inputs."""
        return cases.argument_names(self, case)

    def letters(self, case):
        """Returns {name: value} of the numbers of a case that may be factors of a wrong answer."""
        return cases.factors(self, case)

    @property
    def keeps_float32(self):
        """True if an answer is checked in float32 and returns arrays of floats, not only integers or one number."""
        drawn = self.cases(0)
        outputs = observe(self, self.solution, drawn[0]).outputs
        return any(case.role == "float32" for case in drawn) and any(y.ndim and y.dtype.kind == "f" for y in outputs)

    @functools.cached_property
    def code(self):
        """The source of the solution, without words."""
        return textwrap.dedent(inspect.getsource(self.solution))

    @property
    def text(self):
        """The solution as students read it."""
        return sheet.documented(self.code, self.texts, "task")

    @functools.cached_property
    def given_code(self):
        """{name: source} of the given and imported functions and classes, without words."""
        return {part.__name__: textwrap.dedent(inspect.getsource(part)) for part in (*self.given, *self.imported)}

    @property
    def given_texts(self):
        """{name: source} of the given and imported functions and classes with their words."""
        return {name: sheet.documented(code, self.texts, f"given.{name}") for name, code in self.given_code.items()}

    @property
    def header(self):
        """The part of the file above the solution: imports and given functions."""
        texts = self.given_texts
        return IMPORTS + sheet.imports(self) + "".join(f"\n\n{texts[part.__name__]}" for part in self.given) + "\n\n"

    @property
    def code_with_given(self):
        """The source of all that is given or imported, without words."""
        return "\n\n".join([IMPORTS, *self.given_code.values()])

    def skeleton(self):
        """Returns the file that a student starts with."""
        return sheet.skeleton(self)

    def edited(self, *edits):
        """Returns the file of a student who made these edits, or None if two edits touch the same text."""
        code = self.edited_code(*edits)
        return None if code is None else self.header + sheet.documented(code, self.texts, "task")

    def edited_code(self, *edits):
        """Returns the solution without words and header, with these edits, or None if two of them touch the same text."""
        spans = sorted((self.code.index(old), old, new) for edit in edits for old, new in edit.items())
        code, end = "", 0
        for start, old, new in spans:
            if start < end:
                return None
            code += self.code[end:start] + new
            end = start + len(old)
        return code + self.code[end:]

    @functools.cached_property
    def header_names(self):
        """The names that the header defines."""
        names = {}
        exec(self.code_with_given, names)
        return names

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
        return Steps(self.most_steps)

    @functools.cached_property
    def compiled_methods(self):
        """Cache of `assembled`: {source of a method: the names that it defines}."""
        return {}

    def assembled(self, code):
        """Does what `target` does for a class, but compiles a method only once that occurs in many combinations."""
        members = {}
        for part in re.split("^(?=    def )", code, flags=re.M)[1:]:
            if part not in self.compiled_methods:
                self.compiled_methods[part] = vars(self.target(f"class {self.name}:\n{part}", bounded=True))
            members |= {name: value for name, value in self.compiled_methods[part].items() if callable(value)}
        return type(self.name, (), members)


class Steps:
    """Counts the steps of all loops, and raises an error when there are too many: mistakes together may never end."""

    def __init__(self, most):
        self.most = self.left = most

    def restart(self):
        self.left = self.most

    def count(self):
        self.left -= 1
        if self.left < 0:
            raise RuntimeError(f"a loop takes more than {self.most} steps")


def with_counted_loops(source):
    """Returns a source whose loops call count_step at each step, as a syntax tree; one without loops as it is."""
    if "for " not in source and "while " not in source:
        return source
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.For, ast.While)):
            node.body.insert(0, ast.parse("count_step()").body[0])
        elif isinstance(node, ast.comprehension):
            node.ifs.insert(0, ast.parse("count_step() is None", mode="eval").body)
    return ast.fix_missing_locations(tree)
