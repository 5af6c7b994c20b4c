"""The encoder-only model (BERT style): a vector for every token of a text, or for the whole text."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..argument_checks import check_choice, check_ids, check_positive, check_token_mask
from ..layers.dropout import Dropout
from ..layers.embedding import Embedding
from ..layers.multi_head import width_of_head
from ..layers.normalization import LayerNorm
from ..layers.pooling import POOLINGS
from ..layers.positions import PositionSizes
from ..types import Component, Seed
from .initialization import initialize
from .parallel import over_rows
from .parts import BlockSettings, Sizes, make_positions, place_in_attention, settings_of, sizes_of
from .rebuildable import RebuildableModel

SHORTEST = 1e-12                                            # shorter vectors are divided by it, so that 0 stays 0


@dataclass(frozen=True, kw_only=True)
class TextSettings(BlockSettings):
    """The settings of a TextEncoder and of the models with a head on it.

    Parameters:
        norm : "post" by default, activation="relu", eps : float (1e-6), otherwise as in BlockSettings
        norm_layer="layer", num_kv_heads=None, bias=True, d_head=None : as in BlockSettings
        positions : "sinusoidal" (default), "learned", "rotary", "alibi", "relative", another name in POSITIONS, or the
            component itself
        num_segments : int (0), how many kinds of segment have an embedding (BERT: 2)
        pad_id : int or None (0); tokens with this id are hidden, unless mask_padding is False
        mask_padding : bool (True); False treats padding tokens like real ones
        scale_embedding : bool (True); False leaves out the factor sqrt(d_model), as BERT does
        embedding_norm : bool (False); True adds a LayerNorm after the positions, as BERT does
        first_position : int or None; None numbers the places of a text from 0 on. A number n numbers the tokens other
            than pad_id from n on, and gives every pad_id the position n - 1 (RoBERTa: n = 2)
        normalize : bool (False); True gives `embed` unit vectors
        embedding_pool : "mean" (default) or "first", which vector `embed` returns for a text
        init : "xavier" (default), "keras", "gpt2" or "bert", the initial weights; see models/initialization.py
    """

    norm: str = "post"
    eps: float = 1e-6
    positions: str | Component = "sinusoidal"
    num_segments: int = 0
    pad_id: int | None = 0
    mask_padding: bool = True
    scale_embedding: bool = True
    embedding_norm: bool = False
    first_position: int | None = None
    normalize: bool = False
    embedding_pool: str = "mean"
    init: str = "xavier"


class TextEncoder(RebuildableModel):
    """A vector for every token of a text.

    Embedding times sqrt(d_model), optional segments, positions, an optional norm, dropout, and a Stack of Blocks. These are
    the attributes `embedding`, `segments`, `positions`, `embedding_norm`, `dropout` and `encoder`.

    Parameters:
        vocab_size, d_model, num_heads, num_layers : int
        d_ff : int or None (4 d_model)
        max_len : int (512), the length of the longest text
        dropout : float (0.1), as in EncoderBlock
        rng : generator or seed of initial weights and dropout, or None
        norm="post", norm_layer="layer", activation="relu", eps=1e-6, num_kv_heads=None, bias=True, d_head=None,
        positions="sinusoidal", num_segments=0, pad_id=0, mask_padding=True, scale_embedding=True, embedding_norm=False,
        first_position=None, normalize=False, embedding_pool="mean", init="xavier" : as in TextSettings
    Shape: ids (B, T), mask=None (B, T; True marks a real token; None: all but pad_id), segments=None (B, T; None: all
        0) -> x (B, T, d_model); B may be absent. Padding tokens at the end change nothing for the real tokens.
    Backward: dx -> None: ids have no gradient
    Raises: ValueError for more than max_len tokens, or a mask that is not boolean or of another shape.
    Source: Vaswani et al. 2017, sections 3.1, 3.4 and 3.5; segments: Devlin et al. 2019, figure 2; the norm, and
        positions from 2 on: the published code of BERT and of Liu et al. 2019 (RoBERTa); rotary: lesson 16.
    """

    Settings = TextSettings

    def __init__(self, vocab_size: int, d_model: int, num_heads: int, num_layers: int, d_ff: int | None = None,
                 max_len: int = 512, dropout: float = 0.1, rng: Seed = None, **settings: Any) -> None:
        s = settings_of(self, settings)
        check_choice("embedding_pool", s.embedding_pool, POOLINGS)
        check_positive(num_layers=num_layers)
        rng = np.random.default_rng(rng)
        sizes = Sizes(d_model, num_heads, 4 * d_model if d_ff is None else d_ff, dropout)
        d_head = width_of_head(d_model, num_heads, s.d_head)
        self.pad_id = s.pad_id
        self.mask_padding = s.mask_padding
        self.max_len = max_len
        self.first_position = s.first_position
        self.normalize = s.normalize
        self.embedding_pool = s.embedding_pool
        self.embedding = Embedding(vocab_size, d_model, s.scale_embedding, rng=rng)
        self.segments = Embedding(s.num_segments, d_model, rng=rng) if s.num_segments else None
        longest = max_len + (s.first_position or 0)
        positions = make_positions(s.positions, PositionSizes(d_model, num_heads, d_head, longest, causal=False), rng)
        self.positions = positions if positions.place == "embeddings" else None
        check_first_position(s.first_position, positions)
        self.embedding_norm = LayerNorm(d_model, s.eps) if s.embedding_norm else None
        self.dropout = Dropout(dropout, rng)
        self.encoder = s.make_stack(num_layers, sizes, rng)
        place_in_attention(positions, self.encoder)
        initialize(self, s.init, rng)

    def forward(self, ids: np.ndarray, mask: np.ndarray | None = None, segments: np.ndarray | None = None) -> np.ndarray:
        ids = check_ids(ids, self.max_len, segments)
        if segments is not None and self.segments is None:
            raise ValueError("segments are given, but the model has no embedding for them; give it num_segments=2")
        x = self.embedding(ids)
        if self.segments is not None:
            x = x + self.segments(np.zeros_like(ids) if segments is None else segments)
        if self.positions is not None:
            x = self.positions(x, positions=self.position_ids(ids))
        if self.embedding_norm is not None:
            x = self.embedding_norm(x)
        return self.encoder(self.dropout(x), self.attention_mask(ids, mask))

    def backward(self, dx: np.ndarray) -> None:
        dx = self.dropout.backward(self.encoder.backward(dx))
        if self.embedding_norm is not None:
            dx = self.embedding_norm.backward(dx)
        if self.positions is not None:
            dx = self.positions.backward(dx)
        if self.segments is not None:
            self.segments.backward(dx)
        self.embedding.backward(dx)

    def position_ids(self, ids: np.ndarray) -> np.ndarray | None:
        """Returns the position of each token, (B, T); or None where these are the places 0 to T - 1."""
        if self.first_position is None:
            return None
        real = np.ones(ids.shape, bool) if self.pad_id is None else ids != self.pad_id
        return self.first_position - 1 + np.cumsum(real, -1) * real

    def token_mask(self, ids: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray | None:
        """Returns booleans of the shape of ids, True for real tokens; or None if all tokens are real."""
        ids = np.asarray(ids)
        if mask is not None:
            mask = check_token_mask(mask, ids.shape)
        elif self.mask_padding and self.pad_id is not None:
            mask = ids != self.pad_id
        return None if mask is None or mask.all() else mask

    def attention_mask(self, ids: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray | None:
        """Returns the mask (B, 1, 1, T) that hides padding tokens, or None if there are none."""
        token_mask = self.token_mask(ids, mask)
        return None if token_mask is None else np.atleast_2d(token_mask)[:, None, None, :]

    def count_tokens(self, ids: np.ndarray, mask: np.ndarray | None = None, *others: Any) -> int:
        """Returns the number of real tokens."""
        token_mask = self.token_mask(ids, mask)
        return np.size(ids) if token_mask is None else int(np.count_nonzero(token_mask))

    def embed(self, ids: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        """Returns one vector for each text, (B, d_model): the mean over its real tokens, or its first token.

        With normalize=True the vectors have length 1. Only after eval().

        Raises: ValueError in train().
        """
        if self.training:
            raise ValueError("embed gives the vectors of a trained model, without dropout; call model.eval() first")
        ids = np.asarray(ids)
        return over_rows(TextEncoder.vectors, self, ids, self.token_mask(ids, mask))

    def vectors(self, ids: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
        """Returns what `embed` returns, computed in one thread."""
        pool = POOLINGS[self.embedding_pool]()
        x = pool(TextEncoder.forward(self, ids, mask), self.token_mask(ids, mask))
        if self.normalize:
            x = x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), SHORTEST)
        return x

    def extra_repr(self) -> str:
        return f"vocab_size={self.embedding.vocab_size}, {sizes_of(self.encoder)}, max_len={self.max_len}"


def check_first_position(first_position: int | None, positions: Component) -> None:
    """Raises ValueError unless the first position is None, or a number that positions of this kind can begin with."""
    if first_position is not None:
        check_positive(first_position=first_position)
        if positions.place != "embeddings":
            raise ValueError(f"first_position = {first_position}: {type(positions).__name__} needs no first position; leave "
                             "it out, or choose positions='learned' or 'sinusoidal'")
