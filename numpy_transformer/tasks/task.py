"""The base class of every task."""

import hashlib

import numpy as np

from ..data import BytePairTokenizer, CharTokenizer, SpacedTokenizer, WordTokenizer
from ..layers import CrossEntropyLoss
from ..training import AdamW, ConstantSchedule, CosineSchedule, NoamSchedule, Trainer
from ..training.process import available_memory
from ..training.progress import Progress
from ..training.evaluation import evaluate

BYTES_PER_PARAMETER = 16                        # weight, gradient and Adam's two means, in float32
SCHEDULE_RATES = {"cosine": ("lr", "min_lr"), "noam": ("factor",), "constant": ("lr",)}


class Task:
    """One kind of training: the data, the tokenizers, the settings of the model, and what is measured.

    A task knows nothing of the command line. `Task(settings, tokenizers)` reads or generates the data; without
    tokenizers it trains them on the training set.

    A subclass sets these class attributes:
        name : str, as in `train NAME`
        title : str, what is trained
        model_class : class of the model
        data_settings, model_settings, training_settings : lists of Setting
        presets : {name: {setting: value}}, the named configurations

    and its __init__ sets these:
        settings : {name: value} of all settings
        tokenizers : list of tokenizers, of the source first
        batches : what Trainer.fit trains on
        validation : list of (inputs, targets), the validation set
        corpus : dict that identifies the texts; a resumed run compares it
        report : list of str, what was left out or cut
        description : str, what is trained on
    """

    preset_help = "named settings, each of which an option can still change (default: small)"
    labels = None

    @classmethod
    def all_settings(cls):
        return [*cls.data_settings, *cls.model_settings, *cls.training_settings]

    @classmethod
    def default_settings(cls, preset, **changes):
        """The settings of a named configuration, with changes."""
        settings = {setting.name: setting.default for setting in cls.all_settings()} | cls.presets[preset] | changes
        if settings.get("epochs") and "validate_every" not in changes and "steps" not in changes:
            settings["validate_every"] = None   # the task fills in the steps of one epoch
        return settings if "warmup" in changes else shorten_warmup(settings)

    @classmethod
    def choose_preset(cls, config, given):
        """The configuration that was asked for, or the one that fits the given settings."""
        return config or "small"

    @classmethod
    def unused_settings(cls, settings):
        """List of (names, remedy) of the settings that have no effect in this run."""
        used = SCHEDULE_RATES[settings["schedule"]]
        rates = [name for name in ("lr", "min_lr", "factor") if name not in used]
        unused = [(rates, f"--schedule {settings['schedule']} does not use it; choose another schedule, or leave it out")]
        if not settings["patience"]:
            unused.append((["watch"], "it names the measure that --patience watches; give --patience too"))
        return unused

    def model_config(self):
        """The arguments of `model_class`."""
        raise NotImplementedError

    def make_model(self):
        self.check_memory()
        return self.model_class(**self.model_config(), rng=np.random.default_rng([self.settings["seed"], 1]))

    def check_memory(self):
        """Raises ValueError if the matrices of the model's blocks alone need more memory than is available."""
        config, free = self.model_config(), available_memory()
        d_model, d_ff = config["d_model"], config["d_ff"]
        attention, feed_forward = 2 * d_model ** 2, 2 * d_model * d_ff          # at least: query and output, up and down
        count = config["num_layers"] * (attention + feed_forward)
        if free is not None and count * BYTES_PER_PARAMETER > free:
            raise ValueError(f"a model with --d-model {d_model:,}, --d-ff {d_ff:,} and --num-layers "
                             f"{config['num_layers']:,} has at least {count:,} parameters, which need "
                             f"{count * BYTES_PER_PARAMETER / 1e9:,.1f} GB with their gradients and the optimizer's state, "
                             f"but {free / 1e9:,.1f} GB of memory are available; lower one of these sizes")

    def make_criterion(self, label_smoothing=0.0):
        return CrossEntropyLoss(label_smoothing)

    def make_trainer(self, model, comm=None):
        """The Trainer that the settings describe; weight decay acts on matrices only."""
        s = self.settings
        optimizer = AdamW(model.parameters(), s["lr"], (s["beta1"], s["beta2"]), s["eps"], s["weight_decay"],
                          decay=lambda parameter: parameter.data.ndim > 1)
        return Trainer(model, self.make_criterion(s["label_smoothing"]), optimizer, self.make_schedule(optimizer),
                       clip=s["clip"] or None, accumulate=s["accumulate"], workers=s["workers"], comm=comm)

    def make_schedule(self, optimizer):
        s = self.settings
        if s["schedule"] == "noam":
            return NoamSchedule(optimizer, s["d_model"], max(s["warmup"], 1), s["factor"])
        if s["schedule"] == "cosine":
            return CosineSchedule(optimizer, s["lr"], s["min_lr"], s["warmup"], s["steps"])
        return ConstantSchedule(optimizer, s["lr"], s["warmup"])

    def make_validation(self, model):
        """Returns a function that measures the model on the validation set: the loss, without label smoothing."""
        return lambda: evaluate(model, self.make_criterion(), self.validation)

    def results(self, model):
        """Lines on what the trained model reaches besides its loss, with a baseline where there is one."""
        return []

    @staticmethod
    def evaluate_files(run, data):
        """Lines on how a trained run does on other files."""
        raise NotImplementedError

    def train_tokenizer(self, training_text, whole_text):
        """A tokenizer trained on the training text; a character tokenizer has the characters of the whole text, so that
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
        """The number of tokens of a bpe or word tokenizer."""
        return self.settings["vocab_size"]


def shorten_warmup(settings):
    """Lets a cosine schedule that would end during its warm-up warm up for a tenth of its steps. Returns settings."""
    if settings["schedule"] == "cosine" and settings["warmup"] >= settings["steps"]:
        settings["warmup"] = settings["steps"] // 10
    return settings


def sha256(text):
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
