"""Answers that were written from the task sheets alone. course/answers/ holds them, one file for each exercise.

Each answer begins with a line `# === [ATB-3] what is wrong`, which goes on in lines that begin with `#     `. In
brackets are the names that the checker gives it: several with "and" or "or", `-` if it has none but the checker says
where the mistake is or what it does, and `no word` if the checker shows only the difference, or a message that needs no
explanation. A right answer has no brackets; its line says in which way it is written.
"""

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from numpy_transformer.course.checker.diagnosis import AnswerKey
from numpy_transformer.course.checker.localize import localize
from numpy_transformer.course.checker.messages import mistake_names
from numpy_transformer.course.checker.verdict import judge
from numpy_transformer.course.exercises import choose
from numpy_transformer.course.sandbox import run_task

from .students import play

FOLDER = Path(__file__).parents[1] / "course" / "answers"
ANSWER = re.compile(r"^# === (?:\[([^\]\n]+)\] )?(.*\n(?:#     .*\n)*)((?:(?!# === ).*\n)*)", re.MULTILINE)


@dataclass
class Answer:
    number: str                                 # of the exercise
    names: str                                  # what stands in brackets
    note: str
    code: str

    @property
    def source(self):
        return choose(self.number).header + self.code


def numbers(kind):
    """The numbers of the exercises with "wrong" or "right" answers."""
    return sorted(path.stem.replace("_", ".") for path in (FOLDER / kind).glob("*.txt"))


def read(kind, number):
    """A list of the wrong or right Answers to an exercise."""
    text = (FOLDER / kind / f"{number.replace('.', '_')}.txt").read_text(encoding="utf-8")
    return [Answer(number, names, re.sub(r"\n(#     )?", " ", note).strip(), code)
            for names, note, code in ANSWER.findall(text)]


@functools.lru_cache(1)                         # the answers to an exercise follow each other
def key(number):
    return AnswerKey(choose(number), 0)


def judged(answer):
    """The verdict that a student reads. The line is looked for only if nothing else is said, which saves time.

    It is looked for longer than a student waits, so that a slow machine finds it, too.
    """
    run = play(key(answer.number), answer.source)
    verdict = judge(key(answer.number), run)
    if verdict.explained:
        return verdict
    source = answer.source.encode()
    return localize(key(answer.number), verdict, run, choose(answer.number).file,
                    lambda task: run_task(source, task), seconds=3)


def names_of(verdict):
    """What belongs in the brackets of an answer with this verdict."""
    if verdict.mistakes:
        return mistake_names(verdict.mistakes)
    return "-" if verdict.explained else "no word"
