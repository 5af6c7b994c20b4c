"""Attention in several heads: the shapes on the way, and heads of queries that share keys and values."""

import numpy as np

from .values import softmax

STRENGTHS = [0.05, 0.4, 0.75]                       # of the color of each of three heads
SIDE = 0.24


def head_shapes(c):
    x0, y0, gap = 0.8, 2.6, 1.62
    whole = [[strength for strength in STRENGTHS for _ in range(2)]] * 4
    x = c.cells(x0, y0, 4, 6, size=SIDE)
    projected = c.cells(3.15, y0, 4, 6, "query", size=SIDE, shades=whole)
    merged = c.cells(8.65, y0, 4, 6, "value", size=SIDE, shades=whole)
    y = c.cells(10.95, y0, 4, 6, size=SIDE)
    for area, name in ((x, "x\n(B, T, D)"), (projected, "q\n(B, T, D)"), (merged, "(B, T, D)"), (y, "y\n(B, T, D)")):
        c.text(area.x, area.top[1] + 0.12, name, va="bottom")
    c.arrow(x.right, projected.left)
    c.text((x.right[0] + projected.left[0]) / 2, y0 + 0.3, "W$_\\mathrm{Q}$")
    c.arrow(merged.right, y.left)
    c.text((merged.right[0] + y.left[0]) / 2, y0 + 0.3, "W$_\\mathrm{O}$")
    position = np.arange(4)
    for n, strength in enumerate(STRENGTHS):
        height = y0 + gap * (1 - n)
        q = c.cells(5.1, height, 4, 2, "query", size=SIDE, shades=[[strength] * 2] * 4)
        scores = np.cos((position[:, None] - position - n) * (0.9 + 0.3 * n)) * 2
        weights = softmax(scores)
        c.cells(6.15, height, 4, 4, "weight", size=SIDE, shades=weights)
        out = c.cells(7.2, height, 4, 2, "value", size=SIDE, shades=[[strength] * 2] * 4)
        c.arrow((projected.right[0], y0 + 0.25 * (1 - n)), q.left)
        c.arrow(q.right, (5.67, height))
        c.arrow((6.63, height), out.left)
        c.arrow(out.right, (merged.left[0], y0 + 0.25 * (1 - n)))
    top = y0 + gap + 0.6
    for column, name in ((5.1, "(B, H, T, d)"), (6.2, "P"), (7.3, "(B, H, T, d)")):
        c.text(column, top, name, "weight" if name == "P" else "ink", va="bottom")
    for column, key in ((4.45, "split"), (6.15, "attend"), (8.65, "merge")):
        c.note(column, 0.2, c.word(key), va="top")
    c.note(0.1, 0.2, c.word("example"), ha="left", va="top")


def grouped_queries(c):
    for n, (key, groups) in enumerate((("all", 4), ("groups", 2), ("one", 1))):
        left = 4.1 * n
        c.text(left + 1.5, 2.75, c.word(key), bold=True)
        for head in range(4):
            query = c.box(left + 0.3 + 0.8 * head, 1.9, 0.55, 0.5, f"q{subscript(head)}", "query")
            group = head * groups // 4
            shared = left + 0.3 + 0.8 * (4 / groups * (group + 0.5) - 0.5)
            if head * groups % 4 == 0:
                c.box(shared, 0.55, 0.55, 0.5, f"k{subscript(group)}", "key")
                c.box(shared, 0.0, 0.55, 0.5, f"v{subscript(group)}", "value")
            c.arrow(query.bottom, (shared + 0.14 * (query.x - shared), 0.8))
        c.note(left + 1.5, -0.55, c.word("stored", n=2 * groups), va="top")


def latent_attention(c):
    """Left: keys and values of each head are made of c. Right: queries go to c, and so does their mean of it."""
    for left, width, key in ((0, 0.66, "made"), (4.95, 1.08, "absorbed")):
        absorbed, middle = key == "absorbed", left + 2 * width + 0.95
        c.text(middle, 4.1, c.word(key), bold=True)
        c.note(middle, 3.7, "A₀ = (q₀ W$_\\mathrm{K0}$ᵀ) cᵀ + q₀ᴿ (kᴿ)ᵀ" if absorbed else "A₀ = q₀ k₀ᵀ + q₀ᴿ (kᴿ)ᵀ")
        c.note(middle, 3.35, "y₀ = (P₀ c) W$_\\mathrm{V0}$" if absorbed else "y₀ = P₀ v₀")
        latent = c.box(middle - 0.55, 0.3, 1.6, 0.5, c.word("latent"), "key")
        rotary = c.box(middle + 0.95, 0.3, 0.8, 0.5, "kᴿ", "key", 0.5)
        c.panel(middle, 0.3, 3.2, 0.85)
        c.note(middle, -0.3, c.word("kept"), va="top")
        for head in range(4):
            n, x = subscript(head), left + (width + 0.52) * head + width / 2
            query = c.box(x, 2.75, width, 0.5, f"q{n} W$_\\mathrm{{K{head}}}$ᵀ" if absorbed else f"q{n}", "query")
            rotated = c.box(x + width / 2 + 0.23, 2.75, 0.46, 0.5, f"q{n}ᴿ", "query", 0.5)
            if absorbed:
                c.arrow(query.bottom, (latent.x + 0.3 * (head - 1.5), latent.top[1]))
                c.arrow(rotated.bottom, (rotary.x + 0.15 * (head - 1.5), rotary.top[1]), role="muted")
                continue
            k = c.box(x - 0.21, 1.75, 0.4, 0.5, f"k{n}", "key")
            v = c.box(x + 0.21, 1.75, 0.4, 0.5, f"v{n}", "value")
            c.arrow((k.x, query.bottom[1]), k.top)
            c.arrow((latent.x + 0.3 * (head - 1.5), latent.top[1]), (x, k.bottom[1]), role="parameter")
            c.arrow(rotated.bottom, (rotated.x, 1.15), (rotary.x + 0.15 * (head - 1.5), rotary.top[1]), role="muted")
        if not absorbed:
            c.note(left - 0.05, 1.0, c.word("by_up"), ha="left", role="parameter")


def subscript(n):
    return "₀₁₂₃"[n]
