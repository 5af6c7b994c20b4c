"""What encoders are used for: classes of texts and images, masked words, tags, vectors and answers; and batches with padding."""

import math

import numpy as np

from .values import softmax

SHADES = [[0.6, 0.2, 0.4], [0.1, 0.7, 0.3], [0.5, 0.5, 0.1], [0.3, 0.1, 0.6], [0.2, 0.6, 0.5], [0.4, 0.3, 0.2]]   # of vectors


def bars(c, x, y, names, probabilities, length=1.2):
    """A name, a bar and a number for each probability, downwards from y."""
    for n, (name, p) in enumerate(zip(names, probabilities, strict=True)):
        c.text(x, y - 0.42 * n, name, ha="right", small=True)
        c.cells(x + 0.1 + length * p / 2, y - 0.42 * n, 1, 1, "weight", size=0.22, width=length * p, shades=[[0.6]])
        c.note(x + 0.2 + length * p, y - 0.42 * n, f"{p:.2f}", ha="left", role="weight")


def classifier(c):
    words = c.word("tokens").split()
    encoder = c.box(4.2, 1.9, 1.5, 3.4, c.word("encoder"), "parameter")
    mean = c.box(7.3, 2.35, 0.95, 0.6, c.word("mean"))
    for n, word in enumerate(words):
        y, real = 3.25 - 0.9 * n, n < len(words) - 1
        c.text(1.45, y, word, "ink" if real else "muted", ha="right")
        before = c.cells(2.15, y, 1, 3, "plain" if real else "muted", shades=[SHADES[n] if real else [0] * 3])
        after = c.cells(5.75, y, 1, 3, "plain" if real else "muted", shades=[SHADES[n + 1] if real else [0] * 3])
        c.arrow(before.right, (encoder.left[0], y))
        c.arrow((encoder.right[0], y), after.left)
        if real:
            c.arrow(after.right, (mean.left[0], mean.y + 0.2 * (1 - n)))
        else:
            c.note(after.right[0] + 0.15, y, c.word("left_out"), ha="left")
    vector = c.cells(8.55, 2.35, 1, 3, "plain", shades=[np.mean(SHADES[1:4], 0)])
    linear = c.box(9.9, 2.35, 1.05, 1.35, c.word("linear"), "parameter")
    c.arrow(mean.right, vector.left)
    c.arrow(vector.right, linear.left)
    c.arrow(linear.right, (10.75, 2.35))
    bars(c, 11.3, 2.35, c.word("classes").split(), [1 / (1 + math.exp(-1.4))], length=0.6)


def padding(c):
    sentences = [line.split() for line in c.word("sentences").split("\n")]
    length = max(map(len, sentences))
    grid = [sentence + [c.word("pad")] * (length - len(sentence)) for sentence in sentences]
    real = np.array([[n < len(sentence) for n in range(length)] for sentence in sentences])
    roles = [["plain" if r else "muted" for r in row] for row in real]
    area = c.cells(2.4, 2.0, len(grid), length, size=0.55, width=0.92, roles=roles, values=grid,
                   shades=[[0.2 if r else 0 for r in row] for row in real])
    mask = c.cells(6.9, 2.0, len(grid), length, size=0.55, width=0.5, shades=real * 0.4,
                   roles=[["weight" if r else "muted" for r in row] for row in real],
                   values=[["✓" if r else "·" for r in row] for row in real])
    for x, key in ((area.x, "batch"), (mask.x, "mask"), (10.0, "mean")):
        c.text(x, 3.25, c.word(key), bold=True)
    for n, sentence in enumerate(sentences):
        c.text(10.0, area.row(n).y, c.word("formula", n=len(sentence)))
    c.note(area.x, 0.95, c.word("shape", B=len(grid), T=length), va="top")
    c.note(mask.x, 0.95, c.word("hidden"), va="top")
    c.note(10.0, 0.95, c.word("left_out"), va="top")


DIGIT = ["........",
         ".#####..",
         ".....##.",
         "....##..",
         "...##...",
         "..##....",
         "..#.....",
         "........"]


def patches(c):
    image = np.array([[0.9 if mark == "#" else 0.05 for mark in row] for row in DIGIT])
    picture = c.cells(1.3, 2.3, 8, 8, "plain", shades=image)
    for at in (0, 4, 8):
        c.arrow((0.1 + 0.3 * at, 1.1), (0.1 + 0.3 * at, 3.5), head=False, width=2.6)
        c.arrow((0.1, 1.1 + 0.3 * at), (2.5, 1.1 + 0.3 * at), head=False, width=2.6)
    encoder = c.box(10.1, 2.75, 1.1, 4.2, c.word("encoder"), "parameter")
    linear = c.box(7.6, 2.3, 0.9, 3.3, c.word("linear"), "parameter")
    for n in range(4):
        row, column = divmod(n, 2)
        y = 3.65 - 0.9 * n
        patch = image[4 * row:4 * row + 4, 4 * column:4 * column + 4]
        strip = c.cells(5.2, y, 1, 16, "plain", size=0.22, shades=[patch.ravel()])
        c.note(strip.left[0] - 0.12, y, str(n + 1), ha="right")
        c.text(0.1 + 1.2 * (column + 1) - 0.16, 3.5 - 1.2 * (row + 1) + 0.17, str(n + 1), small=True, bold=True)
        c.arrow(strip.right, (linear.left[0], y))
        token = c.cells(8.8, y, 1, 3, "plain", shades=[SHADES[n]])
        c.arrow((linear.right[0], y), token.left)
        c.arrow(token.right, (encoder.left[0], y))
    c.arrow(picture.right, (3.1, 2.3))
    first = c.cells(8.8, 4.55, 1, 3, "parameter", shades=[SHADES[4]])
    c.note(first.left[0] - 0.12, first.y, c.word("class_token"), ha="right")
    c.arrow(first.right, (encoder.left[0], first.y))
    c.arrow((encoder.right[0], first.y), (11.0, first.y))
    c.text(11.1, first.y, c.word("class"), ha="left")
    for x, key in ((1.3, "image"), (5.2, "patches"), (8.8, "tokens")):
        c.note(x, 0.35, c.word(key), va="top")


def masked_words(c):
    words = c.word("tokens").split()
    encoder = c.box(5.0, 1.7, 9.6, 0.7, c.word("encoder"), "parameter")
    for n, word in enumerate(words):
        x, hidden = 0.95 + 1.62 * n, "[" in word
        box = c.box(x, 0.55, 1.3, 0.5, word, "ink" if hidden else "plain", strength=1.4 if hidden else 1)
        c.arrow(box.top, (x, encoder.bottom[1]))
        if hidden:
            c.arrow((x, encoder.top[1]), (x, 2.55), role="weight")
            guesses = c.word(f"guesses{n}").split()
            bars(c, x - 0.15, 3.65, guesses, softmax([2.0, 1.0, 0.0][:len(guesses)]), length=1.0)
        else:
            c.arrow((x, encoder.top[1]), (x, 2.35), role="muted")
    c.note(5.0, 0.05, c.word("loss"), va="top")


def tags_and_vectors(c):
    words, tags = c.word("tokens").split(), c.word("tags").split()
    encoder = c.box(3.2, 1.7, 6.2, 0.7, c.word("encoder"), "parameter")
    mean = c.box(8.6, 2.85, 1.0, 0.55, c.word("mean"))
    for n, (word, tag) in enumerate(zip(words, tags, strict=True)):
        x = 0.85 + 1.57 * n
        box = c.box(x, 0.55, 1.3, 0.5, word)
        vector = c.cells(x, 2.85, 1, 3, "plain", shades=[SHADES[n]])
        tagged = c.box(x, 4.15, 1.1, 0.5, tag, "weight")
        c.arrow(box.top, (x, encoder.bottom[1]))
        c.arrow((x, encoder.top[1]), vector.bottom)
        c.arrow(vector.top, tagged.bottom)
    c.panel(3.2, 2.85, 6.2, 0.7)
    c.arrow((6.3, 2.85), mean.left)
    sentence = c.cells(10.35, 2.85, 1, 3, "plain", shades=[np.mean(SHADES[:len(words)], 0)])
    c.arrow(mean.right, sentence.left)
    c.text(7.0, 4.15, c.word("each"), ha="left")
    c.text(10.35, 2.25, c.word("whole"), va="top")


def span(c):
    question, text = c.word("question").split(), c.word("passage").split()
    starts, ends = softmax([0.2, 0.1, 0.3, 3.0, 0.8, -0.5]), softmax([0.1, 0.0, 0.2, 0.9, 3.2, -0.5])
    width, before = 0.96, len(question) + 2                 # the text comes after [CLS], the question and [SEP]
    words = ["[CLS]", *question, "[SEP]", *text, "[SEP]"]
    encoder = c.box(width * len(words) / 2, 1.5, width * len(words) - 0.1, 0.6, c.word("encoder"), "parameter")
    for n, word in enumerate(words):
        x = width * (n + 0.5)
        answer = word in c.word("answer").split()
        box = c.box(x, 0.45, width - 0.12, 0.5, word, "weight" if answer else "plain", strength=2 if answer else 1)
        c.arrow(box.top, (x, encoder.bottom[1]))
        at = n - before
        if at >= 0:
            for shift, p, base in ((0, starts[at], 3.6), (0, ends[at], 2.2)):
                c.cells(x + shift, base + 0.45 * p, 1, 1, "weight", size=0.9 * p, width=0.5, shades=[[0.6]])
                c.note(x, base - 0.14, f"{p:.2f}", role="weight")
    left = width * before - 0.05
    c.text(left, 3.7, c.word("start"), ha="right")
    c.text(left, 2.3, c.word("end"), ha="right")
    c.brace((width + 0.05, 0.1), (width * (before - 1) - 0.05, 0.1), c.word("is_question"), "below")
    c.brace((width * before + 0.05, 0.1), (width * len(words) - 0.05, 0.1), c.word("is_text"), "below")
