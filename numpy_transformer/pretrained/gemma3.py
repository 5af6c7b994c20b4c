"""Gemma 3 (Gemma Team 2025), the models of text: Gemma 2 with norms of queries and keys in place of the capped scores, and with
other rotary positions in the blocks with a window.
"""

from ..layers import UnitOffsetRMSNorm
from . import gemma2
from .gemma2 import DEFAULTS, build_gemma2, gemma_settings
from .llama import make_family
from .qwen3 import norm_heads
from .rotary_settings import make_rotary, rope_parameters_of_kinds, rotary_options
from .windows import LAYER_TYPES, blocks_with_windows, with_windows

NAMES = gemma2.NAMES.replace("attention.query", "attention.query.linear").replace("attention.key", "attention.key.linear") + """
    model.layers.*.self_attn.q_norm             decoder.blocks.*.attention.query.norm.norm
    model.layers.*.self_attn.k_norm             decoder.blocks.*.attention.key.norm.norm
"""


def settings(config, stored):
    """Every sixth block has no window, or every block of the number sliding_window_pattern, unless config.json has a list of
    their types.
    """
    config = DEFAULTS | {"final_logit_softcapping": None} | config
    of_all, of_windows = rotary_settings(config)
    options = gemma_settings(of_all, config)
    pattern = config.get("sliding_window_pattern") or config.get("_sliding_window_pattern") or 6
    blocks = blocks_with_windows(config, options["num_layers"], lambda number: (number + 1) % pattern != 0)
    local = {"rotary": rotary_options(of_windows, options["d_head"]), "blocks": blocks}
    return with_windows(options | {"local": local}, config["sliding_window"], blocks)


def rotary_settings(config):
    """Returns the rotary settings of the blocks without and with a window; older files have no scaling in those with one."""
    older = None
    if not set(config.get("rope_parameters") or {}) & set(LAYER_TYPES):
        older = {"full_attention": {"rope_theta": config.get("rope_theta") or 1e6} | (config.get("rope_scaling") or {}),
                 "sliding_attention": {"rope_theta": config.get("rope_local_base_freq") or 10000.0}}
    return rope_parameters_of_kinds(config, older)


def build_gemma3(model_class, options, rng):
    """Returns a CausalLanguageModel as of Gemma 2, with norms of queries and keys and two kinds of rotary positions."""
    options = dict(options)
    local = options.pop("local")
    model = norm_heads(build_gemma2(model_class, options, rng), options, UnitOffsetRMSNorm)
    rotary = make_rotary(local["rotary"], options["d_head"])
    for block, is_local in zip(model.decoder.blocks, local["blocks"]):
        if is_local:
            block.attention.rotary = rotary
    return model


GEMMA3_TEXT = make_family("Gemma3", settings, NAMES, build_gemma3, base="Gemma3TextModel", use_bidirectional_attention=False,
                          attn_logit_softcapping=None)
