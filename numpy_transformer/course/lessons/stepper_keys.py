"""What the stepper prints about its keys."""

from .words import lesson_words
from .wrapping import columns, fill_lines, terminal_width

# {what a key does: how the prompt writes it}, in the order of the prompt
KEYS = {"next": "Enter", "back": "b", "go_to": "g", "list": "l", "answers": "a", "print": "p", "variables": "v",
        "explore": "e", "figure": "o", "again": "r", "python": "i", "to_end": "c", "help": "?", "quit": "q"}
# what the key ? explains, with an example of each key
EXAMPLES = {"next": "Enter", "back": "b", "go_to": "g 7", "list": "l", "print": "p q @ k.T", "variables": "v", "again": "r",
            "figure": "o", "explore": "e", "explore_call": "e layer", "python": "i", "answers": "a", "to_end": "c",
            "quit": "q", "help": "?, h"}
TYPED = 4                                       # columns; a simple terminal scrolls a line that becomes too long


def prompt(names: list[str], at_end: bool = False) -> str:
    """Returns these keys on as few lines as fit the terminal, with room for what the reader types.

    Parameters:
        names : keys of KEYS
        at_end : True at the last cell, where Enter ends the lesson
    """
    lines, width = [""], terminal_width() - TYPED
    for name in names:
        key = lesson_words("keys.end" if name == "next" and at_end else f"keys.{name}", key=KEYS[name])
        key += ": " if name == names[-1] else ""
        if lines[-1] and columns(lines[-1]) + 2 + columns(key) >= width:
            lines.append("")
        lines[-1] += f"  {key}" if lines[-1] else key
    return "\n".join(lines)


def explained() -> str:
    """Returns a line about each key, wrapped to the terminal."""
    return "\n".join(fill_lines(f"  {key:9}  {lesson_words(f'help.{name}')}", " " * 13) for name, key in EXAMPLES.items())
