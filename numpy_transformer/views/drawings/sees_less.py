"""Attention that sees less: which keys are left, and how far the rest of a text can still be reached through several layers."""

import numpy as np

SIDE = 0.25
SIZE = 8                                        # tokens of the patterns
WINDOW = 3
LAYERS = 3


def sees_less(c):
    query, key = np.mgrid[:SIZE, :SIZE]
    causal = key <= query
    near = causal & (query - key < WINDOW)
    i, j = query // 2, key // 2                 # blocks of two tokens
    computed = (j <= i) & ((j == 0) | (i - j < 2))          # whole blocks, with scores that the causal mask hides
    kinds = {"all": causal, "window": near, "kept": near | (causal & (key == 0)), "blocks": causal & computed}
    for n, (kind, seen) in enumerate(kinds.items()):
        area = c.cells(1.6 + 2.6 * n, 5.6, SIZE, SIZE, size=SIDE, roles=[["weight" if s else "muted" for s in row] for row in seen],
                       shades=seen * 0.5)
        c.text(area.x, area.top[1] + 0.22, c.word(kind), bold=True)
        c.note(area.x, area.bottom[1] - 0.1, c.word("count", count=int(seen.sum())), va="top")
        if kind == "blocks":
            c.note(area.x, area.bottom[1] - 0.35, c.word("computed", count=int(computed.sum())), va="top")
    c.note(0.5, 5.6, c.word("queries"), ha="right")
    stack(c)


def stack(c):
    """The way back from the last token through layers of windows."""
    tokens = SIZE
    rows = [c.cells(6.1, 1.1 + 0.85 * layer, 1, tokens, size=0.34, width=0.55) for layer in range(LAYERS + 1)]
    reached = {tokens - 1}
    for layer in range(LAYERS, 0, -1):
        upper, lower = rows[layer], rows[layer - 1]
        for t in sorted(reached):
            for s in range(max(0, t - WINDOW + 1), t + 1):
                c.arrow((lower.cell(0, s).x, lower.cell(0, s).top[1]), (upper.cell(0, t).x, upper.cell(0, t).bottom[1]),
                        head=s == t, width=1.0)
        shade(c, upper, reached)
        reached = {s for t in reached for s in range(max(0, t - WINDOW + 1), t + 1)}
        c.note(upper.left[0] - 0.15, upper.y, c.word("layer", number=layer), ha="right")
    shade(c, rows[0], reached)
    c.note(rows[0].left[0] - 0.15, rows[0].y, c.word("input"), ha="right")
    text = c.word("reach", layers=LAYERS, window=WINDOW, count=len(reached), earlier=len(reached) - 1)
    c.note(rows[0].x, rows[0].bottom[1] - 0.12, text, va="top")


def shade(c, area, columns):
    c.cells(area.x, area.y, 1, area.columns, size=0.34, width=0.55,
            roles=[["weight" if s in columns else None for s in range(area.columns)]], shades=[[0.5] * area.columns])
