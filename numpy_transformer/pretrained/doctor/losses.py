"""The loss of a text: for each kind of model a task that needs no labels, and the loss of each of its tokens."""

import math

import numpy as np

from ...models.decoder import CausalLanguageModel
from ...models.encoder_decoder import EncoderDecoder
from ...models.encoder_heads import MaskedLanguageModel

IGNORE = -1                             # a target that is not counted
LEAST = 8                               # tokens, and different ones; fewer tell nothing
WINDOW = 128                            # tokens that a model reads at a time
EVERY = 7                               # each row hides one of 7 tokens, and 7 rows all of them
SPAN = 3                                # T5 hides spans of three tokens, 15 % of a text
TEMPERATURES = 1.0, 0.8, 0.65, 0.5, 0.35, 0.2, 0.1, 0.05, 0.0


class Task:
    """What a model is asked to predict, as batches (inputs, targets), and a name for it in a sentence."""

    def __init__(self, name, batches):
        self.name = name
        self.batches = batches
        self.num_tokens = sum(np.count_nonzero(targets != IGNORE) for _, targets in batches)


def make_task(model, ids, mask_id=None, special_ids=(), sentinels=(), start_id=None, end_id=None, target=None,
              tokens=256):
    """Returns the Task of a model on the ids of a text, or None for a model without a language head.

    Raises: ValueError if the text is too short, or if a masked language model gets no mask_id.
    """
    if not isinstance(model, (CausalLanguageModel, MaskedLanguageModel, EncoderDecoder)):
        return None
    ids = np.ravel(ids)
    if len(np.unique(ids)) < LEAST:
        raise ValueError(f"the text has {len(ids)} tokens, {len(np.unique(ids))} of them different, but a check needs at "
                         f"least {LEAST} different ones, and better 100 tokens; give a longer text")
    if isinstance(model, CausalLanguageModel):
        return next_tokens(ids[:tokens + 1], min(model.max_len, WINDOW))
    if isinstance(model, MaskedLanguageModel):
        if mask_id is None:
            raise ValueError("a masked language model is checked by masking tokens; give mask_id, the id of [MASK]")
        return masked_tokens(cut(ids, min(model.max_len, WINDOW)), mask_id, special_ids)
    start_id = model.pad_id if start_id is None else start_id
    longest = getattr(model.target_positions, "max_len", WINDOW)
    ids = cut(ids, min(longest - 1, WINDOW))
    if target is None and len(sentinels) > 1:
        return hidden_spans(ids, sentinels, start_id, end_id)
    copied = target is None
    return given_target(ids, ids if copied else np.ravel(target)[:longest - 1], start_id, copied)


def cut(ids, length):
    """Returns at most `length` ids; the last one, which ends a text, stays."""
    return ids if len(ids) <= length else np.append(ids[:length - 1], ids[-1])


def next_tokens(ids, length):
    """Each token but the first is predicted from those before it, in windows of equal length."""
    batches = []
    number = len(ids) - 1
    length = math.ceil(number / math.ceil(number / length))
    for start in range(0, number, length):
        window = ids[start:start + length + 1]
        if len(window) > 1:
            batches.append(((window[None, :-1],), window[None, 1:]))
    return Task("the next token", batches)


def masked_tokens(ids, mask_id, special_ids):
    """Row r masks the ordinary tokens r, r + 7, r + 14, ..., so that each is masked in one row."""
    ordinary = np.flatnonzero(~np.isin(ids, [mask_id, *special_ids]))
    rows = np.tile(ids, (min(EVERY, len(ordinary)), 1))
    targets = np.full(rows.shape, IGNORE)
    for row in range(len(rows)):
        masked = ordinary[row::EVERY]
        targets[row, masked] = ids[masked]
        rows[row, masked] = mask_id
    return Task("masked tokens", [((rows,), targets)])


def hidden_spans(ids, sentinels, start_id, end_id):
    """T5's task: spans of three tokens are replaced by sentinels, and the target lists sentinels and spans."""
    body = ids[:-1] if ids[-1] == end_id else ids
    period = max(20, math.ceil(len(body) / (len(sentinels) - 1)))
    batches = []
    for first in range(0, period, max(SPAN, period // 5)):
        source, target, counted, end = [], [], [], 0
        for number, start in enumerate(range(first, len(body) - SPAN + 1, period)):
            span = body[start:start + SPAN].tolist()
            source += [*body[end:start].tolist(), sentinels[number]]
            target += [sentinels[number], *span]
            counted += [IGNORE, *span]
            end = start + SPAN
        source += body[end:].tolist() + ([] if end_id is None else [end_id])
        if target:
            batches.append(((np.array([source]), np.array([[start_id, *target[:-1]]])), np.array([counted])))
    return Task("hidden spans", batches)


def given_target(source, target, start_id, copied):
    """The target is predicted from the source and from the target tokens before; the text may be its own target."""
    inputs = source[None], np.append(start_id, target[:-1])[None]
    return Task("the text from itself" if copied else "the target", [(inputs, target[None])])


def token_losses(model, task, temperatures=(1.0,)):
    """Returns the loss of each counted token in nats, (number of temperatures, N): that of temperature x logits."""
    found = []
    for inputs, targets in task.batches:
        counted = targets != IGNORE
        if isinstance(model, MaskedLanguageModel):
            logits = masked_logits(model, inputs, counted)
        else:
            logits = model(*inputs)[counted]
        found.append(cross_entropies(logits, targets[counted], temperatures))
    return np.concatenate(found, 1)


def masked_logits(model, inputs, counted):
    """The logits of the masked tokens alone: a vocabulary of 30,000 makes those of all tokens expensive."""
    number = counted.sum(1)
    positions = (~counted).argsort(1, kind="stable")[:, :number.max()]
    logits = model(*inputs, positions=positions)
    return logits[np.arange(number.max()) < number[:, None]]


def cross_entropies(logits, targets, temperatures):
    """Returns -log softmax(temperature x logits) at the targets, (number of temperatures, N); infinity for nan."""
    logits = logits.astype(np.float32, copy=False)
    logits = logits - logits.max(-1, keepdims=True)
    right = logits[np.arange(len(logits)), targets].astype(np.float64)
    losses = np.array([np.log(np.exp(factor * logits).sum(-1, dtype=np.float64)) - factor * right
                       for factor in temperatures])
    return np.where(np.isfinite(losses), losses, np.inf)
