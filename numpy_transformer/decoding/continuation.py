"""Rows of tokens that a model goes on with: what greedy decoding, sampling and beam search have in common."""

import numpy as np

from ..argument_checks import check_integers
from .cache import KeyValueCache


class Continuation:
    """Rows of ids that grow token by token, and the model's logits of the next token of each.

    With cached=False every step computes all tokens anew: slow, and the same numbers up to rounding.
    """

    def __init__(self, model, ids, cached):
        if getattr(model, "remembering", False):
            raise ValueError("a model decodes with dropout off and without remembering; call model.eval() first")
        self.model, self.ids = model, ids
        self.cache = KeyValueCache() if cached else None

    def logits(self):
        """(rows, V): of the token behind the last."""
        raise NotImplementedError

    def append(self, tokens):
        self.ids = np.concatenate([self.ids, np.asarray(tokens)[:, None]], 1)


class PromptContinuation(Continuation):
    """A CausalLanguageModel behind prompts of any lengths, padded on the left; only the latest max_len tokens count."""

    def __init__(self, model, prompts, cached=True):
        lengths = np.array([len(prompt) for prompt in prompts])
        if not len(lengths) or not lengths.all():
            raise ValueError(f"prompts of {lengths.tolist()} tokens: each needs at least one to go on from")
        self.token_mask = np.arange(lengths.max()) >= (lengths.max() - lengths)[:, None]
        ids = np.zeros(self.token_mask.shape, np.int64)
        ids[self.token_mask] = check_integers(np.concatenate(prompts), 2 ** 63, "prompt ids", "limit")
        super().__init__(model, ids, cached)

    def logits(self):
        seen = 0 if self.cache is None else self.cache.length
        if self.ids.shape[1] > self.model.max_len:          # the window moves: all positions change
            new, cache = slice(-self.model.max_len, None), {}
        else:
            new, cache = slice(seen, None), {} if self.cache is None else {"cache": self.cache}
        mask = None if self.token_mask.all() else self.token_mask[:, new]
        return self.model(self.ids[:, new], mask, **cache)[:, -1]

    def append(self, tokens):
        super().append(tokens)
        self.token_mask = np.concatenate([self.token_mask, np.ones((len(self.token_mask), 1), bool)], 1)


class TargetContinuation(Continuation):
    """The target side of an EncoderDecoder: source (B, S) is encoded once, and each row begins with bos."""

    def __init__(self, model, source, bos, cached=True):
        self.source = np.atleast_2d(source)
        if not self.source.size:
            raise ValueError(f"sources of shape {self.source.shape} hold no token; pass (B, S) ids, at least one each")
        super().__init__(model, np.full((len(self.source), 1), bos), cached)
        self.memory = model.encode(self.source)

    @property
    def written(self):
        """The ids behind bos."""
        return self.ids[:, 1:]

    def logits(self):
        if self.cache is None:
            return self.model.decode(self.ids, self.memory, self.source)[:, -1]
        return self.model.decode(self.ids[:, self.cache.length:], self.memory, self.source, cache=self.cache)[:, -1]

    def select(self, rows):
        """Keep these rows, in this order, each as often as it is named."""
        if self.cache is not None:
            self.cache.select(rows)
        self.ids, self.source, self.memory = self.ids[rows], self.source[rows], self.memory[rows]
