"""What stands on top of an encoder: the mean over real tokens, and the loss of yes or no."""

import numpy as np

from ...layers import BinaryCrossEntropyLoss, MaskedMean
from ...layers import Linear as PackageLinear
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


def binary_cross_entropy(logits, targets):
    """The loss of a yes-or-no question: the mean of -(t log p + (1 - t) log(1 - p)), p = 1 / (1 + exp(-z)).

    logits: z, any shape; they may be in the thousands, positive and negative: the loss stays finite and exact.
    targets: t, the same shape, numbers from 0 to 1, most of them 0 or 1.
    Return loss: one number, the mean over all entries. log is the natural logarithm.
    """
    softplus = np.maximum(logits, 0) + np.log1p(np.exp(-np.abs(logits)))
    return (softplus - targets * logits).mean()


def binary_cross_entropy_backward(logits, targets):
    """The gradient of the loss of exercise 11.3: the mean of -(t log p + (1 - t) log(1 - p)), p = 1 / (1 + exp(-z)).

    logits: z, any shape; they may be in the thousands, positive and negative.
    targets: t, the same shape, numbers from 0 to 1, most of them 0 or 1.
    Return dlogits: the shape and dtype of logits, dL/dz, finite for all of them.
    """
    p = (1 + np.tanh(logits / 2)) / 2
    return (p - targets) / logits.size


def questions(rng, n):
    certain = rng.integers(0, 2, n.lead).astype(float)
    return 2 * rng.standard_normal(n.lead), np.where(rng.random(n.lead) < 0.3, rng.random(n.lead), certain)


def sure(rng):
    return [("sure and right", (np.array([40.0, -40, 2000, -2000, 1.5]), np.array([1.0, 0, 1, 0, 1]))),
            ("sure and wrong, yes too low", (np.array([[-3000.0, 0.5], [1, -900]]), np.array([[1.0, 1], [0.25, 1]]))),
            ("sure and wrong, no too high", (np.array([[3000.0, 0.5, -1]]), np.array([[0.0, 0, 0.75]])))]


def by_loss_backward(logits, targets):
    criterion = BinaryCrossEntropyLoss()
    criterion(logits, targets)
    return criterion.backward()


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

SOFTPLUS = "np.maximum(logits, 0) + np.log1p(np.exp(-np.abs(logits)))"
LOSSES = "(softplus - targets * logits)"
P = "    p = 1 / (1 + np.exp(-logits))\n"
WHOLE = f"    softplus = {SOFTPLUS}\n    return {LOSSES}"
BY_P = "(targets * np.log(p) + (1 - targets) * np.log(1 - p))"
SIGMOID = "(1 + np.tanh(logits / 2)) / 2"
ROUNDED = "The targets are rounded. One of 0.3 is a probability, and pulls to both sides."

LOSS = (
    Mistake("BCE-1", {f"{LOSSES}.mean()": f"{LOSSES}.sum()"}, "The losses are summed: the loss is their mean."),
    Mistake("BCE-2", {f"{LOSSES}.mean()": f"{LOSSES}.sum() / len(logits)"},
            "It is divided by the length of the first axis only: the mean is over all entries."),
    Mistake("BCE-3", {WHOLE: f"{P}    return -{BY_P}"},
            "p becomes exactly 0 or 1 where a logit is large, and its logarithm -inf, or 0 times that. Take the "
            "logarithm by hand before you compute: log p and log(1 - p) are simple in z."),
    Mistake("BCE-4a", {WHOLE: f"{P}    p = np.clip(p, 1e-12, 1 - 1e-12)\n    return -{BY_P}"},
            "p is clipped to keep log away from 0. Then no loss exceeds 28, and a model that is sure and wrong learns "
            "nothing from it. With the logits no clipping is needed."),
    Mistake("BCE-4b", {WHOLE: f"{P}    p = np.clip(p, 1e-7, 1 - 1e-7)\n    return -{BY_P}"},
            "p is clipped to keep log away from 0. Then no loss exceeds 17, and a model that is sure and wrong learns "
            "nothing from it. With the logits no clipping is needed."),
    Mistake("BCE-5", {SOFTPLUS: "np.log1p(np.exp(logits))"},
            "exp overflows above about 709 (float64) or 88 (float32). Take the large part out of the logarithm first, "
            "as softmax does with its maximum."),
    Mistake("BCE-6", {f"return {LOSSES}": f"return -{LOSSES}"},
            "The sign is reversed: a loss of this kind is never negative."),
    Mistake("BCE-7", {"targets * logits": "(1 - targets) * logits"},
            "Yes and no are swapped: t = 1 must pull the logit up."),
    Mistake("BCE-8", {LOSSES: "(targets * (softplus - logits))"},
            "Only the part -t log p is there. Where t = 0 nothing is learned: add -(1 - t) log(1 - p)."),
    Mistake("BCE-9", {f"{LOSSES}.mean()": LOSSES}, "One loss for each entry is returned: the loss is their mean."),
    Mistake("BCE-10", {f"{LOSSES}.mean()": f"{LOSSES}.mean() / np.log(2)"},
            "That is in bits, with log2: the loss takes the natural logarithm."),
    Mistake("BCE-11", {WHOLE: f"    p = logits\n    return -{BY_P}"},
            "The logits are taken for probabilities, and log of a negative number is NaN. p is the sigmoid of the "
            "logit."),
    Mistake("BCE-12", {"np.exp(-np.abs(logits))": "np.exp(-logits)"},
            "exp(-z) stands where exp(-|z|) belongs: for negative z its part is counted twice, and below about -709 it "
            "overflows."),
    Mistake("BCE-13", {"np.maximum(logits, 0) + ": ""},
            "max(z, 0) is missing: log(1 + exp(-|z|)) alone is log(1 + exp(z)) for negative z only."),
    Mistake("BCE-14", {"    softplus =": "    logits = (1 + np.tanh(logits / 2)) / 2\n    softplus ="},
            "The sigmoid is applied twice: the formula in z contains it already."),
    Mistake("BCE-15", {" + np.log1p(np.exp(-np.abs(logits)))": ""},
            "The logarithm is missing: max(z, 0) is what remains of log(1 + exp(z)) far from 0 only."),
    Mistake("BCE-16", {LOSSES: "np.logaddexp(0, -targets * logits)"},
            "log(1 + exp(-t z)) is the loss for targets -1 and 1. Here \"no\" is 0."),
    Mistake("BCE-17", {"targets * logits": "np.round(targets) * logits"}, ROUNDED),
)
LOSS_BACKWARD = (
    Mistake("BCB-1", {" / logits.size": ""},
            "The gradient is not divided by the number of entries, though the loss is their mean."),
    Mistake("BCB-2", {"logits.size": "len(logits)"},
            "It is divided by the length of the first axis only: the mean is over all entries."),
    Mistake("BCB-3", {"p - targets": "targets - p"},
            "The sign is reversed: where p lies above the target, a larger logit makes the loss larger."),
    Mistake("BCB-4", {"(p - targets)": "(p - targets) * p * (1 - p)"},
            "There is a factor p (1 - p), as for a squared error behind a sigmoid. Here log takes it out again, and a "
            "model that is sure and wrong has a large gradient."),
    Mistake("BCB-5", {"(p - targets)": "(p - targets) / (p * (1 - p))"},
            "That is the gradient in p. Go on through the sigmoid, to the logit."),
    Mistake("BCB-6", {SIGMOID: "np.exp(logits) / (1 + np.exp(logits))"},
            "exp overflows above about 709 (float64) or 88 (float32), and inf / inf is NaN. Another form of the "
            "sigmoid has no such quotient."),
    Mistake("BCB-7", {SIGMOID: "np.exp(logits - logits.max(-1, keepdims=True))\n    p = p / p.sum(-1, keepdims=True)"},
            "That is softmax: it makes the entries compete. Each one is a question of its own, and has a sigmoid."),
    Mistake("BCB-8", {SIGMOID: "logits"},
            "The target is subtracted from the logit itself, as for a squared error. The sigmoid is missing."),
    Mistake("BCB-9", {"p - targets": "p - (1 - targets)"}, "Yes and no are swapped: t = 1 must pull the logit up."),
    Mistake("BCB-10", {SIGMOID: "np.round((1 + np.tanh(logits / 2)) / 2)"},
            "p is rounded to yes or no. Then nothing is learned from answers that are right by a hair, and the loss "
            "knew p itself."),
    Mistake("BCB-11", {"(p - targets)": "targets * (p - 1)"},
            "Only the gradient of -t log p is there. Where t = 0 it is 0: the part of -(1 - t) log(1 - p) is missing."),
    Mistake("BCB-12", {"p - targets": "p - np.round(targets)"}, ROUNDED),
    Mistake("BCB-13", {"logits / 2": "logits"},
            "(1 + tanh(z)) / 2 is the sigmoid of 2 z."),
    Mistake("BCB-14", {"logits.size": "logits.shape[-1]"},
            "It is divided by the length of the last axis only: the mean is over all entries."),
    Mistake("BCB-15", {SIGMOID: "np.tanh(logits / 2)"},
            "tanh lies between -1 and 1. A probability lies between 0 and 1."),
    Mistake("BCB-16", {f"    p = {SIGMOID}": "    logits /= 2\n    p = (1 + np.tanh(logits)) / 2"},
            "logits /= 2 writes into the caller's array: logits / 2 makes a new one."),
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
        "11.3", "Binary cross-entropy", minutes=15, lines=2,
        solution=binary_cross_entropy, reference=lambda logits, targets: BinaryCrossEntropyLoss()(logits, targets),
        inputs=questions, edges=sure, outputs=("loss",), mistakes=LOSS,
        invariants=(("the loss must not be negative", lambda inputs, outputs: np.minimum(outputs[0], 0)),),
        hints=("Write -log p and -log(1 - p) with z in place of p, on paper. What is their difference?",
               "-log(1 - p) = log(1 + exp(z)), and -log p is that minus z. Where z is large, exp(z) overflows, but "
               "log(1 + exp(z)) is nearly z.",
               "log(1 + exp(z)) = max(z, 0) + log(1 + exp(-|z|)), with np.log1p; subtract t z and take the mean."),
        alternatives={"logaddexp": {SOFTPLUS: "np.logaddexp(0, logits)"},
                      "two logarithms": {LOSSES: "(targets * np.logaddexp(0, -logits) + (1 - targets) * "
                                                 "np.logaddexp(0, logits))"},
                      "two branches": {SOFTPLUS: "np.where(logits > 0, logits + np.log1p(np.exp(-abs(logits))), "
                                                 "np.log1p(np.exp(-abs(logits))))"}}),
    Exercise(
        "11.4", "Binary cross-entropy, backward", minutes=10, lines=2,
        solution=binary_cross_entropy_backward, reference=by_loss_backward, inputs=questions, edges=sure,
        outputs=("dlogits",), mistakes=LOSS_BACKWARD,
        invariants=(("no entry of dlogits can be larger than 1 / N",
                     lambda inputs, outputs: np.maximum(abs(outputs[0]) * outputs[0].size - 1, 0)),),
        hints=("In z the loss of one entry is log(1 + exp(z)) - t z. What are the two slopes?",
               "The slope of log(1 + exp(z)) is p, the sigmoid. It must not overflow into NaN where z is large.",
               "(p - t) divided by the number of entries, with p = (1 + tanh(z / 2)) / 2, which never overflows."),
        alternatives={"exp, which overflows to p = 0": {SIGMOID: "1 / (1 + np.exp(-logits))"},
                      "two branches": {SIGMOID: "np.where(logits > 0, 1, np.exp(-abs(logits))) / "
                                                "(1 + np.exp(-abs(logits)))"}}),
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
            Mistake("FND-78a", {"[True, True, False]": "[True, True, True]"},
                    "Nothing is padding: then T is the number of real tokens."),
            Mistake("FND-78b", {"np.random.default_rng(0).standard_normal((2, 3, 4))": "np.zeros((2, 3, 4))"},
                    "x is 0: a sum of 0 may be divided by anything."),
            Mistake("FND-78c", {"np.random.default_rng(0).standard_normal((2, 3, 4))":
                                "np.array([[[1.0], [2.0], [3.0]], [[1.0], [-1.0], [3.0]]])"},
                    "The real tokens of the padded text sum to 0, which may be divided by anything."),
        )),
]
