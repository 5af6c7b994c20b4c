"""Masks: which tokens each query may see, and where padding is left out."""

import numpy as np

SIDE = 0.34


def masks(c):
    tokens = c.word("tokens").split()
    size = len(tokens)
    query, key = np.mgrid[:size, :size]
    causal, padding = key <= query, key < size - 1
    kinds = {"none": key >= 0, "causal": causal, "padding": padding, "both": causal & padding,
             "window": causal & (query - key < 2)}
    for n, (kind, seen) in enumerate(kinds.items()):
        x, y = 1.75 + 3.45 * (n % 3), 4.4 - 3.35 * (n // 3)
        area = c.cells(x, y, size, size, size=SIDE, roles=[["weight" if s else "muted" for s in row] for row in seen],
                       shades=seen * 0.5, values=[["✓" if s else "·" for s in row] for row in seen])
        c.text(x, area.top[1] + 0.22, c.word(kind), bold=True)
        for i, token in enumerate(tokens):
            c.note(area.left[0] - 0.1, area.row(i).y, token, ha="right")
            c.text(area.cell(0, i).x, area.bottom[1] - 0.08, token, "muted", small=True, va="top", rotation=90)
    c.note(7.75, 1.6, c.word("reading"), ha="left", va="top")
