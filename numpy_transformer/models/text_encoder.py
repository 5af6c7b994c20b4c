"""Encoder-only models (BERT style): from a text to its class, to a tag for each token, or to masked words."""

import math

import numpy as np

from ..argument_checks import check_divides, check_ids, check_integers, check_positive, check_token_mask
from ..layers.activations import GELU, ReLU
from ..layers.dropout import Dropout
from ..layers.embedding import Embedding, Unembedding
from ..layers.fast import rows
from ..layers.initial_weights import DTYPE
from ..layers.linear import Linear
from ..layers.normalization import LayerNorm
from ..layers.pooling import MaskedMean
from ..layers.rotary import RotaryEmbedding
from ..module import Module, Parameter
from .encoder import Encoder
from .initialization import initialize
from .parts import make_positions


class TextEncoder(Module):
    """A vector for every token of a text.

    Embedding times sqrt(d_model), positions, optional segments, dropout, and an Encoder.

    Parameters:
        vocab_size, d_model, num_heads, num_layers : int
        d_ff : int or None (4 d_model)
        max_len : int (512), the length of the longest text
        dropout=0.1, norm="post", activation="relu", eps=1e-6 : as in EncoderBlock
        positions : "sinusoidal" (default), "learned" or "rotary"
        num_segments : int (0), how many kinds of segment have an embedding (BERT: 2)
        pad_id : int or None (0); tokens with this id are hidden, unless mask_padding is False
        mask_padding : bool (True); False treats padding tokens like real ones
        rng : generator or seed of initial weights and dropout, or None
        init : "xavier" (default), "keras", "gpt2" or "bert", the initial weights; see models/initialization.py
        options : further options of Encoder
    Shape: ids (B, T), mask=None (B, T; True marks a real token; None: all but pad_id), segments=None (B, T; None: all
        0) -> x (B, T, d_model); B may be absent. Padding tokens at the end change nothing for the real tokens.
    Backward: dx -> None: ids have no gradient
    Raises: ValueError for more than max_len tokens, or a mask that is not boolean or of another shape.
    Source: Vaswani et al. 2017, sections 3.1, 3.4 and 3.5; segments: Devlin et al. 2019, figure 2; rotary: lesson 16.
    """

    def __init__(self, vocab_size, d_model, num_heads, num_layers, d_ff=None, max_len=512, dropout=0.1, norm="post",
                 activation="relu", eps=1e-6, positions="sinusoidal", num_segments=0, pad_id=0, mask_padding=True,
                 rng=None, init="xavier", **options):
        check_divides("d_model", d_model, "num_heads", num_heads)
        rng = np.random.default_rng(rng)
        d_ff = 4 * d_model if d_ff is None else d_ff
        rotary = RotaryEmbedding(d_model // num_heads) if positions == "rotary" else None
        self.pad_id = pad_id
        self.mask_padding = mask_padding
        self.max_len = max_len
        self.embedding = Embedding(vocab_size, d_model, scale=True, rng=rng)
        self.segments = Embedding(num_segments, d_model, rng=rng) if num_segments else None
        self.positions = make_positions(positions, max_len, d_model, rng)
        self.dropout = Dropout(dropout, rng)
        self.encoder = Encoder(num_layers, d_model, num_heads, d_ff, dropout, norm, activation, eps, rng=rng,
                               rotary=rotary, **options)
        initialize(self, init, rng)

    def forward(self, ids, mask=None, segments=None):
        ids = check_ids(ids, self.max_len, segments)
        if segments is not None and self.segments is None:
            raise ValueError("segments are given, but the model has no embedding for them; give it num_segments=2")
        x = self.embedding(ids)
        if self.segments is not None:
            x = x + self.segments(np.zeros_like(ids) if segments is None else segments)
        if self.positions is not None:
            x = self.positions(x)
        return self.encoder(self.dropout(x), self.attention_mask(ids, mask))

    def backward(self, dx):
        dx = self.dropout.backward(self.encoder.backward(dx))
        if self.positions is not None:
            dx = self.positions.backward(dx)
        if self.segments is not None:
            self.segments.backward(dx)
        self.embedding.backward(dx)

    def token_mask(self, ids, mask=None):
        """Returns booleans of the shape of ids, True for real tokens; or None if all tokens are real."""
        ids = np.asarray(ids)
        if mask is not None:
            mask = check_token_mask(mask, ids.shape)
        elif self.mask_padding and self.pad_id is not None:
            mask = ids != self.pad_id
        return None if mask is None or mask.all() else mask

    def attention_mask(self, ids, mask=None):
        """Returns the mask (B, 1, 1, T) that hides padding tokens, or None if there are none."""
        token_mask = self.token_mask(ids, mask)
        return None if token_mask is None else np.atleast_2d(token_mask)[:, None, None, :]

    def count_tokens(self, ids, mask=None, *others):
        """Returns the number of real tokens."""
        token_mask = self.token_mask(ids, mask)
        return np.size(ids) if token_mask is None else np.count_nonzero(token_mask)

    def embed(self, ids, mask=None):
        """Returns one vector for each text, (B, d_model): the mean over its real tokens. Only after eval().

        Raises: ValueError in train().
        """
        if self.training:
            raise ValueError("embed gives the vectors of a trained model, without dropout; call model.eval() first")
        return MaskedMean()(TextEncoder.forward(self, ids, mask), self.token_mask(ids, mask))


class SequenceClassifier(TextEncoder):
    """Classifies whole texts: TextEncoder, mean over the real tokens, a hidden layer with ReLU, dropout, output.

    Parameters:
        vocab_size, d_model, num_heads, num_layers, d_ff=None : as in TextEncoder
        num_classes : int (1); 1 gives one logit, for BinaryCrossEntropyLoss, otherwise one logit for each class
        hidden : int (64), the width of the hidden layer
        dropout=0.1, rng=None, init="xavier", options : as in TextEncoder; mask_padding=False attends to padding tokens
            and includes them in the mean, as note 001 of the course does
    Shape: ids (B, T), mask=None, segments=None -> logits (B, num_classes), or (B,) for one class; B may be absent
    Backward: dlogits -> None; each real token receives an equal share of the gradient of the mean
    Source: Reimers and Gurevych 2019, section 3, for the mean; the sentiment classifier of Keras's examples.
    """

    def __init__(self, vocab_size, d_model, num_heads, num_layers, d_ff=None, num_classes=1, hidden=64, dropout=0.1,
                 rng=None, init="xavier", **options):
        check_positive(num_classes=num_classes)
        rng = np.random.default_rng(rng)
        super().__init__(vocab_size, d_model, num_heads, num_layers, d_ff, dropout=dropout, rng=rng, **options)
        self.pool = MaskedMean()
        self.hidden = Linear(d_model, hidden, rng=rng)
        self.activation = ReLU()
        self.output = Linear(hidden, num_classes, rng=rng)
        initialize(self, init, rng)

    def forward(self, ids, mask=None, segments=None):
        x = super().forward(ids, mask, segments)
        x = self.pool(x, self.token_mask(ids, mask))                        # (B, d_model)
        logits = self.output(self.dropout(self.activation(self.hidden(x))))
        return logits[..., 0] if logits.shape[-1] == 1 else logits

    def backward(self, dlogits):
        if self.output.d_out == 1:
            dlogits = dlogits[..., None]
        dx = self.hidden.backward(self.activation.backward(self.dropout.backward(self.output.backward(dlogits))))
        super().backward(self.pool.backward(dx))


class TokenClassifier(TextEncoder):
    """Classifies every token, for example by tags of named entities: TextEncoder, dropout, output.

    Parameters:
        vocab_size, d_model, num_heads, num_layers, d_ff=None : as in TextEncoder
        num_classes : int (2), the number of logits for each token
        dropout=0.1, rng=None, init="xavier", options : as in TextEncoder
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
    """Logits of masked words: TextEncoder, Linear, GELU, LayerNorm, the transposed embedding and a bias.

    Parameters:
        vocab_size, d_model, num_heads, num_layers, d_ff=None : as in TextEncoder
        activation : "gelu" by default, in the encoder's feed-forward layers
        positions : "learned" by default
        num_segments : int (2)
        eps=1e-6, rng=None, init="xavier", options : as in TextEncoder
    Shape: ids (B, T), mask=None, segments=None, positions=None -> logits (B, T, vocab_size). With integer positions
        (B, K), logits are computed for these tokens alone: (B, K, vocab_size). B may be absent.
    Backward: dlogits -> None; the embedding's gradient is the sum over its two uses
    Raises: IndexError for a position outside the text; ValueError unless there are as many positions for each text.
    Source: Devlin et al. 2019, sections 3 and 3.1; the layers before the output: its published code.
    """

    def __init__(self, vocab_size, d_model, num_heads, num_layers, d_ff=None, activation="gelu", positions="learned",
                 num_segments=2, eps=1e-6, rng=None, init="xavier", **options):
        rng = np.random.default_rng(rng)
        super().__init__(vocab_size, d_model, num_heads, num_layers, d_ff, activation=activation, positions=positions,
                         num_segments=num_segments, eps=eps, rng=rng, **options)
        self.transform = Linear(d_model, d_model, rng=rng)
        self.activation = GELU()
        self.norm = LayerNorm(d_model, eps)
        self.output = Unembedding(self.embedding.weight)
        self.bias = Parameter(np.zeros(vocab_size, DTYPE))
        initialize(self, init, rng)

    def forward(self, ids, mask=None, segments=None, positions=None):
        x = super().forward(ids, mask, segments)                            # (B, T, d_model)
        if positions is not None:
            positions = self.check_positions(positions, x)
            x = np.take_along_axis(x, positions[..., None], -2)             # (B, K, d_model)
        self.remember(np.shape(ids), positions)
        return self.output(self.norm(self.activation(self.transform(x)))) + self.bias.data

    def backward(self, dlogits):
        shape, positions = self.recall()
        self.bias.grad += rows(dlogits).sum(0)
        dx = self.transform.backward(self.activation.backward(self.norm.backward(self.output.backward(dlogits))))
        if positions is not None:
            dx = self.scatter(dx, positions, shape)
        super().backward(dx)

    def check_positions(self, positions, x):
        """Returns positions as an array of integers, K for each text."""
        positions = check_integers(positions, x.shape[-2], "positions", "length")
        if positions.shape[:-1] != x.shape[:-2]:
            raise ValueError(f"positions have shape {positions.shape}: wanted {(*x.shape[:-2], 'K')}, K for each text")
        return positions

    def scatter(self, dx, positions, shape):
        """Returns (B, T, d_model) with each row of dx (B, K, d_model) added at its position, and zeros elsewhere."""
        *batch, T = shape
        scattered = np.zeros((*batch, T, dx.shape[-1]), dx.dtype)
        first_rows = np.arange(0, math.prod(shape), T).reshape(*batch, 1)   # the row of each text's first token
        np.add.at(rows(scattered), (first_rows + positions).ravel(), rows(dx))      # a repeated position gets both
        return scattered
