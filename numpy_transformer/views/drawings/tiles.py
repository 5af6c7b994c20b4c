"""Attention in tiles, whose weights are never held as a whole."""

import math

import numpy as np


def tiles(c):
    scores = [[0.0, 3.0], [1.0, 4.0], [0.0, 2.0]]           # one row of A, in three tiles
    current, size = 1, 0.36
    area = c.cells(1.5, 2.4, 6, 6, "muted", size=size, shades=np.zeros((6, 6)),
                   roles=[["weight" if column < 2 * current + 2 else "muted" for column in range(6)]] * 3 + [["muted"] * 6] * 3)
    for tile in range(3):
        x = area.left[0] + size * (2 * tile + 1)
        if tile <= current:
            c.cells(x, area.top[1] - 1.5 * size, 3, 2, "weight", size=size, shades=[[0.6 if tile == current else 0.15] * 2] * 3)
        for half in range(2):
            y = area.top[1] - size * 3 * half
            corner = area.left[0] + 2 * size * tile
            c.arrow((corner, y), (corner + 2 * size, y), (corner + 2 * size, y - 3 * size), (corner, y - 3 * size), (corner, y),
                    head=False, width=2.2)
    c.text(area.x, area.top[1] + 0.25, "P  (T, S)", "weight")
    c.note(area.x, area.bottom[1] - 0.15, c.word("never"), va="top")
    c.arrow((2.8, area.top[1] - 1.5 * size), (3.7, area.top[1] - 1.5 * size), role="weight")
    for x, key in ((5.2, "scores"), (7.2, "maximum"), (9.7, "sum")):
        c.text(x, 4.1, c.word(key), bold=True)
    maximum, total = -math.inf, 0.0
    for n, tile in enumerate(scores):
        y = 3.2 - 0.85 * n
        larger = max(maximum, *tile)
        kept = total * math.exp(maximum - larger)
        new = sum(math.exp(a - larger) for a in tile)
        c.text(4.0, y, c.word("tile", n=n + 1), ha="left")
        c.cells(5.55, y, 1, 2, size=0.42, width=0.6, values=[[f"{a:.0f}" for a in tile]])
        c.box(7.2, y, 0.8, 0.45, f"{larger:.0f}")
        c.text(8.2, y, f"{kept:.2f} + {new:.2f} = {kept + new:.2f}" if n else f"{new:.2f}", ha="left")
        maximum, total = larger, kept + new
    whole = sum(math.exp(a - maximum) for tile in scores for a in tile)
    c.note(4.0, 0.75, c.word("rescaled"), ha="left", va="top")
    c.note(8.2, 1.1, c.word("whole", total=f"{whole:.2f}"), ha="left", va="top")
