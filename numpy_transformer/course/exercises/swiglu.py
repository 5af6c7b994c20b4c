"""SwiGLU, a gated feed-forward layer, forward and backward."""

import math

import numpy as np

from ...layers import SwiGLU
from ...layers.fast import rows
from .definition import Exercise, Mistake
from .shared import loaded


def swiglu(x, Wg, Wu, Wd):
    g = x @ Wg
    s = g / (1 + np.exp(-g))
    u = x @ Wu
    return (s * u) @ Wd


def draw_gated(rng, n):
    def matrix(d_in, d_out):
        return rng.standard_normal((d_in, d_out)) / math.sqrt(d_in)
    return rng.standard_normal((*n.lead, n.D)), matrix(n.D, n.F), matrix(n.D, n.F), matrix(n.F, n.D)


def far_gates(rng):
    """One token whose gates are -2000, 2000 and small numbers."""
    x, Wg, Wu, Wd = rng.standard_normal((2, 3)), *rng.standard_normal((2, 3, 4)), rng.standard_normal((4, 3))
    x[1], Wg[0, :2] = 1, (-2000, 2000)
    return [("gates_2000_2000", (x, Wg, Wu, Wd))]


def gated(Wg, Wu, Wd):
    return loaded(SwiGLU(*Wg.shape), {"gate.weight": Wg, "up.weight": Wu, "down.weight": Wd})


def swiglu_backward(x, Wg, Wu, Wd, dy):
    g, u = x @ Wg, x @ Wu
    sigma = 1 / (1 + np.exp(-g))
    s = g * sigma
    dm = dy @ Wd.T
    du = dm * s
    ds = dm * u
    dg = ds * sigma * (1 + g * (1 - sigma))
    dWg, dWu = rows(x).T @ rows(dg), rows(x).T @ rows(du)
    dWd = rows(s * u).T @ rows(dy)
    return dg @ Wg.T + du @ Wu.T, dWg, dWu, dWd


def by_swiglu_backward(x, Wg, Wu, Wd, dy):
    layer = gated(Wg, Wu, Wd)
    layer(x)
    return layer.backward(dy), layer.gate.weight.grad, layer.up.weight.grad, layer.down.weight.grad


POWERS = {"x": 1}, {"x": -3, "Wg": 3}, {"Wu": 3, "Wd": -3}, {"Wu": -3, "Wd": 3}     # exp(-g) must not overflow
SILU = "g / (1 + np.exp(-g))"


EXERCISES = [
    Exercise(
        "09.4", minutes=10, lines=4, single_row=True, size_letters="DF",
        number_sizes=("tiny",), powers=POWERS,
        solution=swiglu, reference=lambda x, *weights: gated(*weights)(x), inputs=draw_gated, edges=far_gates,
        mistakes=(
            Mistake("SWG-1", {"x @ Wg": "x @ Wu", "u = x @ Wu": "u = x @ Wg"}),
            Mistake("SWG-2a", {"g / (1 + np.exp(-g))": "1 / (1 + np.exp(-g))"}),
            Mistake("SWG-2b", {
                "g / (1 + np.exp(-g))": "g * (1 + np.tanh(math.sqrt(2 / math.pi) * (g + 0.044715 * g ** 3))) / 2"}),
            Mistake("SWG-2c", {"s * u": "s + u"}),
            Mistake("SWG-2d", {"g / (1 + np.exp(-g))": "g"}),
            Mistake("SWG-2f", {"np.exp(-g)": "np.exp(g)"}),
            Mistake("SWG-6", {"g / (1 + np.exp(-g))": "g", "(s * u)": "((s * u) / (1 + np.exp(-s * u)))"}),
            Mistake("SWG-7", {"g / (1 + np.exp(-g))": "g * np.exp(g) / (1 + np.exp(g))"}),
        ),
        alternatives={"with tanh": {SILU: "g * (1 + np.tanh(g / 2)) / 2"}}),
    Exercise(
        "09.5", minutes=30, lines=10, single_row=True, size_letters="DF", given=(rows,),
        number_sizes=("tiny",), powers=(*POWERS, {"dy": 3}),
        solution=swiglu_backward, reference=by_swiglu_backward, outputs=("dx", "dWg", "dWu", "dWd"),
        inputs=lambda rng, n: (*draw_gated(rng, n), rng.standard_normal((*n.lead, n.D))),
        mistakes=(
            Mistake("SWG-1", {"g, u = x @ Wg, x @ Wu": "u, g = x @ Wg, x @ Wu"}),
            Mistake("SWG-2a", {"s = g * sigma": "s = sigma"}),
            Mistake("SWG-2d", {"s = g * sigma": "s = g"}),
            Mistake("SWG-3a", {"ds * sigma * (1 + g * (1 - sigma))": "ds * sigma * (1 - sigma)"}),
            Mistake("SWG-3b", {"(1 + g * (1 - sigma))": "g * (1 - sigma)"}),
            Mistake("SWG-3c", {" * (1 + g * (1 - sigma))": ""}),
            Mistake("SWG-3d", {" * sigma * (1 + g * (1 - sigma))": ""}),
            Mistake("SWG-4a", {"ds = dm * u": "ds = dm"}),
            Mistake("SWG-4b", {"du = dm * s": "du = dm"}),
            Mistake("SWG-4d", {"du = dm * s": "du = dm * u", "ds = dm * u": "ds = dm * s"}),
            Mistake("SWG-3f", {"(1 + g * (1 - sigma))": "(1 + g)"}),
            Mistake("SWG-5a", {"dg @ Wg.T + du @ Wu.T": "dg @ Wg.T"}),
            Mistake("SWG-5b", {"dg @ Wg.T + du @ Wu.T": "du @ Wu.T"}),
            Mistake("SWG-5c", {"dWg, dWu =": "dWu, dWg ="}),
            Mistake("SWG-5d", {"dg @ Wg.T + du @ Wu.T": "dg @ Wu.T + du @ Wg.T"}),
            Mistake("SWG-9b", {"rows(s * u)": "rows(s)"}),
            Mistake("SWG-19", {"dm = dy @ Wd.T": "dm = dy"}),
            Mistake("LIN-3", {
                "rows(x).T @ rows(dg), rows(x).T @ rows(du)": "x.mT @ dg, x.mT @ du",
                "rows(s * u).T @ rows(dy)": "(s * u).mT @ dy"}),
            Mistake("LIN-4", {
                "rows(x).T @ rows(dg), rows(x).T @ rows(du)":
                    "rows(x).T @ rows(dg) / len(rows(x)), rows(x).T @ rows(du) / len(rows(x))",
                "rows(s * u).T @ rows(dy)": "rows(s * u).T @ rows(dy) / len(rows(x))"}),
            Mistake("LIN-1", {"rows(s * u).T @ rows(dy)": "rows(dy).T @ rows(s * u)"}),
            Mistake("LIN-2", {"dy @ Wd.T": "dy @ Wd"}),
        ),
        alternatives={"another form of the slope": {"sigma * (1 + g * (1 - sigma))": "(sigma + s * (1 - sigma))"}}),
]
