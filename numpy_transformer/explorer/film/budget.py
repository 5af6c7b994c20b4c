"""Which steps of a training run become frames, and what fits into the page."""

import math

LARGEST_FILM = 5_000_000                        # bytes of the page
PARAMETER_BYTES = 2_000_000                     # of all pictures of weights and gradients; base64 makes 4 bytes of 3
ATTENTION_BYTES = 1_100_000
MOST_FRAMES = 72
MOST_POINTS = 1500                              # of the curves
MOST_VALIDATIONS = 500
SIDES = 16, 12, 8, 6, 4                         # cells of a picture along each axis
STRIP = 4                                       # how many times longer the picture of a vector is
FIXED = 16                                      # bytes of each parameter and frame for two norms and two scales
FEWEST_HEADS = 4                                # before a layer is left out


def steps_of_frames(first, last, most=MOST_FRAMES):
    """Returns at most `most` steps from first to last, denser at the beginning, where training changes most.

    Frame i is at the share (i / n) ** 2.5 of the run.
    """
    n = max(most - 1, 1)
    return sorted({first + round((last - first) * (i / n) ** 2.5) for i in range(n + 1)})


def grid(shape, side):
    """Returns (rows, columns) of the picture of an array; vectors are one long row."""
    if len(shape) < 2:
        return 1, cells(math.prod(shape), STRIP * side)
    return cells(math.prod(shape[:-1]), side), cells(shape[-1], side)


def cells(length, most):
    """Returns the number of blocks of equal length, but for the last, into which an axis is divided."""
    return math.ceil(length / block_length(length, most))


def block_length(length, most):
    return max(1, math.ceil(length / most))


def plan_parameters(shapes, frames, room=PARAMETER_BYTES):
    """Returns (side, numbers of the parameters that are shown): finer pictures if there is room, and fewer parameters if not."""
    for side in SIDES:
        size = frames * sum(2 * math.prod(grid(shape, side)) + FIXED for shape in shapes)
        if size <= room:
            return side, list(range(len(shapes)))
    most = room // (frames * (2 * side * side + FIXED))
    return side, evenly(len(shapes), most)


def plan_attention(shapes, frames, room=ATTENTION_BYTES):
    """Returns (numbers of the layers that are shown, heads of each): heads are left out first, then layers.

    Parameters: shapes : (heads, queries, keys) of the weights of each layer
    """
    heads = max((shape[0] for shape in shapes), default=0)
    for count in range(len(shapes), 0, -1):
        layers = evenly(len(shapes), count)
        for most in range(heads, min(FEWEST_HEADS, heads) - 1, -1):
            size = frames * sum(min(most, shapes[i][0]) * shapes[i][1] * shapes[i][2] for i in layers)
            if size <= room:
                return layers, most
    return [], 0


def evenly(count, most):
    """Returns at most `most` of the numbers below count, from the first to the last, at even distances."""
    if count <= most:
        return list(range(count))
    if most == 1:
        return [0]
    return [i * (count - 1) // (most - 1) for i in range(most)]
