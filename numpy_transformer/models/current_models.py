"""The architectures of current models: what the config.json of a small one says. `nt.preset` builds them.

Each has the options of the published files. What depends on the sizes, such as which blocks have a window, follows the rule of
the published model.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

SIZES = {"vocab_size": 64, "d_model": 16, "num_heads": 2, "num_layers": 2, "d_ff": 24, "max_len": 64}
GROUPS = {"num_kv_heads": None}                     # half as many heads of keys and values as of queries, or 1
WINDOW = {"window": 4}                              # tokens
EXPERTS = {"num_experts": 4, "experts_per_token": 2}


class Preset(NamedTuple):
    """An architecture.

    Fields:
        architecture : what config.json calls it, such as "Qwen3ForCausalLM"
        sizes : {size: its default at toy size}
        config : (sizes, as a namespace) -> the options of config.json besides `common`
        source : the paper or report, and its section on the architecture
    """
    architecture: str
    sizes: dict[str, Any]
    config: Callable[[Any], dict[str, Any]]
    source: str


PRESETS: dict[str, Preset] = {}                     # {name: Preset}, filled by the functions below


def entry(name: str, architecture: str, sizes: dict[str, Any], source: str) -> Callable[[Callable], Callable]:
    """Decorates the function that returns the config.json of a preset, and enters it in PRESETS."""
    def enter(config: Callable[[Any], dict[str, Any]]) -> Callable:
        PRESETS[name] = Preset(architecture, sizes, config, source)
        return config
    return enter


def common(s: Any) -> dict[str, Any]:
    """Returns the options that nearly all of these families call by the same names."""
    groups = s.num_heads
    if hasattr(s, "num_kv_heads"):
        groups = s.num_kv_heads or max(1, s.num_heads // 2)
    return {"vocab_size": s.vocab_size, "hidden_size": s.d_model, "num_attention_heads": s.num_heads,
            "num_key_value_heads": groups, "num_hidden_layers": s.num_layers, "intermediate_size": s.d_ff,
            "max_position_embeddings": s.max_len, "rms_norm_eps": 1e-6, "hidden_act": "silu", "tie_word_embeddings": False}


@entry("gpt2", "GPT2LMHeadModel", SIZES, "Radford et al. 2019, section 2.3")
def gpt2(s: Any) -> dict[str, Any]:
    """Learned positions, LayerNorm and a plain feed-forward layer: what the other models depart from."""
    return {"model_type": "gpt2", "vocab_size": s.vocab_size, "n_embd": s.d_model, "n_head": s.num_heads,
            "n_layer": s.num_layers, "n_inner": s.d_ff, "n_positions": s.max_len, "layer_norm_epsilon": 1e-5,
            "activation_function": "gelu_new", "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}


@entry("llama3", "LlamaForCausalLM", SIZES | GROUPS, "Grattafiori et al. 2024, section 3.2")
def llama3(s: Any) -> dict[str, Any]:
    """Rotary positions, RMSNorm, a gated feed-forward layer and grouped queries."""
    return common(s) | {"model_type": "llama", "rope_theta": 500_000.0, "rms_norm_eps": 1e-5}


@entry("mistral", "MistralForCausalLM", SIZES | GROUPS | WINDOW, "Jiang et al. 2023, section 2")
def mistral(s: Any) -> dict[str, Any]:
    """As llama3, with a window in every block."""
    return common(s) | {"model_type": "mistral", "sliding_window": s.window, "rms_norm_eps": 1e-5}


@entry("mixtral", "MixtralForCausalLM", SIZES | GROUPS | EXPERTS, "Jiang et al. 2024, section 2")
def mixtral(s: Any) -> dict[str, Any]:
    """As llama3, with experts as feed-forward layers."""
    return common(s) | {"model_type": "mixtral", "rope_theta": 1e6, "rms_norm_eps": 1e-5, "sliding_window": None,
                        "num_local_experts": s.num_experts, "num_experts_per_tok": s.experts_per_token}


@entry("qwen3", "Qwen3ForCausalLM", SIZES | GROUPS, "Yang et al. 2025, section 2")
def qwen3(s: Any) -> dict[str, Any]:
    """As llama3, with norms of the queries and keys of each head, and a tied output."""
    return common(s) | {"model_type": "qwen3", "head_dim": s.d_head, "rope_theta": 1e6, "tie_word_embeddings": True}


@entry("qwen3-moe", "Qwen3MoeForCausalLM", SIZES | GROUPS | EXPERTS, "Yang et al. 2025, section 2")
def qwen3_moe(s: Any) -> dict[str, Any]:
    """As qwen3, with experts as feed-forward layers."""
    return common(s) | {"model_type": "qwen3_moe", "head_dim": s.d_head, "rope_theta": 1e6, "num_experts": s.num_experts,
                        "num_experts_per_tok": s.experts_per_token, "moe_intermediate_size": s.d_ff, "norm_topk_prob": True}


@entry("gemma2", "Gemma2ForCausalLM", SIZES | GROUPS | WINDOW, "Riviere et al. 2024, section 2")
def gemma2(s: Any) -> dict[str, Any]:
    """Every second block has a window, the first one too."""
    return common(s) | {"model_type": "gemma2", "head_dim": s.d_head, "query_pre_attn_scalar": s.d_head,
                        "sliding_window": s.window, "hidden_activation": "gelu_pytorch_tanh", "attn_logit_softcapping": 50.0,
                        "final_logit_softcapping": 30.0, "tie_word_embeddings": True}


@entry("gemma3", "Gemma3ForCausalLM", SIZES | GROUPS | WINDOW, "Gemma Team 2025, section 2")
def gemma3(s: Any) -> dict[str, Any]:
    """Five blocks of six have a window; with fewer than six blocks, all but the last one."""
    period = min(6, s.num_layers)
    types = ["full_attention" if (number + 1) % period == 0 else "sliding_attention" for number in range(s.num_layers)]
    return common(s) | {"model_type": "gemma3_text", "head_dim": s.d_head, "query_pre_attn_scalar": s.d_head,
                        "sliding_window": s.window, "layer_types": types, "hidden_activation": "gelu_pytorch_tanh",
                        "rope_theta": 1e6, "rope_local_base_freq": 1e4, "tie_word_embeddings": True}


@entry("smollm3", "SmolLM3ForCausalLM", SIZES | GROUPS,
       "Bakouch et al. 2025; blocks without positions: Yang et al. 2025 (RNoPE)")
def smollm3(s: Any) -> dict[str, Any]:
    """Every fourth block has no positions; with fewer than four blocks, the last one."""
    period = min(4, s.num_layers)
    return common(s) | {"model_type": "smollm3", "rope_theta": 5e6, "tie_word_embeddings": True,
                        "no_rope_layers": [int((number + 1) % period != 0) for number in range(s.num_layers)]}


@entry("olmo2", "Olmo2ForCausalLM", SIZES, "Team OLMo 2025, section 2")
def olmo2(s: Any) -> dict[str, Any]:
    """Norms after each sublayer instead of before it, and of all queries and all keys."""
    return common(s) | {"model_type": "olmo2", "rope_theta": 500_000.0}


@entry("phi3", "Phi3ForCausalLM", SIZES, "Abdin et al. 2024, section 2")
def phi3(s: Any) -> dict[str, Any]:
    """As llama3, with several weights in one array."""
    return common(s) | {"model_type": "phi3", "rms_norm_eps": 1e-5, "pad_token_id": 0}


@entry("pythia", "GPTNeoXForCausalLM", SIZES, "Biderman et al. 2023, section 2; Black et al. 2022, section 2.1")
def pythia(s: Any) -> dict[str, Any]:
    """A quarter of each head is rotated; in heads whose quarter is no even number of features, two features are."""
    return {"model_type": "gpt_neox", "vocab_size": s.vocab_size, "hidden_size": s.d_model, "num_attention_heads": s.num_heads,
            "num_hidden_layers": s.num_layers, "intermediate_size": s.d_ff, "max_position_embeddings": s.max_len,
            "layer_norm_eps": 1e-5, "hidden_act": "gelu", "rotary_emb_base": 10_000,
            "rotary_pct": 0.25 if s.d_head % 8 == 0 else 2 / s.d_head,
            "use_parallel_residual": True, "tie_word_embeddings": False}


@entry("gpt-oss", "GptOssForCausalLM", SIZES | GROUPS | WINDOW | EXPERTS, "OpenAI 2025, section 2")
def gpt_oss(s: Any) -> dict[str, Any]:
    """Every second block has a window, the first one too."""
    types = ["sliding_attention" if number % 2 == 0 else "full_attention" for number in range(s.num_layers)]
    return common(s) | {"model_type": "gpt_oss", "head_dim": s.d_head, "rms_norm_eps": 1e-5, "sliding_window": s.window,
                        "layer_types": types, "num_local_experts": s.num_experts, "num_experts_per_tok": s.experts_per_token,
                        "attention_bias": True, "swiglu_limit": 7.0, "rope_theta": 150_000.0,
                        "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
                                         "truncate": False, "original_max_position_embeddings": max(1, s.max_len // 32)}}


@entry("deepseek-v3", "DeepseekV3ForCausalLM", SIZES | EXPERTS, "DeepSeek-AI 2024, section 2.1")
def deepseek_v3(s: Any) -> dict[str, Any]:
    """The first block has a plain feed-forward layer, the others have experts, one of which serves every token."""
    return common(s) | {"model_type": "deepseek_v3", "q_lora_rank": s.d_model // 2 + 4, "kv_lora_rank": s.d_model // 2,
                        "qk_nope_head_dim": s.d_head, "qk_rope_head_dim": 2 * max(1, s.d_head // 4), "v_head_dim": s.d_head,
                        "first_k_dense_replace": min(1, s.num_layers - 1), "moe_intermediate_size": s.d_ff,
                        "n_routed_experts": s.num_experts, "num_experts_per_tok": s.experts_per_token, "n_shared_experts": 1,
                        "n_group": 1, "topk_group": 1, "norm_topk_prob": True, "routed_scaling_factor": 2.5,
                        "rope_interleave": True}


@entry("modernbert", "ModernBertForMaskedLM", SIZES | WINDOW, "Warner et al. 2024, section 2.1")
def modernbert(s: Any) -> dict[str, Any]:
    """Every third block sees everything, the first one too; the others see `window` tokens, half of them on either side."""
    return {"model_type": "modernbert", "vocab_size": s.vocab_size, "hidden_size": s.d_model,
            "num_attention_heads": s.num_heads, "num_hidden_layers": s.num_layers, "intermediate_size": s.d_ff,
            "max_position_embeddings": s.max_len,
            "local_attention": s.window, "global_attn_every_n_layers": 3, "pad_token_id": 0}


DECODERS = {name: preset for name, preset in PRESETS.items() if not preset.architecture.endswith("ForMaskedLM")}
