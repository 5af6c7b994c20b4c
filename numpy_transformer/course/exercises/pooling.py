"""One vector for a whole text, the mean over its real tokens: forward, backward, and a wrong version."""

import numpy as np

from ...layers import MaskedMean
from ...texts import Message
from .definition import Exercise, Mistake
from .find import agreed, misfit, unfit


def masked_mean(x, token_mask):
    """Represents a whole text by one vector, the mean over its real tokens.

    x: (..., T, D), one row per token; entries may be exactly 0.
    token_mask: (..., T) boolean, True at real tokens, False at padding tokens. Padding tokens may stand anywhere, and
        their rows of x may hold any numbers.
    Return y: (..., D), in the dtype of x: the mean of the rows of the real tokens, or 0 if a text has none. A sum of a
    mask is an int64, and dividing float32 by int64 gives float64; use count.astype(x.dtype).
    """
    kept = np.where(token_mask[..., None], x, 0)
    count = np.maximum(token_mask.sum(-1, keepdims=True), 1)
    return kept.sum(-2) / count.astype(x.dtype)


def masked_mean_backward(token_mask, dy):
    """The gradient of y = masked_mean(x, token_mask), the mean over the real tokens of each text (0 if it has none).

    token_mask: (..., T) boolean, True at real tokens, False at padding tokens, which may stand anywhere.
    dy: (..., D), dL/dy.
    Return dx: (..., T, D), dL/dx, in the dtype of dy. A sum of a mask is an int64, and dividing float32 by int64 gives
    float64; use count.astype(dy.dtype).
    """
    count = np.maximum(token_mask.sum(-1, keepdims=True), 1)
    share = token_mask / count.astype(dy.dtype)
    return share[..., None] * dy[..., None, :]


def draw_mask(rng, shape):
    """Draws masks with padding inside the texts too; every text has a real token and a padding token."""
    token_mask = rng.random(shape) < 0.6
    token_mask[..., 0] = rng.random(shape[:-1]) < 0.5
    token_mask[..., 1] = False
    token_mask[..., 2] = True
    return token_mask


def draw_texts(rng, shape, D):
    x = 0.5 + rng.standard_normal((*shape, D))
    x[rng.random(x.shape) < 0.2] = 0
    return x, draw_mask(rng, shape)


FEW = "text 1 has no real token, text 2 has one"


def special_texts(rng):
    x, token_mask = draw_texts(rng, (3, 4), 5)
    return [("B = T = D", draw_texts(rng, (5, 5), 5)), (FEW, (x, few(token_mask))),
            ("no padding", (x, np.ones_like(token_mask))),
            ("tokens 1 and 3 are real, and 0 in all entries", (x * [[1], [0], [1], [0]], np.ones_like(token_mask)))]


def few(token_mask):
    """Returns a mask of three texts, the second of which has no real token and the third of which has one."""
    return np.stack([token_mask[0], np.zeros_like(token_mask[1]), np.arange(token_mask.shape[1]) == 2])


def with_dy(x, token_mask):
    """Replaces x by a gradient of the means."""
    return token_mask, 1 + x[..., 0, :]


def by_mean_backward(token_mask, dy):
    layer = MaskedMean()
    layer(np.zeros((*token_mask.shape, dy.shape[-1])), token_mask)
    return layer.backward(dy)


def text_vectors(x, token_mask):
    """WRONG. The mean over the real tokens of each text; x is (B, T, D), token_mask (B, T), True at real tokens."""
    return (x * token_mask[..., None]).mean(1)


def mean_probe():
    """Inputs for which text_vectors, above, returns wrong means.

    Return x: (B, T, D), floats between -1000 and 1000, and token_mask: (B, T), booleans, True at real tokens. Every
    text has at least one real token, and each array at most 1000 entries. The wrong and the right means must differ by
    more than a thousandth: the norm of their difference, divided by the larger of their norms.
    """
    return np.random.default_rng(0).standard_normal((2, 3, 4)), np.array([[True, True, True], [True, True, False]])


def judge_mean(x, token_mask):
    complaint = unfit("x", x, 3) or misfit("token_mask", token_mask, x.shape[:2], "(B, T)", x)
    if not complaint and token_mask.dtype != bool:
        complaint = Message("probes.unfit.booleans", name="token_mask", dtype=str(token_mask.dtype))
    if not complaint and not token_mask.any(1).all():
        complaint = Message("probes.unfit.empty", number=int(token_mask.any(1).argmin()))
    if complaint:
        return complaint
    x = x.astype(float)
    return agreed(text_vectors(x, token_mask), MaskedMean()(x, token_mask), "mean", x)


def padded_sums(x, token_mask):
    """Returns the sums over the real tokens of the texts that contain padding."""
    return (x * token_mask[..., None]).sum(1)[~token_mask.all(1)]


COUNT = "np.maximum(token_mask.sum(-1, keepdims=True), 1)"
TOTAL = "np.maximum(token_mask.sum(), 1)"
SUFFIX = "(np.arange(token_mask.shape[-1]) < token_mask.sum(-1, keepdims=True))"
FIRST = "    token_mask = np.broadcast_to(token_mask[0], token_mask.shape)\n"
SWAPPED = ("You use the mask the other way round. True marks a real token, but your result depends on the padding "
           "tokens only.")
EMPTY = ("A text without real tokens gives 0 / 0, which is NaN. Its sum is 0, so dividing by at least 1 gives the mean "
         "0 that we want.")
PLUS_ONE = ("You divide by the number of real tokens plus one. That avoids 0 / 0, but makes every other mean too "
            "small. Only a count of 0 should be raised to 1.")
ONE_TOTAL = "You divide by the number of real tokens in the whole batch. Each text needs its own count."
ONE_MASK = "You apply the mask of the first text to all texts. Each text has its own padding."
AT_THE_END = "You use the mask as a length, as if all padding stood at the end. Padding may stand anywhere in a text."
DIVIDED_BY_T = "You divide the sum over the real tokens by T, so padding tokens are still counted in the denominator."
PUSHED = "Padding tokens receive a gradient. They are not part of the mean, so their gradient is 0."
SPREAD = ("Every token receives dy / T, as if there were no padding. Only the real tokens contribute to the mean, so "
          "only they receive a gradient.")
AT_MOST_1 = ("np.minimum(n, 1) is never above 1, so you do not divide by the number of real tokens. The maximum of n "
             "and 1 raises only a count of 0.")
NOT_MAX = "np.max(n, 1) is the maximum over axis 1. np.maximum(n, 1) compares each number with 1."
BY_PADDING = "You divide by the number of padding tokens. Divide by that of the real ones."
NOT_EXACT = ("You add a small number to the count, to avoid 0 / 0. It changes every mean a little. Raise only a count "
             "of 0 to 1.")
OVER_TEXTS = "You count over the texts, which gives one number per position. Count the real tokens of each text."
HALF = ("You do not divide the gradient. Each real token contributes to the mean with the factor 1 / n, where n is the "
        "number of real tokens.")

MEAN = (
    Mistake("MEAN-1", {"kept.sum(-2) / count.astype(x.dtype)": "x.mean(-2)"},
            "You do not use the mask, so padding tokens are part of the average."),
    Mistake("MEAN-2", {"kept.sum(-2) / count.astype(x.dtype)": "kept.mean(-2)"}, DIVIDED_BY_T),
    Mistake("MEAN-3", {" / count.astype(x.dtype)": ""},
            "You return the sum, which grows with the length of the text. The mean is the sum divided by the number of "
            "real tokens."),
    Mistake("MEAN-4", {"np.where(token_mask[..., None], x, 0)": "x"},
            "Padding tokens are still part of the sum. You exclude them from the count only."),
    Mistake("MEAN-5", {"    kept =": "    token_mask = ~token_mask\n    kept ="}, SWAPPED),
    Mistake("MEAN-5b", {"np.where(token_mask[..., None], x, 0)": "np.where(token_mask[..., None], 0, x)"},
            "You sum over the padding tokens. True marks a real token."),
    Mistake("MEAN-6", {COUNT: "token_mask.sum(-1, keepdims=True)"}, EMPTY),
    Mistake("MEAN-7", {COUNT: "token_mask.sum(-1, keepdims=True) + 1"}, PLUS_ONE),
    Mistake("MEAN-8", {COUNT: "np.maximum((kept != 0).sum(-2), 1)"},
            "You count the entries that are not 0. An entry of a real token may be 0 and still counts; only the mask "
            "says which tokens are real."),
    Mistake("MEAN-9", {"    kept =": FIRST + "    kept ="}, ONE_MASK),
    Mistake("MEAN-10", {"kept.sum(-2)": "kept.sum(-1)"},
            "You sum over the features, which gives one number per token. Sum over the tokens instead."),
    Mistake("MEAN-11", {COUNT: TOTAL}, ONE_TOTAL),
    Mistake("MEAN-12", {"token_mask[..., None]": f"{SUFFIX}[..., None]"}, AT_THE_END),
    Mistake("MEAN-13", {"kept.sum(-2) / count.astype(x.dtype)": "x[..., 0, :]"},
            "You return the vector of the first token, as BERT's classifiers do with [CLS]. The exercise asks for the "
            "mean."),
    Mistake("MEAN-14", {"    kept = np.where(token_mask[..., None], x, 0)": "    x[~token_mask] = 0\n    kept = x"},
            "x[~token_mask] = 0 writes into the caller's array. Make a new array, for example with np.where."),
    Mistake("MEAN-15", {"token_mask[..., None]": "token_mask"},
            "NumPy aligns shapes from the right, so a (..., T) mask is applied to the last two axes of (..., T, D). "
            "The mask needs one more axis, for the features."),
    Mistake("MEAN-16", {"kept.sum(-2) / count.astype(x.dtype)": "kept.max(-2)"},
            "You return the maximum of each feature, which may be a 0 of the padding. The exercise asks for the mean."),
    Mistake("MEAN-17", {", keepdims=True), 1)": "), 1)"},
            "Your counts have shape (B,), which NumPy aligns with the features of (B, D). Keep the summed axis, with "
            "size 1."),
    Mistake("MEAN-18", {"kept.sum(-2) / count.astype(x.dtype)": "x[token_mask].mean(0)"},
            "x[token_mask] puts the real tokens of all texts into one list, so you return one mean for the whole "
            "batch. Each text has its own mean."),
    Mistake("MEAN-19a", {"kept.sum(-2)": "kept.sum(1)"},
            "You sum over axis 1. The tokens are there only if x has three axes; counted from the end, their axis is "
            "always -2."),
    Mistake("MEAN-19b", {"kept.sum(-2)": "kept.sum(0)"},
            "You sum over the first axis, the texts. Sum over the tokens instead."),
    Mistake("MEAN-20", {"np.maximum(token_mask.sum": "np.maximum((~token_mask).sum"}, BY_PADDING),
    Mistake("MEAN-21", {COUNT: "token_mask.sum(-1, keepdims=True) + 1e-6"}, NOT_EXACT),
    Mistake("MEAN-22", {"kept.sum(-2) / count.astype(x.dtype)": "x[..., -1, :]"},
            "You return the vector of the last token. The exercise asks for the mean."),
    Mistake("MEAN-26", {"np.maximum(token_mask": "np.minimum(token_mask"}, AT_MOST_1),
    Mistake("MEAN-27", {"np.maximum(token_mask": "np.max(token_mask"}, NOT_MAX),
    Mistake("MEAN-25", {"kept.sum(-2) /": "kept.mean(-2) /"},
            "You take the mean over T and then divide by the number of real tokens as well. Divide the sum once."),
    Mistake("MEAN-23", {"token_mask.sum(-1, keepdims=True)": "token_mask.sum(0)"}, OVER_TEXTS),
)
MEAN_BACKWARD = (
    Mistake("MNB-1", {"share = token_mask /": "share = np.ones_like(token_mask) /"}, PUSHED),
    Mistake("MNB-2", {"token_mask / count.astype(dy.dtype)": "token_mask.astype(dy.dtype) / token_mask.shape[-1]"},
            "You divide the gradient by T, which includes padding. forward divided by the number of real tokens."),
    Mistake("MNB-3", {"token_mask / count.astype(dy.dtype)": "token_mask.astype(dy.dtype)"}, HALF),
    Mistake("MNB-4", {"token_mask / count.astype(dy.dtype)":
                      "np.ones(token_mask.shape, dy.dtype) / token_mask.shape[-1]"}, SPREAD),
    Mistake("MNB-5", {"    count =": "    token_mask = ~token_mask\n    count ="}, SWAPPED),
    Mistake("MNB-5b", {"share = token_mask /": "share = ~token_mask /"},
            "You give the gradient to the padding tokens. True marks a real token."),
    Mistake("MNB-6", {COUNT: "token_mask.sum(-1, keepdims=True)"}, EMPTY),
    Mistake("MNB-7", {COUNT: "token_mask.sum(-1, keepdims=True) + 1"}, PLUS_ONE),
    Mistake("MNB-8", {COUNT: TOTAL}, ONE_TOTAL),
    Mistake("MNB-9", {"    count =": FIRST + "    count ="}, ONE_MASK),
    Mistake("MNB-10", {"share = token_mask /": f"share = {SUFFIX} /"}, AT_THE_END),
    Mistake("MNB-11", {"token_mask / count": "token_mask * count"},
            "You multiply the gradient by the number of real tokens. backward does not undo forward; the derivative of "
            "a mean of n numbers with respect to one of them is 1 / n."),
    Mistake("MNB-12", {"share[..., None] * dy[..., None, :]": "share[..., None, :] * dy[..., None]"},
            "Your dx is transposed, (..., D, T). It must have the shape of x."),
    Mistake("MNB-13", {"share = token_mask / count.astype(dy.dtype)": "dy /= count\n    share = token_mask"},
            "dy /= count writes into the caller's array. dy / count makes a new one."),
    Mistake("MNB-14", {"token_mask / count.astype(dy.dtype)":
                       "(0 * token_mask + (np.arange(token_mask.shape[-1]) == 0)).astype(dy.dtype)"},
            "You give all of dy to the first token, as if the vector of [CLS] represented the text. In a mean, all "
            "real tokens have the same weight."),
    Mistake("MNB-15", {"token_mask / count.astype(dy.dtype)": "token_mask / count.astype(dy.dtype) ** 2"},
            "You divide the gradient by the number of real tokens twice. The mean divides by it once."),
    Mistake("MNB-16", {"dy[..., None, :]": "dy"},
            "NumPy aligns shapes from the right. dy has no axis for the tokens, so its batch axis is aligned with "
            "them."),
    Mistake("MNB-17", {"token_mask / count.astype(dy.dtype)": "np.ones(token_mask.shape, dy.dtype)"},
            "Each token receives all of dy, padding tokens too. Only real tokens contribute to the mean, each of them "
            "with the factor 1 / n, where n is the number of real tokens."),
    Mistake("MNB-18", {"np.maximum(token_mask.sum": "np.maximum((~token_mask).sum"}, BY_PADDING),
    Mistake("MNB-19", {"share[..., None] * dy": "share * dy"},
            "NumPy aligns shapes from the right, so the tokens of the mask are aligned with the features of dy. The "
            "mask needs one more axis, for the features."),
    Mistake("MNB-20", {COUNT: "token_mask.sum(-1, keepdims=True) + 1e-6"}, NOT_EXACT),
    Mistake("MNB-21", {"token_mask.sum(-1, keepdims=True)": "token_mask.sum(0)"}, OVER_TEXTS),
    Mistake("MNB-25", {"np.maximum(token_mask": "np.minimum(token_mask"}, AT_MOST_1),
    Mistake("MNB-26", {"np.maximum(token_mask": "np.max(token_mask"}, NOT_MAX),
    Mistake("MNB-23", {"token_mask / count.astype(dy.dtype)":
                       "token_mask / count.astype(dy.dtype) / token_mask.shape[-1]"},
            "You divide by the number of real tokens and by T. The mean divides once, by the number of real tokens."),
    Mistake("MNB-24", {"return share[..., None] * dy[..., None, :]": "return dy / count.astype(dy.dtype)"},
            "Your dx has one row per text. It has one row per token: give this row to the real tokens, and 0 to the "
            "padding."),
    Mistake("MNB-22", {"token_mask / count.astype(dy.dtype)": "token_mask / dy.dtype.type(len(dy))"},
            "You divide by the number of texts. Each text has its own mean, so divide by its number of real tokens."),
)

EXERCISES = [
    Exercise(
        "11.1", "The mean over real tokens", minutes=10, lines=3,
        solution=masked_mean, reference=lambda x, token_mask: MaskedMean()(x, token_mask), edges=special_texts,
        inputs=lambda rng, n: draw_texts(rng, n.lead, n.D),
        outputs=("y",), mistakes=MEAN,
        hints=("A mean is a sum divided by a count. In which of the two must padding be left out?",
               "In both. Set the rows of padding tokens to 0 before you sum over the tokens, and divide by the number "
               "of real tokens, but at least by 1, because 0 / 0 is NaN.",
               "np.where(token_mask[..., None], x, 0).sum(-2), divided by np.maximum(token_mask.sum(-1, "
               "keepdims=True), 1) in the dtype of x."),
        alternatives={"product": {"np.where(token_mask[..., None], x, 0)": "x * token_mask[..., None]"},
                      "matmul": {"kept.sum(-2) / count.astype(x.dtype)":
                                 "((token_mask / count.astype(x.dtype))[..., None, :] @ x)[..., 0, :]"},
                      "einsum": {"kept.sum(-2)": "np.einsum('...td,...t->...d', x, token_mask.astype(x.dtype))"}}),
    Exercise(
        "11.2", "The mean over real tokens, backward", minutes=10, lines=3,
        solution=masked_mean_backward, reference=by_mean_backward,
        inputs=lambda rng, n: with_dy(*draw_texts(rng, n.lead, n.D)),
        edges=lambda rng: [(note, with_dy(*texts)) for note, texts in special_texts(rng)],
        outputs=("dx",), mistakes=MEAN_BACKWARD,
        invariants=(("padding must have gradient 0", lambda inputs, outputs: outputs[0][~inputs[0]]),),
        hints=("By how much does the mean of n numbers change if one of them grows by 1? And if a padding token's "
               "does?",
               "By 1 / n, and not at all. So each real token receives dy divided by the number of real tokens.",
               "share = token_mask / np.maximum(token_mask.sum(-1, keepdims=True), 1), (..., T), in the dtype of dy; "
               "then multiply share[..., None] by dy[..., None, :]."),
        alternatives={"where": {"share[..., None] * dy[..., None, :]":
                                "np.where(token_mask[..., None], (dy / count.astype(dy.dtype))[..., None, :], 0)"},
                      "einsum": {"share[..., None] * dy[..., None, :]": "np.einsum('...t,...d->...td', share, dy)"}}),
    Exercise(
        "11.6", "Find the bug: a mean", minutes=5, lines=1, kind="find the bug",
        solution=mean_probe, given=(text_vectors,), judge=judge_mean, outputs=("x", "token_mask"),
        hints=("By which number does .mean(1) divide?",
               "The vectors of padding tokens are set to 0, which is right for the sum. But they are still counted.",
               "One padding token is enough, if the real tokens of its text do not sum to 0."),
        mistakes=(
            Mistake("FND-11.6a", {"[True, True, False]": "[True, True, True]"},
                    "There is no padding in your texts, so T is the number of real tokens.",
                    shown_by=lambda x, token_mask: token_mask.all()),
            Mistake("FND-11.6b", {"np.random.default_rng(0).standard_normal((2, 3, 4))": "np.zeros((2, 3, 4))"},
                    "Your x is 0, and a sum of 0 gives 0 no matter what it is divided by.",
                    shown_by=lambda x, token_mask: not x.any()),
            Mistake("FND-11.6c", {"np.random.default_rng(0).standard_normal((2, 3, 4))":
                                "np.array([[[1.0], [2.0], [3.0]], [[1.0], [-1.0], [3.0]]])"},
                    "The real tokens of each padded text sum to 0, which gives 0 no matter what it is divided by.",
                    shown_by=lambda x, token_mask: (token_mask.any(1).all()
                                                     and np.allclose(padded_sums(x, token_mask), 0))),
        )),
]
