"""What a part of a current model costs: the training step of a small LLaMA with the part, beside the same step without it.

The plain model is timed twice, as "nothing changed" too: the ratio of these two is what the measurement can distinguish.
"""

import statistics

import numpy as np

from ..layers import (AbsorbedLatentAttention, BlockSparseAttention, CrossEntropyLoss, LatentAttention, LinearAttention,
                      MixtureOfExperts, ParallelBlock, PartialRotary, PerHead, RMSNorm, RotaryEmbedding, Router, SinkWindow,
                      SlidingWindow, SoftCap, SwiGLU)
from ..layers.attention import with_score_changes
from ..layers.gated_attention import gate_heads
from ..layers.normed_linear import norm_outputs, norm_queries_and_keys
from ..layers.sinks import add_sinks
from ..models import CausalLanguageModel
from ..threads import set_blas_threads
from ..training import AdamW, Trainer
from ..training.memory import keep_freed_memory
from .measure import in_turns, quartiles, timer

D, HEADS, D_HEAD, LAYERS, F = 128, 4, 32, 4, 384
VOCAB, T, B = 65, 64, 12


def plain(**settings):
    """Returns a small LLaMA."""
    return CausalLanguageModel(VOCAB, D, HEADS, LAYERS, d_ff=F, max_len=T, norm_layer="rms", activation="swiglu",
                               positions="rotary", bias=False, rng=0, **settings)


def each_block(change):
    """Returns a function that makes the model and changes each of its blocks."""
    def make():
        model = plain()
        for number, block in enumerate(model.decoder.blocks):
            model.decoder.blocks[number] = change(block) or block
        return model
    return make


def sliding_window(block):
    with_score_changes(block.attention.attention, SlidingWindow(T // 4))


def window_with_kept_tokens(block):
    with_score_changes(block.attention.attention, SinkWindow(T // 4, 2))


def blocks_near_by(i, j):
    """Of eight blocks of tokens, each sees the first one, the one before it and itself."""
    return (j == 0) | (i - j == 0) | (i - j == 1)


def gates(block):
    block.attention = gate_heads(block.attention, rng=0)


def soft_cap(block):
    with_score_changes(block.attention.attention, SoftCap(50.0))


def sinks(block):
    add_sinks(block.attention.attention, HEADS)


def norms_of_queries_and_keys(block):
    norm_queries_and_keys(block.attention, PerHead(RMSNorm(D_HEAD)), PerHead(RMSNorm(D_HEAD)))


def norms_after_sublayers(block):
    norm_outputs(block, RMSNorm(D), RMSNorm(D))


def partial_rotary(block):
    block.attention.rotary = PartialRotary(RotaryEmbedding(D_HEAD // 4), D_HEAD)


def side_by_side(block):
    return ParallelBlock(block.attention, block.feed_forward, block.norm1, block.norm2)


def latent(block, attention_class=LatentAttention):
    block.attention = attention_class(D, HEADS, D // 4, D_HEAD, D_HEAD // 2, rotary=RotaryEmbedding(D_HEAD // 2), rng=0)


def absorbed(block):
    latent(block, AbsorbedLatentAttention)


def experts(block):
    """Four experts of half the width, of which each token uses two: the multiply-adds of the plain layer, and a router's."""
    block.feed_forward = MixtureOfExperts(Router(D, 4, 2, rng=0), [SwiGLU(D, F // 2, rng=0) for _ in range(4)])


PARTS = {
    "nothing changed": plain,
    "grouped queries, 4 for 1": lambda: plain(num_kv_heads=1),
    "sliding window of T / 4": each_block(sliding_window),
    "window, 2 tokens kept": each_block(window_with_kept_tokens),
    "blocks of T / 8, 3 seen": lambda: plain(attention=lambda sizes, rng: BlockSparseAttention(blocks_near_by, T // 8)),
    "linear attention": lambda: plain(attention=lambda sizes, rng: LinearAttention()),
    "sinks": each_block(sinks),
    "gates of heads": each_block(gates),
    "capped scores": each_block(soft_cap),
    "norms of queries and keys": each_block(norms_of_queries_and_keys),
    "norms after sublayers": each_block(norms_after_sublayers),
    "a quarter rotated": each_block(partial_rotary),
    "sublayers side by side": each_block(side_by_side),
    "latent attention": each_block(latent),
    "latent attention, absorbed": each_block(absorbed),
    "4 experts of half the width, 2 used": each_block(experts)}


def training_step(make):
    """Returns (model, function that runs a training step of it on one thread)."""
    model = make()
    ids = np.random.default_rng(0).integers(0, VOCAB, (B, T + 1))
    trainer = Trainer(model, CrossEntropyLoss(), AdamW(model.parameters(), lr=1e-3), clip=1.0, workers=1)
    batch = (ids[:, :-1],), ids[:, 1:]
    return model, lambda: trainer.step([batch])


def measure_part(name, rounds, turn=0.25):
    """Returns a row of results: the step with the part, and the plain one, timed in turns on one thread.

    `ratio` is the median over the rounds of (with the part / plain), so that a machine whose speed changes affects both alike.
    """
    keep_freed_memory()
    set_blas_threads(1)
    (model, step), (_, plain_step) = training_step(PARTS[name]), training_step(plain)
    candidates = {"plain": timer(plain_step), "part": timer(step)}
    ratios, times = [], {"plain": [], "part": []}
    for _ in range(rounds):
        pair = in_turns(candidates, turn, 2, lambda: None)              # in both orders
        ratios.append(statistics.median(pair["part"]) / statistics.median(pair["plain"]))
        for candidate, milliseconds in pair.items():
            times[candidate] += milliseconds
    return {"part": name, "parameters": model.num_parameters(), "part_ms": statistics.median(times["part"]),
            "plain_ms": statistics.median(times["plain"]), "ratio": statistics.median(ratios),
            "ratio_quartiles": quartiles(ratios)}
