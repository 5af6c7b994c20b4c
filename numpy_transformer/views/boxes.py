"""Nested boxes with text, arrows and sums, measured and painted from below."""

import functools
from dataclasses import dataclass, field

from matplotlib.font_manager import FontProperties
from matplotlib.patches import Circle, FancyBboxPatch
from matplotlib.textpath import TextPath

FONT, TITLE = 11, 13                                        # points; the lengths are inches:
LINE, EDGE, GAP, LANE, SIDE = 0.185, 0.1, 0.18, 0.3, 0.45   # of text, around it, between boxes, for skips, columns
WIDEST = 3.6                                                # of a line that holds several notes
COLOURS = {"attention": "#c3dcf4", "norm": "#fdf2a8", "feed-forward": "#c9ead0", "embedding": "#fbd9bd",
           "linear": "#e2d6f2", "block": "#ffffff", "other": "#f1f1f1"}


@dataclass
class Box:
    """What is drawn of a module; of kind "column", several things one above the other; of kind "text", its name.

    items, from below: a Box; a list of columns side by side; a number: n the sum of what lies just below and what lay
    n items lower, 0 a product. Blocks that differ in their names alone are equal, and drawn once.
    """

    name: str = field(default="", compare=False)
    kind: str = "column"
    heading: str = ""                                       # its class and what else is said beside the name
    total: str = ""                                         # how many parameters
    lines: list = field(default_factory=list)
    items: list = field(default_factory=list)
    times: int = field(default=1, compare=False)
    memory: bool = False                                    # cross-attention: an arrow comes from the side
    loose: bool = False                                     # how its items are joined is not known


class Painter:
    """Boxes on axes whose unit is an inch. An end is the (x, y) from which the next arrow starts."""

    def __init__(self, axes):
        self.axes, self.attending = axes, []                # the left ends of cross-attention

    def stack(self, box, x, y, width, ends=()):
        """What is in the box upwards from y, joined to the ends of what lies below; the ends above."""
        floors = []
        for item in box.items:
            floors.append(y - GAP / 2)
            height = item_size(item)[1]
            if isinstance(item, int):
                ends = [self.joint(x, y + height / 2, "+" if item else "×", ends)]
            else:
                ends = self.row(item if isinstance(item, list) else [item], x, y, width, ends, box.loose)
            if isinstance(item, int) and item:
                low, far, middle = floors[-1 - item], x + width / 2 + LANE / 2, y + height / 2
                self.path((x, low), (far, low), (far, middle), (x + height / 2, middle))
            y += height + GAP
        return ends

    def row(self, boxes, x, y, width, below, loose):
        """Boxes side by side, as wide as `width` in all, with an arrow to or from each."""
        spare, left, ends = (width - item_size(boxes)[0]) / len(boxes), x - width / 2, []
        for box in boxes:
            wide = measure(box)[0] + spare
            ends.append((left + wide / 2, self.paint(box, left + wide / 2, y, wide)))
            left += wide + SIDE
        framed = boxes[0].items and boxes[0].kind != "column"
        for start in below:
            self.path(start, (start[0], y), style=":" if loose else "-" if framed else "-|>")
        return ends

    def paint(self, box, x, y, width):
        """The box upwards from y; the height of its upper end."""
        height, left = measure(box)[1], x - width / 2
        if box.kind == "column":
            return self.stack(box, x, y, width)[-1][1]
        if box.kind == "text":
            self.write(x, y + height / 2, box.name, style="italic")
            return y + height
        self.axes.add_patch(FancyBboxPatch((left, y), width, height, "round,pad=0,rounding_size=0.06", linewidth=1,
                                           facecolor=COLOURS[box.kind], edgecolor="0.35"))
        self.attending += [(left, y + height / 2)] * box.memory
        self.write_lines(box, left + EDGE, left + width - EDGE, y + height - EDGE / 2 - LINE / 2)
        if box.items:
            for end in self.stack(box, x, y + GAP, width - 2 * margin(box), [(x, y)]):
                self.path(end, (end[0], y + height), style=":" if box.loose else "-")
        return y + height

    def write_lines(self, box, left, right, y):
        self.write(left, y, box.name, ha="left", weight="bold")
        if box.items:                                       # the flow passes between what stands left and right
            self.write(left, y - LINE, box.heading, ha="left")
            self.write(right, y, f"× {box.times}" if box.times > 1 else box.total, ha="right",
                       weight="bold" if box.times > 1 else "normal")
            self.write(right, y - LINE, f"{box.total} each" if box.times > 1 else "", ha="right")
            return
        self.write(left + text_width(box.name, "bold") + EDGE * bool(box.name), y, box.heading, ha="left")
        self.write(right, y, box.total, ha="right")
        for n, line in enumerate(box.lines, 1):
            self.write(left, y - n * LINE, line, ha="left")

    def joint(self, x, y, sign, below):
        radius = item_size(1)[1] / 2
        for across, top in below:
            if abs(across - x) < radius:
                self.path((x, top), (x, y - radius))
            else:
                self.path((across, top), (across, y), (x + (radius if across > x else -radius), y))
        self.axes.add_patch(Circle((x, y), radius, facecolor="white", edgecolor="0.35", zorder=3))
        self.write(x, y, sign, weight="bold", zorder=4)
        return x, y + radius

    def memory(self, gutter, *way):
        """An arrow to each cross-attention: along the points of the way, then along x = gutter, then to the right."""
        for left, y in self.attending:
            self.path(*way, (gutter, y), (left, y))
        for x, y in [*way[1:2], *([] if way else [(gutter, y) for _, y in self.attending])]:
            self.write(x + EDGE / 2, y + LINE * 0.6, "memory", ha="left")

    def path(self, *points, style="-|>"):
        self.axes.plot(*zip(*points), ":" if style == ":" else "-", color="0.35", linewidth=1.2, zorder=2)
        if style == "-|>":
            self.axes.annotate("", points[-1], points[-2], arrowprops={
                "arrowstyle": style, "color": "0.35", "shrinkA": 0, "shrinkB": 0, "mutation_scale": 11})

    def write(self, x, y, text, ha="center", **style):
        if text:
            self.axes.text(x, y, text, ha=ha, va="center_baseline", fontsize=FONT, **style)


def pack(notes):
    """The notes in few lines."""
    lines = []
    for note in notes:
        if lines and text_width(f"{lines[-1]};  {note}") < WIDEST:
            lines[-1] += f";  {note}"
        else:
            lines.append(note)
    return lines


def margin(box):
    return LANE if any(isinstance(item, int) for item in box.items) else 0.12


def measure(box):
    """Width and height of a box with all that is in it."""
    first = text_width(box.name, "bold") + EDGE + text_width(box.heading)
    if not box.items:
        widths = [first + 2 * EDGE + text_width(box.total), *map(text_width, box.lines)]
        return max(widths) + 2 * EDGE, LINE * (1 + len(box.lines)) + EDGE
    sizes = [item_size(item) for item in box.items]
    width, height = max(w for w, _ in sizes), sum(h for _, h in sizes) + GAP * (len(sizes) - 1)
    if box.kind == "column":
        return width, height
    half = max(text_width(box.name, "bold"), text_width(box.heading), text_width(f"{box.total} each")) + 2 * EDGE
    return max(width + 2 * margin(box), 2 * half), height + 2 * GAP + LINE * (1 + bool(box.heading)) + EDGE / 2


def item_size(item):
    if isinstance(item, int):
        return 0.24, 0.24
    boxes = [measure(box) for box in (item if isinstance(item, list) else [item])]
    return sum(width for width, _ in boxes) + SIDE * (len(boxes) - 1), max(height for _, height in boxes)


@functools.cache
def text_width(text, weight="normal"):
    return TextPath((0, 0), text, FONT, prop=FontProperties(weight=weight)).get_extents().x1 / 72 if text else 0.0
