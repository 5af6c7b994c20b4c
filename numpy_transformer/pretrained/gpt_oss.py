"""gpt-oss (OpenAI 2025): a mixture of clamped SwiGLUs, attention with sinks and biases, windows in every second block."""

from ..layers import ClampedSwiGLU, MixtureOfExperts, Router
from ..layers.sinks import add_sinks
from . import llama
from .llama import build_llama, make_family, settings_with
from .mixtral import number_of_experts
from .rotary_settings import check_whole_heads, rope_parameters
from .windows import blocks_with_windows, with_windows

NAMES = "\n".join(line for line in llama.NAMES.splitlines() if ".mlp." not in line) + """
    model.layers.*.self_attn.sinks                decoder.blocks.*.attention.attention.softmax.sinks
    model.layers.*.mlp.router                     decoder.blocks.*.feed_forward.router.linear
    model.layers.*.mlp.experts.gate_up_proj       decoder.blocks.*.feed_forward.experts.*.gate+up.weight as it is, in {0} groups
    model.layers.*.mlp.experts.gate_up_proj_bias  decoder.blocks.*.feed_forward.experts.*.gate+up.bias   in {0} groups
    model.layers.*.mlp.experts.down_proj          decoder.blocks.*.feed_forward.experts.*.down.weight    as it is
    model.layers.*.mlp.experts.down_proj_bias     decoder.blocks.*.feed_forward.experts.*.down.bias
"""
YARN = {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
        "original_max_position_embeddings": 4096}


def settings(config, stored):
    """Blocks 0, 2, 4, ... have a window, unless config.json has a list of their types."""
    if not (config.get("rope_parameters") or config.get("rope_scaling")):
        config = config | {"rope_scaling": YARN}
    rope = rope_parameters(config, theta=150000.0)
    check_whole_heads(rope)
    options = settings_with(rope, {"rms_norm_eps": 1e-5, "head_dim": 64} | config)
    options |= {"bias": True, "num_experts": number_of_experts(config, 128),
                "top_k": config.get("num_experts_per_tok", 4), "limit": config.get("swiglu_limit", 7.0)}
    blocks = blocks_with_windows(config, options["num_layers"], lambda number: number % 2 == 0)
    return with_windows(options, config.get("sliding_window", 128), blocks)


def build_gpt_oss(model_class, options, rng):
    """Returns a CausalLanguageModel with sinks, whose feed-forward layers are mixtures of ClampedSwiGLUs."""
    options = dict(options)
    num_experts, top_k, limit = options.pop("num_experts"), options.pop("top_k"), options.pop("limit")
    d_model, d_ff = options["d_model"], options["d_ff"]
    model = build_llama(model_class, options, rng)
    for block in model.decoder.blocks:
        add_sinks(block.attention.attention, options["num_heads"])
        experts = [ClampedSwiGLU(d_model, d_ff, limit, rng=rng) for _ in range(num_experts)]
        block.feed_forward = MixtureOfExperts(Router(d_model, num_experts, top_k, bias=True, rng=rng), experts)
    return model


GPT_OSS = make_family("GptOss", settings, NAMES, build_gpt_oss, attention_bias=True, swiglu_alpha=1.702)._replace(
    names=lambda config: NAMES.format(config["intermediate_size"]))
