"""Time and memory over a size, on logarithmic axes, where a power law is a straight line."""

from matplotlib.figure import Figure

LABELS = {"T": "length of the text T", "d_model": "width d_model", "step_ms": "a training step (ms)",
          "peak_mb": "arrays at the peak (MB)"}


def growth_curves(curves):
    """curves: [(x, y, [(title, rows)])], a panel each, rows with the keys x and y."""
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
