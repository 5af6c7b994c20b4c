"""What the stepper prints about its keys."""

from .wrapping import fill, terminal_width

KEYS = {"Enter": "[Enter] {}", "b": "b back", "g": "g N go to cell N", "l": "l list", "a": "a answers", "p": "p EXPR print",
        "v": "v variables", "e": "e explore", "o": "o open figure", "r": "r run again", "i": "i Python",
        "c": "c run to end", "?": "? help", "q": "q quit: "}
TYPED = 4                                       # columns; a simple terminal scrolls a line that becomes too long
HELP = {"Enter": "goes on to the next cell; at the last one, ends the lesson", "b": "goes back one cell",
        "g 7": "goes to cell 7", "l": "lists the cells", "p q @ k.T": "prints an expression, here q @ k.T",
        "v": "lists the variables with their shapes", "r": "runs the cell again", "o": "opens the latest figure",
        "e": "opens the arrays in the explorer", "e layer": "opens the latest call of the module `layer` there",
        "i": "opens Python with the variables; Ctrl-D comes back",
        "a": "at the last cell, shows the next answer to the closing questions; a 3, the third", "c": "runs to the end",
        "q": "quits", "? or h": "shows this list"}


def prompt(keys):
    """Returns the keys on as few lines as fit the terminal, with room for what the reader types."""
    lines, room = [""], terminal_width() - TYPED
    for key in keys:
        if lines[-1] and len(lines[-1]) + 2 + len(key) >= room:
            lines.append("")
        lines[-1] += f"  {key}" if lines[-1] else key
    return "\n".join(lines)


def explained():
    """Returns a line about each key, wrapped to the terminal."""
    return "\n".join(fill(f"  {key:9}  {text}", " " * 13) for key, text in HELP.items())
