"""GPT-NeoX (Black et al. 2022) and Pythia (Biderman et al. 2023): attention and feed-forward layers side by side, and rotary
positions on a quarter of each head.

One difference matters for fine-tuning alone. Where config.json has several rates of dropout, our model has one, for which
`hidden_dropout` is taken.
"""

from ..layers import ParallelBlock
from ..models import CausalLanguageModel
from .family import Family, activation, build_with_ff_dropout, no_head
from .rotary_settings import make_rotary, rope_parameters, rotary_options

NAMES = """
    gpt_neox.embed_in                                   embedding
    gpt_neox.layers.*.input_layernorm                   decoder.blocks.*.norm1
    gpt_neox.layers.*.attention.query_key_value         decoder.blocks.*.attention.query+key+value      in {} groups
    gpt_neox.layers.*.attention.dense                   decoder.blocks.*.attention.output
    gpt_neox.layers.*.post_attention_layernorm          decoder.blocks.*.norm2
    gpt_neox.layers.*.mlp.dense_h_to_4h                 decoder.blocks.*.feed_forward.up
    gpt_neox.layers.*.mlp.dense_4h_to_h                 decoder.blocks.*.feed_forward.down
    gpt_neox.final_layer_norm                           decoder.norm
    embed_out                                           output
"""


def settings(config, stored):
    """The part of a head that is rotated is rotary_pct, or partial_rotary_factor since version 5 of transformers."""
    rope = rope_parameters({"partial_rotary_factor": config.get("rotary_pct", 0.25)} | config,
                           theta=config.get("rotary_emb_base") or 10000.0)
    heads = config["num_attention_heads"]
    d_head = config["hidden_size"] // heads
    return {
        "vocab_size": config["vocab_size"], "max_len": config["max_position_embeddings"],
        "d_model": config["hidden_size"], "d_ff": config["intermediate_size"], "num_heads": heads, "d_head": d_head,
        "num_layers": config["num_hidden_layers"], "activation": activation(config.get("hidden_act", "gelu")),
        "eps": config.get("layer_norm_eps", 1e-5), "dropout": config.get("hidden_dropout", 0.0), "ff_dropout": 0.0,
        "tie_weights": config.get("tie_word_embeddings", False), "side_by_side": config.get("use_parallel_residual", True),
        "positions": "rotary", **rotary_options(rope, d_head),
    }


def build_gpt_neox(model_class, options, rng):
    """Returns a CausalLanguageModel of ParallelBlocks, or of usual ones without use_parallel_residual."""
    rotary = make_rotary(options, options["d_head"])
    options = {name: value for name, value in options.items() if not name.startswith("rope_")}
    side_by_side = options.pop("side_by_side")
    model = build_with_ff_dropout(model_class, options | {"positions": rotary}, rng)
    if side_by_side:
        blocks = model.decoder.blocks
        blocks[:] = [ParallelBlock(block.attention, block.feed_forward, block.norm1, block.norm2, dropout=options["dropout"],
                                   rng=rng) for block in blocks]
    return model


GPT_NEOX = Family(
    names=lambda config: NAMES.format(config["num_attention_heads"]),
    settings=settings,
    heads={"GPTNeoXForCausalLM": (CausalLanguageModel, "", no_head), "GPTNeoXModel": (CausalLanguageModel, "", no_head)},
    base="GPTNeoXModel",
    prefix="gpt_neox.",
    fixed={"attention_bias": True, "is_decoder": False},
    copies={"embed_out.weight": "gpt_neox.embed_in.weight"},
    constants=("gpt_neox.layers.*.attention.bias", "gpt_neox.layers.*.attention.masked_bias",
               "gpt_neox.layers.*.attention.rotary_emb.inv_freq"),
    build=build_gpt_neox,
)
