"""Checks of what dropout does and where it is applied. With every entry dropped, components have known outputs."""

import numpy as np

from ..layers import (Block, Dropout, FeedForward, MultiHeadAttention, ScaledDotProductAttention,
                      SinusoidalPositionalEncoding, Softmax)
from ..models import LanguageModel, EncoderDecoder
from .check import check, expect, expect_close, prepared, upstream

MODELS = LanguageModel, EncoderDecoder


@check("dropout keeps the mean", Dropout)
def dropout_keeps_the_mean(module, *_):
    y = module(np.ones((100, 1000)))
    expect(abs((y == 0).mean() - module.p) < 0.01, f"{(y == 0).mean():.2f} of the entries are 0, but p = {module.p}")
    expect(abs(y.mean() - 1) < 0.02, f"dropout changes the mean of ones to {y.mean():.2f}")


@check("dropout masks are independent", Dropout)
def each_forward_and_each_row_has_its_own_mask(module, *_):
    first, second = (module(np.ones((100, 1000))) == 0 for _ in range(2))
    for what, a, b in (("two forward passes", first, second), ("two rows", first[1:], first[:-1])):
        both = (a & b).mean()
        expect(abs(both - module.p ** 2) < 0.01, f"the masks of {what} are not independent: {both:.2f} of all entries "
               f"are dropped in both, but p² = {module.p ** 2:.2f}")


@check("dropout is the identity in eval", Dropout)
def dropout_is_the_identity_in_eval(module, *inputs):
    module, (x,) = prepared(module, inputs)
    module.eval(remember=True)
    expect_close("output in eval mode", module(x), x)
    expect_close("gradient in eval mode", module.backward(upstream(x)), upstream(x))
    expect((module.train()(np.ones(1000)) == 0).any(), "nothing is dropped after eval() and train()")


@check("dropout follows the softmax", ScaledDotProductAttention,
       when=lambda module, *inputs: module.dropout.p and isinstance(module.softmax, Softmax))
def attention_weights_are_dropped_after_the_softmax(module, *inputs):
    """With v = I the output is the weights after dropout; `weights` holds them before dropout."""
    module, (q, k, *_) = prepared(module, inputs)
    y = module(q, k, np.broadcast_to(np.eye(k.shape[-2]), (*k.shape[:-1], k.shape[-2])))
    kept = y != 0
    expect(kept.any() and not kept.all(), "none or all of the attention weights are dropped")
    expect_close("sum of a row of `weights`", module.weights.sum(-1), np.ones(q.shape[:-1]))
    expect_close("weights that are not dropped", y[kept] * (1 - module.dropout.p), module.weights[kept])


@check("everything dropped", FeedForward, MultiHeadAttention, Block, SinusoidalPositionalEncoding, *MODELS)
def output_with_everything_dropped(module, *inputs):
    """A block returns its residual and a sublayer its last bias. A model returns the same logits for any input."""
    module, inputs = prepared(module, inputs)
    for part in (part for _, part in module.named_modules() if isinstance(part, Dropout)):
        part.p = 0.5
        vars(part)["draw"] = np.zeros_like
    y = module(*inputs)
    wanted = np.broadcast_to(what_is_left(module, inputs[0], y), y.shape)
    expect_close("output with everything dropped", y, wanted)


def what_is_left(module, x, y):
    """Returns the output that remains if every dropout returns zeros."""
    if isinstance(module, MODELS):
        return y[0, 0]
    if isinstance(module, Block):
        norms = [] if module.pre_norm else [module.norm1, module.norm2, getattr(module, "norm3", None)]
        for norm in norms:
            x = x if norm is None else norm(x)
        return x
    last = getattr(module, "down", None) or getattr(module, "output", None)
    bias = getattr(last, "bias", None)
    return np.zeros(1) if bias is None else bias.data
