"""Encoder-only models with a head: from a text to its class, to a tag for each token, or to masked words."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..argument_checks import check_choice, check_integers, check_positive
from ..layers.activations import Tanh
from ..layers.embedding import Unembedding
from ..layers.fast import rows
from ..layers.feed_forward import ACTIVATIONS
from ..layers.initial_weights import DTYPE
from ..layers.linear import Linear
from ..layers.normalization import LayerNorm
from ..layers.pooling import POOLINGS
from ..module import Module, Parameter
from ..types import Component, Seed
from .initialization import initialize
from .text_encoder import TextEncoder, TextSettings

HEAD_ACTIVATIONS: dict[str, Callable[[], Module]] = {**ACTIVATIONS, "tanh": Tanh}


class SequenceClassifier(TextEncoder):
    """Classifies whole texts: TextEncoder, mean over the real tokens, a hidden layer with ReLU, dropout, output.

    BERT and RoBERTa take the first token and tanh, DistilBERT the first token and ReLU. RoBERTa's own code has a second
    dropout, before the hidden layer, which is left out here; it makes a difference in training only.

    Parameters:
        vocab_size, d_model, num_heads, num_layers, d_ff=None : as in TextEncoder
        num_classes : int (1); 1 gives one logit, for BinaryCrossEntropyLoss, otherwise one logit for each class
        hidden : int (64), the width of the hidden layer
        dropout=0.1, rng=None : as in TextEncoder
        pool : "mean" (default) or "first", which vector represents the text; "first" wants padding on the right
        head_activation : "relu" (default), "tanh" or another activation of FeedForward, after the hidden layer
        max_len and further settings : as in TextEncoder. Without mask_padding, padding tokens are attended to and included
            in the mean, as note 001 of the course does
    Shape: ids (B, T), mask=None, segments=None -> logits (B, num_classes), or (B,) for one class; B may be absent
    Backward: dlogits -> None; each real token receives an equal share of the gradient of the mean
    Source: Reimers and Gurevych 2019, section 3, for the mean; the sentiment classifier of Keras's examples; the first
        token: Devlin et al. 2019, section 4.1.
    """

    def __init__(self, vocab_size: int, d_model: int, num_heads: int, num_layers: int, d_ff: int | None = None,
                 num_classes: int = 1, hidden: int = 64, dropout: float = 0.1, rng: Seed = None, pool: str = "mean",
                 head_activation: str = "relu", **settings: Any) -> None:
        check_positive(num_classes=num_classes)
        check_choice("pool", pool, POOLINGS)
        check_choice("head_activation", head_activation, HEAD_ACTIVATIONS)
        rng = np.random.default_rng(rng)
        super().__init__(vocab_size, d_model, num_heads, num_layers, d_ff=d_ff, dropout=dropout, rng=rng,
                         **settings | {"init": "xavier"})
        self.pool = POOLINGS[pool]()
        self.hidden = Linear(d_model, hidden, rng=rng)
        self.activation = HEAD_ACTIVATIONS[head_activation]()
        self.output = Linear(hidden, num_classes, rng=rng)
        initialize(self, settings.get("init", self.Settings.init), rng)

    def forward(self, ids: np.ndarray, mask: np.ndarray | None = None, segments: np.ndarray | None = None) -> np.ndarray:
        x = super().forward(ids, mask, segments)
        x = self.pool(x, self.token_mask(ids, mask))                        # (B, d_model)
        logits = self.output(self.dropout(self.activation(self.hidden(x))))
        return logits[..., 0] if logits.shape[-1] == 1 else logits

    def backward(self, dlogits: np.ndarray) -> None:
        if self.output.d_out == 1:
            dlogits = dlogits[..., None]
        dx = self.hidden.backward(self.activation.backward(self.dropout.backward(self.output.backward(dlogits))))
        super().backward(self.pool.backward(dx))


class TokenClassifier(TextEncoder):
    """Classifies every token, for example by tags of named entities: TextEncoder, dropout, output.

    Parameters:
        vocab_size, d_model, num_heads, num_layers, d_ff=None : as in TextEncoder
        num_classes : int (2), the number of logits for each token
        dropout=0.1, rng=None : as in TextEncoder
        max_len and further settings : as in TextEncoder
    Shape: ids (B, T), mask=None, segments=None -> logits (B, T, num_classes); B may be absent
    Backward: dlogits -> None
    Source: Devlin et al. 2019, section 5.3.
    """

    def __init__(self, vocab_size: int, d_model: int, num_heads: int, num_layers: int, d_ff: int | None = None,
                 num_classes: int = 2, dropout: float = 0.1, rng: Seed = None, **settings: Any) -> None:
        rng = np.random.default_rng(rng)
        super().__init__(vocab_size, d_model, num_heads, num_layers, d_ff=d_ff, dropout=dropout, rng=rng,
                         **settings | {"init": "xavier"})
        self.output = Linear(d_model, num_classes, rng=rng)
        initialize(self, settings.get("init", self.Settings.init), rng)

    def forward(self, ids: np.ndarray, mask: np.ndarray | None = None, segments: np.ndarray | None = None) -> np.ndarray:
        return self.output(self.dropout(super().forward(ids, mask, segments)))

    def backward(self, dlogits: np.ndarray) -> None:
        super().backward(self.dropout.backward(self.output.backward(dlogits)))


@dataclass(frozen=True, kw_only=True)
class MaskedSettings(TextSettings):
    """The settings of a MaskedLanguageModel.

    Parameters:
        activation : "gelu" by default, in the encoder's feed-forward layers
        positions : "learned" by default
        num_segments : int (2)
        others : as in TextSettings
    """

    activation: str = "gelu"
    positions: str | Component = "learned"
    num_segments: int = 2


class MaskedLanguageModel(TextEncoder):
    """Logits of masked words: TextEncoder, Linear, GELU, LayerNorm, the transposed embedding and a bias.

    Parameters:
        vocab_size, d_model, num_heads, num_layers, d_ff=None : as in TextEncoder
        max_len=512, dropout=0.1, rng=None : as in TextEncoder
        head_activation : "gelu" by default, after the Linear
        activation="gelu", positions="learned", num_segments=2 : as in MaskedSettings; further settings : as in TextEncoder
    Shape: ids (B, T), mask=None, segments=None, positions=None -> logits (B, T, vocab_size). With integer positions
        (B, K), logits are computed for these tokens alone: (B, K, vocab_size). B may be absent.
    Backward: dlogits -> None; the embedding's gradient is the sum over its two uses
    Raises: IndexError for a position outside the text; ValueError unless there are as many positions for each text.
    Source: Devlin et al. 2019, sections 3 and 3.1; the layers before the output: its published code.
    """

    Settings = MaskedSettings

    def __init__(self, vocab_size: int, d_model: int, num_heads: int, num_layers: int, d_ff: int | None = None,
                 max_len: int = 512, dropout: float = 0.1, rng: Seed = None, head_activation: str = "gelu",
                 **settings: Any) -> None:
        check_choice("head_activation", head_activation, HEAD_ACTIVATIONS)
        rng = np.random.default_rng(rng)
        super().__init__(vocab_size, d_model, num_heads, num_layers, d_ff=d_ff, max_len=max_len, dropout=dropout, rng=rng,
                         **settings | {"init": "xavier"})
        self.transform = Linear(d_model, d_model, rng=rng)
        self.activation = HEAD_ACTIVATIONS[head_activation]()
        self.norm = LayerNorm(d_model, settings.get("eps", self.Settings.eps))
        self.output = Unembedding(self.embedding.weight)
        self.bias = Parameter(np.zeros(vocab_size, DTYPE))
        initialize(self, settings.get("init", self.Settings.init), rng)

    def forward(self, ids: np.ndarray, mask: np.ndarray | None = None, segments: np.ndarray | None = None,
                positions: np.ndarray | None = None) -> np.ndarray:
        x = super().forward(ids, mask, segments)                            # (B, T, d_model)
        if positions is not None:
            positions = self.check_positions(positions, x)
            x = np.take_along_axis(x, positions[..., None], -2)             # (B, K, d_model)
        self.remember(np.shape(ids), positions)
        return self.output(self.norm(self.activation(self.transform(x)))) + self.bias.data

    def backward(self, dlogits: np.ndarray) -> None:
        shape, positions = self.recall()
        self.bias.grad += rows(dlogits).sum(0)
        dx = self.transform.backward(self.activation.backward(self.norm.backward(self.output.backward(dlogits))))
        if positions is not None:
            dx = self.scatter(dx, positions, shape)
        super().backward(dx)

    def check_positions(self, positions: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Returns positions as an array of integers, K for each text."""
        positions = check_integers(positions, x.shape[-2], "positions", "length")
        if positions.shape[:-1] != x.shape[:-2]:
            raise ValueError(f"positions have shape {positions.shape}: wanted {(*x.shape[:-2], 'K')}, K for each text")
        return positions

    def scatter(self, dx: np.ndarray, positions: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Returns (B, T, d_model) with each row of dx (B, K, d_model) added at its position, and zeros elsewhere."""
        *batch, T = shape
        scattered = np.zeros((*batch, T, dx.shape[-1]), dx.dtype)
        first_rows = np.arange(0, math.prod(shape), T).reshape(*batch, 1)   # the row of each text's first token
        np.add.at(rows(scattered), (first_rows + positions).ravel(), rows(dx))      # a repeated position gets both
        return scattered
