"""The shapes of Transformer: stacks of blocks, language model, encoder-decoder, text encoder."""

from .decoder import CausalLanguageModel
from .encoder_decoder import EncoderDecoder, make_model
from .encoder_heads import MaskedLanguageModel, SequenceClassifier, TokenClassifier
from .initialization import INITS
from .stacks import CrossAttentionDecoder, CrossStack, Decoder, Encoder, Stack
from .text_encoder import TextEncoder

__all__ = ["CausalLanguageModel", "CrossAttentionDecoder", "CrossStack", "Decoder", "Encoder", "EncoderDecoder",
           "MaskedLanguageModel", "SequenceClassifier", "Stack", "TextEncoder", "TokenClassifier", "make_model"]
