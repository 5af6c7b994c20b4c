"""Mixtral (Jiang et al. 2024): Mistral with a mixture of experts in each block; and what other mixtures share with it."""

from ..layers import MixtureOfExperts, Router, SwiGLU
from . import llama
from .family import activation
from .llama import build_llama, make_family, settings_with
from .rotary_settings import check_whole_heads, rope_parameters
from .windows import with_windows

NAMES = "\n".join(line for line in llama.NAMES.splitlines() if ".mlp." not in line) + """
    model.layers.*.block_sparse_moe.gate            decoder.blocks.*.feed_forward.router.linear
    model.layers.*.block_sparse_moe.experts.*.w1    decoder.blocks.*.feed_forward.experts.*.gate
    model.layers.*.block_sparse_moe.experts.*.w3    decoder.blocks.*.feed_forward.experts.*.up
    model.layers.*.block_sparse_moe.experts.*.w2    decoder.blocks.*.feed_forward.experts.*.down
"""


def settings(config, stored):
    rope = rope_parameters(config, theta=1e6)
    check_whole_heads(rope)
    options = settings_with(rope, {"rms_norm_eps": 1e-5} | config)
    options |= {"num_experts": number_of_experts(config, 8), "top_k": config.get("num_experts_per_tok", 2),
                "expert_activation": activation(config.get("hidden_act", "silu"))}
    return with_windows(options, config.get("sliding_window"))


def number_of_experts(config, usual):
    """Returns the number of experts, which has two names in config.json."""
    return config.get("num_local_experts") or config.get("num_experts") or usual


def build_mixtral(model_class, options, rng):
    """Returns a CausalLanguageModel whose feed-forward layers are mixtures of SwiGLUs."""
    options = dict(options)
    num_experts, top_k, f = options.pop("num_experts"), options.pop("top_k"), options.pop("expert_activation")
    d_model, d_ff = options["d_model"], options["d_ff"]
    model = build_llama(model_class, options, rng)
    for block in model.decoder.blocks:
        experts = [SwiGLU(d_model, d_ff, rng=rng, activation=f) for _ in range(num_experts)]
        block.feed_forward = MixtureOfExperts(Router(d_model, num_experts, top_k, rng=rng), experts)
    return model


MIXTRAL = make_family("Mixtral", settings, NAMES, build_mixtral)
