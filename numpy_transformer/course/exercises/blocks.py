"""An encoder block as a class, assembled from given parts."""

from ...layers import EncoderBlock as PackageBlock
from ..sandbox import Function
from .definition import Exercise, Mistake
from .given import CLEARED, Parameter


class Layer:
    """A layer y = f(x, weight), whose gradients are (dx, dweight) = f_b(x, weight, dy).

    backward returns dx and adds into weight.grad. Each backward pass belongs to the latest forward pass that has not
    had one yet.
    """

    def __init__(self, weight, f, f_b):
        self.weight = Parameter(weight)
        self.f = f
        self.f_b = f_b
        self.saved = []                         # values that forward saves for backward, the latest last

    def forward(self, x):
        self.saved.append(x)
        return self.f(x, self.weight.data)

    def backward(self, dy):
        dx, dweight = self.f_b(self.saved.pop(), self.weight.data, dy)
        self.weight.grad += dweight
        return dx


class EncoderBlock:
    """A pre-norm block: attention, then feed_forward, each in a residual connection with its norm before it.

    norm1 belongs to attention, norm2 to feed_forward. The four parts are given. Each is a Layer with forward(x) and
    backward(dy), to be called once in the block's forward and once in its backward; what it computes does not matter
    here. The parts save what their backward needs and add into the gradients of their weights. The block itself saves
    nothing.
    """

    def __init__(self, norm1, attention, norm2, feed_forward):
        self.norm1 = Layer(*norm1)
        self.attention = Layer(*attention)
        self.norm2 = Layer(*norm2)
        self.feed_forward = Layer(*feed_forward)

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
    """Four small layers, one of which mixes tokens, used three times, and backward for the latest use each time.

    The third forward follows a backward, whose gradients it must leave as they are.
    """
    norm = (Function("lambda x, w: w * np.tanh(x)"),
            Function("lambda x, w, dy: (dy * w * (1 - np.tanh(x) ** 2), (dy * np.tanh(x)).sum((0, 1)))"))
    attention = (Function("lambda x, w: w @ x"), Function("lambda x, w, dy: (w.T @ dy, (dy @ x.mT).sum(0))"))
    feed_forward = (Function("lambda x, w: np.sin(x) @ w"),
                    Function("lambda x, w, dy: (dy @ w.T * np.cos(x), (np.sin(x).mT @ dy).sum(0))"))
    parts = ((rng.uniform(0.5, 2, n.D), *norm), (normal(rng, n.T, n.T) / n.T ** 0.5, *attention),
             (rng.uniform(0.5, 2, n.D), *norm), (normal(rng, n.D, n.D) / n.D ** 0.5, *feed_forward))
    x, dy = normal(rng, 2, n.B, n.T, n.D)
    later, dlater = normal(rng, 2, n.B + 1, n.T, n.D)
    return parts, (("forward", (x,)), ("forward", (later,)), ("backward", (dlater,)),
                   ("forward", (x + 1,)), ("backward", (dy + 1,)), ("backward", (dy,)))


class Part(Layer):
    """A Layer that takes the place of one of the package's."""

    def __call__(self, x, *mask_and_more):
        return self.forward(x)


def package_block(*parts):
    block = PackageBlock(1, 1, 1, 0.0)
    block.norm1, block.attention, block.norm2, block.feed_forward = (Part(*part) for part in parts)
    return block


FIRST = "a = x + self.attention.forward(self.norm1.forward(x))"
SECOND = "return a + self.feed_forward.forward(self.norm2.forward(a))"
DA = "da = dy + self.norm2.backward(self.feed_forward.backward(dy))"
DX = "return da + self.norm1.backward(self.attention.backward(da))"

EXERCISES = [
    Exercise(
        "10.5", "An encoder block, a class", minutes=20, lines=4,
        solution=EncoderBlock, write=("forward", "backward"), given=(Parameter, Layer), inputs=draw_block,
        reference=package_block, outputs=("y", "second y", "second dx", "third y", "third dx", "dx", *(
            f"{part}.weight.grad" for part in ("norm1", "attention", "norm2", "feed_forward"))),
        hints=("Give the value between the two sublayers a name, such as a. Which of the two sublayers does backward "
               "reach first?",
               "forward: a is x plus attention of norm1 of x, and y is a plus feed_forward of norm2 of a. backward "
               "goes from y to a and then from a to x, and each time adds the gradients of the skip connection and the "
               "branch.",
               "da = dy + norm2.backward(feed_forward.backward(dy)), with self. before the parts. In the same way, "
               "norm1 and attention lead from da to dx."),
        mistakes=(
            Mistake("RES-1a", {"da = dy + ": "da = ", "return da + ": "return "},
                    "Both skip connections are missing in your backward. The gradient also goes around each branch."),
            Mistake("RES-1b", {"da = dy + ": "da = "},
                    "The skip connection around feed_forward is missing in your backward."),
            Mistake("RES-1c", {"return da + ": "return "},
                    "The skip connection around attention is missing in your backward."),
            Mistake("RES-1d", {"a = x + ": "a = ", "return a + ": "return "},
                    "Your forward has no skip connections. Each sublayer adds to its input; it does not replace it."),
            Mistake("RES-3", {"da = dy + ": "da = 2 * dy + ", "return da + ": "return 2 * da + "},
                    "Your backward adds the gradients of the skip connections twice."),
            Mistake("RES-4a", {"a = x + ": "a = x\n        a += "},
                    "+= changes x, the caller's array, and with it the value that norm1 has saved. Make a new array."),
            Mistake("RES-4b", {SECOND: "a += self.feed_forward.forward(self.norm2.forward(a))\n        return a"},
                    "The second += changes the array that norm2 has saved, so its backward uses wrong values. Make a "
                    "new array."),
            Mistake("RES-4c", {"da = dy + ": "da = dy\n        da += "},
                    "+= changes dy, the caller's array. Make a new array."),
            Mistake("RES-5a", {FIRST: "n = self.norm1.forward(x)\n        a = n + self.attention.forward(n)",
                               SECOND: "n = self.norm2.forward(a)\n        return n + self.feed_forward.forward(n)"},
                    "Your forward adds to the normalized values. In pre-norm, the skip connection leaves its input "
                    "unchanged."),
            Mistake("RES-5b", {FIRST: "a = self.norm1.forward(x + self.attention.forward(x))",
                               SECOND: "return self.norm2.forward(a + self.feed_forward.forward(a))"},
                    "Your forward is post-norm. In pre-norm, each norm comes before its sublayer, not after the sum."),
            Mistake("RES-5c", {"self.attention.forward(self.norm1": "self.norm1.forward(self.attention",
                               "self.feed_forward.forward(self.norm2": "self.norm2.forward(self.feed_forward"},
                    "Your forward applies the norms after their sublayers. In pre-norm, they come before."),
            Mistake("RES-6", {"da = dy + ": "da = 1 + ", "return da + ": "return 1 + "},
                    "You add the number 1 for a skip connection. Its derivative is 1, but its gradient is the "
                    "derivative times the gradient that arrives."),
            Mistake("RES-7", {DA: "da = self.norm2.backward(dy + self.feed_forward.backward(dy))",
                              DX: "return self.norm1.backward(da + self.attention.backward(da))"},
                    "In your backward the skip connections pass through the norms. In pre-norm they go around them."),
            Mistake("RES-8a", {DA: "da = dy + self.norm1.backward(self.attention.backward(dy))",
                               DX: "return da + self.norm2.backward(self.feed_forward.backward(da))"},
                    "Your backward starts with attention. feed_forward was the last sublayer of forward, so it is the "
                    "first one of backward."),
            Mistake("RES-9", {"self.norm2.backward(self.feed_forward": "self.feed_forward.backward(self.norm2",
                              "self.norm1.backward(self.attention": "self.attention.backward(self.norm1"},
                    "You apply the backward of each norm before that of its sublayer. Forward applied the norm first, "
                    "so backward reaches it last."),
            Mistake("LIN-7c", {FIRST: "for part in (self.norm1, self.attention, self.norm2, self.feed_forward):\n"
                                      "            part.weight.grad[:] = 0\n        " + FIRST}, CLEARED),
            Mistake("RES-9a", {"self.norm2.backward(self.feed_forward": "self.feed_forward.backward(self.norm2"},
                    "You apply the backward of norm2 before that of feed_forward. Forward applied the norm first, so "
                    "backward reaches it last."),
            Mistake("RES-9b", {"self.norm1.backward(self.attention": "self.attention.backward(self.norm1"},
                    "You apply the backward of norm1 before that of attention. Forward applied the norm first, so "
                    "backward reaches it last."),
            Mistake("RES-11a", {"self.attention.backward(da)": "self.attention.backward(dy)"},
                    "You pass dy to the backward of attention. It needs the gradient of its own sum, which also "
                    "contains the contribution of feed_forward's branch."),
            Mistake("RES-11b", {"return da + ": "return dy + "},
                    "Your skip connection around attention contributes dy, so the contribution of feed_forward's "
                    "branch is lost."),
            Mistake("RES-11c", {"self.norm2.forward(a)": "self.norm2.forward(x)"},
                    "In your forward, feed_forward reads the block's input. It must read the sum of that input and the "
                    "output of attention."),
            Mistake("RES-11d", {"return a + ": "return x + "},
                    "The second sum of your forward starts with x, so the output of attention is lost. Start with the "
                    "first sum."),
            Mistake("RES-1e", {"a = x + ": "a = "},
                    "The skip connection around attention is missing in your forward."),
            Mistake("RES-1f", {"return a + ": "return "},
                    "The skip connection around feed_forward is missing in your forward."),
            Mistake("RES-5d", {FIRST: "a = self.norm1.forward(x + self.attention.forward(x))",
                               SECOND: "return self.norm2.forward(a + self.feed_forward.forward(a))",
                               DA: "dy = self.norm2.backward(dy)\n        da = dy + self.feed_forward.backward(dy)",
                               DX: "da = self.norm1.backward(da)\n        return da + self.attention.backward(da)"},
                    "Your forward and backward fit together, but they are post-norm. In pre-norm, each norm comes "
                    "before its sublayer, not after the sum."),
            Mistake("RES-7b", {DA: "dy = self.norm2.backward(dy)\n        da = dy + self.feed_forward.backward(dy)",
                               DX: "da = self.norm1.backward(da)\n        return da + self.attention.backward(da)"},
                    "Your backward is that of a post-norm block. In pre-norm the norm is inside the branch, before "
                    "its sublayer."),
            Mistake("RES-2a", {DA: "da = dy"},
                    "Your backward leaves out feed_forward and norm2. The gradient goes around the branch and through "
                    "it."),
            Mistake("RES-2b", {DX: "return da"},
                    "Your backward leaves out attention and norm1. The gradient goes around the branch and through "
                    "it."),
            Mistake("RES-8b", {FIRST: "a = x + self.feed_forward.forward(self.norm2.forward(x))",
                               SECOND: "return a + self.attention.forward(self.norm1.forward(a))"},
                    "Your forward starts with feed_forward. attention comes first."),
            Mistake("RES-19a", {"self.norm1.forward(x)": "x", "self.norm2.forward(a)": "a"},
                    "Your forward does not use the norms. Each sublayer reads its input through its norm."),
            Mistake("RES-19b", {"self.norm2.backward(self.feed_forward.backward(dy))": "self.feed_forward.backward(dy)",
                                "self.norm1.backward(self.attention.backward(da))": "self.attention.backward(da)"},
                    "Your backward leaves out the norms. In each branch, the gradient passes through the sublayer, "
                    "then through its norm."),
            Mistake("RES-19c", {"self.norm1.forward(x)": "x", "self.norm2.forward(a)": "a",
                                "self.norm2.backward(self.feed_forward.backward(dy))": "self.feed_forward.backward(dy)",
                                "self.norm1.backward(self.attention.backward(da))": "self.attention.backward(da)"},
                    "Your block does not use its norms. Each sublayer reads its input through its norm, and backward "
                    "passes through both."),
            Mistake("RES-20", {"self.norm1.forward(x)": "self.norm1(x)"},
                    "A part of the block is a Layer with the methods forward and backward. It cannot be called like a "
                    "function."),
            Mistake("RES-14", {"self.norm2.forward": "self.norm1.forward",
                               "self.norm2.backward": "self.norm1.backward"},
                    "Both of your sublayers use norm1. Each has its own norm."),
        ),
        alternatives={"one name for the stream": {
            "a = x + ": "x = x + ", SECOND: "return x + self.feed_forward.forward(self.norm2.forward(x))"}}),
]
