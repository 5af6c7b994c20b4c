"""Mistakes in embeddings, tied weights and positions."""

import numpy as np

from ..layers import (Embedding, LearnedPositionalEmbedding, RelativePositionBias, SinusoidalPositionalEncoding,
                      Unembedding)
from ..models import CausalLanguageModel
from ..module import Parameter
from .bug import HOBBY, Source, bug


@bug("repeated-ids-dropped",
     symptom="It is correct if no token occurs twice. Of a frequent token, only the last position counts.",
     training="It ends where the correct model does, because the tied weight also learns as the output layer.",
     caught_by=("gradient check", "doubled batch, model"))
class RepeatedIdsDropped(Embedding):
    """grad[ids] += dy keeps only one of several equal ids"""

    def backward(self, dy):
        self.weight.grad[self.recall()] += dy * self.factor                     # right: np.add.at


@bug("embedding-never-learns", HOBBY,
     symptom="The rest of the model learns to work with random vectors.",
     training="It ends where the correct model does, because the tied weight also learns as the output layer.",
     caught_by=("gradient check", "large vocabulary"))
class NeverLearns(Embedding):
    """The embedding has no backward"""

    def backward(self, dy):
        self.recall()                                       # right: and a scatter-add


@bug("ids-in-eight-bits", HOBBY,
     symptom="It is correct for a small vocabulary. With more than 128 tokens, some of them share a row.",
     training="The losses are exactly the same, because there are only ten tokens.",
     caught_by=("large vocabulary",))
class EightBits(Embedding):
    """Token ids are stored in eight bits"""

    def forward(self, ids):
        ids = np.asarray(ids).astype(np.int8)                # right: unchanged
        return super().forward(ids % np.intp(self.vocab_size))


@bug("tied-weight-half-gradient", HOBBY,
     symptom="The matrix serves as embedding and as output layer, but learns only as embedding.",
     training="It falls a little more slowly and ends slightly above the correct model.",
     caught_by=("gradient check",))
class HalfGradient(Unembedding):
    """Only one of a tied weight's two gradients is used"""

    def backward(self, dy):
        self.recall()                                       # right: weight.grad += dyᵀ x
        return dy @ self.weight.data


@bug("load-unties", HOBBY,
     symptom="A reloaded model computes other logits, and trains two matrices.",
     training="The losses are exactly the same until a state dict is loaded.",
     caught_by=("state dict round trip",))
class LoadUnties(CausalLanguageModel):
    """Loading gives the embedding a new matrix, and the output layer keeps the old one"""

    def load_state_dict(self, state):
        self.embedding.weight = Parameter(state["embedding.weight"])            # right: copy into the existing one
        rest = {name: value for name, value in state.items() if name != "embedding.weight"}
        for name, parameter in self.named_parameters():
            if name in rest:
                parameter.data = rest[name]
        return self


@bug("positions-divided-by-counts", HOBBY,
     symptom="Positions learn B times too slowly under SGD. Adam hides the mistake.",
     training="It ends where the correct model does, because Adam takes the same step for a fraction of a gradient.",
     caught_by=("gradient check", "doubled batch, model"))
class DividedByCounts(LearnedPositionalEmbedding):
    """The gradient of a position is the mean over its tokens instead of the sum"""

    def backward(self, dy):
        used = np.arange(len(self.weight.data))[self.recall()]
        np.add.at(self.weight.grad, np.broadcast_to(used, dy.shape[:-1]), dy / len(dy))         # right: not divided
        return dy


class Waves(SinusoidalPositionalEncoding):
    """Builds the table with `waves(t, i, D)`, the value at position t in column i."""

    def build_tables(self, dtype):
        t, i = np.arange(self.max_len)[:, None], np.arange(self.d_model)
        self.table = self.waves(t, i, self.d_model).astype(dtype)


@bug("sinusoid-exponent-twice", HOBBY,
     symptom="Each column has the wavelength of the column twice as far to the right, so half of them hardly change.",
     training="It falls later and ends above the correct model.",
     caught_by=("sinusoid reference", "distant positions"))
class ExponentTwice(Waves):
    """The exponent is 2 i / D, although i is already the column"""

    def waves(self, t, i, D):
        angles = t / 10000 ** (2 * (i // 2 * 2) / D)        # right: i // 2 * 2 / D
        return np.where(i % 2, np.cos(angles), np.sin(angles))


@bug("sinusoid-base", HOBBY,
     symptom="The wavelengths differ from the paper's, so pretrained weights do not fit.",
     training="It hardly differs, because a short text needs only the short wavelengths.",
     caught_by=("sinusoid reference", "distant positions"))
class Base100000(Waves):
    """The base of the wavelengths is 100,000 instead of 10,000"""

    def waves(self, t, i, D):
        angles = t / 100000 ** (i // 2 * 2 / D)             # right: 10000
        return np.where(i % 2, np.cos(angles), np.sin(angles))


@bug("sinusoid-without-cosines", HOBBY,
     symptom="A shift by one position is no longer a rotation, and all columns are 0 at position 0.",
     training="It falls later and ends above the correct model.",
     caught_by=("sinusoid reference", "distant positions"))
class WithoutCosines(Waves):
    """Every column is a sine"""

    def waves(self, t, i, D):
        return np.sin(t / 10000 ** (i // 2 * 2 / D))        # right: cosines in odd columns


@bug("relative-buckets-swapped",
     Source("x-transformers", reference="fixed in pull request 10"),
     symptom="In an encoder, all keys after the query share a bucket. In a decoder, half of the buckets are never used.",
     training="The two losses fall almost together.",
     caught_by=("relative positions reference", "position bias reference"),
     samples=("RelativePositionBias", "RelativePositionBias, causal", "PositionBias, relative"))
class BucketsSwapped(RelativePositionBias):
    """A decoder has the buckets of an encoder, and an encoder has those of a decoder"""

    def buckets(self, distances):
        other = RelativePositionBias(1, self.num_buckets, self.max_distance, not self.causal)   # right: self.causal
        return other.buckets(distances)
