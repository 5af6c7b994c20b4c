"""LLaMA (Touvron et al. 2023): rotary positions, RMSNorm, SwiGLU, grouped queries; and what its relatives share with it."""

import numpy as np

from ..argument_checks import check_positive
from ..layers import RotaryEmbedding, SlidingWindow
from ..layers.attention import with_score_changes
from ..layers.multi_head import add_qkv_bias
from ..models import CausalLanguageModel
from ..parameter import check_room
from .family import Family, activation, no_head

MOST_BLOCKS = 10_000
NAMES = """
    model.embed_tokens                          embedding
    model.layers.*.input_layernorm              decoder.blocks.*.norm1
    model.layers.*.self_attn.q_proj             decoder.blocks.*.attention.query
    model.layers.*.self_attn.k_proj             decoder.blocks.*.attention.key
    model.layers.*.self_attn.v_proj             decoder.blocks.*.attention.value
    model.layers.*.self_attn.o_proj             decoder.blocks.*.attention.output
    model.layers.*.post_attention_layernorm     decoder.blocks.*.norm2
    model.layers.*.mlp.gate_proj                decoder.blocks.*.feed_forward.gate
    model.layers.*.mlp.up_proj                  decoder.blocks.*.feed_forward.up
    model.layers.*.mlp.down_proj                decoder.blocks.*.feed_forward.down
    model.norm                                  decoder.norm
    lm_head                                     output
"""


def settings(config, stored):
    heads = config["num_attention_heads"]
    d_head = config.get("head_dim") or config["hidden_size"] // heads
    rope = rope_parameters(config)
    return {
        "vocab_size": config["vocab_size"], "max_len": config["max_position_embeddings"],
        "d_model": config["hidden_size"], "d_ff": config["intermediate_size"], "d_head": d_head,
        "num_heads": heads, "num_kv_heads": config.get("num_key_value_heads") or heads,
        "num_layers": config["num_hidden_layers"], "norm_layer": "rms", "eps": config.get("rms_norm_eps", 1e-6),
        "activation": activation(config.get("hidden_act", "silu"), gated=True), "bias": False,
        "qkv_bias": False, "tie_weights": config.get("tie_word_embeddings", False),
        "positions": "rotary", "rope_interleaved": False, "rope_base": rope["rope_theta"],
        "rope_frequencies": frequencies(d_head, rope),
    }


def with_windows(options, window, has_window=lambda number: True):
    """Returns the options with the sliding window of each block, None for a block without; as they are if it is not shorter
    than the longest text.

    Parameters: options : dict, with num_layers and max_len; window : int or None; has_window : (number of a block) -> bool
    Raises: ValueError for a number of blocks that no model has.
    """
    if window is None or window >= options["max_len"]:
        return options
    if options["num_layers"] > MOST_BLOCKS:
        raise ValueError(f"config.json describes {options['num_layers']:,} blocks, more than the {MOST_BLOCKS:,} that this "
                         "package makes windows for; use the config.json and the weights of one checkpoint")
    return options | {"windows": [window if has_window(number) else None for number in range(options["num_layers"])]}


def build_llama(model_class, options, rng):
    """Returns a CausalLanguageModel with the rotary positions of the checkpoint, the biases of q, k and v and the sliding
    windows of the blocks that have them.
    """
    options = dict(options)
    qkv_bias, windows = options.pop("qkv_bias"), options.pop("windows", ())
    base, interleaved, frequencies = (options.pop(f"rope_{name}") for name in ("base", "interleaved", "frequencies"))
    rotary = RotaryEmbedding(options["d_head"], base, interleaved, frequencies)
    model = model_class(**options | {"positions": rotary}, rng=rng)
    if qkv_bias:
        for block in model.decoder.blocks:
            add_qkv_bias(block.attention)
    for block, window in zip(model.decoder.blocks, windows):        # as many, or no window at all
        if window is not None:
            with_score_changes(block.attention.attention, SlidingWindow(window))
    return model


def rope_parameters(config):
    """Returns the rotary settings: in one dict since version 5 of transformers, in two places before."""
    rope = {"rope_theta": config.get("rope_theta") or 10000.0, "rope_type": "default"}
    for key in ("rope_scaling", "rope_parameters"):
        rope.update(**(config.get(key) or {}))
    rope["rope_type"] = rope.get("type", rope["rope_type"])             # its oldest name
    if rope.get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0)) != 1:
        raise ValueError("config.json rotates only a part of each head (partial_rotary_factor); this package rotates "
                         "whole heads, so it cannot load this model")
    return rope


@np.errstate(divide="raise", invalid="raise")       # a factor of 0 is an error of config.json
def frequencies(d_head, rope):
    """Returns the rotary frequencies θ_i as a list, or None if they are base^(-2i/d_head).

    "linear" divides all by a factor. "llama3" divides those of long wavelengths by it, keeps those of short ones, and
    interpolates in between, by how often a wave fits into the length on which the model was trained first.
    Source: Chen et al. 2023 (linear); for llama3 the published code of LLaMA 3.1.
    """
    if rope["rope_type"] == "default":
        return None
    check_positive(head_dim=d_head)
    check_room(d_head)
    theta = rope["rope_theta"] ** (-np.arange(0, d_head, 2) / d_head)
    if rope["rope_type"] == "linear":
        return (theta / rope["factor"]).tolist()
    if rope["rope_type"] != "llama3":
        raise ValueError(f"config.json scales rotary positions by {rope['rope_type']!r}; this package supports default, "
                         "linear and llama3, so it cannot load this model")
    low = rope["low_freq_factor"]
    high = rope["high_freq_factor"]
    waves = rope["original_max_position_embeddings"] * theta / (2 * np.pi)
    kept = np.clip((waves - low) / (high - low), 0, 1)
    return (theta * (kept + (1 - kept) / rope["factor"])).tolist()


def make_family(name, settings):
    """Returns the Family of models whose architectures are called `name`ForCausalLM and `name`Model."""
    architectures = (f"{name}ForCausalLM", f"{name}Model")
    return Family(
        names=lambda config: NAMES,
        settings=settings,
        heads={architecture: (CausalLanguageModel, "", no_head) for architecture in architectures},
        base=f"{name}Model",
        prefix="model.",
        fixed={"attention_bias": False, "mlp_bias": False},
        copies={"lm_head.weight": "model.embed_tokens.weight"},
        constants=("model.layers.*.self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq"),
        build=build_llama,
    )


LLAMA = make_family("Llama", settings)
