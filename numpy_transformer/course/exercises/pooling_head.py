"""A classification head, a class: the mean over the real tokens of a text, followed by a linear layer."""

import numpy as np

from ...layers import Linear as PackageLinear, MaskedMean
from .definition import Exercise, Mistake
from .pooling import FEW, draw_texts, few
from .shared import Parameter, loaded


class PoolingHead:
    def __init__(self, weight, bias):
        self.weight, self.bias = Parameter(weight), Parameter(bias)
        self.saved = []                         # {saved}

    def forward(self, x, token_mask):
        count = np.maximum(token_mask.sum(-1, keepdims=True), 1)
        share = token_mask / count.astype(x.dtype)
        mean = (share[..., None] * x).sum(-2)
        self.saved.append((mean, share))
        return mean @ self.weight.data + self.bias.data

    def backward(self, dlogits):
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
    return [("calls_same_shape", use_twice(rng, (4, 5), 6, 3, 0)),
            ("d_c", use_twice(rng, (2, 5), 6, 6, 1)),
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


EXERCISES = [
    Exercise(
        "11.5", minutes=25, lines=12,
        solution=PoolingHead, write=("forward", "backward"), given=(Parameter,), reference=PackageHead,
        inputs=lambda rng, n: use_twice(rng, n.lead, n.D, n.V, 1), edges=special_heads, mistakes=(
            Mistake("POOL-1", {
                "token_mask / count.astype(x.dtype)": "np.ones(token_mask.shape, x.dtype) / token_mask.shape[-1]"}),
            Mistake("POOL-2", {
                "token_mask / count.astype(x.dtype)": "token_mask.astype(x.dtype) / token_mask.shape[-1]"}),
            Mistake("POOL-3", {"token_mask / count.astype(x.dtype)": "token_mask.astype(x.dtype)"}),
            Mistake("POOL-5", {
                "np.maximum(token_mask.sum(-1, keepdims=True), 1)": "token_mask.sum(-1, keepdims=True)"}),
            Mistake("POOL-6", {"np.maximum(token_mask.sum(-1, keepdims=True), 1)": "np.maximum(token_mask.sum(), 1)"}),
            Mistake("POOL-8", {"return share[..., None] *": "return (share > 0).astype(share.dtype)[..., None] *"}),
            Mistake("POOL-12", {
                "np.maximum(token_mask.sum(-1, keepdims=True), 1)": "token_mask.sum(-1, keepdims=True) + 1"}),
            Mistake("LIN-1", {"rows.T @ drows": "drows.T @ rows"}),
            Mistake("LIN-2", {"self.weight.data.T": "self.weight.data"}),
            Mistake("LIN-4a", {"@ drows": "@ drows / len(rows)", "drows.sum(0)": "drows.mean(0)"}),
            Mistake("LIN-7a", {"self.weight.grad += ": "self.weight.grad = "}),
            Mistake("LIN-7c", {
                "self.saved.append((mean, share))":
                    "self.weight.grad[:] = 0\n        self.bias.grad[:] = 0\n        self.saved.append((mean, share))"},
                ),
            Mistake("LIN-7b", {"self.bias.grad += ": "self.bias.grad = "}),
            Mistake("LIN-11b", {"self.saved.pop()": "self.saved[-1]"}),
            Mistake("LIN-4b", {"@ drows": "@ drows / len(rows)"}),
            Mistake("LIN-4c", {"drows.sum(0)": "drows.mean(0)"}),
            Mistake("LIN-5a", {"drows.sum(0)": "dlogits.sum(0)"}),
            Mistake("LIN-5b", {"drows.sum(0)": "drows.sum()"}),
            Mistake("LIN-11c", {"self.saved.append((mean, share))": "self.saved = [(mean, share)]"}, twin="LIN-11d"),
            Mistake("LIN-11d", {"self.saved.append((mean, share))": "pass"}, twin="LIN-11c"),
        ),
        outputs=("logits", "second logits", "second dx", "third logits", "third dx", "dx", "weight.grad", "bias.grad"),
        alternatives={"matmul": {"(share[..., None] * x).sum(-2)": "(share[..., None, :] @ x)[..., 0, :]"},
                      "saves the inputs": {
                          "self.saved.append((mean, share))": "self.saved.append((x, token_mask))",
                          "mean, share = self.saved.pop()":
                          "x, token_mask = self.saved.pop()\n        share = (token_mask / np.maximum("
                          "token_mask.sum(-1, keepdims=True), 1))"
                          ".astype(x.dtype)\n        mean = (share[..., None] * x).sum(-2)"}}),
]
