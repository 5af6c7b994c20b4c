"""Marian (Junczys-Dowmunt et al. 2018), the translation models of OPUS-MT (Tiedemann and Thottingal 2020): the Transformer of
2017 with sines and cosines apart, SiLU, and a bias of the logits.

One more difference than for BART matters for fine-tuning alone: a target begins with the padding token, whose embedding gets a
gradient here and none in transformers.
"""

from ..layers import SeparateSinusoids
from .bart import build_shared, make_family, shared_settings
from .family import activation


def settings(config, stored):
    return shared_settings(config, stored) | {
        "positions": "sinusoidal", "pad_id": config.get("pad_token_id", 58100),
        "activation": activation(config.get("activation_function", "gelu"))}


def build_marian(model_class, options, rng):
    """Returns an EncoderDecoder with the sinusoids of Marian."""
    model = build_shared(model_class, options, rng)
    model.source_positions = model.target_positions = SeparateSinusoids(options["d_model"], options["max_len"])
    return model


MARIAN = make_family("Marian", "MTModel", settings, build_marian, share_encoder_decoder_embeddings=True, kept=(
    "model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"))
