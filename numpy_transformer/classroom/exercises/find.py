"""Find the bug: a wrong version is given, and what is asked for are inputs on which it shows."""

import numpy as np

from ...layers import AttentionMask, Embedding, LayerNorm, Softmax, padding_mask
from ..exercise import Exercise, Mistake
from .given import loaded

ENTRIES = 1000                                  # of an array at most
DIFFERENCE = 1e-3                               # of right and wrong at least, relative to the larger of them


def layer_norm_backward(x, gamma, dy):
    """WRONG. dx of y = gamma * x_hat + beta, x_hat = (x - mean) / std over the last axis, std = sqrt(var + 1e-5)."""
    std = np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    x_hat = (x - x.mean(-1, keepdims=True)) / std
    centred = dy - dy.mean(-1, keepdims=True) - x_hat * (dy * x_hat).mean(-1, keepdims=True)
    return gamma * centred / std


def layer_norm_probe():
    """Inputs on which layer_norm_backward, above, gives a wrong dx. With the gamma of a new layer it is right.

    Return x: (T, D), gamma: (D,), dy: (T, D), arrays of floats between -1000 and 1000, at most 1000 entries each. The
    wrong dx must differ from the right one by more than a thousandth of the larger one (norms of the whole arrays).
    """
    rng = np.random.default_rng(0)
    return rng.standard_normal((3, 5)), rng.standard_normal(5), rng.standard_normal((3, 5))


def judge_layer_norm(x, gamma, dy):
    complaint = (unfit("x", x, 2) or unfit("gamma", gamma, 1) or unfit("dy", dy, 2)
                 or misfit("gamma", gamma, x.shape[1:], "(D,)", x) or misfit("dy", dy, x.shape, "(T, D)", x))
    if complaint:
        return complaint
    x, gamma, dy = (array.astype(float) for array in (x, gamma, dy))
    layer = loaded(LayerNorm(len(gamma)), {"gamma": gamma, "beta": gamma})
    layer(x)
    return agreed(layer_norm_backward(x, gamma, dy), layer.backward(dy),
                  "Do your gamma and dy look like those of a model that is in the midst of training?")


def embedding_backward(ids, dy):
    """WRONG. The gradient of the table (10, D) in y = table[ids]: each row gets the sum of the dy of its tokens."""
    dtable = np.zeros((10, dy.shape[-1]))
    dtable[ids] += dy
    return dtable


def embedding_probe():
    """Inputs on which embedding_backward, above, gives a wrong gradient of a table with 10 rows.

    Return ids: (B, T), integers from 0 to 9, and dy: (B, T, D), floats between -1000 and 1000, at most 1000 entries
    each. The wrong gradient must differ from the right one by more than a thousandth of the larger one (norms of the
    whole arrays).
    """
    ids = np.array([[1, 2, 1], [3, 1, 3]])
    return ids, np.random.default_rng(0).standard_normal((2, 3, 4))


def judge_embedding(ids, dy):
    complaint = unfit("ids", ids, 2, integers=True) or unfit("dy", dy, 3)
    if not complaint and (ids.min() < 0 or ids.max() > 9):
        complaint = f"the ids lie between {ids.min()} and {ids.max()}; the table has the rows 0 to 9"
    complaint = complaint or misfit("dy", dy, (*ids.shape, dy.shape[2]), "(B, T, D)", ids, "ids")
    if complaint:
        return complaint
    layer, dy = Embedding(10, dy.shape[2]).astype(np.float64), dy.astype(float)
    layer(ids)
    layer.backward(dy)
    return agreed(embedding_backward(ids, dy), layer.weight.grad,
                  "In a text some words are frequent. How often does each of your ids occur?")


def attention_weights(scores, ids):
    """WRONG. softmax over the keys; a key whose id is 0 is padding and gets weight 0."""
    scores = np.where(ids[0] == 0, -np.inf, scores)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def mask_probe():
    """Inputs on which attention_weights, above, gives wrong weights.

    Return scores: (B, T, S), floats between -1000 and 1000, and ids: (B, S), integers up to 1000, 0 = padding; every
    sequence has at least one token that is not padding; at most 1000 entries each. The wrong weights must differ from
    the right ones by more than a thousandth (norms of the whole arrays).
    """
    return np.random.default_rng(0).standard_normal((2, 3, 4)), np.array([[5, 6, 7, 8], [5, 6, 0, 0]])


def judge_mask(scores, ids):
    complaint = unfit("scores", scores, 3) or unfit("ids", ids, 2, integers=True) or misfit(
        "ids", ids, scores.shape[::2], "(B, S)", scores, "scores")
    if not complaint and not ids.any(1).all():
        complaint = f"sequence {ids.any(1).argmin()} is all padding; each needs a token that is not, or no key is left"
    if complaint:
        return complaint
    scores = scores.astype(float)
    right = Softmax()(AttentionMask()(scores[:, None], padding_mask(ids)))[:, 0]
    return agreed(attention_weights(scores, ids), right,
                  "Which line speaks of the batch, and when is it right for all sequences?")


def softmax(z):
    """WRONG. p = exp(z) / sum of exp(z) in each row; a maximum is subtracted, so that exp cannot overflow."""
    p = np.exp(z - z.max())
    return p / p.sum(-1, keepdims=True)


def softmax_probe():
    """Logits on which softmax, above, gives wrong probabilities.

    Return z: (N, n), floats between -1000 and 1000, at most 1000 entries. The wrong probabilities must differ from the
    right ones by more than a thousandth (norms of the whole arrays), or be NaN.
    """
    return np.array([[0.0, 1.0, 2.0], [-900.0, -901.0, -902.0]])


@np.errstate(invalid="ignore")                  # the wrong version may divide 0 by 0
def judge_softmax(z):
    complaint = unfit("z", z, 2)
    if complaint:
        return complaint
    z = z.astype(float)
    return agreed(softmax(z), Softmax()(z), "Whose maximum is it? How far below it may a row of yours lie?")


def unfit(name, array, axes, integers=False):
    """What is wrong with one array that a student has returned, or ""."""
    if array.ndim != axes:
        return f"{name} has shape {array.shape}; {axes} {'axis is' if axes == 1 else 'axes are'} asked for"
    if not 1 <= array.size <= ENTRIES:
        return f"{name} has {array.size} entries; 1 to {ENTRIES} are asked for, a handful is enough"
    if array.dtype.kind not in ("iu" if integers else "iuf"):
        return f"{name} has dtype {array.dtype}; {'integers' if integers else 'floats'} are asked for"
    if not np.all(abs(array.astype(float)) <= 1000):
        return f"{name} has an entry that is not between -1000 and 1000"
    return ""


def misfit(name, array, shape, letters, other, whose="x"):
    if array.shape != shape:
        return (f"{name} has shape {array.shape}, which does not fit {whose} of shape {other.shape}: "
                f"{letters} is {shape} here")
    return ""


def agreed(wrong, right, question):
    """What to say if both versions give the same, else ""."""
    size = max(np.linalg.norm(wrong), np.linalg.norm(right))
    if np.linalg.norm(wrong - right) <= DIFFERENCE * size:      # False for NaN
        return f"on these inputs the wrong version gives what the right one gives. {question}"
    return ""


EXERCISES = [
    Exercise(
        "08.4", "Find the bug: LayerNorm, backward", minutes=10, lines=2, kind="find the bug",
        solution=layer_norm_probe, given=(layer_norm_backward,), judge=judge_layer_norm, outputs=("x", "gamma", "dy"),
        hints=("Derive dx: at which place does gamma meet dy for the first time?",
               "The right one has gamma * dy inside of both means. For which gamma may it be taken out of a sum?",
               "Any gamma with unequal entries shows it, and random x and dy."),
        mistakes=(
            Mistake("FND-08.4a", {"rng.standard_normal(5)": "np.ones(5)"},
                    "gamma = 1, as in a new layer: it may then stand inside or outside of the means."),
            Mistake("FND-08.4b", {"rng.standard_normal(5)": "np.full(5, 2.0)"},
                    "gamma is the same number everywhere: such a factor may be taken out of a mean."),
        )),
    Exercise(
        "03.3", "Find the bug: embedding, backward", minutes=5, lines=2, kind="find the bug",
        solution=embedding_probe, given=(embedding_backward,), judge=judge_embedding, outputs=("ids", "dy"),
        hints=("What does NumPy do with a[[1, 1]] += 1? Try it.",
               "With a list of indices, += reads all rows first, adds, and writes them back: the last one wins.",
               "Let an id occur twice, with a dy that is not 0 where it occurs first."),
        mistakes=(
            Mistake("FND-03.3a", {"[[1, 2, 1], [3, 1, 3]]": "[[1, 2, 4], [3, 5, 6]]"},
                    "Each id occurs once: then nothing has to be summed, and setting is as good as adding."),
        )),
    Exercise(
        "06.5", "Find the bug: a padding mask", minutes=5, lines=1, kind="find the bug",
        solution=mask_probe, given=(attention_weights,), judge=judge_mask, outputs=("scores", "ids"),
        hints=("A test with a single sequence passes. What is different in a batch?",
               "ids[0] is the first sequence. When do the others have their padding at the same places?",
               "Two sequences, and only one of them padded."),
        mistakes=(
            Mistake("FND-06.5a", {"[[5, 6, 7, 8], [5, 6, 0, 0]]": "[[5, 6, 0, 0], [5, 6, 0, 0]]"},
                    "All sequences are padded at the same places: then the first one's mask is right for all."),
            Mistake("FND-06.5b", {"[[5, 6, 7, 8], [5, 6, 0, 0]]": "[[5, 6, 0, 0]]", "(2, 3, 4)": "(1, 3, 4)"},
                    "A single sequence: the first one's mask is its own."),
            Mistake("FND-06.5c", {"[5, 6, 0, 0]": "[5, 6, 1, 1]"}, "Nothing is padded: no mask hides anything."),
        )),
    Exercise(
        "01.7", "Find the bug: softmax", minutes=5, lines=1, kind="find the bug",
        solution=softmax_probe, given=(softmax,), judge=judge_softmax, outputs=("z",),
        hints=("For ordinary logits it is right, and one row alone is always right. What does a second row change?",
               "exp cannot overflow here. What becomes of a whole row if exp gives 0 for all of it?",
               "exp(x) is 0 below about -745: two rows whose logits are that far apart."),
        mistakes=(
            Mistake("FND-01.7a", {"[-900.0, -901.0, -902.0]": "[-9.0, -9.1, -9.2]"},
                    "The rows are near each other: exp stays above 0 in both, and any common shift is right."),
            Mistake("FND-01.7b", {"[0.0, 1.0, 2.0], [-900.0, -901.0, -902.0]": "[-900.0, -901.0, -902.0]"},
                    "A single row: its maximum is that of the whole array."),
        )),
]
