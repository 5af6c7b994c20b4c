"""The shapes of Transformer: encoder, decoder, encoder-decoder."""

from .initialization import INITS
from .decoder import CausalLanguageModel, Decoder
from .encoder import Encoder
from .encoder_decoder import EncoderDecoder, make_model
from .text_encoder import MaskedLanguageModel, SequenceClassifier, TextEncoder, TokenClassifier

__all__ = ["CausalLanguageModel", "Decoder", "Encoder", "EncoderDecoder", "MaskedLanguageModel", "SequenceClassifier",
           "TextEncoder", "TokenClassifier", "make_model"]
