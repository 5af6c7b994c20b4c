"""OLMo 2 (Team OLMo 2025): LLaMA with norms after each sublayer instead of before it, and of all queries and all keys."""

from ..layers import Identity, RMSNorm
from ..layers.normed_linear import norm_outputs, norm_queries_and_keys
from . import llama
from .llama import build_llama, make_family, settings as llama_settings

NAMES = "\n".join(line for line in llama.NAMES.splitlines() if "norm1" not in line and "norm2" not in line)
for layer in ("attention.query", "attention.key", "attention.output", "feed_forward.down"):
    NAMES = NAMES.replace(layer, f"{layer}.linear")
NAMES += """
    model.layers.*.self_attn.q_norm             decoder.blocks.*.attention.query.norm
    model.layers.*.self_attn.k_norm             decoder.blocks.*.attention.key.norm
    model.layers.*.post_attention_layernorm     decoder.blocks.*.attention.output.norm
    model.layers.*.post_feedforward_layernorm   decoder.blocks.*.feed_forward.down.norm
"""


def settings(config, stored):
    return llama_settings({"rms_norm_eps": 1e-5} | config, stored)


def build_olmo2(model_class, options, rng):
    """Returns a CausalLanguageModel whose blocks normalize what a sublayer adds, and not what it reads."""
    model = build_llama(model_class, options, rng)
    for block in model.decoder.blocks:
        attention, eps = block.attention, options["eps"]
        norm_queries_and_keys(attention, *(RMSNorm(linear.d_out, eps) for linear in (attention.query, attention.key)))
        norm_outputs(block, *(RMSNorm(options["d_model"], eps) for _ in range(2)))
        block.norm1, block.norm2 = Identity(), Identity()
    return model


OLMO2 = make_family("Olmo2", settings, NAMES, build_olmo2)
