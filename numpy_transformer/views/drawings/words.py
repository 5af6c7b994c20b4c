"""From text to vectors: tokens, rows of an embedding table, and sentences of different length in one batch."""

import numpy as np

LETTER = 0.48                                               # the width of a letter or byte


def tokens(c):
    pieces = c.word("pieces").split()
    sentence = "".join(pieces).replace("␣", " ")
    c.text(0, 5.1, f"“{sentence}”", bold=True, ha="left")
    cut(c, 4.48, "words", sentence.split(), gap=LETTER)
    cut(c, 3.86, "pieces", pieces, role="ink")
    cut(c, 3.24, "characters", list(sentence.replace(" ", "␣")))
    cut(c, 2.62, "bytes", hexadecimal(sentence))
    c.text(0, 1.67, c.word("korean"), bold=True, ha="left")
    cut(c, 1.05, "characters", c.word("syllables").split(), width=3)       # each syllable has three bytes
    cut(c, 0.43, "bytes", hexadecimal("고양이"))               # Hangul itself is not in the font


def cut(c, y, kind, parts, width=None, role="plain", gap=0):
    """A row of tokens with their number. Each is as wide as its letters, or `width` letters; a gap takes the place of a space."""
    c.text(1.55, y, c.word(f"kind_{kind}"), ha="right")
    left = 1.8
    for part in parts:
        wide = LETTER * (width or (1 if kind == "bytes" else len(part)))
        c.box(left + wide / 2, y, wide - 0.06, 0.42, part, role, strength=1.3)
        left += wide + gap
    c.note(9.4, y, c.word("count", n=len(parts)), ha="left")


def hexadecimal(text):
    return [f"{byte:02X}" for byte in text.encode()]


def lookup(c):
    ids = np.array([2, 0, 2])
    table = np.array([[0.1, 0.4, 0.2], [0.7, 0.3, 0.9], [0.5, 0.8, 0.6], [0.2, 0.6, 0.3]])
    dy = np.array([[1.0, 0.5, 0.0], [0.2, 0.3, 0.4], [0.5, 1.0, 2.0]])
    dtable = np.zeros_like(table)
    np.add.at(dtable, ids, dy)
    for x, d, role, top, name in ((0, "", "ink", "lookup", "E"), (6.3, "d", "gradient", "backward", "dE")):
        c.text(x + 2.2, 4.4, c.word(top), bold=True)
        numbers, rows = (dtable, dy) if d else (table, table[ids])
        big = c.cells(x + 1.2, 2.2, 4, 3, "gradient" if d else "parameter", size=0.45, width=0.55,
                      values=[[f"{v:.1f}" for v in row] for row in numbers])
        small = c.cells(x + 4.2, 2.2, 3, 3, "gradient" if d else "plain", size=0.45, width=0.55,
                        values=[[f"{v:.1f}" for v in row] for row in rows])
        c.text(big.x, 3.45, f"{name} (V, D)", role)
        c.text(small.x, 3.45, f"{d}y (T, D)", role)
        for n, row in enumerate(ids):
            start, end = big.row(row).right, small.row(n).left
            (c.back(end, start) if d else c.arrow(start, end))
        for row in range(4):
            c.note(big.left[0] - 0.12, big.row(row).y, str(row), ha="right")
    c.note(2.7, 0.85, c.word("ids", ids=", ".join(map(str, ids))), va="top")
    c.note(9.0, 0.85, c.word("added"), va="top")
    shared = c.box(2.7, -0.55, 1.3, 0.5, "E", "parameter")
    first = c.box(0.8, -1.6, 1.8, 0.5, c.word("first"))
    blocks = c.box(3.9, -1.6, 1.5, 0.5, c.word("blocks"))
    logits = c.box(7.0, -1.6, 2.2, 0.5, c.word("logits"))
    c.arrow(first.right, blocks.left)
    c.arrow(blocks.right, logits.left)
    c.arrow(shared.left, (first.x, shared.y), first.top, role="parameter")
    c.arrow(shared.right, (logits.x, shared.y), logits.top, role="parameter")
    c.note(8.4, -1.6, c.word("tied"), ha="left")
