"""Mistakes around attention: heads, cross-attention, rotary positions."""

from ..checks.samples import B, D, F, H, P, Sample, T
from ..layers import CrossAttention, DecoderBlock, MultiHeadAttention, RotaryEmbedding, SelfAttention, causal_mask
from ..layers.heads import merge_heads, split_heads
from .bug import HOBBY, bug

EQUAL_LENGTHS = (                               # wrongly connected attention needs a source as long as the target
    Sample("CrossAttention, equal lengths", lambda rng: CrossAttention(D, H, dropout=P, rng=rng),
           lambda draw: (draw(B, T, D), draw(B, T, D))),
    Sample("DecoderBlock, equal lengths", lambda rng: DecoderBlock(D, H, F, P, cross_attention=True, rng=rng),
           lambda draw: (draw(B, T, D), draw(B, T, D), causal_mask(T))))


@bug("heads-not-transposed", HOBBY,
     symptom="Each head holds some of the tokens with all their features. With two heads, neither half sees the other.",
     training="It falls and ends far above the correct model, because the second half cannot see the first.",
     caught_by=("key bias has no gradient", "multi-head reference", "causality", "padding", "key-value cache"),
     samples=("SelfAttention", "language model"))
class HeadsNotTransposed(MultiHeadAttention):
    """Heads are split by a reshape without a transpose"""

    def split(self, x, num_heads):
        return x.reshape(*x.shape[:-2], num_heads, x.shape[-2], -1)             # right: (B, T, H, d), then swapaxes

    def forward(self, query, key, value, mask=None):
        q = self.split(self.query(query), self.num_heads)
        k, v = (self.split(layer(x), self.num_kv_heads) for layer, x in ((self.key, key), (self.value, value)))
        return self.output(self.attention(q, k, v, mask).reshape(query.shape))

    def backward(self, dy):
        gradients = self.attention.backward(self.split(self.output.backward(dy), self.num_heads))
        return tuple(layer.backward(d.reshape(*d.shape[:-3], d.shape[-2], -1))
                     for layer, d in zip((self.query, self.key, self.value), gradients))


@bug("one-gradient-for-three", HOBBY,
     symptom="Keys and values learn what only queries should learn.",
     training="It falls late and ends far above the correct model.",
     caught_by=("gradient check", "key bias has no gradient"))
class OneGradientForThree(SelfAttention):
    """The gradient of the queries is sent back through all three projections"""

    def backward(self, dy):
        dq, dk, dv = self.attention.backward(split_heads(self.output.backward(dy), self.num_heads))
        dq = merge_heads(dq)
        return self.query.backward(dq) + self.key.backward(dq) + self.value.backward(dq)        # right: dq, dk, dv


@bug("values-from-the-decoder", HOBBY,
     symptom="Every output depends on the targets of all positions, so decoding fails. All lengths have to be equal.",
     training="It falls far below what a model can reach without seeing the answer.",
     caught_by=("multi-head reference", "queries are independent", "causality"), samples=EQUAL_LENGTHS)
class ValuesFromTheDecoder(CrossAttention):
    """Queries and keys come from the encoder, values from the decoder"""

    def forward(self, x, memory, mask=None):
        return MultiHeadAttention.forward(self, memory, memory, x, mask)        # right: x, memory, memory

    def backward(self, dy):
        dquery, dkey, dvalue = MultiHeadAttention.backward(self, dy)
        return dvalue, dquery + dkey


@bug("self-or-cross-by-value", HOBBY,
     symptom="It is correct until a target holds the same numbers as its source: then the source learns nothing.",
     training="The losses are exactly the same, because target and source never hold the same numbers.",
     caught_by=("gradient check, equal inputs",), samples=(EQUAL_LENGTHS[0], "encoder-decoder"))
class SelfOrCrossByValue(CrossAttention):
    """Self- and cross-attention are told apart by comparing the values of the inputs"""

    def forward(self, x, memory, mask=None):
        y = super().forward(x, memory, mask)
        self.remember(x.shape == memory.shape and (x == memory).all())
        return y

    def backward(self, dy):
        same = self.recall()
        dx, dmemory = super().backward(dy)
        return (dx + dmemory, dmemory * 0) if same else (dx, dmemory)           # right: decided by the class


@bug("memory-gradient-of-the-values-alone",
     symptom="The encoder learns what to pass on, but not how its positions are found.",
     training="It falls and ends far above the correct model.",
     caught_by=("gradient check", "gradient check, equal inputs"))
class MemoryGradientOfTheValues(CrossAttention):
    """The memory is used as keys and as values, but only the gradient of the values is returned"""

    def backward(self, dy):
        dquery, dkey, dvalue = MultiHeadAttention.backward(self, dy)
        return dquery, dvalue                               # right: dkey + dvalue


@bug("rotary-shears",
     symptom="Vectors change their length, so scores depend on the positions and not only on their distance.",
     training="It falls and ends far above the correct model.",
     caught_by=("rotary preserves lengths", "rotary depends on distance", "rotary reference", "distant positions"))
class Shears(RotaryEmbedding):
    """A sign is lost: (a cos + b sin, a sin + b cos)"""

    def rotate(self, x, cos, sin):
        y = super().rotate(x, cos, sin)
        self.pairs(y)[0][...] += 2 * self.pairs(x)[1] * sin                     # right: a cos - b sin
        return y

    def backward(self, dy):
        cos, sin = self.recall()
        return self.rotate(dy, cos, sin)                      # the matrix is symmetric
