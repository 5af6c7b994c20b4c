"""Speculative decoding: which guesses are accepted and what is drawn after them, and guesses from n-grams of the text."""

import numpy as np

from ...decoding import NGramDraft
from ...decoding.speculative import verify
from .definition import Exercise, Mistake


def verify_guesses(guesses, p, q, u):
    for n, x in enumerate(guesses):
        if u[n] >= p[n, x] / q[n, x]:
            r = np.maximum(p[n] - q[n], 0)
            return n, r / r.sum()
    return len(guesses), p[-1]


class Recorded:
    """Takes the place of a random generator: gives the numbers u, and keeps the distribution of the token that is drawn."""

    def __init__(self, u):
        self.left = list(u)

    def random(self):
        return self.left.pop(0)

    def choice(self, size, p):
        self.p = p
        return 0


def by_verify(guesses, p, q, u):
    rng = Recorded(u)
    new = verify(guesses.tolist(), p, q, rng)
    return len(new) - 1, rng.p


def draw_guesses(rng, k, V, accepted):
    """Draws guesses of which the first `accepted` are accepted, and those after the next one would be.

    The first is the model's most likely token, the second another one that the draft guesses too rarely. They are accepted for
    certain, and the others by chance.
    """
    p, q = rng.uniform(0.1, 1, (k + 1, V)), rng.uniform(0.1, 1, (k, V))
    guesses, u = rng.integers(V, size=k), np.zeros(k)
    for n, x in enumerate(guesses):
        certain = n < min(accepted, 2)
        (p if certain else q)[n, x] += V
        if n == 1 and certain:
            p[n, (x + 1) % V] += 2 * V
        p[n], q[n] = p[n] / p[n].sum(), q[n] / q[n].sum()
        chance = p[n, x] / q[n, x]
        if n == accepted:
            u[n] = chance + (1 - chance) * rng.uniform(0.2, 0.8)
        else:
            u[n] = rng.uniform(0.9, 1) if certain else chance * rng.uniform(0.3, 0.95)
    p[-1] /= p[-1].sum()
    return guesses, p, q, u


def draw_verification(rng, n):
    return draw_guesses(rng, n.S, n.V, 3 + int(rng.integers(n.S - 4)))


def barely(guesses, p, q, u, accepted):
    """Moves the random numbers close to the ratios, on the same side of them; a probability of 1 is left as it is."""
    n = np.arange(len(guesses))
    ratio = p[n, guesses] / q[n, guesses]
    close = np.where(n == accepted, ratio * (1 + 1e-10), ratio * (1 - 1e-10))
    return guesses, p, q, np.where(ratio < 1, close, u)


def edges(rng):
    certain = np.eye(6)                                     # greedy: model and draft are certain of a token
    chosen, guesses = rng.integers(6, size=5), rng.integers(6, size=4)
    guesses[:2], guesses[2] = chosen[:2], (chosen[2] + 1) % 6
    return [("all_accepted", draw_guesses(rng, 4, 7, 4)), ("first_rejected", draw_guesses(rng, 4, 6, 0)),
            ("last_rejected", draw_guesses(rng, 5, 6, 4)), ("one_guess", draw_guesses(rng, 1, 5, 1)),
            ("close", barely(*draw_guesses(rng, 6, 7, 4), 4)),
            ("greedy", (guesses, certain[chosen], certain[guesses], np.zeros(4)))]


def ngram_guesses(ids, size, count):
    text = list(ids)
    for n in range(min(size, len(text) - 1), 0, -1):
        for distance in range(1, len(text) - n + 1):
            if text[-n - distance:-distance] == text[-n:]:
                for _ in range(count):
                    text.append(text[-distance])
                return np.array(text[-count:])
    return np.zeros(0, int)


def by_draft(ids, size, count):
    return np.array(NGramDraft(int(ids.max()) + 1, size).propose(ids.tolist(), count, None, None)[0], int)


def draw_text(rng, n):
    """Draws a text whose latest n-gram occurred twice, each time with other tokens after it, the longer one before, and the
    shorter ones later.
    """
    size, count = int(rng.integers(2, 4)), int(rng.integers(2, 5))
    longer = rng.permutation(5)[:size + 1]
    key = longer[1:]
    first, second, third = (rng.integers(5, 5 + n.V, n.T) for _ in range(3))
    return np.concatenate([first, longer, second, key, third, key[1:], first[::-1], longer]), size, count


def text_edges(rng):
    a, b, c, d, e, f = rng.permutation(9)[:6]
    return [("no_repetition", (rng.permutation(9), 3, 4)), ("one_token", (np.array([a]), 2, 3)),
            ("shorter", (np.array([a, b, c, d, a, b, e, c]), 3, 2)),
            ("two_tokens", (np.array([a, b, c, d, b, e, f, a, b]), 3, 2)),
            ("to_the_end", (np.array([a, b, c, a, b]), 2, 8)), ("same_token", (np.array([a, b, c, c]), 2, 4)),
            ("short_text", (np.array([a, b, a]), 5, 1))]


RATIO = "u[n] >= p[n, x] / q[n, x]"
REST = "np.maximum(p[n] - q[n], 0)"
MATCH = "text[-n - distance:-distance] == text[-n:]"


EXERCISES = [
    Exercise(
        "28.1", minutes=20, lines=5, number_sizes=(), linked=(("guesses", "p", "q", "u"),),
        solution=verify_guesses, reference=by_verify, inputs=draw_verification, edges=edges, outputs=("accepted", "r"),
        mistakes=(
            Mistake("SPD-1", {REST: "p[n]"}),
            Mistake("SPD-2", {"p[n, x] / q[n, x]": "q[n, x] / p[n, x]"}),
            Mistake("SPD-3", {"p[-1]": "p[-2]"}),
            Mistake("SPD-4", {REST: "abs(p[n] - q[n])"}),
            Mistake("SPD-5", {"r / r.sum()": "r"}),
            Mistake("SPD-6", {REST: "np.maximum(q[n] - p[n], 0)"}),
            Mistake("SPD-7", {RATIO: "p[n, x] < q[n, x]"}),
            Mistake("SPD-8", {
                f"    for n, x in enumerate(guesses):\n        if {RATIO}:":
                    "    n = sum(u[i] < p[i, x] / q[i, x] for i, x in enumerate(guesses))\n"
                    "    if n < len(guesses):\n        if True:"}),
            Mistake("SPD-9", {RATIO: "x != p[n].argmax()"}),
            Mistake("SPD-10", {REST: "np.where(np.arange(p.shape[1]) == x, 0, p[n])"}),
            Mistake("SPD-11", {REST: "np.maximum(p[n + 1] - q[n], 0)"}),
            Mistake("SPD-12", {RATIO: "u[n] >= p[n, x]"}),
            Mistake("SPD-13", {"u[n] >=": "u[n] <"}),
            Mistake("SPD-14", {"return n, r": "return n + 1, r", "return len(guesses), p": "return len(guesses) + 1, p"}),
        ),
        alternatives={
            "all at once": {
                f"    for n, x in enumerate(guesses):\n        if {RATIO}:\n            r = {REST}\n"
                "            return n, r / r.sum()":
                    "    at = np.arange(len(guesses))\n    wrong = u >= p[at, guesses] / q[at, guesses]\n    if wrong.any():\n"
                    "        n = int(wrong.argmax())\n        r = np.clip(p[n] - q[n], 0, None)\n"
                    "        return n, r / r.sum()"},
            "a product": {RATIO: "u[n] * q[n, x] >= p[n, x]"}}),
    Exercise(
        "28.2", minutes=15, lines=8, number_sizes=(),
        solution=ngram_guesses, reference=by_draft, inputs=draw_text, edges=text_edges, outputs=("guesses",),
        mistakes=(
            Mistake("NGR-1", {"range(1, len(text) - n + 1)": "range(len(text) - n, 0, -1)"}),
            Mistake("NGR-2", {"range(min(size, len(text) - 1), 0, -1)": "range(1, min(size, len(text) - 1) + 1)"}),
            Mistake("NGR-3", {"range(min(size, len(text) - 1), 0, -1)": "[min(size, len(text) - 1)]"}),
            Mistake("NGR-4", {"text.append(text[-distance])": "text.append(text[-distance - n])"}),
            Mistake("NGR-5", {
                "range(count)": "range(min(count, distance))",
                "np.array(text[-count:])": "np.array(text[len(ids):])"}),
            Mistake("NGR-6", {"np.array(text[-count:])": "np.array(text)"}),
            Mistake("NGR-7", {
                "                for _ in range(count):\n                    text.append(text[-distance])\n": "",
                "np.array(text[-count:])": "np.array([text[-distance]] * count)"}),
        ),
        alternatives={
            "from the end, with arrays": {MATCH: "np.array_equal(text[-n - distance:-distance], text[-n:])"},
            "with a remainder": {
                "                for _ in range(count):\n                    text.append(text[-distance])\n": "",
                "np.array(text[-count:])": "np.array([text[len(text) - distance + i % distance] for i in range(count)])"}}),
]
