"""Training: the softmax and its loss, the steps of optimizers, and small batches in place of a large one."""

import math

import numpy as np

from .values import number, softmax


def softmax_and_loss(c):
    logits, target = np.array([2.0, 1.0, 0.0]), 1
    exps = np.exp(logits)
    p = softmax(logits)
    one_hot = np.eye(3)[target]
    columns = [(1.9, logits, "plain", "logits", 2), (4.1, exps, "plain", "exps", 2), (6.7, p, "weight", "probabilities", 3)]
    areas = [c.cells(x, 3.0, 3, 1, role, size=0.5, width=0.95, values=[[number(v, digits)] for v in numbers])
             for x, numbers, role, _, digits in columns]
    for area, (x, _, _, key, _) in zip(areas, columns, strict=True):
        c.text(x, 4.05, c.word(key), bold=True)
    for n, word in enumerate(c.word("classes").split()):
        c.text(1.2, areas[0].row(n).y, word, ha="right", bold=n == target)
    for before, after, label in ((areas[0], areas[1], "exp"), (areas[1], areas[2], f"÷ {number(exps.sum())}")):
        c.arrow(before.right, after.left)
        c.note((before.right[0] + after.left[0]) / 2, before.y + 0.22, label)
    loss = c.box(9.6, 3.0, 1.2, 0.6, number(-math.log(p[target])))
    c.text(9.6, 4.05, c.word("loss"), bold=True)
    c.arrow(areas[2].right, loss.left)
    c.note((areas[2].right[0] + loss.left[0]) / 2, 3.22, f"−log {number(p[target], 3)}")
    c.note(6.7, 1.95, c.word("sum"))
    lower = [(4.9, p, "weight", 3), (6.7, one_hot, "muted", 0), (1.9, p - one_hot, "gradient", 3)]
    left, right, gradient = [c.cells(x, 0.4, 3, 1, role, size=0.5, width=0.95, values=[[number(v, digits)] for v in numbers])
                             for x, numbers, role, digits in lower]
    c.text(5.8, 0.4, "−", bold=True)
    c.note(6.7, 1.32, c.word("one_hot"))
    c.note(4.9, 1.32, "p")
    both = c.panel(5.8, 0.53, 3.2, 2.15)
    c.back(loss.bottom, (loss.x, 0.4), (both.right[0], 0.4))
    c.back((both.left[0], 0.4), gradient.right)
    c.note(3.28, 0.62, "dz = p − one-hot", role="gradient")
    c.back(gradient.top, areas[0].bottom)


M_HAT, V_HAT = "$\\hat{\\mathrm{m}}$", "$\\hat{\\mathrm{v}}$"
OPTIMIZERS = [                                              # name, height, what is kept and how far above, the step
    ("sgd", 4.6, [], "w ← w − lr · g"),
    ("momentum", 3.3, [("u ← μ u + g", 0.0)], "w ← w − lr · u"),
    ("adam", 1.1, [("m ← β₁ m + (1 − β₁) g", 0.6), ("v ← β₂ v + (1 − β₂) g²", -0.6)], f"w ← w − lr · {M_HAT} / (√{V_HAT} + ε)")]


def optimizer_step(c):
    for name, y, states, formula in OPTIMIZERS:
        c.text(0.1, y, c.word(name), bold=True, ha="left")
        gradient = c.box(2.5, y, 0.7, 0.55, "g", "gradient")
        step = c.box(9.9, y, 3.1, 0.6, formula, "parameter")
        for state, above in states:
            box = c.box(5.6, y + above, 2.9, 0.6, state)
            c.arrow(gradient.right, box.left)
            c.arrow(box.right, (step.left[0], y + above / 4))
        if not states:
            c.arrow(gradient.right, step.left)
    c.note(2.5, 5.3, c.word("gradient"), role="gradient")
    c.note(5.6, 5.3, c.word("memory"))
    c.note(9.9, 5.3, c.word("step"))
    c.note(9.9, 0.45, f"{M_HAT} = m / (1 − β₁ᵗ)\n{V_HAT} = v / (1 − β₂ᵗ)")


def accumulation(c):
    sizes = [5, 3, 4]
    total = sum(sizes)
    c.text(0, 5.1, c.word("large", n=total), bold=True, ha="left")
    batch = c.cells(1.95, 4.3, 1, total, size=0.32)
    gradient = c.box(5.5, 4.3, 1.1, 0.55, "g", "gradient")
    step = c.box(8.7, 4.3, 1.5, 0.6, c.word("step"), "parameter")
    c.back(batch.right, gradient.left)
    c.arrow(gradient.right, step.left)
    c.text(0, 3.3, c.word("small", sizes=", ".join(map(str, sizes))), bold=True, ha="left")
    joint = c.circle(6.9, 1.75, role="gradient")
    step = c.box(8.7, 1.75, 1.5, 0.6, c.word("step"), "parameter")
    for n, size in enumerate(sizes):
        y = 2.6 - 0.85 * n
        batch = c.cells(0.03 + 0.16 * size, y, 1, size, size=0.32)
        gradient = c.box(5.5, y, 1.1, 0.55, f"g{'₁₂₃'[n]}", "gradient")
        c.back(batch.right, gradient.left)
        if n == 1:
            c.back(gradient.right, joint.left)
        else:
            c.back(gradient.right, (6.9, y), joint.top if n == 0 else joint.bottom)
    c.arrow(joint.right, step.left)
    c.note(4.7, 0.2, c.word("divided", n=total), va="top")


COEFFICIENTS = 3.4445, -4.7750, 2.0315


def orthogonal_step(c):
    a, b, d = COEFFICIENTS
    values = np.array([8.0, 2.0, 0.5, 0.1])
    stages = [values, values / np.linalg.norm(values)]
    for _ in range(5):
        s = stages[-1]
        stages.append(a * s + b * s ** 3 + d * s ** 5)
    left, right = c.box(0.4, 2.6, 0.7, 2.0, "U", "muted"), c.box(10.85, 2.6, 0.7, 2.0, "Vᵀ", "muted")
    areas = []
    for n, numbers in enumerate(stages):
        digits = 1 if n == 0 else 3
        shades = [[float(min(s, 1.2)) * 0.45] for s in numbers]
        areas.append(c.cells(1.65 + 1.33 * n, 2.6, 4, 1, "muted" if n == 0 else "weight", size=0.5, width=0.85,
                             values=[[number(s, digits)] for s in numbers], shades=[[0.2]] * 4 if n == 0 else shades))
    for n, (before, after) in enumerate(zip(areas, areas[1:])):
        c.arrow(before.right, after.left)
        c.note((before.right[0] + after.left[0]) / 2, 2.82, "÷" if n == 0 else "p")
    c.text(areas[0].x, 3.95, c.word("gradient"), bold=True)
    c.text(areas[1].x, 3.95, c.word("divided"), bold=True)
    c.brace((areas[2].left[0], 3.75), (areas[6].right[0], 3.75), c.word("iterations"), "above")
    c.note(left.x, 1.35, c.word("kept"))
    c.note(right.x, 1.35, c.word("kept"))
    c.note(5.6, 0.85, f"p(s) = {number(a, 4)} s − {number(-b, 4)} s³ + {number(d, 4)} s⁵")
