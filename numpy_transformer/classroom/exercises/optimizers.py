"""One step of Adam, and one of AdamW."""

import numpy as np

from ...module import Parameter
from ...training import Adam, AdamW
from ..exercise import Exercise, Mistake


def adam_step(w, g, m, v, t, lr, beta1, beta2, eps):
    """One step of Adam for one array of parameters (Kingma and Ba 2015, algorithm 1).

    w: (...) the parameters.  g: (...) their gradient.
    m, v: (...) the running means of g and of g², as the step before has left them; 0 before the first step.
    t: the number of this step, 1, 2, 3, ...
    lr: the learning rate.  beta1, beta2: the weights of the old mean, in m and in v.
    eps: a number that is added to the root of the corrected v.
    Since they start at 0, m and v lie too close to it at first: the step is made with means corrected for that.
    Return w, m, v: (...) after this step; m and v as the next step takes them, not corrected.
    """
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g ** 2
    m_hat = m / (1 - beta1 ** t)
    v_hat = v / (1 - beta2 ** t)
    w = w - lr * m_hat / (np.sqrt(v_hat) + eps)
    return w, m, v


def adamw_step(w, g, m, v, t, lr, beta1, beta2, eps, weight_decay):
    """One step of Adam with decoupled weight decay (Loshchilov and Hutter 2019; scaled by lr, as in PyTorch).

    w: (...) the parameters.  g: (...) their gradient.
    m, v: (...) the running means of g and of g², as the step before has left them; 0 before the first step.
    t: the number of this step, 1, 2, 3, ...  lr, beta1, beta2, eps: numbers, as in Adam (exercise 19.1).
    weight_decay: beside Adam's step, and unseen by m and v, the w that came in shrinks towards 0 by the part
        lr * weight_decay of itself.
    Return w, m, v: (...) after this step; m and v as the next step takes them, not corrected.
    """
    decayed = w - lr * weight_decay * w
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g ** 2
    m_hat = m / (1 - beta1 ** t)
    v_hat = v / (1 - beta2 ** t)
    w = decayed - lr * m_hat / (np.sqrt(v_hat) + eps)
    return w, m, v


def some_step(rng, n):
    """In the midst of training, with an eps that counts."""
    w, g, m, v = rng.standard_normal((4, *n.lead, n.D))
    numbers = [round(float(rng.uniform(*ends)), 3) for ends in ((0.05, 0.2), (0.6, 0.9), (0.92, 0.99))]
    return w, g, m, v ** 2 + 0.1, int(rng.integers(3, 9)), *numbers, 0.1


def first_steps(rng):
    (w, g), start = rng.standard_normal((2, 3, 4)), (*np.zeros((2, 3, 4)), 1, 0.01, 0.9, 0.999, 1e-8)
    g[1, 2] = 0                                 # an entry that has never had a gradient
    return [("the first step, one gradient 0", (w, g, *start)),
            ("the first step, gradients around 1e-6", (w, 1e-6 * g, *start))]


def decaying(rng, n):
    return *some_step(rng, n), round(float(rng.uniform(0.2, 0.4)), 3)


def decaying_first(rng):
    still = rng.standard_normal((3, 4)), *np.zeros((3, 3, 4)), 1, 0.1, 0.9, 0.999, 1e-8, 0.1
    return [*((note, (*inputs, 0.1)) for note, inputs in first_steps(rng)), ("no gradient has ever come", still)]


def by_adam(w, g, m, v, t, lr, beta1, beta2, eps):
    return after(Adam([Parameter(w)], lr, (beta1, beta2), eps), g, m, v, t)


def by_adamw(w, g, m, v, t, lr, beta1, beta2, eps, weight_decay):
    return after(AdamW([Parameter(w)], lr, (beta1, beta2), eps, weight_decay), g, m, v, t)


def after(optimizer, g, m, v, t):
    optimizer.parameters[0].grad, optimizer.t = g, t - 1
    optimizer.m[0][:], optimizer.v[0][:] = m, v
    optimizer.step()
    return optimizer.parameters[0].data, optimizer.m[0], optimizer.v[0]


HAT1, HAT2 = "m / (1 - beta1 ** t)", "v / (1 - beta2 ** t)"
ADAM = (
    Mistake("ADM-1", {HAT1: "m", HAT2: "v"},
            "There is no bias correction: m and v start at 0, and lie too close to it in early steps."),
    Mistake("ADM-2", {HAT2: "v"}, "Only m is corrected: v starts at 0 too, and early steps become far too long."),
    Mistake("ADM-3", {HAT1: "m"}, "Only v is corrected: m starts at 0 too, and early steps become too short."),
    Mistake("ADM-4a", {"beta1 ** t": "beta1 ** (t - 1)", "beta2 ** t": "beta2 ** (t - 1)"},
            "t counts from 0: the first step divides by 1 - β⁰ = 0. The first step has t = 1."),
    Mistake("ADM-4b", {"beta1 ** t": "beta1", "beta2 ** t": "beta2"},
            "t stays 1: the correction must fade as t grows."),
    Mistake("ADM-4c", {"beta1 ** t": "beta1 ** (t + 1)", "beta2 ** t": "beta2 ** (t + 1)"},
            "One is added to t: it is the number of this step already, 1 in the first one."),
    Mistake("ADM-5a", {"(1 - beta1 ** t)": "beta1 ** t", "(1 - beta2 ** t)": "beta2 ** t"},
            "It is divided by βᵗ, the weight of what is missing: divide by the weight of what is there."),
    Mistake("ADM-5b", {"beta1 ** t": "beta1 * t", "beta2 ** t": "beta2 * t"},
            "β times t is not β to the power t: after t steps the start still weighs β β ... β."),
    Mistake("ADM-6a", {"g ** 2": "g"}, "v takes g: it is the mean of the squares, and its root a size."),
    Mistake("ADM-6b", {"np.sqrt(v_hat)": "v_hat"},
            "The root is missing: v is a mean of squares, and only its root has the size of a gradient."),
    Mistake("ADM-6c", {"(1 - beta1) * g": "g"}, "m is not a mean: the new g enters with the weight 1 - β1."),
    Mistake("ADM-6d", {"(1 - beta2) * g ** 2": "g ** 2"}, "v is not a mean: the new g² enters with the weight 1 - β2."),
    Mistake("ADM-7", {"return w, m, v": "return w, m_hat, v_hat"},
            "The corrected means are kept: the next step would correct them again. Correct copies, keep m and v."),
    Mistake("ADM-8a", {"beta1 * m + (1 - beta1)": "beta2 * m + (1 - beta2)", "beta2 * v + (1 - beta2)":
                       "beta1 * v + (1 - beta1)", HAT1: "m / (1 - beta2 ** t)", HAT2: "v / (1 - beta1 ** t)"},
            "The betas are swapped: β1 belongs to m, β2 to v."),
    Mistake("ADM-8b", {"lr * m_hat": "lr * g"}, "The step goes along g: it should go along the running mean."),
    Mistake("ADM-8c", {"beta1 * m + (1 - beta1)": "(1 - beta1) * m + beta1", "beta2 * v + (1 - beta2)":
                       "(1 - beta2) * v + beta2"},
            "Old and new have each other's weight: β belongs to the old mean, 1 - β to the new value."),
    Mistake("ADM-9a", {"np.sqrt(v_hat) + eps": "np.sqrt(v_hat + eps)"},
            "eps stands inside the root, where it acts like its own root: 1e-8 like 1e-4. It is added outside."),
    Mistake("ADM-9b", {"np.sqrt(v_hat) + eps": "np.sqrt(v_hat)"},
            "eps is missing: where no gradient has come, the step is 0 / 0."),
    Mistake("ADM-9c", {"(np.sqrt(v_hat) + eps)": "((np.sqrt(v) + eps) / math.sqrt(1 - beta2 ** t))"},
            "eps is added to the root of the uncorrected v: in early steps it then counts for more than eps."),
    Mistake("ADM-9d", {"(np.sqrt(v_hat) + eps)": "np.sqrt(v_hat) + eps"},
            "Parentheses are missing: eps is added to the weights, and the step is divided by the root alone."),
    Mistake("ADM-11a", {"- lr * m_hat": "+ lr * m_hat"}, "That climbs: a step goes against the gradient."),
    Mistake("ADM-12", {"beta1 * m + (1 - beta1) * g": "np.add(beta1 * m, (1 - beta1) * g, out=m)"},
            "An argument is written into (+=, -=, *=): make new arrays, the caller may still need the old ones."),
    Mistake("ADM-13", {"(1 - beta2) * g": "(1 - beta1) * g"},
            "The weights of v, β2 and 1 - β1, do not sum to 1: the new g² enters with 1 - β2."),
)
BASIC = ("ADM-1", "ADM-2", "ADM-3", "ADM-4a", "ADM-6a", "ADM-6b", "ADM-7", "ADM-8a", "ADM-8c", "ADM-9a", "ADM-9b",
         "ADM-9d", "ADM-11a", "ADM-12")           # what is looked for where Adam is not the subject

EXERCISES = [
    Exercise(
        "19.1", "A step of Adam", minutes=15, lines=6,
        solution=adam_step, reference=by_adam, inputs=some_step, edges=first_steps, outputs=("w", "m", "v"),
        hints=("m is the direction, v the size squared. If the old mean has the weight beta, which has the new value?",
               "After t steps the weights of all g in m sum to 1 - beta1 ** t, not to 1. What must m be divided by?",
               "m = beta1 m + (1 - beta1) g, v likewise with g²; w - lr m_hat / (sqrt(v_hat) + eps), where m_hat = "
               "m / (1 - beta1 ** t), and v_hat likewise; return m and v, not the hats."),
        mistakes=ADAM,
        alternatives={"one factor for both corrections": {
            "lr * m_hat / (np.sqrt(v_hat) + eps)": "lr * math.sqrt(1 - beta2 ** t) / (1 - beta1 ** t) * m / "
                                                   "(np.sqrt(v) + eps * math.sqrt(1 - beta2 ** t))"}}),
    Exercise(
        "19.2", "A step of AdamW", minutes=10, lines=7,
        solution=adamw_step, reference=by_adamw, inputs=decaying, edges=decaying_first, outputs=("w", "m", "v"),
        hints=("Adam's step as in exercise 19.1. Where can the decay stand, so that neither m nor v sees it?",
               "In g it would be divided by sqrt(v_hat), and weights with large gradients would hardly decay. So it "
               "stands beside Adam's step, and both begin at the old w.",
               "Take from the old w both lr weight_decay w and Adam's lr m_hat / (sqrt(v_hat) + eps)."),
        mistakes=(
            *(mistake for mistake in ADAM if mistake.name in BASIC),
            Mistake("ADM-10a", {"decayed = w - lr * weight_decay * w": "g = g + weight_decay * w",
                                "w = decayed": "w = w"},
                    "The decay is in the gradient, as L2 regularization: it is then divided by the size of the "
                    "gradients. AdamW keeps it out of m and v."),
            Mistake("ADM-10b", {"lr * weight_decay * w": "weight_decay * w"},
                    "The decay lacks the learning rate: here both parts of the step scale with lr."),
            Mistake("ADM-10c", {"decayed = w - lr * weight_decay * w": "decayed = w",
                                "lr * m_hat": "lr * (m_hat + weight_decay * w)"},
                    "The decay stands above the line with m, so that it is divided by the size of the gradients too."),
            Mistake("ADM-10d", {"decayed = w - lr * weight_decay * w": "decayed = w", "return": "w = w * (1 - lr * "
                                "weight_decay)\n    return"},
                    "The decay comes after Adam's step, and shrinks that step too: only the w that came in decays."),
            Mistake("ADM-10e", {"w - lr * weight_decay": "w + lr * weight_decay"},
                    "The decay has the wrong sign: the weights grow."),
            Mistake("ADM-10f", {"decayed = w - lr * weight_decay * w": "decayed = w"},
                    "There is no decay: this is Adam."),
        ),
        alternatives={"as a factor": {"w - lr * weight_decay * w": "(1 - lr * weight_decay) * w"}}),
]
