"""numpy-transformer bench: how fast a model writes, with the key-value cache and without."""

import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np

from ..layers import KeyValueCache
from ..models import CausalLanguageModel
from ..training.checkpoint import check_writable
from ..training.progress import Progress
from .parser import add_command, whole_number

LENGTHS = (64, 256, 1024)


def add(commands):
    parser = add_command(commands, "bench", run, help="tokens per second in decoding, by length",
                         description="Time a new token behind texts of several lengths: with the key-value cache, and "
                                     "with all tokens computed anew.")
    parser.add_argument("--d-model", type=whole_number(1), default=128, metavar="N", help="width")
    parser.add_argument("--num-heads", type=whole_number(1), default=4, metavar="N", help="attention heads")
    parser.add_argument("--num-layers", type=whole_number(1), default=4, metavar="N", help="blocks")
    parser.add_argument("--tokens", type=whole_number(1), default=32, metavar="N", help="timed at each length")
    parser.add_argument("--json", metavar="FILE", help="also write the rows as JSON, - for standard output")


def run(arguments):
    if arguments.json not in (None, "-"):
        check_writable(arguments.json)
    model = CausalLanguageModel(65, arguments.d_model, arguments.num_heads, arguments.num_layers, bias=False,
                                max_len=LENGTHS[-1] + arguments.tokens, rng=0).eval()
    ids = np.random.default_rng(0).integers(0, 65, model.max_len)
    rows = []
    with Progress(len(LENGTHS), "bench", "length") as progress:
        for length in LENGTHS:
            rows.append({"length": length, "cached_ms": cached(model, ids, length, arguments.tokens),
                         "uncached_ms": uncached(model, ids, length, min(arguments.tokens, 5))})
            progress.advance()
    text = sys.stderr if arguments.json == "-" else sys.stdout
    print(f"{model.num_parameters():,} parameters; median of {arguments.tokens} tokens\n"
          "  length   cached ms/token   tokens/s   uncached ms/token   tokens/s", file=text)
    for row in rows:
        print(f"  {row['length']:6}   {row['cached_ms']:15.2f}   {1e3 / row['cached_ms']:8.0f}   "
              f"{row['uncached_ms']:17.2f}   {1e3 / row['uncached_ms']:8.0f}", file=text)
    first, last = rows[0], rows[-1]
    growth, linear = last["cached_ms"] / first["cached_ms"], last["length"] / first["length"]
    print(f"with the cache a token at length {last['length']} takes {growth:.1f} times as long as one at "
          f"{first['length']}; linear growth would be {linear:.0f} times", file=text)
    if arguments.json == "-":
        print(json.dumps(rows, indent=1))
    elif arguments.json:
        Path(arguments.json).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def cached(model, ids, length, tokens):
    """Median milliseconds of a token behind `length` others."""
    cache = KeyValueCache()
    model(ids[:length], cache=cache)
    return median(lambda n: model(ids[length + n:length + n + 1], cache=cache), tokens)


def uncached(model, ids, length, tokens):
    return median(lambda n: model(ids[:length + n + 1]), tokens)


def median(step, count):
    times = []
    for n in range(count):
        started = time.perf_counter()
        step(n)
        times.append(1e3 * (time.perf_counter() - started))
    return statistics.median(times)
