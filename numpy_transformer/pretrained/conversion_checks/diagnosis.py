"""Tries the changes one at a time on a text, keeps one that clearly helps, and looks for a second mistake."""

import contextlib
import math
import time
from dataclasses import dataclass, field

import numpy as np

from ...layers.lora import LoRALinear
from ...models.encoder_heads import MaskedLanguageModel
from ...training.progress import Progress
from .attention import changes_of_attention
from .changes import Change, Parts
from .embeddings_and_output import changes_of_ends
from .heads import changes_of_heads
from .losses import LEAST, LEAST_TO_ACCUSE, TEMPERATURES, make_task, token_losses
from .report import report
from .reshaped import changes_of_reshaped
from .rotary import changes_of_rotary
from .stack import changes_of_blocks
from .weights import findings_without_text

SIGMAS = 4                              # standard errors by which a finding must lower the loss
CHANCE = 2.5                            # standard errors up to which a gain is chance; more, up to SIGMAS, leave it open
MARGIN = 0.1                            # share by which a finding must lower the loss; sound models gain less
WIDE_MARGIN = 0.15                      # the same if the model does not know the text well even then
NEXT_MARGIN = 0.2                       # the same for a second mistake, since the first may not be undone completely
HINT = 0.02                             # share from which a gain is a hint, which sound models may gain as well
WELL, BARELY = 0.6, 0.9                 # shares of log V, the loss of guessing: a model knows a text well, or hardly
ROUNDS = 3                              # mistakes that are looked for, one after another
WORK = 3e10                             # tokens times weights for one loss
RARE_WORK = 2e11                        # tokens times weights for all rare changes, unless they are asked for
LEAST_READ, MOST_READ = 256, 4096       # tokens that a model reads for one loss
MASKED_ROWS = 3                         # a masked model reads more, as it predicts only some tokens of each row


@dataclass
class TriedChange:
    """A change and the loss with it, after `found` earlier findings were undone."""

    change: Change
    loss: float
    found: int


@dataclass
class ConversionMistake:
    """A change that clearly lowers the loss."""

    change: Change
    before: float
    after: float

    def __str__(self):
        return (f"With {self.change.done} the loss falls from {self.before:.2f} to {self.after:.2f}: "
                f"{self.change.verdict}.")


@dataclass
class Diagnosis:
    """What a check of a model has found; str() is the report.

    Attributes:
        notes : list of sentences about weights and settings that need no text
        findings : list of ConversionMistake, the mistakes that were found on the text, in the order of their size
        hint : ConversionMistake or None, a change that lowers the loss, but by so little that sound models may gain it, too
        open_question : ConversionMistake or None, one of which the text has too few tokens to tell
        loss, log_vocab : float, nats per token of the model and of guessing; loss is None without a language head
        task, num_tokens, different : what was predicted, how often, and how many different tokens
        repeats : bool, True if these are too few for any finding
        trials : list of TriedChange, all changes that were tried
    """

    model: str
    notes: list
    findings: list = field(default_factory=list)
    hint: ConversionMistake | None = None
    open_question: ConversionMistake | None = None
    loss: float | None = None
    log_vocab: float | None = None
    task: str | None = None
    num_tokens: int = 0
    different: int = 0
    repeats: bool = False
    trials: list = field(default_factory=list)

    @property
    def knows(self):
        """True if the loss, after what was found, is clearly below that of guessing."""
        return self.is_below(BARELY)

    @property
    def knows_well(self):
        """True if it is so low that a mistake would show."""
        return self.is_below(WELL)

    def is_below(self, share):
        loss = self.findings[-1].after if self.findings else self.loss
        return loss is not None and loss < share * self.log_vocab

    def __str__(self):
        return report(self)


def changes_of(model):
    """Returns a list of all changes that mean something for a model."""
    parts = Parts(model)
    return [*changes_of_rotary(parts), *changes_of_attention(parts), *changes_of_heads(parts),
            *changes_of_reshaped(parts), *changes_of_blocks(parts), *changes_of_ends(parts)]


def diagnose(model, ids=None, mask_id=None, special_ids=(), sentinels=(), start_id=None, end_id=None, target=None,
             tokenizer_size=None, tokens=None, thorough=None, progress=False):
    """Returns the Diagnosis of a model that was converted from someone else's weights.

    The loss of a text is measured with the model as it is, and with each of the commonest mistakes undone or done. A
    change counts only if it lowers the loss by a tenth and by four standard errors, repeated passages counting as one
    event, on a text with enough different tokens (24, or a quarter of a small vocabulary). It is compared with the
    model whose logits are multiplied by the factor from 0 to 1 that suits the text best, because any change that makes
    a model less sure of itself lowers its loss on texts that it does not know. The model is changed in place; at the
    end it is exactly as before.

    Parameters:
        model : CausalLanguageModel, MaskedLanguageModel or EncoderDecoder; other models get the checks without text
        ids : ids of a text as the model reads it, special ids included, or a list of such texts
        mask_id : int, the id of [MASK], for a masked language model
        special_ids : ids that are neither masked nor predicted
        sentinels : ids of T5's <extra_id_0>, <extra_id_1>, ...; without them a text is its own target
        start_id, end_id : int or None, the first id of T5's targets (None: the padding id), and the id that ends a text
        target : ids of the target, for an encoder-decoder that was trained on pairs; or a list, as ids
        tokenizer_size : int or None, the number of ids of the tokenizer
        tokens : int or None, how many tokens the model reads for one loss, at most; None chooses by the model's size
        thorough : bool or None; True also tries changes of one layer or one stack alone, None only if they are cheap
        progress : bool (False), whether a progress bar is shown
    Raises: ValueError for a text with fewer than 8 different tokens, a masked language model without mask_id, or a model
        with LoRA layers that are not merged.
    """
    if any(isinstance(module, LoRALinear) and not module.is_merged for _, module in model.named_modules()):
        raise ValueError("the model has LoRA layers, which a check of its weights cannot change with them; call "
                         "merge_lora(model) first")
    task = None
    if ids is not None:
        if tokens is None:
            rows = MASKED_ROWS if isinstance(model, MaskedLanguageModel) else 1
            tokens = rows * int(np.clip(WORK / model.num_parameters(), LEAST_READ, MOST_READ))
        task = make_task(model, ids, mask_id=mask_id, special_ids=special_ids, sentinels=sentinels, start_id=start_id,
                         end_id=end_id, target=target, tokens=tokens)
    diagnosis = Diagnosis(type(model).__name__, findings_without_text(model, tokenizer_size))
    if task is None:
        return diagnosis
    training, remembering = model.training, model.remembering
    model.eval()
    try:
        search(model, task, diagnosis, thorough=thorough, progress=progress)
    finally:
        if training:
            model.train()
        elif remembering:
            model.eval(remember=True)
    return diagnosis


def search(model, task, diagnosis, thorough, progress):
    """Fills the diagnosis: round by round, the change that helps most is kept."""
    started = time.perf_counter()
    token_losses(model, task)
    seconds = time.perf_counter() - started     # of one loss, for the title of the progress bar
    losses, tempered = tempered_losses(model, task)
    diagnosis.task = task.name
    diagnosis.num_tokens = task.num_tokens
    diagnosis.loss = float(losses.mean())
    diagnosis.log_vocab = math.log(vocabulary(model))
    diagnosis.different = task.different
    diagnosis.repeats = task.different < np.clip(vocabulary(model) // 4, LEAST, LEAST_TO_ACCUSE)
    if not np.isfinite(diagnosis.loss):
        return
    with contextlib.ExitStack() as kept:
        for _ in range(ROUNDS):
            best_by_kind = {}
            for changes in common_and_rare(model, task, thorough):
                for kind, change in best_changes(model, task, changes, (losses, tempered), diagnosis=diagnosis,
                                                 seconds=seconds, progress=progress).items():
                    best_by_kind.setdefault(kind, change)
                if "clear" in best_by_kind:
                    break
            best = best_by_kind.get("clear")
            before = float(losses.mean())
            if best is None:
                if "faint" in best_by_kind:
                    diagnosis.hint = ConversionMistake(best_by_kind["faint"][0], before, best_by_kind["faint"][1])
                elif "open" in best_by_kind:
                    diagnosis.open_question = ConversionMistake(best_by_kind["open"][0], before, best_by_kind["open"][1])
                break
            kept.enter_context(best[0].made())
            losses, tempered = tempered_losses(model, task)
            diagnosis.findings.append(ConversionMistake(best[0], before, float(losses.mean())))


def common_and_rare(model, task, thorough):
    """Returns a list with the list of common changes, and with that of the rare ones if they are to be tried."""
    changes = changes_of(model)
    rare = [change for change in changes if change.rare]
    if thorough is None:
        thorough = len(rare) * task.num_tokens * model.num_parameters() <= RARE_WORK
    common = [change for change in changes if not change.rare]
    return [common, rare] if thorough and rare else [common]


def tempered_losses(model, task):
    """Returns the loss of each token, and that with the logits multiplied by the factor that suits the text best."""
    losses = token_losses(model, task, TEMPERATURES)
    return losses[0], losses[losses.mean(1).argmin()]


def best_changes(model, task, changes, measured, diagnosis, seconds, progress):
    """Returns {"clear", "faint" or "open": (the best change, loss)}: it helps, helps a little, or perhaps by chance.

    All changes join diagnosis.trials.
    """
    best_by_kind = {}
    title = f"check (about {max(1, round(seconds * len(changes)))} s)"
    with Progress(len(changes), title, "change", silent=not progress) as bar:
        for change in changes:
            with change.made(), np.errstate(all="ignore"):
                losses = token_losses(model, task)[0]
            loss = float(losses.mean())
            diagnosis.trials.append(TriedChange(change, loss, len(diagnosis.findings)))
            gain, sigmas = gain_of(change, measured, losses, diagnosis.log_vocab, task=task)
            if diagnosis.repeats:
                sigmas = 0.0                    # a few words tell nothing, however often they come
            margin, hint = least_gains(loss < WELL * diagnosis.log_vocab, len(diagnosis.findings))
            for kind, least, certain in (("clear", margin, SIGMAS), ("faint", hint, SIGMAS), ("open", hint, CHANCE)):
                if gain > least and sigmas > certain and loss < best_by_kind.get(kind, (change, math.inf))[1]:
                    best_by_kind[kind] = change, loss
            bar.advance()
    return best_by_kind


def least_gains(knows_well, number_of_findings):
    """Returns the shares by which a loss must fall to be a finding, after `found` earlier ones, and to be a hint."""
    if number_of_findings:
        return NEXT_MARGIN, HINT
    return MARGIN if knows_well else WIDE_MARGIN, HINT


def gain_of(change, measured, losses, log_vocab, task):
    """Returns the share by which a change lowers the loss of the tempered model, and the number of its standard errors.

    The standard error takes each distinct (four tokens before, target) for one event: repeats are no new evidence.
    Both are 0 if the model still knows nothing. A change that is itself a temperature is compared with the model as
    it is, and must come near the best temperature on a text that the model then knows well.
    """
    before, tempered = measured
    loss = losses.mean()
    if loss > BARELY * log_vocab:
        return 0.0, 0.0
    reference = tempered
    if change.tempers:
        reference = before
        if loss > WELL * log_vocab or loss > (1 + MARGIN) * tempered.mean():
            return 0.0, 0.0
    gains = reference - losses
    return gains.mean() / reference.mean(), gains.mean() / max(task.standard_error(gains), 1e-12)


def vocabulary(model):
    """Returns the number of classes of the output layer."""
    return getattr(model, "target_embedding", getattr(model, "embedding", None)).vocab_size
