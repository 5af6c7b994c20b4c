"""How much a change has to help: for a finding, for a hint, and for a word about it."""

import math
from dataclasses import dataclass

import numpy as np

from .changes import Change

SIGMAS = 4                              # standard errors by which a finding must lower the loss
CHANCE = 2.5                            # standard errors up to which a gain is chance; more, up to SIGMAS, leave it open
MARGIN = 0.1                            # share by which a finding must lower the loss; sound models gain less
FAR_MARGIN = 0.15                       # the same for one after which the model is still far from knowing the text well
NEXT_MARGIN = 0.2                       # the same for a second mistake, since the first may not be undone completely
HINT = 0.01                             # share from which a gain is a hint, which sound models may gain as well
NEXT_HINT = 0.05                        # the same after a mistake that was found, and for the scale of a matrix
WELL, BARELY = 0.6, 0.9                 # shares of log V, the loss of guessing: a model knows a text well, or hardly
COOLING = 0.6                           # share by which a factor of the logits lowers the loss only if it is a mistake
MUTING = 0.5                            # share of the gain of muting all blocks that shows which part does harm
MUCH_MORE = 2.0                         # times the gain of a hint that a less certain change has to help to be said instead
EQUIVALENT = 0.1                        # share of the gain by which other changes may help less and still be as likely
KINDS = "clear", "far", "hint", "open", "explained", "chance"
MAKES_UP = ("eps of the norms", "final norm", "norm of the embeddings", "gains of the norms", "kind of norm", "activation",
            "scale of the scores", "scale of the embedding", "segments")
SCALES = "scale of a matrix", "scale of the positions"


@dataclass
class TriedChange:
    """A change and the loss with it, after `found` earlier findings were undone.

    `losses` are those of all tokens, or None for a change that was given up after a part of the text.
    """

    change: Change
    loss: float
    found: int
    losses: np.ndarray | None = None


@dataclass
class ConversionMistake:
    """A change that lowers the loss, and others that lower it as much."""

    change: Change
    before: float
    after: float
    others: tuple = ()

    def __str__(self):
        text = f"With {self.change.done} the loss falls from {self.before:.2f} to {self.after:.2f}: {self.change.verdict}."
        return f"{text}{self.equivalents()}"

    def equivalents(self):
        """Returns a sentence about the changes that help as much, or ""."""
        if not self.others:
            return ""
        named = "; or ".join(f"with {other.done} ({other.verdict})" for other in self.others[:2])
        more = f"; and {len(self.others) - 2} more of this kind" if len(self.others) > 2 else ""
        return f" It falls nearly as much {named}{more}."


def makes_up(change):
    """Returns True if a change may only make up for weights that are wrong, as it gives a part of the model less weight."""
    return change.generic or change.topic in MAKES_UP


class ChangeJudge:
    """Judges changes of a model in one round: with the model's losses, as it is and less sure of itself, to compare with.

    Parameters:
        task : LanguageTask
        losses, tempered : (N,), the losses with the logits as they are, and multiplied by the factor that suits the text
        muted : (N,), the tempered losses without any block: weights that spoil the blocks make every change help that gives
            the blocks less weight
        log_vocab : float
        found : int, the number of mistakes that were found before on the text
        noted : bool, True if the weights show something without a text
        spoiled : set of id of the Parameters that hold wrong values
        silent : bool, True if the text has too few different tokens to accuse a model
    """

    def __init__(self, task, losses, tempered, log_vocab, *, muted, found, noted, spoiled, silent):
        self.task, self.losses, self.tempered, self.log_vocab = task, losses, tempered, log_vocab
        self.muted, self.found, self.noted, self.spoiled, self.silent = muted, found, noted, spoiled, silent

    def is_promising(self, losses):
        """Returns True if a change that gives these losses of the first tokens may help visibly: all others are given up."""
        gains = self.losses[:len(losses)] - losses
        return gains.mean() + CHANCE * self.task.standard_error(gains) > HINT * self.losses.mean()

    def is_visible(self, losses):
        """Returns True if a change with these losses lowers the loss by so much that something has to be said."""
        return losses.mean() < (1 - HINT) * self.losses.mean()

    def kind_of(self, trial):
        """Returns one of KINDS, "faint", or None if the change does not help.

        "clear" is a finding; "far" may be the first of two, and is a hint like "faint" if no other makes the model know the
        text well.
        """
        if self.silent or trial.losses is None or self.concerns_spoiled(trial.change):
            return None
        share, sigmas = self.gain_of_temperature(trial) if trial.change.tempers else self.gain(self.tempered, trial.losses)
        excused = trial.change.mirrors or (self.spoiled and makes_up(trial.change))
        knows_well = trial.loss < WELL * self.log_vocab
        if sigmas > SIGMAS and not excused:
            if knows_well and share > (NEXT_MARGIN if self.found else MARGIN):
                return "clear"
            if not knows_well and trial.loss < BARELY * self.log_vocab and share > FAR_MARGIN and not self.spoiled:
                return "far"
        if self.spoiled:                        # what is known to be wrong explains smaller gains
            return None
        if not self.is_visible(trial.losses):
            return None
        if self.gain(self.losses, trial.losses)[1] < CHANCE:
            return "chance"
        least = NEXT_HINT if self.found or self.noted or trial.change.topic in SCALES else HINT
        if share > least and sigmas > CHANCE and trial.loss < self.log_vocab:
            return "faint" if sigmas > SIGMAS else "open"
        return "explained"

    def gain(self, before, after):
        """Returns the share by which the loss of each token falls, and the number of its standard errors.

        The standard error takes each distinct (four tokens before, target) for one event: repeats are no new evidence.
        """
        gains = before - after
        return gains.mean() / before.mean(), gains.mean() / max(self.task.standard_error(gains), 1e-12)

    def gain_of_temperature(self, trial):
        """Returns the gain of a change that is itself a temperature: (0, 0), unless it comes near the best one, and either
        makes the model know the text well or lowers the loss by more than texts of other kinds ask for.
        """
        share, sigmas = self.gain(self.losses, trial.losses)
        is_best = trial.loss < (1 + MARGIN) * self.tempered.mean()
        is_needed = trial.loss < WELL * self.log_vocab or share > COOLING
        return (share, sigmas) if is_best and is_needed else (0.0, 0.0)

    def does_more_than_mute(self, trial):
        """Returns False for a change that only gives all blocks less weight: it helps no more than leaving them out, and the
        losses of the tokens are rather those without blocks than those of the model.
        """
        if trial.change.generic or self.gain(self.muted, trial.losses)[0] > HINT:
            return True
        with_blocks, without = np.corrcoef([trial.losses, self.losses, self.muted])[0, 1:]
        return bool(with_blocks > without)

    def concerns_spoiled(self, change):
        """Returns True for a change of nothing but weights that are known to be wrong."""
        if not self.spoiled:
            return False
        touched = change.touched()
        return bool(touched) and touched <= self.spoiled

    def best(self, trials):
        """Returns {kind: ConversionMistake} with the best change of each kind, and with those that help as much."""
        by_kind = {}
        for trial in sorted(trials, key=lambda trial: trial.loss):
            by_kind.setdefault(self.kind_of(trial), []).append(trial)
        before = float(self.losses.mean())
        hints = sorted(by_kind.get("far", []) + by_kind.get("faint", []), key=lambda trial: trial.loss)
        by_kind["hint"] = [trial for trial in hints if self.does_more_than_mute(trial)
                           and before - trial.loss > MUTING * (before - hints[0].loss)] or hints
        best = {}
        for kind in KINDS:
            if by_kind.get(kind):
                lowest = by_kind[kind][0].loss
                alike = [trial for trial in by_kind[kind] if before - trial.loss >= (1 - EQUIVALENT) * (before - lowest)]
                first, *others = sorted(alike, key=lambda trial: trial.change.generic)
                best[kind] = ConversionMistake(first.change, before, first.loss, tuple(
                    other.change for other in others if other.change.generic == first.change.generic))
        gains = {kind: before - mistake.after for kind, mistake in best.items()}
        if gains.get("open", 0.0) > MUCH_MORE * gains.get("hint", math.inf):
            del best["hint"]                    # a larger gain that is less sure
        return best
