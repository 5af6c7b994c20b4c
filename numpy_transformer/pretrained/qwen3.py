"""Qwen3 (Yang et al. 2025): Qwen2 without biases, and with a norm of the queries and the keys of each head."""

from ..layers import PerHead, RMSNorm
from ..layers.normed_linear import norm_queries_and_keys
from . import llama
from .llama import build_llama, make_family, settings as llama_settings
from .qwen2 import upper_windows

NAMES = llama.NAMES.replace("attention.query", "attention.query.linear").replace("attention.key", "attention.key.linear") + """
    model.layers.*.self_attn.q_norm             decoder.blocks.*.attention.query.norm.norm
    model.layers.*.self_attn.k_norm             decoder.blocks.*.attention.key.norm.norm
"""


def settings(config, stored):
    return upper_windows(llama_settings({"head_dim": 128} | config, stored), config)


def build_qwen3(model_class, options, rng):
    """Returns a CausalLanguageModel as of LLaMA, whose queries and keys are normalized before they are rotated."""
    return norm_heads(build_llama(model_class, options, rng), options, RMSNorm)


def norm_heads(model, options, norm):
    """Gives the queries and the keys of each head a norm of this class; returns the model."""
    for block in model.decoder.blocks:
        query_norm, key_norm = (PerHead(norm(options["d_head"], options["eps"])) for _ in range(2))
        norm_queries_and_keys(block.attention, query_norm, key_norm)
    return model


QWEN3 = make_family("Qwen3", settings, NAMES, build_qwen3)
