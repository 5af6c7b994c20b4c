"""Optimizers, schedules and the loop. Nothing here knows what a Transformer is."""

from .optimizers import SGD, Adam, AdamW, clip_grad_norm
from .schedules import CosineSchedule, NoamSchedule
from .trainer import Trainer

__all__ = ["SGD", "Adam", "AdamW", "CosineSchedule", "NoamSchedule", "Trainer", "clip_grad_norm"]
