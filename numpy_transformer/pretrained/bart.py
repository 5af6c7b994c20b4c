"""BART (Lewis et al. 2020): the Transformer of 2017 with learned positions, a norm after the embeddings, and GELU; and what
Marian shares with it.

One difference matters for fine-tuning alone. Where config.json has several rates of dropout, our model has one, `dropout`.
"""

from ..layers import Bias, LayerNorm, LearnedPositionalEmbedding, NormedPositions, Sequential, ShiftedPositions
from ..models import EncoderDecoder
from ..parameter import Constant
from .family import Family, activation, build_with_ff_dropout, no_head

FIRST = 2                                       # the row of the first position
NAMES = """
    model.shared                                        target_embedding
    model.encoder.embed_positions                       source_positions.positions.positions
    model.encoder.layernorm_embedding                   source_positions.norm
    model.encoder.layers.*.self_attn.q_proj             encoder.blocks.*.attention.query
    model.encoder.layers.*.self_attn.k_proj             encoder.blocks.*.attention.key
    model.encoder.layers.*.self_attn.v_proj             encoder.blocks.*.attention.value
    model.encoder.layers.*.self_attn.out_proj           encoder.blocks.*.attention.output
    model.encoder.layers.*.self_attn_layer_norm         encoder.blocks.*.norm1
    model.encoder.layers.*.fc1                          encoder.blocks.*.feed_forward.up
    model.encoder.layers.*.fc2                          encoder.blocks.*.feed_forward.down
    model.encoder.layers.*.final_layer_norm             encoder.blocks.*.norm2
    model.decoder.embed_positions                       target_positions.positions.positions
    model.decoder.layernorm_embedding                   target_positions.norm
    model.decoder.layers.*.self_attn.q_proj             decoder.blocks.*.attention.query
    model.decoder.layers.*.self_attn.k_proj             decoder.blocks.*.attention.key
    model.decoder.layers.*.self_attn.v_proj             decoder.blocks.*.attention.value
    model.decoder.layers.*.self_attn.out_proj           decoder.blocks.*.attention.output
    model.decoder.layers.*.self_attn_layer_norm         decoder.blocks.*.norm1
    model.decoder.layers.*.encoder_attn.q_proj          decoder.blocks.*.cross_attention.query
    model.decoder.layers.*.encoder_attn.k_proj          decoder.blocks.*.cross_attention.key
    model.decoder.layers.*.encoder_attn.v_proj          decoder.blocks.*.cross_attention.value
    model.decoder.layers.*.encoder_attn.out_proj        decoder.blocks.*.cross_attention.output
    model.decoder.layers.*.encoder_attn_layer_norm      decoder.blocks.*.norm2
    model.decoder.layers.*.fc1                          decoder.blocks.*.feed_forward.up
    model.decoder.layers.*.fc2                          decoder.blocks.*.feed_forward.down
    model.decoder.layers.*.final_layer_norm             decoder.blocks.*.norm3
    final_logits_bias                                   output.parts.1.bias         of shape 1,{}
"""
SAME = {"encoder_attention_heads": "decoder_attention_heads", "encoder_ffn_dim": "decoder_ffn_dim"}


def settings(config, stored):
    return shared_settings(config, stored) | {"positions": "learned", "pad_id": config.get("pad_token_id", 1),
                                              "activation": activation(config.get("activation_function", "gelu"))}


def shared_settings(config, stored):
    """Returns the options of BART and Marian. The bias of the logits is not trained, and some files have none.

    Raises: ValueError if encoder and decoder have blocks of different sizes.
    """
    for of_encoder, of_decoder in SAME.items():
        if config[of_encoder] != config[of_decoder]:
            raise ValueError(f"config.json gives {of_encoder} = {config[of_encoder]!r} and {of_decoder} = "
                             f"{config[of_decoder]!r}; this package builds both stacks of blocks of one size, so it "
                             "cannot load this model")
    return {
        "src_vocab": config["vocab_size"], "tgt_vocab": config["vocab_size"], "max_len": config["max_position_embeddings"],
        "d_model": config["d_model"], "d_ff": config["encoder_ffn_dim"], "num_heads": config["encoder_attention_heads"],
        "num_layers": config["encoder_layers"], "num_decoder_layers": config["decoder_layers"],
        "norm": "post", "eps": 1e-5, "dropout": config.get("dropout", 0.1), "ff_dropout": 0.0, "mask_target": False,
        "scale_embedding": config.get("scale_embedding", False), "tie_weights": True,
        "logits_bias": "final_logits_bias" in stored,
    }


def build_bart(model_class, options, rng):
    """Returns an EncoderDecoder with the positions of BART, and a norm after them."""
    model = build_shared(model_class, options, rng)
    max_len, d_model = options["max_len"], options["d_model"]
    model.source_positions, model.target_positions = (
        NormedPositions(ShiftedPositions(LearnedPositionalEmbedding(FIRST + max_len, d_model, rng), FIRST),
                        LayerNorm(d_model, options["eps"])) for _ in range(2))
    return model


def build_shared(model_class, options, rng):
    """Returns an EncoderDecoder with the depths, and the bias of the logits, of a model of BART or Marian."""
    options = dict(options)
    depths = options["num_layers"], options.pop("num_decoder_layers")
    logits_bias, mask_target = options.pop("logits_bias"), options.pop("mask_target")
    model = build_with_ff_dropout(model_class, options | {"num_layers": depths}, rng)
    model.mask_target = mask_target
    if logits_bias:
        bias = Bias(options["tgt_vocab"])
        bias.bias = Constant(bias.bias.data)
        model.output = Sequential(model.output, bias)
    return model


def make_family(name, head, settings, build, constants=(), kept=(), **fixed):
    """Returns the Family of models whose architectures are called `name``head` and `name`Model."""
    return Family(
        names=lambda config: NAMES.format(config["vocab_size"]),
        settings=settings,
        heads={f"{name}{head}": (EncoderDecoder, "", no_head), f"{name}Model": (EncoderDecoder, "", no_head)},
        base=f"{name}Model",
        prefix="model.",
        fixed={"is_decoder": False, "is_encoder_decoder": True, "tie_word_embeddings": True} | fixed,
        copies={name: "model.shared.weight" for name in (
            "lm_head.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")},
        constants=("model.encoder.version", "model.decoder.version", *constants),
        kept=kept,
        build=build,
    )


BART = make_family("Bart", "ForConditionalGeneration", settings, build_bart)
