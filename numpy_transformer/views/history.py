"""Draws learning curves from the rows of a Trainer's history."""

import numpy as np
from matplotlib.figure import Figure

SCORES = {"accuracy": "validation accuracy", "training_accuracy": "training accuracy", "f1": "validation F1"}


def learning_curves(histories):
    """Draws the training loss and the validation loss of each history in {title: rows}.

    The pale line is the training loss at each step, the dark line its moving average. A history with accuracies or F1
    scores gets a second panel for them.
    """
    count = len(histories) + sum(map(has_scores, histories.values()))
    figure = Figure(figsize=(5.5 * count, 4), layout="constrained")
    panels = iter(figure.subplots(1, count, squeeze=False)[0])
    for title, rows in histories.items():
        axes = next(panels)
        draw_loss(axes, rows)
        axes.set_title(title, parse_math=False)
        if has_scores(rows):
            axes.set_ylabel("loss (nats per target)")
            axes = next(panels)
            draw_scores(axes, rows)
            axes.set_title(title, parse_math=False)
    return figure


def run_history(rows, title, training="training"):
    """Draws the loss, the learning rate and the gradient norm before clipping at each step of a run.

    Parameters:
        rows : the history of a Trainer
        title : title of the figure
        training : label of the training loss in the legend
    """
    count = 4 if has_scores(rows) else 3
    figure = Figure(figsize=(4.7 * count, 4.2), layout="constrained")
    loss, rate, norm, *scores = figure.subplots(1, count)
    draw_loss(loss, rows, training)
    if scores:
        loss.set_ylabel("loss (nats per target)")
        draw_scores(scores[0], rows)
    steps = [row["step"] for row in rows]
    rate.plot(steps, [row["lr"] for row in rows], color="C2")
    rate.set_ylabel("learning rate")
    norm.plot(steps, [row["norm"] for row in rows], color="C3", linewidth=0.8)
    norm.set(ylabel="gradient norm before clipping", yscale="log")
    for axes in (rate, norm):
        axes.set_xlabel("training step")
        axes.grid(alpha=0.3)
    figure.suptitle(title, parse_math=False)
    return figure


def losses_side_by_side(losses):
    """Draws the losses of two runs, {label: array}, the second one as a thin line on the first."""
    figure = Figure(figsize=(5.5, 3), layout="constrained")
    axes = figure.subplots()
    styles = ({"color": "C1", "linewidth": 6, "alpha": 0.4}, {"color": "C0", "linewidth": 1.5})
    for style, (label, values) in zip(styles, losses.items()):
        axes.plot(np.arange(1, len(values) + 1), values, label=label, **style)
    axes.set(xlabel="training step", ylabel="loss (nats per token)")
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


def has_scores(rows):
    """Returns True if a row has an accuracy or an F1 score."""
    return any(name in row for row in rows for name in SCORES)


def draw_scores(axes, rows):
    for color, (name, label) in zip(("C1", "C0", "C4"), SCORES.items()):
        measured = [(row["step"], row[name]) for row in rows if name in row]
        if measured:
            axes.plot(*zip(*measured), color=color, marker="o", markersize=4, label=label)
    axes.set(xlabel="training step", ylabel="score", ylim=(None, 1.02))
    axes.grid(alpha=0.3)
    axes.legend()


def draw_loss(axes, rows, training="training"):
    steps = np.array([row["step"] for row in rows])
    loss = np.array([row["loss"] for row in rows])
    width = max(1, len(loss) // 40)
    smooth = np.convolve(loss, np.ones(width) / width, "valid")
    axes.plot(steps, loss, color="C0", alpha=0.25, linewidth=0.8)
    axes.plot(steps[len(steps) - len(smooth):], smooth, color="C0", label=training)
    measured = [(row["step"], row["validation"]) for row in rows if "validation" in row]
    if measured:
        axes.plot(*zip(*measured), color="C1", marker="o", markersize=4, label="validation")
    spans_orders_of_magnitude = smooth.max() > 50 * smooth.min() > 0
    if spans_orders_of_magnitude:
        axes.set_yscale("log")
    axes.set(xlabel="training step", ylabel="loss (nats per token)")
    axes.grid(alpha=0.3)
    axes.legend()
