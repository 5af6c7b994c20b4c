"""Training on several machines: the gradient of a batch from its parts, and Adam with its state sharded over ranks."""

import numpy as np

from ...module import Parameter
from ...training import Adam
from .definition import Exercise, Mistake
from .optimizers import ADAM, BASIC, after


def sharded_adam_step(w, gradients, m, v, t, lr, beta1, beta2, eps):
    """One step of Adam on n ranks, each with m and v of its own chunk only (ZeRO stage 1, Rajbhandari et al. 2020).

    w: (N,), the weights, the same on all ranks. They are cut into n equal chunks of consecutive entries.
    gradients: (n, N); row r is the gradient that rank r has computed. The gradient of the batch is the sum of the rows.
    m, v: (n, N / n); row r is the state of rank r, the running means of g and of g² for chunk r.
    t, lr, beta1, beta2, eps: numbers, as in Adam (exercise 19.1).
    Your function computes what all n ranks do: they reduce-scatter the gradients, rank r updates chunk r, and they
    all-gather the weights.
    Return w: (N,), the weights that every rank has after the step; and m, v: (n, N / n) after the step, without the
    bias correction.
    """
    g = gradients.sum(0).reshape(m.shape)
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g ** 2
    m_hat = m / (1 - beta1 ** t)
    v_hat = v / (1 - beta2 ** t)
    w = (w.reshape(m.shape) - lr * m_hat / (np.sqrt(v_hat) + eps)).reshape(-1)
    return w, m, v


def combine_gradients(gradients, counts):
    """Computes the gradient of a batch's mean loss from the gradients of its parts.

    gradients: (n, ...); gradients[k] is the gradient of the mean loss over the counted targets of part k.
    counts: (n,) integers, the number of counted targets in each part, at least one of them above 0. The count is 0 for
        a part with padding only. The mean loss of such a part is 0 / 0 and its gradient NaN; leave it out.
    Return gradient: (...), the gradient of the mean loss over the counted targets of all parts, float32 if the
    gradients are. A product with a NumPy integer such as counts[0] is float64; use int(counts[0]).
    """
    total = np.zeros_like(gradients[0])
    for gradient, count in zip(gradients, counts):
        if count > 0:
            total += int(count) * gradient
    return total / int(counts.sum())


def some_step(rng, ranks, width):
    """Draws a step in the middle of training, with an eps that is large enough to matter."""
    w, gradients = rng.standard_normal(ranks * width), rng.standard_normal((ranks, ranks * width))
    m, v = rng.standard_normal((2, ranks, width))
    numbers = [round(float(rng.uniform(*ends)), 3) for ends in ((0.05, 0.2), (0.6, 0.9), (0.92, 0.99))]
    return w, gradients, m, v ** 2 + 0.1, int(rng.integers(3, 9)), *numbers, 0.1


def special_steps(rng):
    w, gradients = rng.standard_normal(12), rng.standard_normal((4, 12))
    start = np.zeros((2, 4, 3))
    gradients[:, 7] = 0                         # an entry that has not had a gradient yet
    return [("the first step, one gradient 0", (w, gradients, *start, 1, 0.01, 0.9, 0.999, 1e-8)),
            ("as many ranks as entries in a chunk", some_step(rng, 4, 4)), ("a single rank", some_step(rng, 1, 5))]


def by_adam(w, gradients, m, v, t, lr, beta1, beta2, eps):
    """Computes the step on one process that has the whole state."""
    optimizer = Adam([Parameter(w)], lr, (beta1, beta2), eps)
    w, m_whole, v_whole = after(optimizer, gradients.sum(0), m.reshape(-1), v.reshape(-1), t)
    return w, m_whole.reshape(m.shape), v_whole.reshape(v.shape)


def some_parts(rng, n):
    """Draws parts with different counts, as they occur with padding."""
    return rng.standard_normal((n.B, n.T, n.D)), rng.permutation(np.arange(1, 2 * n.V, 3)[:n.B] + n.H)


def special_parts(rng):
    empty = rng.standard_normal((3, 4))
    empty[1] = np.nan
    return [("a part without counted targets", (empty, np.array([5, 0, 2]))),
            ("one target in one part, 99 in the other", (rng.standard_normal((2, 3, 2)), np.array([1, 99]))),
            ("a single part", (rng.standard_normal((1, 6)), np.array([7])))]


def by_targets(gradients, counts):
    """Gives each counted target the mean gradient of its part, and averages over all targets."""
    return np.repeat(gradients, counts, axis=0).mean(0)


def outside(inputs, outputs):
    """Returns by how much each entry is above the largest or below the smallest of the parts."""
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
        hints=("Which entries of the summed gradient does rank r need, if it has only row r of m and v?",
               "It needs chunk r only. If you reshape the sum to (n, N / n), row r is what rank r receives from the "
               "reduce-scatter. The weights can be reshaped in the same way.",
               "g = gradients.sum(0).reshape(m.shape); Adam's step as in exercise 19.1 on (n, N / n) arrays, with "
               "w.reshape(m.shape) for the weights; the all-gather is reshape(-1) of the new weights."),
        mistakes=(
            *(mistake for mistake in ADAM if mistake.name in BASIC),
            Mistake("SHD-1", {".sum(0)": ".mean(0)"},
                    "You average the gradients of the ranks. Here they already have the right weights and are summed."),
            Mistake("SHD-2", {SUM: OWN},
                    "Each of your ranks uses its own gradient, so the reduce-scatter is missing. Rank r needs the sum "
                    "over all ranks for its chunk."),
            Mistake("SHD-3", {SUM: "gradients[0].reshape(m.shape)"},
                    "You use the gradient of rank 0 only. The gradient of the batch is the sum over all ranks."),
            Mistake("SHD-4a", {SUM: "gradients.sum(0).reshape(-1, len(m)).T"},
                    "Your chunks of the gradient consist of every n-th entry. A chunk has N / n consecutive entries, "
                    "as for the weights."),
            Mistake("SHD-4b", {SUM: "gradients.sum(0).reshape(-1, len(m)).T", "w.reshape(m.shape)":
                               "w.reshape(-1, len(m)).T", ".reshape(-1)\n": ".T.reshape(-1)\n"},
                    "Your chunks of weights and gradient consist of every n-th entry, but row r of m and v belongs to "
                    "N / n consecutive entries."),
            Mistake("SHD-5a", {SUM: f"np.roll({SUM}, -1, 0)"},
                    "Rank r updates its weights with the gradient of chunk r + 1. The chunk that a rank receives from "
                    "the reduce-scatter must be the one that it updates."),
            Mistake("SHD-5b", {SUM: f"np.roll({SUM}, 1, 0)"},
                    "Rank r updates its weights with the gradient of chunk r - 1. The chunk that a rank receives from "
                    "the reduce-scatter must be the one that it updates."),
            Mistake("SHD-6", {"- lr *": "- lr * (np.arange(len(m)) == 0)[:, None] *"},
                    "The all-gather is missing. Rank 0 has its own new chunk, and the old weights everywhere else."),
            Mistake("SHD-7", {").reshape(-1)\n": ")\n"},
                    "You do not join the chunks. w must have one axis, as before the step."),
            Mistake("SHD-8", {"beta1 * m": "beta1 * m.mean(0)", "beta2 * v": "beta2 * v.mean(0)"},
                    "You average m and v over the ranks. Their rows belong to different weights and stay on their "
                    "ranks."),
            Mistake("SHD-9", {"- lr *": "- lr / len(m) *"},
                    "You average the weights over the ranks. Only one rank has moved each chunk, so your step is n "
                    "times too short. An all-gather copies; it does not average."),
            Mistake("SHD-10", {"w.reshape(m.shape)": "len(m) * w.reshape(m.shape)"},
                    "You sum the weights over the ranks, but all ranks have the old weights. An all-gather copies; it "
                    "does not add."),
            Mistake("SHD-12", {"return w, m, v": "return w, m.reshape(-1), v.reshape(-1)"},
                    "You join the rows of m and v. Each rank keeps its own row, so they stay (n, N / n)."),
            Mistake("SHD-13", {").reshape(-1)\n": ")[0]\n"},
                    "You return the new chunk of rank 0 only. After the all-gather, every rank has all N weights."),
            Mistake("SHD-14", {"w = (w.reshape": "w -= (w - (w.reshape", ").reshape(-1)\n": ").reshape(-1))\n"},
                    "You write into w, the caller's array. Make a new array."),
            Mistake("SHD-15", {SUM: "gradients.sum(1)[:, None]"},
                    "You sum each rank's gradient over the weights. Sum over the ranks, the first axis."),
            Mistake("SHD-16", {SUM: "gradients.sum(0)"},
                    "You use the whole summed gradient for each rank's m and v. Row r of the state belongs to chunk r "
                    "of the gradient."),
            Mistake("SHD-11", {"g ** 2": "(gradients ** 2).sum(0).reshape(m.shape)"},
                    "You put the sum of the ranks' squared gradients into v. It needs the square of the summed "
                    "gradient, as a single process would compute it."),
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
        hints=("One part has three targets and the mean gradient 2, another has one target and the mean gradient 10. "
               "What is the mean over the four targets?",
               "A part's count times its mean is its sum, and sums can be added. By what must you divide the result? "
               "And 0 times NaN is NaN.",
               "Add int(count) * gradient over the parts whose count is above 0, and divide by int(counts.sum())."),
        mistakes=(
            Mistake("WSG-1", {f"return total / {TOTAL}": "return gradients.mean(0)"},
                    "You return the unweighted mean over the parts, in which the targets of a part with few of them "
                    "have more weight than others. Each target must have the same weight."),
            Mistake("WSG-2", {TERM: "gradient", TOTAL: "int((counts > 0).sum())"},
                    "You return the unweighted mean over the parts that have targets, in which the targets of a part "
                    "with few of them have more weight than others. Each target must have the same weight."),
            Mistake("WSG-3", {f" / {TOTAL}": ""},
                    "You do not divide by the number of all targets. This is the gradient of the summed loss."),
            Mistake("WSG-4", {TOTAL: f"({TOTAL} * len(counts))"},
                    "You divide twice, by the number of targets and by the number of parts, so the weights no longer "
                    "sum to 1."),
            Mistake("WSG-5", {TERM: "gradient"},
                    "You add the gradients without their counts. Each of them belongs to a mean, and must be "
                    "multiplied by its count first."),
            Mistake("WSG-6", {TOTAL: "len(counts)"},
                    "You divide the weighted sum by the number of parts. The weights are counts, so divide by their "
                    "sum."),
            Mistake("WSG-7", {TERM: "gradient / int(count)", f" / {TOTAL}": ""},
                    "You divide each gradient by its count, but it is already that of a mean. Multiply by the count."),
            Mistake("WSG-8", {"if count > 0:": "if True:"},
                    "You include a part without targets. Its gradient is NaN, and 0 times NaN is NaN. Leave it out."),
            Mistake("WSG-12", {TOTAL: "int((counts > 0).sum())"},
                    "You divide the weighted sum by the number of parts that have targets. The weights are counts, so "
                    "divide by their sum."),
            Mistake("WSG-13", {TERM: "gradient / int(count)"},
                    "You divide each gradient by its count, but it is already that of a mean. Multiply by the count, "
                    "and divide the sum by the number of all targets."),
            Mistake("WSG-9", {TOTAL: "int(counts.max())"},
                    "You divide by the largest count. Divide by the sum of the counts, so that the weights sum to 1."),
            Mistake("WSG-10", {f"total += {TERM}": "total += np.multiply(gradient, int(count), out=gradient)"},
                    "You multiply the gradients of the parts in place, but the caller may still need them."),
            Mistake("WSG-11", {f"return total / {TOTAL}": "return gradients.sum(0)"},
                    "You add the gradients without weights. They are gradients of means, and their sum grows with the "
                    "number of parts."),
        ),
        alternatives={"as a product": {
            f"return total / {TOTAL}": "used = counts > 0\n    weights = (counts[used] / counts.sum()).astype("
                                       "gradients.dtype)\n    return np.tensordot(weights, gradients[used], 1)"}}),
]
