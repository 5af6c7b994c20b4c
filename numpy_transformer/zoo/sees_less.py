"""Mistakes in attention that sees less: the width of a window, and the sum that linear attention divides by."""

import numpy as np

from ..layers import LinearAttention, SlidingWindow
from ..layers.attention import repeat_heads, sum_over_groups
from ..layers.masks import fit_mask
from .bug import Source, bug


@bug("window-one-too-wide",
     Source("huggingface/transformers", path="src/transformers/modeling_flash_attention_utils.py", reference="issue 39408"),
     symptom="Each query sees one key more than the window has, and other implementations of the same model give other logits.",
     training="It ends lower here, because the letter that comes next stands exactly one token before the window.",
     caught_by=("sliding window reference",))
class WindowOneTooWide(SlidingWindow):
    """A query sees `window` tokens before it and itself, which is one token too many"""

    def near(self, T, S):
        return ~np.tri(T, S, S - T - self.window - 1, dtype=bool)          # right: S - T - self.window


@bug("keys-of-the-sum-forgotten",
     Source("fla-org/flash-linear-attention", path="fla/ops/linear_attn/utils.py", place="normalize_with_z_state",
            reference="fixed by pull request 875"),
     symptom="Forward, dq and dv are right, but dk lacks what a key does to the sum that divides.",
     training="It learns a little more slowly, and breaks down after about 200 steps.",
     caught_by=("gradient check",))
class KeysOfTheSumForgotten(LinearAttention):
    """In backward, the sum that normalizes is a constant for the keys"""

    def backward(self, dy):
        q, k, v, mask, _, total, _, k_slope = saved = self.recall()
        self.remember(*saved)
        dq, _, dv = super().backward(dy)
        da = dy @ repeat_heads(v, q).mT / total                 # right: (dp - (dp * p).sum(-1, keepdims=True)) / total
        if mask is not None:
            da = np.where(fit_mask(mask, da.shape), da, 0)
        return dq, sum_over_groups(da.mT @ q, k) * k_slope, dv
