"""Mistakes in the cross-entropy: dz = (softmax(z) - onehot) / count."""

import numpy as np

from ..layers import CrossEntropyLoss, Softmax
from .bug import bug

IGNORING = ("CrossEntropyLoss", "CrossEntropyLoss, smoothed, ignoring")


@bug("loss-divided-twice", "a version of AkiRusProd/numpy-transformer",
     symptom="all gradients are 1/N of what they should be; Adam hides it, SGD hardly learns",
     training="ends where the right one does: Adam takes the same step for a fraction of a gradient",
     caught_by=("gradient check", "doubled batch, loss", "equal logits"))
class DividedTwice(CrossEntropyLoss):
    """The gradient is divided by the number of targets a second time"""

    def backward(self, dy=1.0):
        return super().backward(dy / self.count)            # right: divided once


@bug("loss-divided-by-the-batch-alone", "a version of rziga/numpy-is-all-you-need",
     symptom="the gradient is T times too large: the learning rate that works depends on the length",
     training="ends where the right one does: Adam takes the same step for a multiple of a gradient",
     caught_by=("gradient check", "equal logits"))
class DividedByTheBatchAlone(CrossEntropyLoss):
    """Forward is a mean over B T targets, backward divides by B"""

    def backward(self, dy=1.0):
        dz = super().backward(dy)
        return dz * (self.count / len(dz))                  # right: dz


@bug("target-by-value", "a version of AkiRusProd/numpy-transformer",
     symptom="right while all logits of a row differ; where all are equal its gradient is 0",
     training="ends where the right one does: in training no two logits of a row are equal",
     caught_by=("equal logits",))
class TargetByValue(CrossEntropyLoss):
    """The target's place is found by looking for its probability among the others"""

    def backward(self, dy=1.0):
        p, targets, counted, shape = self.recall()
        found = p == p[np.arange(len(p)), targets][:, None]                     # right: one place in each row
        dz = p * found.sum(-1, keepdims=True) - found
        return (dz * counted[:, None] * (float(dy) / self.count)).reshape(shape).astype(p.dtype)


@bug("padding-counted", "a version of AkiRusProd/numpy-transformer",
     symptom="the loss of a batch with more padding is smaller, and so are its gradients",
     training="looks better than the right one from the first step on: the same sum over a larger count",
     caught_by=("equal logits", "cross-entropy reference", "cross-entropy reference, large inputs"), samples=IGNORING)
class PaddingCounted(CrossEntropyLoss):
    """Ignored targets add nothing, and yet they count in the mean"""

    def forward(self, logits, targets):
        share = np.mean(np.asarray(targets) != self.ignore_id)
        loss = super().forward(logits, targets)
        self.remember(share)
        return loss * share.astype(loss.real.dtype)         # right: loss

    def backward(self, dy=1.0):
        share = self.recall()
        return super().backward(dy * share)


@bug("binary-derivative", "a version of naye971012/numpy_transformer",
     symptom="the rows of dlogits do not sum to 0",
     training="ends where the right one does: Adam and the later layers make up for it",
     caught_by=("gradient check", "equal logits"))
class BinaryDerivative(CrossEntropyLoss):
    """Backward is that of the binary cross-entropy, one class at a time"""

    def backward(self, dy=1.0):
        p, targets, counted, shape = self.recall()
        onehot = np.eye(p.shape[-1], dtype=p.dtype)[targets]
        dp = (p - onehot) / (p * (1 - p))                   # dL/dp of a sigmoid's p
        dz = dp * p - p * (dp * p).sum(-1, keepdims=True)   # right: p - onehot
        return (dz * counted[:, None] * (float(dy) / int(counted.sum()))).reshape(shape)


@bug("softmax-before-the-loss",
     symptom="no gradient check sees it; the loss cannot fall below log(1 + (V - 1) / e)",
     training="stays near 2: with ten tokens it cannot fall below 1.46",
     caught_by=("equal logits", "cross-entropy reference", "cross-entropy reference, large inputs"))
class SoftmaxBeforeTheLoss(CrossEntropyLoss):
    """The loss takes logits, and is given probabilities"""

    def forward(self, logits, targets):
        p = np.exp(logits - logits.real.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        loss = super().forward(p, targets)                  # right: the logits
        self.remember(p)
        return loss

    def backward(self, dy=1.0):
        p = self.recall()
        dp = super().backward(dy)
        return p * (dp - (dp * p).sum(-1, keepdims=True))


@bug("loss-capped",
     symptom="a loss never exceeds 20.7, while the gradient goes on: very wrong predictions look less bad",
     training="the same losses up to rounding: no prediction is wrong enough",
     caught_by=("gradient check", "cross-entropy reference", "cross-entropy reference, large inputs"))
class Capped(CrossEntropyLoss):
    """1e-9 is added to the probability, so that the logarithm is finite"""

    def forward(self, logits, targets):
        super().forward(logits, targets)
        targets, counted = self.check_targets(logits, targets)
        p = Softmax()(logits).reshape(len(targets), -1)[np.arange(len(targets)), targets]
        return -np.log(p + 1e-9)[counted].sum() / self.count                    # right: logsumexp(z) - z
