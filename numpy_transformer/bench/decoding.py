"""Milliseconds of a new token behind texts of several lengths: with the key-value cache, without, and PyTorch's."""

import copy
import statistics
import time

import numpy as np

from ..decoding import KeyValueCache
from ..models import CausalLanguageModel
from ..training.process import keep_freed_memory, limited_blas_threads, set_blas_threads
from .configs import CONFIGS
from .measure import REST, python_process, timer

LENGTHS = (64, 256, 1024)


def decoding_model(max_len):
    """The model of nanogpt-cpu with a longer context."""
    config = CONFIGS["nanogpt-cpu"]
    return CausalLanguageModel(config.vocab, config.d_model, config.heads, config.layers, max_len=max_len,
                               activation="gelu_tanh", bias=False, rng=0).eval()


def measure_decoding(length, tokens, threads, with_torch=False, rounds=5):
    """A row of figures: medians over `rounds` times `tokens` tokens, each round from the same text on."""
    keep_freed_memory()
    model = decoding_model(length + tokens)
    ids = np.random.default_rng(0).integers(0, model.embedding.vocab_size, length + tokens)
    prompt = KeyValueCache()
    model(ids[:length], cache=prompt)
    with limited_blas_threads(threads):
        times = {"cached": [], "uncached": timer(lambda: model(ids[:length]))(3)}
    before = set_blas_threads(1)                # as the commands do: the products of one token are small
    child = python_process("torch_baseline", f"decoding-{length}", threads) if with_torch else None
    try:
        for n in range(rounds + 1):             # the first only warms up
            cache = copy.deepcopy(prompt)
            cache.layers = {layer: kept for layer, kept in zip(prompt.layers, cache.layers.values())}
            rest = iter(ids[length:, None])
            time.sleep(REST)
            found = timer(lambda: model(next(rest), cache=cache))(tokens)
            time.sleep(REST)
            theirs = child.times(tokens) if child else []
            if n:
                times["cached"] += found
                times.setdefault("torch", []).extend(theirs)
    finally:
        set_blas_threads(before or 1)
        if child:
            child.close()
    ours, uncached = statistics.median(times["cached"]), statistics.median(times["uncached"])
    torch = statistics.median(times["torch"]) if with_torch else None
    return {"length": length, "cached_ms": ours, "uncached_ms": uncached, "torch_ms": torch, "threads": threads,
            "torch_threads": child.size if with_torch else None, "rate_over_torch": torch and torch / ours}
