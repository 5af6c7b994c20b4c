"""The shapes of Transformer: encoder, decoder, encoder-decoder."""

from .decoder import CausalLanguageModel, CrossAttentionDecoder, Decoder
from .encoder import Encoder
from .encoder_decoder import EncoderDecoder, make_model
from .encoder_heads import MaskedLanguageModel, SequenceClassifier, TokenClassifier
from .initialization import INITS
from .text_encoder import TextEncoder

__all__ = ["CausalLanguageModel", "CrossAttentionDecoder", "Decoder", "Encoder", "EncoderDecoder",
           "MaskedLanguageModel", "SequenceClassifier", "TextEncoder", "TokenClassifier", "make_model"]
