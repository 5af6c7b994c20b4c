"""Small pictures of the ten digits, drawn from strokes; no two are alike, and they need no download.

Each digit consists of one or two strokes in a unit square. A pen draws them on a small grid of pixels, after they have
been bent, stretched, slanted, rotated and moved at random. The width of the pen differs from picture to picture, and
noise is added to every pixel.
"""

import numpy as np

from ..argument_checks import check_positive
from ..types import Seed

DABS = 64                                       # dots of ink along the strokes of a digit
SIZE = 0.55, 0.8                                # of the digit, relative to the picture: the least and the greatest
SLANT, ANGLE = 0.3, 0.25                        # greatest slant (sideways per unit of height) and rotation (radians)
BEND = 0.06                                     # greatest displacement of a point of a stroke, relative to the digit
MARGIN = 0.05                                   # between the digit and the edge of the picture
PEN = 0.025, 0.045                              # width of the pen, relative to the picture: the least and the greatest
NOISE = 0.15                                    # standard deviation


def arc(x, y, width, height, start, end):
    """Returns points (n, 2) on an ellipse with center (x, y), clockwise between two angles in degrees; 0 is right."""
    angles = np.radians(np.arange(start, end + 1, 10))
    return np.stack([x + width * np.cos(angles), y + height * np.sin(angles)], 1)


STROKES = [                                     # of the digits 0 to 9, in a square whose corner (0, 0) is at the top left
    [arc(0.5, 0.5, 0.32, 0.48, 0, 360)],
    [[(0.3, 0.25), (0.55, 0.02), (0.55, 0.98)]],
    [[*arc(0.5, 0.28, 0.3, 0.26, 190, 390), (0.18, 0.97), (0.84, 0.97)]],
    [[*arc(0.48, 0.26, 0.28, 0.24, 200, 450), *arc(0.48, 0.74, 0.32, 0.24, 270, 520)]],
    [[(0.62, 0.98), (0.62, 0.02), (0.15, 0.68), (0.88, 0.68)]],
    [[(0.8, 0.03), (0.27, 0.03), (0.23, 0.45), *arc(0.46, 0.68, 0.32, 0.29, 230, 500)]],
    [arc(0.5, 0.7, 0.28, 0.27, 0, 360), [(0.22, 0.68), (0.34, 0.33), (0.66, 0.02)]],
    [[(0.18, 0.03), (0.82, 0.03), (0.4, 0.98)]],
    [arc(0.5, 0.26, 0.24, 0.23, 0, 360), arc(0.5, 0.74, 0.3, 0.24, 0, 360)],
    [arc(0.5, 0.3, 0.28, 0.27, 0, 360), [(0.78, 0.32), (0.73, 0.68), (0.5, 0.98)]],
]


def draw_digits(count: int, rng: Seed, size: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """Draws `count` digits, equally many of each kind if ten divides the count, in a random order.

    Parameters:
        count : int
        rng : generator or seed
        size : int (16), the height and width of a picture in pixels
    Returns: images float32 (count, size, size), 0 without ink and 1 with full ink, apart from the noise; labels (count,)
    Raises: ValueError if count or size is not positive.
    """
    check_positive(count=count, size=size)
    rng = np.random.default_rng(rng)
    labels = rng.permutation(np.arange(count) % 10)
    points = place(bend(DRAWN[labels], rng), rng)                           # (count, DABS, 2), x and y, from 0 to 1
    pen = rng.uniform(*PEN, (count, 1, 1))
    pixels = (np.arange(size) + 0.5) / size
    x, y = (np.exp(-((points[..., axis, None] - pixels) / pen) ** 2 / 2).astype(np.float32) for axis in (0, 1))
    ink = 1 - np.exp(-y.mT @ x)                                             # the sum over the dabs; it saturates at 1
    return ink + NOISE * rng.standard_normal(ink.shape, np.float32), labels


def bend(points, rng):
    """Moves the points of each digit a little, neighbors in a similar direction."""
    waves, phases = rng.uniform(-4, 4, (len(points), 2, 2)), rng.uniform(0, 2 * np.pi, (len(points), 1, 2))
    return points + BEND * np.sin(points @ waves + phases)


def place(points, rng):
    """Stretches, slants and rotates each digit around its center, and moves it to a random place inside the picture."""
    count = len(points)
    slant, angle = rng.uniform(-SLANT, SLANT, count), rng.uniform(-ANGLE, ANGLE, count)
    width, height = rng.uniform(*SIZE, (2, count))
    one, zero, cos, sin = np.ones(count), np.zeros(count), np.cos(angle), np.sin(angle)
    stretch, shear, rotation = (np.stack(rows, 1).reshape(-1, 2, 2) for rows in (       # rows: what x and y become
        (width, zero, zero, height), (one, zero, slant, one), (cos, sin, -sin, cos)))
    points = (points - 0.5) @ stretch @ shear @ rotation
    lowest, highest = points.min(1, keepdims=True), points.max(1, keepdims=True)
    free = np.maximum(1 - 2 * MARGIN - (highest - lowest), 0)               # too large a digit starts at the margin
    return points - lowest + MARGIN + free * rng.random((count, 1, 2))


def dabs(strokes):
    """Returns DABS points (DABS, 2) at equal distances along the strokes."""
    segments = np.concatenate([np.stack([stroke[:-1], stroke[1:]], 1) for stroke in map(np.array, strokes)])
    lengths = np.linalg.norm(segments[:, 1] - segments[:, 0], axis=1)
    ends = np.cumsum(lengths)
    distances = (np.arange(DABS) + 0.5) / DABS * ends[-1]
    i = np.searchsorted(ends, distances)
    part = 1 - (ends[i] - distances) / lengths[i]
    return segments[i, 0] + part[:, None] * (segments[i, 1] - segments[i, 0])


DRAWN = np.stack([dabs(strokes) for strokes in STROKES])                    # (10, DABS, 2)
