"""The components of a Transformer. In each file forward, and backward right under it. In reading order:

linear.py, softmax.py, losses.py          the affine map; probabilities; the two losses
embedding.py, positions.py                ids become vectors; sinusoids or a learned table are added
attention.py, masks.py, multi_head.py     scaled dot-product attention; what may be attended to; several heads at once
sliding_window.py, sinks.py               attention to near tokens alone; a softmax that may keep weight from all of them
heads.py, grouped.py, flash.py            how heads lie in memory; fewer key heads; attention in tiles
rotary.py, position_bias.py, alibi.py     positions that act inside attention: rotated queries and keys, biased scores
relative_bias.py, token_positions.py      the learned bias of T5; which position each token has
normalization.py, activations.py          LayerNorm and RMSNorm; ReLU, GELU, SiLU, Tanh
unit_offset_norm.py, normed_linear.py     RMSNorm as in Gemma; norms of queries and keys, and after a sublayer
soft_cap.py, partial_rotary.py            capped scores and logits; positions on a part of each head
z_loss.py, gated_attention.py             a loss that keeps the sum of exponentials near 1; heads that pass through gates
feed_forward.py, dropout.py, blocks.py    the position-wise half of a block; random zeros; whole blocks
parallel_block.py, identity.py            attention and feed-forward side by side; parts that do nothing, or several things
position_variants.py, bias.py             positions as BART and Marian have them; a bias alone
patches.py                                images as sequences
routers.py, experts.py, balancing.py      which experts a token uses; a mixture of experts; an equal use of them
latent_attention.py                       keys and values that are computed from one narrow vector
sink_window.py, block_sparse.py           a window that keeps the first tokens; attention to chosen blocks of keys
linear_attention.py                       a running sum takes the place of the keys
pooling.py                                one vector for a sequence
frozen.py, lora.py                        weights that are not trained; small trained updates of them
number_formats.py, straight_through.py    numbers of 16 and 8 bits; training with rounded weights
quantization.py                           weights of 8 and 4 bits with scales
initial_weights.py, erf.py, fast.py       distributions of initial weights; the error function; tricks for speed
"""

from typing import TYPE_CHECKING

from ..first_use import opens_on_first_use
from .activations import GELU, ReLU, SiLU, Tanh
from .alibi import ALiBi
from .attention import ScaledDotProductAttention, with_score_changes
from .blocks import Block, CrossAttentionBlock, CrossBlock, DecoderBlock, EncoderBlock
from .dropout import Dropout
from .embedding import Embedding, Unembedding
from .feed_forward import FeedForward, SwiGLU
from .flash import FlashAttention
from .grouped import GroupedAttention
from .linear import Linear
from .losses import BinaryCrossEntropyLoss, CrossEntropyLoss
from .masks import AttentionMask, causal_mask, combine_masks, padding_mask
from .multi_head import CrossAttention, MultiHeadAttention, SelfAttention
from .normalization import LayerNorm, RMSNorm
from .pooling import FirstToken, MaskedMean
from .position_bias import PositionBias
from .positions import LearnedPositionalEmbedding, SinusoidalPositionalEncoding
from .relative_bias import RelativePositionBias, UnscaledAttention
from .rotary import RotaryEmbedding
from .sliding_window import SlidingWindow, SymmetricWindow
from .softmax import LogSoftmax, Softmax
from .token_positions import token_positions

if TYPE_CHECKING:
    from .balancing import BalancedRouter, BiasBalancing, balance_of, tokens_per_expert
    from .bias import Bias
    from .block_sparse import BlockSparseAttention
    from .experts import ClampedSwiGLU, MixtureOfExperts
    from .frozen import freeze, unfreeze
    from .gated_attention import GatedSelfAttention, Sigmoid, gate_heads
    from .identity import Identity, Sequential
    from .latent_attention import AbsorbedLatentAttention, LatentAttention
    from .linear_attention import LinearAttention, RecurrentLinearAttention
    from .lora import LoRALinear, add_lora, merge_lora
    from .normed_linear import NormedLinear, PerHead, norm_outputs, norm_queries_and_keys
    from .number_formats import round_to
    from .parallel_block import ParallelBlock
    from .partial_rotary import PartialRotary, ScaledRotary
    from .patches import ClassToken, Patches
    from .position_variants import NormedPositions, SeparateSinusoids, ShiftedPositions
    from .quantization import QuantizedLinear, dequantize, quantize, stored_bytes
    from .routers import Router, SigmoidRouter, SoftmaxRouter
    from .sink_window import SinkWindow
    from .sinks import SinkSoftmax, add_sinks
    from .soft_cap import RescaledAttention, SoftCap
    from .straight_through import StraightThroughLinear, add_rounding
    from .unit_offset_norm import UnitOffsetRMSNorm
    from .z_loss import ZLoss

__all__ = ["ALiBi", "AttentionMask", "BinaryCrossEntropyLoss", "Block", "CrossAttention", "CrossAttentionBlock",
           "CrossBlock", "CrossEntropyLoss", "DecoderBlock", "Dropout", "Embedding", "EncoderBlock", "FeedForward",
           "FirstToken", "FlashAttention", "GELU", "GroupedAttention", "LayerNorm", "LearnedPositionalEmbedding", "Linear",
           "LogSoftmax", "MaskedMean", "MultiHeadAttention", "PositionBias", "RMSNorm", "ReLU", "RelativePositionBias",
           "RotaryEmbedding", "ScaledDotProductAttention", "SelfAttention", "SiLU", "SinusoidalPositionalEncoding",
           "SlidingWindow", "Softmax", "SwiGLU", "SymmetricWindow", "Tanh", "Unembedding", "UnscaledAttention",
           "causal_mask", "combine_masks", "padding_mask", "token_positions", "with_score_changes"]

# Parts of current models and of fine-tuning, which `import numpy_transformer` does not load: {file: names}
ON_FIRST_USE = {
    "balancing": ("BalancedRouter", "BiasBalancing", "balance_of", "tokens_per_expert"),
    "bias": ("Bias",),
    "block_sparse": ("BlockSparseAttention",),
    "experts": ("ClampedSwiGLU", "MixtureOfExperts"),
    "frozen": ("freeze", "unfreeze"),
    "gated_attention": ("GatedSelfAttention", "Sigmoid", "gate_heads"),
    "identity": ("Identity", "Sequential"),
    "latent_attention": ("AbsorbedLatentAttention", "LatentAttention"),
    "linear_attention": ("LinearAttention", "RecurrentLinearAttention"),
    "lora": ("LoRALinear", "add_lora", "merge_lora"),
    "normed_linear": ("NormedLinear", "PerHead", "norm_outputs", "norm_queries_and_keys"),
    "number_formats": ("round_to",),
    "parallel_block": ("ParallelBlock",),
    "partial_rotary": ("PartialRotary", "ScaledRotary"),
    "patches": ("ClassToken", "Patches"),
    "position_variants": ("NormedPositions", "SeparateSinusoids", "ShiftedPositions"),
    "quantization": ("QuantizedLinear", "dequantize", "quantize", "stored_bytes"),
    "routers": ("Router", "SigmoidRouter", "SoftmaxRouter"),
    "sink_window": ("SinkWindow",),
    "sinks": ("SinkSoftmax", "add_sinks"),
    "soft_cap": ("RescaledAttention", "SoftCap"),
    "straight_through": ("StraightThroughLinear", "add_rounding"),
    "unit_offset_norm": ("UnitOffsetRMSNorm",),
    "z_loss": ("ZLoss",)}
__getattr__ = opens_on_first_use(__name__, {name: file for file, names in ON_FIRST_USE.items() for name in names})
