"""A draft guesses several tokens, and one call of the model verifies all of them."""


def guess_and_verify(c):
    text, guesses, verdicts, result = (c.word(key).split() for key in ("words", "guesses", "verdicts", "result"))
    step, width, first = 1.04, 0.88, 1.55
    places = [first + step * n for n in range(len(text) + len(guesses))]
    for y, name in ((4.3, "draft"), (3.05, "model"), (0.6, "new_text")):
        c.text(0.85, y, c.word(name), bold=True, ha="right")
    for x, word in zip(places, [*text, *guesses]):
        read = c.box(x, 4.3, width, 0.5, word, "plain" if x in places[:len(text)] else "query")
        c.arrow(read.bottom, (x, 3.36))
    c.panel((places[0] + places[-1]) / 2, 3.05, places[-1] - places[0] + width, 0.56, "weight")
    c.text((places[0] + places[-1]) / 2, 3.05, c.word("call"))
    roles = {"✓": "weight", "✗": "gradient"}
    for before, x, guess, verdict in zip(places[len(text) - 1:], places[len(text):], guesses, verdicts):
        box = c.box(x, 1.85, width, 0.5, f"{guess} {verdict}", roles.get(verdict, "muted"))
        c.arrow((before, 2.74), box.top)        # the output of the token before a guess judges it
    more = c.box(places[-1] + step + 0.4, 1.85, width + 0.8, 0.6, role="muted", strength=0.4)
    c.axes.patches[-1].set_linestyle("--")
    c.note(more.x, more.y, c.word("after_last"))
    c.arrow((places[-1], 2.74), (places[-1] + step, more.top[1]))
    for n, word in enumerate(result):
        drawn = n == len(result) - 1
        role = "plain" if n < len(text) else "query"
        box = c.box(places[n], 0.6, width, 0.5, word, "weight" if drawn else role)
        if drawn:
            c.arrow((places[n], 1.57), box.top)
            c.note(box.right[0] + 0.12, 0.6, c.word("drawn"), ha="left")
