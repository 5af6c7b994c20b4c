"""All checks in one table: importing this file fills it."""

from . import attention_loops, batch, contract, dropping, known, loops, perturbation, updates
from .check import CHECKS, verdicts
from .components import SAMPLES
from .updates import UPDATES

__all__ = ["CHECKS", "SAMPLES", "UPDATES", "attention_loops", "batch", "contract", "dropping", "known", "loops",
           "perturbation", "updates", "verdicts"]
