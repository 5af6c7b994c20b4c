"""Encoder-only models (BERT style): a text in, and from its vectors a class, a tag for each token, or hidden words."""

import numpy as np

from ..layers.activations import GELU, ReLU
from ..layers.dropout import Dropout
from ..layers.embedding import Embedding, Unembedding
from ..layers.linear import Linear
from ..layers.normalization import LayerNorm
from ..layers.pooling import MaskedMean
from ..layers.positions import LearnedPositionalEmbedding, SinusoidalPositionalEncoding
from ..layers.rotary import RotaryEmbedding
from ..module import Module, Parameter
from ..argument_checks import check_choice, check_divides, check_positive, check_integers, check_ids, check_token_mask
from ..layers.fast import rows
from ..layers.initial_weights import DTYPE
from .initialization import initialize
from .encoder import Encoder


class TextEncoder(Module):
    """A vector for every token: embedding times sqrt(d_model), positions, perhaps segments, dropout, an Encoder.

    Parameters: vocab_size, d_model, num_heads, num_layers : int; d_ff : int or None (4 d_model); max_len : int
        dropout, norm, activation, eps and further options : as Encoder; positions : "sinusoidal", "learned" or "rotary"
        num_segments : int, kinds of segment that have an embedding (BERT: 2); 0: none
        pad_id : int or None; these tokens are hidden, unless mask_padding is False
        rng : generator or seed of initial weights and dropout
        init : "xavier", "keras", "gpt2" or "bert", where the initial weights come from; see models/initialization.py
    Shape: ids (B, T), mask=None (B, T; True = real token, None: all but pad_id), segments=None (B, T; None: all 0)
        -> x (B, T, d_model); B may be absent. Padding at the end changes nothing for the real tokens.
    Backward: dx -> None: ids have no gradient
    Raises: ValueError for more than max_len tokens, or a mask that is not boolean or of another shape.
    Source: Vaswani et al. 2017, sections 3.1, 3.4 and 3.5; segments: Devlin et al. 2019, figure 2; rotary: lesson 16.
    """

    def __init__(self, vocab_size, d_model, num_heads, num_layers, d_ff=None, max_len=512, dropout=0.1, norm="post",
                 activation="relu", eps=1e-6, positions="sinusoidal", num_segments=0, pad_id=0, mask_padding=True,
                 rng=None, init="xavier", **options):
        check_choice("positions", positions, ("sinusoidal", "learned", "rotary"))
        check_divides("d_model", d_model, "num_heads", num_heads)
        rng = np.random.default_rng(rng)
        self.pad_id, self.mask_padding, self.max_len = pad_id, mask_padding, max_len
        d_ff = 4 * d_model if d_ff is None else d_ff
        self.embedding = Embedding(vocab_size, d_model, scale=True, rng=rng)
        self.segments = Embedding(num_segments, d_model, rng=rng) if num_segments else None
        self.positions = (LearnedPositionalEmbedding(max_len, d_model, rng) if positions == "learned" else None if
                          positions == "rotary" else SinusoidalPositionalEncoding(d_model, max_len))
        rotary = RotaryEmbedding(d_model // num_heads) if positions == "rotary" else None
        self.dropout = Dropout(dropout, rng)
        self.encoder = Encoder(num_layers, d_model, num_heads, d_ff, dropout, norm, activation, eps, rng=rng,
                               rotary=rotary, **options)
        initialize(self, init, rng)

    def forward(self, ids, mask=None, segments=None):
        ids = check_ids(ids, self.max_len, segments)
        x = self.embedding(ids)
        if self.segments is None and segments is not None:
            raise ValueError("segments are given, but the model has no embedding for them; give it num_segments=2")
        if self.segments is not None:
            x += self.segments(np.zeros_like(ids) if segments is None else segments)
        token_mask = self.token_mask(ids, mask)
        mask = token_mask if token_mask is None else np.atleast_2d(token_mask)[:, None, None, :]
        if self.positions is not None:
            x = self.positions(x)
        return self.encoder(self.dropout(x), mask)

    def backward(self, dx):
        dx = self.dropout.backward(self.encoder.backward(dx))
        if self.positions is not None:
            dx = self.positions.backward(dx)
        if self.segments is not None:
            self.segments.backward(dx)
        self.embedding.backward(dx)

    def token_mask(self, ids, mask=None):
        """Which tokens are no padding, booleans of the shape of ids; None where all count."""
        ids = np.asarray(ids)
        if mask is None:
            mask = ids != self.pad_id if self.mask_padding and self.pad_id is not None else np.ones(ids.shape, bool)
        return None if check_token_mask(mask, ids.shape).all() else np.asarray(mask)

    def count_tokens(self, ids, mask=None, *others):
        """The number of tokens that are not hidden as padding."""
        token_mask = self.token_mask(ids, mask)
        return np.size(ids) if token_mask is None else np.count_nonzero(token_mask)

    def embed(self, ids, mask=None):
        """A vector for a whole text, (B, d_model): the mean over its real tokens. Only in eval()."""
        if self.training:
            raise ValueError("embed gives the vectors of a trained model, without dropout; call model.eval() first")
        return MaskedMean()(TextEncoder.forward(self, ids, mask), self.token_mask(ids, mask))


class SequenceClassifier(TextEncoder):
    """A class for a whole text: TextEncoder, mean over its tokens, a hidden layer with ReLU, dropout, output.

    Parameters: vocab_size, d_model, num_heads, num_layers, d_ff, dropout, rng and further options : as TextEncoder
        num_classes : int; 1: one logit, for BinaryCrossEntropyLoss, else one for each class; hidden : int
        mask_padding : bool; False attends to padding and averages over it, as note 001 of the course does
    Shape: ids (B, T), mask=None, segments=None -> logits (B, num_classes), or (B,) for one class; B may be absent
    Backward: dlogits -> None; the mean hands each real token its share
    Source: Reimers and Gurevych 2019, section 3, for the mean; the sentiment classifier of Keras's examples.
    """

    def __init__(self, vocab_size, d_model, num_heads, num_layers, d_ff=None, num_classes=1, hidden=64, dropout=0.1,
                 rng=None, init="xavier", **options):
        check_positive(num_classes=num_classes)
        rng = np.random.default_rng(rng)
        super().__init__(vocab_size, d_model, num_heads, num_layers, d_ff, dropout=dropout, rng=rng, **options)
        self.pool, self.hidden, self.activation = MaskedMean(), Linear(d_model, hidden, rng=rng), ReLU()
        self.output = Linear(hidden, num_classes, rng=rng)
        initialize(self, init, rng)

    def forward(self, ids, mask=None, segments=None):
        x = self.pool(super().forward(ids, mask, segments), self.token_mask(ids, mask))           # (B, d_model)
        logits = self.output(self.dropout(self.activation(self.hidden(x))))
        return logits[..., 0] if logits.shape[-1] == 1 else logits

    def backward(self, dlogits):
        dlogits = dlogits[..., None] if self.output.weight.data.shape[1] == 1 else dlogits
        dx = self.hidden.backward(self.activation.backward(self.dropout.backward(self.output.backward(dlogits))))
        super().backward(self.pool.backward(dx))


class TokenClassifier(TextEncoder):
    """A class for every token, such as the tag of a named entity: TextEncoder, dropout, output.

    Parameters: num_classes : int, logits of each token; the others as SequenceClassifier
    Shape: ids (B, T), mask=None, segments=None -> logits (B, T, num_classes); B may be absent
    Backward: dlogits -> None
    Source: Devlin et al. 2019, section 5.3.
    """

    def __init__(self, vocab_size, d_model, num_heads, num_layers, d_ff=None, num_classes=2, dropout=0.1,
                 rng=None, init="xavier", **options):
        rng = np.random.default_rng(rng)
        super().__init__(vocab_size, d_model, num_heads, num_layers, d_ff, dropout=dropout, rng=rng, **options)
        self.output = Linear(d_model, num_classes, rng=rng)
        initialize(self, init, rng)

    def forward(self, ids, mask=None, segments=None):
        return self.output(self.dropout(super().forward(ids, mask, segments)))

    def backward(self, dlogits):
        super().backward(self.dropout.backward(self.output.backward(dlogits)))


class MaskedLanguageModel(TextEncoder):
    """Logits of the words that were hidden: TextEncoder, Linear, GELU, LayerNorm, transposed embedding, bias.

    Parameters: as TextEncoder, with BERT's activation, positions and two segments
    Shape: ids (B, T), mask=None, segments=None, positions=None -> logits (B, T, vocab_size); with positions (B, K), integers,
        at these tokens alone: (B, K, vocab_size). B may be absent.
    Backward: dlogits -> None; the embedding's gradient is that of both its uses
    Source: Devlin et al. 2019, sections 3 and 3.1; the layers before the output: its published code.
    """

    def __init__(self, vocab_size, d_model, num_heads, num_layers, d_ff=None, activation="gelu", positions="learned",
                 num_segments=2, eps=1e-6, rng=None, init="xavier", **options):
        rng = np.random.default_rng(rng)
        super().__init__(vocab_size, d_model, num_heads, num_layers, d_ff, activation=activation, positions=positions,
                         num_segments=num_segments, eps=eps, rng=rng, **options)
        self.transform, self.activation = Linear(d_model, d_model, rng=rng), GELU()
        self.norm, self.output = LayerNorm(d_model, eps), Unembedding(self.embedding.weight)
        self.bias = Parameter(np.zeros(vocab_size, DTYPE))
        initialize(self, init, rng)

    def forward(self, ids, mask=None, segments=None, positions=None):
        x = super().forward(ids, mask, segments)                            # (B, T, d_model)
        if positions is not None:
            positions = check_integers(positions, x.shape[-2], "positions", "length")
            if positions.shape[:-1] != x.shape[:-2]:
                raise ValueError(f"positions have shape {positions.shape}: wanted {(*x.shape[:-2], 'K')}, so many of each text")
            x = np.take_along_axis(x, positions[..., None], -2)
        self.remember(np.shape(ids), positions)
        return self.output(self.norm(self.activation(self.transform(x)))) + self.bias.data

    def backward(self, dlogits):
        shape, positions = self.recall()
        self.bias.grad += rows(dlogits).sum(0)
        dy = self.transform.backward(self.activation.backward(self.norm.backward(self.output.backward(dlogits))))
        if positions is not None:                  # the other tokens have no gradient; a place named twice has both
            dx = np.zeros((*shape, dy.shape[-1]), dy.dtype)
            first = np.arange(0, dx[..., 0].size, shape[-1]).reshape(*shape[:-1], 1)
            np.add.at(rows(dx), (first + positions).ravel(), rows(dy))
            dy = dx
        super().backward(dy)
