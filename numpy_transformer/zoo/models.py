"""The small models in which bugs are checked and trained, and the texts that they learn."""

import numpy as np

from ..checks.samples import TOKEN_MASK, B, S, Sample, T, padded, shifted
from ..layers import (AbsorbedLatentAttention, BalancedRouter, Block, Embedding, LatentAttention, Linear, LinearAttention,
                      MixtureOfExperts, RescaledAttention, RMSNorm, RotaryEmbedding, Router, ScaledDotProductAttention, Sequential,
                      SigmoidRouter, SlidingWindow, SoftCap, SwiGLU, add_rounding, quantize)
from ..layers.attention import with_score_changes
from ..models import CausalLanguageModel, EncoderDecoder, LanguageModel, Stack

PAD, LETTERS, BOS, HALF, BATCH = 0, 8, 9, 6, 32
SIZES = {"d_model": 24, "num_heads": 2, "num_layers": 1, "d_ff": 48, "max_len": 2 * HALF}


def language_model(**options):
    return lambda rng: CausalLanguageModel(BOS + 1, **SIZES, **options, rng=rng)


def with_experts(rng, make_router):
    """A language model whose feed-forward layer consists of four experts."""
    model = language_model()(rng)
    experts = [SwiGLU(SIZES["d_model"], 16, rng=rng) for _ in range(4)]
    model.decoder.blocks[0].feed_forward = MixtureOfExperts(make_router(SIZES["d_model"], 4, 2, rng=rng), experts)
    return model


def balanced_router(*sizes, rng):
    return BalancedRouter(Router(*sizes, rng=rng))


def capped(rng):
    """A language model with soft caps of scores and logits."""
    model = language_model(attention=lambda sizes, rng: with_score_changes(
        RescaledAttention(sizes.d_head ** -0.5, sizes.dropout, rng), SoftCap(3.0)))(rng)
    model.output = Sequential(model.output, SoftCap(8.0))
    return model


def latent_model(attention_class):
    def build(rng):
        attention = attention_class(24, 2, 16, 12, 8, rotary=RotaryEmbedding(8), rng=rng)
        block = Block(attention, SwiGLU(24, 48, rng=rng), RMSNorm(24), RMSNorm(24))
        return LanguageModel(Embedding(BOS + 1, 24, rng=rng), Stack([block], RMSNorm(24)), Linear(24, BOS + 1, False, rng),
                             max_len=2 * HALF)
    return build


def windowed(sizes, rng):
    """Attention with a window that ends one token after the letter that comes next in a text of `batch`."""
    return with_score_changes(ScaledDotProductAttention(sizes.dropout, rng), SlidingWindow(HALF - 1))


def translation(draw):
    return padded(draw.ids(BOS, B, S), 2), padded(draw.ids(BOS, B, T), 1)


MODELS = (                                      # a bug is planted in the first one that contains its target
    Sample("language model", language_model(dropout=0.1), lambda draw: (draw.ids(BOS, B, T), TOKEN_MASK)),
    Sample("language model, sinusoidal", language_model(positions="sinusoidal", activation="relu", tie_weights=False,
                                                        scale_embedding=True), lambda draw: (draw.ids(BOS, B, T),)),
    Sample("language model, rotary", language_model(positions="rotary", norm_layer="rms", activation="swiglu"),
           lambda draw: (draw.ids(BOS, B, T), TOKEN_MASK)),
    Sample("encoder-decoder", lambda rng: EncoderDecoder(BOS + 1, BOS + 1, **SIZES, dropout=0.0, tie_weights=True,
                                                         rng=rng), translation),
    Sample("encoder-decoder, relative", lambda rng: EncoderDecoder(BOS + 1, BOS + 1, **SIZES, dropout=0.0,
                                                                   positions="relative", rng=rng), translation),
    Sample("language model, alibi", language_model(positions="alibi"), lambda draw: (draw.ids(BOS, B, T), TOKEN_MASK)),
    Sample("language model, experts", lambda rng: with_experts(rng, SigmoidRouter),
           lambda draw: (draw.ids(BOS, B, T), TOKEN_MASK)),
    Sample("language model, balanced experts", lambda rng: with_experts(rng, balanced_router),
           lambda draw: (draw.ids(BOS, B, T), TOKEN_MASK)),
    Sample("language model, capped", lambda rng: capped(rng), lambda draw: (draw.ids(BOS, B, T), TOKEN_MASK)),
    Sample("language model, window", language_model(attention=windowed), lambda draw: (draw.ids(BOS, B, T), TOKEN_MASK)),
    Sample("language model, linear attention", language_model(attention=lambda sizes, rng: LinearAttention()),
           lambda draw: (draw.ids(BOS, B, T), TOKEN_MASK)),
    Sample("language model, quantized", lambda rng: quantize(language_model()(rng), 4, 6),
           lambda draw: (draw.ids(BOS, B, T), TOKEN_MASK)),
    Sample("language model, weights changed", lambda rng: add_rounding(language_model()(rng), shifted),
           lambda draw: (draw.ids(BOS, B, T), TOKEN_MASK)),
    *(Sample(f"language model, {name}", latent_model(attention_class), lambda draw: (draw.ids(BOS, B, T), TOKEN_MASK))
      for name, attention_class in (("latent", LatentAttention), ("absorbed", AbsorbedLatentAttention))))


def batch(n, model, seed=0):
    """Returns batch number n as (inputs, targets): texts whose second half repeats the first.

    In the first half, each letter is the successor of the previous one with probability 1/2, otherwise random. In the
    second half, one letter in ten is replaced, and some texts end early. A language model predicts the whole text; an
    EncoderDecoder reads the first half and writes the second.
    """
    rng = np.random.default_rng([seed, n])
    first = rng.integers(1, LETTERS + 1, (BATCH, HALF))
    for t in range(1, HALF):
        first[:, t] = np.where(rng.random(BATCH) < 0.5, first[:, t - 1] % LETTERS + 1, first[:, t])
    other = rng.integers(1, LETTERS + 1, first.shape)
    second = np.where(rng.random(first.shape) < 0.1, other, first)
    second[np.arange(HALF) >= rng.integers(HALF // 2, HALF + 1, (BATCH, 1))] = PAD
    if isinstance(model, EncoderDecoder):       # the decoder's input is its targets, shifted by one position
        return (first, np.hstack([np.full((BATCH, 1), BOS), second[:, :-1]])), second
    text = np.hstack([first, second])
    return text[:, :-1], text[:, 1:]
