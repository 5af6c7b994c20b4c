"""Several machines: a batch's gradient from those of its parts, and Adam whose state is sharded over the ranks."""

import numpy as np

from ...module import Parameter
from ...training import Adam
from ..exercise import Exercise, Mistake
from .optimizers import ADAM, BASIC, after


def sharded_adam_step(w, gradients, m, v, t, lr, beta1, beta2, eps):
    """One step of Adam on n ranks, each of which keeps m and v of its own chunk only (ZeRO-1, Rajbhandari et al. 2020).

    w: (N,) the weights, the same on all ranks. They are cut into n equal chunks, one after the other.
    gradients: (n, N), row r is the gradient that rank r has computed. The gradient of the batch is their sum.
    m, v: (n, N / n), row r is what rank r keeps: the running means of g and of g² for chunk r.
    t: the number of this step, 1, 2, 3, ...  lr, beta1, beta2, eps: numbers, as in Adam (exercise 19.1).
    Your function plays all n ranks: reduce-scatter the gradients, update chunk r on rank r, all-gather the weights.
    Return w: (N,) after the step, as every rank has it then; m, v: (n, N / n) after the step, not corrected.
    """
    g = gradients.sum(0).reshape(m.shape)
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g ** 2
    m_hat = m / (1 - beta1 ** t)
    v_hat = v / (1 - beta2 ** t)
    w = (w.reshape(m.shape) - lr * m_hat / (np.sqrt(v_hat) + eps)).reshape(-1)
    return w, m, v


def combine_gradients(gradients, counts):
    """The gradient of a batch's mean loss from the gradients of its parts.

    gradients: (n, ...), gradients[k] is the gradient of the mean over the targets of part k that count.
    counts: (n,) integers, how many targets of part k count; at least one of them is above 0. A part in which all
        targets are padding has the count 0. Its mean is 0 / 0, so its gradient is NaN; it must not matter.
    Return gradient: (...), that of the mean over the targets of all parts that count. For float32 gradients it is
        float32: a NumPy integer such as counts[0] would make float64 of it; multiply and divide by int(...) of them.
    """
    total = np.zeros_like(gradients[0])
    for gradient, count in zip(gradients, counts):
        if count > 0:
            total += int(count) * gradient
    return total / int(counts.sum())


def some_step(rng, ranks, width):
    """In the middle of training, with an eps that counts."""
    w, gradients = rng.standard_normal(ranks * width), rng.standard_normal((ranks, ranks * width))
    m, v = rng.standard_normal((2, ranks, width))
    numbers = [round(float(rng.uniform(*ends)), 3) for ends in ((0.05, 0.2), (0.6, 0.9), (0.92, 0.99))]
    return w, gradients, m, v ** 2 + 0.1, int(rng.integers(3, 9)), *numbers, 0.1


def special_steps(rng):
    w, gradients, start = rng.standard_normal(12), rng.standard_normal((4, 12)), np.zeros((2, 4, 3))
    gradients[:, 7] = 0                         # an entry that has never had a gradient
    return [("the first step, one gradient 0", (w, gradients, *start, 1, 0.01, 0.9, 0.999, 1e-8)),
            ("as many ranks as entries in a chunk", some_step(rng, 4, 4)), ("a single rank", some_step(rng, 1, 5))]


def by_adam(w, gradients, m, v, t, lr, beta1, beta2, eps):
    """The one process that has everything."""
    optimizer = Adam([Parameter(w)], lr, (beta1, beta2), eps)
    w, m_whole, v_whole = after(optimizer, gradients.sum(0), m.reshape(-1), v.reshape(-1), t)
    return w, m_whole.reshape(m.shape), v_whole.reshape(v.shape)


def some_parts(rng, n):
    """Counts that are all different, as padding makes them."""
    return rng.standard_normal((n.B, n.T, n.D)), rng.permutation(np.arange(1, 2 * n.V, 3)[:n.B] + n.H)


def special_parts(rng):
    empty = rng.standard_normal((3, 4))
    empty[1] = np.nan
    return [("a part in which nothing counts", (empty, np.array([5, 0, 2]))),
            ("one target in one part, 99 in the other", (rng.standard_normal((2, 3, 2)), np.array([1, 99]))),
            ("a single part", (rng.standard_normal((1, 6)), np.array([7])))]


def by_targets(gradients, counts):
    """Each target that counts stands for the mean of its part."""
    return np.repeat(gradients, counts, axis=0).mean(0)


def outside(inputs, outputs):
    """How far the result lies beyond the largest or the smallest of the parts, entry by entry."""
    parts = inputs[0][inputs[1] > 0]
    return np.maximum(0, np.maximum(outputs[0] - parts.max(0), parts.min(0) - outputs[0]))


SUM = "gradients.sum(0).reshape(m.shape)"
OWN = "gradients.reshape(len(m), *m.shape)[np.arange(len(m)), np.arange(len(m))]"
TERM, TOTAL = "int(count) * gradient", "int(counts.sum())"

EXERCISES = [
    Exercise(
        "20.1", "A step of Adam with sharded state", minutes=15, lines=7,
        solution=sharded_adam_step, reference=by_adam, inputs=lambda rng, n: some_step(rng, n.B, n.D),
        edges=special_steps, outputs=("w", "m", "v"),
        hints=("Which entries of the summed gradient does rank r need, if it keeps only row r of m and v?",
               "Chunk r of it, and nothing else. As an array (n, N / n), the sum has in row r what rank r receives from "
               "the reduce-scatter; the weights can be viewed in the same way.",
               "g = gradients.sum(0).reshape(m.shape); Adam's step as in exercise 19.1 on (n, N / n) arrays, where the "
               "weights are w.reshape(m.shape); the all-gather is a reshape(-1) of the new weights."),
        mistakes=(
            *(mistake for mistake in ADAM if mistake.name in BASIC),
            Mistake("SHD-1", {".sum(0)": ".mean(0)"},
                    "The gradients of the ranks are averaged. Here each one has its weight already: they are summed."),
            Mistake("SHD-2", {SUM: OWN},
                    "Each rank uses its own gradient: there is no reduce-scatter. Rank r needs the sum over all ranks "
                    "for its chunk."),
            Mistake("SHD-3", {SUM: "gradients[0].reshape(m.shape)"},
                    "Only the gradient of rank 0 is used: the gradient of the batch is the sum over all ranks."),
            Mistake("SHD-4a", {SUM: "gradients.sum(0).reshape(-1, len(m)).T"},
                    "Chunk r of the gradient takes every n-th entry: a chunk is N / n entries in a row, like those of "
                    "the weights."),
            Mistake("SHD-4b", {SUM: "gradients.sum(0).reshape(-1, len(m)).T", "w.reshape(m.shape)":
                               "w.reshape(-1, len(m)).T", ".reshape(-1)\n": ".T.reshape(-1)\n"},
                    "The chunks of weights and gradient take every n-th entry, but row r of m and v belongs to N / n "
                    "entries in a row."),
            Mistake("SHD-5a", {SUM: f"np.roll({SUM}, -1, 0)"},
                    "Rank r updates its weights with the gradient of chunk r + 1: the chunk whose sum it receives, and "
                    "the one it updates, must be the same."),
            Mistake("SHD-5b", {SUM: f"np.roll({SUM}, 1, 0)"},
                    "Rank r updates its weights with the gradient of chunk r - 1: the chunk whose sum it receives, and "
                    "the one it updates, must be the same."),
            Mistake("SHD-6", {"- lr *": "- lr * (np.arange(len(m)) == 0)[:, None] *"},
                    "The all-gather is missing: rank 0 has only its own new chunk, and old weights everywhere else."),
            Mistake("SHD-7", {").reshape(-1)\n": ")\n"},
                    "The chunks are not put together: w has one axis, as it came in."),
            Mistake("SHD-8", {"beta1 * m": "beta1 * m.mean(0)", "beta2 * v": "beta2 * v.mean(0)"},
                    "m and v are averaged over the ranks. Their rows belong to different weights: they stay where they "
                    "are."),
            Mistake("SHD-9", {"- lr *": "- lr / len(m) *"},
                    "The weights are averaged over the ranks, so each step is n times too short: only one rank has moved "
                    "each chunk. All-gather copies, it does not average."),
            Mistake("SHD-10", {"w.reshape(m.shape)": "len(m) * w.reshape(m.shape)"},
                    "The weights are summed over the ranks: all of them have the old ones. All-gather copies, it does "
                    "not add."),
            Mistake("SHD-11", {"g ** 2": "(gradients ** 2).sum(0).reshape(m.shape)"},
                    "v takes the sum of the ranks' squares: it is the square of the sum that one process would see."),
        ),
        alternatives={
            "rank by rank": {SUM: "np.array([part.sum(0) for part in np.split(gradients, len(m), 1)])",
                             ").reshape(-1)\n": ")\n    w = np.concatenate(list(w))\n"},
            "one vector": {"(w.reshape(m.shape) - lr * m_hat / (np.sqrt(v_hat) + eps)).reshape(-1)":
                           "w - (lr * m_hat / (np.sqrt(v_hat) + eps)).reshape(-1)"}}),
    Exercise(
        "20.2", "The gradient of a batch from its parts", minutes=10, lines=5,
        solution=combine_gradients, reference=by_targets, inputs=some_parts, edges=special_parts,
        outputs=("gradient",),
        invariants=(("each entry must lie between those of the parts", outside),),
        hints=("A part has three targets and the mean gradient 2, another one target and the mean gradient 10. What is "
               "the mean over the four targets?",
               "count times mean is the sum over a part. Sums can be added; what is the result to be divided by? And "
               "0 times NaN is NaN.",
               "Add int(count) * gradient over the parts whose count is above 0, and divide by int(counts.sum())."),
        mistakes=(
            Mistake("WSG-1", {f"return total / {TOTAL}": "return gradients.mean(0)"},
                    "That is the plain mean of the parts' means: the targets of a part with few of them weigh more than "
                    "others. Each target must weigh the same."),
            Mistake("WSG-2", {TERM: "gradient", TOTAL: "int((counts > 0).sum())"},
                    "That is the plain mean over the parts that have targets: the targets of a part with few of them "
                    "weigh more than others. Each target must weigh the same."),
            Mistake("WSG-3", {f" / {TOTAL}": ""},
                    "The sum is not divided by the number of all targets: it is the gradient of the summed loss."),
            Mistake("WSG-4", {TOTAL: f"({TOTAL} * len(counts))"},
                    "It is divided twice, by the number of targets and by the number of parts: the weights no longer "
                    "sum to 1."),
            Mistake("WSG-5", {TERM: "gradient"},
                    "The counts are missing in the sum: each part has a mean, which must be multiplied by its count "
                    "first."),
            Mistake("WSG-6", {TOTAL: "len(counts)"},
                    "The weighted sum is divided by the number of parts: the weights are counts, so divide by their "
                    "sum."),
            Mistake("WSG-7", {TERM: "gradient / int(count)", f" / {TOTAL}": ""},
                    "Each gradient is divided by its count: it is a mean already. Multiply by the count."),
            Mistake("WSG-8", {"if count > 0:": "if True:"},
                    "A part without targets takes part: its gradient is NaN, and 0 times NaN is NaN. Leave it out."),
            Mistake("WSG-9", {TOTAL: "int(counts.max())"},
                    "It is divided by the largest count: divide by the sum of the counts, so that the weights sum to "
                    "1."),
            Mistake("WSG-10", {f"total += {TERM}": "total += np.multiply(gradient, int(count), out=gradient)"},
                    "The gradients of the parts are multiplied in place: the caller may still need them."),
            Mistake("WSG-11", {f"return total / {TOTAL}": "return gradients.sum(0)"},
                    "The gradients are added without weights: they are means, and their sum grows with the number of "
                    "parts."),
        ),
        alternatives={"as a product": {
            f"return total / {TOTAL}": "used = counts > 0\n    weights = (counts[used] / counts.sum()).astype("
                                       "gradients.dtype)\n    return np.tensordot(weights, gradients[used], 1)"}}),
]
