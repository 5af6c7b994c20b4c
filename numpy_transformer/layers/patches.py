"""Images as sequences: an image is cut into patches, and a first vector stands for the whole."""

from collections.abc import Sequence

import numpy as np

from ..argument_checks import called, check_array, check_positive
from ..module import Module, Parameter
from ..types import Seed
from .initial_weights import normal


class Patches(Module):
    """y = the pixels of each patch in one row. The patches do not overlap; they are numbered row by row, and the pixels of one
    channel by channel. A Linear after it makes the embeddings of the patches: a convolution whose stride is its width.

    Parameters: channels : int, 3 for color images; patch : (int, int), height p and width q of a patch
    Shape: x (B, channels, height, width) -> y (B, N, channels p q) with N = (height / p) (width / q); B may be absent
    Backward: dx = dy with the pixels back in their places
    Raises: ValueError if x has another number of channels, or is not a whole number of patches high and wide.
    Source: Dosovitskiy et al. 2021, section 3.1.
    """

    def __init__(self, channels: int, patch: Sequence[int]) -> None:
        height, width = patch
        check_positive(channels=channels, patch_height=height, patch_width=width)
        self.channels = channels
        self.patch = (height, width)

    def forward(self, x: np.ndarray) -> np.ndarray:
        check_array(self, x)
        self.check_shape(x.shape)
        self.remember(x.shape)
        *batch, C, height, width = x.shape
        p, q = self.patch
        x = x.reshape(*batch, C, height // p, p, width // q, q).swapaxes(-2, -3)                # (B, C, rows, columns, p, q)
        return np.moveaxis(x, -5, -3).reshape(*batch, height // p * (width // q), C * p * q)

    def backward(self, dy: np.ndarray) -> np.ndarray:
        *batch, C, height, width = self.recall()
        p, q = self.patch
        dx = dy.reshape(*batch, height // p, width // q, C, p, q)
        return np.moveaxis(dx, -3, -5).swapaxes(-2, -3).reshape(*batch, C, height, width)

    @property
    def pixels(self) -> int:
        """How many numbers a patch has."""
        return self.channels * self.patch[0] * self.patch[1]

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Raises ValueError unless images of this shape can be cut into patches."""
        p, q = self.patch
        fits = len(shape) in (3, 4) and shape[-3] == self.channels and shape[-2] % p == 0 and shape[-1] % q == 0
        if not fits or 0 in shape:
            raise ValueError(f"{called()}images of {self.channels} channels in patches of {p} x {q} pixels have the shape (B, "
                             f"{self.channels}, a multiple of {p}, a multiple of {q}), got {shape}; scale or crop them")

    def extra_repr(self) -> str:
        return f"channels={self.channels}, patch={self.patch}"


class ClassToken(Module):
    """y = [c; x]: a learned vector before the others, whose output is read as that of the whole sequence.

    Parameters: d_model : int; rng : generator or seed of the initial vector, N(0, 0.02²), or None
    Shape: x (B, T, d_model) -> y (B, 1 + T, d_model); B may be absent; `weight` (d_model,)
    Backward: dc = sum over the batch of the first row of dy,   dx = the other rows
    Raises: ValueError if the last dimension of x is not d_model.
    Source: Devlin et al. 2019, section 3; Dosovitskiy et al. 2021, equation 1.
    """

    def __init__(self, d_model: int, rng: Seed = None) -> None:
        check_positive(d_model=d_model)
        self.weight = Parameter(normal(rng, (d_model,), 0.02))

    def forward(self, x: np.ndarray) -> np.ndarray:
        check_array(self, x)
        if x.ndim < 2 or x.shape[-1] != self.weight.data.size:
            raise ValueError(f"{called()}wanted (B, T, d_model) with d_model = {self.weight.data.size}, got shape {x.shape}; add "
                             "the missing axis with x[None]")
        self.remember()
        first = np.broadcast_to(self.weight.data, (*x.shape[:-2], 1, x.shape[-1]))
        return np.concatenate([first, x], axis=-2)

    def backward(self, dy: np.ndarray) -> np.ndarray:
        self.recall()
        self.weight.grad += dy[..., 0, :].reshape(-1, dy.shape[-1]).sum(0)
        return dy[..., 1:, :]
