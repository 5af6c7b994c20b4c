"""Mistakes that only affect decoding: a key-value cache changes the logits."""

import numpy as np

from ..layers import causal_mask
from ..models import CausalLanguageModel
from .bug import Source, bug


@bug("cached-positions-restart",
     Source("time-series-foundation-models/lag-llama", "22454a5", "lag_llama/model/module.py",
            "CausalSelfAttention.forward", "issue 81, fixed by pull request 84"),
     symptom="Each new token is treated as the first one. Without a cache everything is correct.",
     training="The losses are exactly the same, because training uses no cache.",
     caught_by=("key-value cache",), samples=("language model", "language model, rotary"))
class PositionsRestart(CausalLanguageModel):
    """With a cache, positions start from 0 at every call"""

    def mask_and_positions(self, ids, mask, cache):
        mask, positions = super().mask_and_positions(ids, mask, cache)
        return mask, positions if cache is None else None   # right: after the cached positions


@bug("cached-mask-cut-from-the-top",
     Source("LLMs-from-scratch", reference="pull request 697"),
     symptom="New tokens see only the first tokens. Without a cache everything is correct.",
     training="The losses are exactly the same, because training uses no cache.",
     caught_by=("key-value cache",))
class MaskCutFromTheTop(CausalLanguageModel):
    """New tokens get the first rows of the causal mask instead of the last ones"""

    def mask_and_positions(self, ids, mask, cache):
        mask, positions = super().mask_and_positions(ids, mask, cache)
        if cache is None:
            return mask, positions
        T = ids.shape[-1]
        return causal_mask(cache.length)[..., :T, :], positions                 # right: [..., -T:, :]


@bug("cache-outlives-its-prompt", "a published PyTorch GPT",
     symptom="The first text is correct, but the next one still sees it.",
     training="The losses are exactly the same, because training uses no cache.",
     caught_by=("key-value cache",))
class CacheOutlivesItsPrompt(CausalLanguageModel):
    """The model keeps the cache and uses it in later calls without one"""

    def forward(self, ids, mask=None, cache=None):
        self._kept = cache or getattr(self, "_kept", None)
        fits = self._kept and not self.training and self._kept.length + np.shape(ids)[-1] <= self.max_len
        return super().forward(ids, mask, self._kept if fits else None)         # right: the given one


@bug("rejected-tokens-stay", Source("ml-explore/mlx-lm", reference="issue 846; refused since pull request 1109"),
     symptom="Without a draft everything is correct. With one, later tokens also see the guesses that were rejected.",
     training="The losses are exactly the same, because training uses no cache.",
     caught_by=("key-value cache",))
class RejectedTokensStay(CausalLanguageModel):
    """The model's cache cannot go back, and asking it to has no effect and gives no error"""

    def forward(self, ids, mask=None, cache=None):
        if cache is not None:
            cache.shorten = lambda length: None             # right: it forgets the tokens from this length on
        return super().forward(ids, mask, cache)


@bug("rejected-tokens-count-as-positions",
     Source("huggingface/transformers", reference="issue 30042, described in pull request 30068"),
     symptom="Without a draft everything is correct. After a rejected guess, the text differs from greedy text.",
     training="The losses are exactly the same, because training uses no cache.",
     caught_by=("key-value cache",), samples=("language model", "language model, rotary"))
class RejectedTokensCount(CausalLanguageModel):
    """Positions count every token that was ever read, also those that the cache has forgotten"""

    def mask_and_positions(self, ids, mask, cache):
        mask, positions = super().mask_and_positions(ids, mask, cache)
        if cache is None:
            return mask, positions
        cache.read = getattr(cache, "read", 0) + ids.shape[-1]
        return mask, None if positions is None else positions + cache.read - cache.length       # right: positions
