"""Stacks of residual connections, backward: pre-norm and post-norm, as functions of their parts."""

from .blocks import normal
from .definition import Exercise, Mistake
from .residuals import PLUS_ONE, SUBLAYERS, by_backward, linear_maps


def pre_norm_backward(dy, norms_b, sublayers_b, final_norm_b):
    """Computes the gradient of x in a pre-norm stack.

    The forward pass was x = x + f(norm(x)) for each norm and sublayer f, then y = final_norm(x). The backward of a part
    is a function that takes the gradient of the part's output and returns the gradient of its input, both (..., D).

    dy: (..., D), dL/dy.
    norms_b, sublayers_b: lists with the backward of each norm and of each sublayer, in the order of forward.
    final_norm_b: the backward of final_norm.
    Return dx: (..., D), the gradient of the input of the stack.
    """
    dx = final_norm_b(dy)
    for norm_b, f_b in zip(reversed(norms_b), reversed(sublayers_b)):
        dx = dx + norm_b(f_b(dx))
    return dx


def post_norm_backward(dy, norms_b, sublayers_b):
    """Computes the gradient of x in a post-norm stack.

    The forward pass was x = norm(x + f(x)) for each norm and sublayer f, and the last x is y. The backward of a part
    is a function that takes the gradient of the part's output and returns the gradient of its input, both (..., D).

    dy: (..., D), dL/dy.
    norms_b, sublayers_b: lists with the backward of each norm and of each sublayer, in the order of forward.
    Return dx: (..., D), the gradient of the input of the stack.
    """
    dx = dy
    for norm_b, f_b in zip(reversed(norms_b), reversed(sublayers_b)):
        du = norm_b(dx)
        dx = du + f_b(du)
    return dx


def draw_pre_norm(rng, n):
    return *draw_post_norm(rng, n), *linear_maps(rng, n, 1)


def draw_post_norm(rng, n):
    return normal(rng, *n.lead, n.D), linear_maps(rng, n, SUBLAYERS), linear_maps(rng, n, SUBLAYERS)


PRE_B = "dx = dx + norm_b(f_b(dx))"
POST_B = "dx = du + f_b(du)"
REVERSED = (
    Mistake("RES-8a", {"zip(reversed(norms_b), reversed(sublayers_b))": "zip(norms_b, sublayers_b)"},
            "You go through the stack in the order of forward. The gradient arrives at the other end, so it reaches "
            "the last sublayer first."),
    Mistake("RES-8b", {"zip(reversed(norms_b),": "zip(norms_b,"},
            "You reverse the sublayers but not the norms, so each sublayer is combined with the norm of another one."),
    Mistake("RES-8c", {"reversed(sublayers_b))": "sublayers_b)"},
            "You reverse the norms but not the sublayers, so each norm is combined with the sublayer of another one."),
    Mistake("RES-18", {"    return dx": "        return dx"},
            "Your return is inside the loop, so the gradient passes back through the last sublayer only."),
)

EXERCISES = [
    Exercise(
        "10.3", "A pre-norm stack, backward", minutes=15, lines=4,
        solution=pre_norm_backward, outputs=("dx",), inputs=draw_pre_norm,
        reference=lambda *arguments: by_backward("pre", *arguments),
        hints=("Which step of forward was the last one? Start there.",
               "For x = x + f(norm(x)), the gradient takes two paths. One goes around the branch, unchanged. The other "
               "goes back through the branch, starting with its last function. The two are added.",
               "dx = final_norm_b(dy). Then for each norm_b and f_b, from the last to the first, dx = dx + "
               "norm_b(f_b(dx))."),
        mistakes=(
            Mistake("RES-1", {PRE_B: "dx = norm_b(f_b(dx))"},
                    "The skip connection is missing. The gradient also goes around each branch."),
            Mistake("RES-2", {PRE_B: "dx = dx + norm_b(dx)"},
                    "You leave out the sublayer. The branch is f(norm(x)), so the gradient must pass through both."),
            Mistake("RES-3", {PRE_B: "dx = 2 * dx + norm_b(f_b(dx))"},
                    "You add the gradient of the skip connection twice. x is added to its branch only once."),
            Mistake("RES-5", {PRE_B: "dx = norm_b(dx)\n        dx = dx + f_b(dx)"},
                    "This is the backward of post-norm, norm(x + f(x)). In pre-norm, the norm is inside the branch."),
            Mistake("RES-6", {PRE_B: "dx = 1 + norm_b(f_b(dx))"}, PLUS_ONE),
            Mistake("RES-7", {PRE_B: "dx = norm_b(dx + f_b(dx))"},
                    "Your gradient of the skip connection passes through the norm. In pre-norm the skip connection "
                    "goes around the norm, and only the branch passes through it."),
            *REVERSED,
            Mistake("RES-9", {PRE_B: "dx = dx + f_b(norm_b(dx))"},
                    "You apply the backward of the norm before that of the sublayer. Forward applied the norm first, "
                    "so backward reaches it last."),
            Mistake("RES-10a", {"final_norm_b(dy)": "dy"},
                    "The final norm is missing. It was the last step of forward, so it is the first step of backward."),
            Mistake("RES-10b", {"dx = final_norm_b(dy)": "dx = dy", "return dx": "return final_norm_b(dx)"},
                    "You apply the backward of the final norm last. It was the last step of forward, so it is the "
                    "first step of backward."),
            Mistake("RES-11a", {"f_b(dx)": "f_b(dy)"},
                    "You pass the gradient of the stack's output to every branch. Each branch needs the gradient of "
                    "its own sum, which contains the contributions of all later branches."),
            Mistake("RES-11b", {"dx = dx +": "dx = dy +"},
                    "Every step of your loop starts from dy again, so the contributions of the later branches are "
                    "lost. Add to the gradient of the step before."),
            Mistake("RES-19", {PRE_B: "dx = dx + f_b(dx)"},
                    "You leave out the norm. The branch is f(norm(x)), so the gradient must pass through both."),
            Mistake("RES-10c", {"dx = final_norm_b(dy)": "dx = dy", PRE_B: f"{PRE_B}\n        dx = final_norm_b(dx)"},
                    "You apply the backward of the final norm inside the loop. It was applied once, at the end of "
                    "forward."),
            Mistake("RES-10e", {"dx = final_norm_b(dy)": "dx = dy + final_norm_b(dy)"},
                    "You add dy to what comes back through the final norm. There is no skip connection around it."),
            Mistake("RES-11c", {"dx = final_norm_b(dy)": "dx = total = final_norm_b(dy)",
                                PRE_B: "total = total + norm_b(f_b(dx))", "    return dx": "    return total"},
                    "Every branch receives the gradient of the last sum. Each branch needs the gradient of its own "
                    "sum, which contains the contributions of all later branches."),
            Mistake("RES-10d", {"    return dx": "    return dy + dx"},
                    "You add dy to the result. There is no skip connection around the whole stack: everything passed "
                    "through the final norm."),
            Mistake("RES-13", {PRE_B: "dx = dx * norm_b(f_b(dx))"},
                    "You multiply the gradients of the two paths. Parallel paths are added."),
            Mistake("RES-16", {PRE_B: "dx = dx - norm_b(f_b(dx))"},
                    "You subtract the gradient of the branch, although forward adds the branch."),
            Mistake("RES-17", {PRE_B: "dx = dx + norm_b(dx) + f_b(dx)"},
                    "You treat norm and sublayer as two branches. They are one after the other in the same branch."),
        ),
        alternatives={"with an index": {
            "norm_b, f_b in zip(reversed(norms_b), reversed(sublayers_b))": "i in reversed(range(len(norms_b)))",
            "norm_b(f_b(dx))": "norms_b[i](sublayers_b[i](dx))"}}),
    Exercise(
        "10.4", "A post-norm stack, backward", minutes=15, lines=5,
        solution=post_norm_backward, outputs=("dx",), inputs=draw_post_norm,
        reference=lambda *arguments: by_backward("post", *arguments),
        hints=("Name the sum: u = x + f(x), followed by norm(u). Which of the two steps was the last one?",
               "The norm comes first, because everything passed through it. At the sum, the gradient of u goes both to "
               "x directly and into f, and the two results are added.",
               "For each norm_b and f_b, from the last to the first: du = norm_b(dx), then dx = du + f_b(du)."),
        mistakes=(
            Mistake("RES-1", {POST_B: "dx = f_b(du)"},
                    "The skip connection is missing. x affects the sum through f and around it."),
            Mistake("RES-2", {POST_B: "dx = du"},
                    "The branch is missing. x affects the sum around f and through it."),
            Mistake("RES-3", {POST_B: "dx = 2 * du + f_b(du)"},
                    "You add the gradient of the skip connection twice. x is added to f(x) only once."),
            Mistake("RES-5", {"du = norm_b(dx)": "du = f_b(dx)", POST_B: "dx = dx + norm_b(du)"},
                    "This is the backward of pre-norm, x + f(norm(x)). In post-norm, the norm comes after the sum."),
            Mistake("RES-6", {POST_B: "dx = 1 + f_b(du)"}, PLUS_ONE),
            Mistake("RES-7a", {POST_B: "dx = dx + f_b(du)"},
                    "Your gradient of the skip connection goes around the norm. In post-norm the sum passes through "
                    "the norm, and so do both of its terms."),
            Mistake("RES-7b", {"f_b(du)": "f_b(dx)"},
                    "You pass the gradient of the norm's output to the branch. It needs the gradient of the sum, which "
                    "was the input of the norm."),
            *REVERSED,
            Mistake("RES-9", {"du = norm_b(dx)": "du = dx + f_b(dx)", POST_B: "dx = norm_b(du)"},
                    "You apply the backward of the norm after that of the sum. The norm was the last step of forward, "
                    "so it is the first step of backward."),
            Mistake("RES-1b", {"du = norm_b(dx)": "du = f_b(dx)", POST_B: "dx = norm_b(du)"},
                    "The skip connection is missing, and the sublayer comes before the norm. The norm was the last "
                    "step of forward, so it is the first step of backward."),
            Mistake("RES-7c", {"f_b(du)": "f_b(norm_b(du))"},
                    "The gradient passes through each norm twice on its way into the sublayer. Once is enough."),
            Mistake("RES-9b", {"du = norm_b(dx)": "du = f_b(dx)", POST_B: "dx = du + norm_b(du)"},
                    "You have swapped norm and sublayer. The skip connection goes around the sublayer; the norm comes "
                    "after the sum."),
            Mistake("RES-11", {"norm_b(dx)": "norm_b(dy)"},
                    "Every step of your loop starts from dy again, so the later sublayers are lost. Continue from the "
                    "gradient of the step before."),
            Mistake("RES-19", {"du = norm_b(dx)": "du = dx"},
                    "You leave out the norms. Both terms of each sum passed through one."),
            Mistake("RES-11b", {"f_b(du)": "f_b(dy)"},
                    "You pass the gradient of the stack's output to every sublayer. Each needs the gradient of its own "
                    "sum."),
            Mistake("RES-11c", {POST_B: "dx = dy + f_b(du)"},
                    "Your skip connection contributes dy in every step. It passes on the gradient of its own sum."),
            Mistake("RES-13", {POST_B: "dx = du * f_b(du)"},
                    "You multiply the gradients of the two paths. Parallel paths are added."),
            Mistake("RES-16", {POST_B: "dx = du - f_b(du)"},
                    "You subtract the gradient of the branch, although forward adds the branch."),
            Mistake("RES-17", {POST_B: "dx = dx + du + f_b(du)"},
                    "You add a third path, around the norm. The norm follows the sum, so every path passes through "
                    "it."),
        ),
        alternatives={"into its own array": {POST_B: "du += f_b(du)\n        dx = du"}}),
]
