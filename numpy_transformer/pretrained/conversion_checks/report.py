"""The report of a Diagnosis: the loss, what was found in sentences, and a table of the changes that were tried."""

import math

from .judgment import MARGIN, WELL
from .losses import COPIED

FAINT = "eps of the norms", "activation"        # topics whose effect may be too small to be seen
ROWS = 12                                       # of the table, besides that of the model as it is
NOTHING_TO_PREDICT = ("{model} predicts no tokens, so a text cannot show whether its weights were converted correctly. "
                      "Compare its output for one text with that of the original program instead.")
UNKNOWN = ("The loss is not clearly below that of guessing, and no change clearly lowers it, so this check cannot tell. "
           "The weights may be untrained, the text or the tokenizer may not be the model's, or several mistakes may "
           "hide each other.")
SAYS_NOTHING = ("No change makes the model better than guessing, and its logits tell nothing about the text, whatever they "
                "are multiplied by. Look first at the output layer, which may be tied although the model has one of its own, "
                "and at the ids of the tokenizer. The weights may also be untrained, or belong to a model of another kind of "
                "text.")
KNOWS_LITTLE = ("Since the model knows this text little, a mistake may still be hidden: try a longer text of the kind "
                "that it was trained on.")
REPEATS = ("The text has only {different} different tokens to predict, which is too few to accuse the conversion of a "
           "mistake: give a longer text that does not repeat a few words.")
ABOVE = ("The text shows no mistake of these kinds. That is no acquittal: what the weights and settings show without "
         "a text stands at the top of this report, and has to be explained first.")
SEE_ABOVE = "What the weights and settings show without a text stands at the top of this report."
REPAIR_FIRST = ("Some weights are wrong whatever the text, as the top of this report says. They have to be repaired first: "
                "until then, a change that lowers the loss may only make up for them.")
NO_SIGN = ("Nothing speaks for one of these mistakes. A mistake of another kind would not show here: compare the output "
           "for one text with that of the original program.")
MAY_BE_NEEDED = ("None of the {number} changes tried lowers the loss by as much as most mistakes do, but one may be needed: "
                 "with {change} it falls from {before:.3f} to {after:.3f} ({share:.0%}). If that is a mistake, {verdict}. A "
                 "sound model may also gain from a change, on a text of another kind than those that it was trained on.")
STILL_FAR = ("With {change} the loss falls from {before:.3f} to {after:.3f} ({share:.0%}), but the model is then still far "
             "from knowing the text. If that is a mistake, {verdict}. There may be another one as well, or the text may be "
             "of another kind than those that the model was trained on.")
MAY_BE_CHANCE = ("None of the {number} changes tried clearly lowers the loss, but {tokens:,} tokens are too few to be sure: "
                 "with {change} it falls from {before:.3f} to {after:.3f} ({share:.0%}), which may be chance. If it is not, "
                 "{verdict}. Try a longer text.")
LESS_SURE = ("Of the {number} changes tried, this lowers the loss most: with {change} it falls from {before:.3f} to "
             "{after:.3f} ({share:.0%}). The same model with smaller logits, which make it less sure of itself, has "
             "{tempered:.3f}, so this is no sign of a mistake, and none that all is well.")
WITHIN_CHANCE = ("None of the {number} changes tried clearly lowers the loss. With {change} it falls from {before:.3f} to "
                 "{after:.3f}, which cannot be told from chance with {tokens:,} tokens: try a longer text.")
STILL_GUESSING = "The loss is still near that of guessing: there is another mistake, or this is not the right one."
NOT_COPIED = " The text was its own target, which tells nothing about a model that was trained on other pairs."
ALL_WELL = "The numbers themselves (size of the vocabulary, eps, zeros, equal matrices) look right."


def report(diagnosis):
    """Returns the text that `numpy-transformer info FILE --check TEXT` prints."""
    blocks = [*map(str, diagnosis.notes)]
    if diagnosis.task is None:
        blocks.append(NOTHING_TO_PREDICT.format(model=diagnosis.model))
        if not diagnosis.notes:
            blocks.append(ALL_WELL)
    else:
        blocks += [loss_line(diagnosis), *map(str, diagnosis.findings), ending(diagnosis)]
        if diagnosis.trials:
            blocks.append("\n" + topic_table(diagnosis))
    return "\n".join(blocks)


def loss_line(diagnosis):
    return (f"Loss on {diagnosis.task}, {diagnosis.num_tokens:,} tokens: {diagnosis.loss:.3f} nats per token "
            f"(perplexity {perplexity(diagnosis.loss)}); guessing would give {diagnosis.log_vocab:.3f}.")


def perplexity(loss):
    return f"{math.exp(loss):,.1f}" if loss < 20 else "above 10^8"


def ending(diagnosis):
    """Returns the conclusion, and a pointer to what was found without a text."""
    said = conclusion(diagnosis)
    if diagnosis.notes and said != REPAIR_FIRST and ABOVE not in said:
        said = f"{said} {SEE_ABOVE}"
    return said


def conclusion(diagnosis):
    """Returns the sentences after the findings."""
    if not math.isfinite(diagnosis.loss):
        return "The loss is not finite, so changes cannot be compared."
    if diagnosis.repeats:
        return REPEATS.format(different=diagnosis.different)
    if diagnosis.wrong_rows and not leaves_far(diagnosis):
        return str(diagnosis.wrong_rows)
    if diagnosis.says_nothing and not (diagnosis.hint or diagnosis.open_question or diagnosis.findings):
        return SAYS_NOTHING
    beginning = f"{diagnosis.wrong_rows} " if diagnosis.wrong_rows else ""
    if diagnosis.findings:
        beginning = "After that: "
    number = len({trial.change.done for trial in diagnosis.trials if trial.found == len(diagnosis.findings)})
    hinting = STILL_FAR if leaves_far(diagnosis) else MAY_BE_NEEDED
    for sentence, mistake in ((hinting, diagnosis.hint), (MAY_BE_CHANCE, diagnosis.open_question),
                              (LESS_SURE, diagnosis.explained), (WITHIN_CHANCE, diagnosis.by_chance)):
        if mistake is not None and (diagnosis.knows or sentence != WITHIN_CHANCE):
            said = sentence.format(
                number=number, tokens=diagnosis.num_tokens, tempered=diagnosis.tempered, change=mistake.change.done,
                verdict=mistake.change.verdict, before=mistake.before, after=mistake.after,
                share=1 - mistake.after / mistake.before)
            return f"{beginning}{said}{mistake.equivalents() if sentence in (hinting, MAY_BE_CHANCE) else ''}"
    if diagnosis.spoiled:
        return REPAIR_FIRST
    if diagnosis.findings:
        return further(diagnosis, number)
    if not diagnosis.knows:
        return UNKNOWN + (NOT_COPIED if diagnosis.task == COPIED else "")
    none = f"None of the {number} changes tried clearly lowers the loss."
    if not diagnosis.knows_well:
        return f"{none} {KNOWS_LITTLE}"
    return f"{none} {ABOVE if diagnosis.notes else NO_SIGN}{faint(diagnosis)}"


def leaves_far(diagnosis):
    """Returns True for a hint that helps as much as a finding does, but leaves the model far from knowing the text."""
    hint = diagnosis.hint
    return hint is not None and WELL * diagnosis.log_vocab < hint.after < (1 - MARGIN) * hint.before


def further(diagnosis, number):
    """Returns the sentence after findings to which no hint is to be added."""
    if diagnosis.findings[-1].change.generic:
        return "This does not restore the model; it shows where to look."
    if diagnosis.knows:
        return f"After that, none of the {number} changes tried clearly lowers the loss further."
    return STILL_GUESSING


def faint(diagnosis):
    """Returns a sentence about changes whose effect is too small to tell which is right."""
    effects = [abs(trial.loss - diagnosis.loss) for trial in diagnosis.trials if trial.change.topic in FAINT]
    effects = [effect for effect in effects if effect < 0.01]
    if not effects:
        return ""
    return (f" {len(effects)} of them (eps, kind of activation) change it by {max(effects):.4f} at most, and this text "
            "cannot tell which of these is right.")


def topic_table(diagnosis):
    """Returns a table of the best change of each topic, tried on the model as it was loaded."""
    best = {}
    for trial in diagnosis.trials:
        if trial.found == 0 and trial.loss < best.get(trial.change.topic, (math.inf,))[0]:
            best[trial.change.topic] = trial.loss, trial.change.done
    rows = [("loss", "with (the best change of each kind)"), (f"{diagnosis.loss:.3f}", "the model as it is")]
    rows += [(f"{loss:.3f}", done) for loss, done in sorted(best.values())[:ROWS]]
    if len(best) > ROWS:
        rows.append(("", f"{len(best) - ROWS} more kinds, with which it is higher"))
    width = max(len(loss) for loss, _ in rows)
    return "\n".join(f"{loss:>{width}}  {done}" for loss, done in rows)
