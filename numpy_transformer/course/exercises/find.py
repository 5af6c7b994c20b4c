"""Find the bug: the student finds inputs for which a given wrong version returns wrong results."""

import numpy as np

from ...layers import AttentionMask, Embedding, LayerNorm, Softmax, padding_mask
from ...texts import Message
from .definition import AGREE, Exercise, Mistake
from .given import loaded

ENTRIES = 1000                                  # maximum number of entries of an array
DIFFERENCE = 1e-3                               # minimum difference between right and wrong, relative to the larger one
ROUNDING = 1e-9                                 # smaller differences, relative to what was summed, are rounding errors


def layer_norm_backward(x, gamma, dy):
    """WRONG. dx of y = gamma * x_hat + beta, x_hat = (x - mean) / std over the last axis, std = sqrt(var + 1e-5)."""
    std = np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    x_hat = (x - x.mean(-1, keepdims=True)) / std
    centered = dy - dy.mean(-1, keepdims=True) - x_hat * (dy * x_hat).mean(-1, keepdims=True)
    return gamma * centered / std


def layer_norm_probe():
    """Inputs for which layer_norm_backward, above, returns a wrong dx. For the gamma of a new layer it is right.

    Return x: (T, D), gamma: (D,) and dy: (T, D), arrays of floats between -1000 and 1000 with at most 1000 entries
    each. The wrong and the right dx must differ by more than a thousandth: the norm of their difference, divided by the
    larger of their norms.
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
    return agreed(layer_norm_backward(x, gamma, dy), layer.backward(dy), "layer_norm",
                  gamma * dy / np.sqrt(x.var(-1, keepdims=True) + 1e-5))


def embedding_backward(ids, dy):
    """WRONG. The gradient of the table (10, D) in y = table[ids]: the sum of the dy of all tokens with that id."""
    dtable = np.zeros((10, dy.shape[-1]))
    dtable[ids] += dy
    return dtable


def embedding_probe():
    """Inputs for which embedding_backward, above, returns a wrong gradient of a table with 10 rows.

    Return ids: (B, T), integers from 0 to 9, and dy: (B, T, D), floats between -1000 and 1000, at most 1000 entries
    each. The wrong and the right gradient must differ by more than a thousandth: the norm of their difference, divided
    by the larger of their norms.
    """
    ids = np.array([[1, 2, 1], [3, 1, 3]])
    return ids, np.random.default_rng(0).standard_normal((2, 3, 4))


def judge_embedding(ids, dy):
    complaint = unfit("ids", ids, 2, integers=True) or unfit("dy", dy, 3)
    if not complaint and (ids.min() < 0 or ids.max() > 9):
        complaint = Message("probes.unfit.ids", least=int(ids.min()), most=int(ids.max()))
    complaint = complaint or misfit("dy", dy, (*ids.shape, dy.shape[2]), "(B, T, D)", ids, "ids")
    if complaint:
        return complaint
    dy = dy.astype(float)
    layer = Embedding(10, dy.shape[2]).astype(np.float64)
    layer(ids)
    layer.backward(dy)
    return agreed(embedding_backward(ids, dy), layer.weight.grad, "embedding")


def attention_weights(scores, ids):
    """WRONG. Softmax over the keys, where a key whose id is 0 is padding and gets weight 0."""
    scores = np.where(ids[0] == 0, -np.inf, scores)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def mask_probe():
    """Inputs for which attention_weights, above, returns wrong weights.

    Return scores: (B, T, S), floats between -1000 and 1000, and ids: (B, S), integers up to 1000, 0 = padding. Every
    sequence has at least one real token, and each array at most 1000 entries. The wrong and the right weights must
    differ by more than a thousandth: the norm of their difference, divided by the larger of their norms.
    """
    return np.random.default_rng(0).standard_normal((2, 3, 4)), np.array([[5, 6, 7, 8], [5, 6, 0, 0]])


def judge_mask(scores, ids):
    complaint = unfit("scores", scores, 3) or unfit("ids", ids, 2, integers=True) or misfit(
        "ids", ids, scores.shape[::2], "(B, S)", scores, "scores")
    if not complaint and not ids.any(1).all():
        complaint = Message("probes.unfit.padding", number=int(ids.any(1).argmin()))
    if complaint:
        return complaint
    scores = scores.astype(float)
    right = Softmax()(AttentionMask()(scores[:, None], padding_mask(ids)))[:, 0]
    return agreed(attention_weights(scores, ids), right, "mask")


def softmax(z):
    """WRONG. p = exp(z) / (sum of exp(z)) in each row; a maximum is subtracted, so that exp cannot overflow."""
    p = np.exp(z - z.max())
    return p / p.sum(-1, keepdims=True)


def softmax_probe():
    """Logits for which softmax, above, returns wrong probabilities.

    Return z: (N, n), floats between -1000 and 1000, at most 1000 entries. The wrong probabilities must be NaN, or
    differ from the right ones by more than a thousandth: the norm of the difference, divided by the larger of the two
    norms.
    """
    return np.array([[0.0, 1.0, 2.0], [-900.0, -901.0, -902.0]])


@np.errstate(invalid="ignore")                  # the wrong version may divide 0 by 0
def judge_softmax(z):
    complaint = unfit("z", z, 2)
    if complaint:
        return complaint
    z = z.astype(float)
    return agreed(softmax(z), Softmax()(z), "softmax")


def unfit(name, array, axes, integers=False):
    """Returns the Message about what is wrong with an array that a student has returned, or None if nothing is."""
    if array.ndim != axes:
        return Message("probes.unfit.axes", n=axes, name=name, shape=str(array.shape))
    if not 1 <= array.size <= ENTRIES:
        return Message("probes.unfit.size", name=name, size=array.size, most=ENTRIES)
    if array.dtype.kind not in ("iu" if integers else "iuf"):
        return Message(f"probes.unfit.{'integers' if integers else 'floats'}", name=name, dtype=str(array.dtype))
    if not np.all(abs(array.astype(float)) <= 1000):
        return Message("probes.unfit.large", name=name)
    return None


def misfit(name, array, shape, letters, other, whose="x"):
    """Returns a Message if an array does not have the shape that another one requires, else None."""
    if array.shape == shape:
        return None
    return Message("probes.unfit.shape", name=name, shape=str(array.shape), other=whose, other_shape=str(other.shape),
                   letters=letters, expected=str(shape))


def agreed(wrong, right, question, summed=0):
    """Returns a Message if the right and the wrong version agree, else None.

    Parameters:
        wrong, right : what the two versions return
        question : key of the question that leads to other inputs, in texts/en/probes.ini
        summed : the numbers whose sum they are; a difference that is tiny next to them is a rounding error
    """
    size = max(np.linalg.norm(wrong), np.linalg.norm(right))
    least = max(DIFFERENCE * size, ROUNDING * np.linalg.norm(summed))
    if np.linalg.norm(wrong - right) <= least:                  # False for NaN
        return Message(AGREE, question=Message(f"probes.question.{question}"))
    return None


def same_padding(ids):
    """Returns True if all sequences have their padding at the same positions."""
    return np.array_equal(ids == 0, np.broadcast_to(ids[:1] == 0, ids.shape))


EXERCISES = [
    Exercise(
        "08.4", "Find the bug: LayerNorm, backward", minutes=10, lines=2, kind="find the bug",
        solution=layer_norm_probe, given=(layer_norm_backward,), judge=judge_layer_norm, outputs=("x", "gamma", "dy"),
        hints=("Derive dx. In which step are gamma and dy multiplied?",
               "In the right formula, gamma * dy is inside both means. For which gamma can it be moved outside?",
               "Random x and dy will do, with any gamma whose entries are not all equal."),
        mistakes=(
            Mistake("FND-08.4a", {"rng.standard_normal(5)": "np.ones(5)"},
                    "Your gamma is 1, as in a new layer. Then it makes no difference whether it is inside or outside "
                    "the means.", shown_by=lambda x, gamma, dy: np.all(gamma == 1)),
            Mistake("FND-08.4b", {"rng.standard_normal(5)": "np.full(5, 2.0)"},
                    "All entries of your gamma are (nearly) the same number, and such a factor can be moved outside a "
                    "mean.", shown_by=lambda x, gamma, dy: np.ptp(gamma) <= 0.01 * np.max(abs(gamma))),
            Mistake("FND-08.4c", {"rng.standard_normal(5), rng.standard_normal((3, 5))":
                                  "np.arange(5.0), np.zeros((3, 5))"},
                    "Your dy is 0. Both versions are linear in dy, so both return 0.",
                    shown_by=lambda x, gamma, dy: not dy.any()),
        )),
    Exercise(
        "03.3", "Find the bug: embedding, backward", minutes=5, lines=2, kind="find the bug",
        solution=embedding_probe, given=(embedding_backward,), judge=judge_embedding, outputs=("ids", "dy"),
        hints=("What does NumPy do for a[[1, 1]] += 1? Try it.",
               "With a list of indices, += first reads all rows, then adds, then writes them back. For an index that "
               "occurs twice, the last write wins.",
               "Use an id that occurs twice, with a dy that is not 0 at its first occurrence."),
        mistakes=(
            Mistake("FND-03.3a", {"[[1, 2, 1], [3, 1, 3]]": "[[1, 2, 4], [3, 5, 6]]"},
                    "Each of your ids occurs once, so there is nothing to sum.",
                    shown_by=lambda ids, dy: len(np.unique(ids)) == ids.size),
            Mistake("FND-03.3b", {"np.random.default_rng(0).standard_normal((2, 3, 4))": "np.zeros((2, 3, 4))"},
                    "Your dy is 0, and so are both gradients.", shown_by=lambda ids, dy: not dy.any()),
        )),
    Exercise(
        "06.5", "Find the bug: a padding mask", minutes=5, lines=1, kind="find the bug",
        solution=mask_probe, given=(attention_weights,), judge=judge_mask, outputs=("scores", "ids"),
        hints=("The function passes a test with a single sequence. What is different in a batch?",
               "ids[0] is the first sequence. When do all others have their padding at the same positions?",
               "Use two sequences, only one of which has padding."),
        mistakes=(
            Mistake("FND-06.5a", {"[[5, 6, 7, 8], [5, 6, 0, 0]]": "[[5, 6, 0, 0], [5, 6, 0, 0]]"},
                    "All your sequences have padding at the same positions, so the mask of the first one is right for "
                    "all.", shown_by=lambda scores, ids: len(ids) > 1 and not ids.all() and same_padding(ids)),
            Mistake("FND-06.5b", {"[[5, 6, 7, 8], [5, 6, 0, 0]]": "[[5, 6, 0, 0]]", "(2, 3, 4)": "(1, 3, 4)"},
                    "You have a single sequence, so the mask of the first one is the right one.",
                    shown_by=lambda scores, ids: len(ids) == 1),
            Mistake("FND-06.5c", {"[5, 6, 0, 0]": "[5, 6, 1, 1]"},
                    "There is no padding in your sequences, so the mask hides nothing.",
                    shown_by=lambda scores, ids: ids.all()),
        )),
    Exercise(
        "01.7", "Find the bug: softmax", minutes=5, lines=1, kind="find the bug",
        solution=softmax_probe, given=(softmax,), judge=judge_softmax, outputs=("z",),
        hints=("The function is right for ordinary logits, and always right for one row. What does a second row "
               "change?",
               "exp cannot overflow here. What happens to a row if exp gives 0 for all of its entries?",
               "exp(x) is 0 below about -745, so use two rows whose logits are that far apart."),
        mistakes=(
            Mistake("FND-01.7a", {"[-900.0, -901.0, -902.0]": "[-9.0, -9.1, -9.2]"},
                    "Your rows are close to each other, so exp stays above 0 in both, and any common shift is right.",
                    shown_by=lambda z: len(z) > 1 and np.ptp(z.max(1)) < 700),
            Mistake("FND-01.7b", {"[0.0, 1.0, 2.0], [-900.0, -901.0, -902.0]": "[-900.0, -901.0, -902.0]"},
                    "You have a single row, whose maximum is that of the whole array.",
                    shown_by=lambda z: len(z) == 1),
        )),
]
