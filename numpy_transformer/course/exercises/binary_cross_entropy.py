"""Binary cross-entropy, the loss of a yes-or-no question, and its backward pass."""

import math

import numpy as np

from ...layers import BinaryCrossEntropyLoss
from .definition import Exercise, Mistake


def binary_cross_entropy(logits, targets):
    """The loss of a yes-or-no question: the mean of -(t log p + (1 - t) log(1 - p)), where p = 1 / (1 + exp(-z)).

    logits: z, any shape. They may be as large as several thousand or as small as minus several thousand; the loss must
        be finite and exact for all of them.
    targets: t, the same shape, numbers from 0 to 1, most of them 0 or 1.
    Return loss: one number, the mean over all entries. log is the natural logarithm.
    """
    softplus = np.maximum(logits, 0) + np.log1p(np.exp(-np.abs(logits)))
    return (softplus - targets * logits).mean()


def binary_cross_entropy_backward(logits, targets):
    """The gradient of the loss of exercise 11.3, the mean of -(t log p + (1 - t) log(1 - p)), p = 1 / (1 + exp(-z)).

    logits: z, any shape. They may be as large as several thousand or as small as minus several thousand.
    targets: t, the same shape, numbers from 0 to 1, most of them 0 or 1.
    Return dlogits: dL/dz, in the shape and dtype of logits, finite for all of them.
    """
    p = (1 + np.tanh(logits / 2)) / 2
    return (p - targets) / logits.size


def questions(rng, n):
    certain = rng.integers(0, 2, n.lead).astype(float)
    return 2 * rng.standard_normal(n.lead), np.where(rng.random(n.lead) < 0.3, rng.random(n.lead), certain)


def confident(rng):
    """The logits are at least as large as these: exp(40) + 1 is exp(40) in float64, and exp(710) overflows."""
    cases = [("confident and right", [40.0, -40, 2000, -2000, 1.5], [1.0, 0, 1, 0, 1]),
             ("confident and wrong, large negative logits for yes", [[-3000, 0.5], [1, -900]], [[1.0, 1], [0.25, 1]]),
             ("confident and wrong, a large positive logit for no", [[3000, 0.5, -1]], [[0.0, 0, 0.75]]),
             ("logits that could be probabilities", [[0.1, 0.6, 0.3], [0.7, 0.2, 0.5]], [[0.0, 1, 0.2], [0, 1, 1]])]
    return [(note, (logits * rng.uniform(1, 1.3, np.shape(logits)), np.array(targets)))
            for note, logits, targets in cases]


def by_loss_backward(logits, targets):
    criterion = BinaryCrossEntropyLoss()
    criterion(logits, targets)
    return criterion.backward()


SOFTPLUS = "np.maximum(logits, 0) + np.log1p(np.exp(-np.abs(logits)))"
LOSSES = "(softplus - targets * logits)"
LINE = f"softplus = {SOFTPLUS}"
BY_EXP = "1 / (1 + np.exp(-logits))"
P = f"p = {BY_EXP}"
BY_P = "-(targets * np.log(p) + (1 - targets) * np.log(1 - p))"
SIGMOID = "(1 + np.tanh(logits / 2)) / 2"
ROUNDED = "You round the targets. A target of 0.3 is a probability, and both terms of the loss count for it."



def by_p(losses, p=P):
    """Returns the edits of a student who computes p first and then these losses."""
    return {LINE: p, LOSSES: f"({losses})"}


def not_quite(letters, how, edits):
    """Returns the mistakes of avoiding log(0) by a small number.

    Parameters:
        letters : one for the name of each mistake
        how : the first words of their explanation
        edits : function (small number) that returns the edits
    """
    def explanation(small):
        return (f"{how} to avoid log(0). The loss then cannot exceed {math.ceil(-math.log(small))}, and its gradient "
                "is 0 where the model is most confident and wrong. Computed from the logits, the loss needs no such "
                "number.")
    smalls = 1e-12, 1e-7, 1e-8, 1e-9, 1e-10, 1e-15, 1e-6, 1e-5
    return [Mistake(f"BCE-4{letter}", edits(small), explanation(small)) for letter, small in zip(letters, smalls)]


LOSS = (
    Mistake("BCE-1", {".mean()": ".sum()"},
            "You return the sum of the losses instead of their mean."),
    Mistake("BCE-2", {".mean()": ".sum() / len(logits)"},
            "You divide by the length of the first axis only. The mean is over all entries."),
    Mistake("BCE-2b", {".mean()": ".sum() / logits.shape[-1]"},
            "You divide by the length of the last axis only. The mean is over all entries."),
    Mistake("BCE-3", by_p(BY_P),
            "For a large logit, p becomes exactly 0 or 1 and its logarithm is -inf, or you get 0 times -inf. Simplify "
            "on paper first: log p and log(1 - p) are simple functions of z."),
    *not_quite("abcdefgh", "You clip p", lambda small: by_p(BY_P, f"{P}\n    p = np.clip(p, {small}, 1 - {small})")),
    *not_quite("ijklmnop", "You add a small number to p and to 1 - p", lambda small: by_p(
        f"-(targets * np.log(p + {small}) + (1 - targets) * np.log(1 - p + {small}))")),
    Mistake("BCE-5", {SOFTPLUS: "np.log1p(np.exp(logits))"},
            "exp overflows above about 709 in float64 and 88 in float32. Move the large part out of the logarithm "
            "first, as softmax does when it subtracts the maximum."),
    Mistake("BCE-6", {"return ": "return -"},
            "Your sign is reversed. This loss is never negative."),
    Mistake("BCE-7", {"targets * logits": "(1 - targets) * logits"},
            "You swapped yes and no. For t = 1, a larger logit must give a smaller loss."),
    Mistake("BCE-8", {LOSSES: "(targets * (softplus - logits))"},
            "You compute -t log p only, so the model learns nothing where t = 0. The term -(1 - t) log(1 - p) is "
            "missing."),
    Mistake("BCE-9", {".mean()": ""}, "You return one loss per entry. The loss is their mean."),
    Mistake("BCE-10", {".mean()": ".mean() / np.log(2)"},
            "Your loss is in bits, because you use log2. This loss uses the natural logarithm."),
    Mistake("BCE-11", by_p(BY_P, "p = logits"),
            "You use the logits as probabilities, and the logarithm of a negative number is NaN. p is the sigmoid of "
            "the logit."),
    Mistake("BCE-12", {"np.exp(-np.abs(logits))": "np.exp(-logits)"},
            "You compute exp(-z) instead of exp(-|z|). For negative z the large part is then counted twice, and below "
            "about -709 exp overflows."),
    Mistake("BCE-13", {"np.maximum(logits, 0) + ": ""},
            "The term max(z, 0) is missing. log(1 + exp(-|z|)) equals log(1 + exp(z)) for negative z only."),
    Mistake("BCE-14", {"    softplus =": "    logits = (1 + np.tanh(logits / 2)) / 2\n    softplus ="},
            "You apply the sigmoid twice. The formula in terms of z already contains it."),
    Mistake("BCE-15", {" + np.log1p(np.exp(-np.abs(logits)))": ""},
            "The logarithm is missing. max(z, 0) approximates log(1 + exp(z)) only far from 0."),
    Mistake("BCE-15b", {"np.log1p(np.exp(-np.abs(logits)))": "np.exp(-np.abs(logits))"},
            "The logarithm is missing: log(1 + exp(-|z|)) is not exp(-|z|)."),
    Mistake("BCE-16", {LOSSES: "np.logaddexp(0, -targets * logits)"},
            "log(1 + exp(-t z)) is the loss for targets of -1 and 1. Here the target for no is 0."),
    Mistake("BCE-17", {"targets * logits": "np.round(targets) * logits"}, ROUNDED),
    Mistake("BCE-7b", by_p("-((1 - targets) * np.log(p) + targets * np.log(1 - p))"),
            "You swapped yes and no: log p belongs to t. Besides, p becomes exactly 0 or 1 for a large logit; "
            "simplify the logarithms on paper first.", twin="BCE-7c"),
    Mistake("BCE-7c", by_p(BY_P, "p = 1 / (1 + np.exp(logits))"),
            "The sign in your sigmoid is wrong: 1 / (1 + exp(z)) falls, so it is the probability of no.",
            twin="BCE-7b"),
    Mistake("BCE-8b", by_p("-targets * np.log(p)"),
            "You compute -t log p only; the term -(1 - t) log(1 - p) is missing. Besides, p becomes exactly 0 for a "
            "large negative logit; simplify the logarithms on paper first."),
    Mistake("BCE-8c", by_p("-(1 - targets) * np.log(1 - p)"),
            "You compute -(1 - t) log(1 - p) only; the term -t log p is missing. Besides, p becomes exactly 1 for a "
            "large logit; simplify the logarithms on paper first."),
    Mistake("BCE-12b", {"np.exp(-np.abs(logits))": "np.exp(np.abs(logits))"},
            "You compute exp(|z|), which overflows for large logits. After the large part has been moved out of the "
            "logarithm, exp(-|z|) is left."),
    Mistake("BCE-13b", {"np.maximum(logits, 0)": "np.maximum(-logits, 0)"},
            "You use max(-z, 0). log(1 + exp(z)) grows with z, so its large part is max(z, 0)."),
    Mistake("BCE-18", {"softplus - targets": "softplus + targets"},
            "You add t z. -log p is log(1 + exp(z)) minus z."),
    Mistake("BCE-19", by_p("-(targets * np.log(p) - (1 - targets) * np.log(1 - p))"),
            "You subtract the second term. Both terms, t log p and (1 - t) log(1 - p), are added before the minus "
            "sign."),
    Mistake("BCE-20", by_p("(p - targets) ** 2"),
            "This is the squared error of p. The exercise asks for cross-entropy, with logarithms."),
    Mistake("BCE-21", {" - targets * logits": ""},
            "You compute log(1 + exp(z)) only, which is the loss where t = 0. The part that depends on t is missing."),
    Mistake("BCE-21b", {"targets * logits": "logits"},
            "You compute -log p for every entry, which is the loss where t = 1. t is missing."),
    Mistake("BCE-5b", {LOSSES: "(np.log1p(np.exp(-logits)) + (1 - targets) * logits)"},
            "exp(-z) overflows below about -709 in float64 and -88 in float32. Move the large part out of the "
            "logarithm, so that exp never gets a positive number."),
    Mistake("BCE-9b", {".mean()": ".mean(-1)"},
            "You take the mean over the last axis only. The loss is one number, the mean over all entries."),
    Mistake("BCE-9c", {".mean()": ".mean(0)"},
            "You take the mean over the first axis only. The loss is one number, the mean over all entries."),
    Mistake("BCE-10b", {".mean()": ".mean() / np.log(10)"},
            "You use log10. This loss uses the natural logarithm."),
    Mistake("BCE-13c", {"0) + np.log1p": "0) - np.log1p"},
            "You subtract the logarithm. log(1 + exp(z)) is larger than max(z, 0), so it is added."),
    Mistake("BCE-17b", {LOSSES: "np.where(targets == 1, softplus - logits, softplus)"},
            "You treat every target except 1 as no. A target of 0.3 is a probability, and both terms of the loss "
            "count for it."),
    Mistake("BCE-17c", by_p("-np.where(targets == 1, np.log(p), np.log(1 - p))"),
            "You treat every target except 1 as no, but a target of 0.3 is a probability. Besides, p becomes exactly "
            "0 or 1 for a large logit."),
    Mistake("BCE-22", by_p(BY_P, "p = (1 + np.tanh(logits)) / 2"),
            "(1 + tanh(z)) / 2 is the sigmoid of 2 z, not of z. Besides, p becomes exactly 0 or 1 for a large logit."),
    Mistake("BCE-23", {LINE: f"logits = np.clip(logits, -500, 500)\n    {LINE}"},
            "You clip the logits to avoid an overflow. The loss of a logit of -2000 is then too small, and it must be "
            "exact. There is a form in which exp never overflows."),
)
LOSS_BACKWARD = (
    Mistake("BCB-1", {" / logits.size": ""},
            "You do not divide the gradient by the number of entries, although the loss is their mean."),
    Mistake("BCB-2", {"logits.size": "len(logits)"},
            "You divide by the length of the first axis only. The mean is over all entries."),
    Mistake("BCB-3", {"p - targets": "targets - p"},
            "Your sign is reversed. Where p is above the target, a larger logit gives a larger loss."),
    Mistake("BCB-4", {"(p - targets)": "(p - targets) * p * (1 - p)"},
            "You multiply by p (1 - p), as for a squared error of a sigmoid. In this loss the derivative of the "
            "logarithm cancels that factor, so a model that is confident and wrong has a large gradient."),
    Mistake("BCB-5", {SIGMOID: BY_EXP, "(p - targets)": "(p - targets) / (p * (1 - p))"},
            "You return the gradient with respect to p. Continue through the sigmoid to the logit."),
    Mistake("BCB-6", {SIGMOID: "np.exp(logits) / (1 + np.exp(logits))"},
            "exp overflows above about 709 in float64 and 88 in float32, and inf / inf is NaN. Other forms of the "
            "sigmoid avoid this quotient."),
    Mistake("BCB-7", {SIGMOID: "np.exp(logits - logits.max(-1, keepdims=True))\n    p = p / p.sum(-1, keepdims=True)"},
            "You use softmax, which makes the entries compete. Each entry is a separate question and needs a sigmoid."),
    Mistake("BCB-8", {SIGMOID: "logits"},
            "You subtract the target from the logit itself, as for a squared error. The sigmoid is missing."),
    Mistake("BCB-9", {"p - targets": "p - (1 - targets)"},
            "You swapped yes and no. For t = 1, a larger logit must give a smaller loss."),
    Mistake("BCB-10", {SIGMOID: "np.round((1 + np.tanh(logits / 2)) / 2)"},
            "You round p to 0 or 1. A model that is right but uncertain then learns nothing; the loss depends on p "
            "itself."),
    Mistake("BCB-11", {"(p - targets)": "targets * (p - 1)"},
            "You return the gradient of -t log p only, which is 0 where t = 0. The gradient of -(1 - t) log(1 - p) is "
            "missing."),
    Mistake("BCB-12", {"p - targets": "p - np.round(targets)"}, ROUNDED),
    Mistake("BCB-13", {"logits / 2": "logits"},
            "(1 + tanh(z)) / 2 is the sigmoid of 2 z, not of z."),
    Mistake("BCB-14", {"logits.size": "logits.shape[-1]"},
            "You divide by the length of the last axis only. The mean is over all entries."),
    Mistake("BCB-15", {SIGMOID: "np.tanh(logits / 2)"},
            "You use tanh, which is between -1 and 1. A probability is between 0 and 1."),
    Mistake("BCB-15b", {SIGMOID: "np.tanh(logits)"},
            "You use tanh, which is between -1 and 1. A probability is between 0 and 1, and comes from the sigmoid."),
    Mistake("BCB-16", {f"    p = {SIGMOID}": "    logits /= 2\n    p = (1 + np.tanh(logits)) / 2"},
            "logits /= 2 writes into the caller's array. logits / 2 makes a new one."),
    Mistake("BCB-13b", {SIGMOID: "1 + np.tanh(logits / 2)"},
            "1 + tanh(z / 2) lies between 0 and 2. The sigmoid is half of it."),
    Mistake("BCB-22", {"(p - targets)": "p"},
            "You return p / N. The target is missing: the gradient is 0 where p equals it."),
    Mistake("BCB-17", {SIGMOID: "1 / (1 + np.exp(logits))"},
            "The sign in your sigmoid is wrong: 1 / (1 + exp(z)) falls, so it is the probability of no."),
    Mistake("BCB-18", {SIGMOID: "1 / (1 - np.exp(-logits))"},
            "You write 1 - exp(-z). The denominator of the sigmoid is 1 + exp(-z)."),
    Mistake("BCB-19", {f"p = {SIGMOID}": f"p = np.clip({SIGMOID}, 1e-7, 1 - 1e-7)"},
            "You clip p. In this gradient nothing is divided by p, so nothing needs to be clipped."),
    Mistake("BCB-5b", {SIGMOID: BY_EXP, "(p - targets)": "((1 - targets) / (1 - p) - targets / p) * p * (1 - p)"},
            "This is the right derivative, but where p is exactly 0 or 1 it is 0 / 0, which is NaN. Simplify it on "
            "paper first."),
    Mistake("BCB-5c", {SIGMOID: BY_EXP, "(p - targets)": "-targets / p"},
            "You return the derivative of -t log p with respect to p. The term -(1 - t) log(1 - p) and the way through "
            "the sigmoid to the logit are missing."),
    Mistake("BCB-4b", {"(p - targets)": "p * (1 - p)"},
            "You return the derivative of the sigmoid. By the chain rule, the derivative of the loss multiplies it."),
    Mistake("BCB-11b", {"(p - targets)": "(1 - targets) * p"},
            "You return the gradient of -(1 - t) log(1 - p) only, which is 0 where t = 1. The gradient of -t log p is "
            "missing."),
    Mistake("BCB-20", {"(p - targets) / logits.size": "(p - targets).mean()"},
            "You return one number. The loss is a mean, but its gradient has one entry for each logit."),
    Mistake("BCB-4c", {"(p - targets)": "2 * (p - targets) * p * (1 - p)"},
            "This is the gradient of the squared error of p. In cross-entropy, the derivative of the logarithm cancels "
            "p (1 - p)."),
    Mistake("BCB-5e", {SIGMOID: BY_EXP, "(p - targets)": "-(targets / p + (1 - targets) / (1 - p)) * p * (1 - p)"},
            "The derivative of log(1 - p) with respect to p is -1 / (1 - p). You lose its sign."),
    Mistake("BCB-21", {"(p - targets)": "(p + targets)"},
            "You add the target. Where p equals the target, the gradient is 0."),
)

EXERCISES = [
    Exercise(
        "11.3", "Binary cross-entropy", minutes=15, lines=2,
        solution=binary_cross_entropy, reference=lambda logits, targets: BinaryCrossEntropyLoss()(logits, targets),
        inputs=questions, edges=confident, outputs=("loss",), mistakes=LOSS,
        invariants=(("the loss must not be negative", lambda inputs, outputs: np.minimum(outputs[0], 0)),),
        hints=("On paper, replace p by its formula in -log p and -log(1 - p). What is their difference?",
               "-log(1 - p) = log(1 + exp(z)), and -log p is the same minus z. For large z, exp(z) overflows, although "
               "log(1 + exp(z)) is almost equal to z.",
               "log(1 + exp(z)) = max(z, 0) + log(1 + exp(-|z|)), with np.log1p; subtract t z and take the mean."),
        alternatives={"logaddexp": {SOFTPLUS: "np.logaddexp(0, logits)"},
                      "two logarithms": {LOSSES: "(targets * np.logaddexp(0, -logits) + (1 - targets) * "
                                                 "np.logaddexp(0, logits))"},
                      "two branches": {SOFTPLUS: "np.where(logits > 0, logits + np.log1p(np.exp(-abs(logits))), "
                                                 "np.log1p(np.exp(-abs(logits))))"}}),
    Exercise(
        "11.4", "Binary cross-entropy, backward", minutes=10, lines=2,
        solution=binary_cross_entropy_backward, reference=by_loss_backward, inputs=questions, edges=confident,
        outputs=("dlogits",), mistakes=LOSS_BACKWARD,
        invariants=(("no entry of dlogits may exceed 1 / N in size",
                     lambda inputs, outputs: np.maximum(abs(outputs[0]) * outputs[0].size - 1, 0)),),
        hints=("In terms of z, the loss of one entry is log(1 + exp(z)) - t z. What are the derivatives of the two "
               "terms?",
               "The derivative of log(1 + exp(z)) is p, the sigmoid. For large z it must not become NaN by overflow.",
               "(p - t) divided by the number of entries, with p = (1 + tanh(z / 2)) / 2, which never overflows."),
        alternatives={"exp, which overflows where p is 0": {SIGMOID: "1 / (1 + np.exp(-logits))"},
                      "two branches": {SIGMOID: "np.where(logits > 0, 1, np.exp(-abs(logits))) / "
                                                "(1 + np.exp(-abs(logits)))"}}),
]
