"""The result of checking an exercise in a notebook: the verdict as text, and as HTML with the first wrong arrays."""

import builtins
import sys
import textwrap

import numpy as np

from ... import markup
from ...texts import Message, render
from ..lessons.environment import in_notebook
from .comparison import first_wrong_output
from .feedback import WIDTH, feedback, first_lines, gradient_table, heading, most_useful_first, needs_gradients

MOST_ROWS, MOST_COLUMNS = 8, 8                  # of an array that is shown
HINTS = 'nt.exercise.hint("{}")'
COLORS = {"pass": markup.RIGHT, "todo": ""}


class NotebookResult:
    """What `nt.exercise.check` found.

    Attributes:
        exercise : the Exercise
        verdict : the Verdict, with status, stage, lines and the names of known mistakes
        passed : True if everything is right
    """

    def __init__(self, answer_key, run, verdict, answer):
        self.answer_key, self.exercise, self.run, self.verdict = answer_key, answer_key.exercise, run, verdict
        self.gradients = ""
        self.shown_in = None                    # number of the notebook's cell that has shown the result
        if needs_gradients(self.exercise, verdict):
            self.gradients = gradient_table(answer, self.exercise, answer_key.main_cases[0], WIDTH - 2)

    @property
    def passed(self):
        return self.verdict.status == "pass"

    def show(self):
        """Shows the result at once: in a notebook as HTML, in a script as text. A Python prompt shows it anyway."""
        if in_notebook():
            self.shown_in = builtins.get_ipython().execution_count
            publish(self)
        elif not hasattr(sys, "ps1"):
            print(self)

    def _ipython_display_(self):
        """Shows the result in a notebook, but not a second time in the cell of the check itself."""
        if not in_notebook() or self.shown_in != builtins.get_ipython().execution_count:
            publish(self)

    def __repr__(self):
        lines = list(feedback(self.exercise, self.verdict, self.run.printed, WIDTH, HINTS))
        if self.gradients:
            lines.append(textwrap.indent(self.gradients, "  "))
        return "\n".join(lines)

    def _repr_html_(self):
        verdict = self.verdict
        title = heading("verdict.page.title", self.exercise, verdict)
        status = markup.element("b", f"&nbsp;{markup.escape(render(title.values['status']))}&nbsp;",
                                COLORS.get(verdict.status, markup.WRONG.replace("underline", "none")))
        parts = [markup.element("p", f"{status} {markup.escape(render(title))}")]
        parts.append(markup.paragraph("\n".join(map(render, most_useful_first(verdict))), markup.LINES))
        parts.append(self.arrays())
        if self.gradients:
            parts.append(markup.preformatted(self.gradients))
        if not self.passed:
            command = HINTS.format(self.exercise.number)
            parts.append(markup.paragraph(render(Message("verdict.page.hints", command=command))))
        if self.run.printed.strip():
            text = "\n".join(first_lines(self.run.printed))
            parts.append(markup.paragraph(render(Message("verdict.page.printed"))) + markup.preformatted(text))
        return markup.element("div", "".join(parts))

    def arrays(self):
        """Returns HTML with the first wrong output beside the expected one; "" if there is nothing to show."""
        if self.exercise.hides_answers or self.exercise.judge:
            return ""
        if self.verdict.stage == "shape":
            return self.different_shapes()
        has_values = self.verdict.stage in ("finite", "values")
        place = first_wrong_output(self.answer_key, self.run) if has_values else None
        if place is None:
            return ""
        i, j, wrong, _ = place
        name, yours = self.exercise.outputs[j], self.run.results[i].outputs[j]
        right = self.answer_key.expected[i].outputs[j]
        worst = worst_entry(yours, right, wrong)
        count = Message("verdict.page.wrong", wrong=int(wrong.sum()), size=wrong.size, name=name)
        return markup.side_by_side(
            array_table(Message("verdict.page.yours", name=name), yours, worst, wrong),
            array_table(Message("verdict.page.expected", name=name), right, worst)) + markup.paragraph(render(count))

    def different_shapes(self):
        """Returns HTML with the first output that has a wrong shape beside the expected one."""
        for result, expected in zip(self.run.results, self.answer_key.expected):
            for name, yours, right in zip(self.exercise.outputs, result.outputs, expected.outputs):
                if yours is not None and yours.shape != right.shape:
                    return markup.side_by_side(array_table(Message("verdict.page.yours", name=name), yours),
                                               array_table(Message("verdict.page.expected", name=name), right))
        return ""


def publish(result):
    """Shows a result through IPython, as HTML where the front end can."""
    from IPython.display import publish_display_data
    publish_display_data({"text/plain": repr(result), "text/html": result._repr_html_()})


def worst_entry(yours, right, wrong):
    """Returns the index of the wrong entry that is farthest off."""
    with np.errstate(all="ignore"):
        error = np.nan_to_num(abs(np.asarray(yours, float) - np.asarray(right, float)), nan=np.inf)
    return np.unravel_index(np.argmax(np.where(wrong, error, -1)), wrong.shape)


def array_table(title, array, at=None, wrong=None):
    """Returns a table of the part of an array around an entry, with its indices.

    Parameters:
        title : Message
        at : index of the entry that has to be in view; None: the first one
        wrong : boolean array of the entries to mark; None: no marks
    """
    at = (0,) * array.ndim if at is None else tuple(map(int, at))
    leading, (row, column) = at[:-2], ((0, 0) + at)[-2:]
    plane = np.atleast_2d(array[leading])
    rows, columns = window(plane.shape[0], row, MOST_ROWS), window(plane.shape[1], column, MOST_COLUMNS)
    marks = None if wrong is None else np.atleast_2d(wrong[leading])
    shown = plane[rows, columns]
    ranges = [*map(str, leading), *(f"{part.start}:{part.stop}" for part in (rows, columns)[2 - min(array.ndim, 2):])]
    part = Message("verdict.page.part", title=title, shape=str(array.shape), ranges=", ".join(ranges))
    caption = render(part if ranges else title)
    headings = ["", *map(str, range(columns.start, columns.stop))] if array.ndim else []
    body = [[str(rows.start + i) if array.ndim > 1 else "", *map(show_number, row)] for i, row in enumerate(shown)]

    def style(i, j):
        if marks is None or j == 0:
            return ""
        return markup.WRONG if marks[rows.start + i, columns.start + j - 1] else markup.RIGHT

    return markup.html_table(headings, body, caption, style)


def window(size, index, most):
    """Returns the slice of at most `most` positions that holds this index, near its middle."""
    start = min(max(0, index - most // 2), max(0, size - most))
    return slice(start, min(size, start + most))


def show_number(value):
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)
