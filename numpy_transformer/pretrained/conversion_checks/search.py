"""Tries the changes one at a time on a text, keeps one that clearly helps, and looks for a second mistake."""

import contextlib
import math
import time

import numpy as np

from ...training.progress import Progress
from .attention import changes_of_attention
from .changes import Parts, edited
from .embeddings_and_output import changes_of_ends
from .heads import changes_of_heads
from .judgment import ChangeJudge, TriedChange
from .left_out import changes_of_left_out
from .losses import LEAST, LEAST_TO_ACCUSE, TEMPERATURES, token_losses
from .reshaped import changes_of_reshaped
from .rotary import changes_of_rotary
from .rows_of_ids import wrong_rows
from .scales import changes_of_scales
from .stack import changes_of_blocks
from .swaps import changes_of_swaps
from .tables import changes_of_tables

ROUNDS = 3                              # mistakes that are looked for, one after another
RARE_WORK = 2e12                        # tokens times weights for all rare changes, unless they are asked for
FIRST_PARTS = 100, 400                  # tokens after which most changes are given up


def changes_of(model):
    """Returns a list of all changes that mean something for a model."""
    parts = Parts(model)
    return [*changes_of_rotary(parts), *changes_of_attention(parts), *changes_of_heads(parts), *changes_of_swaps(parts),
            *changes_of_reshaped(parts), *changes_of_blocks(parts), *changes_of_ends(parts), *changes_of_tables(parts),
            *changes_of_scales(parts), *changes_of_left_out(parts)]


def search(model, task, diagnosis, thorough, progress):
    """Fills the diagnosis: round by round, the change that helps most is kept."""
    started = time.perf_counter()
    token_losses(model, task.first_part(FIRST_PARTS[0]))
    seconds = time.perf_counter() - started     # of the loss after which most changes are given up, for the progress bar
    losses, tempered = tempered_losses(model, task)
    diagnosis.task = task.name
    diagnosis.num_tokens = task.num_tokens
    diagnosis.loss = float(losses.mean())
    diagnosis.log_vocab = math.log(vocabulary(model))
    diagnosis.different = task.different
    diagnosis.repeats = task.different < np.clip(vocabulary(model) // 4, LEAST, LEAST_TO_ACCUSE)
    if not np.isfinite(diagnosis.loss):
        return
    if thorough is None:
        thorough = min(task.num_tokens, FIRST_PARTS[0]) * model.num_parameters() * sum(
            change.rare for change in changes_of(model)) <= RARE_WORK
    spoiled = {id(parameter) for name, parameter in model.named_parameters() if name in diagnosis.spoiled}
    rows = None if diagnosis.repeats else wrong_rows(task.targets, losses, diagnosis.log_vocab)
    hint = None
    with contextlib.ExitStack() as kept:
        for found in range(ROUNDS):
            judge = ChangeJudge(task, losses, tempered, diagnosis.log_vocab, muted=muted_losses(model, task), found=found,
                                noted=bool(diagnosis.notes), spoiled=spoiled, silent=diagnosis.repeats)
            diagnosis.tempered = float(tempered.mean())
            changes = [change for change in changes_of(model) if not change.rare or (thorough and not found)]
            trials = try_changes(model, task, changes, judge, found=found, seconds=seconds, progress=progress)
            diagnosis.trials += trials
            best = judge.best(trials)
            hint = hint or best.get("hint")
            found_now = best.get("clear", best.get("far"))
            if found_now is None:
                diagnosis.hint, diagnosis.open_question = best.get("hint"), best.get("open")
                diagnosis.explained, diagnosis.by_chance = best.get("explained"), best.get("chance")
                break
            diagnosis.findings.append(found_now)
            if found_now.change.generic:
                break                           # the model is not restored, so there is nothing to compare with
            kept.enter_context(found_now.change.made())
            losses, tempered = tempered_losses(model, task)
    if diagnosis.findings and not diagnosis.knows_well:
        diagnosis.hint = hint or diagnosis.findings[0]      # the best of what leaves the model far from knowing the text
        diagnosis.findings = []
    diagnosis.wrong_rows = None if diagnosis.findings else rows


def tempered_losses(model, task):
    """Returns the loss of each token, and that with the logits multiplied by the factor that suits the text best."""
    losses = token_losses(model, task, TEMPERATURES)
    return losses[0], losses[losses.mean(1).argmin()]


def muted_losses(model, task):
    """Returns the tempered loss of each token without any block."""
    with edited([(stack, "blocks", []) for stack in Parts(model).stacks]):
        return tempered_losses(model, task)[1]


def try_changes(model, task, changes, judge, *, found, seconds, progress):
    """Returns a TriedChange for each change; most are given up after the first part of the text."""
    parts = [task.first_part(tokens) for tokens in FIRST_PARTS if tokens < task.num_tokens]
    title = f"check (about {max(1, round(seconds * len(changes)))} s)"
    trials = []
    with Progress(len(changes), title, "change", silent=not progress) as bar:
        for change in changes:
            with change.made():
                trials.append(try_change(model, task, change, judge, parts=parts, found=found))
            bar.advance()
    return trials


def try_change(model, task, change, judge, *, parts, found):
    """Returns the TriedChange of a change that is made at the moment."""
    for part in parts:
        losses = token_losses(model, part)[0]
        if not judge.is_promising(losses):
            risen = losses.mean() - judge.losses[:len(losses)].mean()
            return TriedChange(change, float(judge.losses.mean() + risen), found)
    losses = token_losses(model, task)[0]
    return TriedChange(change, float(losses.mean()), found, losses)


def vocabulary(model):
    """Returns the number of classes of the output layer."""
    return getattr(model, "target_embedding", getattr(model, "embedding", None)).vocab_size
