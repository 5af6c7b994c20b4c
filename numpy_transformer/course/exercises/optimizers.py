"""One step of Adam, and one of AdamW."""

from types import SimpleNamespace

import numpy as np

from ...module import Parameter
from ...training import Adam, AdamW
from .definition import Exercise, Mistake


def adam_step(w, g, m, v, t, lr, beta1, beta2, eps):
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g ** 2
    m_hat = m / (1 - beta1 ** t)
    v_hat = v / (1 - beta2 ** t)
    w = w - lr * m_hat / (np.sqrt(v_hat) + eps)
    return w, m, v


def adamw_step(w, g, m, v, t, lr, beta1, beta2, eps, weight_decay):
    decayed = w - lr * weight_decay * w
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g ** 2
    m_hat = m / (1 - beta1 ** t)
    v_hat = v / (1 - beta2 ** t)
    w = decayed - lr * m_hat / (np.sqrt(v_hat) + eps)
    return w, m, v


def some_step(rng, n):
    """Draws a step in the middle of training, with an eps that is large enough to matter."""
    w, g, m, v = rng.standard_normal((4, *n.lead, n.D))
    numbers = [round(float(rng.uniform(*ends)), 3) for ends in ((0.05, 0.2), (0.6, 0.9), (0.92, 0.99))]
    return w, g, m, v ** 2 + 0.1, int(rng.integers(3, 9)), *numbers, round(float(rng.uniform(0.05, 0.2)), 3)


def first_steps(rng):
    w, g = rng.standard_normal((2, 3, 4))
    start = (*np.zeros((2, 3, 4)), 1, 0.01, 0.9, 0.999, 1e-8)
    g[1, 2] = 0                                 # an entry that has not had a gradient yet
    return [("first_step_gradient", (w, g, *start)),
            ("first_step_gradients", (w, 1e-6 * g, *start)),
            ("vector", some_step(rng, SimpleNamespace(lead=(), D=5)))]


def decaying(rng, n):
    return *some_step(rng, n), round(float(rng.uniform(0.2, 0.4)), 3)


def decaying_first(rng):
    vector = decaying(rng, SimpleNamespace(lead=(), D=5))
    still = rng.standard_normal((3, 4)), *np.zeros((3, 3, 4)), 1, 0.1, 0.9, 0.999, 1e-8, 0.1
    first = [(note, (*inputs, 0.1)) for note, inputs in first_steps(rng) if note != "vector"]
    ordinary = decaying(rng, SimpleNamespace(lead=(3,), D=5))
    rare = (ordinary[0], ordinary[1] * (rng.random((3, 5)) < 0.6), *ordinary[2:])
    return [*first, ("vector", vector), ("gradients_0_so", still), ("some_gradients_0", rare)]


def by_adam(w, g, m, v, t, lr, beta1, beta2, eps):
    return after(Adam([Parameter(w)], lr, (beta1, beta2), eps), g, m, v, t)


def by_adamw(w, g, m, v, t, lr, beta1, beta2, eps, weight_decay):
    return after(AdamW([Parameter(w)], lr, (beta1, beta2), eps, weight_decay), g, m, v, t)


def after(optimizer, g, m, v, t):
    optimizer.parameters[0].grad = g
    optimizer.t = t - 1
    optimizer.m[0][:] = m
    optimizer.v[0][:] = v
    optimizer.step()
    return optimizer.parameters[0].data, optimizer.m[0], optimizer.v[0]


# The mistakes to look for in every exercise that uses Adam.


EXERCISES = [
    Exercise(
        "19.1", minutes=15, lines=6,
        solution=adam_step, reference=by_adam, inputs=some_step, edges=first_steps, outputs=("w", "m", "v"),
        mistakes=(
            Mistake("ADM-1", {"m / (1 - beta1 ** t)": "m", "v / (1 - beta2 ** t)": "v"}),
            Mistake("ADM-2", {"v / (1 - beta2 ** t)": "v"}),
            Mistake("ADM-3", {"m / (1 - beta1 ** t)": "m"}),
            Mistake("ADM-4a", {"beta1 ** t": "beta1 ** (t - 1)", "beta2 ** t": "beta2 ** (t - 1)"}),
            Mistake("ADM-4b", {"beta1 ** t": "beta1", "beta2 ** t": "beta2"}),
            Mistake("ADM-5a", {"(1 - beta1 ** t)": "beta1 ** t", "(1 - beta2 ** t)": "beta2 ** t"}),
            Mistake("ADM-5b", {"beta1 ** t": "beta1 * t", "beta2 ** t": "beta2 * t"}),
            Mistake("ADM-6a", {"g ** 2": "g"}),
            Mistake("ADM-6b", {"np.sqrt(v_hat)": "v_hat"}),
            Mistake("ADM-6c", {"(1 - beta1) * g": "g"}),
            Mistake("ADM-7", {"return w, m, v": "return w, m_hat, v_hat"}),
            Mistake("ADM-8a", {
                "beta1 * m + (1 - beta1)": "beta2 * m + (1 - beta2)",
                "beta2 * v + (1 - beta2)": "beta1 * v + (1 - beta1)",
                "m / (1 - beta1 ** t)": "m / (1 - beta2 ** t)",
                "v / (1 - beta2 ** t)": "v / (1 - beta1 ** t)"}),
            Mistake("ADM-8b", {"lr * m_hat": "lr * g"}),
            Mistake("ADM-8c", {
                "beta1 * m + (1 - beta1)": "(1 - beta1) * m + beta1",
                "beta2 * v + (1 - beta2)": "(1 - beta2) * v + beta2"}),
            Mistake("ADM-9a", {"np.sqrt(v_hat) + eps": "np.sqrt(v_hat + eps)"}),
            Mistake("ADM-9b", {"np.sqrt(v_hat) + eps": "np.sqrt(v_hat)"}),
            Mistake("ADM-9c", {"(np.sqrt(v_hat) + eps)": "((np.sqrt(v) + eps) / math.sqrt(1 - beta2 ** t))"}),
            Mistake("ADM-9d", {"(np.sqrt(v_hat) + eps)": "np.sqrt(v_hat) + eps"}),
            Mistake("ADM-11a", {"- lr * m_hat": "+ lr * m_hat"}),
            Mistake("ADM-12", {"beta1 * m + (1 - beta1) * g": "np.add(beta1 * m, (1 - beta1) * g, out=m)"}),
            Mistake("ADM-16", {"g ** 2": "np.abs(g)"}),
            Mistake("ADM-17", {"lr * m_hat": "m_hat"}),
            Mistake("ADM-18", {"m_hat / (np.sqrt(v_hat) + eps)": "g"}),
            Mistake("ADM-19", {" / (np.sqrt(v_hat) + eps)": ""}),
            Mistake("ADM-22", {"w = w - lr": "w -= lr"}),
        ),
        alternatives={"one factor for both corrections": {
            "lr * m_hat / (np.sqrt(v_hat) + eps)": "lr * math.sqrt(1 - beta2 ** t) / (1 - beta1 ** t) * m / "
                                                   "(np.sqrt(v) + eps * math.sqrt(1 - beta2 ** t))"}}),
    Exercise(
        "19.2", minutes=10, lines=7,
        solution=adamw_step, reference=by_adamw, inputs=decaying, edges=decaying_first, outputs=("w", "m", "v"),
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
            Mistake("ADM-24", {"beta1 ** t": "beta1 ** (t + 1)", "beta2 ** t": "beta2 ** (t + 1)"}),
            Mistake("ADM-23", {"return w, m, v": "w = np.where(g == 0, decayed, w)\n    return w, m, v"}),
            Mistake("ADM-9b", {"np.sqrt(v_hat) + eps": "np.sqrt(v_hat)"}),
            Mistake("ADM-9c", {"(np.sqrt(v_hat) + eps)": "((np.sqrt(v) + eps) / math.sqrt(1 - beta2 ** t))"}),
            Mistake("ADM-9d", {"(np.sqrt(v_hat) + eps)": "np.sqrt(v_hat) + eps"}),
            Mistake("ADM-11a", {"- lr * m_hat": "+ lr * m_hat"}),
            Mistake("ADM-12", {"beta1 * m + (1 - beta1) * g": "np.add(beta1 * m, (1 - beta1) * g, out=m)"}),
            Mistake("ADM-10a", {
                "decayed = w - lr * weight_decay * w": "g = g + weight_decay * w",
                "w = decayed": "w = w"}),
            Mistake("ADM-10b", {"lr * weight_decay * w": "weight_decay * w"}),
            Mistake("ADM-10c", {
                "decayed = w - lr * weight_decay * w": "decayed = w",
                "lr * m_hat": "lr * (m_hat + weight_decay * w)"}),
            Mistake("ADM-10d", {
                "decayed = w - lr * weight_decay * w": "decayed = w",
                "return": "w = w * (1 - lr * weight_decay)\n    return"}),
            Mistake("ADM-10f", {"decayed = w - lr * weight_decay * w": "decayed = w"}),
        ),
        alternatives={"as a factor": {"w - lr * weight_decay * w": "(1 - lr * weight_decay) * w"}}),
]
