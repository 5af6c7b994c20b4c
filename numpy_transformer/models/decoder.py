"""The language model that consists of a decoder: made of parts, or of sizes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..argument_checks import as_integers, called, check_positive, check_token_mask
from ..layers.dropout import Dropout
from ..layers.embedding import Embedding, Unembedding
from ..layers.linear import Linear
from ..layers.masks import causal_mask, combine_masks
from ..layers.multi_head import width_of_head
from ..layers.positions import PositionSizes
from ..layers.token_positions import token_positions
from ..module import Module
from ..types import Component, Seed
from .initialization import initialize
from .parts import BlockSettings, Sizes, make_positions, place_in_attention, settings_of, sizes_of
from .rebuildable import RebuildableModel


@dataclass(frozen=True, kw_only=True)
class CausalSettings(BlockSettings):
    """The settings of a CausalLanguageModel.

    Parameters:
        norm="pre", norm_layer="layer", eps=1e-5, num_kv_heads=None, bias=True, d_head=None : as in BlockSettings
        activation : "gelu" by default, otherwise as in BlockSettings
        positions : "learned" (default; GPT), "sinusoidal" (the paper), "rotary" (LLaMA), "alibi", "relative", another name
            in POSITIONS, or the component itself, such as RotaryEmbedding(d_head, base=500000.0)
        attention : "plain" (default), "flash": FlashAttention, for long texts, without dropout; another name in ATTENTIONS, or
            a function (sizes, rng) -> component, which is called for each block with its AttentionSizes
        tie_weights : bool (True); the output layer is the transposed embedding
        scale_embedding : bool (False); the embedding is multiplied by sqrt(d_model)
        init : "gpt2" (default), "xavier", "keras" or "bert", the initial weights; see models/initialization.py
    """

    activation: str = "gelu"
    positions: str | Component = "learned"
    attention: str | Callable = "plain"
    tie_weights: bool = True
    scale_embedding: bool = False
    init: str = "gpt2"


class LanguageModel(Module):
    """A decoder-only language model made of parts: logits of the next token at every position.

    Embedding, positions, dropout, a Stack of Blocks with a causal mask, and the output layer.

    Parameters:
        embedding : Embedding, or another component that takes ids and returns vectors
        decoder : Stack, or another component that takes x and a mask
        output : Unembedding(embedding.weight), Linear, or another component that takes vectors and returns logits
        positions : LearnedPositionalEmbedding, or another component that adds positions to the embeddings; None if they
            act inside attention, or nowhere
        max_len : int (1024), the length of the longest sequence
        dropout : float (0.0), after the positions
        rng : generator or seed of the dropout, or None
    Shape: ids (B, T), mask=None (B, T; True marks a real token), cache=None -> logits (B, T, vocab_size); B may be
        absent. With a KeyValueCache the ids are the new tokens. Positions count real tokens, so padding tokens do not
        change the logits of real tokens, on whichever side they stand.
    Backward: dlogits -> None: ids have no gradient
    Raises: ValueError for an empty sequence, one longer than max_len, or a mask of another shape than ids.
    Source: Radford et al. 2019.
    """

    def __init__(self, embedding: Component, decoder: Component, output: Component, positions: Component | None = None,
                 max_len: int = 1024, dropout: float = 0.0, rng: Seed = None) -> None:
        check_positive(max_len=max_len)
        self.max_len = max_len
        self.embedding = embedding
        self.positions = positions
        self.dropout = Dropout(dropout, rng)
        self.decoder = decoder
        self.output = output

    def forward(self, ids: np.ndarray, mask: np.ndarray | None = None, cache: Any = None) -> np.ndarray:
        ids = self.check_length(ids, cache)
        x = self.embedding(ids)
        mask, positions = self.mask_and_positions(ids, mask, cache)
        if self.positions is not None:
            x = self.positions(x, positions=None if positions is None else positions[..., -ids.shape[-1]:])
        decoder = self.decoder if cache is None else cache.caching(self.decoder)
        with token_positions(positions):
            x = decoder(self.dropout(x), mask)
        return self.output(x)

    def backward(self, dlogits: np.ndarray) -> None:
        dx = self.dropout.backward(self.decoder.backward(self.output.backward(dlogits)))
        if self.positions is not None:
            dx = self.positions.backward(dx)
        self.embedding.backward(dx)

    def mask_and_positions(self, ids: np.ndarray, token_mask: np.ndarray | None,
                           cache: Any) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Returns the attention mask, and the positions of all tokens or None where they are 0 to T - 1.

        With a cache these are the tokens in the cache and the new ones.
        """
        T = ids.shape[-1]
        token_mask = np.ones(ids.shape, bool) if token_mask is None else check_token_mask(token_mask, ids.shape)
        if cache is not None:
            token_mask = cache.advance(self, token_mask)        # the tokens in the cache, then the new ones
        seen = token_mask.shape[-1] - T
        causal = None
        if T > 1 and not self.masks_itself:     # a single new token sees all others
            causal = causal_mask(T, seen)
        if not token_mask.all():
            positions = np.maximum(np.cumsum(token_mask, -1) - 1, 0)
            return combine_masks(causal, np.atleast_2d(token_mask)[:, None, None, :]), positions
        return causal, np.arange(seen + T) if seen else None

    @property
    def masks_itself(self) -> bool:
        """Whether the attention of every block hides the future without a mask, as FlashAttention can."""
        blocks = getattr(self.decoder, "blocks", ())
        attentions = [getattr(block.attention, "attention", block.attention) for block in blocks]
        return bool(attentions) and all(getattr(attention, "causal", False) for attention in attentions)

    def check_length(self, ids: np.ndarray, cache: Any) -> np.ndarray:
        """Returns ids as an array, if they fit into max_len together with the tokens in the cache."""
        ids = as_integers(ids, "token ids")
        seen = 0 if cache is None else cache.length
        fits = ids.ndim in (1, 2) and ids.size and ids.shape[-1] <= self.max_len - seen
        if not fits:
            cached = f" after {seen} in the cache" if seen else ""
            raise ValueError(f"{called()}ids have shape {ids.shape}{cached}: wanted (B, T) or (T,) with B from 1 on and T from 1 to "
                             f"max_len = {self.max_len} in all; shorten the sequence, or build the model with a larger "
                             "max_len")
        return ids

    def count_tokens(self, ids: np.ndarray, mask: np.ndarray | None = None) -> int:
        """Returns the number of tokens that the mask does not hide."""
        return np.size(ids) if mask is None else int(np.count_nonzero(mask))

    def extra_repr(self) -> str:
        vocab_size = getattr(self.embedding, "vocab_size", None)
        shown = [vocab_size and f"vocab_size={vocab_size}", sizes_of(self.decoder), f"max_len={self.max_len}"]
        return ", ".join(filter(None, shown))


class CausalLanguageModel(LanguageModel, RebuildableModel):
    """A LanguageModel of the given sizes, like GPT or LLaMA: the parts are made here.

    They are the attributes `embedding`, `positions`, `dropout`, `decoder` and `output`.

    Parameters:
        vocab_size, d_model, num_heads, num_layers : int
        d_ff : int or None (4 d_model)
        max_len : int (1024), the length of the longest sequence
        dropout : float (0.0), after the positions and as in EncoderBlock
        rng : generator or seed of initial weights and dropout, or None
        norm="pre", norm_layer="layer", activation="gelu", eps=1e-5, num_kv_heads=None, bias=True, d_head=None,
        positions="learned", attention="plain", tie_weights=True, scale_embedding=False, init="gpt2" : as in CausalSettings
    Shape, Backward, Raises : as LanguageModel
    Source: Radford et al. 2019 (the defaults are GPT-2, except for the exact GELU, and dropout inside the feed-forward
        layers); Touvron et al. 2023 (LLaMA: rotary, rms, swiglu).
    """

    Settings = CausalSettings

    def __init__(self, vocab_size: int, d_model: int, num_heads: int, num_layers: int, d_ff: int | None = None,
                 max_len: int = 1024, dropout: float = 0.0, rng: Seed = None, **settings: Any) -> None:
        s = settings_of(self, settings)
        check_positive(num_layers=num_layers)
        rng = np.random.default_rng(rng)
        sizes = Sizes(d_model, num_heads, 4 * d_model if d_ff is None else d_ff, dropout)
        d_head = width_of_head(d_model, num_heads, s.d_head)
        embedding = Embedding(vocab_size, d_model, s.scale_embedding, rng=rng)
        positions = make_positions(s.positions, PositionSizes(d_model, num_heads, d_head, max_len, causal=True), rng)
        decoder = s.make_stack(num_layers, sizes, rng, attention=s.attention)
        place_in_attention(positions, decoder)
        output: Component
        output = Unembedding(embedding.weight) if s.tie_weights else Linear(d_model, vocab_size, False, rng)
        super().__init__(embedding, decoder, output, positions if positions.place == "embeddings" else None,
                         max_len=max_len, dropout=dropout, rng=rng)
        initialize(self, s.init, rng)
