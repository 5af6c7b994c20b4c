"""What a step predicts: attention, probabilities, the loss of each target, and what every block would predict already."""

import numpy as np

from ..layers import BinaryCrossEntropyLoss, CrossEntropyLoss, LogSoftmax, SinkSoftmax, Softmax, ZLoss
from ..models import LanguageModel, EncoderDecoder, MaskedLanguageModel, SequenceClassifier, TokenClassifier
from .naming import spoken
from .wording import sentence

KINDS = ((LanguageModel, "next token", "vocabulary"), (EncoderDecoder, "next token", "vocabulary"),
         (MaskedLanguageModel, "masked word", "vocabulary"), (TokenClassifier, "tag", "classes"),
         (SequenceClassifier, "class", "classes"))


def add(step, example=None):
    """Returns ({"attention": ..., "predictions": ...}, {ref: array}): entries of the document, and arrays that they name.

    Parameters: step : Step of document.py
    """
    predictions, arrays = predictions_of(step)
    return {"attention": attention_of(step), "predictions": predictions}, arrays


def attention_of(step):
    """Returns the entry "attention": one for each attention whose weights are seen."""
    entries = []
    for op in step.ops.values():
        if op.kind != "scores":
            continue
        *changes, softmax = ops_to_softmax(op) or [None]
        if softmax is None or op.outputs["y"].array.ndim != 4:
            continue
        query, key = (axis.get("tokens") for axis in op.outputs["y"].axes[-2:])
        mask = next((one.inputs["mask"] for one in changes if "mask" in one.inputs), None)
        entries.append({"group": op.parent, "title": title_of(op.parent), "weights": softmax.outputs["y"].id,
                        "scores": softmax.inputs["x"].id, "mask": None if mask is None else mask.id, "query": query, "key": key,
                        "sink": isinstance(softmax.module, SinkSoftmax)})
    return entries


def ops_to_softmax(op):
    """Returns the ops from the product of queries and keys to the softmax, in order, such as a soft cap and the mask between the two;
    None if they lead to none."""
    path = [op]
    while not isinstance(path[-1].module, (Softmax, SinkSoftmax)):
        following = [consumer for consumer, _ in path[-1].outputs["y"].consumers
                     if consumer.outputs["y"].array.shape == op.outputs["y"].array.shape]
        if not following:
            return None
        path.append(following[0])
    return path


def title_of(group):
    """Returns the name of an attention in words: "decoder block 0, cross-attention"."""
    parts = group.partition("@")[0].split(".")
    names = {"attention": "self-attention", "cross_attention": "cross-attention"}
    if parts[-1] == "attention" and len(parts) > 1:
        parts.pop()                             # the attention of the heads, inside the layer
    place = []
    for part in parts[:-1]:
        place.append("block" if part == "blocks" else part)
    return spoken(", ".join(filter(None, [" ".join(place), names.get(parts[-1], parts[-1])])))


def predictions_of(step):
    """Returns the entry "predictions", or None for a model or a loss without one; and its arrays."""
    recording = step.recording
    model, criterion = recording.model, recording.criterion
    kind_and_labels = next((entry for cls, *entry in KINDS if isinstance(model, cls)), None)
    if kind_and_labels is None or not isinstance(criterion, (CrossEntropyLoss, BinaryCrossEntropyLoss, ZLoss)):
        return None, {}
    logits = step.graph.outputs[0]
    kind, labels = kind_and_labels
    arrays = {"losses": losses_of(logits.array, recording.targets, criterion)}
    lens = []
    for title, array in what_each_block_predicts(step, model):
        if array.shape == logits.array.shape:
            ref = f"lens {len(lens)}"
            lens.append({"title": title, "ref": ref})
            arrays[ref] = array
    return {"kind": kind, "logits": logits.id, "targets": "loss:targets", "labels": labels, "losses": "losses",
            "lens": lens}, arrays


def losses_of(logits, targets, criterion):
    """Returns the loss of each target, in the shape of the targets; NaN for targets that are not counted.

    The loss of the step is their mean. They are computed here once more, apart from the criterion.
    """
    targets = np.asarray(targets)
    if isinstance(criterion, BinaryCrossEntropyLoss):
        return np.logaddexp(0, logits) - targets * logits
    if isinstance(criterion, ZLoss):
        log_z = logits[..., 0] - LogSoftmax().eval()(logits)[..., 0]
        return losses_of(logits, targets, criterion.criterion) + criterion.coefficient * log_z ** 2
    counted = np.ones(targets.shape, bool)
    if criterion.ignore_id is not None:
        counted = targets != criterion.ignore_id
    log_p = LogSoftmax().eval()(logits)
    chosen = np.take_along_axis(log_p, np.where(counted, targets, 0)[..., None], -1)[..., 0]
    smoothing = criterion.label_smoothing
    losses = -(1 - smoothing) * chosen
    if smoothing:
        losses = losses - smoothing * log_p.mean(-1)
    return np.where(counted, losses, np.nan)


def what_each_block_predicts(step, model):
    """Yields (title, logits): the final norm and the output applied to the residual stream after each block.

    Blocks with post-norm end with a norm of their own, and their stack has no other: the output is applied directly.
    """
    name = "decoder" if isinstance(model, (LanguageModel, EncoderDecoder)) else "encoder"
    stack = getattr(model, name)
    groups = [step.groups.get(f"{name}.blocks.{i}") for i in range(len(stack.blocks))]
    if None in groups:
        return
    streams = [(sentence("step.lens.before", block=0), groups[0].inputs["x"])]
    streams += [(sentence("step.lens.after", block=i), group.outputs["y"]) for i, group in enumerate(groups)]
    for title, value in streams:
        x = value.array
        x = x if stack.norm is None else stack.norm(x)
        yield title, output_of(model, x, step.recording.inputs)


def output_of(model, x, inputs):
    """Returns the logits that the model computes from the output x of its last stack."""
    if isinstance(model, MaskedLanguageModel):
        if len(inputs) > 3 and inputs[3] is not None:                       # logits at some positions only
            x = np.take_along_axis(x, np.asarray(inputs[3])[..., None], -2)
        return model.output(model.norm(model.activation(model.transform(x)))) + model.bias.data
    if isinstance(model, SequenceClassifier):
        x = model.pool(x, model.token_mask(*inputs[:2]))
        logits = model.output(model.activation(model.hidden(x)))
        return logits[..., 0] if logits.shape[-1] == 1 else logits
    return model.output(x)
