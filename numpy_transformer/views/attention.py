"""Attention weights and masks as grids of cells, one row a query."""

import math

import numpy as np
from matplotlib.figure import Figure


def attention_heads(weights, queries=None, keys=None, title="Attention", names=None):
    """weights (N, T, S), one picture for each of the N heads; queries, keys: tokens (or a string) for the ticks."""
    count = len(weights)
    columns = min(count, 4)
    lines = math.ceil(count / columns)
    cell = 0.13 if max(weights.shape[1:]) > 16 else 0.26
    size = [max(2.6, cell * n) for n in weights.shape[:0:-1]]
    figure = Figure(figsize=(columns * (size[0] + 0.5) + 0.8, lines * (size[1] + 0.7) + 0.5), layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False).ravel()
    for axes, head in zip(grid, range(count)):
        image = axes.imshow(weights[head], cmap="Blues", vmin=0, vmax=1, interpolation="nearest", aspect="auto")
        axes.set_title(names[head] if names else f"head {head}", fontsize=9)
        label_ticks(axes, queries, keys)
    for axes in grid[count:]:
        axes.axis("off")
    for axes in grid[::columns]:
        axes.set_ylabel("query")
    for axes in grid[max(count - columns, 0):count]:
        axes.set_xlabel("key")
    figure.suptitle(title, fontsize=11)
    figure.colorbar(image, ax=list(grid), label="weight", fraction=0.03)
    return figure


def mask_pictures(masks):
    """masks {title: boolean (T, S)}: which key each query may see."""
    figure = Figure(figsize=(3.2 * len(masks) + 0.4, 4.1), layout="constrained")
    for axes, (title, mask) in zip(figure.subplots(1, len(masks), squeeze=False)[0], masks.items()):
        axes.imshow(np.asarray(mask), cmap="Blues", vmin=-0.2, vmax=1.4)
        for (t, s), seen in np.ndenumerate(mask):
            axes.text(s, t, "1" if seen else "0", ha="center", va="center", fontsize=8,
                      color="white" if seen else "0.5")
        axes.set(title=title, xlabel="key", ylabel="query", xticks=range(mask.shape[1]), yticks=range(mask.shape[0]))
    figure.suptitle("Masks: 1 = may attend, 0 = hidden", fontsize=11)
    return figure


def label_ticks(axes, queries, keys):
    size = 7
    if keys is not None:
        axes.set_xticks(range(len(keys)), list(keys), fontsize=size, rotation=90 if max(map(len, keys)) > 1 else 0)
    if queries is not None:
        axes.set_yticks(range(len(queries)), list(queries), fontsize=size)
