"""An encoder block as a class, assembled from given parts."""

from ...layers import EncoderBlock as PackageBlock
from ..sandbox import Function
from .definition import Exercise, Mistake
from .shared import Parameter


class Layer:
    def __init__(self, weight, f, f_b):
        self.weight = Parameter(weight)
        self.f = f
        self.f_b = f_b
        self.saved = []                         # {saved}

    def forward(self, x):
        self.saved.append(x)
        return self.f(x, self.weight.data)

    def backward(self, dy):
        dx, dweight = self.f_b(self.saved.pop(), self.weight.data, dy)
        self.weight.grad += dweight
        return dx


class EncoderBlock:
    def __init__(self, norm1, attention, norm2, feed_forward):
        self.norm1 = Layer(*norm1)
        self.attention = Layer(*attention)
        self.norm2 = Layer(*norm2)
        self.feed_forward = Layer(*feed_forward)

    def forward(self, x):
        a = x + self.attention.forward(self.norm1.forward(x))
        return a + self.feed_forward.forward(self.norm2.forward(a))

    def backward(self, dy):
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


SECOND = "return a + self.feed_forward.forward(self.norm2.forward(a))"


EXERCISES = [
    Exercise(
        "10.5", minutes=20, lines=4,
        solution=EncoderBlock, write=("forward", "backward"), given=(Parameter, Layer), inputs=draw_block,
        reference=package_block, outputs=("y", "second y", "second dx", "third y", "third dx", "dx", *(
            f"{part}.weight.grad" for part in ("norm1", "attention", "norm2", "feed_forward"))),
        mistakes=(
            Mistake("RES-1a", {"da = dy + ": "da = ", "return da + ": "return "}),
            Mistake("RES-1b", {"da = dy + ": "da = "}),
            Mistake("RES-1c", {"return da + ": "return "}),
            Mistake("RES-1d", {"a = x + ": "a = ", "return a + ": "return "}),
            Mistake("RES-3", {"da = dy + ": "da = 2 * dy + ", "return da + ": "return 2 * da + "}),
            Mistake("RES-4a", {"a = x + ": "a = x\n        a += "}),
            Mistake("RES-4b", {
                "return a + self.feed_forward.forward(self.norm2.forward(a))":
                    "a += self.feed_forward.forward(self.norm2.forward(a))\n        return a"}),
            Mistake("RES-4c", {"da = dy + ": "da = dy\n        da += "}),
            Mistake("RES-5a", {
                "a = x + self.attention.forward(self.norm1.forward(x))":
                    "n = self.norm1.forward(x)\n        a = n + self.attention.forward(n)",
                "return a + self.feed_forward.forward(self.norm2.forward(a))":
                    "n = self.norm2.forward(a)\n        return n + self.feed_forward.forward(n)"}),
            Mistake("RES-5b", {
                "a = x + self.attention.forward(self.norm1.forward(x))":
                    "a = self.norm1.forward(x + self.attention.forward(x))",
                "return a + self.feed_forward.forward(self.norm2.forward(a))":
                    "return self.norm2.forward(a + self.feed_forward.forward(a))"}),
            Mistake("RES-5c", {
                "self.attention.forward(self.norm1": "self.norm1.forward(self.attention",
                "self.feed_forward.forward(self.norm2": "self.norm2.forward(self.feed_forward"}),
            Mistake("RES-8a", {
                "da = dy + self.norm2.backward(self.feed_forward.backward(dy))":
                    "da = dy + self.norm1.backward(self.attention.backward(dy))",
                "return da + self.norm1.backward(self.attention.backward(da))":
                    "return da + self.norm2.backward(self.feed_forward.backward(da))"}),
            Mistake("RES-9", {
                "self.norm2.backward(self.feed_forward": "self.feed_forward.backward(self.norm2",
                "self.norm1.backward(self.attention": "self.attention.backward(self.norm1"}),
            Mistake("RES-9a", {"self.norm2.backward(self.feed_forward": "self.feed_forward.backward(self.norm2"}),
            Mistake("RES-11b", {"return da + ": "return dy + "}),
            Mistake("RES-11c", {"self.norm2.forward(a)": "self.norm2.forward(x)"}),
            Mistake("RES-11d", {"return a + ": "return x + "}),
            Mistake("RES-1e", {"a = x + ": "a = "}),
            Mistake("RES-1f", {"return a + ": "return "}),
            Mistake("RES-5d", {
                "a = x + self.attention.forward(self.norm1.forward(x))":
                    "a = self.norm1.forward(x + self.attention.forward(x))",
                "return a + self.feed_forward.forward(self.norm2.forward(a))":
                    "return self.norm2.forward(a + self.feed_forward.forward(a))",
                "da = dy + self.norm2.backward(self.feed_forward.backward(dy))":
                    "dy = self.norm2.backward(dy)\n        da = dy + self.feed_forward.backward(dy)",
                "return da + self.norm1.backward(self.attention.backward(da))":
                    "da = self.norm1.backward(da)\n        return da + self.attention.backward(da)"}),
            Mistake("RES-7b", {
                "da = dy + self.norm2.backward(self.feed_forward.backward(dy))":
                    "dy = self.norm2.backward(dy)\n        da = dy + self.feed_forward.backward(dy)",
                "return da + self.norm1.backward(self.attention.backward(da))":
                    "da = self.norm1.backward(da)\n        return da + self.attention.backward(da)"}),
            Mistake("RES-2a", {"da = dy + self.norm2.backward(self.feed_forward.backward(dy))": "da = dy"}),
            Mistake("RES-2b", {"return da + self.norm1.backward(self.attention.backward(da))": "return da"}),
            Mistake("RES-8b", {
                "a = x + self.attention.forward(self.norm1.forward(x))":
                    "a = x + self.feed_forward.forward(self.norm2.forward(x))",
                "return a + self.feed_forward.forward(self.norm2.forward(a))":
                    "return a + self.attention.forward(self.norm1.forward(a))"}),
            Mistake("RES-19a", {"self.norm1.forward(x)": "x", "self.norm2.forward(a)": "a"}),
            Mistake("RES-19c", {
                "self.norm1.forward(x)": "x",
                "self.norm2.forward(a)": "a",
                "self.norm2.backward(self.feed_forward.backward(dy))": "self.feed_forward.backward(dy)",
                "self.norm1.backward(self.attention.backward(da))": "self.attention.backward(da)"}),
        ),
        alternatives={"one name for the stream": {
            "a = x + ": "x = x + ", SECOND: "return x + self.feed_forward.forward(self.norm2.forward(x))"}}),
]
