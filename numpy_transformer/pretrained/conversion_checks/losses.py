"""The loss of a text: for each kind of model a task that needs no labels, and the loss of each of its tokens."""

import itertools
import math
from dataclasses import dataclass

import numpy as np

from ...models.decoder import CausalLanguageModel
from ...models.encoder_decoder import EncoderDecoder
from ...models.encoder_heads import MaskedLanguageModel

IGNORE = -1                             # a target that is not counted
LEAST = 8                               # tokens, and different ones; fewer tell nothing
CONTEXT = 4                             # tokens before a target that tell whether a passage is repeated
LEAST_TO_ACCUSE = 24                    # different targets (or a quarter of the vocabulary) that a finding needs
WINDOW = 128                            # tokens of a row at most,
TOGETHER = 512                          # and of the rows that a model reads at a time
EVERY = 7                               # each row hides one of 7 tokens, and 7 rows all of them
SPAN = 3                                # T5 hides spans of three tokens, 15% of a text
COPIED = "the text from itself"         # a name of a task
TEMPERATURES = 1.0, 0.8, 0.65, 0.5, 0.35, 0.2, 0.1, 0.05, 0.0


class LanguageTask:
    """What a model is asked to predict: a name for it, batches (inputs, targets), and all counted `targets`.

    Repeated passages are no independent evidence: `groups` numbers the distinct (four tokens before, target), one
    number for each counted target, and `different` is the number of distinct targets.
    """

    def __init__(self, name, batches, shift=0):
        self.name = name
        self.batches = batches
        counted = np.concatenate([targets[targets != IGNORE] for _, targets in batches])
        before = [np.concatenate([np.roll(inputs[-1], back, 1)[targets != IGNORE] for inputs, targets in batches])
                  for back in range(shift, shift + CONTEXT)]
        self.targets = counted
        self.num_tokens = len(counted)
        self.different = len(np.unique(counted))
        self.groups = np.unique(np.stack([*before, counted]), axis=1, return_inverse=True)[1].ravel()

    def first_part(self, tokens):
        """Returns an object with as many of the first rows as are needed for this number of counted tokens."""
        batches, counted = [], 0
        for inputs, targets in self.batches:
            counts = counted + np.cumsum((targets != IGNORE).sum(1))
            rows = 1 + int(np.searchsorted(counts, tokens))
            batches.append((tuple(ids[:rows] for ids in inputs), targets[:rows]))
            counted = counts[-1]
            if counted >= tokens:
                break
        return FirstPart(batches)

    def standard_error(self, values):
        """Returns the standard error of the mean of values (n,), those of one group being as dependent as they are.

        The values are those of the first n counted targets.

        It is sqrt(Σ_g (Σ_{i in g} (values_i - mean))²) / N, the usual one if each group has one value.
        """
        return math.sqrt(np.sum(np.bincount(self.groups[:len(values)], values - values.mean()) ** 2)) / len(values)


@dataclass
class FirstPart:
    """Some of the batches of a LanguageTask."""

    batches: list


def make_task(model, ids, mask_id=None, special_ids=(), sentinels=(), start_id=None, end_id=None, target=None,
              tokens=1024):
    """Returns the LanguageTask of a model on the ids of a text or of several, or None for a model without a language head.

    Raises: ValueError if the texts are too short, or if a masked language model gets no mask_id.
    """
    if not isinstance(model, (CausalLanguageModel, MaskedLanguageModel, EncoderDecoder)):
        return None
    texts = as_texts(ids)
    every_id = np.concatenate(texts)
    different = len(np.unique(every_id))
    if different < LEAST:
        raise ValueError(f"the text has {len(every_id)} tokens, {different} of them different, but a check needs at "
                         f"least {LEAST} different ones, and better 100 tokens; give a longer text")
    if isinstance(model, CausalLanguageModel):
        name = "the next token"
        batches = [batch for text in texts for batch in next_tokens(text, min(model.max_len, WINDOW))]
    elif isinstance(model, MaskedLanguageModel):
        if mask_id is None:
            raise ValueError("a masked language model is checked by masking tokens; give mask_id, the id of [MASK]")
        name = "masked tokens"
        parts = [part for text in texts for part in windows(text, min(model.max_len, WINDOW), special_ids)]
        batches = [masked_tokens(part, row, mask_id, special_ids) for row in range(EVERY) for part in parts]
        batches = [batch for batch in batches if (batch[1] != IGNORE).any()]
    else:
        start_id = model.pad_id if start_id is None else start_id
        name, batches = source_and_target(model, texts, sentinels, start_id, end_id=end_id, target=target)
    masked = isinstance(model, MaskedLanguageModel)         # its input is [MASK] where a token is predicted
    return LanguageTask(name, merged_batches(first_batches(batches, tokens)), shift=int(masked))


def as_texts(ids):
    """Returns a list of 1-D arrays: one text, or several."""
    return [np.asarray(ids)] if np.ndim(ids[0]) == 0 else [np.asarray(text) for text in ids]


def first_batches(batches, tokens):
    """Returns the batches up to the one with which a model has read `tokens` tokens."""
    counts = np.cumsum([number_of_tokens(inputs) for inputs, _ in batches])
    return batches[:1 + np.searchsorted(counts, tokens)]


def number_of_tokens(inputs):
    return sum(ids.size for ids in inputs)


def merged_batches(batches):
    """Returns the same rows in fewer batches: those of the same shape are read together."""
    def shapes(batch):
        return [ids.shape for ids in batch[0]]

    merged = []
    for _, group in itertools.groupby(sorted(batches, key=shapes), shapes):
        group = list(group)
        number = max(1, TOGETHER // number_of_tokens(group[0][0]))
        for start in range(0, len(group), number):
            inputs, targets = zip(*group[start:start + number])
            merged.append((tuple(map(np.concatenate, zip(*inputs))), np.concatenate(targets)))
    return merged


def windows(ids, length, special_ids):
    """Returns parts of equal size of a text; each has the special id that begins the text, and the one that ends it."""
    start = int(ids[0] in special_ids)
    end = len(ids) - int(ids[-1] in special_ids)
    number = math.ceil((end - start) / (length - start - (len(ids) - end)))
    return [np.concatenate([ids[:start], part, ids[end:]]) for part in np.array_split(ids[start:end], number)]


def next_tokens(ids, length):
    """Each token but the first is predicted from those before it, in windows of equal size."""
    number = len(ids) - 1
    length = math.ceil(number / math.ceil(number / length))
    windows = [ids[start:start + length + 1] for start in range(0, number, length)]
    return [((window[None, :-1],), window[None, 1:]) for window in windows if len(window) > 1]


def masked_tokens(ids, row, mask_id, special_ids):
    """Masks the ordinary tokens number row, row + 7, row + 14 and so on; seven rows mask each of them once."""
    masked = np.flatnonzero(~np.isin(ids, [mask_id, *special_ids]))[row::EVERY]
    inputs = ids.copy()
    inputs[masked] = mask_id
    targets = np.full(ids.shape, IGNORE)
    targets[masked] = ids[masked]
    return (inputs[None],), targets[None]


def source_and_target(model, texts, sentinels, start_id, end_id, target):
    """Returns the name of a task of an encoder-decoder, and its batches."""
    longest = min(getattr(model.target_positions, "max_len", WINDOW), WINDOW)
    if target is not None:
        batches = [given_target(text, goal[:longest], start_id) for text, goal in zip(texts, as_texts(target))]
        return "the target", batches
    ends = [] if end_id is None else [end_id]
    parts = [part for text in texts for part in windows(text, longest - 1, ends)]
    if len(sentinels) > 1:
        return "hidden spans", [batch for part in parts for batch in hidden_spans(part, sentinels, start_id, end_id)]
    return COPIED, [given_target(part, part, start_id) for part in parts]


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
        source += [*body[end:].tolist(), *ids[len(body):].tolist()]
        if target:
            batches.append(((np.array([source]), np.array([[start_id, *target[:-1]]])), np.array([counted])))
    return batches


def given_target(source, target, start_id):
    """The target is predicted from the source, and from the tokens of the target before."""
    return (source[None], np.append(start_id, target[:-1])[None]), target[None]


def token_losses(model, task, temperatures=(1.0,)):
    """Returns the loss of each counted token in nats, (number of temperatures, N): that of temperature x logits."""
    losses = []
    for inputs, targets in task.batches:
        counted = targets != IGNORE
        if isinstance(model, MaskedLanguageModel):
            logits = masked_logits(model, inputs, counted)
        else:
            logits = model(*inputs)[counted]
        losses.append(cross_entropies(logits, targets[counted], temperatures))
    return np.concatenate(losses, 1)


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
