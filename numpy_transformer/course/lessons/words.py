"""The sentences of the lesson runner, which stand in texts/en/lessons.ini."""

from typing import Any

from ...texts import Message, render
from .wrapping import fill_lines


def lesson_words(kind: str, **values: Any) -> str:
    """Returns a sentence in the chosen language; `kind` is its section and key, such as "cell.first"."""
    return render(Message(f"lessons.{kind}", **values))


def say(kind: str, **values: Any) -> None:
    """Prints a sentence, indented like all answers of the stepper and wrapped to the terminal."""
    print(fill_lines(f"  {lesson_words(kind, **values)}", "    "))
