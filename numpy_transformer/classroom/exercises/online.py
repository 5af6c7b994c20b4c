"""Softmax in one pass: a weighted sum of values whose scores come tile by tile."""

import numpy as np

from ...layers import LogSoftmax, Softmax
from ..exercise import Exercise, Mistake


def online_softmax(scores, values):
    """y = softmax(s) @ v in one pass over tiles of keys, each of which is seen once and then forgotten.

    scores: list of tiles (..., T, n); side by side they are s, (..., T, S). They may be in the thousands. Where a query
        may not attend, the score is -inf: for a whole tile perhaps, the first one too, but never for all keys.
    values: list of tiles (..., n, e); one below the other they are v, (..., S, e). n may differ from tile to tile.
    Return y: (..., T, e); m: (..., T, 1), the largest score of each query; l: (..., T, 1), its sum of exp(s - m). All
    three are float32 where the tiles are.
    """
    m, l, u = -1e30, 0.0, 0.0
    for s, v in zip(scores, values):
        higher = np.maximum(m, s.max(-1, keepdims=True))
        factor = np.exp(m - higher)
        p = np.exp(s - higher)
        l = l * factor + p.sum(-1, keepdims=True)
        u = u * factor + p @ v
        m = higher
    return u / l, m, l


def tiles(rng, n):
    """Tiles of different widths, one of them a single key."""
    return cut(2 * rng.standard_normal((*n.lead, n.S)), rng.standard_normal((*n.lead[:-1], n.S, n.d)), (2, 3))


def cut(s, v, places):
    return np.split(s, places, -1), np.split(v, places, -2)


def far(rng):
    s, v, widths = 2 * rng.standard_normal((3, 8)), rng.standard_normal((8, 4)), (3, 3, 2)
    hidden = s.copy()
    hidden[:, :3], hidden[0, 4], hidden[1, 6:], hidden[2, 3:6] = -np.inf, -np.inf, -np.inf, -np.inf
    rise, fall = np.repeat((0, 1000, 2000), widths), np.repeat((0, -1000, -900), widths)
    return [("scores that rise by 1000 from tile to tile", cut(s + rise, v, (3, 6))),
            ("scores that fall by 1000", cut(s + fall, v, (3, 6))),
            ("scores around -1000", cut(s - 1000, v, (3, 6))),
            ("hidden keys, the whole first tile among them", cut(hidden, v, (3, 6)))]


def by_softmax(scores, values):
    s, v = np.concatenate(scores, -1), np.concatenate(values, -2)
    return (Softmax()(s) @ v, s.max(-1, keepdims=True),
            np.exp(-LogSoftmax()(s).max(-1, keepdims=True)))        # the largest log p is -log l


HIGHER = "np.maximum(m, s.max(-1, keepdims=True))"
TILE_SUM = "p.sum(-1, keepdims=True)"

EXERCISES = [
    Exercise(
        "17.1", "Softmax in one pass", minutes=25, lines=9,
        solution=online_softmax, reference=by_softmax, inputs=tiles, edges=far, outputs=("y", "m", "l"),
        invariants=(("m must be the largest score", lambda inputs, outputs:
                     outputs[1] - np.concatenate(inputs[0], -1).max(-1, keepdims=True)),),
        hints=("Keep the largest score so far, m, and two sums: of the weights exp(s - m), and of weights times "
               "values. What happens to the sums when a tile brings a larger score?",
               "exp(s - new) = exp(s - old) exp(old - new): one factor for each query repairs all that was summed "
               "before. If m starts at -inf and the first tile is hidden, -inf - (-inf) is NaN: begin with a finite m.",
               "higher = max(m, the tile's maximum); factor = exp(m - higher); p = exp(s - higher); l = l factor + sum "
               "of p; u = u factor + p @ v; m = higher. In the end y = u / l."),
        mistakes=(
            Mistake("ONL-1", {"np.exp(m - higher)": "1.0"},
                    "The old sums are not rescaled, though they were computed with a smaller maximum; or m is "
                    "overwritten before the factor is computed, which is then exp(0)."),
            Mistake("ONL-2a", {"l * factor": "l"}, "The sum of the weights is not rescaled when the maximum rises."),
            Mistake("ONL-2b", {"u * factor": "u"},
                    "The sum of weights times values is not rescaled when the maximum rises."),
            Mistake("ONL-3", {"np.exp(m - higher)": "np.exp(higher - m)"},
                    "The factor is inverted: where the maximum rises, the older terms must become smaller."),
            Mistake("ONL-4", {f"l * factor + {TILE_SUM}": f"(l + {TILE_SUM}) * factor",
                              "u * factor + p @ v": "(u + p @ v) * factor"},
                    "The new tile is rescaled too: its weights were computed with the new maximum already."),
            Mistake("ONL-5", {HIGHER: "s.max(-1, keepdims=True)"},
                    "m is the maximum of the latest tile alone: it should be the largest score so far. Where a tile "
                    "lies far below the ones before, the factor overflows."),
            Mistake("ONL-6", {"        m = higher\n": "", "return u / l, m": "return u / l, higher"},
                    "m keeps its first value in the loop: the factor is exp of a huge negative number, 0, in every "
                    "tile, and older tiles are lost."),
            Mistake("ONL-7", {"p @ v": f"p / {TILE_SUM} @ v"},
                    "Each tile is normalized by its own sum, so that one with low scores weighs as much as one with "
                    "high scores. Divide once, by the sum over all tiles."),
            Mistake("ONL-8", {"u / l, m": "u, m"}, "The division at the end is missing: the weights do not sum to 1."),
            Mistake("ONL-9", {"        m = higher": "        u = u / l\n        m = higher", "u / l, m": "u, m"},
                    "u is divided by l after each tile: in the next one, it is no longer the sum that l belongs to."),
            Mistake("ONL-16", {"u = u * factor + p @ v": f"u = (u * (l - {TILE_SUM}) + p @ v) / l", "u / l, m": "u, m"},
                    "y is divided by l in each tile, not in the end: where a query has seen no key yet, that is "
                    "0 / 0."),
            Mistake("ONL-10", {HIGHER: "np.zeros_like(s[..., :1])"},
                    "No maximum is subtracted: exp overflows above about 709, and far below 0 all weights become 0."),
            Mistake("ONL-11", {HIGHER: "np.maximum(m, s.max())"},
                    "One maximum for all queries: each row of scores has its own, so keep its axis."),
            Mistake("ONL-12", {"-1e30": "-np.inf"},
                    "m starts at -inf: if a query may see no key of the first tile, -inf - (-inf) is NaN."),
            Mistake("ONL-13", {"-1e30": "0.0"},
                    "m starts at 0: where all scores lie far below 0, every weight becomes 0, and y 0 / 0."),
            Mistake("ONL-14", {"zip(scores, values)": "zip(scores[:1], values[:1])"},
                    "Only the first tile is seen: a return inside the loop?"),
        ),
        alternatives={
            "key by key": {"zip(scores, values)": "[(s[..., [i]], v[..., [i], :]) for s, v in zip(scores, values) "
                                                  "for i in range(s.shape[-1])]"},
            "from -inf, with 0 for a maximum of -inf": {
                "-1e30": "-np.inf", "np.exp(m - higher)": "np.exp(m - np.where(np.isneginf(higher), 0, higher))",
                "np.exp(s - higher)": "np.exp(s - np.where(np.isneginf(higher), 0, higher))"}}),
]
