"""Positions: rows added to token vectors, and pairs of features rotated by an angle."""

import math

import numpy as np

from .values import number


def embedding_plus_position(c):
    tokens = c.word("tokens").split()
    vectors = np.array([[0.5, -0.3, 0.8, 0.1], [0.9, 0.4, -0.6, 0.2], [0.5, -0.3, 0.8, 0.1]])
    angles = np.arange(3)[:, None] / 10000.0 ** (np.arange(0, 4, 2) / 4)
    table = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(3, 4)
    columns = ((2.1, vectors, "parameter", "embedding"), (5.75, table, "plain", "position"),
               (9.4, vectors + table, "ink", "input"))
    areas = [c.cells(x, 1.0, 3, 4, role, size=0.55, width=0.7, values=[[number(v) for v in row] for row in numbers])
             for x, numbers, role, _ in columns]
    for area, (x, _, _, key) in zip(areas, columns, strict=True):
        c.text(x, 2.1, c.word(key), bold=True)
    for sign, one, other in (("+", areas[0], areas[1]), ("=", areas[1], areas[2])):
        c.text((one.right[0] + other.left[0]) / 2, 1.0, sign, bold=True)
    for row in range(3):
        c.text(0.55, areas[0].row(row).y, tokens[row], ha="right")
    c.note(5.75, -0.05, c.word("formula"), va="top")
    c.note(2.1, -0.05, c.word("same"), va="top")
    c.note(9.4, -0.05, c.word("differ"), va="top")


def rotary(c):
    step = 0.4                                              # the angle by which one position rotates this pair of features
    q, k = np.array([0.95, 0.2]), np.array([0.75, 0.55])
    c.text(1.5, 4.3, c.word("rotates"), bold=True)
    circle(c, 1.5, 2.2)
    for position in range(4):
        x, y = rotated(q, position * step)
        c.arrow((1.5, 2.2), (1.5 + 1.2 * x, 2.2 + 1.2 * y), role="query", width=2.2)
        c.text(1.5 + 1.55 * x, 2.2 + 1.5 * y, str(position), "query")
    c.note(1.5, 0.45, c.word("angle"), va="top")
    for n, (i, j) in enumerate(((1, 3), (4, 6))):
        x0 = 5.8 + 4.1 * n
        c.text(x0, 4.3, c.word("places", i=i, j=j), bold=True)
        circle(c, x0, 2.2)
        for vector, position, role in ((q, i, "query"), (k, j, "key")):
            x, y = rotated(vector, position * step)
            c.arrow((x0, 2.2), (x0 + 1.2 * x, 2.2 + 1.2 * y), role=role, width=2.2)
            c.text(x0 + 1.5 * x, 2.2 + 1.5 * y, "q" if role == "query" else "k", role)
        score = rotated(q, i * step) @ rotated(k, j * step)
        c.note(x0, 0.45, c.word("score", score=number(score)), va="top", role="ink")
    c.note(7.85, 0.0, c.word("difference"), va="top")


def rotated(vector, angle):
    x, y = vector
    return np.array([x * math.cos(angle) - y * math.sin(angle), x * math.sin(angle) + y * math.cos(angle)])


def circle(c, x, y):
    """Two axes and a circle on which a pair of features is rotated."""
    c.arrow((x - 1.45, y), (x + 1.45, y), role="muted", head=False, width=0.8)
    c.arrow((x, y - 1.45), (x, y + 1.45), role="muted", head=False, width=0.8)
    c.arrow(*[(x + 1.165 * math.cos(t), y + 1.165 * math.sin(t)) for t in np.linspace(0, 2 * math.pi, 90)],
            role="muted", head=False, width=0.8)
