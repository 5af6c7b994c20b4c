"""Times the generation of a token after texts of several lengths: with the key-value cache, without it, and in PyTorch."""

import copy
import statistics
import time

import numpy as np

from ..decoding import KeyValueCache
from ..models import CausalLanguageModel
from ..threads import limited_blas_threads, set_blas_threads
from ..training.memory import keep_freed_memory
from .configs import CONFIGS
from .measure import REST, best_process, timer

LENGTHS = (64, 256, 1024)


def decoding_model(max_len):
    """The model of the configuration nanogpt-cpu with a longer context."""
    config = CONFIGS["nanogpt-cpu"]
    return CausalLanguageModel(config.vocab, config.d_model, config.heads, config.layers, max_len=max_len,
                               activation="gelu_tanh", bias=False, rng=0).eval()


def measure_decoding(length, tokens, threads, with_torch=False, rounds=5):
    """Returns a row of results: medians over rounds that generate `tokens` tokens each, all after the same text.

    Parameters:
        length : number of tokens of the text
        tokens : number of tokens that a round generates
        threads : number of BLAS threads without the cache, and the limit for PyTorch
        with_torch : also time PyTorch
        rounds : number of rounds
    """
    keep_freed_memory()
    model = decoding_model(length + tokens)
    ids = np.random.default_rng(0).integers(0, model.embedding.vocab_size, length + tokens)
    prompt = KeyValueCache()
    model(ids[:length], cache=prompt)
    with limited_blas_threads(threads):
        times = {"cached": [], "uncached": timer(lambda: model(ids[:length]))(3), "torch": []}
    before = set_blas_threads(1)                # as in the commands: the products of a single token are small
    child = best_process("torch_baseline", f"decoding-{length}", threads) if with_torch else None
    try:
        for n in range(rounds + 1):
            cache = copy.deepcopy(prompt)
            rest = iter(ids[length:, None])
            time.sleep(REST)
            cached_times = timer(lambda: model(next(rest), cache=cache))(tokens)
            time.sleep(REST)
            torch_times = child.times(tokens) if child else []
            if n > 0:                           # round 0 only warms up
                times["cached"] += cached_times
                times["torch"] += torch_times
    finally:
        set_blas_threads(before or 1)
        if child:
            child.close()
    cached_ms = statistics.median(times["cached"])
    torch_ms = statistics.median(times["torch"]) if with_torch else None
    return {"length": length, "cached_ms": cached_ms, "uncached_ms": statistics.median(times["uncached"]),
            "torch_ms": torch_ms, "threads": threads, "torch_threads": child.size if with_torch else None,
            "rate_over_torch": torch_ms / cached_ms if with_torch else None}
