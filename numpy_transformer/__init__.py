"""A Transformer in NumPy: every component has a forward and a hand-written backward. What is here, in reading order:

module.py, parameter.py     the one rule that every component obeys: forward remembers, backward recalls
layers/, models/            the components, and the Transformers that are built of them
training/, decoding/        optimizers, the training loop and checkpoints; from logits to tokens
checks/, inspection/        the gradient check and other checks; recording and measuring what happens inside a model
texts/, data/, views/       the words that people read, by language; texts and batches to train on; pictures
pretrained/, tasks/         published models, read and written; what the command `train` can train
zoo/, bench/                mistakes to learn from; how fast it is
explorer/                   one training step as a page in the browser
course/, grading/           lessons, exercises and their checker; grading a class
cli/                        the commands

What all of these use: tree.py and display.py find and show the parts of a model, markup.py writes HTML for notebooks,
argument_checks.py refuses wrong arguments, file_checks.py damaged files, and outputs.py places where nothing can be written;
threads.py sets the threads of the matmuls, types.py names types, and first_use.py opens a folder when one of its names is
used for the first time.
"""

from typing import TYPE_CHECKING

from .first_use import opens_on_first_use
from .layers import *
from .layers import ON_FIRST_USE
from .models import *
from .module import Module, Parameter
from .training import SGD, Adam, AdamW, ConstantSchedule, CosineSchedule, NoamSchedule, WSDSchedule, clip_grad_norm

if TYPE_CHECKING:
    from . import zoo
    from .checks import gradcheck
    from .course import exercise
    from .decoding import KeyValueCache, beam_search, generate, greedy_decode
    from .decoding import ModelDraft, MultiTokenDraft, NGramDraft, speculative_decode
    from .explorer import explore
    from .inspection import influence, record
    from .layers import (AbsorbedLatentAttention, BalancedRouter, Bias, BiasBalancing, BlockSparseAttention, ClampedSwiGLU,
                         ClassToken, GatedSelfAttention, Identity, LatentAttention, LinearAttention, LoRALinear,
                         MixtureOfExperts, NormedLinear, NormedPositions, ParallelBlock, PartialRotary, Patches, PerHead,
                         QuantizedLinear, RecurrentLinearAttention, RescaledAttention, Router, ScaledRotary,
                         SeparateSinusoids, Sequential, ShiftedPositions, Sigmoid, SigmoidRouter, SinkSoftmax, SinkWindow,
                         SoftCap, SoftmaxRouter, StraightThroughLinear, UnitOffsetRMSNorm, ZLoss, add_lora, add_rounding,
                         add_sinks, balance_of, dequantize, freeze, gate_heads, merge_lora, norm_outputs,
                         norm_queries_and_keys, quantize, round_to, stored_bytes, tokens_per_expert, unfreeze)
    from .models import ImageClassifier, MultiTokenStack, SequentialTokenBlock
    from .pretrained import load_pretrained, preset, save_pretrained
    from .tasks.runs import load_run
    from .tasks.saving import save_run
    from .training import (Checkpoint, CombinedOptimizer, Muon, Trainer, apply_mup, average_checkpoints, carry_over,
                           hidden_weights, linear_weights, muon_with_adamw, mup_groups)

__version__ = "0.1.0"

__all__ = [
    # module.py, parameter.py
    "Module", "Parameter",
    # layers/
    "Linear", "Softmax", "LogSoftmax", "ReLU", "GELU", "SiLU", "Tanh", "Dropout", "LayerNorm", "RMSNorm",
    "CrossEntropyLoss", "BinaryCrossEntropyLoss", "Embedding", "Unembedding", "SinusoidalPositionalEncoding",
    "LearnedPositionalEmbedding", "RotaryEmbedding", "ALiBi", "RelativePositionBias", "token_positions",
    "ScaledDotProductAttention", "GroupedAttention", "PositionBias", "UnscaledAttention", "FlashAttention", "AttentionMask",
    "causal_mask", "padding_mask", "combine_masks", "MultiHeadAttention", "SelfAttention", "CrossAttention", "FeedForward",
    "SwiGLU", "Block", "CrossBlock", "EncoderBlock", "DecoderBlock", "CrossAttentionBlock", "FirstToken", "MaskedMean",
    # layers/: parts of current models
    "with_score_changes", "SlidingWindow", "SymmetricWindow", "SinkWindow", "SoftCap", "RescaledAttention", "SinkSoftmax",
    "add_sinks", "BlockSparseAttention", "LinearAttention", "RecurrentLinearAttention", "LatentAttention",
    "AbsorbedLatentAttention", "GatedSelfAttention", "gate_heads", "Sigmoid", "PartialRotary", "ScaledRotary",
    "UnitOffsetRMSNorm", "NormedLinear", "PerHead", "norm_queries_and_keys", "norm_outputs", "Identity", "Sequential",
    "ParallelBlock", "Router", "SoftmaxRouter", "SigmoidRouter", "MixtureOfExperts", "ClampedSwiGLU", "BalancedRouter",
    "BiasBalancing", "tokens_per_expert", "balance_of", "ZLoss", "Bias", "ShiftedPositions", "NormedPositions",
    "SeparateSinusoids", "Patches", "ClassToken",
    # layers/: weights that are frozen, updated by small matrices, or rounded
    "freeze", "unfreeze", "LoRALinear", "add_lora", "merge_lora", "round_to", "StraightThroughLinear", "add_rounding",
    "QuantizedLinear", "quantize", "dequantize", "stored_bytes",
    # models/
    "Stack", "CrossStack", "Encoder", "Decoder", "CrossAttentionDecoder", "EncoderDecoder", "make_model", "transformer_2017",
    "MultiTokenStack", "SequentialTokenBlock",
    "LanguageModel", "CausalLanguageModel", "TextEncoder", "SequenceClassifier", "TokenClassifier", "MaskedLanguageModel",
    "ImageClassifier",
    # training/
    "SGD", "Adam", "AdamW", "clip_grad_norm", "ConstantSchedule", "CosineSchedule", "NoamSchedule", "Trainer", "Checkpoint",
    "average_checkpoints", "carry_over", "Muon", "muon_with_adamw", "CombinedOptimizer", "hidden_weights", "linear_weights",
    "WSDSchedule", "apply_mup", "mup_groups",
    # decoding/
    "greedy_decode", "generate", "beam_search", "KeyValueCache",
    "speculative_decode", "ModelDraft", "NGramDraft", "MultiTokenDraft",
    # checks/, inspection/
    "gradcheck", "record", "influence",
    # pretrained/
    "load_pretrained", "save_pretrained", "preset",
    # tasks/: runs of the commands
    "load_run", "save_run",
    # rooms that are used by their names
    "zoo", "explore", "exercise"]

__getattr__ = opens_on_first_use(__name__, {
    **{name: "layers" for names in ON_FIRST_USE.values() for name in names},
    "ImageClassifier": "models",
    "Checkpoint": "training", "Trainer": "training", "average_checkpoints": "training", "carry_over": "training",
    "Muon": "training", "muon_with_adamw": "training", "CombinedOptimizer": "training", "hidden_weights": "training",
    "linear_weights": "training", "apply_mup": "training", "mup_groups": "training",
    "KeyValueCache": "decoding", "beam_search": "decoding", "generate": "decoding", "greedy_decode": "decoding",
    "speculative_decode": "decoding", "ModelDraft": "decoding", "NGramDraft": "decoding", "MultiTokenDraft": "decoding",
    "MultiTokenStack": "models", "SequentialTokenBlock": "models",
    "gradcheck": "checks", "influence": "inspection", "record": "inspection",
    "load_pretrained": "pretrained", "save_pretrained": "pretrained", "preset": "pretrained",
    "load_run": "tasks.runs", "save_run": "tasks.saving", "zoo": "zoo", "explore": "explorer", "exercise": "course.exercise"})


def __dir__() -> list[str]:
    return sorted(__all__)
