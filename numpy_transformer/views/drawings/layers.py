"""Parts of a block beside attention: which numbers a norm combines, and the feed-forward network."""


def normalized_axes(c):
    sentences, tokens, features = 2, 3, 4
    combined = {                                            # is this number combined with feature 2 of token 1 of sentence 0?
        "layer": lambda sentence, token, feature: sentence == 0 and token == 1,
        "rms": lambda sentence, token, feature: sentence == 0 and token == 1,
        "batch": lambda sentence, token, feature: feature == 2,
    }
    for n, (name, belongs) in enumerate(combined.items()):
        x = 1.4 + 4.05 * n
        c.text(x, 5.0, c.word(name), bold=True)
        for sentence in range(sentences):
            marks = [[0.6 if belongs(sentence, t, f) else 0.0 for f in range(features)] for t in range(tokens)]
            c.cells(x, 3.5 - 1.75 * sentence, tokens, features, size=0.42, shades=marks,
                    roles=[["ink" if mark else "muted" for mark in row] for row in marks])
        c.note(x, 0.85, c.word(f"{name}_shared"), va="top")
    for sentence in range(sentences):
        y = 3.5 - 1.75 * sentence
        c.brace((0.46, y - 0.63), (0.46, y + 0.63), c.word("sentence", n=sentence + 1), "left")
    c.brace((0.56, 4.18), (2.24, 4.18), c.word("features", n=features), "above")


def feed_forward(c):
    columns = [(2.6, 3, "plain"), (5.3, 6, "plain"), (8.0, 3, "plain")]
    heights = [[2.4 - 0.72 * (row - (size - 1) / 2) for row in range(size)] for _, size, _ in columns]
    for n in (0, 1):
        for start in heights[n]:
            for end in heights[n + 1]:
                c.arrow((columns[n][0] + 0.2, start), (columns[n + 1][0] - 0.2, end), role="parameter", head=False, width=1)
    for (x, _, _), rows in zip(columns, heights, strict=True):
        for y in rows:
            c.circle(x, y, "", radius=0.2)
    for x, label in ((2.6, "D"), (5.3, "F"), (8.0, "D")):
        c.text(x, 4.85, label, bold=True)
    for x, key in ((3.95, "up"), (6.65, "down")):
        c.note(x, 0.05, c.word(key), va="top")
    c.note(5.3, 0.05, c.word("activation"), va="top")
    for n, word in enumerate(c.word("tokens").split()):
        y = 3.75 - 0.9 * n
        own = n == 1
        left = c.cells(0.55, y, 1, 3, "ink" if own else "muted", size=0.28, shades=[[0.5 if own else 0.1] * 3])
        right = c.cells(10.1, y, 1, 3, "ink" if own else "muted", size=0.28, shades=[[0.5 if own else 0.1] * 3])
        c.note(left.x, left.top[1] + 0.06, word, va="bottom")
        c.note(right.x, right.top[1] + 0.06, word, va="bottom")
    c.brace((9.5, 0.9), (9.5, 3.95), "", "left")
    c.brace((1.15, 0.9), (1.15, 3.95), "", "right")
    c.arrow((1.35, 2.4), (2.2, 2.4))
    c.arrow((8.4, 2.4), (9.3, 2.4))
    c.note(5.3, -0.5, c.word("same"), va="top")
