"""Embedding and output layer of translation models: logits with a bias, and a start token whose embedding stays as it is."""

import numpy as np

from ..argument_checks import check_integers
from ..module import Parameter
from ..types import Seed
from .embedding import Embedding, Unembedding
from .fast import rows
from .initial_weights import DTYPE


class BiasedUnembedding(Unembedding):
    """y = c x Eᵀ + b: an Unembedding with a bias for each token.

    Parameters: weight, factor=1.0 : as in Unembedding
    Shape: x (..., d_model) -> logits (..., vocab_size); `bias` (vocab_size,)
    Backward: db = sum over rows of dy, unless b is frozen;   dE and dx as Unembedding
    Raises: as Unembedding
    Source: Devlin et al. 2019, whose published code has one; the published code of Marian (Junczys-Dowmunt et al. 2018).
    """

    def __init__(self, weight: Parameter, factor: float = 1.0) -> None:
        super().__init__(weight, factor)
        self.bias = Parameter(np.zeros(len(weight.data), DTYPE))

    def forward(self, x: np.ndarray) -> np.ndarray:
        return super().forward(x) + self.bias.data

    def backward(self, dy: np.ndarray) -> np.ndarray:
        if not self.bias.frozen:
            self.bias.grad += rows(dy).sum(0)
        return super().backward(dy)


class StartEmbedding(Embedding):
    """y = E[ids], times sqrt(d_model) if scaled: an Embedding in which one token, `start_id`, gets no gradient.

    Marian begins each target with its padding token, whose embedding is not trained. Embedding with pad_id makes it zeros.

    Parameters: vocab_size, d_model : int; start_id : int; scale=False, rng=None : as in Embedding
    Shape: ids (...) integers -> y (..., d_model); `weight` (vocab_size, d_model)
    Backward: dE[i] = sum of dy over all positions where ids == i, and 0 for i = start_id. Returns None: ids have no gradient
    Raises: as Embedding, and IndexError for a start_id outside the vocabulary.
    Source: the published code of MarianMT (Tiedemann and Thottingal 2020).
    """

    def __init__(self, vocab_size: int, d_model: int, start_id: int, scale: bool = False, rng: Seed = None) -> None:
        super().__init__(vocab_size, d_model, scale, rng=rng)
        check_integers(start_id, vocab_size, "start_id", "vocab_size")
        self.start_id = start_id

    def forward(self, ids: np.ndarray) -> np.ndarray:
        y = super().forward(ids)
        self.remember(np.asarray(ids) == self.start_id)
        return y

    def backward(self, dy: np.ndarray) -> None:
        is_start = self.recall()
        super().backward(np.where(is_start[..., None], 0, dy))
