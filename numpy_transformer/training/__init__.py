"""Optimizers, learning-rate schedules, the training loop and checkpoints, for any kind of model."""

from .checkpoint import Checkpoint, average_checkpoints
from .optimizers import SGD, Adam, AdamW, clip_grad_norm
from .schedules import ConstantSchedule, CosineSchedule, NoamSchedule
from .trainer import Trainer
from .transfer import carry_over

__all__ = ["SGD", "Adam", "AdamW", "Checkpoint", "ConstantSchedule", "CosineSchedule", "NoamSchedule", "Trainer",
           "average_checkpoints", "carry_over", "clip_grad_norm"]
