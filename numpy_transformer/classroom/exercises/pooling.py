"""One vector for a whole text: the mean over its real tokens, forward and backward, and a head on top of it."""

import numpy as np

from ...layers import Linear as PackageLinear
from ...layers import MaskedMean
from ..exercise import Exercise, Mistake
from .find import agreed, misfit, unfit
from .given import Parameter, loaded


def masked_mean(x, real):
    """One vector for a whole text: the mean over its real tokens.

    x: (..., T, D), a row for each token.  real: (..., T) boolean, True = a real token, False = padding, which may stand
    anywhere and hold any numbers. Entries of x may be exactly 0.
    Return y: (..., D), of the dtype of x: the mean of the rows of real tokens; 0 where no token is real. NumPy's own
    integers, such as sums of a mask, would make float64 of float32: count.astype(x.dtype) does not.
    """
    kept = np.where(real[..., None], x, 0)
    count = np.maximum(real.sum(-1, keepdims=True), 1)
    return kept.sum(-2) / count.astype(x.dtype)


def masked_mean_backward(real, dy):
    """The gradient of y = masked_mean(x, real): the mean over the real tokens of each text, 0 where none is real.

    real: (..., T) boolean, True = a real token, False = padding, which may stand anywhere.  dy: (..., D), dL/dy.
    Return dx: (..., T, D), dL/dx, of the dtype of dy. NumPy's own integers, such as sums of a mask, would make float64
    of float32: count.astype(dy.dtype) does not.
    """
    count = np.maximum(real.sum(-1, keepdims=True), 1)
    share = real / count.astype(dy.dtype)
    return share[..., None] * dy[..., None, :]


def draw_real(rng, shape):
    """Padding inside a text too, and no text without a real token or without padding."""
    real = rng.random(shape) < 0.6
    real[..., 0], real[..., 1], real[..., 2] = rng.random(shape[:-1]) < 0.5, False, True
    return real


def draw_texts(rng, shape, D):
    x = 0.5 + rng.standard_normal((*shape, D))
    x[rng.random(x.shape) < 0.2] = 0
    return x, draw_real(rng, shape)


def special_texts(rng):
    x, real = draw_texts(rng, (3, 4), 5)
    empty = real & (np.arange(3)[:, None] != 1)
    return [("B = T = D", draw_texts(rng, (5, 5), 5)), ("text 1 has no real token", (x, empty)),
            ("nothing is padding", (x, np.ones_like(real)))]


def with_dy(x, real):
    """The same texts with a gradient of their means."""
    return real, 1 + x[..., 0, :]


def by_mean_backward(real, dy):
    layer = MaskedMean()
    layer(np.zeros((*real.shape, dy.shape[-1])), real)
    return layer.backward(dy)


class PoolingHead:
    """Logits for a whole text: the mean over its real tokens, then logits = mean weight + bias.

    It can be used several times before its gradients are asked for: backward belongs to the latest forward that has
    had no backward yet, and adds (+=) into weight.grad (D, C) and bias.grad (C,). The mean of a text without real
    tokens is 0. NumPy's own integers, such as sums of a mask, would make float64 of float32: count.astype(x.dtype)
    does not.
    """

    def __init__(self, weight, bias):
        self.weight, self.bias = Parameter(weight), Parameter(bias)
        self.memory = []                        # what forward remembers, the latest last

    def forward(self, x, real):
        """x: (..., T, D).  real: (..., T) boolean, True = a real token.  Return logits: (..., C)."""
        count = np.maximum(real.sum(-1, keepdims=True), 1)
        share = real / count.astype(x.dtype)
        mean = (share[..., None] * x).sum(-2)
        self.memory.append((mean, share))
        return mean @ self.weight.data + self.bias.data

    def backward(self, dlogits):
        """dlogits: (..., C), dL/dlogits.  Return dx: (..., T, D); add into weight.grad and bias.grad."""
        mean, share = self.memory.pop()
        rows, drows = mean.reshape(-1, mean.shape[-1]), dlogits.reshape(-1, dlogits.shape[-1])
        self.weight.grad += rows.T @ drows
        self.bias.grad += drows.sum(0)
        dmean = dlogits @ self.weight.data.T
        return share[..., None] * dmean[..., None, :]


def use_twice(rng, shape, D, C, longer):
    """Used twice, the second time with more tokens; the backwards in reverse order."""
    later = (*shape[:-1], shape[-1] + longer)
    return ((rng.standard_normal((D, C)) / D ** 0.5, rng.standard_normal(C)),
            (("forward", draw_texts(rng, shape, D)), ("forward", draw_texts(rng, later, D)),
             ("backward", (rng.standard_normal((*later[:-1], C)),)),
             ("backward", (rng.standard_normal((*shape[:-1], C)),))))


def special_heads(rng):
    weights, ((forward, (x, real)), *others) = use_twice(rng, (3, 4), 5, 2, 0)
    empty = real & (np.arange(3)[:, None] != 1)
    return [("both uses of one shape", use_twice(rng, (4, 5), 6, 3, 0)), ("D = C", use_twice(rng, (2, 5), 6, 6, 1)),
            ("text 1 has no real token", (weights, ((forward, (x, empty)), *others)))]


class PackageHead:
    def __init__(self, weight, bias):
        self.mean, self.linear = MaskedMean(), loaded(PackageLinear(*weight.shape), {"weight": weight, "bias": bias})
        self.weight, self.bias = self.linear.weight, self.linear.bias

    def forward(self, x, real):
        return self.linear(self.mean(x, real))

    def backward(self, dlogits):
        return self.mean.backward(self.linear.backward(dlogits))


def text_vectors(x, real):
    """WRONG. The mean over the real tokens of each text: x (B, T, D), real (B, T), True = a real token."""
    return (x * real[..., None]).mean(1)


def mean_probe():
    """Inputs on which text_vectors, above, gives wrong means.

    Return x: (B, T, D), floats between -1000 and 1000, and real: (B, T), booleans, True = a real token; every text has
    at least one; at most 1000 entries each. The wrong means must differ from the right ones by more than a thousandth
    of the larger ones (norms of the whole arrays).
    """
    return np.random.default_rng(0).standard_normal((2, 3, 4)), np.array([[True, True, True], [True, True, False]])


def judge_mean(x, real):
    complaint = unfit("x", x, 3) or misfit("real", real, x.shape[:2], "(B, T)", x)
    if not complaint and real.dtype != bool:
        complaint = f"real has dtype {real.dtype}; booleans are asked for, True = a real token"
    if not complaint and not real.any(1).all():
        complaint = f"text {real.any(1).argmin()} has no real token; each needs one, or its mean is one of nothing"
    if complaint:
        return complaint
    x = x.astype(float)
    return agreed(text_vectors(x, real), MaskedMean()(x, real), "What is the sum divided by, and when is that right?")


COUNT, TOTAL = "np.maximum(real.sum(-1, keepdims=True), 1)", "np.maximum(real.sum(), 1)"
SUFFIX = "(np.arange(real.shape[-1]) < real.sum(-1, keepdims=True))"
FIRST = "    real = np.broadcast_to(real[0], real.shape)\n"
SWAPPED = "True and False are swapped: True = a real token. Here padding counts, and nothing else."
EMPTY = "A text without real tokens gives 0 / 0, NaN. The sum over nothing is 0: divide it by at least 1."
PLUS_ONE = ("The sum is divided by one more than the number of real tokens. That keeps 0 / 0 away, but makes all other "
            "means too small: raise the 0 alone.")
ONE_TOTAL = "The number of real tokens is that of the whole batch. Each text has its own."
ONE_MASK = "Every text has the mask of the first one. Each has padding of its own."
AT_THE_END = "The mask is read as a length, as if padding stood only at the end. It may stand anywhere."
DIVIDED_BY_T = "The sum over the real tokens is divided by T: padding still counts in the number."
PUSHED = "Padding gets a gradient. It has no part in the mean, so its slope is 0."
SPREAD = ("The gradient reaches all tokens, each with 1 / T, as if nothing were padding. A mean over the real tokens "
          "knows only these.")
HALF = "The gradient is not divided. Each real token has its share in the mean, one over their number."

MEAN = (
    Mistake("MEAN-1", {"kept.sum(-2) / count.astype(x.dtype)": "x.mean(-2)"},
            "The mask is not used: padding is averaged in."),
    Mistake("MEAN-2", {"kept.sum(-2) / count.astype(x.dtype)": "kept.mean(-2)"}, DIVIDED_BY_T),
    Mistake("MEAN-3", {" / count.astype(x.dtype)": ""},
            "That is the sum, which grows with the length of the text. The mean divides it by the number of real "
            "tokens."),
    Mistake("MEAN-4", {"np.where(real[..., None], x, 0)": "x"},
            "Padding is in the sum: only the number is that of the real tokens."),
    Mistake("MEAN-5", {"    kept =": "    real = ~real\n    kept ="}, SWAPPED),
    Mistake("MEAN-6", {COUNT: "real.sum(-1, keepdims=True)"}, EMPTY),
    Mistake("MEAN-7", {COUNT: "real.sum(-1, keepdims=True) + 1"}, PLUS_ONE),
    Mistake("MEAN-8", {COUNT: "np.maximum((kept != 0).sum(-2), 1)"},
            "Entries that are not 0 are counted. An entry of a real token may be 0 and counts all the same: the mask "
            "tells the number."),
    Mistake("MEAN-9", {"    kept =": FIRST + "    kept ="}, ONE_MASK),
    Mistake("MEAN-10", {"kept.sum(-2)": "kept.sum(-1)"},
            "The sum goes over the features: what comes out is one number for each token. Sum over the tokens."),
    Mistake("MEAN-11", {COUNT: TOTAL}, ONE_TOTAL),
    Mistake("MEAN-12", {"real[..., None]": f"{SUFFIX}[..., None]"}, AT_THE_END),
    Mistake("MEAN-13", {"kept.sum(-2) / count.astype(x.dtype)": "x[..., 0, :]"},
            "That is the vector of the first token, as BERT's classifiers take that of [CLS]. Asked is the mean."),
    Mistake("MEAN-14", {"    kept = np.where(real[..., None], x, 0)": "    x[~real] = 0\n    kept = x"},
            "x[~real] = 0 writes into the caller's array: np.where makes a new one."),
    Mistake("MEAN-15", {"real[..., None]": "real"},
            "NumPy aligns shapes from the right: (..., T) lies on the last two axes of (..., T, D). Give the mask an "
            "axis for the features."),
    Mistake("MEAN-16", {"kept.sum(-2) / count.astype(x.dtype)": "kept.max(-2)"},
            "That is the largest entry of each feature, with the zeros of the padding among them. Asked is the mean."),
    Mistake("MEAN-17", {", keepdims=True), 1)": "), 1)"},
            "The numbers of real tokens lack an axis: (B,) lies on the features of (B, D). Keep it, with size 1."),
)
MEAN_BACKWARD = (
    Mistake("MNB-1", {"share = real /": "share = np.ones_like(real) /"}, PUSHED),
    Mistake("MNB-2", {"real / count.astype(dy.dtype)": "real.astype(dy.dtype) / real.shape[-1]"},
            "The gradient is divided by T, padding included. The mean divided by the number of real tokens."),
    Mistake("MNB-3", {"real / count.astype(dy.dtype)": "real.astype(dy.dtype)"}, HALF),
    Mistake("MNB-4", {"real / count.astype(dy.dtype)": "np.ones(real.shape, dy.dtype) / real.shape[-1]"}, SPREAD),
    Mistake("MNB-5", {"    count =": "    real = ~real\n    count ="}, SWAPPED),
    Mistake("MNB-6", {COUNT: "real.sum(-1, keepdims=True)"}, EMPTY),
    Mistake("MNB-7", {COUNT: "real.sum(-1, keepdims=True) + 1"}, PLUS_ONE),
    Mistake("MNB-8", {COUNT: TOTAL}, ONE_TOTAL),
    Mistake("MNB-9", {"    count =": FIRST + "    count ="}, ONE_MASK),
    Mistake("MNB-10", {"share = real /": f"share = {SUFFIX} /"}, AT_THE_END),
    Mistake("MNB-11", {"real / count": "real * count"},
            "The gradient is multiplied by the number of real tokens. Backward does not undo forward: the slope of a "
            "mean in one of n numbers is 1 / n."),
    Mistake("MNB-12", {"share[..., None] * dy[..., None, :]": "share[..., None, :] * dy[..., None]"},
            "dx comes out transposed, (..., D, T): it must have the shape of x."),
    Mistake("MNB-13", {"share = real / count.astype(dy.dtype)": "dy /= count\n    share = real"},
            "dy /= count writes into the caller's array: dy / count makes a new one."),
    Mistake("MNB-14", {"real / count.astype(dy.dtype)": 
                       "(0 * real + (np.arange(real.shape[-1]) == 0)).astype(dy.dtype)"},
            "All of dy goes to the first token, as if the text's vector were that of [CLS]. In a mean all real tokens "
            "have the same share."),
    Mistake("MNB-15", {"real / count.astype(dy.dtype)": "real / count.astype(dy.dtype) ** 2"},
            "The gradient is divided by the number of real tokens twice; the mean did it once."),
    Mistake("MNB-16", {"dy[..., None, :]": "dy"},
            "NumPy aligns shapes from the right: dy lacks the axis of the tokens, and its batch would lie there."),
)
HEAD = (
    Mistake("POOL-1", {"real / count.astype(x.dtype)": "np.ones(real.shape, x.dtype) / real.shape[-1]"},
            "The mask is not used: padding is averaged in, and gets a gradient."),
    Mistake("POOL-2", {"real / count.astype(x.dtype)": "real.astype(x.dtype) / real.shape[-1]"}, DIVIDED_BY_T),
    Mistake("POOL-3", {"real / count.astype(x.dtype)": "real.astype(x.dtype)"},
            "That is the sum, which grows with the length of the text. The mean divides it by the number of real "
            "tokens."),
    Mistake("POOL-4", {"        count =": "        real = ~real\n        count ="}, SWAPPED),
    Mistake("POOL-5", {COUNT: "real.sum(-1, keepdims=True)"}, EMPTY),
    Mistake("POOL-6", {COUNT: TOTAL}, ONE_TOTAL),
    Mistake("POOL-7", {"return share[..., None] *": "return np.ones_like(share)[..., None] *"},
            "dx is the same for all tokens, padding too: the gradient of the mean has come back, and not gone through "
            "it. Each real token has its share."),
    Mistake("POOL-8", {"return share[..., None] *": "return (share > 0).astype(share.dtype)[..., None] *"},
            "dx is not divided. Each real token has its share in the mean, one over their number."),
    Mistake("POOL-9", {"return share[..., None] *": "return np.full_like(share, 1 / share.shape[-1])[..., None] *"},
            SPREAD),
    Mistake("LIN-1", {"rows.T @ drows": "drows.T @ rows"},
            "The gradient of the weight comes out transposed: it must have the weight's own shape, (D, C)."),
    Mistake("LIN-2", {"self.weight.data.T": "self.weight.data"},
            "The way back goes through the transposed weight: a feature's gradient sums over the logits."),
    Mistake("LIN-4a", {"@ drows": "@ drows / len(rows)", "drows.sum(0)": "drows.mean(0)"},
            "The gradients of weight and bias are divided by the number of texts. They are sums: if the loss is a "
            "mean, dlogits carries that factor already."),
    Mistake("LIN-7a", {"self.weight.grad += ": "self.weight.grad = "},
            "weight.grad holds the last use alone: each backward overwrites what the one before has found. Add."),
    Mistake("LIN-7b", {"self.bias.grad += ": "self.bias.grad = "},
            "bias.grad holds the last use alone: each backward overwrites what the one before has found. Add."),
    Mistake("LIN-11a", {"self.memory.pop()": "self.memory.pop(0)"},
            "The first backward takes what the first forward remembered. It answers the latest one: last in, first "
            "out."),
    Mistake("LIN-11b", {"self.memory.pop()": "self.memory[-1]"},
            "Both backwards take what the latest forward remembered: there is one place for it, or it is never "
            "removed. Two uses need two places, and what has been answered has to go."),
    Mistake("LIN-12", {" + self.bias.data": ""}, "forward leaves out the bias."),
)

EXERCISES = [
    Exercise(
        "11.1", "The mean over real tokens", minutes=10, lines=3,
        solution=masked_mean, reference=lambda x, real: MaskedMean()(x, real), edges=special_texts,
        inputs=lambda rng, n: draw_texts(rng, n.lead, n.D),
        outputs=("y",), mistakes=MEAN,
        hints=("A mean is a sum over a number. Where does padding have to stay out?",
               "Out of both: its rows become 0 before the sum over the tokens, and the number is that of the real "
               "tokens, but at least 1, since 0 / 0 is NaN.",
               "np.where(real[..., None], x, 0).sum(-2), divided by np.maximum(real.sum(-1, keepdims=True), 1) in the "
               "dtype of x."),
        alternatives={"product": {"np.where(real[..., None], x, 0)": "x * real[..., None]"},
                      "matmul": {"kept.sum(-2) / count.astype(x.dtype)":
                                 "((real / count.astype(x.dtype))[..., None, :] @ x)[..., 0, :]"},
                      "einsum": {"kept.sum(-2)": "np.einsum('...td,...t->...d', x, real.astype(x.dtype))"}}),
    Exercise(
        "11.2", "The mean over real tokens, backward", minutes=10, lines=3,
        solution=masked_mean_backward, reference=by_mean_backward,
        inputs=lambda rng, n: with_dy(*draw_texts(rng, n.lead, n.D)),
        edges=lambda rng: [(note, with_dy(*texts)) for note, texts in special_texts(rng)],
        outputs=("dx",), mistakes=MEAN_BACKWARD,
        invariants=(("padding must have gradient 0", lambda inputs, outputs: outputs[0][~inputs[0]]),),
        hints=("By how much does the mean of n numbers change if one of them rises by 1? And if a padded one does?",
               "By 1 / n, and not at all. So dy comes to each real token times one over the number of real tokens.",
               "share = real / np.maximum(real.sum(-1, keepdims=True), 1), (..., T), in the dtype of dy; then the "
               "product of share[..., None] and dy[..., None, :]."),
        alternatives={"where": {"share[..., None] * dy[..., None, :]":
                                "np.where(real[..., None], (dy / count.astype(dy.dtype))[..., None, :], 0)"},
                      "einsum": {"share[..., None] * dy[..., None, :]": "np.einsum('...t,...d->...td', share, dy)"}}),
    Exercise(
        "11.5", "A pooling head, a class", minutes=25, lines=11,
        solution=PoolingHead, write=("forward", "backward"), given=(Parameter,), reference=PackageHead,
        inputs=lambda rng, n: use_twice(rng, n.lead, n.D, n.V, 1), edges=special_heads, mistakes=HEAD,
        outputs=("logits", "second logits", "second dx", "dx", "weight.grad", "bias.grad"),
        hints=("Two steps forward, so two steps back, in reverse. What does each need that only forward has seen?",
               "The linear step needs the mean, its input; the mean needs each token's share, real over the number of "
               "real tokens. Remember both; used twice, remember two pairs.",
               "pop (mean, share); weight.grad += rows(mean).T @ rows(dlogits), bias.grad += the sum of these rows; "
               "dmean = dlogits @ weight.T; dx = share[..., None] * dmean[..., None, :]."),
        alternatives={"matmul": {"(share[..., None] * x).sum(-2)": "(share[..., None, :] @ x)[..., 0, :]"},
                      "remembers the inputs": {
                          "self.memory.append((mean, share))": "self.memory.append((x, real))",
                          "mean, share = self.memory.pop()":
                          "x, real = self.memory.pop()\n        share = (real / np.maximum(real.sum(-1, "
                          "keepdims=True), 1))"
                          ".astype(x.dtype)\n        mean = (share[..., None] * x).sum(-2)"}}),
    Exercise(
        "11.6", "Find the bug: a mean", minutes=5, lines=1, kind="find the bug",
        solution=mean_probe, given=(text_vectors,), judge=judge_mean, outputs=("x", "real"),
        hints=("Which number does .mean(1) divide by?",
               "The padding's vectors become 0, which is right for the sum. They are counted all the same.",
               "One padded token is enough, if the real ones of its text do not sum to 0."),
        mistakes=(
            Mistake("FND-11.6a", {"[True, True, False]": "[True, True, True]"},
                    "Nothing is padding: then T is the number of real tokens."),
            Mistake("FND-11.6b", {"np.random.default_rng(0).standard_normal((2, 3, 4))": "np.zeros((2, 3, 4))"},
                    "x is 0: a sum of 0 may be divided by anything."),
            Mistake("FND-11.6c", {"np.random.default_rng(0).standard_normal((2, 3, 4))":
                                "np.array([[[1.0], [2.0], [3.0]], [[1.0], [-1.0], [3.0]]])"},
                    "The real tokens of the padded text sum to 0, which may be divided by anything."),
        )),
]
