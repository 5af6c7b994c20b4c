"""Before the Transformer: a cell unrolled over time, and attention over the states of a recurrent encoder."""

import numpy as np

from .values import softmax


def recurrent_cell(c):
    tokens = c.word("tokens").split()
    before = c.box(0.5, 2.4, 0.7, 0.5, "h₀")
    for n, token in enumerate(tokens):
        x = 2.6 + 2.6 * n
        cell = c.box(x, 2.4, 1.3, 0.8, c.word("cell"), "parameter")
        c.arrow((before.right[0], 2.53), (cell.left[0], 2.53))
        c.back((cell.left[0], 2.27), (before.right[0], 2.27))
        if n:
            c.text((before.right[0] + cell.left[0]) / 2, 2.75, f"h{'₁₂₃₄'[n - 1]}")
        vector = c.cells(x, 0.9, 1, 3)
        c.text(x, 0.45, token)
        c.arrow((x + 0.13, vector.top[1]), (x + 0.13, 2.0))
        c.back((x - 0.13, 2.0), (x - 0.13, vector.top[1]))
        loss = c.box(x, 3.9, 1.3, 0.5, c.word("loss", n="₁₂₃₄"[n]))
        c.arrow((x + 0.13, 2.8), (x + 0.13, loss.bottom[1]))
        c.back((x - 0.13, loss.bottom[1]), (x - 0.13, 2.8))
        before = cell
    c.note(6.5, -0.1, c.word("shared"), va="top")


def attention_over_states(c):
    tokens = c.word("tokens").split()
    weights = softmax(np.array([0.2, 2.0, 0.4, -0.4]))
    before = None
    context = c.box(9.6, 2.7, 1.9, 0.7, c.word("context"), "value", strength=1.6)
    decoder = c.box(9.6, 0.8, 1.9, 0.7, c.word("decoder"), "query")
    for n, (token, weight) in enumerate(zip(tokens, weights, strict=True)):
        x = 1.0 + 1.8 * n
        state = c.box(x, 0.8, 1.1, 0.7, f"h{'₁₂₃₄'[n]}", "value")
        c.text(x, 0.15, token)
        if before:
            c.arrow(before.right, state.left)
        before = state
        c.cells(x, 2.5 + 0.6 * weight, 1, 1, "weight", size=1.2 * weight, width=0.5, shades=[[0.6]])
        c.note(x, 2.28, f"{weight:.2f}", role="weight")
        c.arrow(state.top, (x, 2.05), role="value", width=0.8 + 6 * weight)
    c.note(4.6, 3.15, c.word("weights"), role="weight")
    c.arrow((6.95, 2.0), (7.05, 2.0), (7.05, 3.4), (6.95, 3.4), role="muted", head=False, width=1.1)
    c.arrow((7.05, 2.7), context.left, role="value", width=2.4)
    c.note(7.85, 2.92, c.word("sum"))
    c.arrow((0.45, -0.1), (0.45, -0.2), (6.95, -0.2), (6.95, -0.1), role="muted", head=False, width=1.1)
    c.arrow(decoder.left, (8.2, 0.8), (8.2, -0.55), (3.7, -0.55), (3.7, -0.2), role="query")
    c.note(5.9, -0.75, c.word("compare"), va="top")
    logits = c.box(11.2, 1.75, 1.1, 0.7, c.word("logits"))
    c.arrow(context.right, (11.2, 2.7), logits.top, role="value")
    c.arrow(decoder.right, (11.2, 0.8), logits.bottom, role="query")
