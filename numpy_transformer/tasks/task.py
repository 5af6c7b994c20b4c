"""The base class of every task."""

import hashlib

import numpy as np

from ..data import BytePairTokenizer, CharTokenizer, SpacedTokenizer, WordTokenizer
from ..layers import CrossEntropyLoss
from ..training import (AdamW, CombinedOptimizer, ConstantSchedule, CosineSchedule, Muon, NoamSchedule, Trainer, WSDSchedule,
                        hidden_weights)
from ..training.evaluation import evaluate
from ..training.memory import available_memory
from ..training.progress import Progress
from .options import is_published, model_of_run, options_of
from .settings import SettingError

BYTES_PER_PARAMETER = 16                        # weight, gradient and Adam's two means, in float32
MUON_RATE = 4                                   # how many times the rate of AdamW Muon has
SCHEDULE_RATES = {"cosine": ("lr", "min_lr"), "noam": ("factor",), "constant": ("lr",), "wsd": ("lr", "min_lr")}


class Task:
    """One kind of training: the data, the tokenizers, the settings of the model, and what is measured.

    A task knows nothing of the command line. `Task(settings, tokenizers, base)` reads or generates the data; without
    tokenizers it trains them on the training set. `base` is the meta of the run with whose weights it starts, or of the
    run itself when that is continued; None starts with random weights.

    A subclass sets these class attributes:
        name : str, as in `train NAME`
        title : str, what is trained
        model_class : class of the model
        data_settings, model_settings, training_settings : lists of Setting
        configurations : {name: {setting: value}}, the named configurations
        starts_from : kinds of run with whose weights it can start
        head : names of the modules that the model of such a run may lack
        sizes : names of the settings that such a run decides because they are options of the model
        reading : names of the settings that it decides because they belong to its tokenizer
        length : name of the setting that limits the length of a text

    and its __init__ sets these:
        settings : {name: value} of all settings
        base : as above
        tokenizers : list of tokenizers, of the source first
        batches : what Trainer.fit trains on
        validation : list of (inputs, targets), the validation set
        corpus : dict that identifies the texts; a resumed run compares it
        report : list of str, what was left out or cut
        description : str, what is trained on
    """

    configuration_help = ("named settings, each of which an option can still change (default: small; lora with $lora, and "
                          "fine-tune with an imported model in $pretrained)")
    labels = None
    starts_from = head = ()
    reading = "tokenizer", "vocab_size"
    length = "max_len"

    @classmethod
    def all_settings(cls):
        return [*cls.data_settings, *cls.model_settings, *cls.training_settings]

    @classmethod
    def default_settings(cls, configuration, **changes):
        """Returns the settings of a named configuration, with changes."""
        defaults = {setting.name: setting.default for setting in cls.all_settings()}
        settings = defaults | cls.configurations[configuration] | changes
        if settings.get("epochs") and "validate_every" not in changes and "steps" not in changes:
            settings["validate_every"] = None   # the task fills in the steps of one epoch
        is_open = settings["warmup"] is None    # a share of the steps, which the task may have to count
        return settings if is_open or "warmup" in changes else shorten_warmup(settings)

    @classmethod
    def choose_configuration(cls, config, given, base=None):
        """Returns the configuration that was asked for, or the one that fits the given settings and the run that is the
        base.
        """
        if config:
            return config
        if given.get("lora"):
            return "lora"
        return "fine-tune" if base and is_published(base) else "small"

    @classmethod
    def unused_settings(cls, settings):
        """Returns a list of (names, remedy) of the settings that have no effect in this run."""
        used = SCHEDULE_RATES[settings["schedule"]]
        rates = [name for name in ("lr", "min_lr", "factor") if name not in used]
        unused = [(rates, f"$schedule {settings['schedule']} does not use it; choose another schedule, or leave it out")]
        if not settings["patience"]:
            unused.append((["watch"], "it names the measure that $patience watches; give $patience too"))
        return unused + cls.unused_when_starting(settings)

    @classmethod
    def unused_when_starting(cls, settings):
        """Returns the part of unused_settings that is about pretrained weights."""
        if not settings.get("pretrained"):
            options = ["lora", "lora_alpha", "lora_targets", "freeze"]
            return [(options, "it applies to pretrained weights; give $pretrained")]
        if settings.get("lora"):
            unused = [(["freeze"], "with $lora all pretrained weights are frozen; leave one of the two out")]
            if settings.get("optimizer") == "muon":
                unused.append((["optimizer"], "with $lora all matrices that muon could train are frozen; leave one of the two "
                                              "out"))
            return unused
        return [(["lora_alpha", "lora_targets"], "it applies to the updates that $lora trains; give $lora")]

    @property
    def starts_from_published(self):
        """True if the weights were those of a published model at first."""
        return self.base is not None and is_published(self.base)

    @property
    def origin(self):
        """The family and config.json of a model that belongs to a family of published ones, as in its meta; or None."""
        return self.base["origin"] if self.starts_from_published else None

    @classmethod
    def base_options(cls, base):
        """Returns all options of the model of the run that is the base."""
        return options_of(cls.model_class, base["model"])

    def base_config(self):
        """Returns the arguments of `model_class` that continue the model of the base: its sizes, and this run's dropout."""
        theirs = self.base_options(self.base)
        return theirs | {"dropout": self.settings["dropout"], "init": self.settings["init"],
                         "max_len": max(self.settings[self.length], theirs["max_len"])}

    @classmethod
    def published_settings(cls, options):
        """Returns the settings that a published model decides in addition, given the options of that model."""
        return {}

    def weights_taken_over(self, state, run):
        """Returns what this model takes over of the weights {name: array} of the run that is its base."""
        return state

    def model_config(self):
        """The arguments of `model_class`."""
        raise NotImplementedError

    def make_model(self):
        self.check_memory()
        rng = np.random.default_rng([self.settings["seed"], 1])
        return model_of_run(self.model_class, self.model_config(), self.origin, rng)

    def check_memory(self):
        """Raises ValueError if the matrices of the model's blocks alone need more memory than is available."""
        config, free = self.model_config(), available_memory()
        d_model, d_ff = config["d_model"], config["d_ff"] or 4 * config["d_model"]
        attention, feed_forward = 2 * d_model ** 2, 2 * d_model * d_ff          # at least: query and output, up and down
        count = config["num_layers"] * (attention + feed_forward)
        if free is not None and count * BYTES_PER_PARAMETER > free:
            raise SettingError(f"a model with $d_model {d_model:,}, $d_ff {d_ff:,} and $num_layers "
                               f"{config['num_layers']:,} has at least {count:,} parameters, which need "
                               f"{count * BYTES_PER_PARAMETER / 1e9:,.1f} GB with their gradients and the optimizer's state, "
                               f"but {free / 1e9:,.1f} GB of memory are available; lower one of these sizes")

    def make_criterion(self, label_smoothing=0.0):
        return CrossEntropyLoss(label_smoothing)

    def training_criterion(self):
        """Returns the loss to train with; `make_criterion()` is the one to validate with."""
        return self.make_criterion(self.settings["label_smoothing"])

    def make_trainer(self, model, comm=None):
        """Returns the Trainer that the settings describe; weight decay acts on matrices only."""
        s = self.settings
        optimizer = self.make_optimizer(model)
        return Trainer(model, self.training_criterion(), optimizer, self.make_schedule(optimizer),
                       clip=s["clip"] or None, accumulate=s["accumulate"], workers=s["workers"], comm=comm)

    def make_optimizer(self, model):
        s = self.settings
        hidden = hidden_weights(model) if s.get("optimizer") == "muon" else []         # older runs have no such setting
        inside = {id(parameter) for parameter in hidden}
        adamw = AdamW([parameter for parameter in model.parameters() if id(parameter) not in inside], s["lr"],
                      (s["beta1"], s["beta2"]), s["eps"], s["weight_decay"], decay=lambda parameter: parameter.data.ndim > 1)
        if not hidden:
            return adamw
        if not s["lr"] > 0:
            raise SettingError("$lr must be above 0 with $optimizer muon, whose rate is a multiple of it")
        return CombinedOptimizer([adamw, Muon(hidden, MUON_RATE * s["lr"], weight_decay=s["weight_decay"])])

    def make_schedule(self, optimizer):
        s = self.settings
        if s["schedule"] in ("cosine", "wsd") and 0 < s["steps"] <= s["warmup"]:
            raise SettingError(f"$warmup {s['warmup']:,} leaves none of the $steps {s['steps']:,} to lower the rate; give at most "
                               f"{s['steps'] - 1:,}")
        if s["schedule"] == "wsd":
            decay = max(min(s["steps"] // 5, s["steps"] - s["warmup"]), 1)
            return WSDSchedule(optimizer, s["lr"], s["min_lr"], s["warmup"], decay, s["steps"])
        if s["schedule"] == "noam":
            return NoamSchedule(optimizer, s["d_model"], max(s["warmup"], 1), s["factor"])
        if s["schedule"] == "cosine":
            return CosineSchedule(optimizer, s["lr"], s["min_lr"], s["warmup"], s["steps"])
        return ConstantSchedule(optimizer, s["lr"], s["warmup"])

    def make_validation(self, model):
        """Returns a function that measures the model on the validation set: the loss, without label smoothing."""
        return lambda: evaluate(model, self.make_criterion(), self.validation)

    def results(self, model):
        """Returns lines on what the trained model reaches besides its loss, with a baseline where there is one."""
        return []

    @staticmethod
    def evaluate_files(run, data):
        """Lines on how a trained run does on other files."""
        raise NotImplementedError

    def train_tokenizer(self, training_text, whole_text):
        """Returns a tokenizer trained on the training text; a character tokenizer has the characters of the whole text, so
        that
        none is unknown.
        """
        s = self.settings
        if s["tokenizer"] == "char":
            return CharTokenizer(whole_text)
        if s["tokenizer"] == "word":
            kind = SpacedTokenizer if s.get("reading") == "keras" else WordTokenizer
            return kind.train(training_text, self.tokenizer_size())
        merges = self.tokenizer_size() - 256
        with Progress(merges, "byte pairs", "merge") as progress:
            return BytePairTokenizer.train(training_text, merges, progress.advance)

    def tokenizer_size(self):
        """Returns the number of tokens of a bpe or word tokenizer."""
        return self.settings["vocab_size"]


def shorten_warmup(settings):
    """Lets a run warm up for a tenth of its steps if its warm-up is open (None), or its schedule would end during it.

    Returns settings.
    """
    is_open = settings["warmup"] is None
    if is_open or settings["schedule"] in ("cosine", "wsd") and settings["warmup"] >= settings["steps"]:
        settings["warmup"] = settings["steps"] // 10
    return settings


def sha256(text):
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
