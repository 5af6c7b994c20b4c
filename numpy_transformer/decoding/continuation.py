"""Sequences that a model continues: the common part of greedy decoding, sampling, beam and speculative decoding."""

import inspect
from typing import Any

import numpy as np

from ..argument_checks import check_integers
from .cache import KeyValueCache


def check_decodes(model):
    if getattr(model, "remembering", False):
        raise ValueError("a model decodes with dropout off and without remembering; call model.eval() first")


def check_continues(model: Any, cached: bool = True) -> None:
    """Raises TypeError unless this is a model that continues a text, with a cache if it is to have one."""
    forward = getattr(model, "forward", model)
    if not callable(forward) or not hasattr(model, "max_len"):
        raise TypeError(f"a {type(model).__name__} is no LanguageModel, so it cannot continue a text; pass a CausalLanguageModel")
    parameters = inspect.signature(forward).parameters.values()
    takes_one = any(parameter.name == "cache" or parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    if cached and not takes_one:
        raise TypeError(f"a {type(model).__name__} takes no cache, as a LanguageModel does, so it cannot continue a text; pass a "
                        "CausalLanguageModel")


class Continuation:
    """Rows of ids that grow token by token, and the model's logits of the next token of each row.

    With cached=False every step computes all tokens again: slower, with the same results up to rounding.
    """

    def __init__(self, model, ids, cached):
        check_decodes(model)
        self.model = model
        self.ids = ids
        self.cache = KeyValueCache() if cached else None

    def logits(self):
        """Returns the logits (rows, V) of the next token."""
        raise NotImplementedError

    def append(self, tokens):
        """Appends one token to each row."""
        self.ids = np.concatenate([self.ids, np.asarray(tokens)[:, None]], 1)


class PromptContinuation(Continuation):
    """Prompts of any lengths, padded on the left, that a LanguageModel continues.

    The model sees only the latest max_len tokens.
    """

    def __init__(self, model, prompts, cached=True):
        lengths = np.array([len(prompt) for prompt in prompts])
        if not len(lengths) or not lengths.all():
            raise ValueError(f"prompts of {lengths.tolist()} tokens: each needs at least one to go on from")
        self.token_mask = np.arange(lengths.max()) >= (lengths.max() - lengths)[:, None]
        ids = np.zeros(self.token_mask.shape, np.intp)
        ids[self.token_mask] = check_integers(np.concatenate(prompts), 2 ** 31, "prompt ids", "limit")
        super().__init__(model, ids, cached)
        check_continues(model, cached)

    def logits(self):
        max_len = self.model.max_len
        if self.ids.shape[1] > max_len:                     # the window slides, so all positions change
            return self.logits_of(slice(-max_len, None))
        if self.cache is None:
            return self.logits_of(slice(None))
        return self.logits_of(slice(self.cache.length, None), cache=self.cache)

    def logits_of(self, tokens, **cache):
        """Returns the logits after these tokens; a cache is passed only if there is one."""
        mask = None if self.token_mask.all() else self.token_mask[:, tokens]
        return self.model(self.ids[:, tokens], mask, **cache)[:, -1]

    def append(self, tokens):
        super().append(tokens)
        self.token_mask = np.concatenate([self.token_mask, np.ones((len(self.token_mask), 1), bool)], 1)


class RevisableText:
    """The logits of a LanguageModel for a text whose latest tokens may be replaced, such as guesses that were rejected.

    What the text still has of the tokens before stays in the cache. The model sees only the latest max_len tokens.
    """

    def __init__(self, model):
        check_continues(model)
        check_decodes(model)
        self.model = model
        self.cache = KeyValueCache()
        self.ids = []                                       # the tokens in the cache

    def logits(self, ids, count=1):
        """Returns the logits (count, V) of what follows each of the latest `count` tokens of ids (a list).

        If ids has more than max_len tokens, each of these must have max_len - 1 or more before it.
        """
        max_len = self.model.max_len
        if len(ids) > max_len:                              # the window slides, so all positions change
            ends = range(len(ids) - count + 1, len(ids) + 1)
            return self.model(np.array([ids[end - max_len:end] for end in ends]))[:, -1]
        kept = min(same_beginning(self.ids, ids), len(ids) - count)
        self.cache.shorten(kept)
        self.ids = list(ids)
        return self.model(np.array([ids[kept:]]), cache=self.cache)[0, -count:]


def same_beginning(a, b):
    """Returns how many tokens two lists have in common before the first that differs."""
    return next((n for n, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


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
        """The ids after bos."""
        return self.ids[:, 1:]

    def logits(self):
        if self.cache is None:
            return self.model.decode(self.ids, self.memory, self.source)[:, -1]
        new = self.ids[:, self.cache.length:]
        return self.model.decode(new, self.memory, self.source, cache=self.cache)[:, -1]

    def select(self, rows):
        """Keeps these rows, in this order; a row may be named several times."""
        if self.cache is not None:
            self.cache.select(rows)
        self.ids = self.ids[rows]
        self.source = self.source[rows]
        self.memory = self.memory[rows]
