"""The document of a training step, which the page draws. FORMAT.md describes it."""

import base64

import numpy as np

from .formulas import formulas_of
from .graph import Graph
from .naming import spoken
from .recording import record_step
from .rerun import Rerun
from .sources import describe_class, lines_of_arrays, lines_of_attention


class Step:
    """One recorded step, with its graph and all arrays.

    Attributes:
        id, title : of the document
        tokens : as in FORMAT.md
        recording, graph : see recording.py and graph.py
        values, ops, groups : of the graph, dicts by id
        loss : a float
        arrays : {ref: array} with the refs of FORMAT.md, in float64; others may be added
    """

    def __init__(self, recording, tokens=None, title="", id="step-0"):
        self.id = id
        self.title = title or type(recording.model).__name__
        self.tokens = dict(tokens or {})
        self.recording = recording
        self.graph = Graph(recording)
        self.values = self.graph.values
        self.ops = self.graph.ops
        self.groups = self.graph.groups
        self.loss = recording.loss
        self.rerun = Rerun(recording)
        if "target" in self.tokens and "input:target" not in self.values:
            self.tokens.setdefault("targets", self.tokens["target"])
        self.arrays = {}
        for value in self.values.values():
            self.arrays[value.id] = value.array
            if value.gradient is not None:
                self.arrays[f"grad {value.id}"] = value.gradient
            if len(value.consumers) > 1:
                for (op, slot), contribution in value.contributions.items():
                    self.arrays[f"grad {value.id} via {op} {slot}"] = contribution

    def loss_with(self, value, index, step):
        """Returns the loss if `step` is added to the entry `index` of the value with this id."""
        return self.rerun.loss_with(self.values[value], index, step)

    def document(self, limit=None):
        """Returns the document as a dict that json can write.

        Parameters: limit : arrays with more entries come without their data; None: all come with it
        """
        formulas, ops = self.describe_ops()
        model = self.recording.model
        return {"format": "numpy-transformer-step", "version": 1, "id": self.id, "title": self.title,
                "model": {"class": type(model).__name__, "parameters": self.count_parameters()},
                "loss": self.loss, "tokens": self.tokens, "output": self.graph.outputs[0].id,
                "loss_value": self.graph.loss.id,
                "values": [describe_value(value) for value in self.values.values()],
                "ops": ops, "groups": [describe_group(group) for group in self.groups.values()],
                "steps": self.steps(), "classes": self.classes(), "formulas": formulas,
                "arrays": encode_arrays(self.arrays, limit),
                "attention": [], "predictions": None, "proof": None, "hands_on": None}

    def count_parameters(self):
        return sum(value.array.size for value in self.values.values() if value.parameter is not None)

    def steps(self):
        """Returns the order of the time line."""
        forward = list(self.ops.values())
        backward = [op for op in reversed(forward) if any(y.gradient is not None for y in op.outputs.values())]
        return [*({"phase": "forward", "op": op.id} for op in forward),
                *({"phase": "backward", "op": op.id} for op in backward), {"phase": "optimizer"}]

    def describe_ops(self):
        """Returns the formulas, each once, and the entries of all ops."""
        names = {}
        trees = {}
        entries = []
        for op in self.ops.values():
            entry = describe_op(op)
            entry["formulas"] = {}
            for target, formula in formulas_of(op).items():
                tree = formula.tree()
                key = repr(tree)
                if key not in names:
                    names[key] = f"f{len(names) + 1}"
                    trees[names[key]] = tree
                entry["formulas"][target] = names[key]
            entries.append(entry)
        return trees, entries

    def classes(self):
        """Returns what the panel shows of every class that was called."""
        functions = {}
        for call in self.recording.calls:
            functions.setdefault(type(call.module), set())
            for child in call.children:
                for file, _, first in child.lines.values():
                    functions[type(call.module)].add((file, first))
        return {cls.__name__: describe_class(cls, called_in) for cls, called_in in functions.items()}


def make_step(model, inputs, targets=None, criterion=None, *, tokens=None, title="", id="step-0"):
    """Records one training step and returns it as a Step. The parameters are those of record_step and of FORMAT.md."""
    return Step(record_step(model, inputs, targets, criterion), tokens, title, id)


def make_document(model, inputs, targets=None, criterion=None, *, limit=None, **options):
    """Records one training step and returns its document; see make_step and Step.document."""
    return make_step(model, inputs, targets, criterion, **options).document(limit)


def describe_value(value):
    entry = {"id": value.id, "title": spoken(value.title), "kind": value.kind, "shape": list(value.array.shape),
             "axes": value.axes, "producer": value.producer.id if value.producer is not None else None,
             "consumers": [{"op": op.id, "slot": slot} for op, slot in value.consumers],
             "has_gradient": value.gradient is not None, "nudge": value.handle is not None}
    if value.mismatch > 1e-9:
        entry["mismatch"] = value.mismatch
    return entry


def describe_op(op):
    entry = {"id": op.id, "name": op.name, "label": spoken(op.label), "class": op.class_name, "kind": op.kind,
             "parent": op.parent, "inputs": ids(op.inputs), "parameters": ids(op.parameters),
             "outputs": ids(op.outputs), "numbers": op.numbers, "lines": {},
             "called_at": {phase: line for phase, (_, line, _) in op.lines.items()}}
    called = entry["called_at"]
    if op.module is not None:
        lines = lines_of_arrays(type(op.module), tuple(op.inputs), tuple(op.parameters))
    elif op.kind in ("scores", "mask", "weighted sum"):
        lines = lines_of_attention(type(op.enclosing.module), op.kind)
        called = {"forward": lines.get("y"), "backward": lines.get("dk") or lines.get("dv") or called.get("backward")}
        entry["called_at"] = {phase: line for phase, line in called.items() if line is not None}
    else:
        lines = {f"d{slot}": called.get("backward") for slot in (*op.inputs, *op.parameters)}
        lines["y"] = called.get("forward")
    made = ["y", *(f"d{slot}" for slot, value in {**op.inputs, **op.parameters}.items()
                   if (op.id, slot) in value.contributions)]
    entry["lines"] = {name: lines[name] for name in made if lines.get(name) is not None}
    return entry


def describe_group(group):
    return {"id": group.id, "name": group.name, "label": spoken(group.label), "class": group.class_name,
            "parent": group.parent, "inputs": ids(group.inputs), "outputs": ids(group.outputs)}


def ids(values):
    return {name: value.id for name, value in values.items()}


def encode_arrays(arrays, limit=None):
    """Returns the document's "arrays"; equal arrays are written once, and those above the limit without their data."""
    written = {}
    entries = {}
    for ref, array in arrays.items():
        is_large = limit is not None and np.size(array) > limit
        as_written = in_format(array)
        data = id(array) if is_large else as_written.tobytes()
        key = (as_written.dtype, as_written.shape, data)
        if key in written:
            entries[ref] = {"same": written[key]}
            continue
        written[key] = ref
        entries[ref] = describe_array(as_written)
        if not is_large:
            entries[ref]["data"] = base64.b64encode(data).decode("ascii")
    return entries


def encode_array(array):
    """Returns one array as in FORMAT.md, with its data."""
    as_written = in_format(array)
    return {**describe_array(as_written), "data": base64.b64encode(as_written.tobytes()).decode("ascii")}


def in_format(array):
    """Returns an array in the dtype that the document holds."""
    array = np.asarray(array)
    dtypes = {"f": "<f4", "i": "<i4", "u": "u1" if array.dtype == np.uint8 else "<i4", "b": "?"}
    with np.errstate(over="ignore"):            # a float64 above the largest float32 becomes inf
        return np.ascontiguousarray(array, dtype=dtypes.get(array.dtype.kind, "<f4")).reshape(array.shape)


def describe_array(array):
    """Returns the entry of an array without its data."""
    is_finite = np.isfinite(array)
    finite = array if is_finite.all() else array[is_finite]
    return {"shape": list(array.shape), "dtype": array.dtype.name,
            "min": float(finite.min()) if finite.size else 0.0, "max": float(finite.max()) if finite.size else 0.0,
            "norm": float(f"{np.linalg.norm(finite.astype(np.float64)):.6g}"),
            "zeros": array.size - int(np.count_nonzero(array))}
