"""What a class got right and wrong."""

from matplotlib.figure import Figure

COLOURS = {"pass": "#4c9f70", "fail": "#c8553d", "todo": "#c9c9c9", "error": "#8d5a97", "timeout": "#e0a030",
           "memory": "#7a5230", "missing": "#ececec"}
SHOWN = 30                                      # mistakes at most, the most frequent ones


def class_report(exercises, mistakes):
    """Two panels of bars: how every exercise went, and the named mistakes from the most frequent on.

    exercises : {name: {status: count}}
    mistakes : dicts with the keys mistake, exercise and count, sorted
    """
    mistakes = mistakes[:SHOWN]
    figure = Figure(figsize=(13, 1.4 + 0.27 * max(len(exercises), len(mistakes), 5)), layout="constrained")
    left, right = figure.subplots(1, 2)
    names = list(exercises)
    before = [0] * len(names)
    for status, colour in COLOURS.items():
        counts = [exercises[name].get(status, 0) for name in names]
        if any(counts):
            left.barh(names, counts, left=before, color=colour, label=status, edgecolor="white", linewidth=0.5)
        before = [a + b for a, b in zip(before, counts)]
    left.set(title="Students by exercise", xlabel="students")
    figure.legend(loc="outside lower left", ncols=7, fontsize="small")
    labels = [f"{number(entry['exercise'])}  {entry['mistake']}" for entry in mistakes]
    bars = right.barh(range(len(mistakes)), [entry["count"] for entry in mistakes], color=COLOURS["fail"])
    right.bar_label(bars, padding=3, fontsize="small")
    right.set_yticks(range(len(mistakes)), labels)
    right.set(title="Known mistakes, most frequent first" if mistakes else "No known mistakes",
              xlabel="students")
    for axes in (left, right):
        axes.margins(y=0.01)
        axes.invert_yaxis()
        axes.tick_params(axis="y", labelsize="small")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.spines[["top", "right"]].set_visible(False)
    if not mistakes:
        right.set_axis_off()
    return figure


def number(name):
    """Returns the number of an exercise, such as 05.2, from its name, such as "ex05_2_attention_backward"."""
    lesson, place = name.removeprefix("ex").split("_")[:2]
    return f"{lesson}.{place}"
