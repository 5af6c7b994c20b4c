"""What dropout does, and where it stands: components of which every entry is dropped have known outputs."""

import numpy as np

from ..layers import (Dropout, EncoderBlock, FeedForward, MultiHeadAttention, ScaledDotProductAttention,
                      SinusoidalPositionalEncoding)
from ..models import CausalLanguageModel, EncoderDecoder
from .check import check, expect, expect_close, prepared, upstream

MODELS = CausalLanguageModel, EncoderDecoder


@check("dropout keeps the mean", Dropout)
def dropout_keeps_the_mean(module, *_):
    y = module(np.ones((100, 1000)))
    expect(abs((y == 0).mean() - module.p) < 0.01, f"{(y == 0).mean():.2f} of the entries are 0, p = {module.p}")
    expect(abs(y.mean() - 1) < 0.02, f"the mean of ones becomes {y.mean():.2f}")


@check("dropout draws anew", Dropout)
def each_forward_and_each_row_drops_entries_of_its_own(module, *_):
    first, second = (module(np.ones((100, 1000))) == 0 for _ in range(2))
    for what, a, b in (("two forwards", first, second), ("two rows", first[1:], first[:-1])):
        expect(abs((a & b).mean() - module.p ** 2) < 0.01, f"{what} drop the same entries too often or too seldom: "
               f"{(a & b).mean():.2f} of all are dropped in both, p² = {module.p ** 2:.2f}")


@check("dropout is the identity in eval", Dropout)
def dropout_is_the_identity_in_eval(module, *inputs):
    module, (x,) = prepared(module, inputs)
    module.eval(remember=True)
    expect_close("output in eval", module(x), x)
    expect_close("gradient in eval", module.backward(upstream(x)), upstream(x))
    expect((module.train()(np.ones(1000)) == 0).any(), "nothing is dropped in train() after eval()")


@check("dropped weights", ScaledDotProductAttention, when=lambda module, *inputs: module.dropout.p)
def weights_are_dropped_behind_the_softmax(module, *inputs):
    """With v = I the output is the weights as they are used; `weights` shows them before dropout."""
    module, (q, k, *_) = prepared(module, inputs)
    y = module(q, k, np.broadcast_to(np.eye(k.shape[-2]), (*k.shape[:-1], k.shape[-2])))
    kept = y != 0
    expect(kept.any() and not kept.all(), "of the attention weights none or all are dropped")
    expect_close("sum of a row of `weights`", module.weights.sum(-1), np.ones(q.shape[:-1]))
    expect_close("weights that are not dropped", y[kept] * (1 - module.dropout.p), module.weights[kept])


@check("everything dropped", FeedForward, MultiHeadAttention, EncoderBlock, SinusoidalPositionalEncoding, *MODELS)
def where_everything_is_dropped_the_rest_is_left(module, *inputs):
    """Of a block the residual, of a sublayer its last bias, of a model the same logits whatever it reads."""
    module, inputs = prepared(module, inputs)
    for part in (part for _, part in module.named_modules() if isinstance(part, Dropout)):
        part.p, part.draw = 0.5, np.zeros_like
    y = module(*inputs)
    expect_close("output where everything is dropped", y, np.broadcast_to(left(module, inputs[0], y), y.shape))


def left(module, x, y):
    if isinstance(module, MODELS):
        return y[0, 0]
    if isinstance(module, EncoderBlock):
        for norm in () if module.pre_norm else (module.norm1, module.norm2, getattr(module, "norm3", None)):
            x = x if norm is None else norm(x)
        return x
    bias = getattr(getattr(module, "down", None) or getattr(module, "output", None), "bias", None)
    return np.zeros(1) if bias is None else bias.data
