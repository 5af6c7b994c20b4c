"""Mistakes in scaled dot-product attention: its scale, its mask, its three gradients."""

import math

import numpy as np

from ..layers import ScaledDotProductAttention
from ..layers.masks import fit_mask
from .bug import HOBBY, Source, bug


class PlainAttention(ScaledDotProductAttention):
    """Attention in its shortest correct form. Bugs override `mask_scores`, `unmask` or `gradients`."""

    def forward(self, q, k, v, mask=None):
        group = q.shape[-3] // k.shape[-3]                  # number of adjacent query heads that share a key head
        q, k, v = q / math.sqrt(q.shape[-1]), k.repeat(group, -3), v.repeat(group, -3)
        scores = q @ k.mT
        for change in self.score_changes:
            scores = change(scores)
        mask = np.ones(scores.shape, bool) if mask is None else fit_mask(mask, scores.shape)
        self.weights = self.softmax(self.mask_scores(scores, mask))
        p = self.dropout(self.weights)
        self.remember(q, k, v, p, mask, group)
        return p @ v

    def backward(self, dy):
        q, k, v, p, mask, group = self.recall()             # q is q / sqrt(d)
        ds = self.unmask(self.softmax.backward(self.dropout.backward(dy @ v.mT)), mask)
        for change in reversed(self.score_changes):
            ds = change.backward(ds)
        dq, dk, dv = self.gradients(q, k, v, p, ds, dy)
        return dq, *(d.reshape(*d.shape[:-3], -1, group, *d.shape[-2:]).sum(-3) for d in (dk, dv))

    def mask_scores(self, scores, mask):
        return np.where(mask, scores, -np.inf)

    def unmask(self, ds, mask):
        return ds

    def gradients(self, q, k, v, p, ds, dy):
        return ds @ k / math.sqrt(q.shape[-1]), ds.mT @ q, p.mT @ dy


@bug("no-scale", HOBBY,
     symptom="The scores grow with the width of a head, so wide heads have almost one-hot weights.",
     training="With heads as narrow as here it works as well as the correct model, and at first even faster.",
     caught_by=("attention reference",))
class NoScale(ScaledDotProductAttention):
    """The scores are not divided by sqrt(d)"""

    def forward(self, q, k, v, mask=None):
        return super().forward(q * math.sqrt(q.shape[-1]), k, v, mask)          # undoes the division

    def backward(self, dy):
        dq, dk, dv = super().backward(dy)
        return dq * math.sqrt(dq.shape[-1]), dk, dv


@bug("scale-of-the-model", HOBBY,
     symptom="It is correct with one head. With H heads, all weights are too uniform.",
     training="With two heads, the two losses fall almost together.",
     caught_by=("attention reference",))
class ScaleOfTheModel(ScaledDotProductAttention):
    """The scores are divided by sqrt(d_model) instead of the square root of a head's width"""

    def forward(self, q, k, v, mask=None):
        return super().forward(q / math.sqrt(q.shape[-3]), k, v, mask)          # d times H is d_model

    def backward(self, dy):
        dq, dk, dv = super().backward(dy)
        return dq / math.sqrt(dq.shape[-3]), dk, dv


@bug("mask-read-upside-down",
     Source("MLSysBook/TinyTorch", "c4d0bdb", "src/13_transformers/13_transformers.py", "GPT._create_causal_mask",
            "fixed in harvard-edge/cs249r_book, pull request 1785"),
     symptom="In float32, attention is the plain mean of the visible values, whatever the scores are.",
     training="It falls late and not as far: the scores have to grow until float32 can distinguish them.",
     caught_by=("gradient check", "float32 agrees with float64", "attention reference"))
class MaskMisread(PlainAttention):
    """A mask of 0 (visible) and -inf (hidden) is read as a mask of 1 and 0"""

    def mask_scores(self, scores, mask):
        mask = np.where(mask, 0, -np.inf).astype(scores.real.dtype)
        return scores + (1 - mask) * scores.real.dtype.type(-1e9)               # rounds away the visible scores


@bug("mask-added", "a published LLaMA tutorial",
     symptom="Every token sees all later ones, and the training loss becomes too good.",
     training="It falls far below what a model can reach without seeing the answer.",
     caught_by=("fully masked row", "zero query", "attention reference", "attention reference, large inputs",
                "causality", "padding", "key-value cache"))
class MaskAdded(PlainAttention):
    """A mask of 1 and 0 is added to the scores"""

    def mask_scores(self, scores, mask):
        return scores + mask                                # right: -inf where the mask is False


@bug("zero-scores-hidden", HOBBY,
     symptom="A score that happens to be exactly 0 is hidden.",
     training="The losses are exactly the same, because no score happens to be 0.",
     caught_by=("zero query",))
class ZeroScoresHidden(PlainAttention):
    """The scores are multiplied by the mask, and then every 0 becomes -inf"""

    def mask_scores(self, scores, mask):
        scores = scores * mask
        return np.where(scores == 0, -np.inf, scores)       # right: where the mask is False


class Filled(PlainAttention):
    """Hidden scores are set to a number, which is a constant in backward."""

    fill = 0.0

    def mask_scores(self, scores, mask):
        return np.where(mask, scores, self.fill)

    def unmask(self, ds, mask):
        return np.where(mask, ds, 0)


@bug("mask-of-minus-ten-thousand",
     Source("huggingface/transformers", "215e068", "src/transformers/models/gpt2/modeling_gpt2.py", "line 207",
            "issue 17121"),
     symptom="A model that learns scores below -10,000 sees what is hidden, and reaches a loss of 0.",
     training="The losses are exactly the same as long as the scores stay small.",
     caught_by=("fully masked row", "attention reference, large inputs", "causality", "key-value cache"))
class MaskOfMinusTenThousand(Filled):
    """Hidden scores are set to -10,000, which is not always low enough"""

    fill = -1e4                                             # right: -inf


@bug("mask-of-almost-zero",
     Source("minGPT", reference="issue 10, in the top-k filter of its sampler, fixed by commit 8909e1b"),
     symptom="Every token sees all later ones, and the training loss becomes too good.",
     training="It falls faster and further than the correct model, because it sees the answers among the other "
              "letters.",
     caught_by=("fully masked row", "zero query", "attention reference", "attention reference, large inputs",
                "causality", "padding", "key-value cache"))
class MaskOfAlmostZero(Filled):
    """Hidden scores are set to 1e-10 instead of -1e10"""

    fill = 1e-10                                            # right: -inf


@bug("mask-forgotten-in-backward", HOBBY,
     symptom="Forward hides the future, but the gradient flows into it.",
     training="It ends only slightly below 2.08, the loss of guessing among eight letters.",
     caught_by=("gradient check", "fully masked row"))
class UnmaskedBackward(PlainAttention):
    """Backward recomputes the weights without the mask"""

    def recall(self):
        q, k, v, _, *others = super().recall()
        self.softmax.recall()
        return q, k, v, self.softmax(q @ k.mT), *others     # right: the weights of forward


@bug("key-gradient-scrambled", HOBBY,
     symptom="The keys learn in a direction that has little to do with their gradient.",
     training="It falls, but ends far above the correct model.",
     caught_by=("gradient check",))
class KeyGradientScrambled(PlainAttention):
    """dk is computed transposed, and a reshape makes it fit"""

    def gradients(self, q, k, v, p, ds, dy):
        dk = (q.mT @ ds).reshape(k.shape)                   # right: its transpose, ds.mT @ q
        return ds @ k / math.sqrt(q.shape[-1]), dk, p.mT @ dy


@bug("values-before-dropout", HOBBY,
     symptom="It is correct without dropout. With dropout, dv is the gradient of a different network.",
     training="It falls almost as usual and ends above the correct model; how far above depends on the seed.",
     caught_by=("gradient check", "used twice in one forward"))
class ValuesBeforeDropout(PlainAttention):
    """dv is computed with the weights before dropout"""

    def gradients(self, q, k, v, p, ds, dy):
        return ds @ k / math.sqrt(q.shape[-1]), ds.mT @ q, self.weights.mT @ dy     # right: p.mT @ dy


@bug("attention-over-features", HOBBY,
     symptom="Features attend to features, so every output depends on every token, and all lengths have to be equal.",
     training="It falls far below what a model can reach without seeing the answer.",
     caught_by=("key bias has no gradient", "multi-head reference", "causality", "padding", "key-value cache"),
     samples=("SelfAttention", "language model"))
class OverFeatures(ScaledDotProductAttention):
    """The scores are qᵀ k, between features, without a scale and without a mask"""

    def forward(self, q, k, v, mask=None):
        self.weights = self.softmax(q.mT @ k)               # right: q @ k.mT, between tokens
        p = self.dropout(self.weights)
        self.remember(q, k, v, p)
        return v @ p.mT

    def backward(self, dy):
        q, k, v, p = self.recall()
        ds = self.softmax.backward(self.dropout.backward(dy.mT @ v))
        return k @ ds.mT, q @ ds, dy @ p
