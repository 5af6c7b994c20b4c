"""Models that write: who asks whom in an encoder and a decoder, the next token, and every task as text."""


def three_attentions(c):
    source, target = c.word("source").split(), c.word("target").split()
    panels = (("encoder", source, source, False), ("decoder", target, target, True), ("cross", target, source, False))
    for n, (key, asking, answering, causal) in enumerate(panels):
        left = 4.15 * n
        c.text(left + 1.7, 4.0, c.word(key), bold=True)
        tops = [c.box(left + 0.55 + 1.15 * i, 2.9, 0.98, 0.5, word, "query") for i, word in enumerate(asking)]
        bottoms = [c.box(left + 0.55 + 1.15 * j, 0.7, 0.98, 0.5, word, "key") for j, word in enumerate(answering)]
        for i, top in enumerate(tops):
            for j, bottom in enumerate(bottoms):
                if not causal or j <= i:
                    c.arrow((bottom.x + 0.12 * (i - 1), bottom.top[1]), (top.x + 0.12 * (j - 1), top.bottom[1]), role="value")
        c.note(left + 1.7, 3.45, c.word(f"{key}_asks"), role="query")
        c.note(left + 1.7, 0.2, c.word(f"{key}_answers"), role="key")
    c.note(5.85, -0.3, c.word("arrows"), va="top", role="value")


def next_token(c):
    words = c.word("tokens").split()
    c.text(-0.2, 0.6, c.word("input"), ha="right", bold=True)
    c.text(-0.2, 3.5, c.word("target"), ha="right", bold=True)
    spots = [0.8 + 1.75 * n for n in range(len(words) - 1)]
    for n, x in enumerate(spots):
        for m in range(n + 1):
            own = m == n
            c.arrow((spots[m], 0.87), (x + 0.16 * (m - n), 3.23), role="ink" if own else "muted", width=2.2 if own else 1)
        c.box(x, 0.6, 1.35, 0.54, words[n])
        c.box(x, 3.5, 1.35, 0.54, words[n + 1], "ink", strength=1.6)
    c.note(4.3, 0.05, c.word("sees"), va="top")


def text_to_text(c):
    model = c.box(6.0, 2.2, 1.9, 4.0, c.word("model"), "parameter")
    for n in range(1, 5):
        y = 4.65 - 0.98 * n
        task = c.box(2.1, y, 4.1, 0.6, c.word(f"task{n}"))
        answer = c.box(9.2, y, 2.7, 0.6, c.word(f"answer{n}"))
        c.arrow(task.right, (model.left[0], y))
        c.arrow((model.right[0], y), answer.left)
    c.text(2.1, 4.45, c.word("input"), bold=True)
    c.text(9.2, 4.45, c.word("output"), bold=True)
