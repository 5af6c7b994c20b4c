"""T5 (Raffel et al. 2020) and T5 1.1 (Shazeer 2020): relative positions, RMSNorm, no biases."""

from ..layers import RelativePositionBias
from ..models import EncoderDecoder
from ..models.parts import place_in_attention
from .family import Family, activation, no_head

NAMES = """
    shared                                                          target_embedding
    encoder.block.*.layer.0.layer_norm                              encoder.blocks.*.norm1
    encoder.block.*.layer.0.SelfAttention.q                         encoder.blocks.*.attention.query
    encoder.block.*.layer.0.SelfAttention.k                         encoder.blocks.*.attention.key
    encoder.block.*.layer.0.SelfAttention.v                         encoder.blocks.*.attention.value
    encoder.block.*.layer.0.SelfAttention.o                         encoder.blocks.*.attention.output
    encoder.block.0.layer.0.SelfAttention.relative_attention_bias   encoder.blocks.0.attention.attention.score_changes.0.position_bias
    encoder.block.*.layer.1.layer_norm                              encoder.blocks.*.norm2
    encoder.block.*.layer.1.DenseReluDense.wi                       encoder.blocks.*.feed_forward.up
    encoder.block.*.layer.1.DenseReluDense.wi_0                     encoder.blocks.*.feed_forward.gate
    encoder.block.*.layer.1.DenseReluDense.wi_1                     encoder.blocks.*.feed_forward.up
    encoder.block.*.layer.1.DenseReluDense.wo                       encoder.blocks.*.feed_forward.down
    encoder.final_layer_norm                                        encoder.norm
    decoder.block.*.layer.0.layer_norm                              decoder.blocks.*.norm1
    decoder.block.*.layer.0.SelfAttention.q                         decoder.blocks.*.attention.query
    decoder.block.*.layer.0.SelfAttention.k                         decoder.blocks.*.attention.key
    decoder.block.*.layer.0.SelfAttention.v                         decoder.blocks.*.attention.value
    decoder.block.*.layer.0.SelfAttention.o                         decoder.blocks.*.attention.output
    decoder.block.0.layer.0.SelfAttention.relative_attention_bias   decoder.blocks.0.attention.attention.score_changes.0.position_bias
    decoder.block.*.layer.1.layer_norm                              decoder.blocks.*.norm2
    decoder.block.*.layer.1.EncDecAttention.q                       decoder.blocks.*.cross_attention.query
    decoder.block.*.layer.1.EncDecAttention.k                       decoder.blocks.*.cross_attention.key
    decoder.block.*.layer.1.EncDecAttention.v                       decoder.blocks.*.cross_attention.value
    decoder.block.*.layer.1.EncDecAttention.o                       decoder.blocks.*.cross_attention.output
    decoder.block.*.layer.2.layer_norm                              decoder.blocks.*.norm3
    decoder.block.*.layer.2.DenseReluDense.wi                       decoder.blocks.*.feed_forward.up
    decoder.block.*.layer.2.DenseReluDense.wi_0                     decoder.blocks.*.feed_forward.gate
    decoder.block.*.layer.2.DenseReluDense.wi_1                     decoder.blocks.*.feed_forward.up
    decoder.block.*.layer.2.DenseReluDense.wo                       decoder.blocks.*.feed_forward.down
    decoder.final_layer_norm                                        decoder.norm
    lm_head                                                         output
"""


def name_table(config):
    """Returns the table; a gated feed-forward layer has wi_0 and wi_1 where another one has wi."""
    other = "DenseReluDense.wi " if is_gated(config) else "DenseReluDense.wi_"
    return "\n".join(line for line in NAMES.splitlines() if other not in line) + "\n"


def settings(config, stored):
    """The output is tied unless the file has an lm_head of its own; `tie_word_embeddings` is no guide.

    Version 5 of transformers writes true for every T5, and keeps in `scale_decoder_outputs` what it meant before:
    whether the decoder's output is divided by sqrt(d_model), as T5 does and T5 1.1 does not.
    """
    scaled = config.get("scale_decoder_outputs", config.get("tie_word_embeddings", True))
    untied = "lm_head.weight" in stored and not scaled
    return {
        "src_vocab": config["vocab_size"], "tgt_vocab": config["vocab_size"],
        "d_model": config["d_model"], "d_ff": config["d_ff"], "d_head": config["d_kv"],
        "num_heads": config["num_heads"], "num_layers": config["num_layers"],
        "num_decoder_layers": config.get("num_decoder_layers"), "activation": feed_forward(config),
        "norm_layer": "rms", "eps": config.get("layer_norm_epsilon", 1e-6), "bias": False,
        "dropout": config.get("dropout_rate", 0.1), "pad_id": config.get("pad_token_id", 0), "mask_target": False,
        "positions": "relative", "num_buckets": config.get("relative_attention_num_buckets", 32),
        "max_distance": config.get("relative_attention_max_distance", 128),
        "scale_embedding": False, "tie_weights": "embeddings" if untied else True,
        "output_factor": config["d_model"] ** -0.5 if scaled else 1.0,
    }


def build_t5(model_class, options, rng):
    """Returns an EncoderDecoder with the buckets, the depths and the output layer of the checkpoint."""
    options = dict(options)
    buckets = options.pop("num_buckets"), options.pop("max_distance")
    depths = options["num_layers"], options.pop("num_decoder_layers") or options["num_layers"]
    factor, mask_target = options.pop("output_factor"), options.pop("mask_target")
    model = model_class(**options | {"num_layers": depths}, rng=rng)
    for stack, causal in ((model.encoder, False), (model.decoder, True)):
        place_in_attention(RelativePositionBias(options["num_heads"], *buckets, causal=causal, rng=rng), stack)
    model.mask_target = mask_target
    if factor != 1:
        model.output.factor = factor
    return model


def is_gated(config):
    return config.get("feed_forward_proj", "relu").startswith("gated-")


def feed_forward(config):
    """Returns our name of the feed-forward layer; "gated-gelu" means the approximation by tanh."""
    name = config.get("feed_forward_proj", "relu")
    if name == "gated-gelu":
        return "geglu_tanh"
    return activation(name.removeprefix("gated-"), is_gated(config))


T5 = Family(
    names=name_table,
    settings=settings,
    heads={"T5ForConditionalGeneration": (EncoderDecoder, "", no_head), "T5Model": (EncoderDecoder, "", no_head),
           "T5WithLMHeadModel": (EncoderDecoder, "", no_head)},
    base="T5Model",
    fixed={"is_decoder": False, "is_encoder_decoder": True},
    copies={"lm_head.weight": "shared.weight", "encoder.embed_tokens.weight": "shared.weight",
            "decoder.embed_tokens.weight": "shared.weight"},
    constants=("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",),
    build=build_t5,
)
