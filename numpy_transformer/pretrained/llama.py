"""LLaMA (Touvron et al. 2023): rotary positions, RMSNorm, SwiGLU, grouped queries; and what its relatives share with it."""

from ..layers.multi_head import add_qkv_bias
from ..models import CausalLanguageModel
from .family import Family, activation, no_head
from .rotary_settings import check_whole_heads, make_rotary, rope_parameters, rotary_options
from .windows import add_windows

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
    rope = rope_parameters(config)
    check_whole_heads(rope)
    return settings_with(rope, config)


def settings_with(rope, config):
    """Returns the options of a model with these rotary settings."""
    heads = config["num_attention_heads"]
    d_head = config.get("head_dim") or config["hidden_size"] // heads
    return {
        "vocab_size": config["vocab_size"], "max_len": config["max_position_embeddings"],
        "d_model": config["hidden_size"], "d_ff": config["intermediate_size"], "d_head": d_head,
        "num_heads": heads, "num_kv_heads": config.get("num_key_value_heads") or heads,
        "num_layers": config["num_hidden_layers"], "norm_layer": "rms", "eps": config.get("rms_norm_eps", 1e-6),
        "activation": activation(config.get("hidden_act") or "silu", gated=True), "bias": False,
        "qkv_bias": False, "tie_weights": config.get("tie_word_embeddings", False),
        "positions": "rotary", **rotary_options(rope, d_head),
    }


def build_llama(model_class, options, rng):
    """Returns a CausalLanguageModel with the rotary positions of the checkpoint, the biases of q, k and v and the sliding
    windows of the blocks that have them.
    """
    rotary = make_rotary(options, options["d_head"])
    options = {name: value for name, value in options.items() if not name.startswith("rope_")}
    qkv_bias, windows = options.pop("qkv_bias"), options.pop("windows", ())
    model = model_class(**options | {"positions": rotary}, rng=rng)
    if qkv_bias:
        for block in model.decoder.blocks:
            add_qkv_bias(block.attention)
    add_windows(model.decoder, windows)
    return model


def make_family(name, settings, names=NAMES, build=build_llama, base=None, **fixed):
    """Returns the Family of models whose architectures are called `name`ForCausalLM and `name`Model.

    Parameters: name : str; settings, build : as in Family; names : the table; base : the architecture without a head, where it
        has another name; fixed : more options of config.json with the only value for which our model is the same
    """
    base = base or f"{name}Model"
    return Family(
        names=lambda config: names,
        settings=settings,
        heads={architecture: (CausalLanguageModel, "", no_head) for architecture in (f"{name}ForCausalLM", base)},
        base=base,
        prefix="model.",
        fixed={"attention_bias": False, "mlp_bias": False} | fixed,
        copies={"lm_head.weight": "model.embed_tokens.weight"},
        constants=("model.layers.*.self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq"),
        build=build,
    )


LLAMA = make_family("Llama", settings)
