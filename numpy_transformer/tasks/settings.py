"""The settings of a task: sizes, rates and files, each with its default, its limits and one line of help.

In a sentence about settings, such as a help text or an error, $max_len stands for the setting max_len: Python calls it by
that name, and the command line by its option.
"""

import math
import re
from dataclasses import dataclass
from typing import Any

# Configurations for pretrained weights. Those of LoRA are larger updates of fewer weights; see lesson 21.
FINE_TUNE = dict(batch_size=32, lr=5e-5, min_lr=0.0, warmup=None, schedule="cosine", beta2=0.999, eps=1e-8,
                 weight_decay=0.01, label_smoothing=0.0)
LORA = FINE_TUNE | dict(lora=8, lr=1e-3, weight_decay=0.0)


@dataclass(frozen=True)
class Setting:
    """One setting of a training run, stored in its checkpoint.

    Parameters:
        name : str, such as "d_model"
        default : the value that holds if none is given; None where the run decides
        help : str, one line
        type : int, float, bool, str, or list for one or more paths
        choices : tuple of the allowed strings, empty if any is allowed
        least : smallest allowed number
        below : every allowed number is smaller than this one
        metavar : str, what stands for the value in the help
    """

    name: str
    default: Any
    help: str
    type: type = str
    choices: tuple = ()
    least: float = 0
    below: float = math.inf
    metavar: str = "FILE"


def count_setting(name, default, help, least=1):
    return Setting(name, default, help, int, least=least, metavar="N")


def rate_setting(name, default, help, below=math.inf):
    return Setting(name, default, help, float, below=below, metavar="X")


def choice(name, default, help, *choices):
    return Setting(name, default, help, choices=choices)


def paths(name, help):
    return Setting(name, None, help, list, metavar="PATH")


def switch(name, default, help):
    return Setting(name, default, help, bool)


class SettingError(ValueError):
    """A setting has a value that cannot be used. `sentence` says so, with $d_model for the setting d_model."""

    def __init__(self, sentence):
        super().__init__(with_names(sentence))
        self.sentence = sentence


def with_names(sentence, spell=str):
    """Returns a sentence about settings in which spell("d_model") stands for $d_model."""
    return re.sub(r"(?<![^\s(])\$([a-z]\w*)", lambda match: spell(match[1]), sentence)


def make_training_settings(batch_size, steps, lr, min_lr, warmup, schedule, beta2, eps, weight_decay, label_smoothing,
                           metrics=()):
    """Returns the settings of the training loop, with a task's own defaults; `metrics` are what it measures besides the
    loss.
    """
    return [
        count_setting("steps", steps, "training steps"),
        count_setting("batch_size", batch_size, "sequences per batch"),
        count_setting("accumulate", 1, "batches whose gradients are accumulated for one step"),
        choice("optimizer", "adamw", "muon trains the matrices inside the blocks, at 4 times the rate, and adamw the others",
               "adamw", "muon"),
        choice("schedule", schedule, "learning-rate schedule; noam is the one of the 2017 paper, wsd falls over the last fifth "
               "of the steps only", "cosine", "noam", "constant", "wsd"),
        rate_setting("lr", lr, "peak learning rate (cosine, constant, wsd)"),
        rate_setting("min_lr", min_lr, "learning rate at the end (cosine, wsd)"),
        rate_setting("factor", 1.0, "multiplies the learning rate of the 2017 paper (noam)"),
        count_setting("warmup", warmup, "steps of linear warm-up; if not set, a tenth of all steps", 0),
        rate_setting("beta1", 0.9, "Adam's decay rate of the mean of the gradient", 1),
        rate_setting("beta2", beta2, "Adam's decay rate of the mean of the squared gradient", 1),
        rate_setting("eps", eps, "Adam's epsilon"),
        rate_setting("weight_decay", weight_decay, "AdamW's weight decay, applied to matrices only"),
        rate_setting("clip", 1.0, "gradients are clipped to this norm; 0 disables clipping"),
        rate_setting("label_smoothing", label_smoothing, "share of the target's probability that is spread over all classes",
                     1),
        count_setting("patience", 0,
                      "stop early after this many validations without an improvement and keep the best weights; "
                             "0 disables early stopping", 0),
        choice("watch", "loss", "the measure on the validation set that $patience watches; among equal values the lower "
                                "loss counts as better", "loss", *metrics),
        count_setting("average", 0, "at the end, also write the mean of the weights of the last N saves; 0 writes none", 0),
        count_setting("validate_every", 200, "steps between validations"),
        count_setting("save_every", 100, "steps between saves"),
        count_setting("workers", None,
                      "processes (on Linux) or threads that each compute a part of every batch; chosen by the size "
                      "of the batch and the number of CPU cores if left out"),
        count_setting("seed", 1, "seed of everything random", 0)]
