"""Dropout with given random numbers, forward and backward."""

import numpy as np

from ...layers import Dropout
from .definition import Exercise, Mistake


def dropout(x, u, p, training):
    """Applies dropout with given random numbers.

    In training, an entry with u < p becomes 0, and all others are divided by 1 - p, so that the expected value of each
    entry stays the same. Outside training nothing is dropped or scaled, and y = x.

    x: any shape.
    u: the same shape, uniform in [0, 1).
    p: a number with 0 <= p < 1, the probability of DROPPING an entry.
    training: True or False.
    Return y: the shape and dtype of x.
    """
    if not training:
        return x
    keep = u >= p
    return x * keep / (1 - p)


def dropout_backward(x, u, p, training, dy):
    """Computes the gradient of dropout as in exercise 13.1, for given random numbers.

    The forward pass used the same x, u, p and training. In training, an entry with u < p became 0, and all others were
    divided by 1 - p. Outside training it returned y = x.

    x: any shape; some entries are exactly 0.
    u: the same shape, uniform in [0, 1).
    p: a number with 0 <= p < 1, the probability of DROPPING an entry.
    training: True or False.
    dy: the shape of x, dL/dy.
    Return dx: the shape and dtype of x, dL/dx.
    """
    if not training:
        return dy
    keep = u >= p
    return dy * keep / (1 - p)


def uniform(rng, shape):
    """Multiples of 2^-16, which is the precision with which the package draws them."""
    return rng.integers(2 ** 16, size=shape) / 2 ** 16


def draw(rng, n):
    """p is a multiple of 1/16 and never 1/2, where confusing p and 1 - p would have no effect."""
    x = rng.standard_normal((*n.lead, n.D))
    x[..., ::5] = 0
    return x, uniform(rng, x.shape), float(rng.choice([3, 4, 5])) / 16, True


def edge_cases(rng):
    x, u = rng.standard_normal((4, 5)), uniform(rng, (4, 5))
    first = u.copy()
    first[1, ::2] = 0                           # u = p = 0: u < p does not hold, so nothing is dropped
    edge = u.copy()
    edge[2] = 0.25                              # u = p
    return [("not in training", (x, u, 0.25, False)), ("p = 0, and u = 0 occurs", (x, first, 0.0, True)),
            ("u = p occurs", (x, edge, 0.25, True))]


class Given:
    """Replaces a generator; returns the bits of these uniform numbers."""

    def __init__(self, u):
        self.u = u

    def integers(self, high, size, dtype, endpoint):
        bits = np.zeros(4 * size, np.uint16)
        bits[:self.u.size] = self.u.ravel() * 2 ** 16
        return bits.view(dtype)


def make_layer(u, p, training):
    layer = Dropout(p)
    layer.rng = Given(u)
    return layer.train() if training else layer.eval(remember=True)


def by_dropout_backward(x, u, p, training, dy):
    layer = make_layer(u, p, training)
    layer(x)
    return layer.backward(dy)


def with_dy(rng, arguments):
    return *arguments, rng.standard_normal(arguments[0].shape)


def shared_mistakes(upstream):
    """Returns the mistakes that forward and backward share; upstream is the array that is scaled, x or dy."""
    eval_line = f"        return {upstream}\n"
    return (
        Mistake("DRP-1", {" / (1 - p)": ""},
                "The scaling is missing. In training, the entries that are kept are divided by 1 - p."),
        Mistake("DRP-2a", {"/ (1 - p)": "/ p"},
                "You divide by p, the probability of dropping an entry. Divide by the probability of keeping it."),
        Mistake("DRP-2b", {"/ (1 - p)": "* (1 - p)"},
                "You multiply by 1 - p. Dropping already lowers the mean, and this lowers it further. Divide instead."),
        Mistake("DRP-2c", {"/ (1 - p)": "* p"},
                "You multiply by p, the probability of dropping an entry. An entry that is kept has to become larger, "
                "so divide, and by the probability of keeping it."),
        Mistake("DRP-2d", {"/ (1 - p)": "/ 1 - p"},
                "Parentheses are missing: your line divides by 1 and then subtracts p. Divide by (1 - p)."),
        Mistake("DRP-3a", {"u >= p": "u < p"},
                "You drop the entries that should be kept, and keep the others. p is the probability of dropping."),
        Mistake("DRP-3b", {"u >= p": "u > p"},
                "You drop an entry where u = p, but only u < p is dropped. With p = 0, nothing is dropped, not even "
                "where u = 0."),
        Mistake("DRP-3c", {"u >= p": "u >= 1 - p"},
                "You drop where u < 1 - p. p is the probability of dropping an entry, not of keeping it."),
        Mistake("DRP-3d", {"u >= p": "u < 1 - p"},
                "You keep the entries with u < 1 - p. The number of dropped entries is about right, but they are not "
                "those with u < p."),
        Mistake("DRP-4a", {eval_line: f"        return {upstream} / (1 - p)\n"},
                "You also scale outside training. Nothing is dropped there, so there is nothing to compensate for."),
        Mistake("DRP-4b", {eval_line: f"        return {upstream} * (1 - p)\n"},
                "You multiply by 1 - p outside training. That belongs to the variant of dropout that does not scale in "
                "training."),
        Mistake("DRP-4c", {" / (1 - p)": "", eval_line: f"        return {upstream} * (1 - p)\n"},
                "This is the older variant of dropout, which scales outside training. Here the entries that are kept "
                "are divided by 1 - p in training, and nothing is scaled outside it."),
        Mistake("DRP-5c", {" * keep": ""}, "The mask is missing. You scale all entries and drop none."),
        Mistake("DRP-5e", {f"{upstream} * keep / (1 - p)": f"np.where(keep, {upstream} / (1 - p), {upstream})"},
                f"You scale the entries that are kept, but leave {upstream} as it is where it is dropped. It must be 0 "
                "there."),
        Mistake("DRP-10", {f"    return {upstream} * keep": f"    {upstream}[~keep] = 0\n    return {upstream}"},
                f"You write into {upstream}, an array of the caller. Make a new array, for example with np.where or a "
                "product."),
        Mistake("DRP-11", {f"{upstream} * keep": f"{upstream}[keep]"},
                "Your result contains only the entries that are kept. Dropped entries stay in the array, as 0."),
        Mistake("DRP-6", {"/ (1 - p)": "/ keep.mean()"},
                "You divide by the fraction of entries that happened to be kept. The divisor is 1 - p, whatever "
                "numbers were drawn."),
        Mistake("DRP-9", {f"    if not training:\n{eval_line}": ""},
                "Your code ignores training, so it drops random entries outside training too."),
        Mistake("DRP-7", {"if not training": "if training"},
                "Your code reverses training: it drops nothing in training, and random entries outside training."),
    )


def dropped(inputs, outputs):
    x, u, p, training, *_ = inputs
    return np.where(training & (u < p), outputs[0], 0)


EXERCISES = [
    Exercise(
        "13.1", "Dropout", minutes=5, lines=4,
        solution=dropout, reference=lambda x, u, p, training: make_layer(u, p, training)(x),
        inputs=draw, edges=edge_cases,
        invariants=(("in training y must be 0 where u < p", dropped),),
        hints=("Which entries are kept, those with a small u or those with a large u? p is the probability of "
               "dropping.",
               "An entry is kept with probability 1 - p. What must a kept entry be divided by so that its expected "
               "value is x?",
               "Outside training, return x. In training, return x times (u >= p), divided by 1 - p."),
        mistakes=shared_mistakes("x"),
        alternatives={"where": {"x * keep / (1 - p)": "np.where(keep, x / (1 - p), 0)"}}),
    Exercise(
        "13.2", "Dropout, backward", minutes=5, lines=4,
        solution=dropout_backward, reference=by_dropout_backward, outputs=("dx",),
        inputs=lambda rng, n: with_dy(rng, draw(rng, n)),
        invariants=(("in training dx must be 0 where u < p", dropped),),
        edges=lambda rng: [(note, with_dy(rng, arguments)) for note, arguments in edge_cases(rng)],
        hints=("For a given u, forward multiplies each entry by a number. What is the derivative of that?",
               "Use the same entries and the same scale as forward, in training and outside it. An entry of x that "
               "happens to be 0 still has a gradient.",
               "Outside training, return dy. In training, return dy times (u >= p), divided by 1 - p."),
        mistakes=(
            *shared_mistakes("dy"),
            Mistake("DRP-5a", {"u >= p": "np.random.default_rng(0).random(x.shape) >= p"},
                    "You draw a new mask. Backward belongs to the forward pass before it, so it must use the same "
                    "mask."),
            Mistake("DRP-5b", {"u >= p": "x * (u >= p) != 0"},
                    "You derive the mask from y != 0. An entry of x that happens to be 0 was not dropped, so you lose "
                    "its gradient."),
            Mistake("DRP-5d", {"u >= p": "x != 0"},
                    "Your mask is x != 0. x is the input of dropout, so it does not show what was dropped; u does."),
            Mistake("DRP-8", {"dy * keep": "x * keep"},
                    "You compute forward again. Backward must mask and scale dy, not x."),
            Mistake("DRP-8b", {"        return dy\n": "        return x\n", "dy * keep": "x * keep"},
                    "You compute forward again, in training and outside it. Backward must use dy, not x."),
            Mistake("DRP-8c", {"dy * keep": "dy * x * keep"},
                    "You also multiply by x. Forward multiplies each entry of x by a number; its derivative is that "
                    "number, without x."),
            Mistake("DRP-13", {"        return dy\n": "        return np.ones_like(dy)\n", "dy * keep": "1.0 * keep"},
                    "You return the factors of forward, without dy. By the chain rule, each of them is multiplied by "
                    "the gradient that arrives, dy."),
            Mistake("DRP-12", {"        return dy\n": "        return np.zeros_like(dy)\n"},
                    "Outside training your gradient is 0. Nothing is dropped there, y = x, so the gradient passes "
                    "unchanged."),
        )),
]
