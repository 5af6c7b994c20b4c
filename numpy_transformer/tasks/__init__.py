"""What `train` can train: the settings of each kind of model, its named configurations, its data."""

import numpy as np

from ..data import tokenizer_from_json
from ..training import AdamW, ConstantSchedule, CosineSchedule, NoamSchedule, Trainer
from .classifier import Classifier
from .language_model import LanguageModel
from .masked_language_model import Masked
from .sequence_to_sequence import SequenceToSequence
from .tagger import Tagger
from .text_to_text import TextToText

RECIPES = {recipe.name: recipe for recipe in (LanguageModel, SequenceToSequence, Classifier, Tagger, Masked,
                                                  TextToText)}


def all_settings(recipe):
    return [*recipe.source, *recipe.model, *recipe.training]


def default_settings(recipe, preset, **changes):
    """The settings of a named configuration, with changes; a short cosine warms up over a tenth of it."""
    settings = {setting.name: setting.default for setting in all_settings(recipe)} | recipe.presets[preset] | changes
    if settings.get("epochs") and not {"validate_every", "steps"} & set(changes):
        settings["validate_every"] = None       # as many steps as an epoch has
    return settings if "warmup" in changes else shorten_warmup(settings)


def shorten_warmup(settings):
    if settings["schedule"] == "cosine" and settings["warmup"] >= settings["steps"]:
        settings["warmup"] = settings["steps"] // 10
    return settings


def idle_rates(settings):
    """(names, remedy) of the rates that the schedule does not use, and of what no patience watches."""
    names = {"cosine": ["factor"], "noam": ["lr", "min_lr"], "constant": ["factor", "min_lr"]}[settings["schedule"]]
    idle = [(names, f"--schedule is {settings['schedule']}; choose another one, or leave it out")]
    if not settings["patience"]:
        idle.append((["watch"], "it names what --patience watches; give --patience too"))
    return idle


def make_model(recipe):
    return recipe.model_class(**recipe.config(), rng=np.random.default_rng([recipe.settings["seed"], 1]))


def make_trainer(recipe, model, comm=None):
    """The Trainer that the settings describe."""
    s = recipe.settings
    optimizer = AdamW(model.parameters(), s["lr"], (s["beta1"], s["beta2"]), s["eps"], s["weight_decay"],
                      decay=lambda parameter: parameter.data.ndim > 1)
    if s["schedule"] == "noam":
        schedule = NoamSchedule(optimizer, s["d_model"], max(s["warmup"], 1), s["factor"])
    elif s["schedule"] == "cosine":
        schedule = CosineSchedule(optimizer, s["lr"], s["min_lr"], s["warmup"], s["steps"])
    else:
        schedule = ConstantSchedule(optimizer, s["lr"], s["warmup"])
    criterion = recipe.criterion(s["label_smoothing"])
    return Trainer(model, criterion, optimizer, schedule, s["clip"] or None, s["accumulate"], s["workers"], comm)


def load_tokenizers(meta):
    return [tokenizer_from_json(tokens) for tokens in meta["tokenizers"]]
