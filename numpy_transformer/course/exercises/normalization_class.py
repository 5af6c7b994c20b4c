"""LayerNorm as a class, which can be used several times before its first backward pass."""

import numpy as np

from .definition import Exercise, Mistake
from .normalization import draw_inputs, package_layer_norm
from .shared import Parameter


class LayerNorm:
    def __init__(self, gamma, beta, eps):
        self.gamma = Parameter(gamma)
        self.beta = Parameter(beta)
        self.eps = eps
        self.saved = []                         # {saved}

    def forward(self, x):
        mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        std = np.sqrt(var + self.eps)
        x_hat = (x - mean) / std
        self.saved.append((x_hat, std))
        return self.gamma.data * x_hat + self.beta.data

    def backward(self, dy):
        x_hat, std = self.saved.pop()
        axes = tuple(range(dy.ndim - 1))
        self.gamma.grad += (dy * x_hat).sum(axes)
        self.beta.grad += dy.sum(axes)
        g = self.gamma.data * dy
        return (g - g.mean(-1, keepdims=True) - x_hat * (g * x_hat).mean(-1, keepdims=True)) / std


def use_twice(rng, shape, longer):
    """Three uses of the layer, with backward for the latest one each time.

    The third forward follows a backward, whose gradients it must leave as they are.
    """
    x, gamma, beta, eps, dy = draw_inputs(rng, shape)
    later, *_, dlater = draw_inputs(rng, (shape[0] + longer, *shape[1:]))
    return (gamma, beta, eps), (("forward", (x,)), ("forward", (later,)), ("backward", (dlater,)),
                                ("forward", (x ** 2,)), ("backward", (dy + 1,)), ("backward", (dy,)))


EXERCISES = [
    Exercise(
        "08.3", minutes=20, lines=11,
        solution=LayerNorm, write=("forward", "backward"), given=(Parameter,),
        inputs=lambda rng, n: use_twice(rng, (*n.lead, n.D), 1),
        edges=lambda rng: [("uses_same_length", use_twice(rng, (3, 6), 0)),
                           ("as_many_rows_as", use_twice(rng, (6, 6), 0))],
        reference=package_layer_norm,
        outputs=("y", "second y", "second dx", "third y", "third dx", "dx", "gamma.grad", "beta.grad"),
        must_be_zero={"rows_dx_sum": lambda inputs, outputs: outputs[5].sum(-1)},
        mistakes=(
            Mistake("LN-1", {" - g.mean(-1, keepdims=True) - x_hat * (g * x_hat).mean(-1, keepdims=True)": ""}),
            Mistake("LN-2", {" - g.mean(-1, keepdims=True)": ""}),
            Mistake("LN-5a", {"g.mean(": "g.sum(", "x_hat).mean(": "x_hat).sum("}),
            Mistake("LN-5c", {"g.mean(-1, keepdims=True)": "g.sum(-1, keepdims=True) * g.shape[-1] / g.size",
                              "(g * x_hat).mean(-1, keepdims=True)":
                                  "(g * x_hat).sum(-1, keepdims=True) * g.shape[-1] / g.size"}),
            Mistake("LN-8a", {"g.mean(-1": "g.mean(-2", "x_hat).mean(-1": "x_hat).mean(-2"}),
            Mistake("LN-8c", {"g.mean(-1": "g.mean(0", "x_hat).mean(-1": "x_hat).mean(0"}),
            Mistake("LN-10a", {" - g.mean(": " + g.mean("}),
            Mistake("LN-3", {" - x_hat * (g * x_hat).mean(-1, keepdims=True)": ""}),
            Mistake("LN-4a", {"g = self.gamma.data * dy": "g = dy"}),
            Mistake("LN-4b", {"g = self.gamma.data * dy": "g = dy", "True)) / std": "True)) * self.gamma.data / std"}),
            Mistake("LN-6a", {
                " - x_hat * (g * x_hat).mean(-1, keepdims=True)":
                    " - 2 * x_hat * (g * x_hat).mean(-1, keepdims=True)"}),
            Mistake("LN-6b", {
                " - x_hat * (g * x_hat).mean(-1, keepdims=True)":
                    " - 0.5 * x_hat * (g * x_hat).mean(-1, keepdims=True)"}),
            Mistake("LN-7a", {"True)) / std": "True))"}),
            Mistake("LN-7b", {"True)) / std": "True)) / std ** 2"}),
            Mistake("LN-10", {" - x_hat * (g": " + x_hat * (g"}),
            Mistake("LN-3a", {" - x_hat * (g": " - (g"}),
            Mistake("LN-7c", {"True)) / std": "True)) * std"}),
            Mistake("LN-4f", {"g = self.gamma.data * dy": "dy *= self.gamma.data; g = dy"}),
            Mistake("LN-14", {"x.var(-1, keep": "x.var(-1, ddof=1, keep"}),
            Mistake("LN-15a", {"np.sqrt(var +": "(np.sqrt(var) +"}),
            Mistake("LN-15b", {
                "np.sqrt(var + self.eps)": "np.sqrt(var) + self.eps",
                "append((x_hat, std))": "append((x_hat, std, np.sqrt(var)))",
                "x_hat, std = self.saved.pop()": "x_hat, std, root = self.saved.pop()",
                "(g * x_hat).mean(-1, keepdims=True)) / std": "(g * x_hat).mean(-1, keepdims=True) * std / root) / std"}),
            Mistake("LN-16a", {"np.sqrt(var + self.eps)": "(var + self.eps)"}),
            Mistake("LN-16b", {"x.mean(-1": "x.mean(0", "x.var(-1": "x.var(0"}),
            Mistake("LN-16c", {"x.mean(-1": "x.mean((-2, -1)", "x.var(-1": "x.var((-2, -1)"}),
            Mistake("LN-16d", {"(x - mean) / std": "x / std"}),
            Mistake("LN-16e", {"x.mean(-1, keepdims=True)": "x.mean()", "x.var(-1, keepdims=True)": "x.var()"}),
            Mistake("LN-16w", {"(x - mean) / std": "x - mean"}),
            Mistake("LN-19c", {"x.mean(-1, keepdims=True)": "x.mean(-1)", "x.var(-1, keepdims=True)": "x.var(-1)"}),
            Mistake("LN-9", {"append((x_hat, std))": "append((x, std))"}),
            Mistake("LN-11c", {
                "append((x_hat, std))": "append((x_hat, std, self.gamma.data * x_hat + self.beta.data))",
                "x_hat, std = self.saved.pop()": "x_hat, std, y = self.saved.pop()",
                "(dy * x_hat).sum": "(dy * y).sum"}),
            Mistake("LN-13", {"self.gamma.grad +=": "self.beta.grad +=", "self.beta.grad +=": "self.gamma.grad +="}),
            Mistake("LN-20a", {"self.gamma.grad +=": "self.gamma.grad =", "self.beta.grad +=": "self.beta.grad ="}),
            Mistake("LN-20b", {"self.saved.append((x_hat, std))": "self.saved = [(x_hat, std)]"}, twin="LN-20f"),
            Mistake("LN-20f", {"self.saved.append((x_hat, std))": "pass"}, twin="LN-20b"),
            Mistake("LN-20e", {"self.saved.pop()": "self.saved[-1]"}),
            Mistake("LN-20j", {
                "self.saved.append((x_hat, std))":
                    "self.gamma.grad[:] = 0\n        self.beta.grad[:] = 0\n        self.saved.append((x_hat, std))"}),
            Mistake("LN-21", {
                "        axes = tuple(": "        dy = self.gamma.data * dy\n        axes = tuple(",
                "g = self.gamma.data * dy": "g = dy"}),
            Mistake("LN-11a", {"(dy * x_hat).sum": "dy.sum"}),
            Mistake("LN-11b", {
                "append((x_hat, std))": "append((x_hat, std, x))",
                "x_hat, std = self.saved.pop()": "x_hat, std, x = self.saved.pop()",
                "(dy * x_hat).sum": "(dy * x).sum"}),
            Mistake("LN-12a", {"x_hat).sum(axes)": "x_hat).mean(axes)", "dy.sum(axes)": "dy.mean(axes)"}),
            Mistake("LN-12b", {"tuple(range(dy.ndim - 1))": "0"}),
            Mistake("LN-12c", {"tuple(range(dy.ndim - 1))": "-1"}),
            Mistake("LN-12h", {"tuple(range(dy.ndim - 1))": "-2"}),
            Mistake("LN-17a", {
                "self.gamma.data * x_hat + self.beta.data": "self.gamma.data * (x_hat + self.beta.data)"}),
            Mistake("LN-17c", {"self.gamma.data * x_hat + self.beta.data": "x_hat"}),
            Mistake("LN-20d", {
                "return self.gamma.data * x_hat + self.beta.data":
                    "x_hat *= self.gamma.data\n        x_hat += self.beta.data\n        return x_hat"}),
        ),
        alternatives={"saves only x": {
            "append((x_hat, std))": "append(x)",
            "x_hat, std = self.saved.pop()": "x = self.saved.pop()\n"
            "        std = np.sqrt(x.var(-1, keepdims=True) + self.eps)\n"
            "        x_hat = (x - x.mean(-1, keepdims=True)) / std"}}),
]
