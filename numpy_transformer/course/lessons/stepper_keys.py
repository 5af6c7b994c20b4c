"""What the stepper prints about its keys."""

from .words import lesson_words
from .wrapping import fill_lines

# {what a key does: an example of it}, as the key ? explains them
EXAMPLES = {"next": "Enter", "back": "b", "go_to": "g 7", "list": "l", "print": "p q @ k.T", "variables": "v", "again": "r",
            "figure": "o", "explore": "e", "explore_call": "e layer", "python": "i", "answers": "a", "to_end": "c",
            "quit": "q", "help": "?, h"}


def prompt(at_end: bool = False, answers: bool = False) -> str:
    """Returns the line at which the reader types a key.

    Parameters:
        at_end : True at the last cell, where Enter ends the lesson
        answers : True if there are answers to its closing questions
    """
    if not at_end:
        return lesson_words("keys.prompt") + " "
    return lesson_words("keys.prompt_with_answers" if answers else "keys.prompt_at_end") + " "


def explained() -> str:
    """Returns a line about each key, wrapped to the terminal."""
    return "\n".join(fill_lines(f"  {key:9}  {lesson_words(f'help.{name}')}", " " * 13) for name, key in EXAMPLES.items())
