"""Positions as other models have them: numbered from another number on, normalized, or with sines and cosines apart."""

import numpy as np

from ..argument_checks import check_last_dim, check_positive
from ..module import Module
from ..parameter import LARGEST_TABLE, check_room
from ..types import Component, DTypeLike
from .initial_weights import DTYPE
from .positions import sinusoid, table_rows


class ShiftedPositions(Module):
    """y = positions(x) that count from `first` on instead of 0: BART and OPT never use the first two rows of their table.

    Parameters: positions : LearnedPositionalEmbedding, or another component that takes x, offset and positions; first : int (2)
    Shape: x (B, T, d_model) or (T, d_model) -> y (the same); offset and positions as in LearnedPositionalEmbedding
    Backward: dx = positions backward of dy
    Raises: ValueError if the sequence is longer than max_len, the rows of the table that are left.
    Source: the published code of BART (Lewis et al. 2020).
    """

    place = "embeddings"

    def __init__(self, positions: Component, first: int = 2) -> None:
        check_positive(first=first)
        self.positions = positions
        self.first = first

    @property
    def max_len(self) -> int:
        """The length of the longest sequence."""
        return self.positions.max_len - self.first

    def forward(self, x: np.ndarray, offset: int = 0, positions: np.ndarray | None = None) -> np.ndarray:
        table_rows(self, x, offset, positions)  # only for its errors
        return self.positions(x, offset + self.first, None if positions is None else positions + self.first)

    def backward(self, dy: np.ndarray) -> np.ndarray:
        return self.positions.backward(dy)

    def extra_repr(self) -> str:
        return f"first={self.first}"


class NormedPositions(Module):
    """y = norm(positions(x)): the embeddings are normalized after their positions have been added, as in BERT and BART.

    Parameters: positions : component that takes x, offset and positions; norm : LayerNorm, or another component that takes x
    Shape: x (B, T, d_model) or (T, d_model) -> y (the same); offset and positions as in LearnedPositionalEmbedding
    Backward: dx = positions backward of norm backward of dy
    Source: the published code of BERT (Devlin et al. 2019) and BART (Lewis et al. 2020).
    """

    place = "embeddings"

    def __init__(self, positions: Component, norm: Component) -> None:
        self.positions = positions
        self.norm = norm

    @property
    def max_len(self) -> int:
        """The length of the longest sequence."""
        return self.positions.max_len

    def forward(self, x: np.ndarray, offset: int = 0, positions: np.ndarray | None = None) -> np.ndarray:
        return self.norm(self.positions(x, offset, positions))

    def backward(self, dy: np.ndarray) -> np.ndarray:
        return self.positions.backward(self.norm.backward(dy))


class SeparateSinusoids(Module):
    """y = x + PE[position] with the waves of SinusoidalPositionalEncoding in another order: all sines, then all cosines.

    PE[t, i] = sin(t / 10000^(2i/D)),   PE[t, D/2 + i] = cos(t / 10000^(2i/D))

    Parameters: d_model : int, may be odd; max_len : int (5000), the number of rows of the table
    Shape: x (B, T, d_model) or (T, d_model) -> y (the same); `table` (max_len, d_model); offset and positions as in
        SinusoidalPositionalEncoding
    Backward: dx = dy, because the table is constant
    Raises: ValueError if the sequence is longer than max_len or the last dimension is not d_model.
    Source: the code of transformers for the models of Marian. The order is that of tensor2tensor (Vaswani et al. 2018) and of
        Marian itself (Junczys-Dowmunt et al. 2018), whose own code has the exponent i / (D/2 - 1) in place of 2i/D.
    """

    place = "embeddings"

    def __init__(self, d_model: int, max_len: int = 5000) -> None:
        check_positive(d_model=d_model, max_len=max_len)
        check_room(max_len * d_model, LARGEST_TABLE)
        self.d_model = d_model
        self.max_len = max_len
        self.build_tables(DTYPE)

    def build_tables(self, dtype: DTypeLike) -> None:
        table = sinusoid(self.max_len, self.d_model)
        self.table = np.concatenate([table[:, 0::2], table[:, 1::2]], axis=1).astype(dtype)

    def forward(self, x: np.ndarray, offset: int = 0, positions: np.ndarray | None = None) -> np.ndarray:
        check_last_dim(self, x, "d_model", self.d_model)
        self.remember()
        return x + self.table[table_rows(self, x, offset, positions)]

    def backward(self, dy: np.ndarray) -> np.ndarray:
        self.recall()
        return dy

    def extra_repr(self) -> str:
        return f"d_model={self.d_model}, max_len={self.max_len}"
