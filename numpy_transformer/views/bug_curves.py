"""The losses of two runs in one picture."""

import numpy as np
from matplotlib.figure import Figure

WINDOW = 10                                     # steps in a mean: batches differ


def bug_curves(right, wrong, title):
    """Loss by loss of a run without a mistake and of one with it; a run that broke down ends where it did."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    for losses, label, style in ((wrong, "with the mistake", {"color": "#d55e00", "linewidth": 3.5}),
                                 (right, "without it", {"color": "black", "linestyle": ":", "linewidth": 2})):
        losses = np.asarray(losses, float)
        width = min(WINDOW, len(losses))
        smooth = np.convolve(losses, np.ones(width) / width, "valid")
        axes.plot(np.arange(len(smooth)) + (width + 1) / 2, smooth, label=label, **style)
        broken = np.flatnonzero(~np.isfinite(losses))
        if len(broken):
            axes.axvline(broken[0] + 1, color=style["color"], linewidth=1)
            axes.annotate("not a number any more", (broken[0] + 1, 0.5), (6, 0), xycoords=("data", "axes fraction"),
                          textcoords="offset points", fontsize=13)
    axes.set_xlabel("step", fontsize=14)
    axes.set_ylabel(f"loss (nats per letter), mean of {width} steps", fontsize=14)
    axes.set_ylim(bottom=0)
    axes.tick_params(labelsize=13)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=13)
    axes.set_title(title, fontsize=14, wrap=True, parse_math=False)
    return figure
