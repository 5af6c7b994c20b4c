"""Softmax in one pass: a weighted sum of values whose scores arrive in tiles."""

import numpy as np

from ...layers import LogSoftmax, Softmax
from .definition import Exercise, Mistake


def online_softmax(scores, values):
    m = -1e30
    l = 0.0
    u = 0.0
    for s, v in zip(scores, values):
        higher = np.maximum(m, s.max(-1, keepdims=True))
        factor = np.exp(m - higher)
        p = np.exp(s - higher)
        l = l * factor + p.sum(-1, keepdims=True)
        u = u * factor + p @ v
        m = higher
    return u / l, m, l


def tiles(rng, n):
    """Draws tiles of different widths, one of which is a single key."""
    return cut(2 * rng.standard_normal((*n.lead, n.S)), rng.standard_normal((*n.lead[:-1], n.S, n.d)), (2, 3))


def cut(s, v, columns):
    return np.split(s, columns, -1), np.split(v, columns, -2)


def far(rng):
    s, v = 2 * rng.standard_normal((3, 8)), rng.standard_normal((8, 4))
    hidden = s.copy()
    hidden[:, :3] = -np.inf
    hidden[0, 4] = -np.inf
    hidden[1, 6:] = -np.inf
    hidden[2, 3:6] = -np.inf
    widths = (3, 3, 2)
    rise, fall = np.repeat((0, 1000, 2000), widths), np.repeat((0, -1000, -900), widths)
    return [("scores_rise_by", cut(s + rise, v, (3, 6))),
            ("scores_fall_by", cut(s + fall, v, (3, 6))),
            ("scores_around_5000", cut(s - 5000, v, (3, 6))),
            ("hidden_keys_including", cut(hidden, v, (3, 6)))]


def by_softmax(scores, values):
    s, v = np.concatenate(scores, -1), np.concatenate(values, -2)
    return (Softmax()(s) @ v, s.max(-1, keepdims=True),
            np.exp(-LogSoftmax()(s).max(-1, keepdims=True)))        # the largest log p is -log l

OWN = "np.maximum(s.max(-1, keepdims=True), -1e30)"


EXERCISES = [
    Exercise(
        "17.1", minutes=25, lines=11, size_letters="TS",
        solution=online_softmax, reference=by_softmax, inputs=tiles, edges=far, outputs=("y", "m", "l"),
        must_be_zero={"m_maximum_score": lambda inputs, outputs:
                          outputs[1] - np.concatenate(inputs[0], -1).max(-1, keepdims=True)},
        mistakes=(
            Mistake("ONL-1", {"np.exp(m - higher)": "1.0"}),
            Mistake("ONL-2b", {"u * factor": "u"}),
            Mistake("ONL-4", {
                "l * factor + p.sum(-1, keepdims=True)": "(l + p.sum(-1, keepdims=True)) * factor",
                "u * factor + p @ v": "(u + p @ v) * factor"}),
            Mistake("ONL-5", {"np.maximum(m, s.max(-1, keepdims=True))": "s.max(-1, keepdims=True)"}),
            Mistake("ONL-6", {"        m = higher\n": "", "return u / l, m": "return u / l, higher"}),
            Mistake("ONL-8", {"u / l, m": "u, m"}),
            Mistake("ONL-9", {"        m = higher": "        u = u / l\n        m = higher", "u / l, m": "u, m"}),
            Mistake("ONL-16", {
                "u = u * factor + p @ v": "u = (u * (l - p.sum(-1, keepdims=True)) + p @ v) / l",
                "u / l, m": "u, m"}),
            Mistake("ONL-10", {"np.maximum(m, s.max(-1, keepdims=True))": "np.zeros_like(s[..., :1])"}),
            Mistake("ONL-11", {"np.maximum(m, s.max(-1, keepdims=True))": "np.maximum(m, s.max())"}),
            Mistake("ONL-12", {"-1e30": "-np.inf"}),
            Mistake("ONL-13", {"-1e30": "0.0"}),
            Mistake("ONL-17a", {"np.exp(s - higher)": f"np.exp(s - {OWN})"}),
            Mistake("ONL-17b", {"np.exp(s - higher)": f"np.exp(s - {OWN})", "np.exp(m - higher)": "1.0"}),
            Mistake("ONL-17c", {"np.exp(s - higher)": "np.exp(s - s.max(-1, keepdims=True))"}),
            Mistake("ONL-17d", {
                "np.exp(s - higher)": "np.exp(s - s.max(-1, keepdims=True))", "np.exp(m - higher)": "1.0"}),
            Mistake("ONL-14", {"zip(scores, values)": "zip(scores[:1], values[:1])"}),
        ),
        alternatives={
            "key by key": {"zip(scores, values)": "[(s[..., [i]], v[..., [i], :]) for s, v in zip(scores, values) "
                                                  "for i in range(s.shape[-1])]"},
            "from -inf, with 0 for a maximum of -inf": {
                "-1e30": "-np.inf", "np.exp(m - higher)": "np.exp(m - np.where(np.isneginf(higher), 0, higher))",
                "np.exp(s - higher)": "np.exp(s - np.where(np.isneginf(higher), 0, higher))"}}),
]
