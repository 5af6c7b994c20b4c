"""Dropout with given random numbers, forward and backward."""

import numpy as np

from ...layers import Dropout
from ..exercise import Exercise, Mistake


def dropout(x, u, p, training):
    """Dropout with given random numbers.

    x: any shape.  u: the same shape, uniform in [0, 1).  p: a number in [0, 1), the probability of DROPPING an entry.
    training: True or False.  Return y: the shape and dtype of x.
    In training an entry with u < p becomes 0, and all others are divided by 1 - p, so that the mean stays. Not in
    training nothing is dropped or scaled, y = x.
    """
    if not training:
        return x
    keep = u >= p
    return x * keep / (1 - p)


def dropout_backward(x, u, p, training, dy):
    """The gradient of dropout as in exercise 13.1, for given random numbers.

    x: any shape, with exact zeros here and there.  u: the same shape, uniform in [0, 1).  p: a number in [0, 1), the
    probability of DROPPING an entry.  training: True or False. With these forward was run: in training an entry with
    u < p became 0, and all others were divided by 1 - p; not in training y = x.
    dy: the shape of x, dL/dy.  Return dx: the shape and dtype of x, dL/dx.
    """
    if not training:
        return dy
    keep = u >= p
    return dy * keep / (1 - p)


def uniform(rng, shape):
    """Multiples of 2^-16, which is how finely the package draws them."""
    return rng.integers(2 ** 16, size=shape) / 2 ** 16


def draw(rng, n):
    """p is a multiple of 1/16 and never 1/2, where p and 1 - p could be confused without a trace."""
    x = rng.standard_normal((*n.lead, n.D))
    x[..., ::5] = 0
    return x, uniform(rng, x.shape), float(rng.choice([3, 4, 5])) / 16, True


def special(rng):
    x, u = rng.standard_normal((4, 5)), uniform(rng, (4, 5))
    first = u.copy()
    first[1, ::2] = 0                           # u = p = 0: u < p does not hold, so nothing is dropped
    edge = u.copy()
    edge[2] = 0.25                              # u = p
    return [("not in training", (x, u, 0.25, False)), ("p = 0, and u = 0 occurs", (x, first, 0.0, True)),
            ("u = p occurs", (x, edge, 0.25, True))]


class Given:
    """In place of a generator: hands out the bits of these uniform numbers."""

    def __init__(self, u):
        self.u = u

    def integers(self, high, size, dtype, endpoint):
        bits = np.zeros(4 * size, np.uint16)
        bits[:self.u.size] = self.u.ravel() * 2 ** 16
        return bits.view(dtype)


def made(u, p, training):
    layer = Dropout(p)
    layer.rng = Given(u)
    return layer.train() if training else layer.eval(remember=True)


def by_dropout_backward(x, u, p, training, dy):
    layer = made(u, p, training)
    layer(x)
    return layer.backward(dy)


def with_dy(rng, arguments):
    return *arguments, rng.standard_normal(arguments[0].shape)


def both(upstream):
    """The mistakes that are made forward and backward alike; upstream is what is scaled, x or dy."""
    eval_line = f"        return {upstream}\n"
    return (
        Mistake("DRP-1", {" / (1 - p)": ""}, "The scaling is missing: in training what is kept is divided by 1 - p."),
        Mistake("DRP-2a", {"/ (1 - p)": "/ p"},
                "Divided by p, the probability of dropping. The scale is 1 / (that of keeping)."),
        Mistake("DRP-2b", {"/ (1 - p)": "* (1 - p)"},
                "Multiplied by 1 - p: dropping lowers the mean, and this lowers it once more. Divide."),
        Mistake("DRP-3a", {"u >= p": "u < p"},
                "Kept and dropped are reversed: p is the probability of dropping an entry."),
        Mistake("DRP-3b", {"u >= p": "u > p"},
                "Where u = p an entry is kept: with p = 0 nothing is dropped, not even where u = 0."),
        Mistake("DRP-4a", {eval_line: f"        return {upstream} / (1 - p)\n"},
                "It is scaled when not in training, too: there nothing is dropped, and nothing has to be made up for."),
        Mistake("DRP-4b", {eval_line: f"        return {upstream} * (1 - p)\n"},
                "It is scaled by 1 - p when not in training. That belongs to the form that does not scale in "
                "training."),
        Mistake("DRP-5c", {" * keep": ""}, "The mask is missing: everything is scaled, nothing is dropped."),
        Mistake("DRP-6", {"/ (1 - p)": "/ keep.mean()"},
                "Divided by the share that happened to be kept. The scale is 1 - p whatever was drawn."),
        Mistake("DRP-9", {f"    if not training:\n{eval_line}": ""},
                "training is not looked at: random entries are dropped when the model is used, too."),
        Mistake("DRP-7", {"if not training": "if training"},
                "training is reversed: nothing is dropped in training, and random entries when the model is used."),
    )


def dropped(inputs, outputs):
    x, u, p, training, *_ = inputs
    return np.where(training & (u < p), outputs[0], 0)


EXERCISES = [
    Exercise(
        "13.1", "Dropout", minutes=5, lines=4,
        solution=dropout, reference=lambda x, u, p, training: made(u, p, training)(x), inputs=draw, edges=special,
        invariants=(("in training y must be 0 where u < p", dropped),),
        hints=("Which entries stay: those with a small u or those with a large one? p is the probability of dropping.",
               "A kept entry stays with probability 1 - p. By what must it be divided so that its mean is x?",
               "Not in training: return x. Else x times (u >= p), divided by 1 - p."),
        mistakes=both("x"),
        alternatives={"where": {"x * keep / (1 - p)": "np.where(keep, x / (1 - p), 0)"}}),
    Exercise(
        "13.2", "Dropout, backward", minutes=5, lines=4,
        solution=dropout_backward, reference=by_dropout_backward, outputs=("dx",),
        inputs=lambda rng, n: with_dy(rng, draw(rng, n)),
        invariants=(("in training dx must be 0 where u < p", dropped),),
        edges=lambda rng: [(note, with_dy(rng, arguments)) for note, arguments in special(rng)],
        hints=("Given u, forward multiplies each entry by a number. What is the slope of that?",
               "The same entries and the same scale as in forward, and in its other mode too. An x that is 0 by itself "
               "still has a slope.",
               "Not in training: return dy. Else dy times (u >= p), divided by 1 - p."),
        mistakes=(
            *both("dy"),
            Mistake("DRP-5a", {"u >= p": "np.random.default_rng(0).random(x.shape) >= p"},
                    "A new mask is drawn. Backward belongs to the forward that was run, so it reuses that mask."),
            Mistake("DRP-5b", {"u >= p": "x * (u >= p) != 0"},
                    "The mask is read off from y != 0: an x that is 0 by itself was not dropped, and its gradient is "
                    "lost."),
            Mistake("DRP-8", {"dy * keep": "x * keep"}, "Forward is repeated: it is dy that goes back, not x."),
        )),
]
