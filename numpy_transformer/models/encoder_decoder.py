"""The Transformer of 2017: an encoder, and a decoder that attends to its output."""

import numpy as np

from ..argument_checks import check_choice, check_token_mask
from ..layers.dropout import Dropout
from ..layers.embedding import Embedding, Unembedding
from ..layers.initial_weights import xavier_uniform
from ..layers.linear import Linear
from ..layers.masks import causal_mask, combine_masks, padding_mask
from ..layers.relative import RelativePositionBias, UnscaledAttention
from ..module import drawing
from .decoder import Decoder
from .encoder import Encoder
from .initialization import initialize
from .parts import make_positions
from .rebuildable import RebuildableModel

POSITIONS = ("sinusoidal", "learned", "relative")


class EncoderDecoder(RebuildableModel):
    """The encoder-decoder of the paper: logits of the next target token, given the source and the target so far.

    Parameters:
        src_vocab, tgt_vocab : int, sizes of the source and the target vocabulary
        d_model=512, num_heads=8, d_ff=2048 : int
        num_layers : int (6), the number of blocks in the encoder, and in the decoder
        dropout : float (0.1), after the positions and as in EncoderBlock
        max_len : int (5000), the length of the longest source or target; "relative" positions have no limit
        norm="pre", activation="relu" : as in EncoderBlock
        positions : "sinusoidal" (default), "learned", or "relative", T5's biases of the attention scores
        tie_weights : bool (False); True lets the target embedding and the output layer share one matrix, and also the
            source embedding if src_vocab == tgt_vocab (section 3.4 of the paper). "embeddings" lets the two embeddings
            share one, and the output layer has its own (T5 1.1)
        pad_id : int or None (0); tokens with this id are hidden in source and target
        rng : generator or seed of initial weights and dropout, or None
        init : "xavier" (default), "keras", "gpt2" or "bert", the initial weights; see models/initialization.py
        scale_embedding : bool (True); False leaves out the embeddings' factor sqrt(d_model), as T5 does
        output_factor : float (1.0), the factor of a tied output layer; T5: 1 / sqrt(d_model)
        num_decoder_layers : int or None (num_layers), the number of blocks in the decoder
        num_buckets=32, max_distance=128 : as in RelativePositionBias, for "relative" positions
        mask_target : bool (True); False does not hide padding tokens of the target: T5 begins each target with one
        eps=1e-5, norm_layer="layer", bias=True, d_head=None : as in EncoderBlock
        scale_scores : bool or None; whether the attention scores are divided by sqrt(d). None: they are, except for
            "relative" positions
    Shape: source (B, S), target (B, T), source_mask=None (B, S; True marks a real token; None: all but pad_id) ->
        logits (B, T, tgt_vocab); B may be absent. `encode(source, source_mask=None)` returns the memory
        (B, S, d_model), and `decode(target, memory, source, cache=None, source_mask=None)` the logits; with a
        KeyValueCache, target holds the new tokens.
    Backward: dlogits -> None; the decoder's dmemory is the gradient of the encoder's output
    Raises: ValueError for settings that exclude each other, or a mask that is not boolean or of another shape.
    Source: Vaswani et al. 2017, section 3 and figure 1; T5: Raffel et al. 2020, section 2.1. T5's published code has
        two more dropouts, on the output of each stack and on the hidden layer of T5 1.1, which are left out here.
    """

    def __init__(self, src_vocab, tgt_vocab, d_model=512, num_heads=8, num_layers=6, d_ff=2048, dropout=0.1,
                 max_len=5000, norm="pre", positions="sinusoidal", tie_weights=False, pad_id=0, activation="relu",
                 rng=None, init="xavier", scale_embedding=True, output_factor=1.0, num_decoder_layers=None,
                 num_buckets=32, max_distance=128, mask_target=True, eps=1e-5, norm_layer="layer", bias=True,
                 d_head=None, scale_scores=None):
        scale_scores = positions != "relative" if scale_scores is None else scale_scores
        check_settings(src_vocab, tgt_vocab, positions, tie_weights, output_factor, scale_scores)
        rng = np.random.default_rng(rng)
        self.pad_id = pad_id
        self.mask_target = mask_target
        self.target_embedding = Embedding(tgt_vocab, d_model, scale_embedding, rng=rng)
        if tie_weights and src_vocab == tgt_vocab:
            self.source_embedding = self.target_embedding
        else:
            self.source_embedding = Embedding(src_vocab, d_model, scale_embedding, rng=rng)
        self.source_positions = make_positions(positions, max_len, d_model, rng, POSITIONS)
        if positions == "sinusoidal":           # the table is constant, so both sides share it
            self.target_positions = self.source_positions
        else:
            self.target_positions = make_positions(positions, max_len, d_model, rng, POSITIONS)
        self.dropout = Dropout(dropout, rng)
        sizes = (d_model, num_heads, d_ff, dropout, norm, activation, eps)
        options = {"norm_layer": norm_layer, "bias": bias, "d_head": d_head, "rng": rng}
        num_decoder_layers = num_layers if num_decoder_layers is None else num_decoder_layers
        self.encoder = Encoder(num_layers, *sizes, **options)
        self.decoder = Decoder(num_decoder_layers, *sizes, **options, cross_attention=True)
        for stack, causal in ((self.encoder, False), (self.decoder, True)):
            position_bias = None
            if positions == "relative":
                position_bias = RelativePositionBias(num_heads, num_buckets, max_distance, causal, rng)
            if not scale_scores:
                attend_unscaled(stack, position_bias, dropout, rng)
        if tie_weights is True:
            self.output = Unembedding(self.target_embedding.weight, output_factor)
        else:
            self.output = Linear(d_model, tgt_vocab, bias, rng)
        initialize(self, init, rng)

    def forward(self, source, target, source_mask=None):
        return self.decode(target, self.encode(source, source_mask), source, source_mask=source_mask)

    def backward(self, dlogits):
        dx, dmemory = self.decoder.backward(self.output.backward(dlogits))
        dx = self.dropout.backward(dx)
        if self.target_positions is not None:
            dx = self.target_positions.backward(dx)
        self.target_embedding.backward(dx)
        dx = self.dropout.backward(self.encoder.backward(dmemory))
        if self.source_positions is not None:
            dx = self.source_positions.backward(dx)
        self.source_embedding.backward(dx)

    def encode(self, source, source_mask=None):
        """Returns the encoder's output (B, S, d_model), which the decoder takes as its memory."""
        source = np.asarray(source)
        x = self.source_embedding(source)
        if self.source_positions is not None:
            x = self.source_positions(x)
        return self.encoder(self.dropout(x), self.padding(source, source_mask))

    def decode(self, target, memory, source, cache=None, source_mask=None):
        """Returns the logits (B, T, tgt_vocab); source serves only to hide its padding tokens."""
        source = np.asarray(source)
        target = np.asarray(target)
        if source.shape[:-1] != target.shape[:-1]:
            raise ValueError(f"source {source.shape} and target {target.shape} are not batches of the same size; "
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
        return self.output(self.decoder(self.dropout(x), memory, mask, self.padding(source, source_mask), cache=cache))

    def padding(self, ids, mask=None):
        """Returns the mask (B, 1, 1, S) that hides padding tokens, or None if no id means padding."""
        if mask is not None:
            return np.atleast_2d(check_token_mask(mask, ids.shape))[:, None, None, :]
        return None if self.pad_id is None else padding_mask(ids, self.pad_id)

    def count_tokens(self, source, target, source_mask=None):
        """Returns the number of tokens in source and target that are not padding tokens."""
        sides = ((np.asarray(source), source_mask), (np.asarray(target), None))
        masks = [self.padding(ids, mask) for ids, mask in sides]
        return sum(ids.size if mask is None else np.count_nonzero(mask) for (ids, _), mask in zip(sides, masks))


def check_settings(src_vocab, tgt_vocab, positions, tie_weights, output_factor, scale_scores):
    """Raises ValueError for settings that exclude each other."""
    check_choice("tie_weights", tie_weights, (True, False, "embeddings"))
    check_choice("positions", positions, POSITIONS)
    if positions == "relative" and scale_scores:
        raise ValueError("positions='relative' adds its biases to scores that are not divided by sqrt(d); "
                         "choose scale_scores=False, or other positions")
    if tie_weights == "embeddings" and src_vocab != tgt_vocab:
        raise ValueError(f"tie_weights='embeddings' wants one vocabulary, but src_vocab = {src_vocab} and tgt_vocab = "
                         f"{tgt_vocab}; make them equal, or choose tie_weights=False")
    if tie_weights is not True and output_factor != 1:
        raise ValueError(f"output_factor = {output_factor} belongs to a tied output layer; choose tie_weights=True or "
                         "output_factor=1.0")


def attend_unscaled(stack, position_bias, dropout, rng):
    """Replaces the attention of all blocks by UnscaledAttention; self-attention gets the bias."""
    for block in stack.blocks:
        block.attention.attention = UnscaledAttention(position_bias, dropout, rng)
        if getattr(block, "cross_attention", None) is not None:
            block.cross_attention.attention = UnscaledAttention(None, dropout, rng)


def make_model(src_vocab, tgt_vocab, N=6, d_model=512, d_ff=2048, h=8, dropout=0.1, norm="pre", tie_weights=False,
               max_len=5000, pad_id=0, rng=None):
    """Returns the model of the annotated Transformer: pre-norm, final norms, untied, Xavier uniform for every matrix.

    norm="post", tie_weights=True give the model of the paper. The default sizes are those of its base model
    (Vaswani et al. 2017, table 3).

    Parameters:
        src_vocab, tgt_vocab : int, sizes of the source and the target vocabulary
        N : int (6), the number of blocks in each stack
        d_model=512, d_ff=2048 : int
        h : int (8), the number of heads
        dropout=0.1, norm="pre", tie_weights=False, max_len=5000, pad_id=0, rng=None : as in EncoderDecoder
    Source: the annotated Transformer (Rush 2018).
    """
    rng = np.random.default_rng(rng)
    model = EncoderDecoder(src_vocab, tgt_vocab, d_model, h, N, d_ff, dropout, max_len, norm,
                           tie_weights=tie_weights, pad_id=pad_id, rng=rng)
    for parameter in model.parameters():
        if parameter.data.ndim > 1 and drawing():
            parameter.data = xavier_uniform(rng, parameter.data.shape)
    return model
