"""Writes a lesson as a Jupyter notebook (nbformat 4.5), with the standard library alone."""

import json
import re
from pathlib import Path

from .answers import closing_answers
from .cells import asks, cells, divided
from .files import START, lesson_number

METADATA = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"}}
FOLDED = {"jupyter": {"source_hidden": True}, "tags": ["hide-input"]}      # for Jupyter, and for books made of notebooks
ABOUT_QUESTIONS = ("*The cells that ask a question are folded, because their code contains the answer. Run such a cell, type your "
                   "answer below it, and press Enter; Enter alone shows the answer. (Not every editor folds them.)*")


def write_notebook(lesson, out):
    """Writes the lesson with this path as the notebook `out`. Returns the path.

    Raises: ValueError if `out` is not the name of a new .ipynb file in an existing folder.
    """
    out = Path(out)
    if out.suffix != ".ipynb":
        raise ValueError(f"{str(out)!r} is not the name of a notebook; use one that ends in .ipynb")
    if not out.parent.is_dir():
        raise ValueError(f"there is no folder {str(out.parent)!r} for the notebook; create it, or name another file with --out")
    if out.exists():
        raise ValueError(f"{str(out)!r} exists already and may contain your work; remove it, or name another file with --out")
    out.write_text(json.dumps(notebook(lesson), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return out


def notebook(lesson):
    """Returns a lesson as the contents of a notebook. The titles of its cells become headings, and questions folded cells."""
    number, found = lesson_number(lesson), []
    for cell in cells(lesson.read_text(encoding="utf-8")):
        if cell.prose is not None:
            found.append(("markdown", cell.prose))
            continue
        if cell.title:
            found.append(("markdown", f"### {cell.title}"))
        for part in divided(cell, alone=True):
            found.append(("question" if asks(part) else "code", part.text.replace(f"{START})", f'{START}, "{number}")')))
    if any(kind == "question" for kind, _ in found):
        found.insert(1, ("markdown", ABOUT_QUESTIONS))
    answers = closing_answers(lesson)
    if answers:
        found.append(("markdown", folded(answers)))
    return {"cells": [notebook_cell(kind, text, f"lesson-{number}-{n}") for n, (kind, text) in enumerate(found, 1)],
            "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}


def notebook_cell(kind, text, name):
    source = text.splitlines(keepends=True)
    if kind == "markdown":
        return {"cell_type": kind, "id": name, "metadata": {}, "source": source}
    metadata = FOLDED if kind == "question" else {}
    return {"cell_type": "code", "id": name, "metadata": metadata, "source": source, "execution_count": None, "outputs": []}


def folded(answers):
    """Returns the answers to the closing questions, of which the reader sees a line until it is unfolded."""
    items = [re.sub(r"\n(?=.)", "\n   ", f"{number}. {answer}") for number, answer in answers.items()]
    return "\n\n".join(["<details><summary>Answers to the exercises of this lesson</summary>", *items, "</details>"])
