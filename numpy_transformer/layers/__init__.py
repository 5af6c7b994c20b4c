"""The components of a Transformer: in each file forward, and backward right under it."""

from .activations import GELU, ReLU, SiLU, Tanh
from .alibi import ALiBi
from .attention import ScaledDotProductAttention
from .biased import BiasedAttention
from .blocks import Block, CrossAttentionBlock, CrossBlock, DecoderBlock, EncoderBlock
from .dropout import Dropout
from .embedding import Embedding, Unembedding
from .feed_forward import FeedForward, SwiGLU
from .flash import FlashAttention
from .frozen import freeze, unfreeze
from .grouped import GroupedAttention
from .linear import Linear
from .lora import LoRALinear, add_lora, merge_lora
from .losses import BinaryCrossEntropyLoss, CrossEntropyLoss
from .masks import AttentionMask, causal_mask, combine_masks, padding_mask
from .multi_head import CrossAttention, MultiHeadAttention, SelfAttention
from .normalization import LayerNorm, RMSNorm
from .pooling import FirstToken, MaskedMean
from .positions import LearnedPositionalEmbedding, SinusoidalPositionalEncoding
from .relative import RelativePositionBias, UnscaledAttention
from .rotary import RotaryEmbedding
from .softmax import LogSoftmax, Softmax
from .token_positions import token_positions

__all__ = [name for name in dir() if name[0].isupper() or name.endswith(("_mask", "_masks", "freeze", "_lora", "n_positions"))]
