"""Keys and values that attention does not compute again while a model generates token by token."""

import copy
from typing import Any

import numpy as np

from ..layers.latent_attention import AbsorbedLatentAttention, LatentAttention
from ..layers.multi_head import CrossAttention, MultiHeadAttention
from ..module import Module
from ..tree import is_module
from ..types import Component

ATTENTION_LAYERS = MultiHeadAttention, LatentAttention      # whose part `attention` is given the keys and values to keep


class KeyValueCache:
    """The keys and values of the tokens seen so far, for each attention layer.

    A model in eval() receives only the new tokens, with the same cache in every call. Its outputs are those of the
    whole sequence at the new tokens. Self-attention appends the new keys and values; cross-attention keeps those of the
    memory from the first call. `length` is the number of tokens seen, and `token_mask` (B, length) is False where they
    were padding tokens.

    Source: Shazeer 2019, section 2.4 (incremental decoding).
    """

    def __init__(self) -> None:
        self.length = 0
        self.token_mask: Any = None
        self.arrays: dict[str, GrowingArray] = {}           # {name: GrowingArray}
        self.twins: dict[int, tuple[Any, Any]] = {}         # {id of a stack: (the stack, its caching twin)}

    def __repr__(self) -> str:
        return f"KeyValueCache(length={self.length}, arrays={len(self.arrays)})"

    def __deepcopy__(self, memo: dict[int, Any]) -> "KeyValueCache":
        twin = KeyValueCache()
        twin.length = self.length
        twin.token_mask = copy.deepcopy(self.token_mask)
        twin.arrays = copy.deepcopy(self.arrays)
        return twin

    def advance(self, model: Module, token_mask: np.ndarray) -> np.ndarray:
        """Counts new tokens, token_mask (B, T); returns the mask of all tokens so far, (B, length)."""
        if model.remembering:
            raise ValueError("a key-value cache serves decoding, and backward would miss the tokens that it holds; "
                             "call model.eval() first, or leave the cache out")
        if self.length:
            if token_mask.shape[:-1] != self.token_mask.shape[:-1]:
                raise ValueError(f"the cache holds a batch of shape {self.token_mask.shape[:-1]}, the new tokens have "
                                 f"{token_mask.shape[:-1]}; use select(), or a new cache for another batch")
            token_mask = np.concatenate([self.token_mask, token_mask], -1)
        self.length = token_mask.shape[-1]
        self.token_mask = token_mask
        return token_mask

    def caching(self, stack: Component) -> Any:
        """Returns a twin of a stack of blocks that shares its parameters and keeps keys and values in this cache."""
        if id(stack) not in self.twins:
            self.twins[id(stack)] = stack, caching_twin(stack, self, "")
        return self.twins[id(stack)][1]

    def extend(self, layer: str, k: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Appends k and v (B, G, T, d) to those of the layer with this name; returns all of them."""
        return self.array(f"{layer}.keys").append(k), self.array(f"{layer}.values").append(v)

    def array(self, name: str) -> "GrowingArray":
        """Returns the GrowingArray of this name, which is empty at first."""
        return self.arrays.setdefault(name, GrowingArray())

    def shorten(self, length: int) -> None:
        """Goes back to the first `length` tokens, as if later ones had never been seen; the memory of cross-attention stays.

        Raises: ValueError for a length that the cache does not have.
        """
        if not 0 <= length <= self.length:
            raise ValueError(f"length = {length}: the cache holds {self.length} tokens and can only forget the latest of them; "
                             f"choose a length from 0 to {self.length}")
        if self.length:
            self.token_mask = self.token_mask[..., :length]
        self.length = length
        for name, growing in self.arrays.items():
            if name.endswith((".keys", ".values")):         # those that `extend` appends to
                growing.length = length

    def select(self, rows: np.ndarray) -> None:
        """Keeps these rows of the batch, in this order; a row may be named several times (beam search)."""
        if self.length:
            self.token_mask = self.token_mask[rows]
        for growing in self.arrays.values():
            growing.buffer = growing.buffer[rows]


def caching_twin(part: Any, cache: KeyValueCache, name: str) -> Any:
    """Returns a copy of a part with the same parameters, in which every attention keeps keys and values in the cache."""
    if isinstance(part, (list, tuple)):
        return [caching_twin(item, cache, f"{name}.{number}") for number, item in enumerate(part)]
    if not is_module(part) or not any(isinstance(inner, ATTENTION_LAYERS) for _, inner in part.named_modules()):
        return part
    twin = copy.copy(part)
    if isinstance(part, CrossAttention):
        twin.key = ComputedOnce(part.key, cache.array(f"{name}.key"))
        twin.value = ComputedOnce(part.value, cache.array(f"{name}.value"))
    elif isinstance(part, ATTENTION_LAYERS):
        caching = CachingLatents if isinstance(part, AbsorbedLatentAttention) else CachingAttention
        twin.attention = caching(part.attention, cache, name)
    else:
        vars(twin).update({key: caching_twin(value, cache, f"{name}.{key}") for key, value in vars(part).items()})
    for method in ("forward", "backward"):      # those of a part that is being recorded are not the twin's
        vars(twin).pop(method, None)
    return twin


class CachingAttention(Module):
    """Attention of new queries to all keys and values so far: it appends the new ones, and calls the attention inside.

    Parameters: attention : component that takes q, k, v and a mask; cache : KeyValueCache; name : str, of the layer
    Shape: as the attention, with the new k and v
    """

    def __init__(self, attention: Component, cache: KeyValueCache, name: str) -> None:
        self.attention = attention
        self._cache = cache
        self._name = name

    def forward(self, q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        return self.attention(q, *self._cache.extend(self._name, k, v), mask)

    @property
    def weights(self) -> np.ndarray | None:
        """The attention weights (B, H, T, S) of the latest forward."""
        return self.attention.weights


class CachingLatents(CachingAttention):
    """CachingAttention whose values are the first features of the keys, so that they are kept once."""

    def forward(self, q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        k = self._cache.array(f"{self._name}.keys").append(k)
        return self.attention(q, k, k[..., :v.shape[-1]], mask)


class ComputedOnce(Module):
    """The output of a Linear for its first input, in each call: the memory of cross-attention stays the same.

    Parameters: linear : Linear; kept : GrowingArray
    """

    def __init__(self, linear: Component, kept: "GrowingArray") -> None:
        self.linear = linear
        self._kept = kept

    def forward(self, x: np.ndarray) -> np.ndarray:
        return self._kept.array if self._kept.length else self._kept.append(self.linear(x))


class GrowingArray:
    """An array (..., T, d) that grows along T, inside a buffer that doubles its size whenever it is full.

    The buffer stores T as the last axis, because the products with a single query, q kᵀ and P v, then take half the
    time.
    """

    def __init__(self) -> None:
        self.length = 0
        self.buffer = np.empty(0)                           # (..., d, at least T)

    @property
    def array(self) -> np.ndarray:
        """The part of the buffer that is filled, (..., T, d), a view."""
        return self.buffer[..., :self.length].mT

    def append(self, x: np.ndarray) -> np.ndarray:
        """Appends x (..., T, d); returns the whole array."""
        start = self.length
        self.length += x.shape[-2]
        if start == 0:
            self.buffer = np.empty((*x.mT.shape[:-1], self.length), x.dtype)
        elif self.length > self.buffer.shape[-1]:
            full = self.buffer
            self.buffer = np.empty((*x.mT.shape[:-1], 2 * self.length), x.dtype)
            self.buffer[..., :start] = full[..., :start]
        self.buffer[..., start:self.length] = x.mT
        return self.array
