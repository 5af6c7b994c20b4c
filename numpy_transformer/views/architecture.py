"""A model drawn from its own modules: nested boxes, inputs below, as in figure 1 of Vaswani et al. 2017."""

import functools
import inspect
import itertools
import re
from dataclasses import dataclass, field

from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Circle, FancyBboxPatch
from matplotlib.textpath import TextPath

FONT = 11                                                   # points; the lengths are inches:
LINE, EDGE, GAP, LANE, SIDE = 0.19, 0.1, 0.2, 0.3, 0.5      # of text, around it, between boxes, for skips, columns
COLOURS = {"attention": "#c3dcf4", "norm": "#fdf2a8", "feed-forward": "#c9ead0", "embedding": "#fbd9bd",
           "linear": "#e2d6f2", "block": "#ffffff", "other": "#f1f1f1"}
LEFT_OUT, WIDEST = ("Dropout", "Softmax", "ScaledDotProductAttention"), 3.3
KINDS = {"block": "block", "linear|unembedding": "linear", "embedding|position": "embedding", "norm": "norm",
         "attention": "attention", "feedforward|feed_forward|swiglu|mlp": "feed-forward"}       # by class names
SIDE_BY_SIDE = {"MultiHeadAttention": [["query", "rotary"], ["key", "rotary"], ["value"]],
                "SwiGLU": [["gate", "silu"], ["up"]]}


@dataclass
class Box:
    """What is drawn of a module; of kind "column", several things one above the other; of kind "text", its name.

    items, from below: a Box; a list of them side by side; a number: n the sum of what lies just below and what lay n
    items lower, 0 a product. Blocks that differ in their names alone are equal, and drawn once.
    """

    name: str = field(default="", compare=False)
    kind: str = "column"
    heading: str = ""
    total: str = ""
    lines: list = field(default_factory=list)
    items: list = field(default_factory=list)
    times: int = field(default=1, compare=False)


def architecture(model, title=None):
    """The parts of a model as nested boxes: each with its name, its class, shapes and the number of its parameters.

    Equal neighbours in a list are drawn once, "× N". The blocks of this package show their residual sums and each norm
    in its true place; attention and feed-forward are one box that lists their parts; Dropout is left out. Nothing tells
    how the forward of an unknown class joins its parts: they stand in the order of its attributes.

    Parameters: model : Module; title : str or None (its class and the number of its parameters)
    """
    column = Reader(model).whole()
    width, height = measure(column)
    title = title or f"{class_name(model)}: {model.num_parameters():,} parameters"
    across = max(width + (0.4 if isinstance(column.items[0][0], Box) and column.items[0][0].kind == "column" else 2), 13 / FONT * text_width(title, "bold") + 0.4)
    figure = Figure(figsize=(across, height + 0.8))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, across), ylim=(0, height + 0.8))
    axes.axis("off")
    axes.text(across / 2, height + 0.55, title, ha="center", va="center", fontsize=13, weight="bold")
    Painter(axes).whole(column, across / 2, 0.15, width)
    return figure


class Reader:
    """Boxes from modules. A module or a parameter that was met before points to its first name."""

    def __init__(self, model):
        self.model = model
        self.first = {id(part): name for name, part in [*model.named_modules(), *model.named_parameters()]}

    def whole(self):
        """The column of the model, between its inputs and its output."""
        names = [name for name, p in inspect.signature(type(self.model).forward).parameters.items()
                 if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD][1:] or ["x"]
        inputs = [Box(name, "text") for name in names]
        items = self.items(self.model, "") or [self.box(self.model, "", "")]
        output = Box("logits" if names[-1] in ("ids", "target") else "y", "text")
        if len(names) == 2 and {"encoder", "decoder"} <= {key for key, _ in parts(self.model)}:
            left = [item for item in items if re.match("enc|source|src", item.name)]
            right = [item for item in items if not re.match("enc|source|src", item.name)]
            return Box(items=[[Box(items=[inputs[0], *left]), Box(items=[inputs[1], *right, output])]])
        if isinstance(items[0], list):                      # one input for each, the last one for the rest
            inputs += [Box(names[-1], "text") for _ in items[0][len(names):]]
        return Box(items=[inputs, *items, output])

    def items(self, module, name):
        """What stands inside a module, from below."""
        boxes = {key: self.box(part, f"{name}.{key}".lstrip("."), key) for key, part in parts(module)
                 if not is_a(part, "Dropout")}
        if is_block(module):
            return residual_items(boxes, module.pre_norm)
        for known, columns in SIDE_BY_SIDE.items():
            if is_a(module, known):
                row = [Box(items=[boxes[key] for key in column if key in boxes]) for column in columns]
                rest = [box for key, box in boxes.items() if key not in itertools.chain(*columns)]
                return [row, *([0] if known == "SwiGLU" else []), *rest]
        return once(boxes.values())

    def box(self, part, name, key):
        box, seen = Box(key, kind(part), class_name(part)), self.first[id(part)]
        if seen != name and parameters_below(part):
            box.lines = [f"the same as {seen}"]
            return box
        if seen == name and name and box.kind in ("block", "other") and is_module(part):
            box.items = self.items(part, name)
        mine = [p for p in parameters_below(part) if f"{self.first[id(p)]}.".startswith(f"{name}." if name else "")]
        box.total = f"{sum(p.data.size for p in mine):,}" if mine else ""
        if not box.items:
            shared = [f"shares {self.first[id(p)]}" for p in parameters_below(part) if p not in mine]
            box.lines = pack(options(part) + shapes(part) + shared)
        return box


class Painter:
    """Boxes on axes whose unit is an inch."""

    def __init__(self, axes):
        self.axes, self.attending = axes, []                # the left ends of cross-attention

    def whole(self, column, x, y, width):
        ends = self.stack(column.items, x, y, width)
        if isinstance(column.items[0], list) and column.items[0][0].kind == "column":       # encoder and decoder
            (start, top), gutter = ends[0], x - width / 2 + measure(column.items[0][0])[0] + SIDE / 2
            for left, middle in self.attending:
                self.path([(start, top), (start, top + GAP), (gutter, top + GAP), (gutter, middle), (left, middle)])
            if self.attending:
                self.write(start + 0.1, top + GAP + 0.12, "memory", ha="left")
            return
        for left, middle in self.attending:
            self.path([(x - width / 2 - 0.7, middle), (left, middle)])
            self.write(x - width / 2 - 0.1, middle + 0.12, "memory", ha="right")

    def stack(self, items, x, y, width, ends=()):
        """The items upwards from y, with arrows from the ends of what lies below; the ends above."""
        floors = []
        for item in items:
            floors.append(y - GAP / 2)
            height = item_size(item)[1]
            if isinstance(item, int):
                ends = [self.joint(x, y + height / 2, "+" if item else "×", ends)]
                if item:
                    far, low = x + width / 2 + LANE / 2, floors[-1 - item]
                    self.path([(x, low), (far, low), (far, y + height / 2), (x + height / 2, y + height / 2)])
            else:
                ends = self.row(item if isinstance(item, list) else [item], x, y, width, ends)
            y += height + GAP
        return ends

    def row(self, boxes, x, y, width, below):
        spare = (width - item_size(boxes)[0]) / len(boxes)
        left, ends = x - width / 2, []
        for box in boxes:
            wide = measure(box)[0] + spare
            ends.append((left + wide / 2, self.paint(box, left + wide / 2, y, wide)))
            left += wide + SIDE
        for n in range(max(len(ends), len(below)) if below else 0):
            start, end = below[min(n, len(below) - 1)], ends[min(n, len(ends) - 1)]
            across = start[0] if len(below) > len(ends) else end[0]
            opened = boxes[min(n, len(ends) - 1)].items and boxes[0].kind != "column"
            self.path([(across, start[1]), (across, y)], "-" if opened else "-|>")
        return ends

    def paint(self, box, x, y, width):
        """The box upwards from y; its upper end."""
        height = measure(box)[1]
        if box.kind == "column":
            return self.stack(box.items, x, y, width)[-1][1]
        if box.kind == "text":
            self.write(x, y + height / 2, box.name, style="italic")
            return y + height
        corner = (x - width / 2, y)
        self.axes.add_patch(FancyBboxPatch(corner, width, height, "round,pad=0,rounding_size=0.06", linewidth=1,
                                           facecolor=COLOURS[box.kind], edgecolor="0.35"))
        if "CrossAttention" in box.heading:
            self.attending.append((corner[0], y + height / 2))
        if not box.items:
            self.write_lines(box, corner[0], y + height, width)
            return y + height
        for n, (left, right) in enumerate(headers(box)):
            line, weight = y + height - EDGE / 2 - LINE * (n + 0.5), "normal" if n else "bold"
            self.write(corner[0] + EDGE, line, left, ha="left", weight=weight)
            self.write(corner[0] + width - EDGE, line, right, ha="right", weight=weight)
        for end in self.stack(box.items, x, y + GAP, width - 2 * margin(box), [(x, y)]):
            self.path([end, (end[0], y + height)], "-")
        return y + height

    def write_lines(self, box, left, top, width):
        line = top - EDGE / 2 - LINE / 2
        self.write(left + EDGE, line, box.name, ha="left", weight="bold")
        self.write(left + EDGE + text_width(box.name, "bold") + 0.1 * bool(box.name), line, box.heading, ha="left")
        self.write(left + width - EDGE, line, box.total, ha="right")
        for n, text in enumerate(box.lines, 1):
            self.write(left + EDGE, line - n * LINE, text, ha="left")

    def joint(self, x, y, sign, below):
        radius = item_size(1)[1] / 2
        for across, top in below:
            straight = abs(across - x) < 1e-9
            self.path([(across, top), (x, y - radius)] if straight else
                      [(across, top), (across, y), (x + (radius if across > x else -radius), y)])
        self.axes.add_patch(Circle((x, y), radius, facecolor="white", edgecolor="0.35", zorder=3))
        self.write(x, y, sign, weight="bold", zorder=4)
        return x, y + radius

    def path(self, points, style="-|>"):
        *start, last, end = points
        self.axes.plot(*zip(*start, last, end), color="0.35", linewidth=1.2, solid_joinstyle="round", zorder=2)
        if style != "-":
            self.axes.annotate("", end, last, arrowprops={"arrowstyle": style, "color": "0.35", "linewidth": 1.2,
                                                          "shrinkA": 0, "shrinkB": 0, "mutation_scale": 11})

    def write(self, x, y, text, ha="center", **style):
        self.axes.text(x, y, text, ha=ha, va="center_baseline", fontsize=FONT, **style)


def parts(module):
    """(name, module or parameter) of its attributes in their order; items of a list as name.0, name.1."""
    def walk(name, part):
        if isinstance(part, (list, tuple)):
            for n, item in enumerate(part):
                yield from walk(f"{name}.{n}", item)
        elif is_module(part) or is_parameter(part):
            yield name, part

    return [pair for key, part in vars(module).items() if not key.startswith("_") for pair in walk(key, part)]


def is_module(part):
    return not isinstance(part, type) and hasattr(part, "forward") and hasattr(part, "backward")


def is_parameter(part):
    return not isinstance(part, type) and not is_module(part) and hasattr(part, "grad") and hasattr(part, "data")


def parameters_below(part):
    """The parameters of a module and of the modules in it, each once."""
    found, todo, seen = [], [part], set()
    while todo:
        part = todo.pop(0)
        if id(part) not in seen:
            seen.add(id(part))
            found += [part] * is_parameter(part)
            todo += [inner for _, inner in parts(part)] if is_module(part) else []
    return found


def is_a(part, name):
    return any(known.__name__ == name for known in type(part).__mro__)


def is_block(module):
    """Whether its forward is that of the package's blocks: a subclass with another forward joins its parts otherwise."""
    forward = getattr(type(module), "forward", None)
    return getattr(forward, "__qualname__", "") in ("EncoderBlock.forward", "DecoderBlock.forward")


def class_name(module):
    norm = (", pre-norm" if module.pre_norm else ", post-norm") if is_block(module) else ""
    return type(module).__name__ + norm


def kind(part):
    for known in type(part).__mro__:
        for names, found in KINDS.items():
            if re.search(names, known.__name__.lower()):
                return found
    return "other"


def options(part):
    """What shapes do not tell."""
    notes, heads, groups = [], getattr(part, "num_heads", None), getattr(part, "num_kv_heads", None)
    if heads:
        notes.append(f"{heads} heads" + (f", {groups} of keys and values" if groups not in (None, heads) else ""))
    if getattr(part, "factor", 1) != 1:
        notes.append(f"√{round(part.factor ** 2)} times")
    if hasattr(part, "table"):
        notes.append(f"fixed {part.table.shape}")
    return notes


def shapes(part):
    """The matrices of a part by name, and the classes of what has none."""
    matrices, others = {}, []
    for key, inner in parts(part):
        matrix = next((p for p in parameters_below(inner) if p.data.ndim > 1), None)
        if matrix is not None:
            bare = ", no bias" if getattr(inner, "bias", vars(part).get("bias", 0)) is None else ""
            matrices.setdefault(f"{matrix.data.shape}{bare}", []).append(key)
        elif is_module(inner) and type(inner).__name__ not in LEFT_OUT:
            others.append(type(inner).__name__)
    return others + [f"{', '.join(keys)} {shape}" if keys != ["weight"] else shape for shape, keys in matrices.items()]


def pack(notes):
    """As few lines as hold them."""
    lines = []
    for note in notes:
        if lines and text_width(joined := f"{lines[-1]};  {note}") < WIDEST:
            lines[-1] = joined
        else:
            lines.append(note)
    return lines


def residual_items(boxes, pre_norm):
    """Attention, cross-attention if there is one, and feed-forward, each in a residual sum with its norm."""
    items = []
    for n, key in enumerate((key for key in ("attention", "cross_attention", "feed_forward") if key in boxes), 1):
        items += [boxes[f"norm{n}"], boxes[key], 2] if pre_norm else [boxes[key], 1, boxes[f"norm{n}"]]
    return items


def once(boxes):
    """The boxes, equal neighbours of one list drawn once."""
    merged = []
    for box in boxes:
        stem, _, number = box.name.rpartition(".")
        if number.isdigit() and merged and merged[-1] == box and merged[-1].name.startswith(f"{stem}."):
            merged[-1].times += 1
            merged[-1].name = f"{merged[-1].name.partition('-')[0]}-{number}"
        else:
            merged.append(box)
    return merged


def headers(box):
    """Two lines over the parts of a box: (left, right)."""
    each = " each" if box.times > 1 else ""
    return [(box.name, f"× {box.times}" if each else ""), (box.heading, f"{box.total}{each}")]


def margin(box):
    return LANE if any(isinstance(item, int) for item in box.items) else 0.12


def measure(box):
    """Width and height of a box with all that is in it."""
    if not box.items:
        first = text_width(box.name, "bold") + 0.1 + text_width(box.heading) + 0.2 + text_width(box.total)
        return max(first, *map(text_width, box.lines), 0) + 2 * EDGE, LINE * (1 + len(box.lines)) + EDGE
    sizes = [item_size(item) for item in box.items]
    width, height = max(w for w, _ in sizes), sum(h for _, h in sizes) + GAP * (len(sizes) - 1)
    if box.kind == "column":
        return width, height
    half = max(text_width(text, "bold") for pair in headers(box) for text in pair) + 0.2
    return max(width + 2 * margin(box), 2 * half), height + 2 * GAP + 2 * LINE + EDGE / 2


def item_size(item):
    if isinstance(item, int):
        return 0.24, 0.24
    boxes = [measure(box) for box in (item if isinstance(item, list) else [item])]
    return sum(width for width, _ in boxes) + SIDE * (len(boxes) - 1), max(height for _, height in boxes)


@functools.cache
def text_width(text, weight="normal"):
    return TextPath((0, 0), text, FONT, prop=FontProperties(weight=weight)).get_extents().x1 / 72 if text else 0.0
