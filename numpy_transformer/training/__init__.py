"""Optimizers, learning-rate schedules, the training loop and checkpoints, for any kind of model. In reading order:

optimizers.py, schedules.py            SGD, Adam and AdamW; the learning rate at each step
muon.py, combined.py                   Muon; several optimizers as one
parameter_groups.py                    which parameters decay, and which Muon takes
maximal_update.py                      initial weights and learning rates for every width (muP)
trainer.py, evaluation.py              the training loop; measuring a model on batches
history.py, progress.py                what a run has measured; progress bars and plain lines
checkpoint.py, trainer_state.py        the whole state of a run in one file
npz.py                                 reading the arrays of such a file, whoever wrote it
weight_transfer.py, fit_arguments.py   starting from the weights of another model; checks before a run
data_parallel.py, workers.py, mpi.py   one batch on several threads, processes or machines
interrupt.py, memory.py                Ctrl-C at the end of a step; freed and available memory
"""

from typing import TYPE_CHECKING

from ..first_use import opens_on_first_use
from .optimizers import SGD, Adam, AdamW, clip_grad_norm
from .schedules import ConstantSchedule, CosineSchedule, NoamSchedule, WSDSchedule

if TYPE_CHECKING:
    from .checkpoint import Checkpoint, average_checkpoints
    from .combined import CombinedOptimizer
    from .maximal_update import apply_mup, mup_groups
    from .muon import Muon, muon_with_adamw
    from .parameter_groups import hidden_weights, linear_weights
    from .trainer import Trainer
    from .weight_transfer import carry_over

__all__ = ["SGD", "Adam", "AdamW", "Checkpoint", "CombinedOptimizer", "ConstantSchedule", "CosineSchedule", "Muon",
           "NoamSchedule", "Trainer", "WSDSchedule", "apply_mup", "average_checkpoints", "carry_over", "clip_grad_norm",
           "hidden_weights", "linear_weights", "muon_with_adamw", "mup_groups"]

__getattr__ = opens_on_first_use(__name__, {
    "Checkpoint": "checkpoint", "average_checkpoints": "checkpoint", "Trainer": "trainer", "carry_over": "weight_transfer",
    "CombinedOptimizer": "combined", "Muon": "muon", "muon_with_adamw": "muon", "hidden_weights": "parameter_groups",
    "linear_weights": "parameter_groups", "apply_mup": "maximal_update", "mup_groups": "maximal_update"})
