"""Qwen3 with a mixture of experts (Yang et al. 2025) in all blocks, or in some."""

from ..layers import MixtureOfExperts, Router, SoftmaxRouter, SwiGLU
from . import qwen3
from .family import activation
from .llama import make_family, settings as llama_settings
from .mixtral import number_of_experts
from .qwen3 import build_qwen3
from .windows import with_windows

EXPERTS = """
    model.layers.*.mlp.gate                         decoder.blocks.*.feed_forward.router.linear
    model.layers.*.mlp.experts.*.gate_proj          decoder.blocks.*.feed_forward.experts.*.gate
    model.layers.*.mlp.experts.*.up_proj            decoder.blocks.*.feed_forward.experts.*.up
    model.layers.*.mlp.experts.*.down_proj          decoder.blocks.*.feed_forward.experts.*.down
"""


def settings(config, stored):
    """Every block of the number decoder_sparse_step has a mixture, except those that mlp_only_layers lists. The weights of the
    experts that a token uses sum to 1 with norm_topk_prob.
    """
    options = llama_settings({"head_dim": config["hidden_size"] // config["num_attention_heads"]} | config, stored)
    num_experts = number_of_experts(config, 128)
    without, step = config.get("mlp_only_layers") or (), config.get("decoder_sparse_step", 1)
    mixtures = [number for number in range(options["num_layers"]) if (number + 1) % step == 0 and number not in without]
    options |= {"mixtures": mixtures, "num_experts": num_experts, "top_k": config.get("num_experts_per_tok", 8),
                "d_expert": config.get("moe_intermediate_size", 768), "sums_to_1": config.get("norm_topk_prob", False),
                "expert_activation": activation(config.get("hidden_act", "silu"))}
    return with_windows(options, config.get("sliding_window", 4096) if config.get("use_sliding_window", False) else None)


def build_qwen3_moe(model_class, options, rng):
    """Returns a CausalLanguageModel as of Qwen3, in which some feed-forward layers are mixtures of SwiGLUs."""
    options = dict(options)
    num_experts, top_k, d_expert = options.pop("num_experts"), options.pop("top_k"), options.pop("d_expert")
    mixtures, sums_to_1, f = options.pop("mixtures"), options.pop("sums_to_1"), options.pop("expert_activation")
    d_model = options["d_model"]
    model = build_qwen3(model_class, options, rng)
    for number in mixtures:
        experts = [SwiGLU(d_model, d_expert, rng=rng, activation=f) for _ in range(num_experts)]
        router = (Router if sums_to_1 else SoftmaxRouter)(d_model, num_experts, top_k, rng=rng)
        model.decoder.blocks[number].feed_forward = MixtureOfExperts(router, experts)
    return model


QWEN3_MOE = make_family("Qwen3Moe", settings, qwen3.NAMES + EXPERTS, build_qwen3_moe)
