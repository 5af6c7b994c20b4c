"""Draws time and memory over a size on logarithmic axes, where a power law is a straight line."""

from matplotlib.figure import Figure

LABELS = {"T": "sequence length T", "d_model": "model width d_model", "step_ms": "time of a training step (ms)",
          "peak_mb": "peak memory of the arrays (MB)"}


def growth_curves(curves):
    """Draws four panels; `curves` is a list of (x, y, [(title, rows)]), where the rows are dicts with the keys x and y."""
    figure = Figure(figsize=(9, 7), layout="constrained")
    for axes, (x, y, lines) in zip(figure.subplots(2, 2).flat, curves):
        for title, rows in lines:
            axes.plot([row[x] for row in rows], [row[y] for row in rows], marker="o", markersize=4, label=title)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        sizes = sorted({row[x] for _, rows in lines for row in rows})
        axes.set_xticks(sizes, map(str, sizes))
        axes.set(xlabel=LABELS[x], ylabel=LABELS[y])
        axes.grid(alpha=0.3)
        axes.legend()
    return figure
