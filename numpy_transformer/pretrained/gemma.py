"""Gemma (Mesnard et al. 2024): LLaMA with norms that multiply by 1 + weight, embeddings times sqrt(d_model), and GELU in the
gates.
"""

from ..layers import UnitOffsetRMSNorm
from .llama import build_llama, make_family, settings as llama_settings


def settings(config, stored):
    """Older files name the exact GELU, but mean the approximation by tanh."""
    config = {"head_dim": 256, "tie_word_embeddings": True, "hidden_act": "gelu_pytorch_tanh"} | config
    if config["hidden_act"] == "gelu":
        config["hidden_act"] = "gelu_pytorch_tanh"
    return llama_settings(config, stored) | {"scale_embedding": True}


def build_gemma(model_class, options, rng):
    """Returns a CausalLanguageModel as of LLaMA with the norms of Gemma."""
    model = build_llama(model_class, options, rng)
    for block in model.decoder.blocks:
        block.norm1, block.norm2 = (UnitOffsetRMSNorm(options["d_model"], options["eps"]) for _ in range(2))
    model.decoder.norm = UnitOffsetRMSNorm(options["d_model"], options["eps"])
    return model


GEMMA = make_family("Gemma", settings, build=build_gemma, use_bidirectional_attention=False)
