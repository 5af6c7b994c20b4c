"""What a part of a current model costs: the training step of a small LLaMA with the part, beside the same step without it.

The plain model is timed twice, as "nothing changed" too: the ratio of these two is what the measurement can distinguish.
"""

import copy
import statistics

import numpy as np

from ..layers import (AbsorbedLatentAttention, BalancedRouter, BlockSparseAttention, CrossEntropyLoss, LatentAttention,
                      LinearAttention, MixtureOfExperts, ParallelBlock, PartialRotary, PerHead, RMSNorm, RotaryEmbedding,
                      Router, SinkWindow, SlidingWindow, SoftCap, SwiGLU, ZLoss, add_lora, add_rounding, add_sinks,
                      gate_heads, norm_outputs, norm_queries_and_keys, quantize, round_to, with_score_changes)
from ..models import CausalLanguageModel, MultiTokenStack, Stack
from ..threads import set_blas_threads
from ..training import AdamW, Trainer, muon_with_adamw
from ..training.memory import keep_freed_memory
from .measure import in_turns, quartiles, timer

D, HEADS, D_HEAD, LAYERS, F = 128, 4, 32, 4, 384
VOCAB, T, B = 65, 64, 12
IDS = np.random.default_rng(0).integers(0, VOCAB, (B, T + 1))


def plain(**settings):
    """Returns a small LLaMA."""
    settings = {"positions": "rotary", **settings}
    return CausalLanguageModel(VOCAB, D, HEADS, LAYERS, d_ff=F, max_len=T, norm_layer="rms", activation="swiglu", bias=False,
                               rng=0, **settings)


def with_blocks(change):
    """Returns a small LLaMA, each of whose blocks was changed."""
    model = plain()
    for number, block in enumerate(model.decoder.blocks):
        model.decoder.blocks[number] = change(block) or block
    return model


def step_of(model, criterion=None, optimizer=None, targets=IDS[:, 1:]):
    """Returns (model, function that runs a training step of it on one thread)."""
    trainer = Trainer(model, criterion or CrossEntropyLoss(ignore_id=-1), optimizer or AdamW(model.parameters(), lr=1e-3),
                      clip=1.0, workers=1)
    return model, lambda: trainer.step([((IDS[:, :-1],), targets)])


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


def balanced_experts(block):
    experts(block)
    block.feed_forward.router = BalancedRouter(block.feed_forward.router)


def two_tokens_predicted():
    """The last block and a new one are heads on the other three blocks, and learn the next token and the one after it."""
    model = plain()
    *trunk, head = model.decoder.blocks
    model.decoder = MultiTokenStack(Stack(trunk), [head, copy.deepcopy(head)], model.decoder.norm)
    targets = np.stack([IDS[:, 1:], np.pad(IDS[:, 2:], ((0, 0), (0, 1)), constant_values=-1)], 1)      # -1: no target
    return step_of(model, targets=targets)


def muon():
    model = plain()
    return step_of(model, optimizer=muon_with_adamw(model))


def lora_on_int4():
    """As in QLoRA: the weights are stored in 4 bits and frozen, and two narrow matrices beside each one of attention learn."""
    return step_of(add_lora(quantize(plain(), bits=4), rank=8, targets=("query", "key", "value", "output")))


PARTS = {
    "nothing changed": lambda: step_of(plain()),
    "ALiBi": lambda: step_of(plain(positions="alibi")),
    "sliding window of T / 4": lambda: step_of(with_blocks(sliding_window)),
    "window, 2 tokens kept": lambda: step_of(with_blocks(window_with_kept_tokens)),
    "sinks": lambda: step_of(with_blocks(sinks)),
    "blocks of T / 8, 3 seen": lambda: step_of(plain(attention=lambda _, rng: BlockSparseAttention(blocks_near_by, T // 8))),
    "linear attention": lambda: step_of(plain(attention=lambda _, rng: LinearAttention())),
    "grouped queries, 4 for 1": lambda: step_of(plain(num_kv_heads=1)),
    "latent attention": lambda: step_of(with_blocks(latent)),
    "latent attention, absorbed": lambda: step_of(with_blocks(absorbed)),
    "norms of queries and keys": lambda: step_of(with_blocks(norms_of_queries_and_keys)),
    "norms after sublayers": lambda: step_of(with_blocks(norms_after_sublayers)),
    "capped scores": lambda: step_of(with_blocks(soft_cap)),
    "gates of heads": lambda: step_of(with_blocks(gates)),
    "z-loss": lambda: step_of(plain(), ZLoss(CrossEntropyLoss())),
    "a quarter rotated": lambda: step_of(with_blocks(partial_rotary)),
    "sublayers side by side": lambda: step_of(with_blocks(side_by_side)),
    "4 experts of half the width, 2 used": lambda: step_of(with_blocks(experts)),
    "the same, with a balancing loss": lambda: step_of(with_blocks(balanced_experts)),
    "Muon for the matrices": muon,
    "weights rounded to bfloat16": lambda: step_of(add_rounding(plain(), lambda W: round_to(W, "bfloat16"))),
    "LoRA on weights of 4 bits": lora_on_int4,
    "two tokens predicted, one block more": two_tokens_predicted}


def measure_part(name, rounds, turn=0.25):
    """Returns a row of results: the step with the part, and the plain one, timed in turns on one thread.

    `ratio` is the median over the rounds of (with the part / plain), so that a machine whose speed changes affects both alike.
    """
    keep_freed_memory()
    set_blas_threads(1)
    (model, step), (_, plain_step) = PARTS[name](), step_of(plain())
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
