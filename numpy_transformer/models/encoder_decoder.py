"""The Transformer of 2017: an encoder, and a decoder that attends to its output."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..argument_checks import as_integers, called, check_choice, check_positive, check_token_mask
from ..layers.dropout import Dropout
from ..layers.embedding import Embedding, Unembedding
from ..layers.initial_weights import xavier_uniform
from ..layers.linear import Linear
from ..layers.masks import causal_mask, combine_masks, padding_mask
from ..layers.multi_head import width_of_head
from ..layers.positions import POSITIONS, PositionSizes
from ..layers.token_positions import token_positions
from ..parameter import drawing
from ..types import Component, Seed
from .initialization import initialize
from .parts import BlockSettings, Sizes, make_positions, place_in_attention, settings_of, sizes_of
from .rebuildable import RebuildableModel


@dataclass(frozen=True, kw_only=True)
class EncoderDecoderSettings(BlockSettings):
    """The settings of an EncoderDecoder.

    Parameters:
        norm="pre", norm_layer="layer", activation="relu", eps=1e-5, num_kv_heads=None, bias=True, d_head=None : as in
            BlockSettings
        positions : "sinusoidal" (default), "learned", "relative", T5's biases of the attention scores, "alibi", "rotary" or
            another name in POSITIONS
        tie_weights : bool (False); True lets the target embedding and the output layer share one matrix, and also the
            source embedding if src_vocab == tgt_vocab (section 3.4 of the paper). "embeddings" lets the two embeddings
            share one, and the output layer has its own (T5 1.1)
        pad_id : int or None (0); tokens with this id are hidden in source and target
        scale_embedding : bool (True); False leaves out the embeddings' factor sqrt(d_model), as T5 does
        init : "xavier" (default), "keras", "gpt2" or "bert", the initial weights; see models/initialization.py
    """

    positions: str = "sinusoidal"
    tie_weights: bool | str = False
    pad_id: int | None = 0
    scale_embedding: bool = True
    init: str = "xavier"


class EncoderDecoder(RebuildableModel):
    """The encoder-decoder of the paper: logits of the next target token, given the source and the target so far.

    Its parts are the attributes `source_embedding`, `source_positions`, `encoder` (a Stack), `target_embedding`,
    `target_positions`, `decoder` (a CrossStack), `dropout` and `output`.

    Parameters:
        src_vocab, tgt_vocab : int, sizes of the source and the target vocabulary
        d_model=512, num_heads=8, d_ff=2048 : int
        num_layers : int (6), the number of blocks in the encoder and in the decoder, or a pair of two numbers
        dropout : float (0.1), after the positions and as in EncoderBlock
        max_len : int (5000), the length of the longest source or target, for positions that are added to the embeddings
        rng : generator or seed of initial weights and dropout, or None
        norm="pre", norm_layer="layer", activation="relu", eps=1e-5, num_kv_heads=None, bias=True, d_head=None,
        positions="sinusoidal", tie_weights=False, pad_id=0, scale_embedding=True, init="xavier" : as in
            EncoderDecoderSettings
    Attributes: `mask_target`, True; False does not hide padding tokens of the target: T5 begins each target with one
    Shape: source (B, S), target (B, T), source_mask=None (B, S; True marks a real token; None: all but pad_id) ->
        logits (B, T, tgt_vocab); B may be absent. `encode(source, source_mask=None)` returns the memory
        (B, S, d_model), and `decode(target, memory, source, cache=None, source_mask=None)` the logits; with a
        KeyValueCache, target holds the new tokens.
    Backward: dlogits -> None; the decoder's dmemory is the gradient of the encoder's output
    Raises: ValueError for settings that exclude each other, or a mask that is not boolean or of another shape.
    Source: Vaswani et al. 2017, section 3 and figure 1; T5: Raffel et al. 2020, section 2.1. T5's published code has
        two more dropouts, on the output of each stack and on the hidden layer of T5 1.1, which are left out here.
    """

    Settings = EncoderDecoderSettings

    def __init__(self, src_vocab: int, tgt_vocab: int, d_model: int = 512, num_heads: int = 8,
                 num_layers: int | tuple[int, int] = 6, d_ff: int = 2048, dropout: float = 0.1, max_len: int = 5000,
                 rng: Seed = None, **settings: Any) -> None:
        s = settings_of(self, settings)
        check_tying(src_vocab, tgt_vocab, s.tie_weights)
        rng = np.random.default_rng(rng)
        depths: Any = num_layers if np.ndim(num_layers) else (num_layers, num_layers)
        check_positive(num_layers=depths[0], num_decoder_layers=depths[1])
        d_head = width_of_head(d_model, num_heads, s.d_head)
        self.pad_id = s.pad_id
        self.mask_target = True
        self.target_embedding = Embedding(tgt_vocab, d_model, s.scale_embedding, rng=rng)
        if s.tie_weights and src_vocab == tgt_vocab:
            self.source_embedding = self.target_embedding
        else:
            self.source_embedding = Embedding(src_vocab, d_model, s.scale_embedding, rng=rng)
        source_sizes = PositionSizes(d_model, num_heads, d_head, max_len, causal=False)
        target_sizes = source_sizes._replace(causal=True)
        check_choice("positions", s.positions, POSITIONS)
        in_attention = POSITIONS[s.positions].place != "embeddings"
        self.source_positions = None if in_attention else make_positions(s.positions, source_sizes, rng)
        if s.positions == "sinusoidal":         # the table is constant, so both sides share it
            self.target_positions = self.source_positions
        else:
            self.target_positions = None if in_attention else make_positions(s.positions, target_sizes, rng)
        self.dropout = Dropout(dropout, rng)
        sizes = Sizes(d_model, num_heads, d_ff, dropout)
        self.encoder = s.make_stack(depths[0], sizes, rng)
        self.decoder = s.make_stack(depths[1], sizes, rng, crossing=True)
        if in_attention:
            place_in_attention(make_positions(s.positions, source_sizes, rng), self.encoder)
            place_in_attention(make_positions(s.positions, target_sizes, rng), self.decoder)
        if s.tie_weights is True:
            self.output: Component = Unembedding(self.target_embedding.weight)
        else:
            self.output = Linear(d_model, tgt_vocab, s.bias, rng)
        initialize(self, s.init, rng)

    def forward(self, source: np.ndarray, target: np.ndarray, source_mask: np.ndarray | None = None) -> np.ndarray:
        return self.decode(target, self.encode(source, source_mask), source, source_mask=source_mask)

    def backward(self, dlogits: np.ndarray) -> None:
        dx, dmemory = self.decoder.backward(self.output.backward(dlogits))
        dx = self.dropout.backward(dx)
        if self.target_positions is not None:
            dx = self.target_positions.backward(dx)
        self.target_embedding.backward(dx)
        dx = self.dropout.backward(self.encoder.backward(dmemory))
        if self.source_positions is not None:
            dx = self.source_positions.backward(dx)
        self.source_embedding.backward(dx)

    def encode(self, source: np.ndarray, source_mask: np.ndarray | None = None) -> np.ndarray:
        """Returns the encoder's output (B, S, d_model), which the decoder takes as its memory."""
        source = as_integers(source, "token ids")
        x = self.source_embedding(source)
        if self.source_positions is not None:
            x = self.source_positions(x)
        return self.encoder(self.dropout(x), self.padding(source, source_mask))

    def decode(self, target: np.ndarray, memory: np.ndarray, source: np.ndarray, cache: Any = None,
               source_mask: np.ndarray | None = None) -> np.ndarray:
        """Returns the logits (B, T, tgt_vocab); source serves only to hide its padding tokens."""
        source = as_integers(source, "token ids")
        target = as_integers(target, "token ids")
        if source.shape[:-1] != target.shape[:-1]:
            raise ValueError(f"{called()}source {source.shape} and target {target.shape} are not batches of the same size; "
                             "wanted (B, S) and (B, T)")
        seen = 0 if cache is None else cache.length
        x = self.target_embedding(target)
        if self.target_positions is not None:
            x = self.target_positions(x, seen)
        hides_padding = self.mask_target and self.pad_id is not None
        token_mask = target != self.pad_id if hides_padding else np.ones(target.shape, bool)
        if cache is not None:
            token_mask = cache.advance(self, token_mask)        # the tokens in the cache, then the new ones
        mask = combine_masks(causal_mask(target.shape[-1], seen), np.atleast_2d(token_mask)[:, None, None, :])
        decoder = self.decoder if cache is None else cache.caching(self.decoder)
        with token_positions(np.arange(seen + target.shape[-1]) if seen else None):
            x = decoder(self.dropout(x), memory, mask, self.padding(source, source_mask))
        return self.output(x)

    def padding(self, ids: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray | None:
        """Returns the mask (B, 1, 1, S) that hides padding tokens, or None if no id means padding."""
        if mask is not None:
            return np.atleast_2d(check_token_mask(mask, ids.shape))[:, None, None, :]
        return None if self.pad_id is None else padding_mask(ids, self.pad_id)

    def extra_repr(self) -> str:
        vocabularies = f"src_vocab={self.source_embedding.vocab_size}, tgt_vocab={self.target_embedding.vocab_size}"
        return f"{vocabularies}, {sizes_of(self.decoder)}"

    def count_tokens(self, source: np.ndarray, target: np.ndarray, source_mask: np.ndarray | None = None) -> int:
        """Returns the number of tokens in source and target that are not padding tokens."""
        sides = ((np.asarray(source), source_mask), (np.asarray(target), None))
        masks = [self.padding(ids, mask) for ids, mask in sides]
        return sum(ids.size if mask is None else int(np.count_nonzero(mask)) for (ids, _), mask in zip(sides, masks))


def check_tying(src_vocab: int, tgt_vocab: int, tie_weights: bool | str) -> None:
    """Raises ValueError unless tie_weights is a choice that fits the vocabularies."""
    check_choice("tie_weights", tie_weights, (True, False, "embeddings"))
    if tie_weights == "embeddings" and src_vocab != tgt_vocab:
        raise ValueError(f"{called()}tie_weights='embeddings' wants one vocabulary, but src_vocab = {src_vocab} and "
                         f"tgt_vocab = {tgt_vocab}; make them equal, or choose tie_weights=False")


def transformer_2017(vocab_size: int, N: int = 6, d_model: int = 512, d_ff: int = 2048, h: int = 8, dropout: float = 0.1,
                     max_len: int = 5000, pad_id: int | None = 0, rng: Seed = None) -> EncoderDecoder:
    """Returns the model of the paper: post-norm, no final norms, and one matrix for both embeddings and the output.

    The default sizes are those of the base model. The big model has d_model=1024, d_ff=4096, h=16, dropout=0.3.

    Parameters:
        vocab_size : int, the size of the vocabulary that source and target share; 37,000 for English and German
        N=6, d_model=512, d_ff=2048, h=8, dropout=0.1, max_len=5000, pad_id=0, rng=None : as in make_model
    Source: Vaswani et al. 2017, section 3 and table 3.
    """
    return EncoderDecoder(vocab_size, vocab_size, d_model, h, num_layers=N, d_ff=d_ff, dropout=dropout, max_len=max_len,
                          norm="post", tie_weights=True, pad_id=pad_id, rng=rng)


def make_model(src_vocab: int, tgt_vocab: int, N: int = 6, d_model: int = 512, d_ff: int = 2048, h: int = 8,
               dropout: float = 0.1, norm: str = "pre", tie_weights: bool | str = False, max_len: int = 5000,
               pad_id: int | None = 0, rng: Seed = None) -> EncoderDecoder:
    """Returns the model of the annotated Transformer: pre-norm, final norms, untied, Xavier uniform for every matrix.

    The model of the paper is transformer_2017. The default sizes are those of its base model (Vaswani et al. 2017,
    table 3).

    Parameters:
        src_vocab, tgt_vocab : int, sizes of the source and the target vocabulary
        N : int (6), the number of blocks in each stack
        d_model=512, d_ff=2048 : int
        h : int (8), the number of heads
        dropout=0.1, norm="pre", tie_weights=False, max_len=5000, pad_id=0, rng=None : as in EncoderDecoder
    Source: the annotated Transformer (Rush 2018).
    """
    rng = np.random.default_rng(rng)
    model = EncoderDecoder(src_vocab, tgt_vocab, d_model, h, num_layers=N, d_ff=d_ff, dropout=dropout, max_len=max_len,
                           norm=norm, tie_weights=tie_weights, pad_id=pad_id, rng=rng)
    for parameter in model.parameters():
        if parameter.data.ndim > 1 and drawing():
            parameter.data = xavier_uniform(rng, parameter.data.shape)
    return model
