"""Draws the losses of two runs, one without and one with a bug."""

import numpy as np
from matplotlib.figure import Figure

WINDOW = 10                                     # steps of the moving average: the losses of single batches vary


def bug_curves(right, wrong, title):
    """Draws the loss at each step of a correct model and of a model with a bug.

    A curve ends where its loss is no longer finite.

    Parameters:
        right, wrong : losses of the two runs in nats per character, one per step
        title : title of the figure
    """
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    for losses, label, style in ((wrong, "with the bug", {"color": "#d55e00", "linewidth": 3.5}),
                                 (right, "without the bug", {"color": "black", "linestyle": ":", "linewidth": 2})):
        losses = np.asarray(losses, float)
        width = min(WINDOW, len(losses))
        smooth = np.convolve(losses, np.ones(width) / width, "valid")
        axes.plot(np.arange(len(smooth)) + (width + 1) / 2, smooth, label=label, **style)
        broken = np.flatnonzero(~np.isfinite(losses))
        if len(broken):
            axes.axvline(broken[0] + 1, color=style["color"], linewidth=1)
            early = broken[0] < len(losses) / 2         # the text stands where there is more space
            axes.annotate("the loss is no longer finite", (broken[0] + 1, 0.5), (6 if early else -6, 0),
                          xycoords=("data", "axes fraction"), textcoords="offset points", fontsize=13,
                          ha="left" if early else "right")
    axes.set_xlabel("training step", fontsize=14)
    axes.set_ylabel(f"loss (nats per character),\nmean of {width} steps", fontsize=14)
    axes.set_ylim(bottom=0)
    axes.tick_params(labelsize=13)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=13)
    axes.set_title(title, fontsize=14, wrap=True, parse_math=False)
    return figure
