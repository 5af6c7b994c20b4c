"""One step of Adam, and one of AdamW."""

import numpy as np

from ...module import Parameter
from ...training import Adam, AdamW
from .definition import Exercise, Mistake


def adam_step(w, g, m, v, t, lr, beta1, beta2, eps):
    """One step of Adam for one array of parameters (Kingma and Ba 2015, algorithm 1).

    w: (...), the parameters.
    g: (...), their gradient.
    m, v: (...), the running means of g and of g² after the previous step; 0 before the first step.
    t: the number of this step, 1, 2, 3, ...
    lr: the learning rate.
    beta1, beta2: the weights of the old mean in m and in v.
    eps: a number that is added to the square root of the corrected v.
    m and v start at 0, so they are too close to 0 in the first steps. The step uses means that are corrected for this.
    Return w, m, v: (...) after this step. Return m and v as the next step needs them, without the correction.
    """
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g ** 2
    m_hat = m / (1 - beta1 ** t)
    v_hat = v / (1 - beta2 ** t)
    w = w - lr * m_hat / (np.sqrt(v_hat) + eps)
    return w, m, v


def adamw_step(w, g, m, v, t, lr, beta1, beta2, eps, weight_decay):
    """One step of Adam with decoupled weight decay (Loshchilov and Hutter 2019; scaled by lr, as in PyTorch).

    w: (...), the parameters.
    g: (...), their gradient.
    m, v: (...), the running means of g and of g² after the previous step; 0 before the first step.
    t, lr, beta1, beta2, eps: numbers, as in Adam (exercise 19.1).
    weight_decay: in addition to Adam's step, the given w shrinks by the fraction lr * weight_decay of itself. This
        decay does not enter m and v.
    Return w, m, v: (...) after this step. Return m and v as the next step needs them, without the correction.
    """
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
    return w, g, m, v ** 2 + 0.1, int(rng.integers(3, 9)), *numbers, 0.1


def first_steps(rng):
    w, g = rng.standard_normal((2, 3, 4))
    start = (*np.zeros((2, 3, 4)), 1, 0.01, 0.9, 0.999, 1e-8)
    g[1, 2] = 0                                 # an entry that has not had a gradient yet
    return [("the first step, one gradient 0", (w, g, *start)),
            ("the first step, gradients around 1e-6", (w, 1e-6 * g, *start))]


def decaying(rng, n):
    return *some_step(rng, n), round(float(rng.uniform(0.2, 0.4)), 3)


def decaying_first(rng):
    still = rng.standard_normal((3, 4)), *np.zeros((3, 3, 4)), 1, 0.1, 0.9, 0.999, 1e-8, 0.1
    return [*((note, (*inputs, 0.1)) for note, inputs in first_steps(rng)), ("all gradients 0 so far", still)]


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


HAT1, HAT2 = "m / (1 - beta1 ** t)", "v / (1 - beta2 ** t)"
ADAM = (
    Mistake("ADM-1", {HAT1: "m", HAT2: "v"},
            "You have no bias correction. m and v start at 0, and are too close to 0 in the first steps."),
    Mistake("ADM-2", {HAT2: "v"},
            "You correct m only. v starts at 0 too, so your first steps are far too long."),
    Mistake("ADM-3", {HAT1: "m"},
            "You correct v only. m starts at 0 too, so your first steps are too short."),
    Mistake("ADM-4a", {"beta1 ** t": "beta1 ** (t - 1)", "beta2 ** t": "beta2 ** (t - 1)"},
            "You count t from 0, so the first step divides by 1 - β⁰ = 0. The first step has t = 1."),
    Mistake("ADM-4b", {"beta1 ** t": "beta1", "beta2 ** t": "beta2"},
            "Your correction is always that of t = 1. It must fade as t grows."),
    Mistake("ADM-4c", {"beta1 ** t": "beta1 ** (t + 1)", "beta2 ** t": "beta2 ** (t + 1)"},
            "You add 1 to t. It is already the number of this step, 1 for the first one."),
    Mistake("ADM-5a", {"(1 - beta1 ** t)": "beta1 ** t", "(1 - beta2 ** t)": "beta2 ** t"},
            "You divide by βᵗ, the weight of the initial 0. Divide by the total weight of the gradients instead."),
    Mistake("ADM-5b", {"beta1 ** t": "beta1 * t", "beta2 ** t": "beta2 * t"},
            "β times t is not β to the power t. After t steps, the initial value has the weight β multiplied by itself "
            "t times."),
    Mistake("ADM-5d", {HAT1: "m / (1 - beta1) ** t", HAT2: "v / (1 - beta2) ** t"},
            "You raise 1 - β to the power t. Only β has this power: after t steps, the initial 0 has the weight βᵗ."),
    Mistake("ADM-5e", {HAT1: "m * (1 - beta1 ** t)", HAT2: "v * (1 - beta2 ** t)"},
            "You multiply by 1 - βᵗ, which makes the means even smaller. Divide by it."),
    Mistake("ADM-6a", {"g ** 2": "g"}, "You put g into v. v is the mean of the squared gradients."),
    Mistake("ADM-6b", {"np.sqrt(v_hat)": "v_hat"},
            "The square root is missing. v is a mean of squares; only its root has the scale of a gradient."),
    Mistake("ADM-6c", {"(1 - beta1) * g": "g"},
            "Your m is not a mean. The new g enters with the weight 1 - β1."),
    Mistake("ADM-6d", {"(1 - beta2) * g ** 2": "g ** 2"},
            "Your v is not a mean. The new g² enters with the weight 1 - β2."),
    Mistake("ADM-7", {"return w, m, v": "return w, m_hat, v_hat"},
            "You return the corrected means, which the next step would correct again. Return m and v themselves."),
    Mistake("ADM-8a", {"beta1 * m + (1 - beta1)": "beta2 * m + (1 - beta2)", "beta2 * v + (1 - beta2)":
                       "beta1 * v + (1 - beta1)", HAT1: "m / (1 - beta2 ** t)", HAT2: "v / (1 - beta1 ** t)"},
            "You swapped the betas. β1 belongs to m, β2 to v."),
    Mistake("ADM-8b", {"lr * m_hat": "lr * g"}, "Your step uses g itself. It should use the running mean."),
    Mistake("ADM-8c", {"beta1 * m + (1 - beta1)": "(1 - beta1) * m + beta1", "beta2 * v + (1 - beta2)":
                       "(1 - beta2) * v + beta2"},
            "You swapped the weights of old and new. β belongs to the old mean, 1 - β to the new value."),
    Mistake("ADM-9a", {"np.sqrt(v_hat) + eps": "np.sqrt(v_hat + eps)"},
            "You add eps inside the square root, where 1e-8 has the effect of 1e-4. Add it outside."),
    Mistake("ADM-9b", {"np.sqrt(v_hat) + eps": "np.sqrt(v_hat)"},
            "eps is missing. For an entry that has had no gradient yet, the step is 0 / 0."),
    Mistake("ADM-9c", {"(np.sqrt(v_hat) + eps)": "((np.sqrt(v) + eps) / math.sqrt(1 - beta2 ** t))"},
            "You add eps to the square root of the uncorrected v, so its effect is too large in the first steps."),
    Mistake("ADM-9d", {"(np.sqrt(v_hat) + eps)": "np.sqrt(v_hat) + eps"},
            "Parentheses are missing. You add eps to the weights, and divide the step by the square root only."),
    Mistake("ADM-11a", {"- lr * m_hat": "+ lr * m_hat"},
            "You step uphill. A step goes against the gradient."),
    Mistake("ADM-12", {"beta1 * m + (1 - beta1) * g": "np.add(beta1 * m, (1 - beta1) * g, out=m)"},
            "You write into an argument (+=, -=, *= or out=). Make new arrays; the caller may still need the old "
            "ones."),
    Mistake("ADM-14", {"return w, m, v": "return m, v, w"},
            "You return the arrays in the wrong order. The parameters come first, then m and v."),
    Mistake("ADM-15", {"g ** 2": "m ** 2"}, "You put the square of m into v. v is the mean of the squared gradients."),
    Mistake("ADM-16", {"g ** 2": "np.abs(g)"},
            "You put absolute values into v. v is the mean of the squared gradients."),
    Mistake("ADM-17", {"lr * m_hat": "m_hat"}, "The learning rate is missing in your step."),
    Mistake("ADM-18", {"m_hat / (np.sqrt(v_hat) + eps)": "g"},
            "Your step is lr times g, as in plain gradient descent. In Adam, it is the corrected m divided by the root "
            "of the corrected v."),
    Mistake("ADM-19", {" / (np.sqrt(v_hat) + eps)": ""},
            "Your step is not divided by the square root of v, so it grows with the size of the gradients."),
    Mistake("ADM-20", {"w - lr * m_hat": "-lr * m_hat"},
            "You return the step itself. Add it to w."),
    Mistake("ADM-21", {"    m = beta1": "    old_m, old_v = m, v\n    m = beta1", HAT1: "old_m / (1 - beta1 ** t)",
                       HAT2: "old_v / (1 - beta2 ** t)"},
            "Your step uses m and v as they were before this gradient. Update them first."),
    Mistake("ADM-22", {"w = w - lr": "w -= lr"},
            "w -= ... writes into the caller's array. w = w - ... makes a new one."),
    Mistake("ADM-13", {"(1 - beta2) * g": "(1 - beta1) * g"},
            "Your weights in v, β2 and 1 - β1, do not sum to 1. The new g² enters with the weight 1 - β2."),
)
# The mistakes to look for in every exercise that uses Adam.
BASIC = ("ADM-1", "ADM-2", "ADM-3", "ADM-4a", "ADM-6a", "ADM-6b", "ADM-7", "ADM-8a", "ADM-8c", "ADM-9a", "ADM-9b",
         "ADM-9d", "ADM-11a", "ADM-12", "ADM-14", "ADM-17", "ADM-19")

EXERCISES = [
    Exercise(
        "19.1", "A step of Adam", minutes=15, lines=6,
        solution=adam_step, reference=by_adam, inputs=some_step, edges=first_steps, outputs=("w", "m", "v"),
        hints=("m is the direction, v the squared size. If the old mean has the weight beta, which weight has the new "
               "value?",
               "After t steps, the weights of all g in m sum to 1 - beta1 ** t instead of 1. By what must m be "
               "divided?",
               "m = beta1 m + (1 - beta1) g, and v the same with g²; w - lr m_hat / (sqrt(v_hat) + eps), where m_hat = "
               "m / (1 - beta1 ** t), and v_hat the same with beta2; return m and v, not m_hat and v_hat."),
        mistakes=ADAM,
        alternatives={"one factor for both corrections": {
            "lr * m_hat / (np.sqrt(v_hat) + eps)": "lr * math.sqrt(1 - beta2 ** t) / (1 - beta1 ** t) * m / "
                                                   "(np.sqrt(v) + eps * math.sqrt(1 - beta2 ** t))"}}),
    Exercise(
        "19.2", "A step of AdamW", minutes=10, lines=7,
        solution=adamw_step, reference=by_adamw, inputs=decaying, edges=decaying_first, outputs=("w", "m", "v"),
        hints=("Start from Adam's step in exercise 19.1. Where can the decay be, so that it enters neither m nor v?",
               "In g, the decay would be divided by sqrt(v_hat), and weights with large gradients would hardly decay. "
               "So subtract it separately from Adam's step. Both are computed from the old w.",
               "Subtract both lr weight_decay w and Adam's lr m_hat / (sqrt(v_hat) + eps) from the old w."),
        mistakes=(
            *(mistake for mistake in ADAM if mistake.name in BASIC),
            Mistake("ADM-10a", {"decayed = w - lr * weight_decay * w": "g = g + weight_decay * w",
                                "w = decayed": "w = w"},
                    "You add the decay to the gradient, as in L2 regularization, so it is divided by the size of the "
                    "gradients. AdamW keeps it out of m and v."),
            Mistake("ADM-10b", {"lr * weight_decay * w": "weight_decay * w"},
                    "You do not multiply the decay by the learning rate. Here both parts of the step scale with lr."),
            Mistake("ADM-10g", {"lr * weight_decay * w": "lr * weight_decay"},
                    "You subtract lr * weight_decay from every entry. Each entry shrinks by this fraction of itself."),
            Mistake("ADM-10c", {"decayed = w - lr * weight_decay * w": "decayed = w",
                                "lr * m_hat": "lr * (m_hat + weight_decay * w)"},
                    "You add the decay to the corrected m, so it is also divided by the size of the gradients."),
            Mistake("ADM-10d", {"decayed = w - lr * weight_decay * w": "decayed = w", "return": "w = w * (1 - lr * "
                                "weight_decay)\n    return"},
                    "You apply the decay after Adam's step, so it also shrinks that step. Only the given w decays."),
            Mistake("ADM-10e", {"w - lr * weight_decay": "w + lr * weight_decay"},
                    "The sign of your decay is wrong, so the weights grow."),
            Mistake("ADM-10f", {"decayed = w - lr * weight_decay * w": "decayed = w"},
                    "You have no weight decay. This is Adam."),
        ),
        alternatives={"as a factor": {"w - lr * weight_decay * w": "(1 - lr * weight_decay) * w"}}),
]
