"""BERT (Devlin et al. 2019), RoBERTa (Liu et al. 2019) and DistilBERT (Sanh et al. 2019): post-norm encoders.

Two differences matter for fine-tuning alone. Where config.json has several rates of dropout, our model has one, for
which `hidden_dropout_prob` is taken. RoBERTa's classifier applies dropout before and after its hidden layer, ours only
after it, as BERT's does.
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

DISTILBERT_NAMES = """
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

BERT_LANGUAGE_MODEL = """
    cls.predictions.transform.dense                     transform
    cls.predictions.transform.LayerNorm                 norm
    cls.predictions                                     .
"""

ROBERTA_LANGUAGE_MODEL = """
    lm_head.dense                                       transform
    lm_head.layer_norm                                  norm
    lm_head                                             .
"""

DISTILBERT_LANGUAGE_MODEL = """
    vocab_transform                                     transform
    vocab_layer_norm                                    norm
    vocab_projector                                     .
"""

BERT_CLASSIFIER = """
    bert.pooler.dense                                   hidden
    classifier                                          output
"""

ROBERTA_CLASSIFIER = """
    classifier.dense                                    hidden
    classifier.out_proj                                 output
"""

DISTILBERT_CLASSIFIER = """
    pre_classifier                                      hidden
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


def roberta_settings(config, stored):
    """As BERT, but positions count from pad_id + 1 on, and the rows before it are for padding tokens."""
    first = config.get("pad_token_id", 1) + 1
    return settings({"pad_token_id": 1} | config, stored) | {
        "max_len": config["max_position_embeddings"] - first, "first_position": first}


def distilbert_settings(config, stored):
    return {
        "vocab_size": config["vocab_size"], "max_len": config["max_position_embeddings"],
        "d_model": config["dim"], "d_ff": config["hidden_dim"],
        "num_heads": config["n_heads"], "num_layers": config["n_layers"],
        "num_segments": 0, "activation": activation(config.get("activation", "gelu")),
        "eps": 1e-12, "dropout": config.get("dropout", 0.1),
        "pad_id": config.get("pad_token_id", 0), **shared_settings(),
    }


def shared_settings():
    return {"positions": "learned", "norm": "post", "scale_embedding": False, "embedding_norm": True, "ff_dropout": 0.0}


def language_model(config):
    return {"head_activation": activation(config.get("hidden_act", config.get("activation", "gelu")))}


def classifier(config):
    return {"num_classes": num_labels(config), "hidden": config.get("hidden_size", config.get("dim")), "pool": "first",
            "head_activation": "relu" if config["model_type"] == "distilbert" else "tanh"}


def tagger(config):
    return {"num_classes": num_labels(config)}


def gelu_language_model(config):
    return {"head_activation": "gelu"}


FIXED = {"is_decoder": False, "add_cross_attention": False, "position_embedding_type": "absolute",
         "tie_word_embeddings": True}

BERT = Family(
    names=lambda config: NAMES,
    settings=settings,
    heads={"BertModel": (TextEncoder, "", no_head),
           "BertForMaskedLM": (MaskedLanguageModel, BERT_LANGUAGE_MODEL, language_model),
           "BertForPreTraining": (MaskedLanguageModel, BERT_LANGUAGE_MODEL, language_model),
           "BertForSequenceClassification": (SequenceClassifier, BERT_CLASSIFIER, classifier),
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

ROBERTA = Family(
    names=lambda config: NAMES.replace("bert.", "roberta."),
    settings=roberta_settings,
    heads={"RobertaModel": (TextEncoder, "", no_head),
           "RobertaForMaskedLM": (MaskedLanguageModel, ROBERTA_LANGUAGE_MODEL, gelu_language_model),
           "RobertaForSequenceClassification": (SequenceClassifier, ROBERTA_CLASSIFIER, classifier),
           "RobertaForTokenClassification": (TokenClassifier, TAGGER, tagger)},
    base="RobertaModel",
    prefix="roberta.",
    fixed=FIXED,
    copies={"lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
            "lm_head.decoder.bias": "lm_head.bias"},
    constants=("roberta.embeddings.position_ids", "roberta.embeddings.token_type_ids"),
    kept=("roberta.pooler.dense.*",),
    build=build_with_ff_dropout,
)

DISTILBERT = Family(
    names=lambda config: DISTILBERT_NAMES,
    settings=distilbert_settings,
    heads={"DistilBertModel": (TextEncoder, "", no_head),
           "DistilBertForMaskedLM": (MaskedLanguageModel, DISTILBERT_LANGUAGE_MODEL, language_model),
           "DistilBertForSequenceClassification": (SequenceClassifier, DISTILBERT_CLASSIFIER, classifier),
           "DistilBertForTokenClassification": (TokenClassifier, TAGGER, tagger)},
    base="DistilBertModel",
    prefix="distilbert.",
    fixed=FIXED,
    copies={"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"},
    constants=("distilbert.embeddings.position_ids",),
    build=build_with_ff_dropout,
)
