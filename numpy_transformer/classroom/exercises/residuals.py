"""Residual connections and stacks of them, pre-norm and post-norm, as functions of their parts."""

from ...models import Encoder
from ..exercise import Exercise, Mistake
from ..worker import Function
from .blocks import Part, normal


def residual_backward(dy, f_b):
    """The gradient of x in a residual connection, y = x + f(x).

    dy: (..., D), dL/dy.  f_b: the backward of f, a function: given the gradient of what f returned, it returns the
    gradient of what f was given, both (..., D).
    Return dx: (..., D).
    """
    return dy + f_b(dy)


def pre_norm(x, norms, sublayers, final_norm):
    """A stack of sublayers (attention, feed-forward layer, attention, ...) in the pre-norm order.

    x is a stream that runs past all sublayers. Each of them reads the stream through a norm of its own, and what it
    returns is added to the stream. The stream itself goes through one norm only, final_norm, at the end of the stack.
    x: (..., D).  norms, sublayers: lists of equally many functions; norms[i] belongs to sublayers[i].  final_norm: a
    function. All these functions map (..., D) to (..., D).
    Return y: (..., D).
    """
    for norm, sublayer in zip(norms, sublayers):
        x = x + sublayer(norm(x))
    return final_norm(x)


def pre_norm_backward(dy, norms_b, sublayers_b, final_norm_b):
    """The gradient of x in a pre-norm stack: x = x + f(norm(x)) for each norm and sublayer f, then y = final_norm(x).

    dy: (..., D), dL/dy.  norms_b, sublayers_b: lists of the backwards of norms and sublayers, in the order of forward.
    final_norm_b: that of final_norm. Each of them is a function: given the gradient of what its part returned, it
    returns the gradient of what its part was given, both (..., D).
    Return dx: (..., D), the gradient of the x that went into the stack.
    """
    dx = final_norm_b(dy)
    for norm_b, f_b in zip(reversed(norms_b), reversed(sublayers_b)):
        dx = dx + norm_b(f_b(dx))
    return dx


def post_norm_backward(dy, norms_b, sublayers_b):
    """The gradient of x in a post-norm stack: x = norm(x + f(x)) for each norm and sublayer f; the last x is y.

    dy: (..., D), dL/dy.  norms_b, sublayers_b: lists of the backwards of norms and sublayers, in the order of forward.
    Each of them is a function: given the gradient of what its part returned, it returns the gradient of what its part
    was given, both (..., D).
    Return dx: (..., D), the gradient of the x that went into the stack.
    """
    dx = dy
    for norm_b, f_b in zip(reversed(norms_b), reversed(sublayers_b)):
        du = norm_b(dx)
        dx = du + f_b(du)
    return dx


SUBLAYERS = 4


def linear_maps(rng, n, count):
    """Backwards of parts: each is linear in the gradient that it is given."""
    return [Function("lambda dy: dy @ w", w=normal(rng, n.D, n.D) / n.D ** 0.5) for _ in range(count)]


def draw_residual(rng, n):
    return normal(rng, *n.lead, n.D), *linear_maps(rng, n, 1)


def draw_forward(rng, n):
    def norm():
        return Function("lambda x: gamma * (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 0.1)",
                        gamma=rng.uniform(0.5, 2, n.D))
    sublayers = [Function("lambda x: np.tanh(x @ w)", w=normal(rng, n.D, n.D) / n.D ** 0.5) for _ in range(SUBLAYERS)]
    return 1 + 2 * normal(rng, *n.lead, n.D), [norm() for _ in sublayers], sublayers, norm()


def draw_pre_norm(rng, n):
    return *draw_post_norm(rng, n), *linear_maps(rng, n, 1)


def draw_post_norm(rng, n):
    return normal(rng, *n.lead, n.D), linear_maps(rng, n, SUBLAYERS), linear_maps(rng, n, SUBLAYERS)


def ahead(function):
    return Part(0.0, lambda x, weight: function(x), None)


def back(function):
    return Part(0.0, lambda x, weight: x, lambda x, weight, dy: (function(dy), 0.0))


def encoder(order, norms, sublayers, final_norm=None):
    """The package's encoder of these parts, two sublayers to a block."""
    made = Encoder(len(sublayers) // 2, 1, 1, 1, 0.0, order)
    for i, block in enumerate(made.blocks):
        block.norm1, block.norm2 = norms[2 * i:2 * i + 2]
        block.attention, block.feed_forward = sublayers[2 * i:2 * i + 2]
    made.norm = final_norm
    return made


def by_pre_norm(x, norms, sublayers, final_norm):
    return encoder("pre", list(map(ahead, norms)), list(map(ahead, sublayers)), ahead(final_norm))(x)


def by_backward(order, dy, norms_b, sublayers_b, final_norm_b=lambda dy: dy):
    made = encoder(order, list(map(back, norms_b)), list(map(back, sublayers_b)), back(final_norm_b))
    made(dy)                                    # backward needs a forward; what it returns does not matter
    return made.backward(dy)


def by_residual(dy, f_b):
    """One sublayer is f; the norms change nothing, and the other sublayer returns zeros."""
    return by_backward("pre", dy, [lambda dy: dy] * 2, [f_b, lambda dy: 0 * dy])


PRE_B, POST_B = "dx = dx + norm_b(f_b(dx))", "dx = du + f_b(du)"
PLUS_ONE = ("The slope of the skip is 1, but a gradient is the slope times the gradient that arrives: the skip does "
            "not bring the number 1.")
REVERSED = (
    Mistake("RES-8a", {"zip(reversed(norms_b), reversed(sublayers_b))": "zip(norms_b, sublayers_b)"},
            "The stack is walked in the order of forward. The gradient comes from the other end, and meets the last "
            "sublayer first."),
    Mistake("RES-8b", {"zip(reversed(norms_b),": "zip(norms_b,"},
            "The sublayers are reversed, but not the norms: each sublayer meets the norm of another one."),
    Mistake("RES-8c", {"reversed(sublayers_b))": "sublayers_b)"},
            "The norms are reversed, but not the sublayers: each norm meets the sublayer of another one."),
    Mistake("RES-18", {"    return dx": "        return dx"},
            "return stands inside the loop, so only the last sublayer is undone."),
)

EXERCISES = [
    Exercise(
        "10.1", "A residual connection, backward", minutes=5, lines=1,
        solution=residual_backward, reference=by_residual, inputs=draw_residual, outputs=("dx",),
        hints=("x occurs twice in y = x + f(x). What does each of the two places bring?",
               "Where a value is used twice, the gradients of both uses are added. The slope of the first use is 1, "
               "and a slope is multiplied by dy.",
               "The skip brings dy, the branch f_b(dy); dx is their sum."),
        mistakes=(
            Mistake("RES-1", {"dy + f_b(dy)": "f_b(dy)"},
                    "The skip is forgotten: x reaches y by two paths, through f and around it."),
            Mistake("RES-2", {"dy + f_b(dy)": "dy"},
                    "The branch is forgotten: x reaches y by two paths, around f and through it."),
            Mistake("RES-3", {"dy + f_b(dy)": "2 * dy + f_b(dy)"},
                    "The skip is added twice: x stands beside f(x) only once."),
            Mistake("RES-4", {"return dy + f_b(dy)": "dy += f_b(dy)\n    return dy"},
                    "dy += changes the caller's array: make a new one."),
            Mistake("RES-6", {"dy + f_b(dy)": "1 + f_b(dy)"}, PLUS_ONE),
            Mistake("RES-13a", {"dy + f_b(dy)": "dy * (1 + f_b(np.ones_like(dy)))"},
                    "That is dy (1 + f') with f' from a gradient of ones: it holds only where each output of f depends "
                    "on the input in its place alone. f_b has to be given dy itself."),
            Mistake("RES-13b", {"dy + f_b(dy)": "dy * f_b(dy)"},
                    "The two paths are multiplied: paths side by side are added, only steps along one path are "
                    "multiplied."),
            Mistake("RES-13c", {"dy + f_b(dy)": "dy + f_b(np.ones_like(dy))"},
                    "f_b is given ones: it takes the gradient of what f returned, and that is not 1."),
            Mistake("RES-15", {"dy + f_b(dy)": "(dy + f_b(dy)) / 2"},
                    "The two gradients are averaged: they are added."),
            Mistake("RES-16", {"dy + f_b(dy)": "dy - f_b(dy)"}, "The branch is subtracted, though forward adds it."),
        ),
        alternatives={
            "in its own array": {"return dy + f_b(dy)": "dx = dy.copy()\n    dx += f_b(dy)\n    return dx"}}),
    Exercise(
        "10.2", "A pre-norm stack, forward", minutes=10, lines=3,
        solution=pre_norm, reference=by_pre_norm, inputs=draw_forward,
        hints=("What does each sublayer read, and to what is its result added?",
               "The norm stands inside the branch: the sublayer gets the normalized x, the sum gets x as it is.",
               "for norm, sublayer in zip(norms, sublayers): x = x + sublayer(norm(x)). After the loop, final_norm."),
        mistakes=(
            Mistake("RES-1", {"x = x + sublayer(norm(x))": "x = sublayer(norm(x))"},
                    "The skip is missing: each sublayer adds to the stream, it does not replace it."),
            Mistake("RES-4", {"x = x + sublayer": "x += sublayer"},
                    "x += changes the caller's array, and whatever a layer has remembered of it: make a new one."),
            Mistake("RES-5a", {"x = x + sublayer(norm(x))": "x = norm(x)\n        x = x + sublayer(x)"},
                    "The stream itself is normalized: in pre-norm the skip keeps x as it is, and only the sublayer "
                    "reads norm(x)."),
            Mistake("RES-5b", {"x = x + sublayer(norm(x))": "x = norm(x + sublayer(x))"},
                    "That is post-norm: here the norm stands before the sublayer, not behind the sum."),
            Mistake("RES-5c", {"x = x + sublayer(norm(x))": "x = x + norm(sublayer(x))"},
                    "The norm stands behind the sublayer: it belongs before it."),
            Mistake("RES-10", {"final_norm(x)": "x"},
                    "The final norm is missing: nothing else normalizes the stream that leaves the stack."),
            Mistake("RES-11a", {"    for norm": "    y = x\n    for norm",
                               "x = x + sublayer": "y = y + sublayer",
                               "final_norm(x)": "final_norm(y)"},
                    "Every sublayer reads the x that went into the stack: each reads the stream to which the ones "
                    "before it have added."),
            Mistake("RES-11b", {"    for norm": "    start = x\n    for norm",
                               "x = x + sublayer": "x = start + sublayer"},
                    "Every sum begins with the x that went into the stack, so what the earlier sublayers have added is "
                    "lost: add to the stream."),
            Mistake("RES-14", {"sublayer(norm(x))": "sublayer(norms[0](x))"},
                    "All sublayers share the first norm: each has its own."),
            Mistake("RES-18a", {"    return final_norm(x)": "        x = final_norm(x)\n    return x"},
                    "final_norm stands inside the loop: it comes once, behind the last sublayer."),
            Mistake("RES-18b", {"    return final_norm(x)": "        return final_norm(x)"},
                    "return stands inside the loop, so only the first sublayer is used."),
            Mistake("RES-19", {"sublayer(norm(x))": "sublayer(x)"},
                    "The norms are not used: each sublayer reads the stream through its norm."),
        ),
        alternatives={
            "in its own array": {"    for norm": "    x = x.copy()\n    for norm",
                                 "x = x + sublayer": "x += sublayer"}}),
    Exercise(
        "10.3", "A pre-norm stack, backward", minutes=15, lines=4,
        solution=pre_norm_backward, outputs=("dx",), inputs=draw_pre_norm,
        reference=lambda *arguments: by_backward("pre", *arguments),
        hints=("Which step of forward was the last one? Start there.",
               "For x = x + f(norm(x)) the gradient takes two paths: past the branch unchanged, and into the branch, "
               "where the last function is the first to be undone. The two are added.",
               "dx = final_norm_b(dy); then for each norm_b and f_b, from the last to the first, "
               "dx = dx + norm_b(f_b(dx))."),
        mistakes=(
            Mistake("RES-1", {PRE_B: "dx = norm_b(f_b(dx))"},
                    "The skip is forgotten: the gradient goes past each branch, too."),
            Mistake("RES-2", {PRE_B: "dx = dx + norm_b(dx)"},
                    "The sublayer is left out: the branch is f(norm(x)), and both are undone on the way back."),
            Mistake("RES-3", {PRE_B: "dx = 2 * dx + norm_b(f_b(dx))"},
                    "The skip is added twice: x stands beside its branch only once."),
            Mistake("RES-5", {PRE_B: "dx = norm_b(dx)\n        dx = dx + f_b(dx)"},
                    "That is the backward of post-norm, norm(x + f(x)): here the norm stands inside the branch."),
            Mistake("RES-6", {PRE_B: "dx = 1 + norm_b(f_b(dx))"}, PLUS_ONE),
            Mistake("RES-7", {PRE_B: "dx = norm_b(dx + f_b(dx))"},
                    "The skip goes through the norm: in pre-norm it goes around it, and only the branch went through."),
            *REVERSED,
            Mistake("RES-9", {PRE_B: "dx = dx + f_b(norm_b(dx))"},
                    "In the branch the norm is undone before the sublayer: forward took the norm first, so backward "
                    "comes to it last."),
            Mistake("RES-10a", {"final_norm_b(dy)": "dy"},
                    "The final norm is forgotten: it was the last step of forward, so it is the first one here."),
            Mistake("RES-10b", {"dx = final_norm_b(dy)": "dx = dy", "return dx": "return final_norm_b(dx)"},
                    "The final norm comes last: it was the last step of forward, so it is the first one here."),
            Mistake("RES-11a", {"f_b(dx)": "f_b(dy)"},
                    "Every branch is given the gradient of the stack's output: each needs that of its own sum, to "
                    "which all later branches have brought something."),
            Mistake("RES-11b", {"dx = dx +": "dx = dy +"},
                    "Every step starts from dy again, so what the later branches have brought is lost: add to what has "
                    "come so far."),
            Mistake("RES-19", {PRE_B: "dx = dx + f_b(dx)"},
                    "The norm is left out: the branch is f(norm(x)), and both are undone on the way back."),
        ),
        alternatives={"by index": {
            "norm_b, f_b in zip(reversed(norms_b), reversed(sublayers_b))": "i in reversed(range(len(norms_b)))",
            "norm_b(f_b(dx))": "norms_b[i](sublayers_b[i](dx))"}}),
    Exercise(
        "10.4", "A post-norm stack, backward", minutes=15, lines=5,
        solution=post_norm_backward, outputs=("dx",), inputs=draw_post_norm,
        reference=lambda *arguments: by_backward("post", *arguments),
        hints=("Give the sum a name: u = x + f(x), then norm(u). Which of the two steps was the last one?",
               "The norm comes first, since everything goes through it; at the sum, the gradient of u goes both to x "
               "and into f, and what comes back is added.",
               "For each norm_b and f_b, from the last to the first: du = norm_b(dx), then dx = du + f_b(du)."),
        mistakes=(
            Mistake("RES-1", {POST_B: "dx = f_b(du)"},
                    "The skip is forgotten: x reaches the sum through f and around it."),
            Mistake("RES-2", {POST_B: "dx = du"},
                    "The branch is forgotten: x reaches the sum around f and through it."),
            Mistake("RES-3", {POST_B: "dx = 2 * du + f_b(du)"},
                    "The skip is added twice: x stands beside f(x) only once."),
            Mistake("RES-5", {"du = norm_b(dx)": "du = f_b(dx)", POST_B: "dx = dx + norm_b(du)"},
                    "That is the backward of pre-norm, x + f(norm(x)): here the norm stands behind the sum."),
            Mistake("RES-6", {POST_B: "dx = 1 + f_b(du)"}, PLUS_ONE),
            Mistake("RES-7a", {POST_B: "dx = dx + f_b(du)"},
                    "The skip goes around the norm: in post-norm the sum goes through the norm, and so do both of its "
                    "terms."),
            Mistake("RES-7b", {"f_b(du)": "f_b(dx)"},
                    "The branch is given the gradient of what the norm returned: it needs that of the sum, which went "
                    "into the norm."),
            *REVERSED,
            Mistake("RES-9", {"du = norm_b(dx)": "du = dx + f_b(dx)", POST_B: "dx = norm_b(du)"},
                    "The norm is undone after the sum: it was the last step of forward, so it is the first one here."),
            Mistake("RES-11", {"norm_b(dx)": "norm_b(dy)"},
                    "Every step starts from dy again, so the later sublayers are lost: go on from what has come so "
                    "far."),
            Mistake("RES-19", {"du = norm_b(dx)": "du = dx"},
                    "The norms are left out: both terms of the sum went through one."),
        ),
        alternatives={"in its own array": {POST_B: "du += f_b(du)\n        dx = du"}}),
]
