"""Attention: a library where a question meets the catalog, and the flow from x to y, forward and backward."""

import numpy as np

from .values import softmax

X = 0.55                                                    # columns from left to right
W = 1.85
QKV = 3.0
SCORE = 4.45
A = 5.95
SOFTMAX = 7.4
P = 8.85
MIX = 10.2
Y = 11.2
ROW_Q, ROW, ROW_K, ROW_V = 4.35, 3.5, 2.65, 0.75            # heights
SIDE = 0.26                                                 # of a cell
Q_NUMBERS = np.array([[2.0, 0.5], [0.3, 1.8], [1.2, 1.3]])
K_NUMBERS = np.array([[1.5, 0.2], [0.1, 1.4], [0.8, 0.9], [-0.6, 0.4]])


def library(c):
    weights = softmax(np.array([2.2, 1.5, -0.5, 0.3]))
    for x, key, role in ((1.1, "query", "query"), (3.95, "keys", "key"), (6.1, "weights", "weight"), (8.2, "values", "value")):
        c.text(x, 5.0, c.word(key), role, bold=True)
    question = c.box(1.1, 2.55, 1.9, 0.9, c.word("question"), "query")
    result = c.box(10.65, 2.55, 1.9, 1.7, c.word("mixture", weights=weights), "value", strength=1.6)
    for n, weight in enumerate(weights, 1):
        y = 5.3 - 1.1 * n
        entry = c.box(3.95, y, 1.6, 0.6, c.word(f"entry{n}"), "key")
        book = c.box(8.2, y, 1.7, 0.7, c.word(f"book{n}"), "value")
        c.arrow(question.right, entry.left, role="query")
        c.arrow(entry.right, (5.25, y))
        bar = c.cells(5.35 + 0.75 * weight, y + 0.15, 1, 1, "weight", size=0.22, width=1.5 * weight, shades=[[0.6]])
        c.note(5.35, y - 0.17, f"{weight:.2f}", ha="left", role="weight")
        c.arrow((max(bar.right[0], 5.8) + 0.12, y), book.left, role="weight", width=0.8 + 7 * weight)
        c.arrow(book.right, (result.left[0], result.y + (y - result.y) * 0.35), role="value", width=0.8 + 7 * weight)
    c.note(1.1, 1.75, c.word("compare"), va="top")
    c.note(6.1, 0.25, c.word("sum"))
    c.note(10.65, 1.5, c.word("home"), va="top")


def attention(c):
    arrays = flow(c, "")
    for start, end in FORWARD:
        c.arrow(*way(arrays, start, end))
    c.arrow((SOFTMAX, 4.45), arrays["softmax"].top)
    c.note(SOFTMAX, 4.75, c.word("mask"))
    c.text(6.67, 2.0, "y = softmax(q kᵀ / √d) v")
    c.note(6.67, 1.55, c.word("rows"))


def attention_backward(c):
    arrays = flow(c, "d")
    for start, end in FORWARD:
        c.back(*way(arrays, start, end)[::-1])
    c.note(SOFTMAX, 4.6, c.word("mask"))
    formulas = "dP = dy vᵀ", "dA = P * (dP − row sum of P * dP)", "dq = dA k / √d", "dk = dAᵀ q / √d", "dv = Pᵀ dy"
    for n, formula in enumerate(formulas):
        c.note(4.75, 2.5 - 0.34 * n, formula, ha="left", role="gradient")


FORWARD = [("x", "W_Q"), ("memory", "W_K"), ("memory", "W_V"), ("W_Q", "q"), ("W_K", "k"), ("W_V", "v"), ("q", "score"),
           ("k", "score"), ("score", "A"), ("A", "softmax"), ("softmax", "P"), ("P", "mix"), ("v", "mix"), ("mix", "y")]
ARRAYS = {                                                  # place, rows, columns, role, shape
    "x": (X, ROW_Q, 3, 4, "plain", "(T, D)"),
    "memory": (X, 1.85, 4, 4, "plain", "(S, D)"),
    "q": (QKV, ROW_Q, 3, 2, "query", "(T, d)"),
    "k": (QKV, ROW_K, 4, 2, "key", "(S, d)"),
    "v": (QKV, ROW_V, 4, 2, "value", "(S, d)"),
    "A": (A, ROW, 3, 4, "plain", "(T, S)"),
    "P": (P, ROW, 3, 4, "weight", "(T, S)"),
    "y": (Y, ROW, 3, 2, "value", "(T, d)")}


def flow(c, d):
    """All arrays and operations of attention, the arrays named with d in front in the backward drawing."""
    c.frame = (-0.25, 0.0, 11.75, 5.2)
    scores = Q_NUMBERS @ K_NUMBERS.T / np.sqrt(2)
    shades = {} if d else {"A": (scores - scores.min()) / np.ptp(scores) * 0.5, "P": softmax(scores)}
    arrays = {}
    for name, (x, y, rows, columns, role, shape) in ARRAYS.items():
        role = "gradient" if d else role
        area = arrays[name] = c.cells(x, y, rows, columns, role, size=SIDE, shades=shades.get(name))
        letter = "x" if name == "memory" else name
        c.text(area.x, area.top[1] + 0.2, f"{d}{letter}  {shape}", "ink" if role == "plain" else role)
    c.note(X, ROW_Q - 0.46, c.word("asking"), va="top")
    c.note(X, 1.25, c.word("answering"), va="top")
    boxes = {name: c.box(W, y, 0.75, 0.5, f"W$_\\mathrm{{{name[-1]}}}$", "parameter")
             for name, y in (("W_Q", ROW_Q), ("W_K", ROW_K), ("W_V", ROW_V))}
    boxes["score"] = c.box(SCORE, ROW, 1.25, 0.55, "q kᵀ / √d")
    boxes["softmax"] = c.box(SOFTMAX, ROW, 1.15, 0.55, "softmax")
    boxes["mix"] = c.box(MIX, ROW, 0.75, 0.55, "P v")
    return arrays | boxes


def way(arrays, start, end):
    """The points of an arrow between two of them."""
    one, other = arrays[start], arrays[end]
    if end == "score":
        x = SCORE - 0.3
        return [one.right, (x, one.y), (x, other.top[1] if one.y > other.y else other.bottom[1])]
    if start == "v":
        return [one.right, (MIX, one.y), other.bottom]
    if start == "memory":
        x = one.right[0] + 0.2
        return [one.right, (x, one.y), (x, other.y), other.left]
    return [one.right, other.left]
