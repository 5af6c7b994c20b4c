"""The Transformers that are built of layers/. In reading order:

stacks.py                             blocks in sequence: encoder and decoder
decoder.py, encoder_decoder.py        the language model (GPT, LLaMA); the Transformer of 2017 and T5
multi_token.py                        heads that predict the tokens after the next one
text_encoder.py, encoder_heads.py     the encoder-only model (BERT), and its heads
image_classifier.py                   the encoder of images (ViT)
current_models.py                     what the config.json of current models says; nt.preset builds them
parts.py, initialization.py           from the names of settings to parts; the initial weights of a whole model
rebuildable.py, structure.py          models that know their arguments; whether one is still as they say
parallel.py                           inference on several cores
"""

from typing import TYPE_CHECKING

from ..first_use import opens_on_first_use
from .decoder import CausalLanguageModel, LanguageModel
from .encoder_decoder import EncoderDecoder, make_model, transformer_2017
from .encoder_heads import MaskedLanguageModel, SequenceClassifier, TokenClassifier
from .initialization import INITS
from .stacks import CrossAttentionDecoder, CrossStack, Decoder, Encoder, Stack
from .text_encoder import TextEncoder

if TYPE_CHECKING:
    from .image_classifier import ImageClassifier
    from .multi_token import MultiTokenStack, SequentialTokenBlock

__all__ = ["CausalLanguageModel", "CrossAttentionDecoder", "CrossStack", "Decoder", "Encoder", "EncoderDecoder",
           "LanguageModel", "MaskedLanguageModel", "SequenceClassifier", "Stack", "TextEncoder", "TokenClassifier", "make_model",
           "transformer_2017"]

# Few models need these, so `import numpy_transformer` does not load them
__getattr__ = opens_on_first_use(__name__, {"ImageClassifier": "image_classifier", "MultiTokenStack": "multi_token",
                                            "SequentialTokenBlock": "multi_token"})
