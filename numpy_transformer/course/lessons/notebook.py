"""Writes a lesson as a Jupyter notebook (nbformat 4.5), with the standard library alone."""

import json
import re
from pathlib import Path

from ...outputs import write_output
from .cells import asks, cells, divided
from .files import START, lesson_number, what_is_next
from .translation import Translation
from .words import lesson_words

METADATA = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"}}
FOLDED = {"jupyter": {"source_hidden": True}, "tags": ["hide-input"]}      # for Jupyter, and for books made of notebooks


def write_notebook(lesson, out):
    """Writes the lesson with this path as the notebook `out`. Returns the path.

    Raises: ValueError if `out` is not the name of a new .ipynb file in an existing folder.
    """
    out = Path(out)
    if out.suffix != ".ipynb":
        raise ValueError(lesson_words("notebook.no_name", path=str(out)))
    if not out.parent.is_dir():
        raise ValueError(lesson_words("notebook.no_folder", folder=str(out.parent)))
    if out.exists():
        raise ValueError(lesson_words("notebook.exists", path=str(out)))
    return write_output(out, (json.dumps(notebook(lesson), indent=1, ensure_ascii=False) + "\n").encode())


def notebook(lesson):
    """Returns a lesson as the contents of a notebook. The titles of its cells become headings, and questions folded cells."""
    number, contents = lesson_number(lesson), []
    translation = Translation(lesson)
    for cell in translation.cells(cells(lesson.read_text(encoding="utf-8"))):
        if cell.prose is not None:
            contents.append(("markdown", cell.prose))
            continue
        if cell.title:
            contents.append(("markdown", f"### {cell.title}"))
        for part in divided(cell, alone=True):
            contents.append(("question" if asks(part) else "code", part.text.replace(f"{START})", f'{START}, "{number}")')))
    if any(kind == "question" for kind, _ in contents):
        contents.insert(1, ("markdown", lesson_words("notebook.questions")))
    answers = translation.answers()
    if answers:
        contents.append(("markdown", folded_answers(answers)))
    contents.append(("markdown", what_is_next(lesson).replace("\n", "\n\n")))      # paragraphs
    return {"cells": [notebook_cell(kind, text, f"lesson-{number}-{n}") for n, (kind, text) in enumerate(contents, 1)],
            "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}


def notebook_cell(kind, text, name):
    source = text.splitlines(keepends=True)
    if kind == "markdown":
        return {"cell_type": kind, "id": name, "metadata": {}, "source": source}
    metadata = FOLDED if kind == "question" else {}
    return {"cell_type": "code", "id": name, "metadata": metadata, "source": source, "execution_count": None, "outputs": []}


def folded_answers(answers):
    """Returns the answers to the closing questions, of which the reader sees a line until it is unfolded."""
    items = [re.sub(r"\n(?=.)", "\n   ", f"{number}. {answer}") for number, answer in answers.items()]
    return "\n\n".join([f"<details><summary>{lesson_words('notebook.answers')}</summary>", *items, "</details>"])
