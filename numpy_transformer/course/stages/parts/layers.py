"""Stages 1 to 4: loss, linear layer and embedding, normalization, feed-forward layer."""

from ...exercises.definition import Mistake
from ..drivers import layers as drivers
from .making import arrays_of, built, new_part, normal, of_exercise


def stage_1():
    return (of_exercise(1, "01.1", checks=("softmax",)),
            of_exercise(1, "01.2", checks=("softmax_backward",)),
            of_exercise(1, "01.3", drivers.cross_entropy, ("CrossEntropyLoss.forward",)),
            of_exercise(1, "01.4", drivers.cross_entropy_backward, ("CrossEntropyLoss.forward", "CrossEntropyLoss.backward")))


def draw_embedding(rng, n):
    ids = rng.integers(n.V - 1, size=n.lead)
    ids.flat[[0, 2, -1]] = 1
    more = rng.integers(n.V - 1, size=(n.S,))
    return (normal(rng, n.V, n.D), ids, more, normal(rng, *n.lead, n.D), normal(rng, n.S, n.D))


def stage_2():
    return (of_exercise(2, "02.2", drivers.linear, ("Linear.forward", "Linear.backward")),
            new_part(2, 2, drivers.embedding, ("Embedding.forward", "Embedding.backward"), draw_embedding,
                     ("x", "second x", "weight.grad"), (
                Mistake("EMB-1", {"np.add.at(self.weight.grad, ids, dx)": "self.weight.grad[ids] += dx"}),
                Mistake("EMB-2", {"np.add.at(self.weight.grad, ids, dx)":
                                  "self.weight.grad[...] = 0\n        np.add.at(self.weight.grad, ids, dx)"}),
                Mistake("EMB-3", {"np.add.at(self.weight.grad, ids, dx)": "self.weight.grad[ids] = dx"}),
                Mistake("EMB-4", {
                    "return self.weight.data[ids]": "return self.weight.data[ids] * self.weight.data.shape[1] ** 0.5"}),
                Mistake("EMB-8", {
                    "np.add.at(self.weight.grad, ids, dx)":
                        "total = np.zeros_like(self.weight.grad)\n        np.add.at(total, ids, dx)\n"
                        "        self.weight.grad[ids] = total[ids]"}),
                Mistake("EMB-9", {"np.add.at(self.weight.grad, ids, dx)":
                                  "for some, part in zip(ids, dx):\n            self.weight.grad[some] += part"}),
                Mistake("EMB-6", {"np.add.at(self.weight.grad, ids, dx)":
                                  "np.add.at(self.weight.grad, ids, dx / np.bincount(ids.ravel())[ids][..., None])"}),
                Mistake("EMB-7", {"np.add.at(self.weight.grad, ids, dx)":
                                  "np.add.at(self.weight.grad, ids, dx * dx.shape[-1] ** 0.5)"}),
                Mistake("EMB-5", {
                    "        ids = self.recall()\n"
                    "        np":
                        "        ids = self._saved.pop(0)[0]\n"
                        "        np"}),
            )))


def draw_far_from_zero(rng, n):
    """Rows whose mean is 10,000 times their deviation, as lists: float32 cannot hold such differences. A gamma is 0."""
    gamma = rng.uniform(0.5, 2, n.D)
    gamma[1] = 0
    return (1e4 + normal(rng, *n.lead, n.D)).tolist(), gamma.tolist(), normal(rng, *n.lead, n.D).tolist()


def stage_3():
    both = ("LayerNorm.forward", "LayerNorm.backward")
    return (of_exercise(3, "08.3", drivers.layer_norm, both),
            new_part(3, 2, drivers.far_from_zero, both, draw_far_from_zero, ("y", "dx", "gamma.grad")))


def draw_feed_forward(rng, n):
    *lead, last = n.lead
    arrays = arrays_of(built("FeedForward", n.D, n.F, 0), rng)
    return (normal(rng, *n.lead, n.D), normal(rng, *n.lead, n.D), normal(rng, *lead, last + 1, n.D),
            normal(rng, *lead, last + 1, n.D), arrays)


def draw_large_numbers(rng, n):
    """Large numbers, and zeros among them."""
    x = 40 * normal(rng, *n.lead, n.D)
    x[..., 0] = 0
    return x, normal(rng, *n.lead, n.D)


def stage_4():
    return (of_exercise(4, "09.2", drivers.gelu, ("GELU.forward",)),
            of_exercise(4, "09.3", drivers.gelu_backward, ("GELU.forward", "GELU.backward")),
            new_part(4, 4, drivers.large_numbers, ("GELU.forward", "GELU.backward"),
                     draw_large_numbers, ("y", "dx"), (
                Mistake("LARGE-1", {"t = np.tanh(C * (x + CUBIC * x * x * x))":
                                    "e = np.exp(2 * C * (x + CUBIC * x * x * x))\n        t = (e - 1) / (e + 1)"}),
            )),
            new_part(4, 3, drivers.feed_forward, ("FeedForward.forward", "FeedForward.backward"), draw_feed_forward,
                     ("y", "second y", "second dx", "dx", "up.weight.grad", "up.bias.grad", "down.weight.grad",
                      "down.bias.grad"), (
                Mistake("FF-1", {"self.down(self.activation(self.up(x)))": "self.down(self.up(x))",
                                 "self.up.backward(self.activation.backward(self.down.backward(dy)))":
                                     "self.up.backward(self.down.backward(dy))"}),
                Mistake("FF-2", {"self.up.backward(self.activation.backward(self.down.backward(dy)))":
                                 "self.up.backward(self.down.backward(dy))"}),
                Mistake("FF-3", {"self.down(self.activation(self.up(x)))": "x + self.down(self.activation(self.up(x)))",
                                 "return self.up.backward": "return dy + self.up.backward"}),
                Mistake("FF-4", {
                    "self.down(self.activation(self.up(x)))": "self.activation(self.down(self.activation(self.up(x))))",
                    "self.down.backward(dy)": "self.down.backward(self.activation.backward(dy))"}),
            )))
