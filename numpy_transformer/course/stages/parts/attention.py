"""Stages 5 to 7: attention of one head, many heads, the block."""

import numpy as np

from ...checker.components import without_dropout
from ...exercises import exercises
from ...exercises.definition import Mistake
from ..drivers import attention as drivers
from .making import arrays_of, built, new_part, normal, of_exercise


def visible_scores(rng, n):
    """Scores, and a mask in which every query sees a key."""
    mask = rng.random((*n.lead, n.S)) < 0.5
    mask[..., 0] |= ~mask.any(-1)
    return normal(rng, *n.lead, n.S), mask


def draw_attention_twice(rng, n):
    *batch, T = n.lead
    e = n.d + 1                                 # the width of the values
    q, dy, k, v = (normal(rng, *batch, *shape) for shape in ((T, n.d), (T, e), (n.S, n.d), (n.S, e)))
    mask = rng.random((T, n.S)) < 0.5
    mask[:, 0] = True
    q2, dy2, k2, v2 = (normal(rng, *batch, *shape) for shape in ((n.S, n.d), (n.S, e), (T, n.d), (T, e)))
    shape = (batch[0], 1, 1, T) if len(batch) == 2 else (1, T)              # the same for all queries, or those of a text
    padding = rng.random(shape) < 0.7
    padding[..., 0] = True
    k2 = np.where(np.swapaxes(np.atleast_2d(padding), -1, -2) if padding.ndim == 2 else padding[:, 0].mT[:, None], k2, 3000 * k2)
    return q, k, v, mask, dy, q2, k2, v2, padding, dy2


def plain_weights(exercise):
    """Returns `inputs` and `edges` of attention_backward without dropout."""
    def adapted(arguments):
        return tuple(without_dropout(dict(zip(exercise.parameters, arguments))).values())
    return {"inputs": lambda rng, n: adapted(exercise.inputs(rng, n)), "edges": lambda rng: []}


def stage_5():
    backward = exercises()["05.2"]
    return (of_exercise(5, "06.1", checks=("causal_mask",)),
            of_exercise(5, "05.1", drivers.attention, ("Attention.forward",)),
            of_exercise(5, "06.3", drivers.masked_softmax, ("Attention.forward",), inputs=visible_scores,
                        edges=lambda rng: [], number_sizes=("tiny",), must_be_zero={}),
            of_exercise(5, "05.2", drivers.attention_backward, ("Attention.forward", "Attention.backward"),
                        **plain_weights(backward)),
            new_part(5, 5, drivers.attention_twice, ("Attention.forward", "Attention.backward"), draw_attention_twice,
                     ("y", "second y", "second dq", "second dk", "second dv", "dq", "dk", "dv"), (
                Mistake("ATT-3", {
                    "        self.remember(q, k, v, p)":
                        "        self.mask = mask\n"
                        "        self.remember(q, k, v)",
                    "q, k, v, p = self.recall()":
                        "q, k, v = self.recall()\n"
                        "        scores = q @ k.mT / math.sqrt(q.shape[-1])\n"
                        "        p = softmax(scores if self.mask is None else np.where(self.mask, scores, -np.inf))"}),
                Mistake("ATT-1", {"q, k, v, p = self.recall()": "q, k, v, p = self._saved.pop(0)"}),
                Mistake("ATT-2", {"self.remember(q, k, v, p)": "self.q, self.k, self.v = q, k, v",
                                  "q, k, v, p = self.recall()": "q, k, v, p = self.q, self.k, self.v, self.weights"}),
            )))


def draw_padded_attention(rng, n):
    """Queries, a memory with padding, and the gradient; the mask has axes of size 1 for heads and queries."""
    batch = n.lead[-2:-1]
    arrays = arrays_of(built("MultiHeadAttention", n.D, n.H, 0), rng)
    mask = rng.random((*batch, 1, 1, n.S) if batch else (1, n.S)) < 0.7
    mask[..., 0] = True
    x, dy = normal(rng, 2, *batch, n.T, n.D)
    return x, normal(rng, *batch, n.S, n.D), mask, dy, n.H, arrays


def stage_6():
    both = ("MultiHeadAttention.forward", "MultiHeadAttention.backward")
    return (of_exercise(6, "07.1", checks=("split_heads",)),
            of_exercise(6, "07.2", checks=("merge_heads",)),
            of_exercise(6, "07.6", drivers.self_attention, both),
            of_exercise(6, "07.5", drivers.cross_attention_backward, both),
            new_part(6, 5, drivers.padded_attention, both, draw_padded_attention, ("y", "dx", "dmemory", "self dx",
                                                                                   "self dmemory", "gradients"), (
                Mistake("MHA-6", {"dq, dk, dv = self.attention.backward": "dq, dv, dk = self.attention.backward"}),
                Mistake("MHA-5", {
                    "        q = split_heads(self.query(x)": "        self.remember(x is memory)\n        q = split_heads(self.query(x)",
                    "return self.query.backward(merge_heads(dq)), dmemory":
                        "dx = self.query.backward(merge_heads(dq))\n"
                        "        return (dx + dmemory, 0 * dmemory) if self.recall() else (dx, dmemory)"}),
                Mistake("MHA-1", {"self.attention(q, k, v, mask)": "self.attention(q, k, v)"}),
                Mistake("MHA-2", {"return self.query.backward(merge_heads(dq)), dmemory":
                                  "dx = self.query.backward(merge_heads(dq))\n        return dmemory, dx"}),
                Mistake("MHA-3", {"self.value(memory)": "self.value(x)"}),
                Mistake("MHA-4", {"self.key(memory)": "self.key(x)"}),
            )))


def draw_block(rng, n):
    *batch, T = n.lead
    arrays = arrays_of(built("Block", n.D, n.H, n.F, 0), rng)
    x, dy = normal(rng, 2, *batch, T, n.D)
    more, dmore = normal(rng, 2, *batch, T + 1, n.D)
    return x, np.tri(T, dtype=bool), dy, more, dmore, n.H, arrays


def stage_7():
    return new_part(7, 1, drivers.block, ("Block.forward", "Block.backward"), draw_block,
                    ("y", "second y", "second dx", "dx", "gradients"), (
        Mistake("BLK-1", {"dx = dy + self.norm2": "dx = self.norm2"}),
        Mistake("BLK-2", {"return dx + self.norm1": "return self.norm1"}),
        Mistake("BLK-3", {"return dx + self.norm1": "return dy + self.norm1"}),
        Mistake("BLK-4", {"self.attention.backward(dx)": "self.attention.backward(dy)"}),
        Mistake("BLK-5", {"self.norm1.backward(dquery + dmemory)": "self.norm1.backward(dquery)"}),
        Mistake("BLK-14", {"self.norm1.backward(dquery + dmemory)": "self.norm1.backward(dmemory)"}),
        Mistake("BLK-15", {
            "h = self.norm1(x)\n        x = x + self.attention(h, h, mask)":
                "x = x + self.attention(self.norm1(x), self.norm1(x), mask)"}),
        Mistake("BLK-6", {"self.attention(h, h, mask)": "self.attention(h, x, mask)"}),
        Mistake("BLK-7", {"self.attention(h, h, mask)": "self.attention(h, h)"}),
        Mistake("BLK-8", {"return x + self.feed_forward(self.norm2(x))": "return x + self.feed_forward(x)"}),
        Mistake("BLK-9", {"x = x + self.attention(h, h, mask)": "x = self.attention(h, h, mask)",
                          "return dx + self.norm1": "return self.norm1"}),
        Mistake("BLK-10", {"x = x + self.attention(h, h, mask)": "x = h + self.attention(h, h, mask)"}),
        Mistake("BLK-11", {
            "h = self.norm1(x)\n"
            "        x = x + self.attention(h, h, mask)\n"
            "        return x + self.feed_forward(self.norm2(x))":
                "x = self.norm1(x + self.attention(x, x, mask))\n"
                "        return self.norm2(x + self.feed_forward(x))"}),
        Mistake("BLK-12", {"return x + self.feed_forward(self.norm2(x))": "return self.feed_forward(self.norm2(x))",
                           "dx = dy + self.norm2": "dx = self.norm2"}),
        Mistake("BLK-13", {"return x + self.feed_forward(self.norm2(x))": "return self.feed_forward(self.norm2(x))"}),
    )),
