"""The words that people read, by language: one folder per language, texts/en first, and one INI file per subject.

A program builds a `Message`, a kind and its values; `render` turns it into a sentence of the chosen language. Code that
needs to know what a message says looks at its kind and its values, and never at the finished sentence. Whatever a
language lacks is shown in English.
"""

import configparser
import functools
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
ENGLISH = FOLDER / "en"
VARIABLE = "NUMPY_TRANSFORMER_LANGUAGE"
FOLDED = re.compile(r"(?<!\n)\n(?!\n|\| )")    # a line break inside a paragraph


class Message:
    """What is to be said: a kind such as "verdict.time.stopped", and the values that its sentence names.

    Parameters:
        kind : str, SUBJECT.SECTION.KEY of a text with {named} placeholders; a text with the keys KEY.one and KEY.other
            has a form for n = 1 and one for every other n
        values : for the placeholders: numbers, strings, other messages, or lists of messages
    """

    __slots__ = ("kind", "values")

    def __init__(self, kind: str, /, **values: Any) -> None:
        self.kind = kind
        self.values = values

    def __repr__(self) -> str:
        return f"Message({', '.join([repr(self.kind), *(f'{name}={value!r}' for name, value in self.values.items())])})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and (self.kind, self.values) == (other.kind, other.values)

    def __hash__(self) -> int:
        return hash(self.kind)


def render(said: Any) -> Any:
    """Returns the sentence of a message; a list of messages as one text; and any other value as it is."""
    if isinstance(said, (list, tuple)):
        return " ".join(str(render(part)) for part in said)
    if not isinstance(said, Message):
        return said
    subject, section, key = said.kind.split(".", 2)
    texts = texts_of(subject)[section]
    if key not in texts:
        key += ".one" if said.values["n"] == 1 else ".other"
    return texts[key].format(**{name: render(value) for name, value in said.values.items()})


def listed(items: Sequence[Any], last: str = "and") -> Any:
    """Returns several items as one value of a message, "a, b and c" in English; one item as it is.

    Parameters:
        last : "and" or "or"
    """
    whole, *rest = items
    for i, item in enumerate(rest, 1):
        whole = Message(f"words.list.{last if i == len(rest) else 'more'}", before=whole, item=item)
    return whole


def changed(said: Any, change: Callable[[str, Any], Any]) -> Any:
    """Returns a message with `change(name, value)` in place of each value that is no message, also in messages inside."""
    def part(name, value):
        if isinstance(value, (list, tuple)):
            return [part(name, item) for item in value]
        return changed(value, change) if isinstance(value, Message) else change(name, value)
    return Message(said.kind, **{name: part(name, value) for name, value in said.values.items()})


def as_data(said: Any) -> Any:
    """Returns a message, or a value of one, as dictionaries, lists, strings and numbers, for JSON."""
    if isinstance(said, (list, tuple)):
        return [as_data(item) for item in said]
    if not isinstance(said, Message):
        return said
    return {"kind": said.kind, "values": {name: as_data(value) for name, value in said.values.items()}}


def from_data(data: Any) -> Any:
    """Returns what `as_data` made this of."""
    if isinstance(data, list):
        return [from_data(item) for item in data]
    if not isinstance(data, dict):
        return data
    return Message(data["kind"], **{name: from_data(value) for name, value in data["values"].items()})


def texts_of(subject: str) -> dict[str, dict[str, str]]:
    """Returns all texts of one subject in the chosen language, {section: {key: text}}.

    Parameters:
        subject : str, the path of an INI file inside the language's folder without its ending, such as "verdict", or
            of a folder, all of whose files make up the table
    """
    return _table(subject, folder_of_language())


@functools.cache
def _table(subject: str, folder: Path) -> dict[str, dict[str, str]]:
    parser = parsed(ENGLISH, subject)
    if folder != ENGLISH:
        translated = parsed(folder, subject)
        for section in translated.sections():
            own = dict(translated.items(section, raw=True))
            parser.read_dict({section: plurals(own) | own})
    return resolved(parser, folder / subject)


def plurals(texts: dict[str, str]) -> dict[str, str]:
    """Returns {KEY.one: text} for each KEY.other: a language may have one form for all numbers."""
    return {f"{key.removesuffix('.other')}.one": text for key, text in texts.items() if key.endswith(".other")}


def read(folder: Path, subject: str) -> dict[str, dict[str, str]]:
    """Returns the texts of one language alone, {} if it lacks the subject.

    Raises: ValueError if a file cannot be read as INI, or refers to a text that the language lacks.
    """
    return resolved(parsed(folder, subject), folder / subject)


def parsed(folder: Path, subject: str) -> configparser.ConfigParser:
    """Returns what one language's files of a subject contain; nothing if it has none.

    ${KEY} and ${SECTION:KEY} stand for other texts. A text may go on in further lines. An empty line begins a new
    paragraph, and "| " a line of its own.
    """
    parser = configparser.ConfigParser(delimiters=("=",), comment_prefixes=("#",), default_section="",
                                       interpolation=configparser.ExtendedInterpolation())
    parser.optionxform = str                    # keys such as LIN-1 keep their capitals
    try:
        parser.read(sorted((folder / subject).glob("*.ini")) or folder / f"{subject}.ini", encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{folder / subject}.ini cannot be read: {' '.join(str(error).split())}") from error
    return parser


def resolved(parser: configparser.ConfigParser, path: Path) -> dict[str, dict[str, str]]:
    """Returns the texts with what they refer to, the lines of a paragraph joined."""
    try:
        return {section: {key: FOLDED.sub(" ", text.strip()) for key, text in parser[section].items()}
                for section in parser.sections()}
    except configparser.Error as error:
        raise ValueError(f"{path}: {' '.join(str(error).split())}") from error


def folder_of_language() -> Path:
    """Returns the folder of the language that the environment variable NUMPY_TRANSFORMER_LANGUAGE names: en by default.

    The variable holds the name of a folder in numpy_transformer/texts, such as "en", or the path of a folder elsewhere.

    Raises: ValueError if there is no such folder.
    """
    name = os.environ.get(VARIABLE) or "en"
    folder = FOLDER / name                      # an absolute path replaces FOLDER
    if os.sep in name and not Path(name).is_absolute():
        folder = Path(name).absolute()
    if not folder.is_dir() or name.startswith((".", "_")) and os.sep not in name:
        raise ValueError(f"{VARIABLE}={name}: there is no such language; choose from {', '.join(languages())}, or give "
                         "the path of a folder with texts")
    return folder


def languages() -> list[str]:
    """Returns the names of all languages that the package has."""
    return sorted(path.name for path in FOLDER.iterdir() if path.is_dir() and not path.name.startswith(("_", ".")))
