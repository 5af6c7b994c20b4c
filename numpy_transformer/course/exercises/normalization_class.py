"""LayerNorm as a class, which can be used several times before its first backward pass."""

import numpy as np

from .definition import Exercise, Mistake
from .given import CLEARED, NOTHING_LEFT, Parameter
from .normalization import draw, package_layer_norm
from .normalization_mistakes import IN_DX, STD, SUMMED, THROUGH_MEAN, in_dx, in_statistics


class LayerNorm:
    """Layer normalization, a layer that can be used several times before its first backward pass.

    y = gamma x_hat + beta with x_hat = (x - mean) / sqrt(variance + eps). Each row of x has its own mean and variance
    over its D features; the variance divides by D. Each backward pass belongs to the latest forward pass that has not
    had one yet, and adds (+=) into gamma.grad and beta.grad, both (D,).
    """

    def __init__(self, gamma, beta, eps):
        self.gamma = Parameter(gamma)
        self.beta = Parameter(beta)
        self.eps = eps
        self.saved = []                         # values that forward saves for backward: append there, pop in backward

    def forward(self, x):
        """x: (..., D).  Return y: (..., D)."""
        mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        std = np.sqrt(var + self.eps)
        x_hat = (x - mean) / std
        self.saved.append((x_hat, std))
        return self.gamma.data * x_hat + self.beta.data

    def backward(self, dy):
        """dy: (..., D), dL/dy.  Return dx: (..., D); add into gamma.grad and beta.grad."""
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
    x, gamma, beta, eps, dy = draw(rng, shape)
    later, *_, dlater = draw(rng, (shape[0] + longer, *shape[1:]))
    return (gamma, beta, eps), (("forward", (x,)), ("forward", (later,)), ("backward", (dlater,)),
                                ("forward", (x ** 2,)), ("backward", (dy + 1,)), ("backward", (dy,)))


EXERCISES = [
    Exercise(
        "08.3", "LayerNorm, a class", minutes=20, lines=11,
        solution=LayerNorm, write=("forward", "backward"), given=(Parameter,),
        inputs=lambda rng, n: use_twice(rng, (*n.lead, n.D), 1),
        edges=lambda rng: [("all uses of the same length", use_twice(rng, (3, 6), 0)),
                           ("as many rows as features", use_twice(rng, (6, 6), 0))],
        reference=package_layer_norm,
        outputs=("y", "second y", "second dx", "third y", "third dx", "dx", "gamma.grad", "beta.grad"),
        invariants=(("rows of dx must sum to 0", lambda inputs, outputs: outputs[5].sum(-1)),),
        hints=("Which values that forward computes does backward need? If the layer is used twice, it must keep those "
               "of both uses.",
               "x_hat and the standard deviation are enough; save them as a tuple. backward takes the latest tuple, "
               "and adds its gradients to those of other uses.",
               "forward appends (x_hat, std). backward pops them and continues as in layer_norm_backward (exercise "
               "08.2), with self.gamma.data as gamma. Add dgamma into self.gamma.grad and dbeta into self.beta.grad "
               "with +=."),
        mistakes=(
            *THROUGH_MEAN, *in_dx(IN_DX, "self.gamma.data", "std", STD), *in_statistics("self.eps", "std"),
            Mistake("LN-9", {"append((x_hat, std))": "append((x, std))"},
                    "You save x and use it where the normalized x_hat belongs."),
            Mistake("LN-11c", {"append((x_hat, std))": "append((x_hat, std, self.gamma.data * x_hat + self.beta.data))",
                               "x_hat, std = self.saved.pop()": "x_hat, std, y = self.saved.pop()",
                               "(dy * x_hat).sum": "(dy * y).sum"},
                    "You compute gamma.grad from y. gamma was multiplied by the normalized x_hat, before beta was "
                    "added."),
            Mistake("LN-13", {"self.gamma.grad +=": "self.beta.grad +=", "self.beta.grad +=": "self.gamma.grad +="},
                    "You have swapped gamma.grad and beta.grad."),
            Mistake("LN-20a", {"self.gamma.grad +=": "self.gamma.grad =", "self.beta.grad +=": "self.beta.grad ="},
                    "Each backward pass overwrites the gradients of those before it. Add with +=."),
            Mistake("LN-20b", {"self.saved.append((x_hat, std))": "self.saved = [(x_hat, std)]"},
                    NOTHING_LEFT, twin="LN-20f"),
            Mistake("LN-20f", {"self.saved.append((x_hat, std))": "pass"}, NOTHING_LEFT,
                    twin="LN-20b"),
            Mistake("LN-20c", {"self.saved.pop()": "self.saved.pop(0)"},
                    "Your backward uses the values of the oldest forward pass. It belongs to the latest one that has "
                    "not had a backward pass yet."),
            Mistake("LN-20e", {"self.saved.pop()": "self.saved[-1]"},
                    "Your backward passes use the values of the latest forward pass. Either your layer has room for "
                    "one forward pass only, or backward never removes the values. Save them in each forward pass, and "
                    "remove them in the backward pass that uses them."),
            Mistake("LN-20h", {"self.gamma.grad +=": "self.gamma.grad ="},
                    "gamma.grad holds the gradient of the last backward only, because each call overwrites it. Add "
                    "with +=."),
            Mistake("LN-20i", {"self.beta.grad +=": "self.beta.grad ="},
                    "beta.grad holds the gradient of the last backward only, because each call overwrites it. Add "
                    "with +=."),
            Mistake("LN-20j", {"self.saved.append((x_hat, std))": "self.gamma.grad[:] = 0\n"
                               "        self.beta.grad[:] = 0\n        self.saved.append((x_hat, std))"}, CLEARED),
            Mistake("LN-11a", {"(dy * x_hat).sum": "dy.sum"},
                    "Your gamma.grad is the same as beta.grad. But gamma was multiplied by x_hat, and its gradient "
                    "must contain that factor."),
            Mistake("LN-11b", {"append((x_hat, std))": "append((x_hat, std, x))",
                               "x_hat, std = self.saved.pop()": "x_hat, std, x = self.saved.pop()",
                               "(dy * x_hat).sum": "(dy * x).sum"},
                    "You compute gamma.grad from x. gamma was multiplied by the normalized x_hat."),
            Mistake("LN-11d", {"(dy * x_hat).sum": "(self.gamma.data * dy * x_hat).sum"},
                    "Your gamma.grad contains gamma. y is linear in gamma, so its gradient does not contain gamma."),
            Mistake("LN-12a", {"x_hat).sum(axes)": "x_hat).mean(axes)", "dy.sum(axes)": "dy.mean(axes)"},
                    "Your gradients of gamma and beta are means over the rows. They must be sums. If the loss is a "
                    "mean, dy already contains that factor."),
            Mistake("LN-12b", {"tuple(range(dy.ndim - 1))": "0"}, SUMMED + " You sum over the first axis only."),
            Mistake("LN-12c", {"tuple(range(dy.ndim - 1))": "-1"}, SUMMED + " You sum over the last axis."),
            Mistake("LN-12g", {"x_hat).sum(axes)": "x_hat).sum()", "dy.sum(axes)": "dy.sum()"},
                    SUMMED + " You sum over the last axis too, so only one number is left."),
            Mistake("LN-12h", {"tuple(range(dy.ndim - 1))": "-2"},
                    SUMMED + " You sum over the axis before the last one only."),
            Mistake("LN-12i", {"tuple(range(dy.ndim - 1))": "(0, 1)"},
                    SUMMED + " You sum over axes 0 and 1, which is right only if x has three axes."),
            Mistake("LN-17a", {"self.gamma.data * x_hat + self.beta.data":
                               "self.gamma.data * (x_hat + self.beta.data)"},
                    "Your forward multiplies beta by gamma too. Add beta after the product."),
            Mistake("LN-17c", {"self.gamma.data * x_hat + self.beta.data": "x_hat"},
                    "Your forward leaves out gamma and beta, so this mistake has no effect before training."),
            Mistake("LN-17d", {"self.gamma.data * x_hat": "x_hat"},
                    "Your forward leaves out gamma. Its initial value is 1, so this mistake has no effect before "
                    "training."),
            Mistake("LN-17e", {" + self.beta.data": ""},
                    "Your forward leaves out beta. Its initial value is 0, so this mistake has no effect before "
                    "training."),
            Mistake("LN-20d", {"return self.gamma.data * x_hat + self.beta.data": "x_hat *= self.gamma.data\n"
                               "        x_hat += self.beta.data\n        return x_hat"},
                    "You change x_hat in place after saving it. The saved array is the same one, so backward finds y "
                    "there."),
        ),
        alternatives={"saves only x": {
            "append((x_hat, std))": "append(x)",
            "x_hat, std = self.saved.pop()": "x = self.saved.pop()\n"
            "        std = np.sqrt(x.var(-1, keepdims=True) + self.eps)\n"
            "        x_hat = (x - x.mean(-1, keepdims=True)) / std"}}),
]
