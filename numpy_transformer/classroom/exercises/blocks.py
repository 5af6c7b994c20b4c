"""The wiring of an encoder block, as a class of given parts."""

from ...layers import EncoderBlock as PackageBlock
from ..exercise import Exercise, Mistake
from ..worker import Function
from .given import Parameter


class Layer:
    """A layer y = f(x, weight), whose gradients are (dx, dweight) = f_b(x, weight, dy).

    backward belongs to the latest forward that has had no backward yet, returns dx and adds into weight.grad.
    """

    def __init__(self, weight, f, f_b):
        self.weight, self.f, self.f_b = Parameter(weight), f, f_b
        self.saved = []

    def forward(self, x):
        self.saved.append(x)
        return self.f(x, self.weight.data)

    def backward(self, dy):
        dx, dweight = self.f_b(self.saved.pop(), self.weight.data, dy)
        self.weight.grad += dweight
        return dx


class EncoderBlock:
    """A pre-norm block: attention, then feed_forward, each in a residual connection with its norm before it.

    norm1 belongs to attention, norm2 to feed_forward. The four parts are given, each a Layer with forward(x) and
    backward(dy), called once in the block's forward and once in its backward; what they compute is of no matter here.
    They remember what their backward needs, and add into the gradients of their weights; the block itself has nothing
    to remember.
    """

    def __init__(self, norm1, attention, norm2, feed_forward):
        self.norm1, self.attention = Layer(*norm1), Layer(*attention)
        self.norm2, self.feed_forward = Layer(*norm2), Layer(*feed_forward)

    def forward(self, x):
        """x: (B, T, D).  Return y: (B, T, D)."""
        a = x + self.attention.forward(self.norm1.forward(x))
        return a + self.feed_forward.forward(self.norm2.forward(a))

    def backward(self, dy):
        """dy: (B, T, D), dL/dy.  Return dx: (B, T, D)."""
        da = dy + self.norm2.backward(self.feed_forward.backward(dy))
        return da + self.norm1.backward(self.attention.backward(da))


def normal(rng, *shape):
    return rng.standard_normal(shape)


def draw_block(rng, n):
    """Four small layers, one of which mixes tokens; used twice with different batches, the backwards reversed."""
    norm = (Function("lambda x, w: w * np.tanh(x)"),
            Function("lambda x, w, dy: (dy * w * (1 - np.tanh(x) ** 2), (dy * np.tanh(x)).sum((0, 1)))"))
    attention = (Function("lambda x, w: w @ x"), Function("lambda x, w, dy: (w.T @ dy, (dy @ x.mT).sum(0))"))
    feed_forward = (Function("lambda x, w: np.sin(x) @ w"),
                    Function("lambda x, w, dy: (dy @ w.T * np.cos(x), (np.sin(x).mT @ dy).sum(0))"))
    parts = ((rng.uniform(0.5, 2, n.D), *norm), (normal(rng, n.T, n.T) / n.T ** 0.5, *attention),
             (rng.uniform(0.5, 2, n.D), *norm), (normal(rng, n.D, n.D) / n.D ** 0.5, *feed_forward))
    x, dy = normal(rng, 2, n.B, n.T, n.D)
    later, dlater = normal(rng, 2, n.B + 1, n.T, n.D)
    return parts, (("forward", (x,)), ("forward", (later,)), ("backward", (dlater,)), ("backward", (dy,)))


class Part(Layer):
    """A Layer in the place of one of the package's."""

    def __call__(self, x, *mask_and_more):
        return self.forward(x)


def package_block(*parts):
    block = PackageBlock(1, 1, 1, 0.0)
    block.norm1, block.attention, block.norm2, block.feed_forward = (Part(*part) for part in parts)
    return block


FIRST, SECOND = ("a = x + self.attention.forward(self.norm1.forward(x))",
                 "return a + self.feed_forward.forward(self.norm2.forward(a))")
DA, DX = ("da = dy + self.norm2.backward(self.feed_forward.backward(dy))",
          "return da + self.norm1.backward(self.attention.backward(da))")

EXERCISES = [
    Exercise(
        "10.5", "An encoder block, a class", minutes=20, lines=4,
        solution=EncoderBlock, write=("forward", "backward"), given=(Parameter, Layer), inputs=draw_block,
        reference=package_block, outputs=("y", "second y", "second dx", "dx", *(
            f"{part}.weight.grad" for part in ("norm1", "attention", "norm2", "feed_forward"))),
        hints=("Give the value between the two sublayers a name, such as a. Which of the two does backward meet first?",
               "forward: a is x plus attention of norm1 of x, y is a plus feed_forward of norm2 of a. backward goes "
               "from y to a, then from a to x, and each time adds skip and branch.",
               "da = dy + norm2.backward(feed_forward.backward(dy)), with self. before the parts; in the same way "
               "norm1 and attention lead from da to dx."),
        mistakes=(
            Mistake("RES-1a", {"da = dy + ": "da = ", "return da + ": "return "},
                    "Both skips are forgotten in backward: the gradient goes past each branch, too."),
            Mistake("RES-1b", {"da = dy + ": "da = "}, "The skip past feed_forward is forgotten in backward."),
            Mistake("RES-1c", {"return da + ": "return "}, "The skip past attention is forgotten in backward."),
            Mistake("RES-1d", {"a = x + ": "a = ", "return a + ": "return "},
                    "forward has no skips: each sublayer adds to its input, it does not replace it."),
            Mistake("RES-3", {"da = dy + ": "da = 2 * dy + ", "return da + ": "return 2 * da + "},
                    "In backward the skips are added twice."),
            Mistake("RES-4a", {"a = x + ": "a = x\n        a += "},
                    "+= changes x, the caller's array, and with it what norm1 has remembered: make a new array."),
            Mistake("RES-4b", {SECOND: "a += self.feed_forward.forward(self.norm2.forward(a))\n        return a"},
                    "The second += changes the array that norm2 has remembered, so its backward starts from wrong "
                    "values: make a new array."),
            Mistake("RES-4c", {"da = dy + ": "da = dy\n        da += "},
                    "+= changes dy, the caller's array: make a new one."),
            Mistake("RES-5a", {FIRST: "n = self.norm1.forward(x)\n        a = n + self.attention.forward(n)",
                               SECOND: "n = self.norm2.forward(a)\n        return n + self.feed_forward.forward(n)"},
                    "forward adds to the normalized values: in pre-norm the skip keeps its input as it is."),
            Mistake("RES-5b", {FIRST: "a = self.norm1.forward(x + self.attention.forward(x))",
                               SECOND: "return self.norm2.forward(a + self.feed_forward.forward(a))"},
                    "forward is post-norm: here each norm stands before its sublayer, not behind the sum."),
            Mistake("RES-5c", {"self.attention.forward(self.norm1": "self.norm1.forward(self.attention",
                               "self.feed_forward.forward(self.norm2": "self.norm2.forward(self.feed_forward"},
                    "In forward the norms stand behind their sublayers: they belong before them."),
            Mistake("RES-6", {"da = dy + ": "da = 1 + ", "return da + ": "return 1 + "},
                    "The slope of a skip is 1, but a gradient is the slope times the gradient that arrives: no skip "
                    "brings the number 1."),
            Mistake("RES-7", {DA: "da = self.norm2.backward(dy + self.feed_forward.backward(dy))",
                              DX: "return self.norm1.backward(da + self.attention.backward(da))"},
                    "In backward the skips go through the norms: in pre-norm they go around them."),
            Mistake("RES-8a", {DA: "da = dy + self.norm1.backward(self.attention.backward(dy))",
                               DX: "return da + self.norm2.backward(self.feed_forward.backward(da))"},
                    "backward begins with attention: feed_forward was the last sublayer, so it is the first one here."),
            Mistake("RES-9", {"self.norm2.backward(self.feed_forward": "self.feed_forward.backward(self.norm2",
                              "self.norm1.backward(self.attention": "self.attention.backward(self.norm1"},
                    "In the branches the norms are undone before their sublayers: forward took each norm first, so "
                    "backward comes to it last."),
            Mistake("RES-11a", {"self.attention.backward(da)": "self.attention.backward(dy)"},
                    "In backward, attention is given dy: it needs the gradient of its own sum, to which "
                    "feed_forward's branch has been added."),
            Mistake("RES-11b", {"return da + ": "return dy + "},
                    "The skip past attention brings dy: what feed_forward's branch has added to it is lost."),
            Mistake("RES-11c", {"self.norm2.forward(a)": "self.norm2.forward(x)"},
                    "In forward, feed_forward reads the block's input: it has to read the sum of that and attention's "
                    "branch."),
            Mistake("RES-11d", {"return a + ": "return x + "},
                    "The second sum of forward begins with x, so what attention has added is lost: begin with the "
                    "first sum."),
            Mistake("RES-14", {"self.norm2.forward": "self.norm1.forward",
                               "self.norm2.backward": "self.norm1.backward"},
                    "Both sublayers use norm1: each has its own norm."),
        ),
        alternatives={"one name for the stream": {
            "a = x + ": "x = x + ", SECOND: "return x + self.feed_forward.forward(self.norm2.forward(x))"}}),
]
