"""Stacks of residual connections, backward: pre-norm and post-norm, as functions of their parts."""

from .blocks import normal
from .definition import Exercise, Mistake
from .residuals import SUBLAYERS, by_backward, linear_maps, other_counts


def pre_norm_backward(dy, norms_b, sublayers_b, final_norm_b):
    dx = final_norm_b(dy)
    for norm_b, f_b in zip(reversed(norms_b), reversed(sublayers_b)):
        dx = dx + norm_b(f_b(dx))
    return dx


def post_norm_backward(dy, norms_b, sublayers_b):
    dx = dy
    for norm_b, f_b in zip(reversed(norms_b), reversed(sublayers_b)):
        du = norm_b(dx)
        dx = du + f_b(du)
    return dx


def draw_pre_norm(rng, n, count=SUBLAYERS):
    return *draw_post_norm(rng, n, count), *linear_maps(rng, n, 1)


def draw_post_norm(rng, n, count=SUBLAYERS):
    return normal(rng, *n.lead, n.D), linear_maps(rng, n, count), linear_maps(rng, n, count)


POST_B = "dx = du + f_b(du)"


EXERCISES = [
    Exercise(
        "10.3", minutes=15, lines=4,
        solution=pre_norm_backward, outputs=("dx",), inputs=draw_pre_norm, edges=other_counts(draw_pre_norm),
        reference=lambda *arguments: by_backward("pre", *arguments),
        mistakes=(
            Mistake("RES-1", {"dx = dx + norm_b(f_b(dx))": "dx = norm_b(f_b(dx))"}),
            Mistake("RES-2", {"dx = dx + norm_b(f_b(dx))": "dx = dx + norm_b(dx)"}),
            Mistake("RES-3", {"dx = dx + norm_b(f_b(dx))": "dx = 2 * dx + norm_b(f_b(dx))"}),
            Mistake("RES-5", {"dx = dx + norm_b(f_b(dx))": "dx = norm_b(dx)\n        dx = dx + f_b(dx)"}),
            Mistake("RES-6", {"dx = dx + norm_b(f_b(dx))": "dx = 1 + norm_b(f_b(dx))"}),
            Mistake("RES-7", {"dx = dx + norm_b(f_b(dx))": "dx = norm_b(dx + f_b(dx))"}),
            Mistake("RES-8a", {"zip(reversed(norms_b), reversed(sublayers_b))": "zip(norms_b, sublayers_b)"}),
            Mistake("RES-8b", {"zip(reversed(norms_b),": "zip(norms_b,"}),
            Mistake("RES-8c", {"reversed(sublayers_b))": "sublayers_b)"}),
            Mistake("RES-20", {
                "reversed(norms_b)": "reversed(norms_b[1:])", "reversed(sublayers_b)": "reversed(sublayers_b[1:])"}),
            Mistake("RES-9", {"dx = dx + norm_b(f_b(dx))": "dx = dx + f_b(norm_b(dx))"}),
            Mistake("RES-10a", {"final_norm_b(dy)": "dy"}),
            Mistake("RES-10b", {"dx = final_norm_b(dy)": "dx = dy", "return dx": "return final_norm_b(dx)"}),
            Mistake("RES-19", {"dx = dx + norm_b(f_b(dx))": "dx = dx + f_b(dx)"}),
            Mistake("RES-10c", {
                "dx = final_norm_b(dy)": "dx = dy",
                "dx = dx + norm_b(f_b(dx))": "dx = dx + norm_b(f_b(dx))\n        dx = final_norm_b(dx)"}),
            Mistake("RES-17", {"dx = dx + norm_b(f_b(dx))": "dx = dx + norm_b(dx) + f_b(dx)"}),
            Mistake("RES-11a", {
                "dx = final_norm_b(dy)": "top = dx = final_norm_b(dy)", "norm_b(f_b(dx))": "norm_b(f_b(top))"}),
        ),
        alternatives={"with an index": {
            "norm_b, f_b in zip(reversed(norms_b), reversed(sublayers_b))": "i in reversed(range(len(norms_b)))",
            "norm_b(f_b(dx))": "norms_b[i](sublayers_b[i](dx))"}}),
    Exercise(
        "10.4", minutes=15, lines=5,
        solution=post_norm_backward, outputs=("dx",), inputs=draw_post_norm, edges=other_counts(draw_post_norm),
        reference=lambda *arguments: by_backward("post", *arguments),
        mistakes=(
            Mistake("RES-1", {"dx = du + f_b(du)": "dx = f_b(du)"}),
            Mistake("RES-2", {"dx = du + f_b(du)": "dx = du"}),
            Mistake("RES-3", {"dx = du + f_b(du)": "dx = 2 * du + f_b(du)"}),
            Mistake("RES-5", {"du = norm_b(dx)": "du = f_b(dx)", "dx = du + f_b(du)": "dx = dx + norm_b(du)"}),
            Mistake("RES-6", {"dx = du + f_b(du)": "dx = 1 + f_b(du)"}),
            Mistake("RES-7a", {"dx = du + f_b(du)": "dx = dx + f_b(du)"}),
            Mistake("RES-7b", {"f_b(du)": "f_b(dx)"}),
            Mistake("RES-8a", {"zip(reversed(norms_b), reversed(sublayers_b))": "zip(norms_b, sublayers_b)"}),
            Mistake("RES-8b", {"zip(reversed(norms_b),": "zip(norms_b,"}),
            Mistake("RES-8c", {"reversed(sublayers_b))": "sublayers_b)"}),
            Mistake("RES-20", {
                "reversed(norms_b)": "reversed(norms_b[1:])", "reversed(sublayers_b)": "reversed(sublayers_b[1:])"}),
            Mistake("RES-9", {"du = norm_b(dx)": "du = dx + f_b(dx)", "dx = du + f_b(du)": "dx = norm_b(du)"}),
            Mistake("RES-1b", {"du = norm_b(dx)": "du = f_b(dx)", "dx = du + f_b(du)": "dx = norm_b(du)"}),
            Mistake("RES-9b", {"du = norm_b(dx)": "du = f_b(dx)", "dx = du + f_b(du)": "dx = du + norm_b(du)"}),
            Mistake("RES-19", {"du = norm_b(dx)": "du = dx"}),
        ),
        alternatives={"into its own array": {POST_B: "dx = du.copy()\n        dx += f_b(du)"}}),
]
