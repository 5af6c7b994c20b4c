"""Softmax in one pass: a weighted sum of values whose scores arrive in tiles."""

import numpy as np

from ...layers import LogSoftmax, Softmax
from .definition import Exercise, Mistake


def online_softmax(scores, values):
    """y = softmax(s) @ v in one pass over tiles of keys: each tile is used once and not kept.

    scores: list of tiles (..., T, n); side by side they are s, (..., T, S). They may be as large as several thousand or
        as small as minus several thousand. The score is -inf where a query may not attend. This may be so for a whole
        tile, even the first, but never for all keys.
    values: list of tiles (..., n, e); one below the other they are v, (..., S, e). n may differ from tile to tile.
    Return y: (..., T, e); m: (..., T, 1), the maximum score of each query; l: (..., T, 1), its sum of exp(s - m). All
    three are float32 if the tiles are.
    """
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
    return [("scores that rise by 1000 from tile to tile", cut(s + rise, v, (3, 6))),
            ("scores that fall by 1000 after the first tile", cut(s + fall, v, (3, 6))),
            ("scores around -5000", cut(s - 5000, v, (3, 6))),
            ("hidden keys, including the whole first tile", cut(hidden, v, (3, 6)))]


def by_softmax(scores, values):
    s, v = np.concatenate(scores, -1), np.concatenate(values, -2)
    return (Softmax()(s) @ v, s.max(-1, keepdims=True),
            np.exp(-LogSoftmax()(s).max(-1, keepdims=True)))        # the largest log p is -log l


HIGHER = "np.maximum(m, s.max(-1, keepdims=True))"
TILE_SUM = "p.sum(-1, keepdims=True)"

EXERCISES = [
    Exercise(
        "17.1", "Softmax in one pass", minutes=25, lines=11,
        solution=online_softmax, reference=by_softmax, inputs=tiles, edges=far, outputs=("y", "m", "l"),
        invariants=(("m must be the maximum score", lambda inputs, outputs:
                     outputs[1] - np.concatenate(inputs[0], -1).max(-1, keepdims=True)),),
        hints=("Keep the maximum score so far, m, and two sums: that of the weights exp(s - m), and that of the "
               "weights times the values. What must happen to the sums when a tile contains a larger score?",
               "exp(s - new) = exp(s - old) exp(old - new), so one factor per query corrects both sums. If m starts at "
               "-inf and the first tile is hidden, you get -inf - (-inf), which is NaN. Start with a finite m.",
               "higher = max(m, the tile's maximum); factor = exp(m - higher); p = exp(s - higher); l = l factor + sum "
               "of p; u = u factor + p @ v; m = higher. At the end, y = u / l."),
        mistakes=(
            Mistake("ONL-1", {"np.exp(m - higher)": "1.0"},
                    "You do not rescale the old sums, although they were computed with a smaller maximum. Or you "
                    "update m before you compute the factor, which is then exp(0)."),
            Mistake("ONL-2a", {"l * factor": "l"},
                    "You do not rescale the sum of the weights when the maximum rises."),
            Mistake("ONL-2b", {"u * factor": "u"},
                    "You do not rescale the sum of weights times values when the maximum rises."),
            Mistake("ONL-3", {"-1e30": "scores[0].max(-1, keepdims=True)", "np.exp(m - higher)": "np.exp(higher - m)"},
                    "Your factor is inverted. When the maximum rises, the earlier terms must become smaller."),
            Mistake("ONL-4", {f"l * factor + {TILE_SUM}": f"(l + {TILE_SUM}) * factor",
                              "u * factor + p @ v": "(u + p @ v) * factor"},
                    "You also rescale the new tile, whose weights were already computed with the new maximum."),
            Mistake("ONL-5", {HIGHER: "s.max(-1, keepdims=True)"},
                    "Your m is the maximum of the latest tile only. It should be the maximum so far; if a tile is far "
                    "below the earlier ones, your factor overflows."),
            Mistake("ONL-6", {"        m = higher\n": "", "return u / l, m": "return u / l, higher"},
                    "You never update m in the loop. The factor is then exp of a large negative number, which is 0, so "
                    "the earlier tiles are lost."),
            Mistake("ONL-7", {"p @ v": f"p / {TILE_SUM} @ v"},
                    "You normalize each tile by its own sum, so a tile with low scores has as much weight as one with "
                    "high scores. Divide once, by the sum over all tiles."),
            Mistake("ONL-8", {"u / l, m": "u, m"},
                    "The division at the end is missing, so the weights do not sum to 1."),
            Mistake("ONL-9", {"        m = higher": "        u = u / l\n        m = higher", "u / l, m": "u, m"},
                    "You divide the sum of weights times values by l after each tile. In the next tile, it is then no "
                    "longer the sum that belongs to l."),
            Mistake("ONL-16", {"u = u * factor + p @ v": f"u = (u * (l - {TILE_SUM}) + p @ v) / l", "u / l, m": "u, m"},
                    "You divide by l in each tile instead of at the end. As long as a query has no visible key, this "
                    "is 0 / 0."),
            Mistake("ONL-10", {HIGHER: "np.zeros_like(s[..., :1])"},
                    "You subtract no maximum. exp overflows above about 709, and far below 0 all weights become 0."),
            Mistake("ONL-11", {HIGHER: "np.maximum(m, s.max())"},
                    "You use one maximum for all queries. Each query has its own, so take the maximum over the keys "
                    "only."),
            Mistake("ONL-12", {"-1e30": "-np.inf"},
                    "Your m starts at -inf. If a query may attend to no key of the first tile, -inf - (-inf) is NaN."),
            Mistake("ONL-13", {"-1e30": "0.0"},
                    "Your m starts at 0. If all scores are far below 0, every weight becomes 0, and y is 0 / 0."),
            Mistake("ONL-17", {"u * factor + p @ v": f"u + p / {TILE_SUM} @ v", "u / l, m": "u / len(scores), m"},
                    "You average the results of the tiles. A tile with low scores then has as much weight as one with "
                    "high scores."),
            Mistake("ONL-18", {"u / l, m, l": "u / l, m, m + np.log(l)"},
                    "You return the log of the sum of exp(s), as some libraries do. Here l is the sum of exp(s - m)."),
            Mistake("ONL-19", {"u / l, m, l": "u / l, l, m"},
                    "You return m and l in the wrong order."),
            Mistake("ONL-20", {TILE_SUM: "p.sum(-1)"},
                    "keepdims=True is missing in your sum of the weights. It must be a column, (..., T, 1), as the "
                    "maximum is."),
            Mistake("ONL-21", {"np.exp(s - higher)": "np.exp(s - s.max(-1, keepdims=True))"},
                    "You compute the weights of a tile with the tile's own maximum. All weights must refer to one "
                    "maximum, the largest so far."),
            Mistake("ONL-22", {"s.max(-1, keepdims=True)": "s.max(-1)"},
                    "keepdims=True is missing in your maximum. It must be a column, (..., T, 1), so that each query "
                    "has its own."),
            Mistake("ONL-14", {"zip(scores, values)": "zip(scores[:1], values[:1])"},
                    "You use the first tile only. Is there a return inside your loop?"),
        ),
        alternatives={
            "key by key": {"zip(scores, values)": "[(s[..., [i]], v[..., [i], :]) for s, v in zip(scores, values) "
                                                  "for i in range(s.shape[-1])]"},
            "from -inf, with 0 for a maximum of -inf": {
                "-1e30": "-np.inf", "np.exp(m - higher)": "np.exp(m - np.where(np.isneginf(higher), 0, higher))",
                "np.exp(s - higher)": "np.exp(s - np.where(np.isneginf(higher), 0, higher))"}}),
]
