"""ModernBERT (Warner et al. 2024): a pre-norm encoder with rotary positions, gated feed-forward layers, and windows on both
sides in most blocks.

One difference matters for fine-tuning alone. Where config.json has several rates of dropout, our model has none.
"""

from ..layers import GELU, Identity, LayerNorm, Linear, Sequential, SymmetricWindow
from ..layers.attention import with_score_changes
from ..models import MaskedLanguageModel, SequenceClassifier, TextEncoder
from .family import Family, activation, no_head, num_labels
from .rotary_settings import make_rotary, rope_parameters_of_kinds, rotary_options
from .windows import blocks_with_windows

NAMES = """
    model.embeddings.tok_embeddings         embedding
    model.embeddings.norm                   embedding_norm
    model.layers.*.attn_norm                encoder.blocks.*.norm1
    model.layers.*.attn.Wqkv                encoder.blocks.*.attention.query+key+value
    model.layers.*.attn.Wo                  encoder.blocks.*.attention.output
    model.layers.*.mlp_norm                 encoder.blocks.*.norm2
    model.layers.*.mlp.Wi                   encoder.blocks.*.feed_forward.gate+up
    model.layers.*.mlp.Wo                   encoder.blocks.*.feed_forward.down
    model.final_norm                        encoder.norm
"""

LANGUAGE_MODEL = """
    head.dense                              transform
    head.norm                               norm
    decoder                                 .
"""

CLASSIFIER = """
    head.dense                              hidden
    head.norm                               activation.parts.1
    classifier                              output
"""


def settings(config, stored):
    """Every third block has no window, beginning with block 0, unless config.json has a list of their types."""
    of_all, of_windows = rotary_settings(config)
    d_head = config["hidden_size"] // config["num_attention_heads"]
    every = config.get("global_attn_every_n_layers", 3)
    blocks = blocks_with_windows(config, config["num_hidden_layers"], lambda number: number % every != 0)
    return {
        "vocab_size": config["vocab_size"], "max_len": config["max_position_embeddings"],
        "d_model": config["hidden_size"], "d_ff": config["intermediate_size"], "d_head": d_head,
        "num_heads": config["num_attention_heads"], "num_layers": config["num_hidden_layers"], "num_segments": 0,
        "activation": activation(config.get("hidden_activation", "gelu"), gated=True), "norm": "pre", "bias": False,
        "eps": config.get("norm_eps", 1e-5), "dropout": 0.0, "pad_id": config.get("pad_token_id", 50283),
        "scale_embedding": False, "embedding_norm": True, "positions": "rotary", **rotary_options(of_all, d_head),
        "local": {"rotary": rotary_options(of_windows, d_head), "blocks": blocks,
                  "window": config.get("local_attention", 128) // 2 + 1},
    }


def rotary_settings(config):
    """Returns the rotary settings of the blocks without and with a window."""
    older = None
    if not config.get("rope_parameters"):
        older = {"full_attention": {"rope_theta": config.get("global_rope_theta") or 160000.0},
                 "sliding_attention": {"rope_theta": config.get("local_rope_theta") or 10000.0}}
    return rope_parameters_of_kinds(config, older)


def build_modernbert(model_class, options, rng):
    """Returns a TextEncoder without any bias or norm before the first block, with two kinds of rotary positions and windows."""
    rotary = make_rotary(options, options["d_head"])
    options = {name: value for name, value in options.items() if not name.startswith("rope_")}
    local = options.pop("local")
    model = model_class(**options | {"positions": rotary}, rng=rng)
    d_model, eps = options["d_model"], options["eps"]
    model.embedding_norm = LayerNorm(d_model, eps, bias=False)
    model.encoder.blocks[0].norm1 = Identity()
    rotary = make_rotary(local["rotary"], options["d_head"])
    for block, is_local in zip(model.encoder.blocks, local["blocks"]):
        if is_local:
            block.attention.rotary = rotary
            with_score_changes(block.attention.attention, SymmetricWindow(local["window"]))
    if isinstance(model, MaskedLanguageModel):
        model.transform = Linear(d_model, d_model, False, rng)
        model.norm = LayerNorm(d_model, eps, bias=False)
    if isinstance(model, SequenceClassifier) and isinstance(model.activation, GELU):
        model.hidden = Linear(d_model, d_model, False, rng)
        model.activation = Sequential(model.activation, LayerNorm(d_model, eps, bias=False))
    return model


def language_model(config):
    return {"head_activation": activation(config.get("classifier_activation", "gelu"))}


def classifier(config):
    pool = {"cls": "first", "mean": "mean"}[config.get("classifier_pooling", "cls")]
    return language_model(config) | {"num_classes": num_labels(config), "hidden": config["hidden_size"], "pool": pool}


MODERNBERT = Family(
    names=lambda config: NAMES,
    settings=settings,
    heads={"ModernBertModel": (TextEncoder, "", no_head),
           "ModernBertForMaskedLM": (MaskedLanguageModel, LANGUAGE_MODEL, language_model),
           "ModernBertForSequenceClassification": (SequenceClassifier, CLASSIFIER, classifier)},
    base="ModernBertModel",
    prefix="model.",
    fixed={"attention_bias": False, "mlp_bias": False, "norm_bias": False, "decoder_bias": True, "classifier_bias": False,
           "tie_word_embeddings": True},
    copies={"decoder.weight": "model.embeddings.tok_embeddings.weight"},
    build=build_modernbert,
)
