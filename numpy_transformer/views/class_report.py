"""Draws the results of a whole class of students."""

import textwrap

from matplotlib.figure import Figure

COLORS = {"pass": "#4c9f70", "fail": "#c8553d", "todo": "#c9c9c9", "error": "#8d5a97", "timeout": "#e0a030",
          "memory": "#7a5230", "missing": "#ececec"}
MOST_SHOWN = 12                                 # only the most frequent mistakes are drawn
LETTERS = 44                                    # of the explanation beside its bar


def class_report(exercises, mistakes, unit="number of students"):
    """Draws two panels of bars: the results of each exercise, and the most frequent known mistakes.

    Parameters:
        exercises : {name: {status: number of students}}
        mistakes : dicts with the keys mistake, exercise, count and say (what it is), the most frequent first
        unit : what the numbers in `exercises` are
    """
    mistakes = mistakes[:MOST_SHOWN]
    figure = Figure(figsize=(13, 1.4 + 0.27 * max(len(exercises), len(mistakes), 5)), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_results(left, exercises, unit)
    draw_mistakes(right, mistakes)
    figure.legend(loc="outside lower left", ncols=7, fontsize="small")
    for axes in (left, right):
        axes.margins(y=0.01)
        axes.invert_yaxis()
        axes.tick_params(axis="y", labelsize="small")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.spines[["top", "right"]].set_visible(False)
    if not mistakes:
        right.set_axis_off()
    return figure


def draw_results(axes, exercises, unit):
    names = list(exercises)
    start = [0] * len(names)
    for status, color in COLORS.items():
        counts = [exercises[name].get(status, 0) for name in names]
        if any(counts):
            axes.barh(names, counts, left=start, color=color, label=status, edgecolor="white", linewidth=0.5)
        start = [a + b for a, b in zip(start, counts)]
    axes.set(title="Results by exercise", xlabel=unit)


def draw_mistakes(axes, mistakes):
    labels = [f"{exercise_number(entry['exercise'])}  {entry['mistake']}  "
              f"{textwrap.shorten(entry.get('say', ''), LETTERS, placeholder=' …')}".strip() for entry in mistakes]
    bars = axes.barh(range(len(mistakes)), [entry["count"] for entry in mistakes], color=COLORS["fail"])
    axes.bar_label(bars, padding=3, fontsize="small")
    axes.set_yticks(range(len(mistakes)), labels)
    axes.set(title="Known mistakes, most frequent first" if mistakes else "No known mistakes",
             xlabel="number of students")


def exercise_number(name):
    """Returns the number of an exercise, such as 05.2, from its name, such as "ex05_2_attention_backward"."""
    lesson, place = name.removeprefix("ex").split("_")[:2]
    return f"{lesson}.{place}"
