"""Mistakes in embeddings, in tying them, and in positions."""

import numpy as np

from ..layers import Embedding, LearnedPositionalEmbedding, SinusoidalPositionalEncoding, Unembedding
from ..models import CausalLanguageModel
from ..module import Parameter
from .bug import bug


@bug("repeated-ids-dropped",
     symptom="right where no token occurs twice; of a frequent one only the last place counts",
     training="ends where the right one does: the tied weight learns as the output",
     caught_by=("gradient check", "doubled batch, model"))
class RepeatedIdsDropped(Embedding):
    """grad[ids] += dy reads, adds and writes: of equal ids one is kept"""

    def backward(self, dy):
        self.weight.grad[self.recall()] += dy * self.factor                     # right: np.add.at


@bug("embedding-never-learns", "a version of arpita's NumPy Transformer",
     symptom="the rest of the model learns to live with random vectors",
     training="ends where the right one does: the tied weight learns as the output",
     caught_by=("gradient check", "large vocabulary"))
class NeverLearns(Embedding):
    """The embedding has no backward"""

    def backward(self, dy):
        self.recall()                                       # right: and a scatter-add


@bug("ids-in-eight-bits", "a version of samuel500's NumPy GPT",
     symptom="all is well with few tokens; from 128 on some share a row",
     training="exactly the same losses: there are ten tokens",
     caught_by=("large vocabulary",))
class EightBits(Embedding):
    """Token ids are kept in eight bits"""

    def forward(self, ids):
        return super().forward(np.asarray(ids).astype(np.int8) % self.vocab_size)           # right: as they are


@bug("tied-weight-half-gradient", "a version of Ultron09/Numpy-Transformer",
     symptom="the matrix serves as embedding and as output, and learns as the embedding alone",
     training="falls a little more slowly, and ends slightly above the right one",
     caught_by=("gradient check",))
class HalfGradient(Unembedding):
    """Of a tied weight's two gradients one is used"""

    def backward(self, dy):
        self.recall()                                       # right: weight.grad += dyᵀ x
        return dy @ self.weight.data


@bug("load-unties", "a version of Ultron09/Numpy-Transformer",
     symptom="a reloaded model gives other logits, and trains two matrices",
     training="exactly the same losses, until something is loaded",
     caught_by=("state dict round trip",))
class LoadUnties(CausalLanguageModel):
    """Loading gives the embedding a new matrix, and the output keeps the old one"""

    def load_state_dict(self, state):
        self.embedding.weight = Parameter(state["embedding.weight"])            # right: into the one that is there
        rest = {name: value for name, value in state.items() if name != "embedding.weight"}
        for name, parameter in self.named_parameters():
            if name in rest:
                parameter.data = rest[name]
        return self


@bug("positions-divided-by-counts", "a version of naye971012/numpy_transformer",
     symptom="positions learn B times too slowly under SGD; Adam hides it",
     training="ends where the right one does: Adam takes the same step for a fraction of a gradient",
     caught_by=("gradient check", "doubled batch, model"))
class DividedByCounts(LearnedPositionalEmbedding):
    """The gradient of a position is the mean over its tokens, not the sum"""

    def backward(self, dy):
        place, count = self.recall(), len(dy)
        np.add.at(self.weight.grad, np.broadcast_to(np.arange(len(self.weight.data))[place], dy.shape[:-1]),
                  dy / count)                               # right: not divided
        return dy


class Waves(SinusoidalPositionalEncoding):
    """A table from `angle(t, i)` of column i."""

    def build_tables(self, dtype):
        t, i = np.arange(self.max_len)[:, None], np.arange(self.d_model)
        self.table = self.waves(t, i, self.d_model).astype(dtype)


@bug("sinusoid-exponent-twice", "a version of YVSemlani/numpy-transformer",
     symptom="each column has the wave of the column twice as far to the right: half of them hardly move",
     training="falls later, and ends above the right one",
     caught_by=("sinusoid reference", "distant positions"))
class ExponentTwice(Waves):
    """The exponent is 2 i / D, with i already the column"""

    def waves(self, t, i, D):
        angles = t / 10000 ** (2 * (i // 2 * 2) / D)        # right: i // 2 * 2 / D
        return np.where(i % 2, np.cos(angles), np.sin(angles))


@bug("sinusoid-base", "a version of rziga/numpy-is-all-you-need",
     symptom="other wave lengths than the paper's; a pretrained model would misread them",
     training="hardly differs: a short text needs the short waves alone",
     caught_by=("sinusoid reference", "distant positions"))
class Base100000(Waves):
    """The base of the wave lengths is 100,000"""

    def waves(self, t, i, D):
        angles = t / 100000 ** (i // 2 * 2 / D)             # right: 10000
        return np.where(i % 2, np.cos(angles), np.sin(angles))


@bug("sinusoid-without-cosines", "a version of arpita's NumPy Transformer",
     symptom="a step to the next place is no rotation any more, and all columns of place 0 are 0",
     training="falls later, and ends above the right one",
     caught_by=("sinusoid reference", "distant positions"))
class WithoutCosines(Waves):
    """Every column is a sine"""

    def waves(self, t, i, D):
        return np.sin(t / 10000 ** (i // 2 * 2 / D))        # right: cosines in the odd columns
