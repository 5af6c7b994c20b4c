"""The Diagnosis of a model: what its weights show, and the changes that lower the loss of a text."""

from dataclasses import dataclass, field

import numpy as np

from ...layers.lora import LoRALinear
from ...models.encoder_heads import MaskedLanguageModel
from .judgment import BARELY, WELL, ConversionMistake
from .losses import as_texts, make_task
from .report import report
from .rows_of_ids import WrongRows
from .search import search
from .weights import findings_without_text

WORK = 3e10                             # tokens times weights for one loss
LEAST_READ, MOST_READ = 256, 4096       # tokens that a model reads for one loss
MASKED_ROWS = 3                         # a masked model reads more, as it predicts only some tokens of each row
NO_BETTER = 0.99                        # share of log V that is no better than guessing


@dataclass
class Diagnosis:
    """What a check of a model has found; str() is the report.

    Attributes:
        notes : list of Note, about weights and settings; they need no text
        findings : list of ConversionMistake, the mistakes that were found on the text, in the order of their size
        hint : ConversionMistake or None, a change that lowers the loss, but by so little that sound models may gain it, too
        open_question : ConversionMistake or None, one of which the text has too few tokens to tell
        explained : ConversionMistake or None, one that helps no more than making the model less sure of itself
        by_chance : ConversionMistake or None, one that lowers the loss as much as chance does
        wrong_rows : WrongRows or None, ids of tokens that alone are predicted worse than by guessing, if nothing is found
        tempered : float, the loss after the findings if the logits are multiplied by the factor that suits the text best
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
    explained: ConversionMistake | None = None
    by_chance: ConversionMistake | None = None
    wrong_rows: WrongRows | None = None
    tempered: float | None = None
    loss: float | None = None
    log_vocab: float | None = None
    task: str | None = None
    num_tokens: int = 0
    different: int = 0
    repeats: bool = False
    trials: list = field(default_factory=list)

    @property
    def spoiled(self):
        """The names of the weights that hold wrong values, as can be seen without a text."""
        return {name for note in self.notes for name in note.spoiled}

    @property
    def knows(self):
        """True if the loss, after what was found, is clearly below that of guessing."""
        return self.is_below(BARELY)

    @property
    def knows_well(self):
        """True if it is so low that a mistake would show."""
        return self.is_below(WELL)

    @property
    def says_nothing(self):
        """True if no factor makes the logits better than guessing."""
        return self.tempered is not None and self.tempered > NO_BETTER * self.log_vocab

    def is_below(self, share):
        loss = self.findings[-1].after if self.findings else self.loss
        return loss is not None and loss < share * self.log_vocab

    def __str__(self):
        return report(self)


def diagnose(model, ids=None, mask_id=None, special_ids=(), sentinels=(), start_id=None, end_id=None, target=None,
             tokenizer_size=None, tokens=None, thorough=None, progress=False):
    """Returns the Diagnosis of a model that was converted from someone else's weights.

    The loss of a text is measured with the model as it is, and with each of the commonest mistakes undone or done. A
    change is a finding only if the model then knows the text well, and if it lowers the loss by a tenth and by four
    standard errors, repeated passages counting as one event, on a text with enough different tokens (24, or a quarter of
    a small vocabulary). It is compared with the model whose logits are multiplied by the factor from 0 to 1 that suits
    the text best, because any change that makes a model less sure of itself lowers its loss on texts that it does not
    know. A change that helps less, or that leaves the model far from knowing the text, is a hint. Changes that leave a
    part out show where a mistake lies that none of the others undoes. The model is changed in place; at the end it is
    exactly as before.

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
    with np.errstate(all="ignore"):             # wrong weights overflow, which is no news here
        notes = findings_without_text(model, tokenizer_size, words_of(ids, special_ids))
    diagnosis = Diagnosis(type(model).__name__, notes)
    if task is None:
        return diagnosis
    training, remembering = model.training, model.remembering
    model.eval()
    try:
        with np.errstate(all="ignore"):
            search(model, task, diagnosis, thorough=thorough, progress=progress)
    finally:
        if training:
            model.train()
        elif remembering:
            model.eval(remember=True)
    return diagnosis


def words_of(ids, special_ids):
    """Returns the different ids of the texts that are not special, or an empty array without a text."""
    return np.empty(0, np.intp) if ids is None else np.setdiff1d(np.concatenate(as_texts(ids)), special_ids).astype(np.intp)
