"""The history of a training run: a list of rows, which a notebook shows as a table."""

MOST_ROWS = 20                                  # steps that a notebook shows


class History(list):
    """A list with a dict for each training step."""

    def _repr_html_(self):
        from .. import markup
        columns = list(dict.fromkeys(column for row in self for column in row))
        chosen = rows_to_show(self)
        rows = [[text(row[column]) if column in row else "" for column in columns] for row in chosen]
        steps = "1 step" if len(self) == 1 else f"{len(self):,} steps"
        some = f"{len(chosen)} of " if len(chosen) < len(self) else ""
        return markup.html_table(columns, rows, some + steps)


def rows_to_show(history):
    """Returns the rows that a notebook shows: those with a measurement if there are few, else evenly spaced ones."""
    if len(history) <= MOST_ROWS:
        return history
    at = {round(i * (len(history) - 1) / (MOST_ROWS - 1)) for i in range(MOST_ROWS)}
    measured = {i for i, row in enumerate(history) if len(row) > len(history[0])}
    if 0 < len(measured) < MOST_ROWS - 1:
        at = {0, *measured, len(history) - 1}
    return [history[i] for i in sorted(at)]


def text(value):
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
