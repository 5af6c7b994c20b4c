"""Residual connections, backward, and stacks of them in the pre-norm order, forward, as functions of their parts."""

from ...models import Encoder
from ..sandbox import Function
from .blocks import Part, normal
from .definition import Exercise, Mistake


def residual_backward(dy, f_b):
    """Computes the gradient of x in a residual connection, y = x + f(x).

    dy: (..., D), dL/dy.
    f_b: a function, the backward of f. It takes the gradient of f's output and returns the gradient of f's input, both
        (..., D).
    Return dx: (..., D).
    """
    return dy + f_b(dy)


def pre_norm(x, norms, sublayers, final_norm):
    """Computes a stack of sublayers (attention, feed-forward layer, attention, ...) in the pre-norm order.

    x is a residual stream that runs past all sublayers. Each sublayer reads the stream through its own norm, and its
    output is added to the stream. The stream itself passes through one norm only, final_norm, at the end of the stack.

    x: (..., D).
    norms, sublayers: lists of functions of the same length; norms[i] belongs to sublayers[i].
    final_norm: a function. All these functions map (..., D) to (..., D).
    Return y: (..., D).
    """
    for norm, sublayer in zip(norms, sublayers):
        x = x + sublayer(norm(x))
    return final_norm(x)


SUBLAYERS = 4


def linear_maps(rng, n, count):
    """Backward functions of parts, each of them linear in the gradient that it takes."""
    return [Function("lambda dy: dy @ w", w=normal(rng, n.D, n.D) / n.D ** 0.5) for _ in range(count)]


def draw_residual(rng, n):
    return normal(rng, *n.lead, n.D), *linear_maps(rng, n, 1)


def draw_forward(rng, n):
    def norm():
        return Function("lambda x: gamma * (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 0.1)",
                        gamma=rng.uniform(0.5, 2, n.D))
    sublayers = [Function("lambda x: np.tanh(x @ w)", w=normal(rng, n.D, n.D) / n.D ** 0.5) for _ in range(SUBLAYERS)]
    return 1 + 2 * normal(rng, *n.lead, n.D), [norm() for _ in sublayers], sublayers, norm()


def forward_part(function):
    """A part that computes the function in forward."""
    return Part(0.0, lambda x, weight: function(x), None)


def backward_part(function):
    """A part whose forward is the identity and whose backward is the function."""
    return Part(0.0, lambda x, weight: x, lambda x, weight, dy: (function(dy), 0.0))


def encoder(order, norms, sublayers, final_norm=None):
    """The package's encoder with these parts, two sublayers to a block."""
    model = Encoder(len(sublayers) // 2, 1, 1, 1, 0.0, order)
    for i, block in enumerate(model.blocks):
        block.norm1, block.norm2 = norms[2 * i:2 * i + 2]
        block.attention, block.feed_forward = sublayers[2 * i:2 * i + 2]
    model.norm = final_norm
    return model


def by_pre_norm(x, norms, sublayers, final_norm):
    model = encoder("pre", list(map(forward_part, norms)), list(map(forward_part, sublayers)), forward_part(final_norm))
    return model(x)


def by_backward(order, dy, norms_b, sublayers_b, final_norm_b=lambda dy: dy):
    norms, sublayers = list(map(backward_part, norms_b)), list(map(backward_part, sublayers_b))
    model = encoder(order, norms, sublayers, backward_part(final_norm_b))
    model(dy)                                   # backward needs a forward; its output does not matter
    return model.backward(dy)


def by_residual(dy, f_b):
    """One sublayer is f, the norms are identities, and the other sublayer returns zeros."""
    return by_backward("pre", dy, [lambda dy: dy] * 2, [f_b, lambda dy: 0 * dy])


PLUS_ONE = ("You add the number 1 for the skip connection. Its derivative is 1, but its gradient is the derivative "
            "times the gradient that arrives.")

EXERCISES = [
    Exercise(
        "10.1", "A residual connection, backward", minutes=5, lines=1,
        solution=residual_backward, reference=by_residual, inputs=draw_residual, outputs=("dx",),
        hints=("x appears twice in y = x + f(x). What does each of the two uses contribute to the gradient?",
               "If a value is used twice, the gradients of both uses are added. The derivative of the first use is 1, "
               "and it is multiplied by dy.",
               "The skip connection contributes dy, and the branch contributes f_b(dy). dx is their sum."),
        mistakes=(
            Mistake("RES-1", {"dy + f_b(dy)": "f_b(dy)"},
                    "The skip connection is missing. x affects y on two paths, through f and around it."),
            Mistake("RES-2", {"dy + f_b(dy)": "dy"},
                    "The branch is missing. x affects y on two paths, around f and through it."),
            Mistake("RES-3", {"dy + f_b(dy)": "2 * dy + f_b(dy)"},
                    "You add the gradient of the skip connection twice. x is added to f(x) only once."),
            Mistake("RES-4", {"return dy + f_b(dy)": "dy += f_b(dy)\n    return dy"},
                    "dy += ... changes the caller's array. Make a new array."),
            Mistake("RES-6", {"dy + f_b(dy)": "1 + f_b(dy)"}, PLUS_ONE),
            Mistake("RES-13a", {"dy + f_b(dy)": "dy * (1 + f_b(np.ones_like(dy)))"},
                    "You compute dy (1 + f') and obtain f' from a gradient of ones. That holds only if each output of "
                    "f depends on the input at its own position alone. Pass dy itself to f_b."),
            Mistake("RES-13b", {"dy + f_b(dy)": "dy * f_b(dy)"},
                    "You multiply the gradients of the two paths. Parallel paths are added; only the steps along one "
                    "path are multiplied."),
            Mistake("RES-13c", {"dy + f_b(dy)": "dy + f_b(np.ones_like(dy))"},
                    "You pass ones to f_b. It takes the gradient of f's output, which is dy."),
            Mistake("RES-15", {"dy + f_b(dy)": "(dy + f_b(dy)) / 2"},
                    "You average the two gradients. They must be added."),
            Mistake("RES-16", {"dy + f_b(dy)": "dy - f_b(dy)"},
                    "You subtract the gradient of the branch, although forward adds the branch."),
            Mistake("RES-13d", {"dy + f_b(dy)": "dy * (1 + f_b(dy))"},
                    "f_b(dy) is not f' but already the gradient, f' times dy. You multiply by dy once more."),
            Mistake("RES-17a", {"dy + f_b(dy)": "f_b(dy + f_b(dy))"},
                    "The sum passes back through f once more. Only the branch passes through f, and only once."),
            Mistake("RES-17c", {"dy + f_b(dy)": "2 * dy"},
                    "You count two skip connections. One of the two paths passes through f."),
            Mistake("RES-17d", {"dy + f_b(dy)": "f_b(f_b(dy))"},
                    "You pass the gradient through f twice, one after the other. x has two separate paths to y, one "
                    "through f and one around it."),
            Mistake("RES-21", {"dy + f_b(dy)": "dy + f_b"},
                    "f_b is a function, and you add it without calling it. It takes the gradient of f's output."),
            Mistake("RES-17b", {"dy + f_b(dy)": "2 * f_b(dy)"},
                    "You let the gradient pass through f on both paths. The skip connection goes around f."),
        ),
        alternatives={
            "into its own array": {"return dy + f_b(dy)": "dx = dy.copy()\n    dx += f_b(dy)\n    return dx"}}),
    Exercise(
        "10.2", "A pre-norm stack, forward", minutes=10, lines=3,
        solution=pre_norm, reference=by_pre_norm, inputs=draw_forward,
        hints=("What does each sublayer read, and to what is its output added?",
               "The norm is inside the branch: the sublayer gets the normalized x, and its output is added to the "
               "unchanged x.",
               "for norm, sublayer in zip(norms, sublayers): x = x + sublayer(norm(x)). After the loop, apply "
               "final_norm."),
        mistakes=(
            Mistake("RES-1", {"x = x + sublayer(norm(x))": "x = sublayer(norm(x))"},
                    "The skip connection is missing. Each sublayer adds to the stream; it does not replace it."),
            Mistake("RES-4", {"x = x + sublayer": "x += sublayer"},
                    "x += ... changes the caller's array, and with it the values that a layer has saved. Make a new "
                    "array."),
            Mistake("RES-5a", {"x = x + sublayer(norm(x))": "x = norm(x)\n        x = x + sublayer(x)"},
                    "You normalize the stream itself. In pre-norm, the skip connection leaves x unchanged, and only "
                    "the sublayer reads norm(x)."),
            Mistake("RES-5b", {"x = x + sublayer(norm(x))": "x = norm(x + sublayer(x))"},
                    "This is post-norm. In pre-norm, the norm comes before the sublayer, not after the sum."),
            Mistake("RES-5c", {"x = x + sublayer(norm(x))": "x = x + norm(sublayer(x))"},
                    "You apply the norm after the sublayer. In pre-norm, it comes before."),
            Mistake("RES-10", {"final_norm(x)": "x"},
                    "The final norm is missing. Without it, the output of the stack is not normalized."),
            Mistake("RES-11a", {"    for norm": "    y = x\n    for norm",
                               "x = x + sublayer": "y = y + sublayer",
                               "final_norm(x)": "final_norm(y)"},
                    "All your sublayers read the input of the stack. Each must read the stream, which contains the "
                    "outputs of the sublayers before it."),
            Mistake("RES-11b", {"    for norm": "    start = x\n    for norm",
                               "x = x + sublayer": "x = start + sublayer"},
                    "Each of your sums starts with the input of the stack, so the outputs of the earlier sublayers are "
                    "lost. Add to the stream instead."),
            Mistake("RES-14", {"sublayer(norm(x))": "sublayer(norms[0](x))"},
                    "All your sublayers share the first norm. Each has its own."),
            Mistake("RES-18a", {"    return final_norm(x)": "        x = final_norm(x)\n    return x"},
                    "You apply final_norm inside the loop. It is applied once, after the last sublayer."),
            Mistake("RES-18b", {"    return final_norm(x)": "        return final_norm(x)"},
                    "Your return is inside the loop, so only the first sublayer is used."),
            Mistake("RES-19", {"sublayer(norm(x))": "sublayer(x)"},
                    "You do not use the norms. Each sublayer reads the stream through its norm."),
            Mistake("RES-2", {"sublayer(norm(x))": "norm(x)"},
                    "You do not use the sublayers. Each of them reads norm(x), and its output is added to the stream."),
            Mistake("RES-3", {"x = x + sublayer": "x = 2 * x + sublayer"},
                    "You add the stream twice. Each step adds the output of a sublayer to it once."),
            Mistake("RES-5d", {"x = x + sublayer(norm(x))": "x = norm(x + sublayer(norm(x)))"},
                    "You apply the norm to the sum as well. In pre-norm, only the sublayer reads norm(x)."),
            Mistake("RES-8", {"zip(norms, sublayers)": "zip(reversed(norms), reversed(sublayers))"},
                    "You start with the last sublayer. forward begins with the first; only backward is reversed."),
            Mistake("RES-10b", {"    for norm": "    x = final_norm(x)\n    for norm",
                                "return final_norm(x)": "return x"},
                    "You apply final_norm before the sublayers. It comes after the last one."),
            Mistake("RES-10c", {"return final_norm(x)": "return x + final_norm(x)"},
                    "You add the stream to final_norm(x). The last norm has no skip connection around it."),
            Mistake("RES-5e", {"x = x + sublayer(norm(x))": "x = norm(x) + sublayer(x)"},
                    "You have swapped the two: the norm is on the skip connection instead of in the branch."),
            Mistake("RES-11c", {"x = x + sublayer": "y = x + sublayer", "final_norm(x)": "final_norm(y)"},
                    "Every sublayer starts from the input of the stack, and only the last result is kept. The stream "
                    "must be updated in each step."),
            Mistake("RES-14c", {"    for norm, sublayer in zip(norms, sublayers):\n        x = x + sublayer(norm(x))":
                                "    for norm in norms:\n        for sublayer in sublayers:\n"
                                "            x = x + sublayer(norm(x))"},
                    "Your loops combine every norm with every sublayer. Each sublayer is used once, with its own "
                    "norm."),
            Mistake("RES-14b", {"    for norm, sublayer in zip(norms, sublayers):\n        x = x + sublayer(norm(x))":
                                "    for norm in norms:\n        x = norm(x)\n"
                                "    for sublayer in sublayers:\n        x = x + sublayer(x)"},
                    "You apply all norms first, then all sublayers. Each sublayer has its own norm, which reads what "
                    "the sublayers before it have added to."),
            Mistake("RES-16", {"x = x + sublayer": "x = x - sublayer"},
                    "You subtract the output of the sublayer. It is added."),
        ),
        alternatives={
            "into its own array": {"    for norm": "    x = x.copy()\n    for norm",
                                   "x = x + sublayer": "x += sublayer"}}),
]
