"""A sample of every component and of its inputs, for the command `gradcheck` and the contract tests.

All sizes are different and greater than 1, so that a wrong reshape does not fit and a missing transpose is noticed.
"""

from dataclasses import dataclass
from typing import Callable

import numpy as np

from .. import layers, models
from ..layers import causal_mask, padding_mask
from ..layers.attention import with_score_changes
from ..layers.gated_attention import gate_heads
from ..layers.multi_head import add_qkv_bias
from ..layers.normed_linear import norm_outputs, norm_queries_and_keys
from ..layers.sinks import add_sinks
from ..models.parts import place_in_attention

B, T, S, H, D, F, V, W, L = 3, 5, 7, 2, 12, 16, 11, 13, 2
P = 0.3                                         # dropout probability
MASK = np.random.default_rng(0).random((B, H, T, S)) < 0.7
MASK[0, 1, 2] = False                           # a fully masked query
BLOCKS = np.array([[1, 0, 0], [0, 0, 0], [1, 0, 1]]) == 1   # which blocks of keys a block of queries sees
TOKEN_MASK = np.arange(T) >= np.array([[2], [0], [1]])      # padding on the left


@dataclass(frozen=True)
class Sample:
    """A component with suitable inputs.

    Attributes:
        name : name of the class and, after a comma, of the variant
        build : function (rng) -> component
        inputs : function (draw) -> tuple of inputs, where draw is a Draw
        directions : number of random directions per tensor in the gradient check; None checks every entry
        loss : whether the component is a loss, which takes targets and returns a mean
        gradients : whether there is a gradient to check; ALiBi has neither parameters nor float inputs
    """

    name: str
    build: Callable
    inputs: Callable
    directions: int | None = None
    loss: bool = False
    gradients: bool = True

    def make(self, seed=0):
        """Returns the component and a tuple of inputs, in float32."""
        return self.build(np.random.default_rng([seed, 1])), self.inputs(Draw(np.random.default_rng([seed, 2])))


class Draw:
    """Draws inputs: draw(*shape) normal floats, draw.ids(size, *shape) integers in [0, size)."""

    def __init__(self, rng):
        self.rng = rng

    def __call__(self, *shape):
        return self.rng.standard_normal(shape, np.float32)

    def ids(self, size, *shape):
        return self.rng.integers(0, size, shape)


def padded(ids, pads):
    """Returns ids with `pads` zeros at the end of the first row and no other zeros."""
    ids = np.maximum(ids, 1)
    ids[0, ids.shape[1] - pads:] = 0
    return ids


def scores(draw):
    return (draw(B, H, T, S),)


def sequence(draw):
    return (draw(B, T, D),)


def masked(draw):
    return draw(B, T, D), causal_mask(T)


def heads(draw):
    return draw(B, 4, T, 3), draw(B, H, S, 3), draw(B, H, S, F), MASK[:, :1]


def padded_heads(draw):
    """Heads whose mask hides keys from all queries, in the first text all keys that the first query could see."""
    hidden = np.arange(S) < np.array([[3], [1], [0]])
    return *heads(draw)[:3], ~hidden[:, None, None]


def two(draw):
    return draw(B, T, D), draw(B, S, D), MASK


def three(draw):
    return draw(B, T, D), draw(B, S, D), draw(B, S, D), MASK


def with_memory(draw):
    return draw(B, T, D), draw(B, S, D), causal_mask(T), padding_mask(padded(draw.ids(V, B, S), 2))


def tokens(draw):
    return (draw.ids(V, B, T),)


def tokens_and_padding(draw):
    return draw.ids(V, B, T), TOKEN_MASK


def padded_tokens(draw):
    return (padded(draw.ids(V, B, T), 2),)


def segmented(draw):
    return *tokens_and_padding(draw), draw.ids(2, B, T)


def translation(draw):
    return padded(draw.ids(V, B, S), 2), padded(draw.ids(W, B, T), 1)


def rotary(**options):
    return layers.RotaryEmbedding(6, **options)


def relative(rng, **options):
    return layers.RelativePositionBias(4, 8, 6, rng=rng, **options)     # distances from 6 on share a bucket


def quantized(rng, bits, group, bias=True):
    return layers.QuantizedLinear(layers.Linear(D, F, bias, rng=rng), bits, group)


def shifted(weight):
    """Changes a weight, and has the derivative 1, which the straight-through estimator assumes of every rounding."""
    return weight + 0.25


def biased(attention, position_bias):
    return with_score_changes(attention, layers.PositionBias(position_bias))


def near_blocks(i, j):
    """A layout of blocks: the first block, the block itself and the one before it."""
    return (j == 0) | (i - j == 0) | (i - j == 1)


def block(rng):
    """A Block of parts that EncoderBlock does not choose."""
    attention = layers.SelfAttention(D, 4, 2, dropout=P, rng=rng)
    biased(attention.attention, layers.ALiBi(4))
    return layers.Block(attention, layers.SwiGLU(D, F, rng=rng), layers.RMSNorm(D), layers.LayerNorm(D), dropout=P, rng=rng)


def cross_block(rng):
    attention, cross = layers.SelfAttention(D, 4, 2, P, rng=rng), layers.CrossAttention(D, 4, 1, P, rng=rng)
    norm1, norm2, norm3 = (layers.RMSNorm(D) for _ in range(3))
    feed_forward = layers.FeedForward(D, F, "silu", P, rng=rng)
    return layers.CrossBlock(attention, cross, feed_forward, norm1=norm1, norm2=norm2, norm3=norm3, dropout=P,
                             norm="post", rng=rng)


def language_model(rng, d_model=D, num_heads=H, dropout=P, **settings):
    return models.CausalLanguageModel(V, d_model, num_heads, L, d_ff=F, max_len=S, dropout=dropout, rng=rng, **settings)


def language_model_of_parts(rng):
    """A language model of two different blocks, with an output layer that has a bias."""
    decoder = models.Stack([block(rng), layers.EncoderBlock(D, 2, F, P, norm="post", activation="gelu", rng=rng)])
    return models.LanguageModel(layers.Embedding(V, D, rng=rng), decoder, layers.Linear(D, V, rng=rng),
                                layers.LearnedPositionalEmbedding(S, D, rng=rng), max_len=S, dropout=P, rng=rng)


def qwen(rng, **settings):
    """A language model with biases of queries, keys and values alone."""
    model = language_model(rng, num_heads=4, **settings)
    for block in model.decoder.blocks:
        add_qkv_bias(block.attention)
    return model


def encoder_decoder(rng, src_vocab, num_layers=L, **settings):
    return models.EncoderDecoder(src_vocab, W, D, H, num_layers=num_layers, d_ff=F, dropout=P, max_len=S, rng=rng, **settings)


def t5(rng, **settings):
    """An encoder-decoder with a deeper decoder, few buckets, and a factor of the output."""
    model = encoder_decoder(rng, W, (L, 3), **settings)
    for stack, causal in ((model.encoder, False), (model.decoder, True)):
        place_in_attention(layers.RelativePositionBias(H, 8, 6, causal, rng=rng), stack)
    model.output.factor = 0.3
    return model


def tokens_in_rows(draw):
    """More tokens than experts, so that some expert serves several of them."""
    return (draw(B * T, D),)


def experts(rng, router=layers.Router, num_experts=5, shared=False, **options):
    """A mixture of experts, of which each token chooses two."""
    chosen = router(D, num_experts, 2, rng=rng, **options)
    return layers.MixtureOfExperts(chosen, [layers.SwiGLU(D, 6, rng=rng) for _ in range(num_experts)],
                                   layers.FeedForward(D, F, rng=rng) if shared else None)


def language_model_of_experts(rng):
    """A language model of two blocks with experts: balanced by a loss, and with a shared one."""
    model = language_model(rng, norm_layer="rms")
    first, second = model.decoder.blocks
    first.feed_forward = layers.MixtureOfExperts(layers.BalancedRouter(layers.Router(D, 4, 2, rng=rng), 0.5),
                                                 [layers.FeedForward(D, 6, "gelu", P, rng=rng) for _ in range(4)])
    second.feed_forward = experts(rng, layers.SoftmaxRouter, 3, True)
    return model


def normed_attention(rng, **options):
    """Self-attention with norms of queries and keys, head by head, before the rotation."""
    attention = layers.SelfAttention(D, 4, 2, P, bias=False, rotary=rotary(), rng=rng, d_head=6, **options)
    return norm_queries_and_keys(attention, *(layers.PerHead(layers.RMSNorm(6)) for _ in range(2)))


def gated_model(rng):
    """A language model with gates and norms in its attention, and with capped scores and logits."""
    model = language_model(rng, num_heads=4, num_kv_heads=2, positions="rotary", d_head=6, bias=False, tie_weights=False)
    for block in model.decoder.blocks:
        norm_queries_and_keys(block.attention, *(layers.PerHead(layers.RMSNorm(6)) for _ in range(2)))
        with_score_changes(block.attention.attention, layers.SoftCap(2.0))
        block.attention = gate_heads(block.attention, rng)
    model.output = layers.Sequential(model.output, layers.SoftCap(1.5))
    return model


def latent(attention_class, rng):
    return attention_class(D, 3, 8, 5, 4, 7, rotary=layers.RotaryEmbedding(4), rng=rng)


def latent_language_model(rng):
    """A language model of a block with latent attention and one with its absorbed form."""
    blocks = [layers.Block(latent(attention, rng), layers.SwiGLU(D, F, rng=rng), layers.RMSNorm(D), layers.RMSNorm(D),
                           dropout=P, rng=rng) for attention in (layers.LatentAttention, layers.AbsorbedLatentAttention)]
    return models.LanguageModel(layers.Embedding(V, D, rng=rng), models.Stack(blocks, layers.RMSNorm(D)),
                                layers.Linear(D, V, False, rng), max_len=S, dropout=P, rng=rng)


def gemma_block(rng):
    """A Block with norms before and after each sublayer, and of queries and keys, and with capped scores."""
    attention = layers.SelfAttention(D, 4, 2, dropout=P, bias=False, rotary=rotary(interleaved=False), d_head=6, rng=rng)
    norms = [layers.UnitOffsetRMSNorm(width) for width in (6, 6, D, D, D, D)]
    norm_queries_and_keys(attention, *map(layers.PerHead, norms[:2]))
    with_score_changes(attention.attention, layers.SoftCap(2.0))
    built = layers.Block(attention, layers.SwiGLU(D, F, rng=rng, activation="gelu_tanh"), norms[2], norms[3], dropout=P,
                         rng=rng)
    return norm_outputs(built, *norms[4:])


def parallel_block(rng):
    attention = layers.SelfAttention(D, H, dropout=P, rotary=layers.PartialRotary(layers.RotaryEmbedding(2), 6), rng=rng)
    return layers.ParallelBlock(attention, layers.FeedForward(D, F, "gelu", P, rng=rng), layers.LayerNorm(D),
                                layers.LayerNorm(D), dropout=P, rng=rng)


def encoder(model_class, rng, **settings):
    return model_class(V, D, H, L, d_ff=F, max_len=S, dropout=P, rng=rng, **settings)


SAMPLES = [
    Sample("Linear", lambda rng: layers.Linear(D, F, rng=rng), sequence),
    Sample("Linear, no bias", lambda rng: layers.Linear(D, F, bias=False, rng=rng), sequence),
    Sample("Embedding", lambda rng: layers.Embedding(V, D, rng=rng), tokens),
    Sample("Embedding, scaled, padding", lambda rng: layers.Embedding(V, D, scale=True, pad_id=4, rng=rng), tokens),
    Sample("Unembedding", lambda rng: layers.Unembedding(layers.Embedding(V, D, rng=rng).weight), sequence),
    Sample("Unembedding, with a factor",
           lambda rng: layers.Unembedding(layers.Embedding(V, D, rng=rng).weight, 0.3), sequence),
    Sample("LoRALinear", lambda rng: layers.LoRALinear(layers.Linear(D, F, rng=rng), 3, 6, rng), sequence),
    Sample("QuantizedLinear", lambda rng: quantized(rng, 4, 3), sequence),
    Sample("QuantizedLinear, 8 bits, one scale per column, no bias", lambda rng: quantized(rng, 8, None, bias=False), sequence),
    Sample("LoRALinear, quantized", lambda rng: layers.LoRALinear(quantized(rng, 4, 6), 3, 6, rng), sequence),
    Sample("StraightThroughLinear", lambda rng: layers.StraightThroughLinear(layers.Linear(D, F, rng=rng), shifted), sequence),
    Sample("Dropout", lambda rng: layers.Dropout(P, rng), sequence),
    Sample("ReLU", lambda rng: layers.ReLU(), sequence),
    Sample("GELU", lambda rng: layers.GELU(), sequence),
    Sample("GELU, tanh", lambda rng: layers.GELU("tanh"), sequence),
    Sample("SiLU", lambda rng: layers.SiLU(), sequence),
    Sample("Tanh", lambda rng: layers.Tanh(), sequence),
    Sample("Sigmoid", lambda rng: layers.Sigmoid(), sequence),
    Sample("Softmax", lambda rng: layers.Softmax(), scores),
    Sample("LogSoftmax", lambda rng: layers.LogSoftmax(), scores),
    Sample("LayerNorm", lambda rng: layers.LayerNorm(D), sequence),
    Sample("LayerNorm, no bias", lambda rng: layers.LayerNorm(D, bias=False), sequence),
    Sample("RMSNorm", lambda rng: layers.RMSNorm(D), sequence),
    Sample("MaskedMean", lambda rng: layers.MaskedMean(), lambda draw: (draw(B, T, D), TOKEN_MASK)),
    Sample("FirstToken", lambda rng: layers.FirstToken(), lambda draw: (draw(B, T, D), TOKEN_MASK)),
    Sample("SinusoidalPositionalEncoding", lambda rng: layers.SinusoidalPositionalEncoding(D, S, P, rng), sequence),
    Sample("LearnedPositionalEmbedding", lambda rng: layers.LearnedPositionalEmbedding(S, D, rng), sequence),
    Sample("RotaryEmbedding", lambda rng: rotary(), lambda draw: (draw(B, H, T, 6),)),
    Sample("RotaryEmbedding, half-split", lambda rng: rotary(interleaved=False), lambda draw: (draw(B, H, T, 6), 4)),
    Sample("RotaryEmbedding, own frequencies", lambda rng: rotary(frequencies=[1.5, 0.4, 0.01]),
           lambda draw: (draw(B, H, T, 6), 4)),
    Sample("AttentionMask", lambda rng: layers.AttentionMask(), lambda draw: (draw(B, H, T, S), MASK)),
    Sample("ScaledDotProductAttention", lambda rng: layers.ScaledDotProductAttention(P, rng),
           lambda draw: (draw(B, H, T, 6), draw(B, H, S, 6), draw(B, H, S, 4), MASK)),
    Sample("ScaledDotProductAttention, grouped", lambda rng: layers.ScaledDotProductAttention(P, rng), heads),
    Sample("RelativePositionBias", lambda rng: relative(rng), lambda draw: (T, S)),
    Sample("RelativePositionBias, causal", lambda rng: relative(rng, causal=True), lambda draw: (T, S)),
    Sample("GroupedAttention", lambda rng: layers.GroupedAttention(P, rng), heads),
    Sample("ALiBi", lambda rng: layers.ALiBi(3), lambda draw: (T, S), gradients=False),
    Sample("ALiBi, padding", lambda rng: layers.ALiBi(4), lambda draw: (T, S, np.maximum(np.arange(S) - [[2], [0]], 0)),
           gradients=False),
    Sample("PositionBias, alibi", lambda rng: layers.PositionBias(layers.ALiBi(H)), scores),
    Sample("PositionBias, relative", lambda rng: layers.PositionBias(layers.RelativePositionBias(H, 8, 6, rng=rng)), scores),
    Sample("ScaledDotProductAttention, alibi",
           lambda rng: biased(layers.ScaledDotProductAttention(P, rng), layers.ALiBi(4)), heads),
    Sample("GroupedAttention, alibi", lambda rng: biased(layers.GroupedAttention(P, rng), layers.ALiBi(4)), heads),
    Sample("SlidingWindow", lambda rng: layers.SlidingWindow(2), scores),
    Sample("GroupedAttention, sliding window",
           lambda rng: with_score_changes(layers.GroupedAttention(P, rng), layers.SlidingWindow(3)), heads),
    Sample("UnscaledAttention", lambda rng: layers.UnscaledAttention(P, rng), heads),
    Sample("UnscaledAttention, relative", lambda rng: biased(layers.UnscaledAttention(P, rng), relative(rng)), heads),
    Sample("FlashAttention", lambda rng: layers.FlashAttention(3), heads),
    Sample("FlashAttention, causal", lambda rng: layers.FlashAttention(2, causal=True), heads),
    Sample("MultiHeadAttention", lambda rng: layers.MultiHeadAttention(D, H, dropout=P, rng=rng), three),
    Sample("SelfAttention", lambda rng: layers.SelfAttention(D, H, dropout=P, rng=rng), masked),
    Sample("SelfAttention, grouped, rotary",
           lambda rng: layers.SelfAttention(24, 4, 2, dropout=P, rotary=rotary(), rng=rng),
           lambda draw: (draw(B, T, 24), causal_mask(T))),
    Sample("SelfAttention, wide heads, biased queries",
           lambda rng: add_qkv_bias(layers.SelfAttention(D, 4, 2, P, bias=False, rotary=rotary(interleaved=False), rng=rng,
                                                         d_head=6)), masked),
    Sample("SelfAttention, normed queries and keys", normed_attention, masked),
    Sample("GatedSelfAttention", lambda rng: gate_heads(layers.SelfAttention(D, H, dropout=P, rng=rng), rng), masked),
    Sample("GatedSelfAttention, grouped, rotary, normed", lambda rng: gate_heads(normed_attention(rng), rng), masked),
    Sample("CrossAttention", lambda rng: layers.CrossAttention(D, H, dropout=P, rng=rng), two),
    Sample("SymmetricWindow", lambda rng: layers.SymmetricWindow(2), scores),
    Sample("SinkWindow", lambda rng: layers.SinkWindow(2, 1), scores),
    Sample("BlockSparseAttention", lambda rng: layers.BlockSparseAttention(near_blocks, 2), heads),
    Sample("BlockSparseAttention, a block that sees nothing",
           lambda rng: layers.BlockSparseAttention(BLOCKS, 3), heads),
    Sample("LinearAttention", lambda rng: layers.LinearAttention(), heads),
    Sample("RecurrentLinearAttention", lambda rng: layers.RecurrentLinearAttention(), padded_heads),
    Sample("SoftCap", lambda rng: layers.SoftCap(1.5), scores),
    Sample("SinkSoftmax", lambda rng: layers.SinkSoftmax(H), scores),
    Sample("GroupedAttention, sinks", lambda rng: add_sinks(layers.GroupedAttention(P, rng), 4), heads),
    Sample("RescaledAttention", lambda rng: layers.RescaledAttention(0.7, P, rng), heads),
    Sample("RescaledAttention, capped",
           lambda rng: with_score_changes(layers.RescaledAttention(0.7, P, rng), layers.SoftCap(1.5)), heads),
    Sample("PartialRotary", lambda rng: layers.PartialRotary(rotary(), 10), lambda draw: (draw(B, H, T, 10),)),
    Sample("ScaledRotary", lambda rng: layers.ScaledRotary(rotary(interleaved=False), 1.3), lambda draw: (draw(B, H, T, 6),)),
    Sample("LatentAttention", lambda rng: latent(layers.LatentAttention, rng), masked),
    Sample("AbsorbedLatentAttention", lambda rng: latent(layers.AbsorbedLatentAttention, rng), masked),
    Sample("Identity", lambda rng: layers.Identity(), sequence),
    Sample("Sequential", lambda rng: layers.Sequential(layers.Linear(D, F, rng=rng), layers.SoftCap(1.5)), sequence),
    Sample("UnitOffsetRMSNorm", lambda rng: layers.UnitOffsetRMSNorm(D), sequence),
    Sample("NormedLinear", lambda rng: layers.NormedLinear(layers.Linear(D, F, rng=rng), layers.RMSNorm(F)), sequence),
    Sample("PerHead", lambda rng: layers.PerHead(layers.RMSNorm(4)), sequence),
    Sample("FeedForward", lambda rng: layers.FeedForward(D, F, dropout=P, rng=rng), sequence),
    Sample("FeedForward, gelu", lambda rng: layers.FeedForward(D, F, "gelu", P, rng=rng), sequence),
    Sample("SwiGLU", lambda rng: layers.SwiGLU(D, F, rng=rng), sequence),
    Sample("SwiGLU, gelu_tanh", lambda rng: layers.SwiGLU(D, F, True, rng, activation="gelu_tanh"), sequence),
    Sample("ClampedSwiGLU", lambda rng: layers.ClampedSwiGLU(D, F, 0.8, rng=rng), sequence),
    Sample("Bias", lambda rng: layers.Bias(D), sequence),
    Sample("ShiftedPositions", lambda rng: layers.ShiftedPositions(layers.LearnedPositionalEmbedding(S, D, rng)), sequence),
    Sample("NormedPositions",
           lambda rng: layers.NormedPositions(layers.LearnedPositionalEmbedding(S, D, rng), layers.LayerNorm(D)), sequence),
    Sample("SeparateSinusoids", lambda rng: layers.SeparateSinusoids(D, S), sequence),
    Sample("Patches", lambda rng: layers.Patches(2, (3, 4)), lambda draw: (draw(B, 2, 9, 8),)),
    Sample("ClassToken", lambda rng: layers.ClassToken(D, rng), sequence),
    Sample("Router", lambda rng: layers.Router(D, 5, 2, rng=rng), tokens_in_rows),
    Sample("Router, bias", lambda rng: layers.Router(D, 5, 3, True, rng=rng), tokens_in_rows),
    Sample("SoftmaxRouter", lambda rng: layers.SoftmaxRouter(D, 5, 2, rng=rng), tokens_in_rows),
    Sample("SigmoidRouter", lambda rng: layers.SigmoidRouter(D, 6, 2, 2.5, rng=rng), tokens_in_rows),
    Sample("SigmoidRouter, groups", lambda rng: layers.SigmoidRouter(D, 8, 3, 2.5, num_groups=4, top_groups=2, rng=rng), tokens_in_rows),
    Sample("BalancedRouter", lambda rng: layers.BalancedRouter(layers.Router(D, 5, 2, rng=rng), 3.0), tokens_in_rows),
    Sample("BalancedRouter, softmax before the choice",
           lambda rng: layers.BalancedRouter(layers.SoftmaxRouter(D, 4, 1, True, rng=rng), 5.0), tokens_in_rows),
    Sample("MixtureOfExperts", lambda rng: experts(rng), sequence),
    Sample("MixtureOfExperts, shared, groups",
           lambda rng: experts(rng, layers.SigmoidRouter, 6, True, factor=2.5, num_groups=3, top_groups=2), sequence),
    Sample("Block", lambda rng: block(rng), masked, 3),
    Sample("Block, norms everywhere", gemma_block, masked, 3),
    Sample("ParallelBlock", parallel_block, masked, 3),
    Sample("CrossBlock, post-norm, grouped", lambda rng: cross_block(rng), with_memory, 3),
    Sample("EncoderBlock", lambda rng: layers.EncoderBlock(D, H, F, P, rng=rng), masked, 3),
    Sample("EncoderBlock, post-norm", lambda rng: layers.EncoderBlock(D, H, F, P, norm="post", rng=rng), masked, 3),
    Sample("DecoderBlock", lambda rng: layers.DecoderBlock(D, H, F, P, activation="gelu", rng=rng), masked, 3),
    Sample("DecoderBlock, cross-attention",
           lambda rng: layers.DecoderBlock(D, H, F, P, cross_attention=True, rng=rng), with_memory, 3),
    Sample("DecoderBlock, cross-attention, post-norm",
           lambda rng: layers.DecoderBlock(D, H, F, P, norm="post", cross_attention=True, rng=rng), with_memory, 3),
    Sample("Stack", lambda rng: models.Stack([block(rng), block(rng)], layers.RMSNorm(D)), masked, 3),
    Sample("MultiTokenStack", lambda rng: models.MultiTokenStack(models.Stack([block(rng)]), [block(rng), block(rng)],
                                                                 layers.RMSNorm(D)), masked, 3),
    Sample("SequentialTokenBlock", lambda rng: models.SequentialTokenBlock(block(rng), layers.Linear(2 * D, D, False, rng),
                                                                           layers.RMSNorm(D), layers.LayerNorm(D)),
           lambda draw: (draw(B, T, D), draw(B, T, D), causal_mask(T)), 3),
    Sample("CrossStack", lambda rng: models.CrossStack([cross_block(rng), cross_block(rng)]), with_memory, 3),
    Sample("Encoder", lambda rng: models.Encoder(L, D, H, F, dropout=P, rng=rng), masked, 3),
    Sample("Encoder, post-norm", lambda rng: models.Encoder(L, D, H, F, dropout=P, norm="post", rng=rng), masked, 3),
    Sample("Decoder", lambda rng: models.Decoder(L, D, H, F, dropout=P, rng=rng), masked, 3),
    Sample("Decoder, cross-attention",
           lambda rng: models.Decoder(L, D, H, F, dropout=P, cross_attention=True, rng=rng), with_memory, 3),
    Sample("CrossEntropyLoss", lambda rng: layers.CrossEntropyLoss(),
           lambda draw: (draw(B, T, V), draw.ids(V, B, T)), loss=True),
    Sample("CrossEntropyLoss, smoothed, ignoring", lambda rng: layers.CrossEntropyLoss(0.1, ignore_id=0),
           lambda draw: (draw(B, T, V), padded(draw.ids(V, B, T), 2)), loss=True),
    Sample("ZLoss", lambda rng: layers.ZLoss(layers.CrossEntropyLoss(), 0.3),
           lambda draw: (draw(B, T, V), draw.ids(V, B, T)), loss=True),
    Sample("ZLoss, smoothed, ignoring", lambda rng: layers.ZLoss(layers.CrossEntropyLoss(0.1, ignore_id=0), 0.3),
           lambda draw: (draw(B, T, V), padded(draw.ids(V, B, T), 2)), loss=True),
    Sample("BinaryCrossEntropyLoss", lambda rng: layers.BinaryCrossEntropyLoss(),
           lambda draw: (draw(B, T), draw.ids(2, B, T)), loss=True),
    Sample("LanguageModel", language_model_of_parts, tokens_and_padding, 3),
    Sample("LanguageModel, latent attention", latent_language_model, tokens_and_padding, 3),
    Sample("CausalLanguageModel",
           lambda rng: language_model(rng), tokens_and_padding, 3),
    Sample("CausalLanguageModel, sinusoidal, post-norm",
           lambda rng: language_model(rng, norm="post", activation="relu", positions="sinusoidal", tie_weights=False,
                                      scale_embedding=True), tokens, 3),
    Sample("CausalLanguageModel, rotary, rms, swiglu, grouped",
           lambda rng: language_model(rng, d_model=24, num_heads=4, norm_layer="rms", activation="swiglu",
                                      positions="rotary", num_kv_heads=2, bias=False), tokens_and_padding, 3),
    Sample("CausalLanguageModel, half-split, geglu, biased queries",
           lambda rng: qwen(rng, norm_layer="rms", activation="geglu", num_kv_heads=2, bias=False, tie_weights=False, eps=0.1,
                            d_head=6, positions=rotary(interleaved=False, frequencies=[1.5, 0.4, 0.01])),
           tokens_and_padding, 3),
    Sample("CausalLanguageModel, alibi, grouped",
           lambda rng: language_model(rng, d_model=24, num_heads=4, num_kv_heads=2, positions="alibi"), tokens_and_padding, 3),
    Sample("CausalLanguageModel, linear attention, grouped",
           lambda rng: language_model(rng, d_model=24, num_heads=4, num_kv_heads=2,
                                      attention=lambda sizes, rng: layers.LinearAttention()), tokens_and_padding, 3),
    Sample("CausalLanguageModel, recurrent linear attention",
           lambda rng: language_model(rng, attention=lambda sizes, rng: layers.RecurrentLinearAttention()), tokens_and_padding, 3),
    Sample("CausalLanguageModel, flash", lambda rng: language_model(rng, dropout=0.0, attention="flash"), tokens_and_padding,
           3),
    Sample("CausalLanguageModel, experts", language_model_of_experts, tokens_and_padding, 3),
    Sample("CausalLanguageModel, gates, norms, caps", gated_model, tokens_and_padding, 3),
    Sample("EncoderDecoder", lambda rng: encoder_decoder(rng, V), translation, 3),
    Sample("EncoderDecoder, post-norm, learned, tied",
           lambda rng: encoder_decoder(rng, W, norm="post", positions="learned", tie_weights=True), translation, 3),
    Sample("EncoderDecoder, relative, rms, gated, tied",
           lambda rng: t5(rng, positions="relative", tie_weights=True, activation="geglu_tanh", scale_embedding=False,
                          norm_layer="rms", bias=False, d_head=5), translation, 3),
    Sample("ImageClassifier",
           lambda rng: models.ImageClassifier((9, 8), (3, 4), D, H, num_layers=L, d_ff=F, num_classes=5, dropout=P, rng=rng,
                                              channels=2),
           lambda draw: (draw(B, 2, 9, 8),), 3),
    Sample("TextEncoder", lambda rng: encoder(models.TextEncoder, rng), tokens_and_padding, 3),
    Sample("TextEncoder, unscaled, norm, first position",
           lambda rng: encoder(models.TextEncoder, rng, positions="learned", scale_embedding=False, embedding_norm=True,
                               first_position=2), tokens_and_padding, 3),
    Sample("TextEncoder, alibi", lambda rng: encoder(models.TextEncoder, rng, positions="alibi"), tokens_and_padding, 3),
    Sample("SequenceClassifier", lambda rng: encoder(models.SequenceClassifier, rng, hidden=9), padded_tokens, 3),
    Sample("SequenceClassifier, three classes, padding seen, pre-norm",
           lambda rng: encoder(models.SequenceClassifier, rng, num_classes=3, hidden=9, norm="pre", mask_padding=False),
           padded_tokens, 3),
    Sample("SequenceClassifier, first token, tanh",
           lambda rng: encoder(models.SequenceClassifier, rng, num_classes=3, hidden=9, pool="first", head_activation="tanh"),
           padded_tokens, 3),
    Sample("TokenClassifier", lambda rng: encoder(models.TokenClassifier, rng, num_classes=4), tokens_and_padding, 3),
    Sample("MaskedLanguageModel", lambda rng: encoder(models.MaskedLanguageModel, rng), segmented, 3),
    Sample("MaskedLanguageModel, some positions", lambda rng: encoder(models.MaskedLanguageModel, rng, norm="pre"),
           lambda draw: (*segmented(draw), draw.ids(T, B, 4)), 3),
    Sample("make_model", lambda rng: models.make_model(V, W, L, D, d_ff=F, h=H, dropout=P, tie_weights=True, rng=rng),
           translation, 3),
    Sample("transformer_2017", lambda rng: models.transformer_2017(W, L, D, F, h=H, dropout=P, rng=rng), translation, 3),
]


def find_samples(names):
    """Returns the samples of the classes with these names, in all variants. Without names, returns all samples.

    Raises ValueError for an unknown name, with a list of the known ones.
    """
    classes: dict[str, list[Sample]] = {}
    for sample in SAMPLES:
        classes.setdefault(sample.name.split(",")[0].lower(), []).append(sample)
    unknown = [name for name in names if name.lower() not in classes]
    if unknown:
        known = ", ".join(samples[0].name for samples in classes.values())
        raise ValueError(f"there is no component {unknown[0]!r}; choose among {known}, or check your own class "
                         "with FILE.py:Class")
    return [sample for name in names for sample in classes[name.lower()]] if names else list(SAMPLES)
