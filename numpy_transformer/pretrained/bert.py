"""BERT (Devlin et al. 2019): a post-norm encoder; and what its relatives share with it.

One difference matters for fine-tuning alone. Where config.json has several rates of dropout, our model has one, for
which `hidden_dropout_prob` is taken.
"""

from ..models import MaskedLanguageModel, SequenceClassifier, TextEncoder, TokenClassifier
from .family import Family, activation, build_with_ff_dropout, no_head, num_labels

NAMES = """
    bert.embeddings.word_embeddings                     embedding
    bert.embeddings.position_embeddings                 positions
    bert.embeddings.token_type_embeddings               segments
    bert.embeddings.LayerNorm                           embedding_norm
    bert.encoder.layer.*.attention.self.query           encoder.blocks.*.attention.query
    bert.encoder.layer.*.attention.self.key             encoder.blocks.*.attention.key
    bert.encoder.layer.*.attention.self.value           encoder.blocks.*.attention.value
    bert.encoder.layer.*.attention.output.dense         encoder.blocks.*.attention.output
    bert.encoder.layer.*.attention.output.LayerNorm     encoder.blocks.*.norm1
    bert.encoder.layer.*.intermediate.dense             encoder.blocks.*.feed_forward.up
    bert.encoder.layer.*.output.dense                   encoder.blocks.*.feed_forward.down
    bert.encoder.layer.*.output.LayerNorm               encoder.blocks.*.norm2
"""

LANGUAGE_MODEL = """
    cls.predictions.transform.dense                     transform
    cls.predictions.transform.LayerNorm                 norm
    cls.predictions                                     .
"""

CLASSIFIER = """
    bert.pooler.dense                                   hidden
    classifier                                          output
"""

TAGGER = """
    classifier                                          output
"""


def settings(config, stored):
    return {
        "vocab_size": config["vocab_size"], "max_len": config["max_position_embeddings"],
        "d_model": config["hidden_size"], "d_ff": config["intermediate_size"],
        "num_heads": config["num_attention_heads"], "num_layers": config["num_hidden_layers"],
        "num_segments": config.get("type_vocab_size", 2), "activation": activation(config.get("hidden_act", "gelu")),
        "eps": config.get("layer_norm_eps", 1e-12), "dropout": config.get("hidden_dropout_prob", 0.1),
        "pad_id": config.get("pad_token_id", 0), **shared_settings(),
    }


def shared_settings():
    return {"positions": "learned", "norm": "post", "scale_embedding": False, "embedding_norm": True, "ff_dropout": 0.0}


def language_model(config):
    return {"head_activation": activation(config.get("hidden_act", "gelu"))}


def classifier(config):
    return {"num_classes": num_labels(config), "hidden": config["hidden_size"], "pool": "first", "head_activation": "tanh"}


def tagger(config):
    return {"num_classes": num_labels(config)}


FIXED = {"is_decoder": False, "add_cross_attention": False, "position_embedding_type": "absolute",
         "tie_word_embeddings": True}

BERT = Family(
    names=lambda config: NAMES,
    settings=settings,
    heads={"BertModel": (TextEncoder, "", no_head),
           "BertForMaskedLM": (MaskedLanguageModel, LANGUAGE_MODEL, language_model),
           "BertForPreTraining": (MaskedLanguageModel, LANGUAGE_MODEL, language_model),
           "BertForSequenceClassification": (SequenceClassifier, CLASSIFIER, classifier),
           "BertForTokenClassification": (TokenClassifier, TAGGER, tagger)},
    base="BertModel",
    prefix="bert.",
    fixed=FIXED,
    copies={"cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
            "cls.predictions.decoder.bias": "cls.predictions.bias"},
    constants=("bert.embeddings.position_ids", "bert.embeddings.token_type_ids"),
    kept=("bert.pooler.dense.*", "cls.seq_relationship.*"),
    build=build_with_ff_dropout,
)
