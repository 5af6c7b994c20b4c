"""Learning curves from the rows that a Trainer keeps."""

import numpy as np
from matplotlib.figure import Figure


SCORES = {"accuracy": "accuracy, validation", "training_accuracy": "accuracy, training", "f1": "F1, validation"}


def learning_curves(histories):
    """histories {title: rows}: of each the training loss (pale: every step, dark: smoothed) and the validation loss.

    Where accuracies or F1 were measured, they stand beside the losses.
    """
    scored = {title: any(name in row for row in rows for name in SCORES) for title, rows in histories.items()}
    count = len(histories) + sum(scored.values())
    figure = Figure(figsize=(5.5 * count, 4), layout="constrained")
    places = iter(figure.subplots(1, count, squeeze=False)[0])
    for title, rows in histories.items():
        axes = next(places)
        draw_loss(axes, rows)
        axes.set_title(title, parse_math=False)
        if scored[title]:
            axes.set_ylabel("loss (nats per target)")
            axes = next(places)
            draw_scores(axes, rows)
            axes.set_title(title, parse_math=False)
    return figure


def run_history(rows, title, training="training"):
    """A run's loss, learning rate and norm of the gradient before clipping, step by step; `training` names its loss."""
    scored = any(name in row for row in rows for name in SCORES)
    figure = Figure(figsize=(4.7 * (3 + scored), 4.2), layout="constrained")
    loss, rate, norm, *scores = figure.subplots(1, 3 + scored)
    draw_loss(loss, rows, training)
    for axes in scores:
        loss.set_ylabel("loss (nats per target)")
        draw_scores(axes, rows)
    steps = [row["step"] for row in rows]
    rate.plot(steps, [row["lr"] for row in rows], color="C2")
    rate.set_ylabel("learning rate")
    norm.plot(steps, [row["norm"] for row in rows], color="C3", linewidth=0.8)
    norm.set(ylabel="norm of the gradient, before clipping", yscale="log")
    for axes in (rate, norm):
        axes.set_xlabel("step")
        axes.grid(alpha=0.3)
    figure.suptitle(title, parse_math=False)
    return figure


def draw_scores(axes, rows):
    for color, (name, label) in zip(("C1", "C0", "C4"), SCORES.items()):
        measured = [(row["step"], row[name]) for row in rows if name in row]
        if measured:
            axes.plot(*zip(*measured), color=color, marker="o", markersize=4, label=label)
    axes.set(xlabel="step", ylabel="score", ylim=(None, 1.02))
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
    if smooth.max() > 50 * smooth.min() > 0:
        axes.set_yscale("log")
    axes.set(xlabel="step", ylabel="loss (nats per token)")
    axes.grid(alpha=0.3)
    axes.legend()
