"""A classification head, a class: the mean over the real tokens of a text, followed by a linear layer."""

import numpy as np

from ...layers import Linear as PackageLinear, MaskedMean
from .definition import Exercise, Mistake
from .given import CLEARED, NOTHING_LEFT, Parameter, loaded
from .pooling import (AT_MOST_1, AT_THE_END, BY_PADDING, COUNT, DIVIDED_BY_T, EMPTY, FEW, FIRST, ONE_MASK, ONE_TOTAL,
                      PLUS_ONE, PUSHED, SPREAD, SUFFIX, SWAPPED, TOTAL, draw_texts, few)


class PoolingHead:
    """Computes logits for a whole text: the mean over its real tokens, followed by a linear layer.

    logits = mean @ weight + bias, where the mean of a text without real tokens is 0.

    forward may be called several times before backward. Each backward belongs to the latest forward that has not had
    its backward yet, and adds (+=) into weight.grad (D, C) and bias.grad (C,). A sum of a mask is an int64, and
    dividing float32 by int64 gives float64; use count.astype(x.dtype).
    """

    def __init__(self, weight, bias):
        self.weight, self.bias = Parameter(weight), Parameter(bias)
        self.saved = []                         # the values that forward saves for backward, the latest last

    def forward(self, x, token_mask):
        """x: (..., T, D).  token_mask: (..., T) boolean, True at real tokens.  Return logits: (..., C)."""
        count = np.maximum(token_mask.sum(-1, keepdims=True), 1)
        share = token_mask / count.astype(x.dtype)
        mean = (share[..., None] * x).sum(-2)
        self.saved.append((mean, share))
        return mean @ self.weight.data + self.bias.data

    def backward(self, dlogits):
        """dlogits: (..., C), dL/dlogits.  Return dx: (..., T, D), and add into weight.grad and bias.grad."""
        mean, share = self.saved.pop()
        rows = mean.reshape(-1, mean.shape[-1])
        drows = dlogits.reshape(-1, dlogits.shape[-1])
        self.weight.grad += rows.T @ drows
        self.bias.grad += drows.sum(0)
        dmean = dlogits @ self.weight.data.T
        return share[..., None] * dmean[..., None, :]


def use_twice(rng, shape, D, C, longer):
    """Three uses, the second with more tokens, and backward for the latest one each time.

    The third forward follows a backward, whose gradients it must leave as they are.
    """
    later = (*shape[:-1], shape[-1] + longer)
    return ((rng.standard_normal((D, C)) / D ** 0.5, rng.standard_normal(C)),
            (("forward", draw_texts(rng, shape, D)), ("forward", draw_texts(rng, later, D)),
             ("backward", (rng.standard_normal((*later[:-1], C)),)),
             ("forward", draw_texts(rng, shape, D)), ("backward", (rng.standard_normal((*shape[:-1], C)),)),
             ("backward", (rng.standard_normal((*shape[:-1], C)),))))


def special_heads(rng):
    weights, ((forward, (x, token_mask)), *others) = use_twice(rng, (3, 4), 5, 2, 0)
    return [("all calls with the same shape", use_twice(rng, (4, 5), 6, 3, 0)),
            ("D = C", use_twice(rng, (2, 5), 6, 6, 1)),
            (FEW, (weights, ((forward, (x, few(token_mask))), *others)))]


class PackageHead:
    def __init__(self, weight, bias):
        self.mean = MaskedMean()
        self.linear = loaded(PackageLinear(*weight.shape), {"weight": weight, "bias": bias})
        self.weight = self.linear.weight
        self.bias = self.linear.bias

    def forward(self, x, token_mask):
        return self.linear(self.mean(x, token_mask))

    def backward(self, dlogits):
        return self.mean.backward(self.linear.backward(dlogits))


HEAD = (
    Mistake("POOL-1", {"token_mask / count.astype(x.dtype)":
                       "np.ones(token_mask.shape, x.dtype) / token_mask.shape[-1]"},
            "You do not use the mask, so padding tokens are part of the average and receive a gradient."),
    Mistake("POOL-2", {"token_mask / count.astype(x.dtype)": "token_mask.astype(x.dtype) / token_mask.shape[-1]"},
            DIVIDED_BY_T),
    Mistake("POOL-3", {"token_mask / count.astype(x.dtype)": "token_mask.astype(x.dtype)"},
            "You use the sum, which grows with the length of the text. The mean is the sum divided by the number of "
            "real tokens."),
    Mistake("POOL-4", {"        count =": "        token_mask = ~token_mask\n        count ="}, SWAPPED),
    Mistake("POOL-4b", {"share = token_mask /": "share = ~token_mask /"},
            "You use the padding tokens and leave out the real ones. True marks a real token."),
    Mistake("POOL-5", {COUNT: "token_mask.sum(-1, keepdims=True)"}, EMPTY),
    Mistake("POOL-6", {COUNT: TOTAL}, ONE_TOTAL),
    Mistake("POOL-7", {"return share[..., None] *": "return np.ones_like(share)[..., None] *"},
            "Your dx is the same for all tokens, padding included. It is the gradient with respect to the mean; the "
            "step back through the mean, where each real token has the factor 1 / n, is missing."),
    Mistake("POOL-8", {"return share[..., None] *": "return (share > 0).astype(share.dtype)[..., None] *"},
            "You do not divide dx. Each real token contributes to the mean with the factor 1 / n, where n is the "
            "number of real tokens."),
    Mistake("POOL-10", {"return share[..., None] *": "return share.max(-1, keepdims=True)[..., None] *"}, PUSHED),
    Mistake("POOL-11", {"return share[..., None] *": "return (share.max(-1, keepdims=True) - share)[..., None] *"},
            "You use the mask the other way round in backward. Real tokens receive a gradient, padding tokens do "
            "not."),
    Mistake("POOL-12", {COUNT: "token_mask.sum(-1, keepdims=True) + 1"}, PLUS_ONE),
    Mistake("POOL-13", {"mean = (share[..., None] * x).sum(-2)": "mean = x.mean(-2)"},
            "In your forward, the mean is over all tokens, padding too. Your backward knows the mask."),
    Mistake("POOL-14", {"mean = (share[..., None] * x).sum(-2)":
                        "mean = np.where(token_mask[..., None], x, 0).mean(-2)"},
            "In your forward, you divide the sum over the real tokens by T. Your backward divides by their number, as "
            "it should."),
    Mistake("POOL-15", {"mean = (share[..., None] * x).sum(-2)":
                        "mean = np.where(token_mask[..., None], x, 0).sum(-2)"},
            "In your forward, the sum over the real tokens is not divided by their number. In your backward it is."),
    Mistake("POOL-16", {"mean = (share[..., None] * x).sum(-2)":
                        "mean = np.where(token_mask[..., None], 0, x).sum(-2) / count.astype(x.dtype)"},
            "You use the mask the other way round in forward. True marks a real token."),
    Mistake("POOL-17", {"return share[..., None] * dmean[..., None, :]": "return dmean"},
            "Your dx has one row per text: it is the gradient of the mean. Continue back through the mean, to the "
            "tokens."),
    Mistake("POOL-23", {"return share[..., None] *":
                        "return ((share > 0) / dmean.dtype.type(share.shape[-1]))[..., None] *"},
            "You divide dx by T, which includes padding. forward divided by the number of real tokens."),
    Mistake("POOL-24", {"mean = (share[..., None] * x).sum(-2)": "mean = x[..., 0, :]"},
            "In your forward, the first token stands for the text, as BERT's [CLS] does. The exercise asks for the "
            "mean."),
    Mistake("POOL-25", {"mean = (share[..., None] * x).sum(-2)":
                        "mean = np.where(token_mask[..., None], x, -np.inf).max(-2)"},
            "Your forward takes the maximum over the real tokens. The exercise asks for their mean."),
    Mistake("POOL-21", {"* x).sum(-2)": "* x).mean(-2)"},
            "Your forward takes the mean over T and divides by the number of real tokens as well. Divide the sum "
            "once."),
    Mistake("POOL-22", {"np.maximum(token_mask": "np.minimum(token_mask"}, AT_MOST_1),
    Mistake("POOL-18", {"        count =": "    " + FIRST + "        count ="}, ONE_MASK),
    Mistake("POOL-19", {"share = token_mask /": f"share = {SUFFIX} /"}, AT_THE_END),
    Mistake("POOL-20", {"np.maximum(token_mask.sum": "np.maximum((~token_mask).sum"}, BY_PADDING),
    Mistake("POOL-9", {"return share[..., None] *": "return np.full_like(share, 1 / share.shape[-1])[..., None] *"},
            SPREAD),
    Mistake("LIN-1", {"rows.T @ drows": "drows.T @ rows"},
            "Your gradient of the weight is transposed. It must have the weight's own shape, (D, C)."),
    Mistake("LIN-2", {"self.weight.data.T": "self.weight.data"},
            "The backward pass multiplies by the transposed weight: the gradient of a feature is a sum over the "
            "logits."),
    Mistake("LIN-4a", {"@ drows": "@ drows / len(rows)", "drows.sum(0)": "drows.mean(0)"},
            "You divide the gradients of weight and bias by the number of texts. They are sums over the texts; if the "
            "loss is a mean, dlogits already contains that factor."),
    Mistake("LIN-7a", {"self.weight.grad += ": "self.weight.grad = "},
            "weight.grad holds the gradient of the last backward only, because each call overwrites it. Add to it."),
    Mistake("LIN-7c", {"self.saved.append((mean, share))": "self.weight.grad[:] = 0\n        self.bias.grad[:] = 0\n"
                       "        self.saved.append((mean, share))"}, CLEARED),
    Mistake("LIN-7b", {"self.bias.grad += ": "self.bias.grad = "},
            "bias.grad holds the gradient of the last backward only, because each call overwrites it. Add to it."),
    Mistake("LIN-11a", {"self.saved.pop()": "self.saved.pop(0)"},
            "Your first backward uses the values that the first forward saved. It belongs to the latest forward: last "
            "in, first out."),
    Mistake("LIN-11b", {"self.saved.pop()": "self.saved[-1]"},
            "Your backward calls use the values that the latest forward saved. Either each forward overwrites the "
            "values of the one before, or backward does not remove the values that it has used."),
    Mistake("LIN-12", {" + self.bias.data": ""}, "Your forward leaves out the bias."),
    Mistake("LIN-4b", {"@ drows": "@ drows / len(rows)"},
            "You divide the gradient of the weight by the number of texts. It is a sum over the texts; if the loss is "
            "a mean, dlogits already contains that factor."),
    Mistake("LIN-4c", {"drows.sum(0)": "drows.mean(0)"},
            "You divide the gradient of the bias by the number of texts. It is a sum over the texts; if the loss is a "
            "mean, dlogits already contains that factor."),
    Mistake("LIN-5a", {"drows.sum(0)": "dlogits.sum(0)"},
            "You sum the gradient of the bias over the first axis only. The sum runs over all axes except the last."),
    Mistake("LIN-5b", {"drows.sum(0)": "drows.sum()"},
            "You sum the gradient of the bias over the classes as well. The bias has one entry per class."),
    Mistake("LIN-11c", {"self.saved.append((mean, share))": "self.saved = [(mean, share)]"}, NOTHING_LEFT,
            twin="LIN-11d"),
    Mistake("LIN-11d", {"self.saved.append((mean, share))": "pass"}, NOTHING_LEFT, twin="LIN-11c"),
)

EXERCISES = [
    Exercise(
        "11.5", "A pooling head, a class", minutes=25, lines=12,
        solution=PoolingHead, write=("forward", "backward"), given=(Parameter,), reference=PackageHead,
        inputs=lambda rng, n: use_twice(rng, n.lead, n.D, n.V, 1), edges=special_heads, mistakes=HEAD,
        outputs=("logits", "second logits", "second dx", "third logits", "third dx", "dx", "weight.grad", "bias.grad"),
        hints=("forward has two steps, and backward goes through them in reverse. Which values from forward does each "
               "step back need?",
               "The linear layer needs its input, the mean. The mean needs the share of each token, token_mask divided "
               "by the number of real tokens. Save both; two calls of forward save two pairs.",
               "Pop (mean, share); weight.grad += rows(mean).T @ rows(dlogits); bias.grad += the sum of rows(dlogits); "
               "dmean = dlogits @ weight.T; dx = share[..., None] * dmean[..., None, :]."),
        alternatives={"matmul": {"(share[..., None] * x).sum(-2)": "(share[..., None, :] @ x)[..., 0, :]"},
                      "saves the inputs": {
                          "self.saved.append((mean, share))": "self.saved.append((x, token_mask))",
                          "mean, share = self.saved.pop()":
                          "x, token_mask = self.saved.pop()\n        share = (token_mask / np.maximum("
                          "token_mask.sum(-1, keepdims=True), 1))"
                          ".astype(x.dtype)\n        mean = (share[..., None] * x).sum(-2)"}}),
]
