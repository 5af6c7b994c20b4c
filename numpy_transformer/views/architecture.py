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

FONT, TITLE = 11, 13                                        # points; the lengths are inches:
LINE, EDGE, GAP, LANE, SIDE = 0.185, 0.1, 0.18, 0.3, 0.45   # of text, around it, between boxes, for skips, columns
WIDEST = 3.6                                                # of a line that holds several notes
COLOURS = {"attention": "#c3dcf4", "norm": "#fdf2a8", "feed-forward": "#c9ead0", "embedding": "#fbd9bd",
           "linear": "#e2d6f2", "block": "#ffffff", "other": "#f1f1f1"}
KINDS = {"block": "block", "attention": "attention", "linear|unembedding": "linear", "embedding|position": "embedding",
         "norm": "norm", "feedforward|swiglu|mlp": "feed-forward"}      # by what stands in the name of a class
IMPLIED = ("Dropout", "Softmax", "ScaledDotProductAttention")           # not listed among the parts of a box
HEADS = [["query", "rotary"], ["key", "rotary"], ["value"]]
SIDE_BY_SIDE = {"MultiHeadAttention": HEADS, "SelfAttention": HEADS, "CrossAttention": HEADS,
                "SwiGLU": [["gate", "silu"], ["up"]]}
BLOCKS = ("EncoderBlock", "DecoderBlock")
KNOWN = (*SIDE_BY_SIDE, *BLOCKS, "FeedForward", "Encoder", "Decoder", "CausalLanguageModel", "EncoderDecoder")


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


def architecture(model, title=None):
    """The parts of a model as nested boxes: each with its name, its class, shapes and the number of its parameters.

    Equal neighbours in a list are drawn once, "× N". The blocks of this package show their residual sums and each norm
    in its true place; attention and feed-forward are one box that lists their parts; Dropout is left out. Nothing tells
    how a forward written elsewhere joins its parts: they stand in the order of the attributes, joined by dots.

    Parameters: model : Module; title : str or None (its class and the number of its parameters)
    """
    column = Reader(model).whole()
    width, height = measure(column)
    title = title or f"{class_name(model)}: {model.num_parameters():,} parameters"
    figure = Figure()
    axes = figure.add_axes((0, 0, 1, 1))
    axes.axis("off")
    painter = Painter(axes)
    ends = painter.stack(column, 0, 0, width)
    if len(ends) > 1:                                       # encoder and decoder
        (x, top), right = ends[0], -width / 2 + measure(column.items[0][0])[0] + SIDE / 2
        painter.memory(right, (x, top), (x, top + GAP), (right, top + GAP))
    else:
        painter.memory(-width / 2 - 0.7)
    beside = 0.1 if len(ends) > 1 else 0.85 if painter.attending else 0.35
    half = max(width / 2 + beside, TITLE / FONT * text_width(title, "bold") / 2 + 0.1)
    axes.text(0, height + 0.3, title, ha="center", va="center", fontsize=TITLE, weight="bold")
    axes.set(xlim=(-half, half), ylim=(-0.1, height + 0.5))
    figure.set_size_inches(2 * half, height + 0.6)
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
        items = self.items(self.model, "") or [self.box(self.model, "", "")]
        loose = is_loose(self.model) and len(items) > 1
        output = Box("logits" if names[-1] in ("ids", "target") else "y", "text")
        if len(names) > 1 and {"encoder", "decoder"} <= {key for key, _ in parts(self.model)}:
            left, right = [], []
            for item in items:
                (left if re.match("enc|source|src", item.name) else right).append(item)
            items = [[Box(items=left), Box(items=[*right, output])]]
        else:
            items.append(output)
        if not isinstance(items[0], list):
            return Box(items=[Box(", ".join(names), "text"), *items], loose=loose)
        for n, column in enumerate(items[0]):               # one input each, the last one for the rest
            column.items.insert(0, Box(names[min(n, len(names) - 1)], "text"))
            column.loose = loose
        return Box(items=items)

    def items(self, module, name):
        """What stands inside a module, from below."""
        inside = [(key, part) for key, part in parts(module) if not is_a(part, "Dropout")]
        if not any(is_module(part) for _, part in inside):
            return []
        boxes = {key: self.box(part, f"{name}.{key}".lstrip("."), key) for key, part in inside}
        if author(module) in BLOCKS:
            return residual_items(boxes, module.pre_norm)
        columns = SIDE_BY_SIDE.get(author(module))
        if not columns:
            return once(boxes.values())
        row = [Box(items=[boxes[key] for key in column if key in boxes]) for column in columns]
        rest = [box for key, box in boxes.items() if key not in itertools.chain(*columns)]
        return [row, *([0] if author(module) == "SwiGLU" else []), *rest]

    def box(self, part, name, key):
        """The box of a module or parameter with this dotted name, which the attribute `key` holds."""
        box, first = Box(key, kind(part), memory=is_a(part, "CrossAttention")), self.first.get(id(part), name)
        box.heading = ", ".join([class_name(part), *options(part)])
        below = parameters_below(part)
        own = [p for p in below if not name or f"{self.first[id(p)]}.".startswith(f"{name}.")]
        box.total = f"{sum(p.data.size for p in own):,}" if own else ""
        if first != name and below:
            box.lines = [f"the same as {first or 'the whole'}"]
        elif first == name != "" and box.kind not in ("attention", "feed-forward") and is_module(part):
            box.items, box.loose = self.items(part, name), is_loose(part)
        if not box.items and not box.lines:
            box.lines = pack(shapes(part) + [f"shares {self.first[id(p)]}" for p in below if p not in own])
        return box


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
    return not isinstance(part, type) and all(hasattr(part, name) for name in ("__dict__", "forward", "backward"))


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


def author(part):
    """The name of the class that wrote its forward: a subclass with a forward of its own joins the parts otherwise."""
    return getattr(getattr(type(part), "forward", None), "__qualname__", "").split(".")[-2:][0]


def is_loose(part):
    return author(part) not in KNOWN


def class_name(part):
    norm = (", pre-norm" if part.pre_norm else ", post-norm") if author(part) in BLOCKS else ""
    return type(part).__name__ + norm


def kind(part):
    for known in type(part).__mro__:
        for names, found in KINDS.items():
            if re.search(names, known.__name__.lower()):
                return found
    return "other"


def options(part):
    """What neither class nor shapes tell."""
    heads, groups = getattr(part, "num_heads", None), getattr(part, "num_kv_heads", None)
    notes = [f"{heads} heads"] * bool(heads) + [f"{groups} of keys and values"] * (groups not in (None, heads))
    return notes + [f"times √{round(part.factor ** 2)}" for _ in "1" if getattr(part, "factor", 1) != 1]


def shapes(part):
    """The classes of the parts that have no matrix, then the matrices by name."""
    if is_parameter(part):
        return [str(part.data.shape)]
    matrices, others = {}, [f"fixed {part.table.shape}"] if hasattr(part, "table") else []
    for key, inner in parts(part):
        matrix = next((p for p in parameters_below(inner) if p.data.ndim > 1), None)
        if matrix is not None:
            bare = ", no bias" if getattr(inner, "bias", vars(part).get("bias", 0)) is None else ""
            matrices.setdefault(f"{matrix.data.shape}{bare}", []).append(key)
        elif is_module(inner) and type(inner).__name__ not in IMPLIED:
            others.append(type(inner).__name__)
    return others + [shape if keys == ["weight"] else f"{', '.join(keys)} {shape}" for shape, keys in matrices.items()]


def pack(notes):
    """The notes in few lines."""
    lines = []
    for note in notes:
        if lines and text_width(f"{lines[-1]};  {note}") < WIDEST:
            lines[-1] += f";  {note}"
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
        if stem and merged and merged[-1] == box and merged[-1].name.startswith(f"{stem}."):
            merged[-1].times += 1
            merged[-1].name = f"{merged[-1].name.partition('-')[0]}-{number}"
        else:
            merged.append(box)
    return merged


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
