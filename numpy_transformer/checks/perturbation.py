"""Which output follows which input: one token is moved, and what changes is compared with what may."""

import numpy as np

from ..decoding import KeyValueCache
from ..layers import CrossAttention, DecoderBlock, EncoderBlock, SelfAttention
from ..models import CausalLanguageModel, Encoder, EncoderDecoder
from .check import check, expect, expect_close, prepared
from .gradcheck import is_float

WITH_MEMORY = (CrossAttention, DecoderBlock, Encoder, EncoderDecoder)


def moved(module, inputs, place):
    """(B, T, S): whether output t of a row follows token s of the input at `place`, in eval."""
    x, y = inputs[place], module.eval()(*inputs)
    follows = np.empty((*y.shape[:2], x.shape[1]), bool)
    for s in range(x.shape[1]):
        other = x.copy()
        if is_float(x):
            other[:, s] += np.random.default_rng(s).standard_normal(x[:, s].shape)
        else:                                   # another token; an EncoderDecoder knows its padding by the id
            other[:, s] = np.where(x[:, s] == getattr(module, "pad_id", None), x[:, s], x[:, s] % 9 + 1)
        change = module(*inputs[:place], other, *inputs[place + 1:]) - y
        follows[..., s] = ~(abs(change).max(-1) <= 1e-9)            # NaN has moved, too
    return follows


def expect_ways(follows, may, must):
    """may, must (B, T, S): where a way is allowed, and where there has to be one."""
    for wrong, sentence in ((follows & ~may, "output {} follows token {}, which it must not see"),
                            (must & ~follows, "output {} does not follow token {}, which it should see")):
        expect(not wrong.any(), sentence.format(*np.argwhere(wrong)[0][1:]) if wrong.any() else "")


def own_tokens(module, *inputs):
    """(place of the input that is moved, (B, T, T) what may be seen) of a causal forward."""
    if isinstance(module, EncoderDecoder):
        place, real = 1, inputs[1] != module.pad_id
    else:
        place = 0
        given = len(inputs) > 1 and isinstance(module, CausalLanguageModel)
        real = inputs[1] if given else np.ones(inputs[0].shape[:2], bool)
    T = real.shape[1]
    return place, np.tri(T, dtype=bool) & real[:, None, :]


@check("causality", SelfAttention, EncoderBlock, Encoder, CausalLanguageModel, EncoderDecoder)
def outputs_follow_the_past_and_nothing_else(module, *inputs):
    """Output t follows each real token up to t, itself by the residual, and no later one, no padding."""
    module, inputs = prepared(module, inputs)
    place, seen = own_tokens(module, *inputs)
    apart = np.eye(seen.shape[1], dtype=bool)
    real = seen.any(1)[:, None, :] if isinstance(module, (CausalLanguageModel, EncoderDecoder)) else True
    expect_ways(moved(module, inputs, place), seen | apart, seen & real)


def memory_mask(module, source, *others):
    """(B, T, S): which places of the memory each output should see."""
    if isinstance(module, EncoderDecoder):
        target, = others
        return np.broadcast_to((source != module.pad_id)[:, None], (*target.shape, source.shape[1]))
    x, memory, *masks = source, *others
    mask = masks[-1] if len(masks) == (1 if isinstance(module, CrossAttention) else 2) else np.ones((1, 1, 1, 1), bool)
    return np.broadcast_to(mask.any(1), (len(x), x.shape[1], memory.shape[1]))


@check("source mask", *WITH_MEMORY, when=lambda module, *inputs: len(inputs) > 2 or isinstance(module, EncoderDecoder))
def outputs_follow_the_source_that_they_may_see(module, *inputs):
    module, inputs = prepared(module, inputs)
    seen = memory_mask(module, *inputs)
    expect_ways(moved(module, inputs, 0 if isinstance(module, EncoderDecoder) else 1), seen, seen)


@check("queries are independent", CrossAttention)
def each_output_follows_its_own_query_alone(module, *inputs):
    module, inputs = prepared(module, inputs)
    same = np.broadcast_to(np.eye(inputs[0].shape[1], dtype=bool), (len(inputs[0]), *[inputs[0].shape[1]] * 2))
    hidden = ~inputs[2].any((1, 3)) if len(inputs) > 2 else np.zeros((1, 1), bool)
    expect_ways(moved(module, inputs, 0), same, same & ~hidden[:, :, None])


@check("token order matters", CausalLanguageModel, EncoderDecoder,
       when=lambda model, *inputs: getattr(model, "positions", True) is not None)      # rotary ones turn q and k alone
def places_are_told_apart(module, *inputs):
    """Equal tokens get outputs of their own, and a source read backwards is another one."""
    module, inputs = prepared(module, inputs)
    source, ids = [inputs[0]] * isinstance(module, EncoderDecoder), np.ones((len(inputs[0]), 5), np.int64)
    y = module.eval()(*source, ids)
    for t in range(1, 5):
        expect(abs(y[:, t:] - y[:, :-t]).max() > 1e-9, f"equal tokens {t} places apart have equal outputs")
    if source:
        expect(abs(module(source[0][:, ::-1], ids) - y).max() > 1e-9, "the order of the source does not matter")


@check("padding", CausalLanguageModel, EncoderDecoder)
def more_padding_changes_nothing(module, *inputs):
    module, inputs = prepared(module, inputs)
    zeros = [np.zeros((len(inputs[0]), 2), np.int64)] * 2
    if isinstance(module, EncoderDecoder):
        source, target = (x[:, :5] for x in inputs)
        y = module.eval()(source, target)
        expect_close("output with more padding in the source", module(np.hstack([source, zeros[0]]), target), y)
        expect_close("output with padding behind the target", module(source, np.hstack([target, zeros[0]]))[:, :5], y)
    else:
        ids, real = inputs[0][:, :5], np.arange(7) > 1
        y = module.eval()(ids)
        padded = module(np.hstack([zeros[0], ids]), np.tile(real, (len(ids), 1)))
        expect_close("output behind padding", padded[:, 2:], y)


@check("key-value cache", CausalLanguageModel, EncoderDecoder)
def cached_equals_uncached(module, *inputs):
    """Token by token, and in two parts, with a new cache each time; then a part of it without one."""
    module, inputs = prepared(module, inputs)
    module.eval()
    if isinstance(module, EncoderDecoder):
        source, ids = inputs
        call, before, along = module.decode, (module.encode(source), source), ()
    else:
        ids, *along = inputs                    # its padding
        call, before = module, ()

    def forward(start, stop, **cache):
        return call(ids[:, start:stop], *before, *(x[:, start:stop] for x in along), **cache)

    whole = forward(0, None)
    for sizes in ([1] * ids.shape[1], [2, ids.shape[1] - 2]):
        cache, stops = KeyValueCache(), np.cumsum(sizes)
        parts = [forward(stop - size, stop, cache=cache) for size, stop in zip(sizes, stops)]
        expect_close("output with a key-value cache", np.concatenate(parts, 1), whole, 1e-9)
    expect_close("output without a cache, after calls with one", forward(0, 2), whole[:, :2])


@check("block formula", EncoderBlock)
def a_block_is_its_formula(block, x, *others):
    """x + f(norm(x)) for each sublayer f, or norm(x + f(x)), with the block's own parts one by one."""
    block, (x, *others) = prepared(block, (x, *others))
    block.eval()
    sublayers, norms = [lambda x: block.attention(x, others[-1])], [block.norm1, block.norm2]
    if getattr(block, "cross_attention", None) is not None:
        memory, mask, memory_mask = (*others, None)[:3]
        sublayers = [lambda x: block.attention(x, mask), lambda x: block.cross_attention(x, memory, memory_mask)]
        norms.append(block.norm3)
    y = x
    for norm, sublayer in zip(norms, [*sublayers, block.feed_forward]):
        y = y + sublayer(norm(y)) if block.pre_norm else norm(y + sublayer(y))
    expect_close("output beside the formula", block(x, *others), y)
