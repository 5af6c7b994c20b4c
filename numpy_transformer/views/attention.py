"""Draws attention weights and masks as grids of cells, with one row per query and one column per key."""

import math

import numpy as np
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure


def attention_heads(weights, queries=None, keys=None, title="Attention weights", names=None, query_label="query token"):
    """Draws the attention weights of N heads, one panel per head.

    The colors follow the square root of the weight, so that small weights are visible too.

    Parameters:
        weights : array (N, T, S)
        queries, keys : tokens (or a string) for the ticks of the rows and columns; None: positions
        title : title of the figure
        names : titles of the N panels; None: "head 0", "head 1", ...
        query_label : label of the rows, if `queries` is given
    """
    count = len(weights)
    T, S = weights.shape[1:]
    longest_token = max([len(token) for token in [*(queries or ""), *(keys or "")]], default=1)
    width = max(2.8, 0.17 * S)
    height = max(2.4, 0.17 * T)
    columns = min(count, 4, max(1, int(20 / width)))
    lines = math.ceil(count / columns)
    margin = 0.5 + 0.08 * longest_token
    figure = Figure(figsize=(columns * (width + margin) + 1, lines * (height + margin + 0.2) + 0.5),
                    layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False).ravel()
    for axes, head in zip(grid, range(count)):
        image = axes.imshow(weights[head], cmap="Blues", norm=PowerNorm(0.5, 0, 1), interpolation="nearest",
                            aspect="auto")
        axes.set_title(names[head] if names else f"head {head}", fontsize=12)
        label_ticks(axes, queries, keys)
    for axes in grid[count:]:
        axes.axis("off")
    for axes in grid[::columns]:
        axes.set_ylabel("query position" if queries is None else query_label, fontsize=12)
    for axes in grid[max(count - columns, 0):count]:
        axes.set_xlabel("key position" if keys is None else "key token", fontsize=12)
    figure.suptitle(title, fontsize=14)
    bar = figure.colorbar(image, ax=list(grid), label="attention weight\n(square-root color scale)", fraction=0.02,
                          pad=0.01, aspect=25, ticks=(0, 0.01, 0.1, 0.3, 0.6, 1))
    bar.ax.tick_params(labelsize=10)
    return figure


def mask_pictures(masks):
    """Draws boolean masks {title: array (T, S)} side by side; masks of up to 16 positions show 0 and 1 in the cells."""
    figure = Figure(figsize=(3.2 * len(masks) + 0.4, 4.1), layout="constrained")
    for axes, (title, mask) in zip(figure.subplots(1, len(masks), squeeze=False)[0], masks.items()):
        axes.imshow(np.asarray(mask), cmap="Blues", vmin=-0.2, vmax=1.4)
        axes.set(title=title, xlabel="key position", ylabel="query position")
        if max(mask.shape) > 16:
            continue
        for (t, s), may_attend in np.ndenumerate(mask):
            axes.text(s, t, "1" if may_attend else "0", ha="center", va="center", fontsize=12,
                      color="white" if may_attend else "0.5")
        axes.set(xticks=range(mask.shape[1]), yticks=range(mask.shape[0]))
    figure.suptitle("Masks: 1 (dark) = may attend, 0 (pale) = hidden", fontsize=12)
    return figure


def label_ticks(axes, queries, keys):
    size = 10
    if keys is not None:
        axes.set_xticks(range(len(keys)), list(keys), fontsize=size, rotation=90 if max(map(len, keys)) > 1 else 0,
                        parse_math=False)
    if queries is not None:
        axes.set_yticks(range(len(queries)), list(queries), fontsize=size, parse_math=False)
