"""Training on several machines: the gradient of a batch from its parts, and Adam with its state sharded over ranks."""

import numpy as np

from ...module import Parameter
from ...training import Adam
from .definition import Exercise, Mistake
from .optimizers import after


def sharded_adam_step(w, gradients, m, v, t, lr, beta1, beta2, eps):
    g = gradients.sum(0).reshape(m.shape)
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g ** 2
    m_hat = m / (1 - beta1 ** t)
    v_hat = v / (1 - beta2 ** t)
    w = (w.reshape(m.shape) - lr * m_hat / (np.sqrt(v_hat) + eps)).reshape(-1)
    return w, m, v


def combine_gradients(gradients, counts):
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
    return w, gradients, m, v ** 2 + 0.1, int(rng.integers(3, 9)), *numbers, round(float(rng.uniform(0.05, 0.2)), 3)


def special_steps(rng):
    w, gradients = rng.standard_normal(12), rng.standard_normal((4, 12))
    start = np.zeros((2, 4, 3))
    gradients[:, 7] = 0                         # an entry that has not had a gradient yet
    return [("first_step_gradient", (w, gradients, *start, 1, 0.01, 0.9, 0.999, 1e-8)),
            ("as_many_ranks", some_step(rng, 4, 4)), ("single_rank", some_step(rng, 1, 5))]


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
    unfinished = rng.standard_normal((3, 4))
    unfinished[1, 1:3] = np.nan
    return [("part_without_counted", (empty, np.array([5, 0, 2]))),
            ("part_gradient_0", (rng.standard_normal((4, 5)) * [[1], [0], [1], [1]], np.array([5, 9, 2, 4]))),
            ("part_not_finite", (unfinished, np.array([3, 8, 1]))),
            ("target_part_99", (rng.standard_normal((2, 3, 2)), np.array([1, 99]))),
            ("single_part", (rng.standard_normal((1, 6)), np.array([7])))]


def by_targets(gradients, counts):
    """Gives each counted target the mean gradient of its part, and averages over all targets."""
    return np.repeat(gradients, counts, axis=0).mean(0)


def outside(inputs, outputs):
    """Returns by how much each entry is above the largest or below the smallest of the parts."""
    parts = inputs[0][inputs[1] > 0]
    finite = np.isfinite(parts).all(0)
    parts, mean = parts[:, finite], outputs[0][finite]
    return np.maximum(0, np.maximum(mean - parts.max(0), parts.min(0) - mean))


SUM = "gradients.sum(0).reshape(m.shape)"
TERM, TOTAL = "int(count) * gradient", "int(counts.sum())"


EXERCISES = [
    Exercise(
        "20.1", minutes=15, lines=7,
        solution=sharded_adam_step, reference=by_adam, inputs=lambda rng, n: some_step(rng, n.B, n.D),
        edges=special_steps, outputs=("w", "m", "v"),
        mistakes=(
            Mistake("ADM-1", {"m / (1 - beta1 ** t)": "m", "v / (1 - beta2 ** t)": "v"}),
            Mistake("ADM-2", {"v / (1 - beta2 ** t)": "v"}),
            Mistake("ADM-3", {"m / (1 - beta1 ** t)": "m"}),
            Mistake("ADM-4a", {"beta1 ** t": "beta1 ** (t - 1)", "beta2 ** t": "beta2 ** (t - 1)"}),
            Mistake("ADM-6a", {"g ** 2": "g"}),
            Mistake("ADM-6b", {"np.sqrt(v_hat)": "v_hat"}),
            Mistake("ADM-7", {"return w, m, v": "return w, m_hat, v_hat"}),
            Mistake("ADM-8a", {
                "beta1 * m + (1 - beta1)": "beta2 * m + (1 - beta2)",
                "beta2 * v + (1 - beta2)": "beta1 * v + (1 - beta1)",
                "m / (1 - beta1 ** t)": "m / (1 - beta2 ** t)",
                "v / (1 - beta2 ** t)": "v / (1 - beta1 ** t)"}),
            Mistake("ADM-9a", {"np.sqrt(v_hat) + eps": "np.sqrt(v_hat + eps)"}),
            Mistake("ADM-11a", {"- lr * m_hat": "+ lr * m_hat"}),
            Mistake("ADM-12", {"beta1 * m + (1 - beta1) * g": "np.add(beta1 * m, (1 - beta1) * g, out=m)"}),
            Mistake("SHD-1", {".sum(0)": ".mean(0)"}),
            Mistake("SHD-2", {
                "gradients.sum(0).reshape(m.shape)":
                    "gradients.reshape(len(m), *m.shape)[np.arange(len(m)), np.arange(len(m))]"}),
            Mistake("SHD-4b", {
                "gradients.sum(0).reshape(m.shape)": "gradients.sum(0).reshape(-1, len(m)).T",
                "w.reshape(m.shape)": "w.reshape(-1, len(m)).T",
                ".reshape(-1)\n": ".T.reshape(-1)\n"}),
            Mistake("SHD-6", {"- lr *": "- lr * (np.arange(len(m)) == 0)[:, None] *"}),
            Mistake("SHD-7", {").reshape(-1)\n": ")\n"}),
            Mistake("SHD-14", {"w = (w.reshape": "w -= (w - (w.reshape", ").reshape(-1)\n": ").reshape(-1))\n"}),
            Mistake("SHD-16", {"gradients.sum(0).reshape(m.shape)": "gradients.sum(0)"}),
            Mistake("SHD-11", {"g ** 2": "(gradients ** 2).sum(0).reshape(m.shape)"}),
        ),
        alternatives={
            "rank by rank": {SUM: "np.array([part.sum(0) for part in np.split(gradients, len(m), 1)])",
                             ").reshape(-1)\n": ")\n    w = np.concatenate(list(w))\n"},
            "one vector": {"(w.reshape(m.shape) - lr * m_hat / (np.sqrt(v_hat) + eps)).reshape(-1)":
                           "w - (lr * m_hat / (np.sqrt(v_hat) + eps)).reshape(-1)"}}),
    Exercise(
        "20.2", minutes=10, lines=5,
        solution=combine_gradients, reference=by_targets, inputs=some_parts, edges=special_parts,
        further_edges=("part_gradient_0", "part_not_finite"),
        outputs=("gradient",),
        must_be_zero={"entry_lie_between": outside},
        mistakes=(
            Mistake("WSG-1", {"return total / int(counts.sum())": "return gradients.mean(0)"}),
            Mistake("WSG-2", {"int(count) * gradient": "gradient", "int(counts.sum())": "int((counts > 0).sum())"}),
            Mistake("WSG-3", {" / int(counts.sum())": ""}),
            Mistake("WSG-5", {"int(count) * gradient": "gradient"}),
            Mistake("WSG-6", {"int(counts.sum())": "len(counts)"}),
            Mistake("WSG-7", {"int(count) * gradient": "gradient / int(count)", " / int(counts.sum())": ""}),
            Mistake("WSG-8", {"if count > 0:": "if True:"}),
            Mistake("WSG-12", {"int(counts.sum())": "int((counts > 0).sum())"}),
            Mistake("WSG-13", {"int(count) * gradient": "gradient / int(count)"}),
            Mistake("WSG-10", {
                "total += int(count) * gradient": "total += np.multiply(gradient, int(count), out=gradient)"}),
            Mistake("WSG-11", {"return total / int(counts.sum())": "return gradients.sum(0)"}),
        ),
        alternatives={"as a product": {
            f"return total / {TOTAL}": "used = counts > 0\n    weights = (counts[used] / counts.sum()).astype("
                                       "gradients.dtype)\n    return np.tensordot(weights, gradients[used], 1)"}}),
]
