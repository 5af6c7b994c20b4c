"""The Transformer of 2017: an encoder, and a decoder that attends to it."""

import numpy as np

from ..layers.dropout import Dropout
from ..layers.embedding import Embedding, Unembedding
from ..layers.linear import Linear
from ..layers.masks import causal_mask, combine_masks, padding_mask
from ..layers.positions import LearnedPositionalEmbedding, SinusoidalPositionalEncoding
from ..module import Module
from ..argument_checks import check_choice
from ..layers.initial_weights import xavier_uniform
from .initialization import initialize
from .decoder import Decoder
from .encoder import Encoder


class EncoderDecoder(Module):
    """Logits of the next target token, given a source sequence and the target so far.

    Parameters: src_vocab, tgt_vocab, d_model, num_heads, num_layers, d_ff : int; num_layers in each of the stacks
        dropout : float, after the positions and as EncoderBlock; max_len : int, longest source or target
        norm : "pre" or "post"; positions : "sinusoidal" or "learned"
        tie_weights : bool; target embedding and output share one matrix, and where src_vocab == tgt_vocab
            the source embedding shares it too (section 3.4 of the paper)
        pad_id : int or None; these tokens are hidden in source and target
        rng : generator or seed of initial weights and dropout
        init : "xavier", "keras", "gpt2" or "bert", where the initial weights come from; see models/initialization.py
    Shape: source (B, S), target (B, T) -> logits (B, T, tgt_vocab); B may be absent. `encode(source)` gives the memory
        (B, S, d_model), `decode(target, memory, source, cache=None)` the logits, with a KeyValueCache of new tokens.
    Backward: dlogits -> None; the decoder's dmemory flows on into the encoder
    Source: Vaswani et al. 2017, section 3 and figure 1.
    """

    def __init__(self, src_vocab, tgt_vocab, d_model=512, num_heads=8, num_layers=6, d_ff=2048, dropout=0.1,
                 max_len=5000, norm="pre", positions="sinusoidal", tie_weights=False, pad_id=0, activation="relu",
                 rng=None, init="xavier"):
        check_choice("positions", positions, ("sinusoidal", "learned"))
        rng = np.random.default_rng(rng)
        self.pad_id = pad_id
        self.target_embedding = Embedding(tgt_vocab, d_model, scale=True, rng=rng)
        self.source_embedding = (self.target_embedding if tie_weights and src_vocab == tgt_vocab
                                 else Embedding(src_vocab, d_model, scale=True, rng=rng))
        if positions == "sinusoidal":           # a constant table: one serves both sides
            self.source_positions = self.target_positions = SinusoidalPositionalEncoding(d_model, max_len, rng=rng)
        else:
            self.source_positions = LearnedPositionalEmbedding(max_len, d_model, rng)
            self.target_positions = LearnedPositionalEmbedding(max_len, d_model, rng)
        self.dropout = Dropout(dropout, rng)
        sizes = (num_layers, d_model, num_heads, d_ff, dropout, norm, activation)
        self.encoder = Encoder(*sizes, rng=rng)
        self.decoder = Decoder(*sizes, rng=rng, cross_attention=True)
        self.output = Unembedding(self.target_embedding.weight) if tie_weights else Linear(d_model, tgt_vocab, rng=rng)
        initialize(self, init, rng)

    def forward(self, source, target):
        return self.decode(target, self.encode(source), source)

    def backward(self, dlogits):
        dx, dmemory = self.decoder.backward(self.output.backward(dlogits))
        self.target_embedding.backward(self.target_positions.backward(self.dropout.backward(dx)))
        dx = self.encoder.backward(dmemory)
        self.source_embedding.backward(self.source_positions.backward(self.dropout.backward(dx)))

    def encode(self, source):
        source = np.asarray(source)
        x = self.dropout(self.source_positions(self.source_embedding(source)))
        return self.encoder(x, self.padding(source))

    def decode(self, target, memory, source, cache=None):
        source, target = np.asarray(source), np.asarray(target)
        if source.shape[:-1] != target.shape[:-1]:
            raise ValueError(f"source {source.shape} and target {target.shape} are not batches of the same size; "
                             "wanted (B, S) and (B, T)")
        seen = 0 if cache is None else cache.length
        x = self.dropout(self.target_positions(self.target_embedding(target), seen))
        token_mask = np.ones(target.shape, bool) if self.pad_id is None else target != self.pad_id
        if cache is not None:
            token_mask = cache.advance(self, token_mask)
        mask = combine_masks(causal_mask(target.shape[-1], seen), np.atleast_2d(token_mask)[:, None, None, :])
        return self.output(self.decoder(x, memory, mask, self.padding(source), cache=cache))

    def count_tokens(self, source, target):
        """The number of tokens on both sides that are not padding."""
        return sum(np.size(ids) if self.pad_id is None else np.count_nonzero(np.asarray(ids) != self.pad_id)
                   for ids in (source, target))

    def padding(self, ids):
        return None if self.pad_id is None else padding_mask(ids, self.pad_id)


def make_model(src_vocab, tgt_vocab, N=6, d_model=512, d_ff=2048, h=8, dropout=0.1, norm="pre", tie_weights=False,
               max_len=5000, pad_id=0, rng=None):
    """The model of the annotated Transformer: pre-norm, final norms, untied, Xavier uniform on every matrix.

    norm="post", tie_weights=True give the form of the paper. The defaults are its base model
    (Vaswani et al. 2017, table 3): 6 + 6 layers of width 512, 8 heads, d_ff 2048.
    """
    rng = np.random.default_rng(rng)
    model = EncoderDecoder(src_vocab, tgt_vocab, d_model, h, N, d_ff, dropout, max_len, norm,
                           tie_weights=tie_weights, pad_id=pad_id, rng=rng)
    for parameter in model.parameters():
        if parameter.data.ndim > 1:
            parameter.data = xavier_uniform(rng, parameter.data.shape)
    return model
