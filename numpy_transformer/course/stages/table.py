"""The twelve stages: which file each one is, what of it students write, and how long it takes."""

import ast
import functools
import re
from dataclasses import dataclass

from ...texts import ENGLISH, folder_of_language, texts_of
from .definition import program_file, stage_files

LAW = "module"                                  # the file that every stage imports
NAMED = re.compile(r"(?:stage)?([0-9]{1,2})(?:_\w+)?(?:\.(?:py|md))?")
TODO = "# TODO: write this\nraise NotImplementedError"


@dataclass(frozen=True)
class Stage:
    """One file of the program.

    Attributes:
        number : 1 to 12
        minutes : time that a student needs who has done the lessons
        write : the functions and methods that a student writes, such as "Linear.forward"; the others are given
        hidden : helpers of the reference program that are not in the student's file
    """

    number: int
    minutes: int
    write: tuple
    hidden: tuple = ()

    @property
    def name(self):
        """The name of its file without the ending, such as "stage01_loss"."""
        return stage_files()[self.number]

    @property
    def file(self):
        return f"{self.name}.py"

    @property
    def page(self):
        """The name of its page in a student's folder."""
        return f"{self.name}.md"

    @property
    def title(self):
        return texts_of("stages/hints")[f"{self.number:02}"]["title"]

    @property
    def hints(self):
        """Three sentences or more, each closer to the answer."""
        words = texts_of("stages/hints")[f"{self.number:02}"]
        return tuple(words[key] for key in ("hint1", "hint2", "hint3"))

    @property
    def lessons(self):
        """Numbers of the lessons that prepare it."""
        from ..lessons.files import LESSONS  # grading does not need the lessons
        return LESSONS[self.number]

    @property
    def points(self):
        """One point for every five minutes, as for exercises."""
        return max(1, round(self.minutes / 5))

    @property
    def names(self):
        """The functions and classes that the other stages and the checker ask for."""
        return list(dict.fromkeys(name.split(".")[0] for name in self.write))

    @property
    def solution(self):
        """The file of the reference program."""
        return program_file(self.name)

    @functools.cached_property
    def skeleton(self):
        """The file that a student starts with."""
        source = self.solution
        lines = source.splitlines()
        for part, name in reversed(functions(ast.parse(source))):
            if name in self.hidden:
                lines[part.lineno - 1:part.end_lineno + 2] = []
            elif name in self.write:
                first = part.body[ast.get_docstring(part) is not None:][:1]
                start = first[0].lineno - 1 if first else part.end_lineno
                indent = " " * (part.col_offset + 4)
                lines[start:part.end_lineno] = [indent + line for line in TODO.split("\n")]
        return "\n".join(lines) + "\n"

    def page_text(self):
        """Returns the page, in the chosen language if it has one."""
        name = f"stages/{self.page}"
        path = folder_of_language() / name
        return (path if path.exists() else ENGLISH / name).read_text(encoding="utf-8")


def functions(tree):
    """Returns a list of (function, dotted name) of a module's functions and methods, in their order."""
    found = []
    for item in tree.body:
        if isinstance(item, ast.FunctionDef):
            found.append((item, item.name))
        elif isinstance(item, ast.ClassDef):
            found += [(part, f"{item.name}.{part.name}") for part in item.body if isinstance(part, ast.FunctionDef)]
    return found


def both(*classes):
    """Returns the names of forward and backward of these classes."""
    return tuple(f"{name}.{method}" for name in classes for method in ("forward", "backward"))


STAGES = {stage.number: stage for stage in (
    Stage(1, 40, ("softmax", "softmax_backward", *both("CrossEntropyLoss"))),
    Stage(2, 30, both("Linear", "Embedding")),
    Stage(3, 30, both("LayerNorm")),
    Stage(4, 25, both("GELU", "FeedForward")),
    Stage(5, 40, ("causal_mask", *both("Attention"))),
    Stage(6, 40, ("split_heads", "merge_heads", *both("MultiHeadAttention"))),
    Stage(7, 20, both("Block")),
    Stage(8, 40, both("LanguageModel")),
    Stage(9, 40, ("AdamW.step", "clip_gradients", "learning_rate", "train")),
    Stage(10, 50, ("next_probabilities", "cached_attention", "cached_forward", "generate")),
    Stage(11, 60, ("read_safetensors", "load_gpt2", "BytePairEncoding.merge", "BytePairEncoding.encode",
                   "BytePairEncoding.decode"), ("fill_norm",)),
    Stage(12, 60, (*both("DecoderBlock"), "EncoderDecoder.encode", "EncoderDecoder.decode", *both("EncoderDecoder"),
                   "beam_search")),
)}


def stage_of(text):
    """Returns the Stage that a number such as "5", or a file such as "stage05_attention.py", stands for.

    Raises: ValueError if there is none.
    """
    match = NAMED.fullmatch(text.replace("\\", "/").rpartition("/")[2])
    if not match or int(match[1]) not in STAGES:
        raise ValueError(f"there is no stage {text!r}; the stages have the numbers 1 to {max(STAGES)}")
    return STAGES[int(match[1])]
