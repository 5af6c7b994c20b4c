"""All checks in one table: importing this file fills it."""

from . import (batch_invariance, contract, dropout, invariants, optimizers, perturbation, reference_attention,
               reference_layers, reference_modern)
from .check import CHECKS, verdicts
from .optimizers import OPTIMIZER_SAMPLES
from .samples import SAMPLES

__all__ = ["CHECKS", "OPTIMIZER_SAMPLES", "SAMPLES", "batch_invariance", "contract", "dropout", "invariants",
           "optimizers", "perturbation", "reference_attention", "reference_layers",
           "reference_modern", "verdicts"]
