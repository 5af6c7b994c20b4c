"""RoBERTa (Liu et al. 2019), and the same model trained on other languages: XLM-RoBERTa (Conneau et al. 2020) and CamemBERT
(Martin et al. 2020).

One difference matters for fine-tuning alone: RoBERTa's classifier applies dropout before and after its hidden layer, ours
only after it, as BERT's does.
"""

from ..models import MaskedLanguageModel, SequenceClassifier, TextEncoder, TokenClassifier
from . import bert
from .bert import FIXED, TAGGER, classifier, tagger
from .family import Family, build_with_ff_dropout, no_head

NAMES = bert.NAMES.replace("bert.", "roberta.")

LANGUAGE_MODEL = """
    lm_head.dense                                       transform
    lm_head.layer_norm                                  norm
    lm_head                                             .
"""

CLASSIFIER = """
    classifier.dense                                    hidden
    classifier.out_proj                                 output
"""


def settings(config, stored):
    """As BERT, but positions count from pad_id + 1 on, and the rows before it are for padding tokens."""
    first = config.get("pad_token_id", 1)
    if first is None:
        raise KeyError("pad_token_id")
    first += 1
    return bert.settings({"pad_token_id": 1} | config, stored) | {
        "max_len": config["max_position_embeddings"] - first, "first_position": first}


def language_model(config):
    return {"head_activation": "gelu"}


def make_family(name):
    """Returns the Family of models whose architectures are called `name`ForMaskedLM and so on."""
    return Family(
        names=lambda config: NAMES,
        settings=settings,
        heads={f"{name}Model": (TextEncoder, "", no_head),
               f"{name}ForMaskedLM": (MaskedLanguageModel, LANGUAGE_MODEL, language_model),
               f"{name}ForSequenceClassification": (SequenceClassifier, CLASSIFIER, classifier),
               f"{name}ForTokenClassification": (TokenClassifier, TAGGER, tagger)},
        base=f"{name}Model",
        prefix="roberta.",
        fixed=FIXED,
        copies={"lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
                "lm_head.decoder.bias": "lm_head.bias"},
        constants=("roberta.embeddings.position_ids", "roberta.embeddings.token_type_ids"),
        kept=("roberta.pooler.dense.*",),
        build=build_with_ff_dropout,
    )


ROBERTA = make_family("Roberta")
XLM_ROBERTA = make_family("XLMRoberta")
CAMEMBERT = make_family("Camembert")
