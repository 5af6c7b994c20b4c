"""What drawings consist of: boxes, arrays of cells, arrows forward and backward, sums, braces and notes.

The unit is an inch, y points up, and the position of a box or array is its center. The figure is cut to what was drawn.
"""

import math
from dataclasses import dataclass

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch, Polygon, Rectangle
from matplotlib.transforms import Bbox

from ...texts import Message, render
from .style import CELL, DARK, FAMILY, FONT, HEAD, LIGHT, MARGIN, SMALL, contrast


@dataclass(frozen=True)
class Area:
    """Where something was drawn. Its edges are points (x, y) at which arrows start and end."""

    x: float
    y: float
    width: float
    height: float
    rows: int = 1
    columns: int = 1

    left = property(lambda self: (self.x - self.width / 2, self.y))
    right = property(lambda self: (self.x + self.width / 2, self.y))
    top = property(lambda self: (self.x, self.y + self.height / 2))
    bottom = property(lambda self: (self.x, self.y - self.height / 2))

    def cell(self, row, column):
        """The Area of one cell of an array."""
        width, height = self.width / self.columns, self.height / self.rows
        return Area(self.left[0] + (column + 0.5) * width, self.top[1] - (row + 0.5) * height, width, height)

    def row(self, row):
        """The Area of one row of an array."""
        return Area(self.x, self.cell(row, 0).y, self.width, self.height / self.rows)


class Canvas:
    """Draws in one variant of the style, with the words of one drawing.

    Parameters:
        name : str, the section of the drawing in drawings.ini
        dark : bool, for a dark page
    """

    def __init__(self, name, dark=False):
        self.name = name
        self.theme = DARK if dark else LIGHT
        self.picture = Figure(figsize=(10, 10), facecolor=self.theme.background)
        self.axes = self.picture.add_axes((0, 0, 1, 1))
        self.axes.axis("off")
        self.axes.set(xlim=(0, 10), ylim=(0, 10))
        self.frame = None

    def word(self, key, **values):
        """Words of this drawing from drawings.ini. "| " begins a new line there."""
        return render(Message(f"drawings.{self.name}.{key}", **values)).replace("\n| ", "\n")

    def text(self, x, y, text, role="ink", bold=False, small=False, ha="center", va="center", rotation=0):
        size = SMALL if small else FONT
        if "\n" not in text and not rotation:               # the baseline does not depend on the letters
            y -= {"center": 0.36, "top": 0.76, "bottom": -0.24}[va] * size / 72
            va = "baseline"
        return self.axes.text(x, y, text, color=self.theme.color(role), fontsize=size, family=FAMILY, ha=ha, va=va,
                              weight="bold" if bold else "normal", rotation=rotation, linespacing=1.25,
                              math_fontfamily="dejavusans", zorder=5)

    def note(self, x, y, text, ha="center", va="center", role="muted"):
        """Small print."""
        return self.text(x, y, text, role, small=True, ha=ha, va=va)

    def box(self, x, y, width, height, text="", role="plain", strength=1.0, bold=False):
        """A box with rounded corners and a text in its middle."""
        self.axes.add_patch(FancyBboxPatch(
            (x - width / 2, y - height / 2), width, height, "round,pad=0,rounding_size=0.07", linewidth=1.2, zorder=2,
            facecolor=self.theme.fill(role, strength), edgecolor=self.theme.color(role)))
        if text:
            self.text(x, y, text, bold=bold)
        return Area(x, y, width, height)

    def panel(self, x, y, width, height, role="muted"):
        """A frame around several things, behind them."""
        self.axes.add_patch(FancyBboxPatch(
            (x - width / 2, y - height / 2), width, height, "round,pad=0,rounding_size=0.12", linewidth=1.2, zorder=0,
            facecolor=self.theme.fill(role, 0.4), edgecolor=self.theme.color(role)))
        return Area(x, y, width, height)

    def cells(self, x, y, rows, columns, role="plain", size=CELL, width=None, values=None, shades=None, roles=None):
        """An array as a grid.

        Parameters:
            size, width : the height of a cell, and its width (None: a square)
            values : rows of texts or numbers to write into the cells
            shades : rows of numbers from 0 to 1, how strong the color of each cell is
            roles : rows of roles, if cells differ; None in a place leaves it out
        """
        width = width or size
        area = Area(x, y, columns * width, rows * size, rows, columns)
        for i in range(rows):
            for j in range(columns):
                own = roles[i][j] if roles else role
                if own is None:
                    continue
                strength = 1.0 if shades is None else (0.04 + 0.76 * float(shades[i][j])) / self.theme.tint_of(own)
                cell, fill = area.cell(i, j), self.theme.fill(own, strength)
                self.axes.add_patch(Rectangle((cell.left[0], cell.bottom[1]), width, size, linewidth=1, zorder=2,
                                              facecolor=fill, edgecolor=self.theme.color(own)))
                if values is not None:
                    readable = max(("ink", "background"), key=lambda role: contrast(self.theme.color(role), fill))
                    self.text(cell.x, cell.y, str(values[i][j]), readable, small=True)
        return area

    def arrow(self, *points, role="ink", dashed=False, head=True, width=1.4):
        """An arrow along the points."""
        points = [tuple(map(float, point)) for point in points]
        color = self.theme.color(role)
        if head:
            (x0, y0), (x1, y1) = points[-2:]
            length = math.hypot(x1 - x0, y1 - y0)
            dx, dy = (x1 - x0) / length, (y1 - y0) / length
            base, half = (x1 - HEAD * dx, y1 - HEAD * dy), 0.4 * HEAD + 0.01 * width
            corners = [(x1, y1), (base[0] - half * dy, base[1] + half * dx), (base[0] + half * dy, base[1] - half * dx)]
            self.axes.add_patch(Polygon(corners, facecolor=color, edgecolor="none", zorder=4))
            points[-1] = base
        self.axes.plot(*zip(*points), linestyle=(0, (3.5, 2)) if dashed else "-", color=color, linewidth=width, zorder=3,
                       solid_capstyle="butt", dash_capstyle="butt")

    def back(self, *points, head=True, width=1.6):
        """A dashed arrow: the way of a gradient."""
        self.arrow(*points, role="gradient", dashed=True, head=head, width=width)

    def circle(self, x, y, sign="+", role="ink", radius=0.17):
        """A sum or another operation on what its arrows bring."""
        self.axes.add_patch(Circle((x, y), radius, facecolor=self.theme.background, edgecolor=self.theme.color(role),
                                   linewidth=1.4, zorder=4))
        if sign:
            self.text(x, y - 0.01, sign, role, bold=True)
        return Area(x, y, 2 * radius, 2 * radius)

    def dot(self, x, y, role="ink"):
        """Where a value is read without being changed."""
        self.axes.add_patch(Circle((x, y), 0.05, facecolor=self.theme.color(role), edgecolor="none", zorder=4))

    def brace(self, start, end, text, side, role="muted"):
        """A bracket from start to end, and its text if there is one, on the side "above", "below", "left" or "right"."""
        (x0, y0), (x1, y1) = start, end
        sign = 1 if side in ("above", "right") else -1
        if side in ("above", "below"):
            corners = [(x0, y0), (x0, y0 + 0.1 * sign), (x1, y1 + 0.1 * sign), (x1, y1)]
            place = (x0 + x1) / 2, y0 + 0.17 * sign, text, "center", "bottom" if sign > 0 else "top"
        else:
            corners = [(x0, y0), (x0 + 0.1 * sign, y0), (x1 + 0.1 * sign, y1), (x1, y1)]
            place = x0 + 0.2 * sign, (y0 + y1) / 2, text, "left" if sign > 0 else "right"
        if text:
            self.note(*place, role=role)
        self.arrow(*corners, role=role, head=False, width=1.1)

    def figure(self):
        """The figure, cut to what was drawn, or to self.frame = (left, bottom, right, top)."""
        renderer = FigureCanvasAgg(self.picture).get_renderer()
        inches = self.picture.dpi_scale_trans.inverted()
        drawn = [*self.axes.texts, *self.axes.patches, *self.axes.lines]
        whole = Bbox.union([artist.get_window_extent(renderer).transformed(inches) for artist in drawn]).padded(MARGIN)
        if self.frame:
            whole = Bbox([self.frame[:2], self.frame[2:]])
        self.axes.set(xlim=whole.intervalx, ylim=whole.intervaly)
        self.picture.set_size_inches(whole.size)
        return self.picture
