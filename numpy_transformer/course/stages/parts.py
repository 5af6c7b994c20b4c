"""What is checked in each stage: exercises of the course whose answers drivers make of the student's classes, and others.

The others compare a class with the package's component. Their known mistakes are edits of the reference program.
"""

import functools
import inspect
import tempfile
from types import SimpleNamespace

import numpy as np

from ..checker.components import without_dropout
from ..exercises import exercises
from ..exercises.definition import Mistake
from ...pretrained import load_pretrained
from . import drivers, package
from .definition import StagePart, like

# Texts and the words into which GPT-2's pattern cuts them
WORDS = {
    "Hello, world!": ["Hello", ",", " world", "!"],
    "  two  spaces and\na line": [" ", " two", " ", " spaces", " and", "\n", "a", " line"],
    "it's 2024's na\u00efve caf\u00e9": ["it", "'s", " 2024", "'s", " na\u00efve", " caf\u00e9"],
    "don't we'll": ["don", "'t", " we", "'ll"],
    "alolo xab": ["alolo", " xab"],
    "\u65e5\u672c 3.14_x": ["\u65e5\u672c", " 3", ".", "14", "_", "x"],
}
LINKED = ("config", "ends", "count", "num_heads", "num_layers", "arrays", "pad_id", "source", "texts", "vocabulary", "merges",
          "xs", "targets", "rates", "draws")    # arguments that belong together


def of_exercise(stage, number, driver=None, checks=(), **changes):
    """Returns the StagePart that is the exercise of this number."""
    return like(exercises()[number], stage=stage, drives=driver, checks=checks, **changes)


def new_part(stage, number, driver, checks, inputs, outputs, mistakes=(), **more):
    """Returns a StagePart of its own, whose correct results are those of the package's components."""
    reference = more.pop("reference", None) or package.driven(driver)
    linked = tuple(name for name in inspect.signature(driver).parameters if name in LINKED)
    return StagePart(f"{stage}.{number}", minutes=0, lines=0, solution=driver, reference=reference, inputs=inputs,
                     outputs=outputs, mistakes=mistakes, stage=stage, drives=driver, checks=checks, from_stage=True,
                     number_sizes=(), linked=(linked,) if linked else (), **more)


@functools.cache
def parts_of(stage):
    """Returns the parts of a stage, in the order in which they are checked."""
    return STAGES[stage]()


def normal(rng, *shape):
    return rng.standard_normal(shape)


def arrays_of(component, rng, scale=0.4):
    """Returns {name: random array} for all parameters of a component of the package; none is 1 or 0 on average."""
    return {name: rng.uniform(0.5, 2, parameter.data.shape) if name.endswith("gamma")
            else scale * rng.standard_normal(parameter.data.shape)
            for name, parameter in drivers.parameters_of(component).items()}


def built(name, *sizes):
    """Returns a component of the package, built with these sizes."""
    return package.named()[name](*sizes)


# Stage 1: the loss

def stage_1():
    return (of_exercise(1, "01.1", checks=("softmax",)),
            of_exercise(1, "01.2", checks=("softmax_backward",)),
            of_exercise(1, "01.3", drivers.cross_entropy, ("CrossEntropyLoss.forward",)),
            of_exercise(1, "01.4", drivers.cross_entropy_backward, ("CrossEntropyLoss.forward", "CrossEntropyLoss.backward")))


# Stage 2: linear and embedding

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
                Mistake("EMB-4", {"return self.weight.data[ids]": "return self.weight.data[ids] * self.weight.data.shape[1] ** 0.5"}),
                Mistake("EMB-6", {"np.add.at(self.weight.grad, ids, dx)":
                                  "np.add.at(self.weight.grad, ids, dx / np.bincount(ids.ravel())[ids][..., None])"}),
                Mistake("EMB-7", {"np.add.at(self.weight.grad, ids, dx)":
                                  "np.add.at(self.weight.grad, ids, dx * dx.shape[-1] ** 0.5)"}),
                Mistake("EMB-5", {"        ids = self.recall()\n        np": "        ids = self._saved.pop(0)[0]\n        np"}),
            )))


# Stage 3: normalization

def draw_far_from_zero(rng, n):
    """Rows whose mean is 10,000 times their deviation, as lists: float32 cannot hold such differences."""
    return (1e4 + normal(rng, *n.lead, n.D)).tolist(), normal(rng, *n.lead, n.D).tolist()


def stage_3():
    both = ("LayerNorm.forward", "LayerNorm.backward")
    return (of_exercise(3, "08.3", drivers.layer_norm, both),
            new_part(3, 2, drivers.far_from_zero, both, draw_far_from_zero, ("y", "dx")))


# Stage 4: activation and feed-forward

def draw_feed_forward(rng, n):
    *lead, last = n.lead
    arrays = arrays_of(built("FeedForward", n.D, n.F, 0), rng)
    return (normal(rng, *n.lead, n.D), normal(rng, *n.lead, n.D), normal(rng, *lead, last + 1, n.D),
            normal(rng, *lead, last + 1, n.D), arrays)


def stage_4():
    return (of_exercise(4, "09.2", drivers.gelu, ("GELU.forward",)),
            of_exercise(4, "09.3", drivers.gelu_backward, ("GELU.forward", "GELU.backward")),
            new_part(4, 4, drivers.large_numbers, ("GELU.forward", "GELU.backward"),
                     lambda rng, n: (40 * normal(rng, *n.lead, n.D), normal(rng, *n.lead, n.D)), ("y", "dx"), (
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
                Mistake("FF-4", {"self.down(self.activation(self.up(x)))": "self.activation(self.down(self.activation(self.up(x))))",
                                 "self.down.backward(dy)": "self.down.backward(self.activation.backward(dy))"}),
            )))


# Stage 5: attention

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
                Mistake("ATT-3", {"        self.remember(q, k, v, p)": "        self.mask = mask\n        self.remember(q, k, v)",
                                  "q, k, v, p = self.recall()": "q, k, v = self.recall()\n        scores = q @ k.mT / math.sqrt(q.shape[-1])\n"
                                  "        p = softmax(scores if self.mask is None else np.where(self.mask, scores, -np.inf))"}),
                Mistake("ATT-1", {"q, k, v, p = self.recall()": "q, k, v, p = self._saved.pop(0)"}),
                Mistake("ATT-2", {"self.remember(q, k, v, p)": "self.q, self.k, self.v = q, k, v",
                                  "q, k, v, p = self.recall()": "q, k, v, p = self.q, self.k, self.v, self.weights"}),
            )))


# Stage 6: heads

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
            new_part(6, 5, drivers.padded_attention, both, draw_padded_attention, ("y", "dx", "dmemory", "dx for x as memory",
                                                                                   "dmemory for x as memory", "gradients"), (
                Mistake("MHA-5", {"return self.query.backward(merge_heads(dq)), dmemory":
                                  "dx = self.query.backward(merge_heads(dq))\n        if dx.shape == dmemory.shape:\n"
                                  "            return dx + dmemory, 0 * dmemory\n        return dx, dmemory"}),
                Mistake("MHA-1", {"self.attention(q, k, v, mask)": "self.attention(q, k, v)"}),
                Mistake("MHA-2", {"return self.query.backward(merge_heads(dq)), dmemory":
                                  "dx = self.query.backward(merge_heads(dq))\n        return dmemory, dx"}),
                Mistake("MHA-3", {"self.value(memory)": "self.value(x)"}),
                Mistake("MHA-4", {"self.key(memory)": "self.key(x)"}),
            )))


# Stage 7: the block

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
        Mistake("BLK-6", {"self.attention(h, h, mask)": "self.attention(h, x, mask)"}),
        Mistake("BLK-7", {"self.attention(h, h, mask)": "self.attention(h, h)"}),
        Mistake("BLK-8", {"return x + self.feed_forward(self.norm2(x))": "return x + self.feed_forward(x)"}),
        Mistake("BLK-9", {"x = x + self.attention(h, h, mask)": "x = self.attention(h, h, mask)",
                          "return dx + self.norm1": "return self.norm1"}),
        Mistake("BLK-10", {"x = x + self.attention(h, h, mask)": "x = h + self.attention(h, h, mask)"}),
        Mistake("BLK-11", {"h = self.norm1(x)\n        x = x + self.attention(h, h, mask)\n        return x + self.feed_forward(self.norm2(x))":
                           "x = self.norm1(x + self.attention(x, x, mask))\n        return self.norm2(x + self.feed_forward(x))"}),
        Mistake("BLK-12", {"return x + self.feed_forward(self.norm2(x))": "return self.feed_forward(self.norm2(x))",
                           "dx = dy + self.norm2": "dx = self.norm2"}),
        Mistake("BLK-13", {"return x + self.feed_forward(self.norm2(x))": "return self.feed_forward(self.norm2(x))"}),
    )),


# Stage 8: the model

def draw_language_model(rng, n):
    small = SimpleNamespace(V=n.V, D=2 * n.H, F=n.F, H=n.H)
    model = built("LanguageModel", small.V, n.T + 3, small.D, small.H, small.F, 2, 0)
    arrays = arrays_of(model, rng)
    batch = n.lead[-2:-1]                       # the package's models take one batch axis at most
    ids, more = rng.integers(0, n.V, (*batch, n.T)), rng.integers(0, n.V, (*batch, n.T + 1))
    return (ids, normal(rng, *ids.shape, n.V), more, normal(rng, *more.shape, n.V), n.H, 2, arrays)


def stage_8():
    return new_part(8, 1, drivers.language_model, ("LanguageModel.forward", "LanguageModel.backward"), draw_language_model,
                    ("logits", "second logits", "embedding.weight.grad", "positions.grad", "norm.gamma.grad",
                     "norm.beta.grad", "gradients of the blocks"), (
        Mistake("LM-1", {"        self.embedding.weight.grad += dlogits.reshape(-1, dlogits.shape[-1]).T @ h.reshape(-1, h.shape[-1])\n": ""}),
        Mistake("LM-2", {"        self.embedding.backward(dx)\n": ""}),
        Mistake("LM-3", {"        self.positions.grad[:dx.shape[-2]] += dx.reshape(-1, *dx.shape[-2:]).sum(0)\n": ""}),
        Mistake("LM-4", {"dx.reshape(-1, *dx.shape[-2:]).sum(0)": "dx.reshape(-1, *dx.shape[-2:]).mean(0)"}),
        Mistake("LM-5", {"self.positions.grad[:dx.shape[-2]] +=": "self.positions.grad[:dx.shape[-2]] ="}),
        Mistake("LM-6", {"h = self.norm(x)": "h = x", "self.norm.backward(dlogits @ self.embedding.weight.data)":
                         "dlogits @ self.embedding.weight.data"}),
        Mistake("LM-7", {"for block in reversed(self.blocks)": "for block in self.blocks"}),
        Mistake("LM-8", {"x = block(x, mask)": "x = block(x)"}),
        Mistake("LM-9", {" + self.positions.data[:T]": ""}),
        Mistake("LM-10", {"        self.remember(h)": "        self.remember(x)"}),
        Mistake("LM-11", {"self.embedding.weight.grad += dlogits": "self.embedding.weight.grad = dlogits"}),
        Mistake("LM-12", {"self.positions.data[:T]": "self.positions.data[-T:]"}),
        Mistake("LM-13", {"mask = causal_mask(T)": "mask = causal_mask(T).T"}),
    )),


# Stage 9: training

def draw_loop(rng, n):
    steps, rows = 4, n.B + 2
    w, xs, targets = normal(rng, n.d, n.V), normal(rng, steps, rows, n.d), 9 * normal(rng, steps, rows, n.V)
    rates = [round(float(rate), 3) for rate in rng.uniform(0.05, 0.4, steps)]
    return w, list(xs), list(targets), rates, round(float(rng.uniform(0.3, 0.5)), 3)


def loop_by_hand(w, xs, targets, rates, max_norm):
    """The same, by the formulas of the gradient, without a model or an optimizer."""
    losses = []
    for x, t, rate in zip(xs, targets, rates):
        difference = x @ w - t
        losses.append((difference ** 2).mean() / 2)
        gradient = x.T @ difference / difference.size
        norm = np.sqrt((gradient ** 2).sum())
        w = w - rate * gradient * min(1, max_norm / norm)
    return np.array(losses, xs[0].dtype), w, np.array(rates, xs[0].dtype)


def stage_9():
    return (of_exercise(9, "19.2", drivers.adamw_step, ("AdamW.step",)),
            of_exercise(9, "19.4", drivers.clipped, ("clip_gradients",)),
            of_exercise(9, "19.3", drivers.rate, ("learning_rate",)),
            new_part(9, 4, drivers.training_loop, ("train",), draw_loop, ("losses", "weights", "learning rates"), (
                Mistake("LOOP-1", {"        for parameter in optimizer.parameters:\n            parameter.grad[...] = 0\n": ""}),
                Mistake("LOOP-2", {"        clip_gradients(optimizer.parameters, max_norm)\n": ""}),
                Mistake("LOOP-3", {"        optimizer.lr = rate(n)\n        optimizer.step()": "        optimizer.step()\n        optimizer.lr = rate(n)"}),
                Mistake("LOOP-4", {"enumerate(batches, 1)": "enumerate(batches, 2)"}),
                Mistake("LOOP-5", {"        optimizer.lr = rate(n)\n": ""}),
                Mistake("LOOP-6", {"        optimizer.step()\n    return": "        optimizer.step()\n        losses[-1] = loss(model(*inputs), targets)\n    return"}),
                Mistake("LOOP-7", {"        optimizer.step()\n    return": "    return"}),
                Mistake("LOOP-8", {"        model.backward(loss.backward())\n": ""}),
                Mistake("LOOP-10", {"        for parameter in optimizer.parameters:\n            parameter.grad[...] = 0\n": "",
                                    "        optimizer.step()\n    return": "        optimizer.step()\n        for parameter in optimizer.parameters:\n            parameter.grad[...] = 0\n    return"}),
                Mistake("LOOP-9", {"enumerate(batches, 1)": "enumerate(batches)"}),
            ), reference=loop_by_hand))


# Stage 10: sampling

def draw_logits(rng, n):
    return 3 * normal(rng, n.V), round(float(rng.uniform(0.4, 0.9)), 3), int(rng.integers(2, n.V - 2))


def other_settings(rng):
    z = 3 * normal(rng, 7)
    return [("temperature_0", (z, 0, None)), ("all_tokens", (z, 1.7, None)), ("large_logits", (z + 1000, 0.01, 3)),
            ("top_k_1", (z, 1.0, 1)), ("more_than_all", (z, 1.0, 9)), ("flat", (0.1 * z, 0.001, None))]


def probabilities_by_hand(logits, temperature, top_k):
    if temperature == 0:
        return (np.arange(len(logits)) == logits.argmax()).astype(float)
    kept = set(sorted(range(len(logits)), key=lambda i: -logits[i])[:top_k])
    e = np.array([np.exp((z - logits.max()) / temperature) if i in kept else 0.0 for i, z in enumerate(logits)])
    return e / e.sum()


def draw_cached(rng, n):
    ids, *_, num_heads, num_layers, arrays = draw_language_model(rng, n)
    return ids, [2, 3], num_heads, num_layers, arrays


def full_logits(ids, ends, num_heads, num_layers, arrays):
    return model_of(arrays, num_heads, num_layers).forward(ids), np.array(ids.shape[-1]), np.array(0)


def model_of(arrays, num_heads, num_layers):
    """Returns the package's language model with these weights."""
    (V, D), d_ff = arrays["embedding.weight"].shape, len(arrays["blocks.0.feed_forward.down.weight"])
    model = built("LanguageModel", V, len(arrays["positions"]), D, num_heads, d_ff, num_layers, 0)
    return drivers.filled(model, {name: array.copy() for name, array in arrays.items()})


def draw_prompt(rng, n):
    _, _, num_heads, num_layers, arrays = draw_cached(rng, n)
    return rng.integers(0, n.V, 2).tolist(), 4, num_heads, num_layers, arrays


def draw_to_draw(rng, n):
    ids, _, num_heads, num_layers, arrays = draw_prompt(rng, n)
    longer = rng.standard_normal((16, arrays["positions"].shape[1]))
    return ids, 300, 0.4, 3, num_heads, num_layers, {**arrays, "positions": longer}


def never(*arguments):
    return (np.array(False),) * 5


def by_argmax(ids, count, num_heads, num_layers, arrays):
    model, text = model_of(arrays, num_heads, num_layers), list(ids)
    for _ in range(count):
        text.append(int(model.forward(np.array(text))[-1].argmax()))
    return np.array(text), np.array(text)


def stage_10():
    return (new_part(10, 1, drivers.probabilities, ("next_probabilities",), draw_logits, ("p",), (
                Mistake("SAM-1", {"(logits - logits.max()) / temperature": "(logits - logits.max()) * temperature"}),
                Mistake("SAM-2", {"    return p / p.sum()": "    return p"}),
                Mistake("SAM-3", {"[top_k:]] = 0": "[:top_k]] = 0"}),
                Mistake("SAM-4", {"np.argsort(-p, kind=\"stable\")": "np.argsort(p, kind=\"stable\")"}),
                Mistake("SAM-5", {"p[np.argsort(-p, kind=\"stable\")[top_k:]] = 0": "p[top_k:] = 0"}),
                Mistake("SAM-7", {"softmax((logits - logits.max()) / temperature)": "softmax(logits) ** (1 / temperature)"}),
                Mistake("SAM-6", {"softmax((logits - logits.max()) / temperature)": "softmax(logits) / temperature"}),
            ), edges=other_settings, reference=probabilities_by_hand),
            of_exercise(10, "12.2", drivers.key_value_step, ("cached_attention",)),
            new_part(10, 3, drivers.cached_logits, ("cached_forward", "cached_attention"), draw_cached,
                     ("logits", "cache.length", "cache.length after cached_attention"), (
                Mistake("KV-1", {"model.positions.data[start:start + T]": "model.positions.data[:T]"}),
                Mistake("KV-2", {"    cache.length += T\n": ""}),
                Mistake("KV-3", {", np.tri(T, S, S - T, dtype=bool))": ")"}),
                Mistake("KV-4", {"np.tri(T, S, S - T, dtype=bool)": "np.tri(T, S, dtype=bool)"}),
                Mistake("KV-5", {"cached_attention(block.attention, block.norm1(x), cache, i)":
                                 "cached_attention(block.attention, block.norm1(x), cache, 0)"}),
                Mistake("KV-6", {"    cache.pairs[i] = k, v\n": ""}),
                Mistake("KV-7", {"zip(cache.pairs[i], (k, v))": "zip((k, v), cache.pairs[i])"}),
                Mistake("KV-10", {"    cache.pairs[i] = k, v\n": "    cache.pairs[i] = k, v\n    cache.length += x.shape[-2] if i == 0 else 0\n",
                                 "    cache.length += T\n": ""}),
                Mistake("KV-9", {"np.tri(T, S, S - T, dtype=bool)": "np.tri(T, S, dtype=bool) if S == T else None"}),
                Mistake("KV-8", {"model.norm(x) @": "x @"}),
            ), reference=full_logits),
            new_part(10, 4, drivers.generated, ("generate",), draw_prompt, ("likely", "with top_k 1"), (
                Mistake("GEN-1", {"return ids\n": "return ids[len(ids) - count:]\n"}),
                Mistake("GEN-2", {"cached_forward(model, np.array(ids[-1:]), cache)": "cached_forward(model, np.array(ids), cache)"}),
                Mistake("GEN-3", {"logits[-1], temperature": "logits[0], temperature"}),
                Mistake("GEN-4", {"range(count)": "range(count - 1)"}),
            ), reference=by_argmax),
            new_part(10, 5, drivers.drawn, ("generate",), draw_to_draw, ("drawn otherwise than p says", "tokens outside the top_k",
                     "two texts from one seed", "one text from two seeds",
                     "always the most likely token"), (
                Mistake("GEN-5", {"int(p.argmax()) if temperature == 0 else int(rng.choice(len(p), p=p))": "int(p.argmax())"}),
                Mistake("GEN-6", {"(logits[-1], temperature, top_k)": "(logits[-1], temperature)"}),
                Mistake("GEN-7", {"(logits[-1], temperature, top_k)": "(logits[-1], 1.0, top_k)"}),
                Mistake("GEN-8", {"rng.choice(len(p), p=p)": "np.random.default_rng().choice(len(p), p=p)"}),
                Mistake("GEN-9", {"rng.choice(len(p), p=p)": "np.random.default_rng(0).choice(len(p), p=p)"}),
            ), reference=never))


# Stage 11: GPT-2

def draw_gpt2(rng, n):
    d, V, T, H = 2 * n.H, n.V, n.T + 2, n.H
    config = {"vocab_size": V, "n_positions": T, "n_embd": d, "n_head": H, "n_layer": 2, "n_inner": n.F,
              "layer_norm_epsilon": round(float(rng.uniform(0.05, 0.2)), 3), "activation_function": "gelu_new",
              "tie_word_embeddings": True, "model_type": "gpt2"}
    names = {"wte.weight": (V, d), "wpe.weight": (T, d), "ln_f.weight": (d,), "ln_f.bias": (d,)}
    for i in range(2):
        names |= {f"h.{i}.ln_1.weight": (d,), f"h.{i}.ln_1.bias": (d,), f"h.{i}.attn.c_attn.weight": (d, 3 * d),
                  f"h.{i}.attn.c_attn.bias": (3 * d,), f"h.{i}.attn.c_proj.weight": (d, d), f"h.{i}.attn.c_proj.bias": (d,),
                  f"h.{i}.ln_2.weight": (d,), f"h.{i}.ln_2.bias": (d,), f"h.{i}.mlp.c_fc.weight": (d, n.F),
                  f"h.{i}.mlp.c_fc.bias": (n.F,), f"h.{i}.mlp.c_proj.weight": (n.F, d), f"h.{i}.mlp.c_proj.bias": (d,)}
    order = [list(names)[i] for i in rng.permutation(len(names))]
    arrays = {f"transformer.{name}": 0.5 * normal(rng, *names[name]) + (".weight" in name and "ln" in name) for name in order}
    return rng.integers(0, V, (*n.lead[-2:-1], n.T)), config, arrays


def other_checkpoints(rng):
    """The same with what published folders have: no prefix, no n_inner or one that is null, and buffers of the mask."""
    small = SimpleNamespace(H=2, V=9, T=4, F=16, lead=(2, 4))
    cases = []
    for key, inner in (("published", {}), ("null", {"n_inner": None})):
        ids, config, arrays = draw_gpt2(rng, small)
        config = {name: value for name, value in config.items() if name != "n_inner"} | inner
        arrays = {name.removeprefix("transformer."): array for name, array in arrays.items()}
        buffers = {f"h.{i}.attn.bias": np.tri(config["n_positions"])[None, None] for i in range(2)}
        buffers["lm_head.weight"] = arrays["wte.weight"]
        cases.append((key, (ids, config, {**buffers, **arrays})))
    return cases


def as_they_are(arrays):
    return drivers.described(arrays)


def by_load_pretrained(ids, config, arrays):
    """What the package computes with the same files."""
    with tempfile.TemporaryDirectory() as folder:
        drivers.write_gpt2(folder, {**config, "architectures": ["GPT2LMHeadModel"]}, arrays)
        return load_pretrained(folder, dtype=np.float64)(ids)


def draw_tokenizer(rng, n):
    """The texts of WORDS in some order, and merges of neighbors: of letters, of tokens, and of those between two words."""
    texts = [list(WORDS)[i] for i in rng.permutation(len(WORDS))]
    letters = [[list(as_letters(word)) for word in WORDS[text]] for text in texts]
    pieces, merges, known = letters, [], set()
    while len(merges) < 60:
        groups = [[pair for words in cut for word in words for pair in zip(word, word[1:])] for cut in (letters, pieces)]
        groups.append([(one[-1], other[0]) for words in pieces for one, other in zip(words, words[1:])])
        group = groups[rng.choice(3, p=(0.4, 0.4, 0.2))]
        pair = group[rng.integers(len(group))]
        if "".join(pair) not in known:
            known.add("".join(pair))
            merges.append(pair)
            pieces = [[merged(word, pair) for word in words] for words in pieces]
    alphabet = [as_letters(bytes([byte])) for byte in rng.permutation(256).astype(np.uint8).tolist()]
    return texts, [*alphabet, *("".join(pair) for pair in merges)], [" ".join(pair) for pair in merges]


def overlapping_merges(rng):
    """Merges after which a token ends, and another begins, with the letters of a further merge: al o lo, not alo lo."""
    alphabet = [as_letters(bytes([byte])) for byte in range(256)]
    pairs = ["a l", "l o", "x a", "a b"]
    return [("overlapping", (["alolo xab"], [*alphabet, *(pair.replace(" ", "") for pair in pairs), "alo"], pairs))]


def as_letters(text):
    """The bytes of a text as GPT-2 writes them: visible Latin-1 characters stand for themselves."""
    hidden = [byte for byte in range(256) if byte < 33 or 127 <= byte < 161 or byte == 173]
    content = text.encode() if isinstance(text, str) else text
    return "".join(chr(256 + hidden.index(byte)) if byte in hidden else chr(byte) for byte in content)


def merged(piece, pair):
    """Returns a list of letters with this pair joined wherever it occurs, from left to right."""
    result, i = [], 0
    while i < len(piece):
        if tuple(piece[i:i + 2]) == pair:
            result.append("".join(pair))
            i += 2
        else:
            result.append(piece[i])
            i += 1
    return result


def by_merges_in_order(texts, vocabulary, merges):
    """Every merge, from the first one on, is applied to the whole word."""
    ids, cut = [], []
    for text in texts:
        for word in WORDS[text]:
            piece = list(as_letters(word))
            for pair in merges:
                piece = merged(piece, tuple(pair.split(" ")))
            ids += [vocabulary.index(token) for token in piece]
        letters = text.encode()[:-len(vocabulary[ids[-1]])]             # each letter is one byte
        cut.append(letters.decode("utf-8", "replace"))
        ids.append(-1)
    return np.array(ids), np.ones(len(texts), bool), drivers.as_bytes(texts), drivers.as_bytes(cut)


def stage_11():
    return (new_part(11, 1, drivers.safetensors, ("read_safetensors",), lambda rng, n: draw_gpt2(rng, n)[2:],
                     ("values", "names and shapes", "read-only"), (
                Mistake("ST-1", {".copy()": ""}),
                Mistake("ST-2", {"np.frombuffer(content[8 + n + start:8 + n + end], TYPES[entry[\"dtype\"]])":
                                 "np.frombuffer(content[8 + n:], TYPES[entry[\"dtype\"]])[sum(array.size for array in arrays.values()):]\n"
                                 "            array = array[:math.prod(entry[\"shape\"])]",
                                 "import json\n": "import json\nimport math\n"}),
                Mistake("ST-3", {".reshape(entry[\"shape\"])": ".reshape(entry[\"shape\"][::-1]).T"}),
            ), reference=as_they_are),
            new_part(11, 2, drivers.gpt2_logits, ("load_gpt2",), draw_gpt2, ("logits",), (
                Mistake("GPT-1", {"part.weight.data, part.bias.data = weight, bias": "part.weight.data, part.bias.data = weight.T, bias"}),
                Mistake("GPT-2", {"zip((attention.query, attention.key, attention.value), weights, biases)":
                                  "zip((attention.key, attention.query, attention.value), weights, biases)"}),
                Mistake("GPT-3", {"np.split(arrays[f\"h.{i}.attn.c_attn.weight\"], 3, axis=-1)":
                                  "[part.reshape(width, width) for part in np.split(arrays[f\"h.{i}.attn.c_attn.weight\"].reshape(-1), 3)]"}),
                Mistake("GPT-4", {"    norm.eps = config[\"layer_norm_epsilon\"]\n": ""}),
                Mistake("GPT-5", {"model.positions.data = arrays[\"wpe.weight\"]": "pass"}),
                Mistake("GPT-6", {"arrays[f\"h.{i}.{name}.weight\"], arrays": "arrays[f\"h.{i}.{name}.weight\"].T, arrays"}),
                Mistake("GPT-7", {"fill_norm(model.norm, arrays, \"ln_f\", config)": "pass"}),
                Mistake("GPT-8", {"fill_norm(block.norm1, arrays, f\"h.{i}.ln_1\", config)": "fill_norm(block.norm1, arrays, f\"h.{i}.ln_2\", config)",
                                  "fill_norm(block.norm2, arrays, f\"h.{i}.ln_2\", config)": "fill_norm(block.norm2, arrays, f\"h.{i}.ln_1\", config)"}),
                Mistake("GPT-9", {"[f\"h.{i}.attn.c_attn.weight\"], 3": "[\"h.0.attn.c_attn.weight\"], 3"}),
                Mistake("GPT-10", {"norm.eps = config[\"layer_norm_epsilon\"]":
                                   "norm.eps = norm.eps if name == \"ln_f\" else config[\"layer_norm_epsilon\"]"}),
                Mistake("GPT-11", {"norm.eps = config[\"layer_norm_epsilon\"]":
                                   "norm.eps = config[\"layer_norm_epsilon\"] if name == \"ln_f\" else norm.eps"}),
            ), edges=other_checkpoints, reference=by_load_pretrained),
            new_part(11, 3, drivers.byte_pairs, ("BytePairEncoding.merge", "BytePairEncoding.encode", "BytePairEncoding.decode"),
                     draw_tokenizer, ("ids", "same text", "text", "text without its last token"), (
                Mistake("BPE-1", {"min(pairs, key=self.rank.get)": "max(pairs, key=self.rank.get)"}),
                Mistake("BPE-2", {"min(pairs, key=self.rank.get)": "pairs[0]"}),
                Mistake("BPE-3", {"            parts = merged\n": "            return merged\n"}),
                Mistake("BPE-4", {"words = [\"\".join(self.letters[byte] for byte in word.encode()) for word in WORDS.findall(text)]":
                                  "words = [\"\".join(self.letters[byte] for byte in text.encode())]"}),
                Mistake("BPE-6", {"        letters = \"\".join(self.tokens[number] for number in ids)\n        return bytes(self.bytes[letter] for letter in letters).decode(\"utf-8\", \"replace\")":
                                  "        words = [bytes(self.bytes[letter] for letter in self.tokens[number]) for number in ids]\n        return \"\".join(word.decode(\"utf-8\", \"replace\") for word in words)"}),
                Mistake("BPE-7", {"parts = merged\n": "parts = \" \".join(parts).replace(\" \".join(best), \"\".join(best)).split(\" \")\n"}),
                Mistake("BPE-5", {"for word in WORDS.findall(text)": "for word in text.split()"}),
            ), edges=overlapping_merges, reference=by_merges_in_order))


# Stage 12: encoder, decoder and beam search

def draw_decoder_block(rng, n):
    *batch, T = n.lead
    arrays = arrays_of(built("DecoderBlock", n.D, n.H, n.F, 0), rng)
    x, dy = normal(rng, 2, *batch, T, n.D)
    memory_mask = rng.random((T, n.S)) < 0.6
    memory_mask[:, 1] = True
    return x, normal(rng, *batch, n.S, n.D), np.tri(T, dtype=bool), memory_mask, dy, n.H, arrays


def draw_encoder_decoder(rng, n):
    D = 2 * n.H
    arrays = arrays_of(built("EncoderDecoder", n.V, max(n.S, n.T) + 2, D, n.H, n.F, 2, 0, 1), rng)
    source, target = rng.integers(2, n.V, (n.B, n.S)), rng.integers(2, n.V, (n.B, n.T))
    source[0, -2:] = 1
    return source, target, normal(rng, n.B, n.T, n.V), 1, n.H, 2, arrays


def stage_12():
    block, model = "DecoderBlock", "EncoderDecoder"
    return (new_part(12, 1, drivers.decoder_block, (f"{block}.forward", f"{block}.backward"), draw_decoder_block,
                     ("y", "second y", "second dx", "second dmemory", "dx", "dmemory", "gradients"), (
                Mistake("DEC-1", {"return dx + self.norm1.backward(dquery + dkey), dmemory": "return dx + self.norm1.backward(dquery + dkey), dmemory + dkey"}),
                Mistake("DEC-2", {"self.norm1.backward(dquery + dkey)": "self.norm1.backward(dquery)"}),
                Mistake("DEC-3", {"dx = dx + self.norm2.backward(dquery)": "dx = self.norm2.backward(dquery)"}),
                Mistake("DEC-4", {"self.cross_attention(self.norm2(x), memory, memory_mask)": "self.cross_attention(self.norm2(x), memory)"}),
                Mistake("DEC-5", {"self.cross_attention(self.norm2(x), memory, memory_mask)": "self.cross_attention(self.norm2(x), self.norm2(x), mask)"}),
                Mistake("DEC-6", {"dx = dy + self.norm3": "dx = self.norm3"}),
                Mistake("DEC-7", {"self.attention(h, h, mask)": "self.attention(h, h)"}),
                Mistake("DEC-8", {"self.cross_attention(self.norm2(x), memory, memory_mask)": "self.cross_attention(x, memory, memory_mask)"}),
            )),
            new_part(12, 2, drivers.encoder_decoder, (f"{model}.encode", f"{model}.decode", f"{model}.forward", f"{model}.backward"),
                     draw_encoder_decoder, ("logits", "embedding.weight.grad", "source_positions.grad",
                                            "target_positions.grad", "gradients of the others"), (
                Mistake("ED-1", {"dmemory = dmemory + more": "dmemory = more"}),
                Mistake("ED-2", {"        self.embedding.backward(dx)\n        dx = self.encoder_norm": "        dx = self.encoder_norm"}),
                Mistake("ED-3", {"x = block(x, mask)": "x = block(x)"}),
                Mistake("ED-4", {"block(x, memory, causal_mask(T), memory_mask)": "block(x, memory, None, memory_mask)"}),
                Mistake("ED-5", {"block(x, memory, causal_mask(T), memory_mask)": "block(x, memory, causal_mask(T))"}),
                Mistake("ED-6", {"return self.encoder_norm(x), mask": "return x, mask", "self.encoder_norm.backward(dmemory)": "dmemory"}),
                Mistake("ED-7", {"mask = (source != self.pad_id)": "mask = (source == self.pad_id)"}),
                Mistake("ED-8", {"for block in reversed(self.encoder)": "for block in self.encoder"}),
                Mistake("ED-9", {"for block in reversed(self.decoder)": "for block in self.decoder"}),
                Mistake("ED-11", {"        self.embedding.backward(dx)\n        dx = self.encoder_norm": "        dtarget = dx\n        dx = self.encoder_norm",
                                  "+= dx.sum(0)\n        self.embedding.backward(dx)\n\n\ndef": "+= dx.sum(0)\n        self.embedding.backward(dx)\n        self.embedding.backward(dtarget)\n\n\ndef"}),
                Mistake("ED-10", {"self.embedding(target) + self.target_positions": "self.embedding(target) + self.source_positions"}),
            )),
            of_exercise(12, "13.3", drivers.search, ("beam_search",)))


STAGES = {1: stage_1, 2: stage_2, 3: stage_3, 4: stage_4, 5: stage_5, 6: stage_6, 7: stage_7, 8: stage_8, 9: stage_9,
          10: stage_10, 11: stage_11, 12: stage_12}
