"""Names of the axes of all values, and which tokens label them."""

from ..layers import Embedding, LearnedPositionalEmbedding, SinkSoftmax, Unembedding


def axes_of_inputs(values):
    """Sets the axes of the model's inputs. Tokens of the first sequence are "source", of another one "target"."""
    ids = [value for value in values if value.array.dtype.kind in "iu"]
    for value in values:
        array = value.array
        tokens = "target" if value.id.partition(":")[2] in ("target", "targets") else "source"
        is_like_ids = any(other.array.shape == array.shape for other in ids)
        if array.dtype.kind == "f":
            axes = float_axes(array.ndim)
        elif value.id.partition(":")[2] == "positions":
            axes = [{"name": "batch"}, {"name": "position"}]
        elif array.dtype.kind == "b" and not is_like_ids:
            axes = mask_axes(array.ndim)
        else:
            axes = [{"name": "batch"}, {"name": "token", "tokens": tokens}]
        value.axes = complete(axes, array.ndim)


def axes_of_targets(axes):
    """Returns the axes of the targets, whose tokens are labeled by "targets"."""
    return [dict(axis, tokens="targets") if "tokens" in axis else axis for axis in axes]


def float_axes(ndim):
    names = ["batch", "head", "token", "feature"]
    if ndim == 3:
        names.remove("head")
    return [{"name": name} for name in names[-ndim:]] if ndim else []


def mask_axes(ndim):
    return [{"name": name} for name in ("batch", "head", "query", "key")[-ndim:]]


def axes_of_constant(value):
    """Returns the axes of a constant, from the first op that uses it: a mask has those of the scores."""
    shape = value.array.shape
    op = value.consumers[0][0] if value.consumers else None
    if value.axes:
        return value.axes
    if op is not None and op.kind == "scores" and len(shape) <= op.outputs["y"].array.ndim:
        axes = op.outputs["y"].axes[-len(shape):]
    elif len(shape) == 4 and value.array.dtype.kind == "b":
        axes = mask_axes(4)
    elif value.array.dtype.kind == "f":
        axes = float_axes(len(shape)) if len(shape) < 5 else []
    else:
        axes = op.outputs["y"].axes[:len(shape)] if op is not None else []
        if len(axes) == len(shape) and any(axis["name"] == "feature" for axis in axes):
            axes = [{"name": "batch"}, {"name": "token"}][-len(shape):]
    axes = [{"name": axis["name"]} if size == 1 else axis for axis, size in zip(axes, shape)]
    return complete(axes, len(shape))


def complete(axes, ndim):
    """Returns the last ndim axes, with others in front if there are too few."""
    return [{"name": f"axis {axis}"} for axis in range(ndim - len(axes))] + list(axes[max(len(axes) - ndim, 0):])


def axes_like(array, values):
    """Returns the axes of an input that is like an array of ids, or [] without one."""
    for value in values:
        if value.kind == "input" and value.array.shape == array.shape and array.dtype.kind in "iu":
            return value.axes
    return []


def axes_of_output(op, value):
    """Returns the axes of an output, from those of the op's inputs."""
    floats = [x for x in op.inputs.values() if x.array.dtype.kind == "f"]
    x = (floats or list(op.inputs.values()) or [None])[0]
    if x is None:
        return complete(float_axes(value.array.ndim), value.array.ndim)
    shape = value.array.shape
    if op.kind == "scores":
        q, k = op.inputs["q"], op.inputs["k"]
        axes = [*q.axes[:-2], dict(q.axes[-2], name="query"), dict(k.axes[-2], name="key")]
    elif op.kind == "weighted sum":
        axes = [*op.inputs["p"].axes[:-2], dict(op.inputs["p"].axes[-2], name="token"), {"name": "feature"}]
    elif op.label == "split heads":
        axes = [*x.axes[:-2], {"name": "head"}, x.axes[-2], {"name": "feature"}]
    elif op.label == "merge heads":
        axes = [*x.axes[:-3], x.axes[-2], {"name": "feature"}]
    elif op.label == "separate heads":
        axes = [*x.axes[:-1], {"name": "head"}, {"name": "feature"}]
    elif op.label == "join heads":
        axes = [*x.axes[:-2], {"name": "feature"}]
    elif op.kind == "select" and "positions" in op.inputs:
        axes = [*op.inputs["positions"].axes, x.axes[-1]]
    elif shape in [other.array.shape for other in floats]:
        axes = next(other.axes for other in floats if other.array.shape == shape)
    elif not floats:
        axes = [*x.axes, {"name": "feature"}]                           # an embedding of ids
    elif shape[:-1] == x.array.shape[:-1]:
        axes = [*x.axes[:-1], {"name": "feature"}]
    elif op.kind == "reshape" and shape == x.array.shape[:-1]:
        axes = x.axes[:-1]                                              # logits[..., 0]
    elif shape == x.array.shape[:-2] + x.array.shape[-1:]:
        axes = [*x.axes[:-2], x.axes[-1]]                               # a mean over tokens
    elif shape == x.array.shape[:-1]:
        axes = x.axes[:-1]
    else:
        axes = float_axes(len(shape)) if len(shape) < 5 else []
    return complete(list(axes), len(shape)) if len(axes) != len(shape) else list(axes)


def finish_axes(graph, logits):
    """Names the last axis of the logits "vocabulary" or "class"."""
    if not logits.axes or logits.axes[-1].get("name") != "feature":
        return
    sizes = [value.array.shape[0] for value in graph.values.values() if value.parameter is not None
             and any(isinstance(op.module, Embedding) for op, _ in value.consumers)]
    last = {"name": "vocabulary"} if logits.array.shape[-1] in sizes else {"name": "class"}
    values = [logits]
    while values:
        value = values.pop()
        value.axes = [*value.axes[:-1], last]
        if value.producer is not None and value.producer.kind == "add":
            values.extend(value.producer.inputs.values())


def axes_of_parameter(value):
    """Returns the axes of a parameter, from the first op that uses it."""
    op = value.consumers[0][0] if value.consumers else None
    names = []
    if op is not None and op.outputs["y"].axes:
        last = op.outputs["y"].axes[-1]["name"]
        if isinstance(op.module, SinkSoftmax):
            names = ["head"]
        elif value.array.ndim == 1:
            names = [last]
        elif isinstance(op.module, (Embedding, Unembedding)):
            names = [vocabulary_of(value), "feature"]
        elif isinstance(op.module, LearnedPositionalEmbedding):
            names = ["position", "feature"]
        elif value.array.ndim == 2:
            names = ["input feature", "output feature" if last == "feature" else last]
    return complete([{"name": name} for name in names], value.array.ndim)


def vocabulary_of(parameter):
    """Returns the name of an embedding's first axis; the source of an encoder-decoder has a vocabulary of its own."""
    uses = [op.inputs["ids"] for op, _ in parameter.consumers if "ids" in op.inputs]
    tokens = [axis.get("tokens") for value in uses for axis in value.axes if "tokens" in axis]
    is_shared = len(parameter.consumers) > 1
    names = [value.id.partition(":")[2] for value in uses]
    if is_shared or names != ["source"] or tokens != ["source"]:
        return "vocabulary"
    return "source vocabulary"
