"""Measures and draws nested boxes with text, arrows and residual sums, from bottom to top."""

import functools
from dataclasses import dataclass, field

from matplotlib.font_manager import FontProperties
from matplotlib.patches import Circle, FancyBboxPatch
from matplotlib.textpath import TextPath

FONT, TITLE = 11, 13                                        # font sizes in points
LINE = 0.185                                                # all other lengths are inches: the height of a line of text,
EDGE = 0.1                                                  # the space around text,
GAP = 0.18                                                  # the space between boxes,
LANE = 0.3                                                  # the lane of a skip connection,
SIDE = 0.45                                                 # the space between columns,
WIDEST = 3.6                                                # and the width that a line of several notes may have
COLORS = {"attention": "#c3dcf4", "norm": "#fdf2a8", "feed-forward": "#c9ead0", "embedding": "#fbd9bd",
          "linear": "#e2d6f2", "block": "#ffffff", "other": "#f1f1f1"}


@dataclass
class Box:
    """What is drawn of a module. A box of kind "column" stacks several items; a box of kind "text" shows only its name.

    The items run from bottom to top. An item is a Box, a list of columns that stand side by side, or an integer: n > 0 is
    the sum of the item below and the value n items further down, -1 the sum of the columns below, and 0 their product. Two
    boxes that differ only in their names are equal, so that repeated blocks can be drawn once.
    """

    name: str = field(default="", compare=False)
    kind: str = "column"
    heading: str = ""                                       # the class and its options, written next to the name
    total: str = ""                                         # the number of parameters
    lines: list = field(default_factory=list)
    items: list = field(default_factory=list)
    times: int = field(default=1, compare=False)            # the number of equal neighbors that it stands for
    cross_attention: bool = False                           # an arrow from the encoder's output enters from the side
    unknown_flow: bool = False                              # how its items are connected is unknown


class Painter:
    """Draws boxes on axes whose unit is an inch. A "top" is the point (x, y) at which the next arrow starts."""

    def __init__(self, axes):
        self.axes = axes
        self.cross_attentions = []                          # the middle of the left edge of each

    def stack(self, box, x, y, width, tops=()):
        """Draws the items of a box upwards from y, connected to the tops of what lies below. Returns the new tops."""
        starts = []                                         # the height just below each item, where a skip can begin
        for item in box.items:
            starts.append(y - GAP / 2)
            height = item_size(item)[1]
            if isinstance(item, int):
                tops = [self.joint(x, y + height / 2, "+" if item else "×", tops)]
                if item > 0:
                    self.skip(starts[-1 - item], x, y + height / 2, width, height / 2)
            else:
                tops = self.row(item if isinstance(item, list) else [item], x, y, width, tops, box.unknown_flow)
            y += height + GAP
        return tops

    def skip(self, start, x, y, width, radius):
        """Draws a skip connection along the right-hand lane, from the height `start` to the sum at (x, y)."""
        lane = x + width / 2 + LANE / 2
        self.path((x, start), (lane, start), (lane, y), (x + radius, y))

    def row(self, boxes, x, y, width, below, unknown_flow):
        """Draws boxes side by side, `width` wide in total, each with a line from what lies below. Returns their tops."""
        spare = (width - item_size(boxes)[0]) / len(boxes)
        left = x - width / 2
        tops = []
        for box in boxes:
            box_width = box_size(box)[0] + spare
            middle = left + box_width / 2
            tops.append((middle, self.box(box, middle, y, box_width)))
            left += box_width + SIDE
        framed_stack = boxes[0].items and boxes[0].kind != "column"     # its own first item gets the arrowhead
        if unknown_flow:
            style = ":"
        else:
            style = "-" if framed_stack else "-|>"
        for start in below:
            if len(boxes) > len(below):                     # one value for several columns
                for end, _ in tops:
                    self.path(start, (start[0], y - GAP / 2), (end, y - GAP / 2), (end, y), style=style)
            else:
                self.path(start, (start[0], y), style=style)
        return tops

    def box(self, box, x, y, width):
        """Draws one box upwards from y. Returns the height of its upper edge."""
        height = box_size(box)[1]
        left = x - width / 2
        if box.kind == "column":
            return self.stack(box, x, y, width)[-1][1]
        if box.kind == "text":
            self.write(x, y + height / 2, box.name, style="italic")
            return y + height
        self.axes.add_patch(FancyBboxPatch((left, y), width, height, "round,pad=0,rounding_size=0.06", linewidth=1,
                                           facecolor=COLORS[box.kind], edgecolor="0.35"))
        if box.cross_attention:
            self.cross_attentions.append((left, y + height / 2))
        self.write_lines(box, left + EDGE, left + width - EDGE, y + height - EDGE / 2 - LINE / 2)
        if box.items:
            for top in self.stack(box, x, y + GAP, width - 2 * margin(box), [(x, y)]):
                self.path(top, (top[0], y + height), style=":" if box.unknown_flow else "-")
        return y + height

    def write_lines(self, box, left, right, y):
        self.write(left, y, box.name, ha="left", weight="bold")
        if not box.items:
            self.write(left + text_width(box.name, "bold") + EDGE * bool(box.name), y, box.heading, ha="left")
            self.write(right, y, box.total, ha="right")
            for n, line in enumerate(box.lines, 1):
                self.write(left, y - n * LINE, line, ha="left")
            return
        self.write(left, y - LINE, box.heading, ha="left")  # the middle stays free for the outgoing line
        if box.times > 1:
            self.write(right, y, f"× {box.times}", ha="right", weight="bold")
            self.write(right, y - LINE, f"{box.total} each", ha="right")
        else:
            self.write(right, y, box.total, ha="right")

    def joint(self, x, y, sign, below):
        """Draws a sum or a product, with an arrow from each top below. Returns its own top."""
        radius = item_size(1)[1] / 2
        for start_x, start_y in below:
            if abs(start_x - x) < radius:
                self.path((x, start_y), (x, y - radius))
            else:
                side = radius if start_x > x else -radius
                self.path((start_x, start_y), (start_x, y), (x + side, y))
        self.axes.add_patch(Circle((x, y), radius, facecolor="white", edgecolor="0.35", zorder=3))
        self.write(x, y, sign, weight="bold", zorder=4)
        return x, y + radius

    def memory(self, x, *way):
        """Draws an arrow to each cross-attention: through the points of `way`, up the vertical line at x, to the right."""
        for left, y in self.cross_attentions:
            self.path(*way, (x, y), (left, y))
        labels = [way[1]] if way else [(x, y) for _, y in self.cross_attentions]
        for label_x, label_y in labels:
            self.write(label_x + EDGE / 2, label_y + LINE * 0.6, "memory", ha="left")

    def path(self, *points, style="-|>"):
        self.axes.plot(*zip(*points), ":" if style == ":" else "-", color="0.35", linewidth=1.2, zorder=2)
        if style == "-|>":
            self.axes.annotate("", points[-1], points[-2], arrowprops={
                "arrowstyle": style, "color": "0.35", "shrinkA": 0, "shrinkB": 0, "mutation_scale": 11})

    def write(self, x, y, text, ha="center", **style):
        if text:
            self.axes.text(x, y, text, ha=ha, va="center_baseline", fontsize=FONT, **style)


def pack(notes):
    """The notes, joined into as few lines as fit the width WIDEST."""
    lines = []
    for note in notes:
        if lines and text_width(f"{lines[-1]};  {note}") < WIDEST:
            lines[-1] += f";  {note}"
        else:
            lines.append(note)
    return lines


def margin(box):
    """The space between the side of a box and its items: wider where skip connections need a lane."""
    return LANE if any(isinstance(item, int) for item in box.items) else 0.12


def box_size(box):
    """The width and height of a box with all its contents."""
    if not box.items:
        first_line = text_width(box.name, "bold") + EDGE + text_width(box.heading) + 2 * EDGE + text_width(box.total)
        widths = [first_line, *map(text_width, box.lines)]
        return max(widths) + 2 * EDGE, LINE * (1 + len(box.lines)) + EDGE
    sizes = [item_size(item) for item in box.items]
    width = max(w for w, _ in sizes)
    height = sum(h for _, h in sizes) + GAP * (len(sizes) - 1)
    if box.kind == "column":
        return width, height
    half = max(text_width(box.name, "bold"), text_width(box.heading), text_width(f"{box.total} each")) + 2 * EDGE
    text_lines = 2 if box.heading else 1
    return max(width + 2 * margin(box), 2 * half), height + 2 * GAP + LINE * text_lines + EDGE / 2


def item_size(item):
    """The width and height of an item of a box."""
    if isinstance(item, int):
        return 0.24, 0.24
    boxes = [box_size(box) for box in (item if isinstance(item, list) else [item])]
    return sum(width for width, _ in boxes) + SIDE * (len(boxes) - 1), max(height for _, height in boxes)


@functools.cache
def text_width(text, weight="normal"):
    """The width in inches. In a picture of pixels, letters are rounded to whole ones, and text is up to 2 % wider."""
    return 1.02 * TextPath((0, 0), text, FONT, prop=FontProperties(weight=weight)).get_extents().x1 / 72 if text else 0.0
