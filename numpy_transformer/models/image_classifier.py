"""The encoder of images (ViT): patches in the place of words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..argument_checks import check_positive
from ..layers.dropout import Dropout
from ..layers.linear import Linear
from ..layers.patches import ClassToken, Patches
from ..layers.pooling import FirstToken
from ..layers.positions import LearnedPositionalEmbedding
from ..types import Seed
from .initialization import initialize
from .parts import BlockSettings, Sizes, settings_of, sizes_of
from .rebuildable import RebuildableModel


@dataclass(frozen=True, kw_only=True)
class ImageSettings(BlockSettings):
    """The settings of an ImageClassifier.

    Parameters:
        activation : "gelu" by default, eps : float (1e-6), otherwise as in BlockSettings
        norm="pre", norm_layer="layer", num_kv_heads=None, bias=True, d_head=None : as in BlockSettings
        channels : int (3)
        init : "xavier" (default), "keras", "gpt2" or "bert", the initial weights; see models/initialization.py
    """

    activation: str = "gelu"
    eps: float = 1e-6
    channels: int = 3
    init: str = "xavier"


class ImageClassifier(RebuildableModel):
    """Classifies images: patches, a first vector for the whole image, positions, a Stack of Blocks, the output at that vector.

    Its parts are the attributes `patches`, `projection`, `class_token`, `positions`, `dropout`, `encoder`, `pool` and `output`.

    Parameters:
        image, patch : (int, int), height and width of an image and of a patch
        d_model, num_heads, num_layers : int
        d_ff : int or None (4 d_model)
        num_classes : int (2), the number of logits
        dropout : float (0.0), after the positions and as in EncoderBlock
        rng : generator or seed of initial weights and dropout, or None
        norm="pre", norm_layer="layer", activation="gelu", eps=1e-6, num_kv_heads=None, bias=True, d_head=None, channels=3,
        init="xavier" : as in ImageSettings
    Shape: x (B, channels, height, width) -> logits (B, num_classes); B may be absent
    Backward: dlogits -> dx
    Raises: ValueError for images of another size.
    Source: Dosovitskiy et al. 2021, equations 1 to 4, with one linear layer as the head, as after fine-tuning.
    """

    Settings = ImageSettings

    def __init__(self, image: Sequence[int], patch: Sequence[int], d_model: int, num_heads: int, num_layers: int,
                 d_ff: int | None = None, num_classes: int = 2, dropout: float = 0.0, rng: Seed = None,
                 **settings: Any) -> None:
        s = settings_of(self, settings)
        check_positive(num_layers=num_layers, num_classes=num_classes)
        rng = np.random.default_rng(rng)
        self.image = tuple(image)
        self.patches = Patches(s.channels, patch)
        self.patches.check_shape((s.channels, *self.image))
        self.projection = Linear(self.patches.pixels, d_model, rng=rng)
        self.class_token = ClassToken(d_model, rng)
        self.positions = LearnedPositionalEmbedding(1 + image[0] // patch[0] * (image[1] // patch[1]), d_model, rng)
        self.dropout = Dropout(dropout, rng)
        self.encoder = s.make_stack(num_layers, Sizes(d_model, num_heads, 4 * d_model if d_ff is None else d_ff, dropout), rng)
        self.pool = FirstToken()
        self.output = Linear(d_model, num_classes, rng=rng)
        initialize(self, s.init, rng)

    def forward(self, x: np.ndarray) -> np.ndarray:
        if np.shape(x)[-2:] != self.image:
            raise ValueError(f"the model takes images of {self.image[0]} x {self.image[1]} pixels, got shape {np.shape(x)}; "
                             "scale or crop them")
        x = self.positions(self.class_token(self.projection(self.patches(x))))
        return self.output(self.pool(self.encoder(self.dropout(x))))

    def backward(self, dlogits: np.ndarray) -> np.ndarray:
        dx = self.dropout.backward(self.encoder.backward(self.pool.backward(self.output.backward(dlogits))))
        return self.patches.backward(self.projection.backward(self.class_token.backward(self.positions.backward(dx))))

    def extra_repr(self) -> str:
        return f"image={self.image}, {sizes_of(self.encoder)}"
