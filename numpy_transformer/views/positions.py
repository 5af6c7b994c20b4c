"""Draws positional encodings as heatmaps and as waves."""

import itertools

import numpy as np
from matplotlib.figure import Figure

STYLES = ("-", "--", "-.", ":")                 # in addition to colors, for readers who cannot tell these apart


def positional_heatmap(table, transposed=False):
    """Draws an encoding as colors, one row per position and one column per dimension.

    Parameters:
        table : array (positions, d_model)
        transposed : if True, one row per dimension and one column per position
    """
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    limit = float(np.abs(table).max())
    image = axes.imshow(table.T if transposed else table, aspect="auto", cmap="RdBu_r", vmin=-limit, vmax=limit,
                        interpolation="nearest")
    labels = ("position", "dimension") if transposed else ("dimension", "position")
    axes.set(xlabel=labels[0], ylabel=labels[1],
             title=f"Positional encoding: {table.shape[0]} positions, d_model = {table.shape[1]}")
    figure.colorbar(image, ax=axes, label="value added to the embedding")
    return figure


def positional_waves(table, dimensions=None, positions=None):
    """Draws columns and rows of an encoding as curves.

    Parameters:
        table : array (positions, d_model)
        dimensions : columns to draw in the left panel, over the positions; None: five even ones
        positions : rows to draw in the right panel, over the even dimensions; None: 1, 5, 10 and 20
    """
    length, d_model = table.shape
    if dimensions is None:
        dimensions = list(dict.fromkeys(2 * round(d_model * part / 2) for part in (0, 0.08, 0.16, 0.24, 0.32)))
    if positions is None:
        positions = (1, 5, 10, 20)
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for dimension, style in zip(dimensions, itertools.cycle(STYLES)):
        left.plot(table[:, dimension], style, label=f"dimension {dimension} ({'cos' if dimension % 2 else 'sin'})")
    for position, style in zip([p for p in positions if p < length] or [0], itertools.cycle(STYLES)):
        right.plot(range(0, d_model, 2), table[position, 0::2], style, label=f"position {position}")
    left.set(xlabel="position", ylabel="value", title="Each dimension is a wave over the positions")
    right.set(xlabel="dimension (only even ones: sines)", title="Each position has its own pattern of values")
    for axes in (left, right):
        axes.legend(fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3, frameon=False)
        axes.grid(alpha=0.3)
    return figure
