"""The report of a gradient check: one row per tensor, as objects, as a table and as JSON."""

import math
import textwrap
from dataclasses import asdict, dataclass

import numpy as np


@dataclass
class GradcheckRow:
    """How well backward agrees with the numeric derivatives of one input or parameter.

    The error of a gradient a against its numeric value n is ‖a - n‖ / max(‖a‖, ‖n‖). If both norms are below 1e-9 of
    the largest gradient in the module, the gradient counts as zero and the error is ‖a - n‖ over that largest norm.

    Attributes:
        tensor, shape : name and shape of the input or parameter
        central : error against central differences
        complex : error against the complex-step derivative, None where that method cannot be used
        ok : whether both errors are within their tolerances
        zero : whether the gradient counts as zero
        index : the entry with the largest error
        backward, numeric : the two values at that entry
        cosine : cosine of the angle between the two gradients
        note : a remark on how to read the row, often empty
    """

    tensor: str
    shape: tuple
    central: float
    complex: float | None
    ok: bool
    zero: bool
    index: tuple
    backward: float
    numeric: float
    cosine: float
    note: str = ""

    @property
    def status(self):
        return "ok" if self.ok else "WRONG"

    def notes(self):
        return list(filter(None, ["zero" if self.zero else "", self.note]))

    def remarks(self):
        """Returns the notes and, if the gradient is wrong, sentences about its worst entry."""
        if self.ok:
            return self.notes()
        return [*self.notes(),
                f"worst entry {list(self.index)}: backward {self.backward:.9g}, numeric {self.numeric:.9g}",
                f"cosine of the two gradients {self.cosine:.4f}"]


@dataclass(repr=False)
class GradcheckReport:
    """The result of a gradient check: one row per input and parameter. `print(report)` shows a table.

    Attributes:
        name : name of the module
        rows : list of GradcheckRow
        ok : True if all rows agree
    """

    name: str
    rows: list

    @property
    def ok(self):
        return all(row.ok for row in self.rows)

    def worst(self, method):
        """Returns the largest error of "central" or "complex": NaN if one is NaN, None if the method was not used."""
        errors = [getattr(row, method) for row in self.rows]
        return None if None in errors or not errors else float(np.max(errors))

    def to_json(self):
        """Returns the rows as dicts of plain values. Numbers that are not finite become None."""
        rows = [{"component": self.name, **asdict(row)} for row in self.rows]
        return [{key: None if isinstance(value, float) and not math.isfinite(value) else value
                 for key, value in row.items()} for row in rows]

    def __repr__(self):
        wrong = [row.tensor for row in self.rows if not row.ok]
        verdict = f"WRONG: {', '.join(wrong)}" if wrong else "ok"
        return (f"GradcheckReport({self.name!r}, {len(self.rows)} tensors, central {show(self.worst('central'))}, "
                f"complex {show(self.worst('complex'))}, {verdict})")

    def __str__(self):
        return self.table()

    def _repr_html_(self):
        from .. import markup
        headings = ["tensor", "shape", "central", "complex", "", ""]
        rows = [[row.tensor, str(row.shape), show(row.central), show(row.complex), row.status, "; ".join(row.remarks())]
                for row in self.rows]
        return markup.html_table(headings, rows, self.name,
                                 lambda i, j: markup.WRONG if j == 4 and not self.rows[i].ok else "")

    def table(self, width=120):
        """Returns the rows as a table of at most `width` columns. Long names and remarks get lines of their own."""
        numbers_width = 51                      # including the column of names' margins
        longest = max([len(row.tensor) for row in self.rows] + [6])
        name_width = min(longest, max(width - numbers_width, 6))
        lines = [self.name, f"  {'tensor':<{name_width}}  {'shape':<14} {'central':>9} {'complex':>9}"]
        for row in self.rows:
            name = row.tensor
            if len(name) > name_width:
                lines.append(f"  {name}")
                name = ""
            start = (f"  {name:<{name_width}}  {str(row.shape):<14} {show(row.central):>9} {show(row.complex):>9}"
                     f"  {row.status}")
            notes, remarks = row.notes(), row.remarks()
            if notes and len("  ".join([start, *notes])) <= width:
                start = "  ".join([start, *notes])
                remarks = remarks[len(notes):]
            lines.append(start)
            indent = " " * (min(name_width, width // 4) + 4)
            for remark in remarks:
                lines += textwrap.wrap(remark, width, initial_indent=indent, subsequent_indent=indent)
        return "\n".join(lines)


def show(error):
    """Returns an error as text, "-" for None."""
    return "-" if error is None else f"{error:.1e}"
