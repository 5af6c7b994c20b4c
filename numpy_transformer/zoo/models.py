"""The small models in which bugs are checked and trained, and the texts that they learn."""

import numpy as np

from ..checks.samples import TOKEN_MASK, B, S, Sample, T, padded, shifted
from ..layers import LinearAttention, ScaledDotProductAttention, SlidingWindow, add_rounding, quantize
from ..layers.attention import with_score_changes
from ..models import CausalLanguageModel, EncoderDecoder

PAD, LETTERS, BOS, HALF, BATCH = 0, 8, 9, 6, 32
SIZES = {"d_model": 24, "num_heads": 2, "num_layers": 1, "d_ff": 48, "max_len": 2 * HALF}


def language_model(**options):
    return lambda rng: CausalLanguageModel(BOS + 1, **SIZES, **options, rng=rng)


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
    Sample("language model, window", language_model(attention=windowed), lambda draw: (draw.ids(BOS, B, T), TOKEN_MASK)),
    Sample("language model, linear attention", language_model(attention=lambda sizes, rng: LinearAttention()),
           lambda draw: (draw.ids(BOS, B, T), TOKEN_MASK)),
    Sample("language model, quantized", lambda rng: quantize(language_model()(rng), 4, 6),
           lambda draw: (draw.ids(BOS, B, T), TOKEN_MASK)),
    Sample("language model, weights changed", lambda rng: add_rounding(language_model()(rng), shifted),
           lambda draw: (draw.ids(BOS, B, T), TOKEN_MASK)))


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
