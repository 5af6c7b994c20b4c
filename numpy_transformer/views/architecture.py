"""A model drawn from its own modules: nested boxes, inputs below, as in figure 1 of Vaswani et al. 2017."""

import inspect
import itertools
import re

from matplotlib.figure import Figure

from ..module import is_module, is_parameter, named_parts
from .boxes import FONT, GAP, SIDE, TITLE, Box, Painter, measure, pack, text_width

KINDS = {"block": "block", "attention(?!decoder)": "attention", "linear|unembedding": "linear", "embedding|position": "embedding",
         "norm": "norm", "feedforward|swiglu|mlp": "feed-forward"}      # by what stands in the name of a class
IMPLIED = ("Dropout", "Softmax", "ScaledDotProductAttention")           # not listed among the parts of a box
HEADS = [["query", "rotary"], ["key", "rotary"], ["value"]]
SIDE_BY_SIDE = {"MultiHeadAttention": HEADS, "SelfAttention": HEADS, "CrossAttention": HEADS,
                "SwiGLU": [["gate", "silu"], ["up"]]}
BLOCKS = ("EncoderBlock", "DecoderBlock", "CrossAttentionBlock")
SHOWN_AS = {"CrossAttentionBlock": "DecoderBlock", "CrossAttentionDecoder": "Decoder"}  # the names that one calls
KNOWN = (*SIDE_BY_SIDE, *BLOCKS, "FeedForward", "Encoder", "Decoder", "CrossAttentionDecoder", "CausalLanguageModel",
         "EncoderDecoder", "TextEncoder", "SequenceClassifier", "TokenClassifier")


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


def parts(module):
    """(name, module or parameter) of its attributes in their order; items of a list as name.0, name.1."""
    def walk(name, part):
        if isinstance(part, (list, tuple)):
            for n, item in enumerate(part):
                yield from walk(f"{name}.{n}", item)
        elif is_module(part) or is_parameter(part):
            yield name, part

    return [pair for key, part in vars(module).items() if not key.startswith("_") for pair in walk(key, part)]


def parameters_below(part):
    """The parameters of a module and of the modules in it, each once."""
    return [inner for _, inner in named_parts(part) if is_parameter(inner)]


def is_a(part, name):
    return any(known.__name__ == name for known in type(part).__mro__)


def author(part):
    """The name of the class that wrote its forward: a subclass with a forward of its own joins the parts otherwise."""
    return getattr(getattr(type(part), "forward", None), "__qualname__", "").split(".")[-2:][0]


def is_loose(part):
    return author(part) not in KNOWN or getattr(part, "segments", None) is not None     # which join beside the chain


def class_name(part):
    norm = (", pre-norm" if part.pre_norm else ", post-norm") if author(part) in BLOCKS else ""
    name = type(part).__name__
    return SHOWN_AS.get(name, name) + norm


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
