"""Matrices that look as they were drawn before training, beside others that are trained."""

import math

import numpy as np

from ...layers.linear import Linear
from ...layers.positions import LearnedPositionalEmbedding
from .changes import Note, kind_of

RANDOM = 3.5                            # standard errors by which random numbers differ from chance, at most
TRAINED = 10.0                          # and those by which the other matrices of a kind differ, at least
LEAST_SIDE = 24                         # rows and columns of a matrix that is judged
SQUARINGS = 40                          # steps of the power iteration


def untrained_matrices(model):
    """Yields a Note about matrices whose entries look drawn at random, while those of all other blocks clearly do not.

    Training gives rows, columns or directions of a matrix more weight than others. In a matrix of independent numbers the
    sums of squares of rows and of columns vary as chance has it, and no direction stands out (Marchenko and Pastur 1967).
    """
    structure = {name: structure_of(module.weight.data) for name, module in model.named_modules()
                 if isinstance(module, (Linear, LearnedPositionalEmbedding)) and min(module.weight.data.shape) >= LEAST_SIDE}
    random = [name for name, found in structure.items() if found < RANDOM]
    accused = [name for name in random if all(found > TRAINED for found in others_of_kind(name, structure))]
    blocks = [block_of(name) for name in accused]
    accused = [name for name in random if name in accused or blocks.count(block_of(name)) > 1]
    if accused:
        yield Note(f"These matrices look untrained: {', '.join(accused)}. Their entries are independent random numbers, as "
                   "they are drawn before training, and those of other matrices are not. They were not taken from the file.",
                   tuple(f"{name}.weight" for name in accused))


def others_of_kind(name, structure):
    """Returns the structure of the same matrix of the other blocks, or that of half of all matrices if there are none."""
    others = [found for other, found in structure.items() if kind_of(other) == kind_of(name) and other != name]
    return others or [np.median(list(structure.values()))]


def block_of(name):
    """Returns the beginning of a name up to the number of the block, or the name itself."""
    parts = name.split(".")
    numbers = [place for place, part in enumerate(parts) if part.isdecimal()]
    return ".".join(parts[:numbers[0] + 1]) if numbers else name


def structure_of(weight):
    """Returns by how many standard errors a matrix differs from independent random numbers of any distribution.

    It is the largest of three: for the sums of squares of the rows, for those of the columns, and for the largest
    singular value, whose scale is that of Johnstone 2001.
    """
    weight = weight.astype(np.float64)
    squares = weight ** 2
    if not 0 < squares.var() < math.inf:        # nan and overflow, too
        return math.inf
    found = []
    for axis in (0, 1):
        sums = squares.sum(axis)
        ratio = sums.var(ddof=1) / (weight.shape[axis] * squares.var())
        found.append(abs(ratio - 1) / math.sqrt(2 / len(sums)))
    rows, columns = map(math.sqrt, weight.shape)
    scale = (1 / rows + 1 / columns) ** (1 / 3) / (rows + columns)
    edge = largest_singular_value(weight) / (math.sqrt(squares.mean()) * (rows + columns))
    return max(*found, (edge - 1) / scale)


def largest_singular_value(weight):
    """Returns the largest singular value to about 1%, from below."""
    x = np.random.default_rng(0).standard_normal(weight.shape[1])
    for _ in range(SQUARINGS):
        x = weight.T @ (weight @ x)
        x /= np.linalg.norm(x)
    return float(np.linalg.norm(weight @ x))
