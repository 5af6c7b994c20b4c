"""Backward on numbers and on arrays: a neuron as a graph, a matrix product, a linear layer, and how gradients are checked."""

import math

from .values import number, short


def graph_of_scalars(c):
    x1, w1, x2, w2, b, target = 1.0, 0.5, -2.0, 0.3, 0.4, 1.0
    u = w1 * x1 + w2 * x2 + b
    y = math.tanh(u)
    r = y - target
    dy = 2 * r                                              # L = r r
    du = dy * (1 - y * y)
    nodes = [                                               # name, place, value, derivative of L, inputs
        ("w₁", 0.7, 5.6, w1, du * x1, ()),
        ("x₁", 0.7, 4.3, x1, du * w1, ()),
        ("w₂", 0.7, 3.0, w2, du * x2, ()),
        ("x₂", 0.7, 1.7, x2, du * w2, ()),
        ("b", 0.7, 0.1, b, du, ()),
        ("p₁ = w₁ x₁", 2.4, 4.95, w1 * x1, du, ("w₁", "x₁")),
        ("p₂ = w₂ x₂", 2.4, 2.35, w2 * x2, du, ("w₂", "x₂")),
        ("s = p₁ + p₂", 4.2, 2.9, w1 * x1 + w2 * x2, du, ("p₁ = w₁ x₁", "p₂ = w₂ x₂")),
        ("u = s + b", 6.0, 2.5, u, du, ("s = p₁ + p₂", "b")),
        ("y = tanh u", 7.6, 2.5, y, dy, ("u = s + b",)),
        ("r = y − 1", 9.2, 2.5, r, dy, ("y = tanh u",)),
        ("L = r r", 11.1, 2.5, r * r, 1.0, ("r = y − 1", "r = y − 1"))]         # r is used twice
    areas = {}
    for name, x, height, value, derivative, inputs in nodes:
        role = "parameter" if name in ("w₁", "w₂", "b") else "plain"
        area = areas[name] = c.box(x, height, 1.25 if inputs else 0.8, 0.35 + 0.2 * max(1, len(inputs)), name, role)
        c.note(x, area.top[1] + 0.05, number(value, 3) if inputs else short(value), va="bottom", role="ink")
        c.note(x, area.bottom[1] - 0.07, number(derivative, 3), va="top", role="gradient")
        for n, part in enumerate(inputs):
            both_ways(c, areas[part].right, (area.left[0], area.y + 0.28 * ((len(inputs) - 1) / 2 - n)))
    c.note(7.6, 5.7, c.word("above"), ha="left", role="ink")
    c.note(7.6, 5.35, c.word("below"), ha="left", role="gradient")


def both_ways(c, start, end, apart=0.06):
    """An arrow forward and, below it, a dashed one backward."""
    (x0, y0), (x1, y1) = start, end
    shift = apart * math.hypot(x1 - x0, y1 - y0) / abs(x1 - x0)
    c.arrow((x0, y0 + shift), (x1, y1 + shift))
    c.back((x1, y1 - shift), (x0, y0 - shift))


def scalars_and_arrays(c):
    c.text(2.2, 4.75, c.word("scalars"), bold=True)
    c.text(8.7, 4.75, c.word("arrays"), bold=True)
    inputs = [(0.7, 3.4 - 1.1 * i) for i in range(3)]
    outputs = [(3.7, 2.85 - 1.1 * j) for j in range(2)]
    for x, y in inputs:
        for column, height in outputs:
            c.arrow((x + 0.24, y), (column - 0.24, height), role="muted", width=1)
    for n, (x, y) in enumerate(inputs):
        c.circle(x, y, f"x{'₀₁₂'[n]}", radius=0.26)
    for n, (x, y) in enumerate(outputs):
        c.circle(x, y, f"y{'₀₁'[n]}", radius=0.26)
    c.back((3.7, 0.5), (0.7, 0.5))
    c.note(2.2, 0.3, c.word("each"), va="top")
    for y, d, role in ((3.4, "", "ink"), (1.2, "d", "gradient")):
        x = c.cells(6.5, y, 2, 3, "gradient" if d else "plain")
        w = c.cells(8.7, y, 3, 2, "gradient" if d else "parameter")
        out = c.cells(10.8, y, 2, 2, "gradient" if d else "plain")
        for area, letter in ((x, "x"), (w, "W"), (out, "y")):
            c.text(area.x, area.top[1] + 0.2, d + letter, role)
        if not d:
            c.text(7.55, y, "@")
            c.text(9.75, y, "=")
    c.back(out.left, w.right)
    c.back((out.x, out.bottom[1]), (out.x, 0.1), (6.5, 0.1), x.bottom)
    c.note(8.7, -0.1, c.word("formulas"), va="top", role="gradient")


def linear_backward(c):
    columns = {"x": (1.2, 4, 3, "plain"), "W": (3.6, 3, 2, "parameter"), "b": (5.6, 1, 2, "parameter"), "y": (8.0, 4, 2, "plain")}
    shapes = {"x": "(B, d_in)", "W": "(d_in, d_out)", "b": "(d_out,)", "y": "(B, d_out)"}
    formulas = {"x": "dx = dy Wᵀ", "W": "dW = xᵀ dy", "b": "db = sum(dy)", "y": "dy"}
    areas = {}
    for name, (x, rows, columns_, role) in columns.items():
        areas[name] = c.cells(x, 4.1, rows, columns_, role)
        areas["d" + name] = c.cells(x, 1.5, rows, columns_, "gradient")
        c.text(x, 4.95, f"{name} {shapes[name]}")
        c.text(x, 2.35, formulas[name], "gradient")
    for x, sign in ((2.4, "@"), (4.55, "+"), (6.8, "=")):
        c.text(x, 4.1, sign, bold=True)
    c.arrow((8.45, 4.1), (9.9, 4.1))
    c.text(10.05, 4.1, c.word("loss"), ha="left")
    c.back((10.35, 3.85), (10.35, 1.5), areas["dy"].right)
    c.back(areas["dy"].left, areas["db"].right)
    for name in ("W", "x"):
        c.back(areas["dy"].bottom, (8.0, 0.45), (areas["d" + name].x, 0.45), areas["d" + name].bottom)
    c.note(5.0, 0.2, c.word("shapes"), va="top")


def checks(c):
    component = c.box(2.0, 2.5, 3.0, 2.2, strength=0.6)
    c.text(2.0, 3.2, c.word("component"), bold=True)
    c.text(2.0, 2.65, "y = forward(x)")
    c.text(2.0, 2.15, "dx = backward(dy)", "gradient")
    for n, key in enumerate(("loops", "slopes", "other")):
        y = 4.3 - 1.8 * n
        box = c.box(8.7, y, 4.6, 1.3)
        c.text(8.7, y + 0.3, c.word(key), bold=True)
        c.note(8.7, y - 0.25, c.word(f"{key}_how"))
        sign = c.circle(5.0, y, "≈", radius=0.24)
        c.note(5.0, y + 0.42, c.word(f"{key}_checks"))
        c.arrow((component.right[0], 2.5 + 0.5 * (1 - n)), (sign.left[0], y), head=False)
        c.arrow(sign.right, box.left, head=False)
