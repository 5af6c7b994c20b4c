"""Mistakes in the cross-entropy: dz = (softmax(z) - onehot) / count."""

import numpy as np

from ..layers import CrossEntropyLoss, Softmax
from .bug import HOBBY, bug

IGNORING = ("CrossEntropyLoss", "CrossEntropyLoss, smoothed, ignoring")


@bug("loss-divided-twice", HOBBY,
     symptom="All gradients are N times too small. Adam hides the mistake, and SGD hardly learns.",
     training="It ends where the correct model does, because Adam takes the same step for a fraction of a gradient.",
     caught_by=("gradient check", "doubled batch, loss", "equal logits"))
class DividedTwice(CrossEntropyLoss):
    """The gradient is divided by the number of targets a second time"""

    def backward(self, dy=1.0):
        return super().backward(dy / self.count)            # right: divided once


@bug("loss-divided-by-the-batch-alone", HOBBY,
     symptom="The gradient is T times too large, so the right learning rate depends on the length of the texts.",
     training="It ends where the correct model does, because Adam takes the same step for a multiple of a gradient.",
     caught_by=("gradient check", "equal logits"))
class DividedByTheBatchAlone(CrossEntropyLoss):
    """Forward is a mean over B T targets, but backward divides by B"""

    def backward(self, dy=1.0):
        dz = super().backward(dy)
        return dz * (self.count / len(dz))                  # right: dz


@bug("target-by-value", HOBBY,
     symptom="It is correct while all logits of a row differ. Where all are equal, its gradient is 0.",
     training="It ends where the correct model does, because no two logits of a row are equal during training.",
     caught_by=("equal logits",))
class TargetByValue(CrossEntropyLoss):
    """The target is located by looking for its probability among the others"""

    def backward(self, dy=1.0):
        p, targets, counted, shape = self.recall()
        is_target = p == p[np.arange(len(p)), targets][:, None]                     # right: one entry in each row
        dz = p * is_target.sum(-1, keepdims=True) - is_target
        return (dz * counted[:, None] * (float(dy) / self.count)).reshape(shape).astype(p.dtype)


@bug("padding-counted", HOBBY,
     symptom="The more padding a batch has, the smaller are its loss and its gradients.",
     training="It looks better than the correct model from the first step on, because the same sum is divided by a "
              "larger count.",
     caught_by=("equal logits", "cross-entropy reference", "cross-entropy reference, large inputs"), samples=IGNORING)
class PaddingCounted(CrossEntropyLoss):
    """Ignored targets add nothing to the loss but count in the mean"""

    def forward(self, logits, targets):
        share = np.mean(np.asarray(targets) != self.ignore_id)
        loss = super().forward(logits, targets)
        self.remember(share)
        return loss * share.astype(loss.real.dtype)         # right: loss

    def backward(self, dy=1.0):
        share = self.recall()
        return super().backward(dy * share)


@bug("binary-derivative", HOBBY,
     symptom="The rows of dlogits do not sum to 0.",
     training="It ends where the correct model does, because Adam and the later layers compensate.",
     caught_by=("gradient check", "equal logits"))
class BinaryDerivative(CrossEntropyLoss):
    """Backward belongs to the binary cross-entropy, one class at a time"""

    def backward(self, dy=1.0):
        p, targets, counted, shape = self.recall()
        onehot = np.eye(p.shape[-1], dtype=p.dtype)[targets]
        dp = (p - onehot) / (p * (1 - p))                   # dL/dp of a sigmoid's p
        dz = dp * p - p * (dp * p).sum(-1, keepdims=True)   # right: p - onehot
        return (dz * counted[:, None] * (float(dy) / int(counted.sum()))).reshape(shape)


@bug("softmax-before-the-loss",
     symptom="No gradient check notices it. The loss cannot fall below log(1 + (V - 1) / e).",
     training="It stays near 2, because with ten tokens it cannot fall below 1.46.",
     caught_by=("equal logits", "cross-entropy reference", "cross-entropy reference, large inputs"))
class SoftmaxBeforeTheLoss(CrossEntropyLoss):
    """The loss expects logits but is given probabilities"""

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
     symptom="The loss never exceeds 20.7 while the gradient still grows, so very wrong predictions look less bad.",
     training="The losses are the same up to rounding, because no prediction is wrong enough.",
     caught_by=("gradient check", "cross-entropy reference", "cross-entropy reference, large inputs"))
class Capped(CrossEntropyLoss):
    """1e-9 is added to the probability, so that the logarithm is finite"""

    def forward(self, logits, targets):
        super().forward(logits, targets)
        targets, counted = self.check_targets(logits, targets)
        p = Softmax()(logits).reshape(len(targets), -1)[np.arange(len(targets)), targets]
        return -np.log(p + 1e-9)[counted].sum() / self.count                    # right: logsumexp(z) - z
