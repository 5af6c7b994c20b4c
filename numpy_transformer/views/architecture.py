"""Draws a model from its own modules: nested boxes with the inputs at the bottom, as in figure 1 of Vaswani et al. 2017."""

import inspect
import itertools
import re

from matplotlib.figure import Figure

from ..module import is_module, is_parameter, named_parts
from .boxes import FONT, GAP, SIDE, TITLE, Box, Painter, box_size, pack, text_width

COLOR_KINDS = {                                     # pattern in a class name -> key of boxes.COLORS
    "block": "block", "attention(?!decoder)": "attention", "linear|unembedding": "linear", "embedding|position": "embedding",
    "norm": "norm", "feedforward|swiglu|mlp|mixtureofexperts": "feed-forward"}
# left out of the list of parts in a box
UNLISTED = ("Dropout", "Softmax", "Identity", "ScaledDotProductAttention", "GroupedAttention", "RescaledAttention")
HEADS = [["query", "rotary"], ["key", "rotary"], ["value"]]
SIDE_BY_SIDE = {"MultiHeadAttention": HEADS, "SelfAttention": HEADS, "CrossAttention": HEADS,
                "LatentAttention": [["query", "rotary"], ["down", "norm", "up"], ["rotary_key", "rotary"]],
                "SwiGLU": [["gate", "activation"], ["up"]], "GatedSelfAttention": [["attention"], ["gate", "activation"]],
                "ParallelBlock": [["norm1", "attention"], ["norm2", "feed_forward"]]}
# how the columns meet: 0 in a product, -1 in a sum; 2 adds x
JOINED = {"SwiGLU": [0], "GatedSelfAttention": [0], "ParallelBlock": [-1, 2]}
FORKS = "GatedSelfAttention", "ParallelBlock"                           # one input is led to both columns
BLOCKS = ("Block", "CrossBlock")
PUBLIC_NAMES = {"CrossAttentionBlock": "DecoderBlock", "CrossAttentionDecoder": "Decoder"}      # the constructor's name
KNOWN_FORWARDS = (*SIDE_BY_SIDE, *BLOCKS, "FeedForward", "Stack", "CrossStack", "LanguageModel",
                  "Sequential", "NormedLinear", "PerHead", "EncoderDecoder", "TextEncoder", "SequenceClassifier",
                  "TokenClassifier", "MaskedLanguageModel", "Router", "SoftmaxRouter")
# what distinguishes parts of one class from each other
SETTINGS = ("window", "num_sinks", "cap", "factor", "base", "limit")


def architecture(model, title=None):
    """Draws the modules of a model as nested boxes, each with its name, class, shapes and number of parameters.

    Equal neighbors in a list are drawn once, marked "× N". The blocks of this package show their residual sums, and each
    norm at its true place. Attention and feed-forward layers are drawn as one box that lists their parts. Dropout and
    Identity are left out. How a forward method written elsewhere connects its parts is unknown, so those parts are drawn in
    the order of the attributes and connected by dotted lines.

    Parameters:
        model : Module
        title : str, or None for the class and the number of parameters of the model
    """
    column = ModelReader(model).read()
    width, height = box_size(column)
    title = title or f"{class_name(model)}: {model.num_parameters():,} parameters"
    figure = Figure()
    axes = figure.add_axes((0, 0, 1, 1))
    axes.axis("off")
    painter = Painter(axes)
    tops = painter.stack(column, 0, 0, width)
    if len(tops) > 1:                                       # an encoder beside a decoder
        x, top = tops[0]
        right = -width / 2 + box_size(column.items[0][0])[0] + SIDE / 2
        painter.memory(right, (x, top), (x, top + GAP), (right, top + GAP))
        margin = 0.1
    elif painter.cross_attentions:
        painter.memory(-width / 2 - 0.7)
        margin = 0.85
    else:
        margin = 0.35
    half = max(width / 2 + margin, TITLE / FONT * text_width(title, "bold") / 2 + 0.1)
    axes.text(0, height + 0.3, title, ha="center", va="center", fontsize=TITLE, weight="bold")
    axes.set(xlim=(-half, half), ylim=(-0.1, height + 0.5))
    figure.set_size_inches(2 * half, height + 0.6)
    return figure


class ModelReader:
    """Makes boxes from modules. A module or parameter that occurs again refers to its first name."""

    def __init__(self, model):
        self.model = model
        self.first_names = {id(part): name for name, part in [*model.named_modules(), *model.named_parameters()]}

    def read(self):
        """Returns the column of the model, from its inputs to its output."""
        inputs = required_inputs(self.model)
        items = self.items(self.model, "") or [self.box(self.model, "", "")]
        unknown_flow = has_unknown_flow(self.model) and len(items) > 1
        output = Box("logits" if inputs[-1] in ("ids", "target") else "y", "text")
        if len(inputs) > 1 and {"encoder", "decoder"} <= {key for key, _ in parts(self.model)}:
            items = [encoder_beside_decoder(items, output)]
        else:
            items.append(output)
        if not isinstance(items[0], list) or forward_class(self.model) in FORKS:
            return Box(items=[Box(", ".join(inputs), "text"), *items], unknown_flow=unknown_flow)
        for n, column in enumerate(items[0]):               # side by side: an input below each, repeated if there are fewer
            column.items.insert(0, Box(inputs[min(n, len(inputs) - 1)], "text"))
            column.unknown_flow = unknown_flow
        return Box(items=items)

    def items(self, module, name):
        """The contents of a module's box, from bottom to top."""
        inside = [(key, part) for key, part in parts(module) if not is_a(part, "Dropout") and not is_a(part, "Identity")]
        if not any(is_module(part) for _, part in inside) or is_a(module, "MixtureOfExperts"):
            return []
        boxes = {key: self.box(part, f"{name}.{key}".lstrip("."), key) for key, part in inside}
        if forward_class(module) in BLOCKS:
            return residual_items(boxes, module.pre_norm)
        columns = SIDE_BY_SIDE.get(forward_class(module))
        if not columns:
            return merge_equal_neighbors(boxes.values())
        row = [Box(items=[boxes[key] for key in column if key in boxes]) for column in columns]
        joint = JOINED.get(forward_class(module), [])
        rest = [box for key, box in boxes.items() if key not in itertools.chain(*columns)]
        return [row, *joint, *rest]

    def box(self, part, name, key):
        """The box of the module or parameter with the dotted name `name`, held by the attribute `key`."""
        box = Box(key, color_kind(part), cross_attention=is_a(part, "CrossAttention"))
        box.heading = ", ".join([class_name(part), *options(part)])
        first = self.first_names.get(id(part), name)
        below = parameters_below(part)
        own = [p for p in below if not name or f"{self.first_names[id(p)]}.".startswith(f"{name}.")]
        if own:
            box.total = f"{sum(p.data.size for p in own):,}"
        listed_only = box.kind in ("attention", "feed-forward") or not is_module(part)
        if first != name and below:
            box.lines = [f"same as {first or 'the model'}"]
        elif first == name != "" and not listed_only:
            box.items = self.items(part, name)
            box.unknown_flow = has_unknown_flow(part)
        if not box.items and not box.lines:
            notes = [f"shares {self.first_names[id(p)]}" for p in below if p not in own]
            box.lines = [*expert_lines(part), *pack(notes)] if is_a(part, "MixtureOfExperts") else pack(shapes(part) + notes)
        return box


def required_inputs(model):
    """The names of forward's positional arguments without a default, `self` left out; ["x"] if there are none."""
    signature = inspect.signature(type(model).forward).parameters
    names = [name for name, p in signature.items() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    return names[1:] or ["x"]


def encoder_beside_decoder(items, output):
    """Two columns: what belongs to the encoder by its name, and the rest with the output."""
    encoder, decoder = Box(), Box()
    for item in items:
        column = encoder if re.match("enc|source|src", item.name) else decoder
        column.items.append(item)
    decoder.items.append(output)
    return [encoder, decoder]


def parts(module):
    """(name, module or parameter) of its attributes in their order; items of a list are name.0, name.1, ..."""
    def walk(name, part):
        if isinstance(part, (list, tuple)):
            for n, item in enumerate(part):
                yield from walk(f"{name}.{n}", item)
        elif is_module(part) or is_parameter(part):
            yield name, part

    return [pair for key, part in vars(module).items() if not key.startswith("_") for pair in walk(key, part)]


def parameters_below(part):
    """The parameters of a module and of all its submodules, each once."""
    return [inner for _, inner in named_parts(part) if is_parameter(inner)]


def is_a(part, name):
    """Returns True if one of the part's classes has this name."""
    return any(base.__name__ == name for base in type(part).__mro__)


def forward_class(part):
    """The name of the class that defines the part's forward. A subclass with its own forward may connect its parts
    differently.
    """
    forward = getattr(type(part), "forward", None)
    return getattr(forward, "__qualname__", "").split(".")[-2:][0]


def has_unknown_flow(part):
    """Returns True if the parts may not be applied one after the other, as far as this module can tell."""
    adds_segments = getattr(part, "segments", None) is not None     # their embedding is added beside the chain
    return forward_class(part) not in KNOWN_FORWARDS or adds_segments


def class_name(part):
    name = type(part).__name__
    name = PUBLIC_NAMES.get(name, name)
    if forward_class(part) not in BLOCKS:
        return name
    if is_a(part.norm1, "Identity") and is_a(part.norm2, "Identity"):
        normed = is_a(getattr(part.attention, "output", None), "NormedLinear")
        return f"{name}, {'norm after each sublayer' if normed else 'without norms'}"
    return f"{name}, {'pre-norm' if part.pre_norm else 'post-norm'}"


def color_kind(part):
    for base in type(part).__mro__:
        for pattern, kind in COLOR_KINDS.items():
            if re.search(pattern, base.__name__.lower()):
                return kind
    return "other"


def options(part):
    """Settings that neither the class nor the shapes show."""
    heads = getattr(part, "num_heads", None)
    kv_heads = getattr(part, "num_kv_heads", None)
    factor = getattr(part, "factor", 1) if hasattr(part, "weight") else 1       # of an embedding
    notes = []
    if heads:
        notes.append(counted(heads, "head"))
    if kv_heads not in (None, heads):
        notes.append(counted(kv_heads, "key/value head"))
    if factor > 1:
        notes.append(f"scaled by √{round(factor ** 2)}")
    elif factor < 1:
        notes.append(f"scaled by 1/√{round(factor ** -2)}")
    return notes + ([] if parameters_below(part) else settings(part))


def counted(number, noun):
    return f"{number:,} {noun}{'s' * (number != 1)}"


def settings(part):
    """What distinguishes a part without a matrix from others of its class, such as "window 4" or "base 10,000"."""
    values = {name: getattr(part, name) for name in SETTINGS if isinstance(getattr(part, name, None), (int, float))}
    notes = [f"{name.replace('num_', '')} {readable(value)}" for name, value in values.items()]
    rotary = getattr(part, "rotary", None)
    if is_a(part, "PartialRotary"):
        notes.append(f"{rotary.d_head} of {counted(part.d_head, 'feature')}")
    if is_a(part, "RotaryEmbedding") and part.base is None:
        notes.append("scaled frequencies")
    return notes + (settings(rotary) if is_a(part, "PartialRotary") or is_a(part, "ScaledRotary") else [])


def readable(number):
    """10000.0 -> "10,000", 1.34657 -> "1.35"."""
    return f"{number:,.0f}" if number == round(number) else f"{number:.3g}"


def shapes(part):
    """The classes of the parts without a matrix, followed by the matrices with their names."""
    if is_parameter(part):
        return [str(part.data.shape)]
    matrices = {}
    norms = {}
    others = [f"fixed table {part.table.shape}"] if hasattr(part, "table") else []
    for key, inner in listed_parts(part):
        if is_a(inner, "NormedLinear"):
            norms.setdefault(norm_name(inner.norm), []).append(key)
        named_matrices = [(name, p) for name, p in named_parts(inner) if is_parameter(p) and p.data.ndim > 1]
        if named_matrices:
            name, matrix = named_matrices[0]
            without_bias = getattr(inner, "bias", vars(part).get("bias", 0)) is None
            shape = f"{matrix.data.shape}{', no bias' if without_bias else ''}"
            holder = name.split(".")[-2] if "." in name else key        # the bias inside an attention inside a block
            holder = key if is_a(inner, "NormedLinear") else holder
            matrices.setdefault(shape, []).append(holder)
        elif is_module(inner) and type(inner).__name__ not in UNLISTED:
            others.append(", ".join([type(inner).__name__, *settings(inner)]))
    others += [f"{name} of {', '.join(keys)}" for name, keys in norms.items()]
    return others + [shape if keys == ["weight"] else f"{', '.join(keys)} {shape}" for shape, keys in matrices.items()]


def expert_lines(mixture):
    """What a mixture of experts consists of: its router, its experts, of which equal neighbors are counted, and the shared one."""
    router = mixture.router
    chooser = getattr(router, "router", router)                 # inside of a BalancedRouter
    classes = " of a ".join(class_name(part) for part in dict.fromkeys([router, chooser]))
    lines = pack([f"router: {classes}, {getattr(chooser, 'top_k', '?')} of {router.num_experts}", *shapes(chooser)])
    experts = [(", ".join([class_name(expert), *settings(expert)]), tuple(shapes(expert)), expert.num_parameters())
               for expert in mixture.experts]
    for (name, notes, count), equal in itertools.groupby(experts):
        number = len(list(equal))
        lines += pack([f"{number} × {name}, {count:,}" + " each" * (number > 1), *notes])
    if mixture.shared is not None:
        lines += pack([f"shared: {class_name(mixture.shared)}", *shapes(mixture.shared)])
    return lines


def listed_parts(part):
    """(name, module or parameter) of a part's attributes. In place of an attention of several heads in it come its own parts.
    After an attention of q, k and v come its score changes. The parts of a Sequential are named by their places: query.0.
    """
    for key, inner in parts(part):
        if is_a(inner, "MultiHeadAttention"):
            yield from listed_parts(inner)
        elif is_a(inner, "Sequential"):
            yield from ((key + name.removeprefix("parts"), item) for name, item in parts(inner))
        else:
            yield key, inner
            yield from parts(inner) if is_a(inner, "ScaledDotProductAttention") else ()


def norm_name(norm):
    """The class of a norm, or "RMSNorm per head"."""
    return f"{class_name(norm.norm)} per head" if is_a(norm, "PerHead") else class_name(norm)


def residual_items(boxes, pre_norm):
    """Attention, cross-attention if there is one, and feed-forward, each with its norm, if it has one, and its residual sum."""
    items = []
    sublayers = [key for key in ("attention", "cross_attention", "feed_forward") if key in boxes]
    for n, key in enumerate(sublayers, 1):
        norm = [boxes[f"norm{n}"]] if f"norm{n}" in boxes else []
        if pre_norm:
            items += [*norm, boxes[key], 1 + len(norm)]
        else:
            items += [boxes[key], 1, *norm]
    return items


def merge_equal_neighbors(boxes):
    """The boxes, where equal neighbors from one list are merged into one box that counts them."""
    merged = []
    for box in boxes:
        stem, _, number = box.name.rpartition(".")
        if stem and merged and merged[-1] == box and merged[-1].name.startswith(f"{stem}."):
            merged[-1].times += 1
            merged[-1].name = f"{merged[-1].name.partition('-')[0]}-{number}"
        else:
            merged.append(box)
    return merged
