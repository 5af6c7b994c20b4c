"""DistilBERT (Sanh et al. 2019): BERT with half the blocks, other names, and no segments."""

from ..models import MaskedLanguageModel, SequenceClassifier, TextEncoder, TokenClassifier
from .bert import FIXED, TAGGER, shared_settings, tagger
from .family import Family, activation, build_with_ff_dropout, no_head, num_labels

NAMES = """
    distilbert.embeddings.word_embeddings               embedding
    distilbert.embeddings.position_embeddings           positions
    distilbert.embeddings.LayerNorm                     embedding_norm
    distilbert.transformer.layer.*.attention.q_lin      encoder.blocks.*.attention.query
    distilbert.transformer.layer.*.attention.k_lin      encoder.blocks.*.attention.key
    distilbert.transformer.layer.*.attention.v_lin      encoder.blocks.*.attention.value
    distilbert.transformer.layer.*.attention.out_lin    encoder.blocks.*.attention.output
    distilbert.transformer.layer.*.sa_layer_norm        encoder.blocks.*.norm1
    distilbert.transformer.layer.*.ffn.lin1             encoder.blocks.*.feed_forward.up
    distilbert.transformer.layer.*.ffn.lin2             encoder.blocks.*.feed_forward.down
    distilbert.transformer.layer.*.output_layer_norm    encoder.blocks.*.norm2
"""

LANGUAGE_MODEL = """
    vocab_transform                                     transform
    vocab_layer_norm                                    norm
    vocab_projector                                     .
"""

CLASSIFIER = """
    pre_classifier                                      hidden
    classifier                                          output
"""


def settings(config, stored):
    return {
        "vocab_size": config["vocab_size"], "max_len": config["max_position_embeddings"],
        "d_model": config["dim"], "d_ff": config["hidden_dim"],
        "num_heads": config["n_heads"], "num_layers": config["n_layers"],
        "num_segments": 0, "activation": activation(config.get("activation", "gelu")),
        "eps": 1e-12, "dropout": config.get("dropout", 0.1),
        "pad_id": config.get("pad_token_id", 0), **shared_settings(),
    }


def language_model(config):
    return {"head_activation": activation(config.get("activation", "gelu"))}


def classifier(config):
    return {"num_classes": num_labels(config), "hidden": config["dim"], "pool": "first", "head_activation": "relu"}


DISTILBERT = Family(
    names=lambda config: NAMES,
    settings=settings,
    heads={"DistilBertModel": (TextEncoder, "", no_head),
           "DistilBertForMaskedLM": (MaskedLanguageModel, LANGUAGE_MODEL, language_model),
           "DistilBertForSequenceClassification": (SequenceClassifier, CLASSIFIER, classifier),
           "DistilBertForTokenClassification": (TokenClassifier, TAGGER, tagger)},
    base="DistilBertModel",
    prefix="distilbert.",
    fixed=FIXED,
    copies={"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"},
    constants=("distilbert.embeddings.position_ids",),
    build=build_with_ff_dropout,
)
