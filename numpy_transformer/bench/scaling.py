"""Measures how the time and memory of a training step grow with the sequence length and with the width of the model."""

import statistics

import numpy as np

from ..layers import CrossEntropyLoss
from ..models import CausalLanguageModel
from ..threads import set_blas_threads
from ..training import AdamW, Trainer
from ..training.memory import keep_freed_memory
from .measure import peak_memory, timer

LENGTHS = (128, 256, 512, 1024, 2048)           # measured at the width WIDTH
WIDTHS = (64, 128, 256, 512, 1024)              # measured at the length LENGTH
WIDTH, LENGTH, LAYERS, HEADS = 64, 64, 2, 4


def growth(lengths=LENGTHS, widths=WIDTHS, advance=lambda: None):
    """Returns rows with step_ms and peak_mb: over T with both kinds of attention, then over d_model."""
    keep_freed_memory()
    set_blas_threads(1)
    rows = []
    plan = [("T", kind, length, WIDTH) for kind in ("plain", "flash") for length in lengths]
    for over, attention, length, width in plan + [("d_model", "plain", LENGTH, width) for width in widths]:
        def step_of_new():
            model = CausalLanguageModel(65, width, HEADS, LAYERS, max_len=length, attention=attention, rng=0)
            trainer = Trainer(model, CrossEntropyLoss(), AdamW(model.parameters()), clip=1.0, workers=1)
            ids = np.random.default_rng(0).integers(0, 65, (2, 1, length))
            return lambda: trainer.step([(ids[0], ids[1])])

        step = step_of_new()
        step()
        times = timer(step)(5)
        rows.append({"over": over, "attention": attention, "T": length, "d_model": width,
                     "step_ms": statistics.median(times), "peak_mb": peak_memory(step_of_new)})
        advance()
    return rows


def curves(rows):
    """Returns {("T" or "d_model", attention): rows}, in the order of the rows."""
    groups = {}
    for row in rows:
        groups.setdefault((row["over"], row["attention"]), []).append(row)
    return groups


def slope(rows, x, y):
    """Returns the exponent p of y ~ x^p, fitted to the logarithms of the larger half of the rows (at least two)."""
    rows = rows[min(len(rows) // 2, len(rows) - 2):]
    return float(np.polyfit(np.log([row[x] for row in rows]), np.log([row[y] for row in rows]), 1)[0])
