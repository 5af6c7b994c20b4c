"""Mistakes in soft caps: their formula, and their place before the mask."""

import numpy as np

from ..layers import RescaledAttention, SoftCap
from ..layers.masks import fit_mask
from .bug import Source, bug


@bug("cap-after-the-mask",
     Source("onnx/onnx", path="onnx/reference/ops/op_attention.py", place="_compute_attention",
            reference="issue 7865, fixed by pull request 7867"),
     symptom="A hidden score of -inf becomes -c, so with a small cap every token sees all later ones. With the usual cap of 50 "
             "it is rarely noticed.",
     training="With a cap of 3, it falls almost as usual, and ends slightly above the correct model.",
     caught_by=("fully masked row", "attention reference", "attention reference, large inputs", "causality", "padding",
                "key-value cache"),
     samples=("RescaledAttention, capped", "language model, capped"))
class CapAfterTheMask(RescaledAttention):
    """The scores are capped after the mask, so that hidden ones become finite"""

    def forward(self, q, k, v, mask=None):
        scores = self.score(q, k)
        if mask is not None:
            scores = np.where(fit_mask(mask, scores.shape), scores, -np.inf)
        for change in self.score_changes:                   # right: before the mask
            scores = change(scores)
        self.weights = self.softmax(scores)
        return self.average(self.dropout(self.weights), v)


@bug("cap-times-logits",
     Source("unslothai/unsloth-zoo", "4b2b170", "unsloth_zoo/rl_replacements.py",
            "line 97, chunked_hidden_states_selective_log_softmax", "fixed by pull request 593"),
     symptom="Large scores are not capped, and negative ones become positive.",
     training="It falls, but ends far above the correct model.",
     caught_by=("soft cap reference", "soft cap reference, large inputs"),
     samples=("SoftCap", "language model, capped"))
class CapTimesLogits(SoftCap):
    """The hyperbolic tangent is multiplied by the scores instead of the cap"""

    def forward(self, x):
        y = np.tanh(x / self.cap)
        self.remember(x, y)
        return x * y                                        # right: self.cap * y

    def backward(self, dy):
        x, y = self.recall()
        return dy * (y + x / self.cap * (1 - y * y))
