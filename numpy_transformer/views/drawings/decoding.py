"""Writing token by token: stored keys and values, and a beam of hypotheses."""


def cache(c):
    tokens = c.word("tokens").split()
    size, step = len(tokens), 0.62
    for left, stored in ((0, False), (5.95, True)):
        c.text(left + 0.1, 4.75, c.word("with" if stored else "without"), bold=True, ha="left")
        for x, name, role in ((1.65, "q", "query"), (2.75, "k", "key"), (3.85, "v", "value"), (5.15, "P", "weight")):
            c.text(left + x, 4.1, name, role)
        for n, token in enumerate(tokens):
            y, last = 3.55 - step * n, n == size - 1
            reused = stored and not last
            c.text(left + 1.0, y, token, "muted" if reused else "ink", ha="right")
            for x, role in ((1.65, "query"), (2.75, "key"), (3.85, "value")):
                if not (reused and role == "query"):
                    c.cells(left + x, y, 1, 3, "muted" if reused else role, shades=[[0.1 if reused else 0.4] * 3])
            if not reused:
                c.cells(left + 5.15, y, 1, size, "weight", roles=[["weight" if key <= n else "muted" for key in range(size)]],
                        shades=[[0.4 if key <= n else 0 for key in range(size)]])
        c.note(left + 0.1, 1.2, c.word("new" if stored else "recomputed"), ha="left", va="top")
    c.brace((8.15, 3.7), (8.15, 3.4 - step * (size - 2)), c.word("stored"), "left")


KEPT = 2


def beam_search(c):
    """Each step extends the kept hypotheses and keeps the two most probable ones. The probabilities of words are given."""
    the, a, cat, dog, hen, cow, end = c.word("words").split()
    following = {(): {the: 0.6, a: 0.4},                    # text -> probabilities of the next word
                 (the,): {cat: 0.4, dog: 0.3, hen: 0.3}, (a,): {cow: 0.9, hen: 0.1},
                 (the, cat): {end: 1.0}, (a, cow): {end: 1.0}}
    tails = {(): (1.3, 2.5)}
    kept = {(): 1.0}
    c.box(0.75, 2.5, 1.1, 0.5, c.word("start"))
    for depth in range(1, 4):
        grown = {(*text, word): p * q for text, p in kept.items() for word, q in following[text].items()}
        best = sorted(grown, key=grown.get)[-KEPT:]
        for n, (text, probability) in enumerate(grown.items()):
            x, y = 0.15 + 3.3 * depth, 2.5 + 3.9 * (0.5 - n / (len(grown) - 1))
            role, width = ("weight", 2.4) if text in best else ("muted", 1.1)
            box = c.box(x, y, 1.1, 0.5, text[-1], role, strength=2 if text in best else 0.4)
            c.arrow(tails[text[:-1]], box.left, role=role, width=width)
            c.note(box.right[0] + 0.1, y, f"{probability:.2f}", ha="left", role=role)
            tails[text] = (box.right[0] + 0.6, y)
        kept = {text: grown[text] for text in grown if text in best}
    c.note(5.5, -0.1, c.word("rule"), va="top")
