"""GPT-2 (Radford et al. 2019): pre-norm, learned positions, one array for queries, keys and values."""

from ..models import CausalLanguageModel
from .family import Family, activation, build_with_ff_dropout, no_head

NAMES = """
    transformer.wte                     embedding
    transformer.wpe                     positions
    transformer.h.*.ln_1                decoder.blocks.*.norm1
    transformer.h.*.attn.c_attn         decoder.blocks.*.attention.query+key+value      as it is
    transformer.h.*.attn.c_proj         decoder.blocks.*.attention.output               as it is
    transformer.h.*.ln_2                decoder.blocks.*.norm2
    transformer.h.*.mlp.c_fc            decoder.blocks.*.feed_forward.up                as it is
    transformer.h.*.mlp.c_proj          decoder.blocks.*.feed_forward.down              as it is
    transformer.ln_f                    decoder.norm
    lm_head                             output
"""


def settings(config, stored):
    """config.json can have three rates of dropout; our model has one, for which `resid_pdrop` is taken."""
    return {
        "vocab_size": config["vocab_size"], "max_len": config["n_positions"],
        "d_model": config["n_embd"], "d_ff": config.get("n_inner"),
        "num_heads": config["n_head"], "num_layers": config["n_layer"],
        "activation": activation(config.get("activation_function", "gelu_new")),
        "eps": config.get("layer_norm_epsilon", 1e-5), "dropout": config.get("resid_pdrop", 0.1), "ff_dropout": 0.0,
        "tie_weights": config.get("tie_word_embeddings", True),
    }


GPT2 = Family(
    names=lambda config: NAMES,
    settings=settings,
    heads={"GPT2LMHeadModel": (CausalLanguageModel, "", no_head), "GPT2Model": (CausalLanguageModel, "", no_head)},
    base="GPT2Model",
    prefix="transformer.",
    fixed={"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False},
    copies={"lm_head.weight": "transformer.wte.weight"},
    constants=("transformer.h.*.attn.bias", "transformer.h.*.attn.masked_bias"),
    build=build_with_ff_dropout,
)
