"""The shapes of Transformer: encoder, decoder, encoder-decoder."""

from .decoder import CausalLanguageModel, Decoder
from .encoder import Encoder
from .encoder_decoder import EncoderDecoder, make_model

__all__ = ["CausalLanguageModel", "Decoder", "Encoder", "EncoderDecoder", "make_model"]
