"""What a reader changes in the explorer: a list of edits, applied to a copy of the model. FORMAT.md lists them.

The list is always applied to the model as it was trained, so that undo is the same list without its last edit.
"""

import copy
import difflib
import math
from dataclasses import dataclass

import numpy as np

from ..layers import MultiHeadAttention
from ..layers.blocks import Block
from ..module import Module
from ..training import SGD, Adam
from . import switches
from .possibilities import bugs_of, sublayers_of
from .wording import sentence

OPTIMIZERS = {"sgd": SGD, "adam": Adam}
FIELDS = {"text": {"text", "target"}, "weight": {"value", "index", "number"},
          "off": {"what", "group", "head", "sublayer"}, "bug": {"name"}, "step": {"optimizer", "lr"}, "model": {"name"}}


@dataclass
class Edited:
    """A copy of an example's model after a list of edits, with what it reads.

    Attributes:
        model, criterion : copies, in float64
        inputs, targets, tokens : as Example.read returns them
        text, target : the latest text and target; None: the default of the example
        optimizer : the one of the latest step, as long as steps follow one another
        moved, losses : of the latest steps: how far each parameter moved in the last one, the loss before each of them
        loss_before : the loss before the latest edit, or None without edits
    """

    model: Module
    criterion: Module
    inputs: tuple
    targets: np.ndarray
    tokens: dict
    text: str = None
    target: str = None
    optimizer: object = None
    moved: tuple = ()
    losses: tuple = ()
    loss_before: float = None
    hands_on: dict = None

    def loss(self):
        """Returns the loss of one forward. Raises ValueError if it is not finite."""
        with np.errstate(all="ignore"):
            loss = float(self.criterion.eval()(self.model.eval()(*self.inputs), self.targets))
        if not math.isfinite(loss):
            raise ValueError(sentence("errors.edits.loss", loss=loss))
        return loss


def apply_edits(example, edits=()):
    """Returns the Edited of an Example. Raises ValueError with one sentence for an edit that is not possible."""
    edited = unedited(example)
    loss = None
    for number, edit in enumerate(edits):
        kind = kind_of_edit(edit)
        if number == len(edits) - 1:
            loss = edited.loss()
        if kind != "step":
            edited.optimizer, edited.losses = None, ()
        EDITS[kind](example, edited, edit)
        edited.loss()                           # refuses an edit after which it is not finite
    edited.loss_before = loss
    edited.hands_on = hands_on_entry(example, edited, edits)
    return edited


def unedited(example):
    """Returns the Edited of an Example without edits."""
    model, criterion = copy.deepcopy((example.model, example.criterion))
    if isinstance(model, Module):
        model.astype(np.float64)
    return Edited(model, criterion, *example.read())


def kind_of_edit(edit):
    """Returns the kind of an edit. Raises ValueError unless it is a dict with the fields of its kind."""
    kind = edit.get("kind") if isinstance(edit, dict) else None
    if not isinstance(kind, str) or kind not in FIELDS:
        raise ValueError(sentence("errors.edits.kind", kinds=', '.join(FIELDS), given=shown(kind)))
    unknown = sorted(map(str, set(edit) - FIELDS[kind] - {"kind"}))
    if unknown:
        raise ValueError(sentence("errors.edits.field", given=kind, unknown=shown(unknown[0]),
                               fields=', '.join(sorted(FIELDS[kind]))))
    return kind


def edit_text(example, edited, edit):
    """Reads another text, or the default text with another target."""
    text, target = edit.get("text"), edit.get("target")
    edited.inputs, edited.targets, edited.tokens = example.read(text, target)
    edited.text, edited.target = text, target


def edit_weight(example, edited, edit):
    """Sets one entry of a parameter."""
    parameters = dict(edited.model.named_parameters())
    name = edit.get("value")
    if not isinstance(name, str) or name not in parameters:
        raise ValueError(sentence("errors.edits.parameter", name=shown(name), similar=similar(name, parameters)))
    data = parameters[name].data
    index = edit.get("index")
    is_index = isinstance(index, (list, tuple)) and len(index) == data.ndim and all(type(i) is int for i in index)
    if not is_index or not all(0 <= i < size for i, size in zip(index, data.shape)):
        raise ValueError(sentence("errors.edits.entry", index=shown(index), name=name, shape=data.shape))
    data[tuple(index)] = check_number(edit.get("number"), "weight", 1e6)


def edit_off(example, edited, edit):
    """Switches a part off."""
    what = edit.get("what")
    if not isinstance(what, str) or what not in PARTS:
        raise ValueError(sentence("errors.edits.off", parts=', '.join(PARTS), what=shown(what)))
    parts = {name: part for name, part in edited.model.named_modules() if isinstance(part, PARTS[what])}
    group = edit.get("group")
    name = group.partition("@")[0] if isinstance(group, str) else group         # another call of the same part
    if isinstance(name, str) and name not in parts:
        name = name.removesuffix(".attention")              # the attention of the heads inside it
    if not isinstance(name, str) or name not in parts:
        raise ValueError(sentence(f"errors.edits.{'block' if PARTS[what] is Block else 'attention'}", group=shown(group),
                                  similar=similar(group, parts)))
    check_allowed = {"head": check_head, "residual": check_residual}.get(what)
    argument = check_allowed(parts[name], edit) if check_allowed else ()
    SWITCHES[what](parts[name], *argument)


def check_head(part, edit):
    head = edit.get("head")
    if type(head) is not int or not 0 <= head < part.num_heads:
        raise ValueError(sentence("errors.edits.head", head=shown(head), last=part.num_heads - 1))
    return (head,)


def check_residual(block, edit):
    sublayer = edit.get("sublayer")
    sublayers = sublayers_of(block)
    if sublayer not in sublayers:
        raise ValueError(sentence("errors.edits.sublayer", sublayer=shown(sublayer), sublayers=', '.join(sublayers)))
    replaced = next((cls for cls in type(block).__mro__ if cls.__module__.startswith(f"{ZOO}.")), None)
    if replaced is not None:
        raise ValueError(sentence("errors.edits.residual_of_bug"))
    return (sublayer,)


def edit_model(example, edited, edit):
    """Takes another model for the same text: the variant of this name, as it was trained. Earlier changes are those of the other."""
    name = edit.get("name")
    if not isinstance(name, str) or name not in example.variants:
        raise ValueError(sentence("errors.edits.model", name=shown(name), similar=similar(name, example.variants)))
    edited.model = copy.deepcopy(example.variant(name)).astype(np.float64)


def edit_bug(example, edited, edit):
    """Plants a bug of the zoo in the model or in the loss."""
    from .. import zoo

    bugs = bugs_of(edited.model, edited.criterion)
    name = edit.get("name")
    if not isinstance(name, str) or name not in bugs:
        raise ValueError(sentence("errors.edits.bug", name=shown(name), similar=similar(name, bugs)))
    bug, place = bugs[name]
    blocks = [part for _, part in edited.model.named_modules() if isinstance(part, switches.SwitchedBlock)]
    if bug.target is Block and any(block.skip is None for block in blocks):
        raise ValueError(sentence("errors.edits.bug_of_residual", name=name))
    zoo.apply(bug, place)
    edited.model.eval(remember=True)            # try it: some bugs need other shapes
    edited.criterion.eval(remember=True)
    try:
        gradients_of(edited)
    except (ValueError, IndexError, TypeError, RuntimeError) as error:
        raise ValueError(sentence("errors.edits.bug_stops", name=name, error=error)) from error


def edit_step(example, edited, edit):
    """Takes one step of an optimizer; Adam keeps its means while steps follow one another."""
    name = edit.get("optimizer")
    if not isinstance(name, str) or name not in OPTIMIZERS:
        raise ValueError(sentence("errors.edits.optimizer", optimizers=' or '.join(OPTIMIZERS), name=shown(name)))
    lr = check_number(edit.get("lr"), "lr", 1e3)
    if lr < 0:
        raise ValueError(sentence("errors.edits.uphill", lr=lr))
    if type(edited.optimizer) is not OPTIMIZERS[name]:
        edited.optimizer = OPTIMIZERS[name](edited.model.parameters(), lr)
        edited.losses = ()
    edited.optimizer.lr = lr
    before = edited.model.state_dict()
    with np.errstate(all="ignore"):
        edited.losses = (*edited.losses, gradients_of(edited))
        edited.optimizer.step()
    edited.moved = tuple(movements(edited.model, before))


def gradients_of(edited):
    """Computes the gradients as the recorded step does, without dropout; returns the loss."""
    model, criterion = edited.model, edited.criterion
    model.eval(remember=True).zero_grad()
    criterion.eval(remember=True)
    with np.errstate(all="ignore"):
        loss = float(criterion(model(*edited.inputs), edited.targets))
        model.backward(criterion.backward())
    return loss


def movements(model, before):
    """Yields how far each parameter has moved, the largest movement first."""
    rows = []
    for name, parameter in model.named_parameters():
        change = parameter.data - before[name]
        index = np.unravel_index(np.abs(change).argmax(), change.shape)
        norm, weight = float(np.linalg.norm(change)), float(np.linalg.norm(before[name]))
        rows.append({"value": name, "title": name, "norm": norm, "relative": norm / weight if weight else 0.0,
                     "largest": float(change[index]), "index": [int(i) for i in index]})
    return sorted(rows, key=lambda row: -row["norm"])


def hands_on_entry(example, edited, edits):
    """Returns the entry "hands_on" of the document."""
    shown_text = example.text if edited.text is None else edited.text
    shown_target = example.target if edited.text is None and edited.target is None else edited.target
    return {"edits": [dict(edit) for edit in edits], "text": shown_text, "target": shown_target or "",
            "moved": list(edited.moved), "losses": list(edited.losses), "loss_before": edited.loss_before}


def check_number(number, what, largest):
    """Returns a number as a float. Raises ValueError unless it is finite and not too large."""
    is_number = isinstance(number, (int, float)) and not isinstance(number, bool)
    if not is_number or not math.isfinite(number) or abs(number) > largest:
        raise ValueError(sentence(f"errors.edits.{what}", number=shown(number), largest=largest))
    return float(number)


def similar(name, names):
    """Returns "; similar names: ..." for a name that does not exist, or the first names."""
    close = difflib.get_close_matches(str(name), list(names), 3, 0.4) or list(names)[:3]
    return sentence("errors.edits.similar", names=", ".join(close)) if close else sentence("errors.edits.none")


def shown(value):
    """Returns a value from a request as text of bounded length."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


ZOO = f"{__package__.rpartition('.')[0]}.zoo"
EDITS = {"text": edit_text, "model": edit_model, "weight": edit_weight, "off": edit_off, "bug": edit_bug, "step": edit_step}
PARTS = {"head": MultiHeadAttention, "mask": MultiHeadAttention, "scale": MultiHeadAttention, "block": Block,
         "residual": Block}
SWITCHES = {"head": switches.switch_head_off, "mask": switches.switch_mask_off, "scale": switches.switch_scale_off,
            "block": switches.switch_block_off, "residual": switches.switch_residual_off}
