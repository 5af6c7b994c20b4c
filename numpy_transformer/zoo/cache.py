"""Mistakes that only decoding meets: a key-value cache gives other logits than the whole sequence."""

import numpy as np

from ..layers import causal_mask
from ..models import CausalLanguageModel
from .bug import bug


@bug("cached-positions-restart", "a version of lag-llama",
     symptom="each new token believes that it is the first one; without a cache all is right",
     training="exactly the same losses: training uses no cache",
     caught_by=("key-value cache",), samples=("language model", "language model, rotary"))
class PositionsRestart(CausalLanguageModel):
    """With a cache, positions count from 0 at every call"""

    def mask_and_positions(self, ids, mask, cache):
        mask, positions = super().mask_and_positions(ids, mask, cache)
        return mask, positions if cache is None else None   # right: from what the cache holds on


@bug("cached-mask-cut-from-the-top", "a version of LLMs-from-scratch",
     symptom="new tokens see the first ones alone; without a cache all is right",
     training="exactly the same losses: training uses no cache",
     caught_by=("key-value cache",))
class MaskCutFromTheTop(CausalLanguageModel):
    """New tokens get the first rows of the causal mask, not the last ones"""

    def mask_and_positions(self, ids, mask, cache):
        mask, positions = super().mask_and_positions(ids, mask, cache)
        if cache is None:
            return mask, positions
        T = ids.shape[-1]
        return causal_mask(cache.length)[..., :T, :], positions                 # right: [..., -T:, :]


@bug("cache-outlives-its-prompt", "a version of LLMs-from-scratch",
     symptom="the first text is right; the next one still sees it",
     training="exactly the same losses: training uses no cache",
     caught_by=("key-value cache",))
class CacheOutlivesItsPrompt(CausalLanguageModel):
    """The model keeps the cache, and uses it in calls that give none"""

    def forward(self, ids, mask=None, cache=None):
        self._kept = cache or getattr(self, "_kept", None)
        fits = self._kept and not self.training and self._kept.length + np.shape(ids)[-1] <= self.max_len
        return super().forward(ids, mask, self._kept if fits else None)         # right: the one that is given
