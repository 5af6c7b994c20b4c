"""Mistakes in scaled dot-product attention: its scale, its mask, its three gradients."""

import math

import numpy as np

from ..layers import ScaledDotProductAttention
from ..layers.masks import fit_mask
from .bug import bug


class PlainAttention(ScaledDotProductAttention):
    """Attention in its shortest form; `mask_scores`, `unmask` and `gradients` are to be got wrong."""

    def forward(self, q, k, v, mask=None):
        group = q.shape[-3] // k.shape[-3]                  # neighbouring query heads that share a key head
        q, k, v = q / math.sqrt(q.shape[-1]), k.repeat(group, -3), v.repeat(group, -3)
        scores = q @ k.mT
        mask = np.ones(scores.shape, bool) if mask is None else fit_mask(mask, scores.shape)
        self.weights = self.softmax(self.mask_scores(scores, mask))
        p = self.dropout(self.weights)
        self.remember(q, k, v, p, mask, group)
        return p @ v

    def backward(self, dy):
        q, k, v, p, mask, group = self.recall()             # q is q / sqrt(d)
        ds = self.unmask(self.softmax.backward(self.dropout.backward(dy @ v.mT)), mask)
        dq, dk, dv = self.gradients(q, k, v, p, ds, dy)
        return dq, *(d.reshape(*d.shape[:-3], -1, group, *d.shape[-2:]).sum(-3) for d in (dk, dv))

    def mask_scores(self, scores, mask):
        return np.where(mask, scores, -np.inf)

    def unmask(self, ds, mask):
        return ds

    def gradients(self, q, k, v, p, ds, dy):
        return ds @ k / math.sqrt(q.shape[-1]), ds.mT @ q, p.mT @ dy


@bug("no-scale", "a version of krocki's NumPy Transformer",
     symptom="scores grow with the width of a head; the wider it is, the nearer to one-hot the weights",
     training="with narrow heads, as here, as good as the right one, at first even quicker",
     caught_by=("attention reference",))
class NoScale(ScaledDotProductAttention):
    """The scores are not divided by sqrt(d)"""

    def forward(self, q, k, v, mask=None):
        return super().forward(q * math.sqrt(q.shape[-1]), k, v, mask)          # undoes the division

    def backward(self, dy):
        dq, dk, dv = super().backward(dy)
        return dq * math.sqrt(dq.shape[-1]), dk, dv


@bug("scale-of-the-model", "a version of samuel500's NumPy GPT",
     symptom="right with one head; with H heads all weights are too even",
     training="with two heads the losses fall almost together",
     caught_by=("attention reference",))
class ScaleOfTheModel(ScaledDotProductAttention):
    """The scores are divided by the root of d_model, not of a head's width"""

    def forward(self, q, k, v, mask=None):
        return super().forward(q / math.sqrt(q.shape[-3]), k, v, mask)          # d times H is d_model

    def backward(self, dy):
        dq, dk, dv = super().backward(dy)
        return dq / math.sqrt(dq.shape[-3]), dk, dv


@bug("mask-read-upside-down", "a version of TinyTorch",
     symptom="in float32 attention is a plain mean over what may be seen, whatever the scores are",
     training="falls late and less far: the scores have to grow until float32 can tell them apart",
     caught_by=("gradient check", "float32 agrees with float64", "attention reference"))
class MaskMisread(PlainAttention):
    """A mask of 0 (may attend) and -inf is read as one of 1 and 0"""

    def mask_scores(self, scores, mask):
        mask = np.where(mask, 0, -np.inf).astype(scores.real.dtype)
        return scores + (1 - mask) * scores.real.dtype.type(-1e9)               # swallows the scores that count


@bug("mask-added", "a version of llama-from-scratch",
     symptom="every token sees every later one; the training loss becomes too good",
     training="falls far below what a model can reach that does not see the answer",
     caught_by=("fully masked row", "zero query", "attention reference", "attention reference, large inputs", "causality", "padding",
                "key-value cache"))
class MaskAdded(PlainAttention):
    """The mask of 1 and 0 is added to the scores"""

    def mask_scores(self, scores, mask):
        return scores + mask                                # right: -inf where the mask is False


@bug("zero-scores-hidden", "a version of samuel500's NumPy GPT",
     symptom="a score that happens to be exactly 0 is hidden",
     training="exactly the same losses: no score happens to be 0",
     caught_by=("zero query",))
class ZeroScoresHidden(PlainAttention):
    """Scores are multiplied by the mask, and then every 0 becomes -inf"""

    def mask_scores(self, scores, mask):
        scores = scores * mask
        return np.where(scores == 0, -np.inf, scores)       # right: where the mask is False


class Filled(PlainAttention):
    """Hidden scores become a number, which is a constant in backward."""

    fill = 0.0

    def mask_scores(self, scores, mask):
        return np.where(mask, scores, self.fill)

    def unmask(self, ds, mask):
        return np.where(mask, ds, 0)


@bug("mask-of-minus-ten-thousand", "a version of minGPT",
     symptom="a model that learns scores below -10,000 sees what is hidden, and reaches a loss of 0",
     training="exactly the same losses, as long as the scores stay small",
     caught_by=("fully masked row", "attention reference, large inputs", "causality", "key-value cache"))
class MaskOfMinusTenThousand(Filled):
    """Hidden scores become -10,000, which is not small enough for ever"""

    fill = -1e4                                             # right: -inf


@bug("mask-of-almost-zero", "a version of minGPT",
     symptom="every token sees every later one; the training loss becomes too good",
     training="falls faster and lower than the right one: it sees the answers, among all other letters",
     caught_by=("fully masked row", "zero query", "attention reference", "attention reference, large inputs", "causality", "padding",
                "key-value cache"))
class MaskOfAlmostZero(Filled):
    """Hidden scores become 1e-10, for -1e10"""

    fill = 1e-10                                            # right: -inf


@bug("mask-forgotten-in-backward", "a version of TSFM-lecture-3",
     symptom="forward hides the future, the gradient flows into it",
     training="ends little below a guess among eight letters, which has 2.08",
     caught_by=("gradient check", "fully masked row"))
class UnmaskedBackward(PlainAttention):
    """Backward computes the weights anew, without the mask"""

    def recall(self):
        q, k, v, _, *others = super().recall()
        self.softmax.recall()
        return q, k, v, self.softmax(q @ k.mT), *others     # right: the weights of forward


@bug("key-gradient-scrambled", "a version of numpyGPT",
     symptom="the keys learn in a direction that has little to do with their gradient",
     training="falls, and ends far above the right one",
     caught_by=("gradient check",))
class KeyGradientScrambled(PlainAttention):
    """dk is computed transposed, and a reshape makes it fit"""

    def gradients(self, q, k, v, p, ds, dy):
        dk = (q.mT @ ds).reshape(k.shape)                   # right: its transpose, ds.mT @ q
        return ds @ k / math.sqrt(q.shape[-1]), dk, p.mT @ dy


@bug("values-before-dropout", "a version of Ultron09/Numpy-Transformer",
     symptom="right without dropout; with it dv is that of another network",
     training="falls almost as usual, and ends above the right one, how far depends on the seed",
     caught_by=("gradient check", "used twice in one forward"))
class ValuesBeforeDropout(PlainAttention):
    """dv is made with the weights as they were before dropout"""

    def gradients(self, q, k, v, p, ds, dy):
        return ds @ k / math.sqrt(q.shape[-1]), ds.mT @ q, self.weights.mT @ dy     # right: p.mT @ dy


@bug("attention-over-features", "a version of krocki's NumPy Transformer",
     symptom="features attend to features: every output follows every token; lengths have to be equal",
     training="falls far below what a model can reach that does not see the answer",
     caught_by=("key bias has no gradient", "multi-head reference", "causality", "padding", "key-value cache"),
     samples=("SelfAttention", "language model"))
class OverFeatures(ScaledDotProductAttention):
    """The scores are qᵀ k, features by features, without a scale and without a mask"""

    def forward(self, q, k, v, mask=None):
        self.weights = self.softmax(q.mT @ k)               # right: q @ k.mT, tokens by tokens
        p = self.dropout(self.weights)
        self.remember(q, k, v, p)
        return v @ p.mT

    def backward(self, dy):
        q, k, v, p = self.recall()
        ds = self.softmax.backward(self.dropout.backward(dy.mT @ v))
        return k @ ds.mT, q @ ds, dy @ p
