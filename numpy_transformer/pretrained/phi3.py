"""Phi-3 (Abdin et al. 2024) and Phi-4-mini: LLaMA with several weights in one array, and rotary positions on a part of heads."""

from . import llama
from .llama import make_family, settings_with
from .rotary_settings import rope_parameters
from .windows import with_windows

MERGED = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
NAMES = "\n".join(line for line in llama.NAMES.splitlines() if not any(name in line for name in MERGED)) + """
    model.layers.*.self_attn.qkv_proj           decoder.blocks.*.attention.query+key+value
    model.layers.*.mlp.gate_up_proj             decoder.blocks.*.feed_forward.gate+up
"""


def settings(config, stored):
    """The 128k models, whose scaling has had several names, have one list of factors for short and one for long texts."""
    rope = rope_parameters(config)
    if rope["rope_type"] == "yarn":
        rope["rope_type"] = "longrope"
    options = settings_with(rope, {"rms_norm_eps": 1e-5} | config)
    return with_windows(options, config.get("sliding_window"))


PHI3 = make_family("Phi3", settings, NAMES)
