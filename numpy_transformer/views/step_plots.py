"""Draws numbers over steps and sizes: the error of a finite difference, a learning rate, memory."""

import itertools

import numpy as np
from matplotlib.figure import Figure

LINES = [{"color": color, "marker": marker, "linestyle": line} for color, marker, line in (
    ("#0072b2", "o", "-"), ("#d55e00", "s", "--"), ("#009e73", "^", "-."), ("#cc79a7", "D", ":"), ("0.2", "v", "-"),
    ("#56b4e9", "X", "--"))]                    # colors for all kinds of color vision: Okabe and Ito 2008


def step_sizes(curves, xlabel="step h", ylabel="relative error of the gradient", mark=None):
    """Draws errors over step sizes on logarithmic axes. An error of exactly 0 is left out.

    Parameters:
        curves : {title: (steps, errors)}
        xlabel, ylabel : labels of the axes
        mark : a step to mark with a gray band, or None
    """
    figure, axes = panel(xlabel, ylabel)
    for (title, (steps, errors)), line in zip(curves.items(), itertools.cycle(LINES)):
        axes.loglog(steps, errors, markersize=5, label=title, **line)
    if mark is not None:
        axes.axvline(mark, color="0.6", linewidth=6, alpha=0.4, zorder=0, label=f"{xlabel} = {mark:g}")
    axes.legend(fontsize=11)
    return figure


def schedules(curves, ylabel="learning rate"):
    """Draws learning rates over the training steps; `curves` is {title: rates}, the rate of step 1 first."""
    figure, axes = panel("training step", ylabel)
    for (title, rates), line in zip(curves.items(), itertools.cycle(LINES)):
        axes.plot(range(1, len(rates) + 1), rates, linewidth=2, label=title, **{**line, "marker": None})
    axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3), useMathText=True)
    axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
    axes.legend(fontsize=11)
    return figure


def memory_growth(curves, xlabel="sequence length T"):
    """Draws memory over the sequence length on logarithmic axes, where a power of T is a straight line.

    The legend shows the slope of each curve between its last two points. Gray lines show growth proportional to T and T².

    Parameters:
        curves : {title: (lengths, bytes)}
        xlabel : label of the horizontal axis
    """
    figure, axes = panel(xlabel, "peak memory (MB)")
    for (title, (lengths, sizes)), line in zip(curves.items(), itertools.cycle(LINES)):
        (x0, x1), (y0, y1) = np.log(lengths[-2:]), np.log(sizes[-2:])
        axes.loglog(lengths, np.asarray(sizes) / 1e6, label=f"{title}: slope {(y1 - y0) / (x1 - x0):.2f}", **line)
    ticks = sorted({length for lengths, _ in curves.values() for length in lengths})
    axes.set_xticks(ticks, map(str, ticks), minor=False)
    axes.minorticks_off()
    first, last = ticks[0], ticks[-1]
    low = min(np.min(sizes) for _, sizes in curves.values()) / 2e6      # the gray lines start below all curves
    for power, name in ((1, "T"), (2, "T²")):
        end = low * (last / first) ** power
        axes.plot([first, last], [low, end], color="0.6", linewidth=1, linestyle=(0, (6, 3)), zorder=0)
        axes.annotate(f"∝ {name}", (last, end), (5, 0), textcoords="offset points", va="center", color="0.3",
                      fontsize=11)
    axes.set_xlim(first / 1.3, last * 1.7)
    axes.legend(fontsize=11)
    return figure


def panel(xlabel, ylabel):
    """A figure with one pair of labeled axes."""
    figure = Figure(figsize=(7.5, 4.8), layout="constrained")
    axes = figure.subplots()
    axes.set_xlabel(xlabel, fontsize=12)
    axes.set_ylabel(ylabel, fontsize=12)
    axes.tick_params(labelsize=11)
    axes.grid(alpha=0.3)
    return figure, axes
