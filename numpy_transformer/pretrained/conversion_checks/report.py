"""The report of a Diagnosis: the loss, what was found in sentences, and a table of the changes that were tried."""

import math

from .losses import COPIED

FAINT = "eps of the norms", "activation"        # topics whose effect may be too small to be seen
NOTHING_TO_PREDICT = ("{model} predicts no tokens, so a text cannot show whether its weights were converted correctly. "
                      "Compare its output for one text with that of the original program instead.")
UNKNOWN = ("No change clearly lowers the loss, which is not clearly below that of guessing, so this check cannot tell. "
           "The weights may be untrained, the text or the tokenizer may not be the model's, or several mistakes may "
           "hide each other.")
KNOWS_LITTLE = ("Since the model knows this text little, a mistake may still be hidden: try a longer text of the kind "
                "that it was trained on.")
REPEATS = ("The text has only {different} different tokens to predict, which is too few to accuse the conversion of a "
           "mistake: give a longer text that does not repeat a few words.")
ABOVE = ("so the text shows no mistake of these kinds. That is no acquittal: what the weights and settings show without "
         "a text stands at the top of this report, and has to be explained first.")
SEE_ABOVE = "What the weights and settings show without a text stands at the top of this report."
NO_SIGN = ("nothing speaks for one of these mistakes. A mistake of another kind would not show here: compare the output "
           "for one text with that of the original program.")
LESS_SURE = " Losses below it in the table are no lower than chance, or making the model less sure of itself, explains."
NOT_COPIED = " The text was its own target, which tells nothing about a model that was trained on other pairs."
ALL_WELL = "The numbers themselves (size of the vocabulary, eps, zeros, equal matrices) look right."


def report(diagnosis):
    """Returns the text that `numpy-transformer info FILE --check TEXT` prints."""
    blocks = [*diagnosis.notes]
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
    if diagnosis.notes and ABOVE not in said:
        said = f"{said} {SEE_ABOVE}"
    return said


def conclusion(diagnosis):
    """Returns the sentence after the findings."""
    number = len({trial.change.done for trial in diagnosis.trials if trial.found == len(diagnosis.findings)})
    beginning = "After that, n" if diagnosis.findings else "N"
    if not math.isfinite(diagnosis.loss):
        return "The loss is not finite, so changes cannot be compared."
    if diagnosis.repeats:
        return REPEATS.format(different=diagnosis.different)
    if diagnosis.knows and diagnosis.hint:
        return (f"{beginning}one of the {number} changes tried clearly lowers the loss, but one may be needed: "
                f"{small_gain(diagnosis.hint)}")
    if diagnosis.knows and diagnosis.open_question:
        question = diagnosis.open_question
        return (f"{beginning}one of the {number} changes tried clearly lowers the loss, but {diagnosis.num_tokens:,} "
                f"tokens are too few to be sure: with {question.change.done} it falls from {question.before:.3f} to "
                f"{question.after:.3f}, which may be chance. Try a longer text.")
    if diagnosis.findings and diagnosis.knows:
        return f"{beginning}one of the {number} changes tried clearly lowers the loss further."
    if diagnosis.findings:
        return "The loss is still near that of guessing: there is another mistake, or this is not the right one."
    if diagnosis.knows and not diagnosis.knows_well:
        return f"{beginning}one of the {number} changes tried clearly lowers the loss. {KNOWS_LITTLE}"
    if diagnosis.knows:
        shown = ABOVE if diagnosis.notes else NO_SIGN
        return (f"{beginning}one of the {number} changes tried clearly lowers the loss, so {shown}{faint(diagnosis)}"
                f"{less_sure(diagnosis)}")
    return UNKNOWN + (NOT_COPIED if diagnosis.task == COPIED else "")


def small_gain(hint):
    return (f"with {hint.change.done} the loss falls from {hint.before:.3f} to {hint.after:.3f}. If that is a mistake, "
            f"{hint.change.verdict}; but a sound model may also gain from a change, on a text of another kind than "
            "those that it was trained on.")


def less_sure(diagnosis):
    """Returns a sentence about visibly lower losses that are no finding."""
    lowest = min((trial.loss for trial in diagnosis.trials), default=math.inf)
    return LESS_SURE if lowest < 0.99 * diagnosis.loss else ""


def faint(diagnosis):
    """Returns a sentence about changes whose effect is too small to tell which is right."""
    effects = [abs(trial.loss - diagnosis.loss) for trial in diagnosis.trials if trial.change.topic in FAINT]
    effects = [effect for effect in effects if effect < 0.01]
    if not effects:
        return ""
    return (f" {len(effects)} of them (eps, kind of activation) change it by {max(effects):.4f} at most, so this text "
            "cannot tell which of these is right.")


def topic_table(diagnosis):
    """Returns a table of the best change of each topic, tried on the model as it was loaded."""
    best = {}
    for trial in diagnosis.trials:
        if trial.found == 0 and trial.loss < best.get(trial.change.topic, (math.inf,))[0]:
            best[trial.change.topic] = trial.loss, trial.change.done
    rows = [("loss", "with (the best change of each kind)"), (f"{diagnosis.loss:.3f}", "the model as it is")]
    rows += [(f"{loss:.3f}", done) for loss, done in sorted(best.values())]
    width = max(len(loss) for loss, _ in rows)
    return "\n".join(f"{loss:>{width}}  {done}" for loss, done in rows)
