"""Marian (Junczys-Dowmunt et al. 2018), the translation models of OPUS-MT (Tiedemann and Thottingal 2020): the Transformer of
2017 with sines and cosines apart, SiLU, and a bias of the logits.
"""

from ..layers import SeparateSinusoids, StartEmbedding
from .bart import build_shared, make_family, shared_settings
from .family import activation


def settings(config, stored):
    """A target begins with the padding token, whose embedding is not trained."""
    return shared_settings(config, stored) | {
        "positions": "sinusoidal", "pad_id": config.get("pad_token_id", 58100),
        "activation": activation(config.get("activation_function", "gelu"))}


def build_marian(model_class, options, rng):
    """Returns an EncoderDecoder with the sinusoids of Marian, and an embedding in which that of the start is fixed."""
    model = build_shared(model_class, options, rng)
    model.source_positions = model.target_positions = SeparateSinusoids(options["d_model"], options["max_len"])
    embedding = StartEmbedding(options["tgt_vocab"], options["d_model"], options["pad_id"], options["scale_embedding"], rng)
    embedding.weight = model.target_embedding.weight
    model.source_embedding = model.target_embedding = embedding
    return model


MARIAN = make_family("Marian", "MTModel", settings, build_marian, share_encoder_decoder_embeddings=True, kept=(
    "model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"))
