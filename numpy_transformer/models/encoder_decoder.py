"""The Transformer of 2017: an encoder, and a decoder that attends to its output."""

import numpy as np

from ..layers.dropout import Dropout
from ..layers.embedding import Embedding, Unembedding
from ..layers.initial_weights import xavier_uniform
from ..layers.linear import Linear
from ..layers.masks import causal_mask, combine_masks, padding_mask
from ..module import Module, drawing
from .decoder import Decoder
from .encoder import Encoder
from .initialization import initialize
from .parts import make_positions


class EncoderDecoder(Module):
    """The encoder-decoder of the paper: logits of the next target token, given the source and the target so far.

    Parameters:
        src_vocab, tgt_vocab : int, sizes of the source and the target vocabulary
        d_model=512, num_heads=8, d_ff=2048 : int
        num_layers : int (6), the number of blocks in the encoder, and in the decoder
        dropout : float (0.1), after the positions and as in EncoderBlock
        max_len : int (5000), the length of the longest source or target
        norm="pre", activation="relu" : as in EncoderBlock
        positions : "sinusoidal" (default) or "learned"
        tie_weights : bool (False); True lets the target embedding and the output layer share one matrix, and also the
            source embedding if src_vocab == tgt_vocab (section 3.4 of the paper)
        pad_id : int or None (0); tokens with this id are hidden in source and target
        rng : generator or seed of initial weights and dropout, or None
        init : "xavier" (default), "keras", "gpt2" or "bert", the initial weights; see models/initialization.py
    Shape: source (B, S), target (B, T) -> logits (B, T, tgt_vocab); B may be absent. `encode(source)` returns the
        memory (B, S, d_model), and `decode(target, memory, source, cache=None)` the logits; with a KeyValueCache,
        target holds the new tokens.
    Backward: dlogits -> None; the decoder's dmemory is the gradient of the encoder's output
    Source: Vaswani et al. 2017, section 3 and figure 1.
    """

    def __init__(self, src_vocab, tgt_vocab, d_model=512, num_heads=8, num_layers=6, d_ff=2048, dropout=0.1,
                 max_len=5000, norm="pre", positions="sinusoidal", tie_weights=False, pad_id=0, activation="relu",
                 rng=None, init="xavier"):
        rng = np.random.default_rng(rng)
        self.pad_id = pad_id
        self.target_embedding = Embedding(tgt_vocab, d_model, scale=True, rng=rng)
        if tie_weights and src_vocab == tgt_vocab:
            self.source_embedding = self.target_embedding
        else:
            self.source_embedding = Embedding(src_vocab, d_model, scale=True, rng=rng)
        self.source_positions = make_positions(positions, max_len, d_model, rng, choices=("sinusoidal", "learned"))
        if positions == "sinusoidal":           # the table is constant, so both sides share it
            self.target_positions = self.source_positions
        else:
            self.target_positions = make_positions(positions, max_len, d_model, rng)
        self.dropout = Dropout(dropout, rng)
        self.encoder = Encoder(num_layers, d_model, num_heads, d_ff, dropout, norm, activation, rng=rng)
        self.decoder = Decoder(num_layers, d_model, num_heads, d_ff, dropout, norm, activation, rng=rng,
                               cross_attention=True)
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
        """Returns the encoder's output (B, S, d_model), which the decoder takes as its memory."""
        source = np.asarray(source)
        x = self.dropout(self.source_positions(self.source_embedding(source)))
        return self.encoder(x, self.padding(source))

    def decode(self, target, memory, source, cache=None):
        """Returns the logits (B, T, tgt_vocab); source serves only to hide its padding tokens."""
        source = np.asarray(source)
        target = np.asarray(target)
        if source.shape[:-1] != target.shape[:-1]:
            raise ValueError(f"source {source.shape} and target {target.shape} are not batches of the same size; "
                             "wanted (B, S) and (B, T)")
        seen = 0 if cache is None else cache.length
        x = self.dropout(self.target_positions(self.target_embedding(target), seen))
        token_mask = np.ones(target.shape, bool) if self.pad_id is None else target != self.pad_id
        if cache is not None:
            token_mask = cache.advance(self, token_mask)        # the tokens in the cache, then the new ones
        mask = combine_masks(causal_mask(target.shape[-1], seen), np.atleast_2d(token_mask)[:, None, None, :])
        return self.output(self.decoder(x, memory, mask, self.padding(source), cache=cache))

    def padding(self, ids):
        """Returns the mask that hides padding tokens, or None if no id means padding."""
        return None if self.pad_id is None else padding_mask(ids, self.pad_id)

    def count_tokens(self, source, target):
        """Returns the number of tokens in source and target that are not padding tokens."""
        if self.pad_id is None:
            return np.size(source) + np.size(target)
        return sum(np.count_nonzero(np.asarray(ids) != self.pad_id) for ids in (source, target))


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
