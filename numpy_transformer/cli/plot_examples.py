"""The pictures of `plot` that need no trained run: positions, masks, schedules, step sizes, memory, small models."""

import tracemalloc

import numpy as np

from ..data import PAD
from ..inspection import influence
from ..layers import (CrossEntropyLoss, FeedForward, FlashAttention, ScaledDotProductAttention,
                      SinusoidalPositionalEncoding, causal_mask, padding_mask)
from ..models import CausalLanguageModel, Decoder, Encoder, SequenceClassifier, make_model, transformer_2017
from ..module import Parameter
from ..training import SGD, CosineSchedule, NoamSchedule, WSDSchedule

SIZES = {"d_model": 64, "num_heads": 8, "num_layers": 6, "d_ff": 256, "rng": 0}
MODELS = {"encoder": lambda: Encoder(**SIZES), "decoder": lambda: CausalLanguageModel(1000, **SIZES),
          "encoder-decoder": lambda: transformer_2017(1000, 6, 64, 256, 8, rng=0),
          "annotated": lambda: make_model(1000, 1000, 6, 64, 256, 8, rng=0),
          "classifier": lambda: SequenceClassifier(1000, **SIZES)}


def draw_positions(views, arguments):
    table = SinusoidalPositionalEncoding(arguments.width, max_len=arguments.positions).table
    chosen = {"--dims": arguments.dims, "--at": arguments.at}
    if not arguments.waves:
        for option, numbers in chosen.items():
            if numbers is not None:
                raise ValueError(f"{option} chooses curves, but a heatmap is drawn; add --waves")
        return views.positional_heatmap(table, arguments.transposed)
    for (option, numbers), size, limit in zip(chosen.items(), ("--width", "--positions"), table.shape[::-1]):
        if numbers is not None and max(numbers) >= limit:
            raise ValueError(f"{option} {max(numbers)} is too large for {size} {limit}; the last one is {limit - 1}")
    return views.positional_waves(table, arguments.dims, arguments.at)


def draw_masks(views, arguments):
    if arguments.padding >= arguments.length:
        raise ValueError(f"--padding {arguments.padding} leaves no real token in --length {arguments.length}; give fewer "
                         "padding tokens")
    return views.mask_pictures(masks(arguments.length, arguments.padding))


def masks(T, padded):
    """{title: mask (T, T)}: a causal mask, a mask that hides the last `padded` tokens, and both combined."""
    ids = np.where(np.arange(T) < T - padded, 5, PAD)
    causal = causal_mask(T)[0, 0]
    padding = np.broadcast_to(padding_mask(ids)[0, 0], (T, T))
    return {"causal mask": causal, f"padding mask ({padded} of {T})": padding, "both combined": causal & padding}


def draw_schedules(views, arguments):
    steps, warmup = arguments.steps, arguments.warmup
    if warmup >= steps:
        raise ValueError(f"--warmup {warmup} must be less than --steps {steps}; give more steps")
    optimizer = SGD([Parameter(np.zeros(1))], lr=0.0)
    noam = NoamSchedule(optimizer, arguments.width, warmup)
    cosine = CosineSchedule(optimizer, noam.rate(warmup), noam.rate(warmup) / 10, warmup, steps)
    curves = {}
    decay = max(1, min(steps // 5, steps - warmup))
    wsd = WSDSchedule(optimizer, noam.rate(warmup), noam.rate(warmup) / 10, warmup, decay, steps)
    for title, schedule in ((f"Noam, d_model = {arguments.width}", noam), ("cosine", cosine), ("WSD", wsd)):
        curves[f"{title}, warm-up {warmup}"] = [schedule.rate(n) for n in range(1, steps + 1)]
    return views.schedules(curves)


def draw_steps(views, arguments):
    """The relative error of a directional derivative of a feed-forward layer, by finite differences and the complex step."""
    rng = np.random.default_rng(arguments.seed)
    x = rng.standard_normal((5, 4))
    targets = rng.integers(0, 4, 5)
    direction = rng.standard_normal((4, 6))
    curves = {}
    for title, dtype, powers in (("central, float64", "f8", np.arange(0, 13.5, 0.5)),
                                 ("central, float32", "f4", np.arange(0, 6.5, 0.5)),
                                 ("forward, float64", "f8", np.arange(0, 13.5, 0.5)),
                                 ("complex, float64", "c16", np.arange(0, 17.0))):
        model, criterion = FeedForward(4, 6, "gelu", rng=arguments.seed).astype("f8"), CrossEntropyLoss()
        criterion(model(x), targets)
        model.backward(criterion.backward())
        exact = float((model.up.weight.grad * direction).sum())
        model.astype(dtype).eval()
        criterion.eval()
        weight = model.up.weight
        start = weight.data.copy()
        scalar = np.dtype(dtype).type

        def loss(h):
            weight.data = start + scalar(h) * direction.astype(start.real.dtype)
            return criterion(model(x.astype(start.real.dtype)), targets)

        derivatives = {"central": lambda h: (loss(h) - loss(-h)) / (2 * h),
                       "forward": lambda h: (loss(h) - loss(0)) / h,
                       "complex": lambda h: np.imag(loss(1j * h)) / h}
        derivative = derivatives[title.partition(",")[0]]
        steps = 10.0 ** -powers
        curves[title] = steps, [max(abs(float(derivative(h)) / exact - 1), 1e-17) for h in steps]
    return views.step_sizes(curves, mark=1e-5)


def draw_memory(views, arguments):
    """The peak memory of forward and backward of one causal head, with plain and with tiled attention."""
    lengths = [2 ** n for n in range(7, 12)]
    curves = {}
    for title, attention in (("plain attention", ScaledDotProductAttention()),
                             ("tiled attention", FlashAttention(causal=True))):
        sizes = []
        for T in lengths:
            q, k, v = np.random.default_rng(0).standard_normal((3, 1, T, arguments.width), dtype=np.float32)
            mask = None if isinstance(attention, FlashAttention) else causal_mask(T)
            tracemalloc.start()
            try:
                attention.backward(attention(q, k, v, mask))
                sizes.append(tracemalloc.get_traced_memory()[1])
            finally:
                tracemalloc.stop()
        curves[title] = lengths, sizes
    return views.memory_growth(curves)


def small_stacks(T=6, S=5, padded=2, rng=0):
    """{title: influence of each input on each output} of stacks of two random blocks with correct and wrong masks."""
    rng = np.random.default_rng(rng)
    x, memory = rng.standard_normal((T, 8)), rng.standard_normal((S, 8))
    encoder = Encoder(2, 8, 2, 16, dropout=0.0, rng=rng)
    decoder = Decoder(2, 8, 2, 16, dropout=0.0, cross_attention=True, rng=rng)
    causal = causal_mask(T)
    padding = np.arange(S)[None] < S - padded
    causal_over_source = np.tri(T, S, dtype=bool)
    return {
        "encoder, padding mask": influence(encoder, memory, padding),
        "decoder, causal mask": influence(decoder, x, memory, causal, padding),
        "cross-attention, padding mask": influence(decoder, x, memory, causal, padding, argument=1),
        "wrong: no padding mask": influence(encoder, memory),
        "wrong: causal mask inverted": influence(decoder, x, memory, ~causal, padding),
        "wrong: causal cross-attention": influence(decoder, x, memory, causal, causal_over_source, argument=1)}
