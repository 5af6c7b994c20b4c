"""Checks of what each output depends on: one token is changed, and the changed outputs are compared with the rule."""

import numpy as np

from ..decoding import KeyValueCache
from ..layers import Block, CrossAttention, CrossBlock, GatedSelfAttention, ParallelBlock, SelfAttention
from ..models import LanguageModel, CrossStack, EncoderDecoder, Stack
from .check import check, expect, expect_close, prepared
from .gradcheck import is_float

WITH_MEMORY = (CrossAttention, CrossBlock, CrossStack, EncoderDecoder)


def dependence(module, inputs, argument):
    """Returns (B, T, S) booleans: whether output t of a sequence depends on token s of this argument, in eval mode."""
    x = inputs[argument]
    y = module.eval()(*inputs)
    depends = np.empty((*y.shape[:2], x.shape[1]), bool)
    for s in range(x.shape[1]):
        other = x.copy()
        if is_float(x):
            other[:, s] += np.random.default_rng(s).standard_normal(x[:, s].shape)
        else:                                   # another id, except for padding: EncoderDecoder recognizes it by its id
            is_padding = x[:, s] == getattr(module, "pad_id", None)
            other[:, s] = np.where(is_padding, x[:, s], x[:, s] % 9 + 1)
        change = module(*inputs[:argument], other, *inputs[argument + 1:]) - y
        depends[..., s] = ~(abs(change).max(-1) <= 1e-9)            # True for NaN as well
    return depends


def expect_dependence(depends, allowed, required):
    """Compares (B, T, S) dependences with those that are allowed and those that are required."""
    for wrong, sentence in ((depends & ~allowed, "output {} depends on token {}, which it must not see"),
                            (required & ~depends, "output {} does not depend on token {}, which it should see")):
        if wrong.any():
            _, t, s = np.argwhere(wrong)[0]
            raise AssertionError(sentence.format(t, s))


def own_tokens(module, *inputs):
    """Returns the index of the input to change, and (B, T, T) booleans: what each token may see of it."""
    argument = 0
    token_mask = np.ones(inputs[0].shape[:2], bool)
    if isinstance(module, EncoderDecoder):
        argument = 1
        token_mask = inputs[1] != module.pad_id
    elif isinstance(module, LanguageModel) and len(inputs) > 1:
        token_mask = inputs[1]
    return argument, np.tri(token_mask.shape[1], dtype=bool) & token_mask[:, None, :]


@check("causality", SelfAttention, GatedSelfAttention, Block, Stack, LanguageModel, EncoderDecoder)
def outputs_depend_on_the_past_only(module, *inputs):
    """Output t depends on each real token up to t, and on no later token or padding. Its residual is token t itself."""
    module, inputs = prepared(module, inputs)
    argument, visible = own_tokens(module, *inputs)
    itself = np.eye(visible.shape[1], dtype=bool)
    token_mask = True
    if isinstance(module, (LanguageModel, EncoderDecoder)):
        token_mask = visible.any(1)[:, None, :]
    expect_dependence(dependence(module, inputs, argument), visible | itself, visible & token_mask)


def visible_memory(module, source, *others):
    """Returns (B, T, S) booleans: which positions of the memory each output should see."""
    if isinstance(module, EncoderDecoder):
        target, = others
        return np.broadcast_to((source != module.pad_id)[:, None], (*target.shape, source.shape[1]))
    x, memory, *masks = source, *others
    number_of_masks = 1 if isinstance(module, CrossAttention) else 2
    mask = masks[-1] if len(masks) == number_of_masks else np.ones((1, 1, 1, 1), bool)
    return np.broadcast_to(mask.any(1), (len(x), x.shape[1], memory.shape[1]))


@check("source mask", *WITH_MEMORY, when=lambda module, *inputs: len(inputs) > 2 or isinstance(module, EncoderDecoder))
def outputs_depend_on_the_visible_source(module, *inputs):
    module, inputs = prepared(module, inputs)
    visible = visible_memory(module, *inputs)
    argument = 0 if isinstance(module, EncoderDecoder) else 1
    expect_dependence(dependence(module, inputs, argument), visible, visible)


@check("queries are independent", CrossAttention)
def each_output_depends_on_its_own_query_only(module, *inputs):
    module, inputs = prepared(module, inputs)
    B, T = inputs[0].shape[:2]
    itself = np.broadcast_to(np.eye(T, dtype=bool), (B, T, T))
    fully_masked = ~inputs[2].any((1, 3)) if len(inputs) > 2 else np.zeros((1, 1), bool)
    expect_dependence(dependence(module, inputs, 0), itself, itself & ~fully_masked[:, :, None])


def adds_positions(model, *inputs):
    """Returns False for positions inside attention (rotary, relative), which do not distinguish equal tokens."""
    return getattr(model, "target_positions" if isinstance(model, EncoderDecoder) else "positions") is not None


@check("token order matters", LanguageModel, EncoderDecoder, when=adds_positions)
def token_order_matters(module, *inputs):
    """Equal tokens at different positions have different outputs, and reversing the source changes them."""
    module, inputs = prepared(module, inputs)
    source = [inputs[0]] if isinstance(module, EncoderDecoder) else []
    ids = np.ones((len(inputs[0]), 5), np.intp)
    y = module.eval()(*source, ids)
    for t in range(1, 5):
        expect(abs(y[:, t:] - y[:, :-t]).max() > 1e-9, f"equal tokens {t} positions apart have equal outputs")
    if source:
        expect(abs(module(source[0][:, ::-1], ids) - y).max() > 1e-9, "the order of the source makes no difference")


@check("padding", LanguageModel, EncoderDecoder)
def more_padding_changes_nothing(module, *inputs):
    module, inputs = prepared(module, inputs)
    padding = np.zeros((len(inputs[0]), 2), np.intp)
    if isinstance(module, EncoderDecoder):
        source, target = (x[:, :5] for x in inputs)
        y = module.eval()(source, target)
        expect_close("output with more padding in the source", module(np.hstack([source, padding]), target), y)
        padded = module(source, np.hstack([target, padding]))
        expect_close("output with more padding in the target", padded[:, :5], y)
    else:
        ids = inputs[0][:, :5]
        token_mask = np.arange(7) > 1
        y = module.eval()(ids)
        padded = module(np.hstack([padding, ids]), np.tile(token_mask, (len(ids), 1)))
        expect_close("output after padding", padded[:, 2:], y)


@check("key-value cache", LanguageModel, EncoderDecoder)
def cached_equals_uncached(module, *inputs):
    """Decodes token by token and in two parts, each with a new cache, a part again after going back, and one without a cache."""
    module, inputs = prepared(module, inputs)
    module.eval()
    if isinstance(module, EncoderDecoder):
        source, ids = inputs
        call = module.decode
        constant: tuple = (module.encode(source), source)
        per_token = []
    else:
        ids, *per_token = inputs                # its token mask
        call = module
        constant = ()

    def forward(start, stop, **cache):
        return call(ids[:, start:stop], *constant, *(x[:, start:stop] for x in per_token), **cache)

    whole = forward(0, None)
    for sizes in ([1] * ids.shape[1], [2, ids.shape[1] - 2]):
        cache = KeyValueCache()
        stops = np.cumsum(sizes)
        parts = [forward(stop - size, stop, cache=cache) for size, stop in zip(sizes, stops)]
        expect_close("output with a key-value cache", np.concatenate(parts, 1), whole, 1e-9)
    cache.shorten(1)
    expect_close("output with a cache that went back", forward(1, None, cache=cache), whole[:, 1:], 1e-9)
    expect_close("output without a cache, after calls with one", forward(0, 2), whole[:, :2])


@check("block formula", Block, when=lambda block, *inputs: not isinstance(block, ParallelBlock))
def a_block_follows_its_formula(block, x, *others):
    """x + f(norm(x)) for each sublayer f, or norm(x + f(x)), computed with the block's own parts."""
    block, (x, *others) = prepared(block, (x, *others))
    block.eval()
    sublayers = [lambda x: block.attention(x, others[-1])]
    norms = [block.norm1, block.norm2]
    if getattr(block, "cross_attention", None) is not None:
        memory, mask, memory_mask = (*others, None)[:3]
        sublayers = [lambda x: block.attention(x, mask), lambda x: block.cross_attention(x, memory, memory_mask)]
        norms.append(block.norm3)
    y = x
    for norm, sublayer in zip(norms, [*sublayers, block.feed_forward]):
        y = y + sublayer(norm(y)) if block.pre_norm else norm(y + sublayer(y))
    expect_close("output compared with the formula", block(x, *others), y)


@check("parallel block formula", ParallelBlock)
def a_parallel_block_follows_its_formula(block, x, mask=None):
    """x + attention(norm1(x)) + feed_forward(norm2(x)), computed with the block's own parts."""
    block, (x, mask) = prepared(block, (x, mask))
    block.eval()
    y = x + block.feed_forward(block.norm2(x)) + block.attention(block.norm1(x), mask)
    expect_close("output compared with the formula", block(x, mask), y)
