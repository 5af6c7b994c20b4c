"""Gemma 2 (Riviere et al. 2024): Gemma with norms after each sublayer, too, capped scores and logits, and windows in every
second block; and what Gemma 3 shares with it.
"""

import functools

from ..layers import RescaledAttention, Sequential, SoftCap, UnitOffsetRMSNorm
from ..layers.attention import with_score_changes
from ..layers.normed_linear import norm_outputs
from . import llama
from .gemma import build_gemma
from .llama import make_family, settings_with
from .rotary_settings import check_whole_heads, rope_parameters
from .windows import blocks_with_windows, with_windows

NAMES = "\n".join(line for line in llama.NAMES.splitlines() if "post_attention_layernorm" not in line).replace(
    "attention.output", "attention.output.linear").replace("feed_forward.down", "feed_forward.down.linear").replace(
    "     output", "     output\n    lm_head     output.parts.0") + """
    model.layers.*.post_attention_layernorm     decoder.blocks.*.attention.output.norm
    model.layers.*.pre_feedforward_layernorm    decoder.blocks.*.norm2
    model.layers.*.post_feedforward_layernorm   decoder.blocks.*.feed_forward.down.norm
"""
DEFAULTS = {"head_dim": 256, "query_pre_attn_scalar": 256, "tie_word_embeddings": True, "sliding_window": 4096,
            "hidden_activation": "gelu_pytorch_tanh", "final_logit_softcapping": 30.0, "attn_logit_softcapping": 50.0}


def settings(config, stored):
    """Blocks 0, 2, 4, ... have a window, unless config.json has a list of their types."""
    config = DEFAULTS | config
    rope = rope_parameters(config)
    check_whole_heads(rope)
    options = gemma_settings(rope, config) | {"score_cap": config["attn_logit_softcapping"]}
    blocks = blocks_with_windows(config, options["num_layers"], lambda number: number % 2 == 0)
    return with_windows(options, config["sliding_window"], blocks)


def gemma_settings(rope, config):
    """Returns the options that Gemma 2 and Gemma 3 share."""
    return settings_with(rope, config | {"hidden_act": config["hidden_activation"]}) | {
        "scale_embedding": True, "score_scale": config["query_pre_attn_scalar"] ** -0.5, "score_cap": None,
        "logit_cap": config["final_logit_softcapping"]}


def make_attention(scale, score_cap, sizes, rng):
    """Returns attention whose scores are multiplied by a number, and capped unless `score_cap` is None."""
    rescaled = RescaledAttention(scale, sizes.dropout, rng)
    return rescaled if score_cap is None else with_score_changes(rescaled, SoftCap(score_cap))


def build_gemma2(model_class, options, rng):
    """Returns a CausalLanguageModel with the norms, the factor and the caps of Gemma."""
    options = dict(options)
    scale, score_cap, logit_cap = options.pop("score_scale"), options.pop("score_cap"), options.pop("logit_cap")
    attention = functools.partial(make_attention, scale, score_cap)         # not a function in here: models can be pickled

    def norm():
        return UnitOffsetRMSNorm(options["d_model"], options["eps"])

    model = build_gemma(model_class, options | {"attention": attention}, rng)
    for block in model.decoder.blocks:
        norm_outputs(block, norm(), norm())
    if logit_cap is not None:
        model.output = Sequential(model.output, SoftCap(logit_cap))
    return model


GEMMA2 = make_family("Gemma2", settings, NAMES, build_gemma2, use_bidirectional_attention=False)
