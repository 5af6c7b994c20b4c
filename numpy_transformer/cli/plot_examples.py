"""Pictures that need no trained run: positions, masks, schedules, step sizes, memory, small models."""

import tracemalloc

import numpy as np

from ..inspection import influence
from ..data import PAD
from ..layers import (CrossEntropyLoss, FeedForward, FlashAttention, ScaledDotProductAttention,
                      SinusoidalPositionalEncoding, causal_mask, padding_mask)
from ..models import CausalLanguageModel, Decoder, Encoder, EncoderDecoder, SequenceClassifier
from ..module import Parameter
from ..training import SGD, CosineSchedule, NoamSchedule

SIZES = {"d_model": 64, "num_heads": 8, "num_layers": 6, "d_ff": 256, "rng": 0}
MODELS = {"encoder": lambda: Encoder(**SIZES), "decoder": lambda: CausalLanguageModel(1000, **SIZES),
          "encoder-decoder": lambda: EncoderDecoder(1000, 1000, **SIZES),
          "classifier": lambda: SequenceClassifier(1000, **SIZES)}


def draw_positions(views, arguments):
    table = SinusoidalPositionalEncoding(arguments.width, max_len=arguments.positions).table
    return views.positional_waves(table) if arguments.waves else views.positional_heatmap(table, arguments.transposed)


def draw_masks(views, arguments):
    if arguments.padding >= arguments.length:
        raise ValueError(f"--padding {arguments.padding} leaves no token of --length {arguments.length}; name fewer")
    return views.mask_pictures(masks(arguments.length, arguments.padding))


def masks(T, padded):
    """{title: (T, T)}: a causal mask, one that hides the last `padded` tokens, and both."""
    ids = np.where(np.arange(T) < T - padded, 5, PAD)
    causal, padding = causal_mask(T)[0, 0], np.broadcast_to(padding_mask(ids)[0, 0], (T, T))
    return {"causal": causal, f"padding ({padded} of {T})": padding, "both": causal & padding}


def draw_schedules(views, arguments):
    steps, warmup = arguments.steps, arguments.warmup
    if warmup >= steps:
        raise ValueError(f"--warmup {warmup} leaves nothing of --steps {steps}; name more steps")
    optimizer = SGD([Parameter(np.zeros(1))], lr=0.0)
    noam = NoamSchedule(optimizer, arguments.width, warmup)
    cosine = CosineSchedule(optimizer, noam.rate(warmup), noam.rate(warmup) / 10, warmup, steps)
    return views.schedules({f"{title}, warm-up {warmup}": [schedule.rate(n) for n in range(1, steps + 1)] for
                            title, schedule in ((f"Noam, d_model = {arguments.width}", noam), ("cosine", cosine))})


def draw_steps(views, arguments):
    """The error of finite differences and of the complex step, of one gradient of a feed-forward layer with a loss."""
    rng = np.random.default_rng(arguments.seed)
    x, targets = rng.standard_normal((5, 4)), rng.integers(0, 4, 5)
    way = rng.standard_normal((4, 6))
    curves = {}
    for title, dtype, powers in (("central, float64", "f8", np.arange(0, 13.5, 0.5)),
                                 ("central, float32", "f4", np.arange(0, 6.5, 0.5)),
                                 ("forward, float64", "f8", np.arange(0, 13.5, 0.5)),
                                 ("complex, float64", "c16", np.arange(0, 17.0))):
        model, criterion = FeedForward(4, 6, "gelu", rng=arguments.seed).astype("f8"), CrossEntropyLoss()
        criterion(model(x), targets)
        model.backward(criterion.backward())
        exact = float((model.up.weight.grad * way).sum())
        model.astype(dtype).eval()
        start, kind = model.up.weight.data.copy(), np.dtype(dtype).type

        def loss(h):
            model.up.weight.data = start + kind(h) * way.astype(start.real.dtype)
            return criterion.eval()(model(x.astype(start.real.dtype)), targets)

        slopes = {"central": lambda h: (loss(h) - loss(-h)) / (2 * h), "forward": lambda h: (loss(h) - loss(0)) / h,
                  "complex": lambda h: np.imag(loss(1j * h)) / h}[title[:7]]
        steps = 10.0 ** -powers
        curves[title] = steps, [max(abs(float(slopes(h)) / exact - 1), 1e-17) for h in steps]
    return views.step_sizes(curves, mark=1e-5)


def draw_memory(views, arguments):
    """Peak of the arrays that forward and backward of one causal head allocate, plain and in tiles."""
    curves = {}
    for title, attention in (("plain", ScaledDotProductAttention()), ("in tiles", FlashAttention(causal=True))):
        sizes = []
        for T in (lengths := [2 ** n for n in range(7, 12)]):
            q, k, v = np.random.default_rng(0).standard_normal((3, 1, T, arguments.width), dtype=np.float32)
            mask = causal_mask(T) if title == "plain" else None
            tracemalloc.start()
            try:
                attention.backward(attention(q, k, v, mask))
                sizes.append(tracemalloc.get_traced_memory()[1])
            finally:
                tracemalloc.stop()
        curves[title] = lengths, sizes
    return views.memory_growth(curves)


def small_stacks(T=6, S=5, padded=2, rng=0):
    """{title: which input moves which output} of stacks of two blocks with random weights, right and wrong masks."""
    rng = np.random.default_rng(rng)
    x, memory = rng.standard_normal((T, 8)), rng.standard_normal((S, 8))
    encoder = Encoder(2, 8, 2, 16, dropout=0.0, rng=rng)
    decoder = Decoder(2, 8, 2, 16, dropout=0.0, cross_attention=True, rng=rng)
    causal, padding = causal_mask(T), np.arange(S)[None] < S - padded
    return {
        "encoder, padding hidden": influence(encoder, memory, padding),
        "decoder, causal mask": influence(decoder, x, memory, causal, padding),
        "cross-attention, padding hidden": influence(decoder, x, memory, causal, padding, argument=1),
        "wrong: padding not hidden": influence(encoder, memory),
        "wrong: causal mask inverted": influence(decoder, x, memory, ~causal, padding),
        "wrong: causal cross-attention": influence(decoder, x, memory, causal, np.tri(T, S, dtype=bool), argument=1)}
