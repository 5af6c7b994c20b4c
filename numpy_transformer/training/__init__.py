"""Optimizers, learning-rate schedules, the training loop and checkpoints, for any kind of model."""

from typing import TYPE_CHECKING

from ..first_use import opens_on_first_use
from .optimizers import SGD, Adam, AdamW, clip_grad_norm
from .schedules import ConstantSchedule, CosineSchedule, NoamSchedule

if TYPE_CHECKING:
    from .checkpoint import Checkpoint, average_checkpoints
    from .trainer import Trainer
    from .transfer import carry_over

__all__ = ["SGD", "Adam", "AdamW", "Checkpoint", "ConstantSchedule", "CosineSchedule", "NoamSchedule", "Trainer",
           "average_checkpoints", "carry_over", "clip_grad_norm"]

__getattr__ = opens_on_first_use(__name__, {
    "Checkpoint": "checkpoint", "average_checkpoints": "checkpoint", "Trainer": "trainer", "carry_over": "transfer"})
