"""DeepSeek-V3 (DeepSeek-AI 2024): latent attention, and a mixture of experts with shared ones above the first blocks."""

from ..layers import (LatentAttention, Linear, MixtureOfExperts, NormedLinear, RescaledAttention, RMSNorm, Sequential,
                      SigmoidRouter, SwiGLU)
from . import llama
from .family import activation
from .llama import build_llama, make_family, settings_with
from .qwen3_moe import EXPERTS
from .rotary_settings import make_rotary, rope_parameters, yarn_scale

NAMES = "\n".join(line for line in llama.NAMES.splitlines() if ".self_attn." not in line) + EXPERTS + """
    model.layers.*.self_attn.q_proj                     decoder.blocks.*.attention.query
    model.layers.*.self_attn.q_a_proj                   decoder.blocks.*.attention.query.parts.0.linear
    model.layers.*.self_attn.q_a_layernorm              decoder.blocks.*.attention.query.parts.0.norm
    model.layers.*.self_attn.q_b_proj                   decoder.blocks.*.attention.query.parts.1
    model.layers.*.self_attn.kv_a_proj_with_mqa         decoder.blocks.*.attention.down+rotary_key
    model.layers.*.self_attn.kv_a_layernorm             decoder.blocks.*.attention.norm
    model.layers.*.self_attn.kv_b_proj                  decoder.blocks.*.attention.up
    model.layers.*.self_attn.o_proj                     decoder.blocks.*.attention.output
    model.layers.*.mlp.gate.e_score_correction_bias     decoder.blocks.*.feed_forward.router.correction
    model.layers.*.mlp.shared_experts.gate_proj         decoder.blocks.*.feed_forward.shared.gate
    model.layers.*.mlp.shared_experts.up_proj           decoder.blocks.*.feed_forward.shared.up
    model.layers.*.mlp.shared_experts.down_proj         decoder.blocks.*.feed_forward.shared.down
"""


def settings(config, stored):
    rope = rope_parameters(config)
    width = config["qk_rope_head_dim"]
    options = settings_with(rope, config | {"head_dim": width, "num_key_value_heads": None})
    d_expert = config["moe_intermediate_size"]
    latent = {"d_latent": config["kv_lora_rank"], "d_head": config["qk_nope_head_dim"], "d_rotary": width,
              "d_value": config["v_head_dim"]}
    router = {"num_experts": config["n_routed_experts"], "top_k": config["num_experts_per_tok"],
              "factor": config.get("routed_scaling_factor", 2.5), "num_groups": config.get("n_group") or 1,
              "top_groups": config.get("topk_group") or 1}
    return options | {
        "rope_interleaved": config.get("rope_interleave", True), "latent": latent, "d_query": config["q_lora_rank"],
        "score_scale": (latent["d_head"] + width) ** -0.5 * score_factor(rope), "router": router, "d_expert": d_expert,
        "d_shared": d_expert * config.get("n_shared_experts", 1), "first_mixture": config.get("first_k_dense_replace", 3),
        "expert_activation": activation(config.get("hidden_act", "silu"))}


def score_factor(rope):
    """Returns the number by which scaled rotary positions make all scores larger, also those of features without rotation."""
    if rope["rope_type"] == "default" or not rope.get("mscale_all_dim"):
        return 1.0
    return yarn_scale(rope, rope["mscale_all_dim"]) ** 2


def build_deepseek_v3(model_class, options, rng):
    """Returns a CausalLanguageModel with LatentAttention, and with mixtures of SwiGLUs from some block on."""
    options = dict(options)
    latent, d_query, scale = options.pop("latent"), options.pop("d_query"), options.pop("score_scale")
    router, d_expert, d_shared = options.pop("router"), options.pop("d_expert"), options.pop("d_shared")
    first, f = options.pop("first_mixture"), options.pop("expert_activation")
    rotary = make_rotary(options, latent["d_rotary"])
    d_model, num_heads = options["d_model"], options["num_heads"]
    model = build_llama(model_class, options | {"rope_frequencies": None, "d_head": 2}, rng)       # its attention is replaced
    for number, block in enumerate(model.decoder.blocks):
        query = None
        if d_query is not None:
            up = Linear(d_query, num_heads * (latent["d_head"] + latent["d_rotary"]), False, rng)
            query = Sequential(NormedLinear(Linear(d_model, d_query, False, rng), RMSNorm(d_query)), up)
        block.attention = LatentAttention(d_model, num_heads, **latent, rotary=rotary, query=query,
                                          attention=RescaledAttention(scale), rng=rng)
        if number >= first:
            experts = [SwiGLU(d_model, d_expert, rng=rng, activation=f) for _ in range(router["num_experts"])]
            shared = SwiGLU(d_model, d_shared, rng=rng, activation=f)
            block.feed_forward = MixtureOfExperts(SigmoidRouter(d_model, **router, rng=rng), experts, shared)
    return model


DEEPSEEK_V3 = make_family("DeepseekV3", settings, NAMES, build_deepseek_v3, norm_topk_prob=True)
