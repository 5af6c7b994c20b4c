"""A lesson in another language: its texts, from a Markdown file in a folder beside the script that is named like the language.

lessons/ko/05_attention.md translates lessons/05_attention.py. Each text stands below a comment, which holds its place in
the lesson, a hash of its English, and the English itself:

    <!-- cell 4, claim 2 (4f2a9c1b)
    weights: P_ts = exp(S_ts) / sum of exp(S_tj)
    -->
    가중치: P_ts = exp(S_ts) / exp(S_tj)의 합

A text without a translation is shown in English, and so is one whose English has changed since: its hash tells. What a
lesson computes stands in {braces}, in the English and in the translation.
"""

import hashlib
import re
from dataclasses import replace
from pathlib import Path

from ...outputs import check_regular, write_output
from ...texts import ENGLISH, folder_of_language
from .answers import closing_answers
from .cells import Cell, cells
from .lesson_texts import FIELD, texts_in_code
from .words import lesson_words

ENTRY = re.compile(r"^<!-- (?P<place>[^\n(]+) \((?P<hash>[0-9a-f]{8})(?:, was (?P<old>[0-9a-f]{8}))?\)$.*?^-->$\n?"
                   r"(?P<text>.*?)(?=^<!-- |\Z)", re.M | re.S)


class Translation:
    """The texts of a lesson in the chosen language.

    Parameters:
        lesson : path of the lesson's script
        file : path of the file with the translated texts; None: the one of the chosen language
    """

    def __init__(self, lesson: Path, file: Path | None = None) -> None:
        self.lesson = lesson
        self.file = file or file_of_translation(lesson)
        self.entries = read_entries(self.file) if self.file is not None and self.file.is_file() else []
        self.english = texts_of(lesson) if self.entries else {}
        by_hash = {entry["hash"]: entry["text"] for entry in self.entries if not entry["old"] and entry["text"]}
        self.texts = {text: by_hash[digest(text)] for text in self.english.values() if digest(text) in by_hash}
        self.templates = [(pattern_of(text), FIELD.findall(text), translated)
                          for text, translated in self.texts.items() if FIELD.search(text)]

    def of(self, text: str) -> str:
        """Returns the translation of a text, with what the lesson has computed, or the text itself if it has none."""
        if text in self.texts:
            return self.texts[text]
        for pattern, fields, translated in self.templates:
            match = pattern.fullmatch(text)
            if match:
                values = {field: self.of(value) for field, value in zip(fields, match.groups())}
                return FIELD.sub(lambda field: values.get(field[0], field[0]), translated)
        return text

    def cells(self, every: list[Cell]) -> list[Cell]:
        """Returns the cells with their prose and their titles translated; their code stays as it is."""
        return [self.cell(cell) for cell in every]

    def cell(self, cell: Cell) -> Cell:
        if cell.prose is None:
            return replace(cell, title=self.of(cell.title))
        return replace(cell, text="\n".join(f"# {line}".rstrip() for line in self.of(cell.prose).splitlines()))

    def answers(self) -> dict[int, str]:
        """Returns {number: answer} of the closing questions."""
        return {number: self.of(answer) for number, answer in closing_answers(self.lesson).items()}

    def problems(self) -> list[str]:
        """Returns a sentence about the translated texts whose English has changed, and one about those that are unknown."""
        current = set(map(digest, self.english.values()))
        old = [entry["place"] for entry in self.entries if entry["old"] or entry["hash"] not in current]
        changed = [place for place in old if place in self.english]
        unknown = [place for place in old if place not in self.english]
        return [lesson_words(f"translation.{kind}", file=self.file, places="; ".join(places))
                for kind, places in (("out_of_date", changed), ("unknown", unknown)) if places]


def file_of_translation(lesson: Path) -> Path | None:
    """Returns the path of the lesson's texts in the chosen language, whether or not it exists; None for English."""
    language = folder_of_language()
    return None if language == ENGLISH else lesson.parent / language.name / f"{lesson.stem}.md"


def read_entries(file: Path) -> list[dict]:
    """Returns the entries of a file: dicts with the keys place, hash, old and text.

    Raises: ValueError if the file is not UTF-8.
    """
    try:
        content = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(lesson_words("translation.unreadable", file=file, reason=error)) from error
    return [{**entry.groupdict(), "text": entry["text"].strip("\n")} for entry in ENTRY.finditer(content)]


def write_translation(lesson: Path, file: Path) -> dict[str, int]:
    """Writes the texts of a lesson to a file for its translator. What the file translates already stays.

    A translation whose English has changed gets the new English above it and a hash marked with "was": to say that it is
    up to date again, its translator removes that mark.

    Returns: {"count": number of texts, "translated": number of those with a translation that is up to date}
    Raises: ValueError if it is not the name of a Markdown file.
    """
    if file.suffix != ".md":
        raise ValueError(lesson_words("translation.not_markdown", file=str(file),
                                      example=f"{lesson.parent}/ko/{lesson.stem}.md"))
    check_regular(file)
    earlier = Translation(lesson, file)
    english = texts_of(lesson)
    by_place = {entry["place"]: entry for entry in earlier.entries if entry["text"]}
    known = set(map(digest, english.values()))
    parts = []
    for place, text in english.items():
        translated, mark = earlier.texts.get(text, ""), digest(text)
        before = by_place.get(place)
        if not translated and before is not None and (before["old"] or before["hash"] not in known):
            translated, mark = before["text"], f"{mark}, was {before['old'] or before['hash']}"
        parts.append(f"<!-- {place} ({mark})\n{text}\n-->\n{translated}\n")
    parts += [f"<!-- {place} ({entry['hash']})\n-->\n{entry['text']}\n" for place, entry in by_place.items()
              if place not in english and entry["hash"] not in known]
    file.parent.mkdir(parents=True, exist_ok=True)
    write_output(file, "\n".join(parts).encode())
    return {"count": len(english), "translated": len(Translation(lesson, file).texts)}


def texts_of(lesson: Path) -> dict[str, str]:
    """Returns {place: English text} of what a reader of a lesson reads, each text once."""
    texts = {}
    for n, cell in enumerate(cells(lesson.read_text(encoding="utf-8")), 1):
        if cell.prose is not None:
            texts[f"cell {n}"] = cell.prose
            continue
        texts[f"cell {n}, title"] = cell.title
        counts: dict[str, int] = {}
        for kind, text in texts_in_code(cell.text):
            counts[kind] = counts.get(kind, 0) + 1
            texts[f"cell {n}, {kind} {counts[kind]}"] = text
    texts.update({f"answer {number}": answer for number, answer in closing_answers(lesson).items()})
    first = {text: place for place, text in reversed(texts.items())}
    return {place: text for place, text in texts.items() if text and first[text] == place}


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def pattern_of(template: str) -> re.Pattern:
    """Returns a pattern that matches a template with anything in place of its {fields}."""
    return re.compile("(.*?)".join(map(re.escape, FIELD.split(template))), re.S)
