"""The rotary positions that config.json describes: their frequencies, how these are scaled, and what is rotated."""

import math

import numpy as np

from ..argument_checks import check_positive
from ..layers import PartialRotary, RotaryEmbedding, ScaledRotary
from ..parameter import check_room
from .config import CheckedConfig, check_order
from .windows import LAYER_TYPES

CHANGING = {"dynamic": "by frequencies that change with the length of the text",
            "longrope": "by one list of factors for short texts and another for long ones",
            "su": "by one list of factors for short texts and another for long ones"}


def rope_parameters(config, theta=10000.0):
    """Returns the rotary settings as a CheckedConfig: in one dict since version 5 of transformers, in two places before.

    Parameters: config : CheckedConfig or dict; theta : what rope_theta is where config.json does not say it
    """
    config = CheckedConfig(config)
    rope = {"rope_theta": config.get("rope_theta") or theta, "rope_type": "default",
            "partial_rotary_factor": config.get("partial_rotary_factor") or 1.0,
            "original_max_position_embeddings": config.get("original_max_position_embeddings")
            or config.get("max_position_embeddings")}
    for key in ("rope_scaling", "rope_parameters"):
        rope.update({name: value for name, value in (config.get(key) or {}).items() if value is not None})
    rope["rope_type"] = rope.get("type", rope["rope_type"])             # its oldest name
    return CheckedConfig(rope)


def rope_parameters_of_kinds(config, older):
    """Returns the rotary settings of the blocks without and with a window, which are rotated in two ways.

    Parameters: config : CheckedConfig; older : {type of a block: its settings} where config.json has no rope_parameters of
        its own for each type
    """
    nested = CheckedConfig(older or config["rope_parameters"], "rope_parameters.")
    kinds = [rope_parameters({"max_position_embeddings": config["max_position_embeddings"], "rope_parameters": nested[kind]})
             for kind in LAYER_TYPES]
    for rope in kinds:
        check_whole_heads(rope)
    return kinds


def check_whole_heads(rope):
    """Raises ValueError if only a part of each head is rotated, in a family for which transformers does not do that."""
    if rope["partial_rotary_factor"] != 1:
        raise ValueError("config.json rotates only a part of each head (partial_rotary_factor); this package rotates "
                         "whole heads in a model of this family, so it cannot load this one")


def rotary_options(rope, d_head):
    """Returns the options of the rotary positions of heads of this width, from which make_rotary makes them."""
    width = int(d_head * rope["partial_rotary_factor"])
    scaled, factor = frequencies(width, rope)
    options = {"rope_interleaved": False, "rope_base": rope["rope_theta"], "rope_frequencies": scaled}
    if width != d_head:
        options["rope_width"] = width
    if factor != 1:
        options["rope_factor"] = factor
    return options


def make_rotary(options, d_head):
    """Returns the rotary positions of heads of this width, from the options that rotary_options has returned."""
    width, factor = options.get("rope_width", d_head), options.get("rope_factor", 1.0)
    rotary = RotaryEmbedding(width, options["rope_base"], options["rope_interleaved"], options["rope_frequencies"])
    rotary = rotary if factor == 1 else ScaledRotary(rotary, factor)
    return rotary if width == d_head else PartialRotary(rotary, d_head)


@np.errstate(divide="raise", invalid="raise")       # a factor of 0 is an error of config.json
def frequencies(width, rope):
    """Returns (the rotary frequencies θ_i as a list, or None if they are base^(-2i/width); what cos and sin are multiplied by).

    "linear" divides all by a factor. "llama3" divides those of long wavelengths by it, keeps those of short ones, and
    interpolates in between, by how often a wave fits into the length on which the model was trained first. "yarn" does so too,
    by the number of the frequency, and makes the scores larger.
    Source: Chen et al. 2023 (linear); for llama3 the published code of LLaMA 3.1; Peng et al. 2023 (yarn).
    """
    if rope["rope_type"] == "default":
        return None, 1.0
    check_positive(head_dim=width)
    check_room(width)
    theta = rope["rope_theta"] ** (-np.arange(0, width, 2) / width)
    if rope["rope_type"] == "linear":
        return (theta / rope["factor"]).tolist(), 1.0
    if rope["rope_type"] == "llama3":
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        check_order(low_freq_factor=low, high_freq_factor=high)
        waves = rope["original_max_position_embeddings"] * theta / (2 * np.pi)
        kept = np.clip((waves - low) / (high - low), 0, 1)
        return (theta * (kept + (1 - kept) / rope["factor"])).tolist(), 1.0
    if rope["rope_type"] == "yarn":
        kept = yarn_kept(width, rope)
        return (theta * (kept + (1 - kept) / rope["factor"])).tolist(), yarn_factor(rope)
    how = CHANGING.get(rope["rope_type"], f"by {rope['rope_type']!r}")
    raise ValueError(f"config.json scales rotary positions {how} (rope_type = {rope['rope_type']!r}); this package supports "
                     "default, linear, llama3 and yarn, so it cannot load this model")


def yarn_kept(width, rope):
    """Returns how much of each frequency stays as it is: 1 for those that turn more than beta_fast times within the length on
    which the model was trained first, 0 for those that turn less than beta_slow times, and between them a ramp.
    """
    fast, slow = rope.get("beta_fast", 32), rope.get("beta_slow", 1)
    check_order(beta_slow=slow, beta_fast=fast)
    length = rope["original_max_position_embeddings"]
    low, high = (width * math.log(length / (2 * math.pi * n)) / (2 * math.log(rope["rope_theta"])) for n in (fast, slow))
    if rope.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    return 1 - np.clip((np.arange(width // 2) - low) / (high - low or 0.001), 0, 1)


def yarn_factor(rope):
    """Returns the factor of cos and sin: as it is given, or 0.1 ln(factor) + 1, or the quotient of two such numbers."""
    if rope.get("attention_factor") is not None:
        return rope["attention_factor"]
    if rope.get("mscale") and rope.get("mscale_all_dim"):
        return yarn_scale(rope, rope["mscale"]) / yarn_scale(rope, rope["mscale_all_dim"])
    return yarn_scale(rope, 1)


def yarn_scale(rope, mscale):
    """Returns 0.1 mscale ln(factor) + 1, or 1 for a factor of at most 1."""
    return 1.0 if rope["factor"] <= 1 else 0.1 * mscale * math.log(rope["factor"]) + 1
