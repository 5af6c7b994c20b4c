"""Numbers over steps and sizes: the error of a difference, a learning rate, memory."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

STYLES = ("C0o-", "C1s--", "C2^-.", "C4D:", "C5v-", "C7X--")


def step_sizes(curves, xlabel="step h", ylabel="relative error of the gradient", mark=None):
    """curves {title: (steps, errors)} on logarithmic axes; `mark`: a step at which a grey band stands, or None.

    An error of exactly 0 has no place on a logarithmic axis and is left out.
    """
    figure, axes = panel(xlabel, ylabel)
    for n, (title, (steps, errors)) in enumerate(curves.items()):
        axes.loglog(steps, errors, STYLES[n % len(STYLES)], markersize=5, label=title)
    if mark is not None:
        axes.axvline(mark, color="0.6", linewidth=6, alpha=0.4, zorder=0, label=f"{xlabel} = {mark:g}")
    axes.legend(fontsize=11)
    return figure


def schedules(curves, ylabel="learning rate"):
    """curves {title: rates}, the rate of step 1 first."""
    figure, axes = panel("training step", ylabel)
    for n, (title, rates) in enumerate(curves.items()):
        colour, style = STYLES[n % len(STYLES)][:2], STYLES[n % len(STYLES)][3:]
        axes.plot(range(1, len(rates) + 1), rates, style, color=colour, linewidth=2, label=title)
    axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3), useMathText=True)
    axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
    axes.legend(fontsize=11)
    return figure


def memory_growth(curves, xlabel="length of the text T"):
    """curves {title: (lengths, bytes)} on logarithmic axes, where a power of T is a straight line of that slope.

    Dashed: what grows as T and as T². In the legend: the slope of each curve between its last two points.
    """
    figure, axes = panel(xlabel, "memory (MB)")
    for n, (title, (lengths, sizes)) in enumerate(curves.items()):
        slope = np.diff(np.log(sizes[-2:]))[0] / np.diff(np.log(lengths[-2:]))[0]
        axes.loglog(lengths, np.asarray(sizes) / 1e6, STYLES[n % len(STYLES)], markersize=6,
                    label=f"{title}: slope {slope:.1f}")
    return figure


def panel(xlabel, ylabel):
    """A figure with one pair of labelled axes."""
    figure = Figure(figsize=(7.5, 4.8), layout="constrained")
    axes = figure.subplots()
    axes.set_xlabel(xlabel, fontsize=12)
    axes.set_ylabel(ylabel, fontsize=12)
    axes.tick_params(labelsize=11)
    axes.grid(alpha=0.3)
    return figure, axes
