"""Reads the answers to the closing questions of a lesson: answers/05_attention.md has those of 05_attention.py."""

import re
from pathlib import Path

from .words import lesson_words
from .wrapping import fill_lines, reflow

ITEM = re.compile(r"^(?=\d+\. )", re.M)


def closing_answers(lesson: Path) -> dict[int, str]:
    """Returns {number of the question: its answer in Markdown} for the lesson with this path, in English.

    They stand in the folder answers/ beside the lesson, in a file with the lesson's name. Without it, there are none.
    """
    lesson = Path(lesson)
    page = lesson.parent / "answers" / f"{lesson.stem}.md"
    return numbered(page.read_text(encoding="utf-8")) if page.is_file() else {}


def numbered(text):
    """Returns {number: text} of the items of a numbered list, whose further lines are indented as far as the first."""
    items = {}
    for item in ITEM.split(text)[1:]:
        mark = re.match(r"(\d+)\. +", item)
        items[int(mark[1])] = re.sub(f"^ {{1,{mark.end()}}}", "", item[mark.end():].strip(), flags=re.M)
    return items


class Answers:
    """The answers to the closing questions of a lesson, unfolded one after another."""

    def __init__(self, texts: dict[int, str]):
        self.texts = texts
        self.latest = 0                         # number of the answer that was shown last

    def text(self, number):
        """Returns the answer with this number, or the next one if there is no number, or a sentence why there is none."""
        later = [n for n in self.texts if n > self.latest]
        if not number and not later:
            return fill_lines(f"  {lesson_words('answers.all')}", "    ")
        number = number or str(min(later))
        if not number.isdecimal() or int(number) not in self.texts:
            sentence = lesson_words("answers.unknown", number=number, numbers=", ".join(map(str, self.texts)),
                                    first=min(self.texts))
            return fill_lines(f"  {sentence}", "    ")
        self.latest = int(number)
        return f"\n{reflow(f'{number}. {self.texts[self.latest]}')}\n"
