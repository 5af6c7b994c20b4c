"""The explorer's sentences, which stand in texts/en/explorer: step.ini and errors.ini here, page.ini in the page."""

from typing import Any

from ..texts import Message, render


def sentence(kind: str, **values: Any) -> str:
    """Returns a text in the chosen language; `kind` is its file, section and key, such as "errors.session.edits"."""
    shown = {name: str(value) if isinstance(value, (list, tuple)) else value for name, value in values.items()}
    return render(Message(f"explorer/{kind}", **shown))


def counted(noun: str, number: int) -> str:
    """Returns "1 text" or "1,200 texts" for the noun "text"."""
    return sentence(f"step.count.{noun}", n=number)
