"""What `train` can train: the settings of each kind of model, its named configurations, its data."""

import hashlib

import numpy as np

from ..data import (EOS, PAD, TASKS, BytePairTokenizer, CharTokenizer, Pairs, TextWindows, WordTokenizer, builtin_text,
                    limit_length, read_pairs, read_text, tokenizer_from_json)
from ..layers import CrossEntropyLoss
from ..layers.feed_forward import ACTIVATIONS
from ..models import CausalLanguageModel, EncoderDecoder
from ..training import AdamW, ConstantSchedule, CosineSchedule, NoamSchedule, Trainer
from ..training.progress import Progress
from ..training.trainer import evaluate
from .settings import choice, count, rate, switch, Setting

HELD_OUT = 1000                                 # pairs of two files that validate


def training_settings(batch_size, steps, lr, min_lr, warmup, schedule, beta2, eps, weight_decay, smoothing):
    return [
        count("steps", steps, "training steps"),
        count("batch_size", batch_size, "sequences in a batch"),
        count("accumulate", 1, "batches whose gradients make one step"),
        choice("schedule", schedule, "of the learning rate; noam is the paper's", "cosine", "noam", "constant"),
        rate("lr", lr, "highest learning rate (cosine, constant)"),
        rate("min_lr", min_lr, "learning rate at the end (cosine)"),
        rate("factor", 1.0, "times the paper's rate (noam)"),
        count("warmup", warmup, "steps of linear warm-up", 0),
        rate("beta1", 0.9, "Adam's mean of the gradient", 1),
        rate("beta2", beta2, "Adam's mean of the squared gradient", 1),
        rate("eps", eps, "Adam's epsilon"),
        rate("weight_decay", weight_decay, "of the matrices (AdamW)"),
        rate("clip", 1.0, "largest norm of the gradient, 0: any"),
        rate("label_smoothing", smoothing, "share of the target's probability spread over all tokens", 1),
        count("patience", 0, "stop after so many validations without a better loss and keep the best weights, 0: never",
              0),
        count("average", 0, "at the end write the mean of the weights of the last N saves beside the run, 0: no", 0),
        count("validate_every", 200, "steps from one validation to the next"),
        count("save_every", 100, "steps from one save to the next"),
        count("workers", None, "processes, each with a part of every batch; if left out, by size and cores"),
        count("seed", 1, "of everything random", 0)]


class LanguageModel:
    """A CausalLanguageModel on one text."""

    name, title, model_class = "lm", "a language model on a text", CausalLanguageModel
    source = [
        Setting("text", None, "UTF-8 text; if left out, the language reference that Python carries", str),
        choice("tokenizer", "char", "what a token is", "char", "bpe", "word"),
        count("vocab_size", 1256, "tokens of bpe (256 bytes and the merges) and word", 258)]
    model = [
        count("d_model", 96, "width"), count("num_heads", 4, "attention heads"), count("num_layers", 3, "blocks"),
        count("d_ff", 256, "width of the feed-forward layers"), count("context", 64, "longest sequence"),
        count("num_kv_heads", None, "heads of keys and values; fewer than num-heads are shared by groups"),
        rate("dropout", 0.0, "share of activations dropped in training", 1),
        choice("norm", "pre", "before or behind each sublayer", "pre", "post"),
        choice("norm_layer", "rms", "LayerNorm or RMSNorm", "layer", "rms"),
        choice("activation", "swiglu", "of the feed-forward layers", *ACTIVATIONS, "swiglu"),
        choice("positions", "rotary", "how the model knows the order", "learned", "sinusoidal", "rotary"),
        switch("bias", False, "in linear layers and LayerNorm"),
        switch("tie", True, "the output is the transposed embedding")]
    training = training_settings(batch_size=8, steps=800, lr=5e-3, min_lr=2.5e-4, warmup=80, schedule="cosine",
                                 beta2=0.98, eps=1e-8, weight_decay=0.1, smoothing=0.0)
    presets = {"small": {}, "nanogpt-cpu": dict(
        d_model=128, num_layers=4, d_ff=512, norm_layer="layer", activation="gelu", positions="learned", batch_size=12,
        steps=2000, lr=1e-3, min_lr=1e-4, warmup=100, beta2=0.99, validate_every=500)}

    config_help = "named settings, of which each can still be changed (default: small)"

    @staticmethod
    def preset(arguments):
        return arguments.config or "small"

    @staticmethod
    def idle(settings):
        return [(["vocab_size"], "it belongs to --tokenizer bpe or word")] if settings["tokenizer"] == "char" else []

    def __init__(self, settings, tokenizers=None):
        self.settings = settings
        text = builtin_text() if settings["text"] is None else read_text(settings["text"])
        self.corpus = {"sha256": digest(text)}
        self.tokenizers = tokenizers or [train_tokenizer(settings, text[:len(text) * 9 // 10], text)]
        ids = self.tokenizers[0].encode(text)
        self.windows = TextWindows(ids, settings["context"], settings["batch_size"], settings["seed"])
        self.batches, self.validation, self.report = self.windows.batch, self.windows.validation(), []
        self.description = (f"{len(text):,} characters of {settings['text'] or 'the Python language reference'}, "
                            f"{len(ids):,} tokens, nine tenths to learn from")

    def config(self):
        s = self.settings
        return {"vocab_size": self.tokenizers[0].vocab_size, "max_len": s["context"], "tie_weights": s["tie"],
                **{name: s[name] for name in ("d_model", "num_heads", "num_layers", "d_ff", "dropout", "norm",
                                              "norm_layer", "activation", "positions", "num_kv_heads", "bias")}}

    def criterion(self, smoothing=0.0):
        return CrossEntropyLoss(smoothing)

    def validate(self, model):
        """A function that measures the loss as `evaluate` does, without label smoothing."""
        return lambda: evaluate(model, self.criterion(), self.validation)


class SequenceToSequence:
    """An EncoderDecoder on pairs of texts."""

    name, title, model_class = "seq2seq", "an encoder-decoder on pairs of texts", EncoderDecoder
    source = [
        choice("task", None, "a generated task: dates are read as 1999-03-03, letters are copied, reversed or sorted",
               *TASKS),
        Setting("source", None, "UTF-8 text, a sentence a line", str),
        Setting("target", None, "its translation, line by line", str),
        choice("tokenizer", "bpe", "what a token of the files is; the tasks have characters", "char", "bpe", "word"),
        count("vocab_size", 4000, "tokens of bpe (256 bytes and the merges) and word, of each side", 258),
        count("max_len", 100, "longest sentence in tokens, begin and end included", 3),
        choice("too_long", "drop", "what happens to longer ones", "drop", "cut")]
    model = [
        count("d_model", 128, "width"), count("num_heads", 4, "attention heads"),
        count("num_layers", 3, "blocks in the encoder, and in the decoder"),
        count("d_ff", 512, "width of the feed-forward layers"),
        rate("dropout", 0.1, "share of activations dropped in training", 1),
        choice("norm", "pre", "before or behind each sublayer", "pre", "post"),
        choice("activation", "relu", "of the feed-forward layers", *ACTIVATIONS, "swiglu"),
        choice("positions", "sinusoidal", "how the model knows the order", "sinusoidal", "learned"),
        switch("tie", False, "one tokenizer and one matrix for source, target and output")]
    training = training_settings(batch_size=64, steps=4000, lr=1e-3, min_lr=1e-4, warmup=1000, schedule="noam",
                                 beta2=0.98, eps=1e-9, weight_decay=0.0, smoothing=0.1)
    small = dict(tokenizer="char", d_model=64, num_layers=1, d_ff=256, max_len=32, dropout=0.0, schedule="cosine",
                 lr=3e-3, min_lr=1.5e-4, warmup=100, weight_decay=1.0, eps=1e-8, steps=2000)
    presets = {
        "2017": {}, "2017-base": dict(d_model=512, num_heads=8, num_layers=6, d_ff=2048, warmup=4000, steps=100_000),
        "copy": small | dict(max_len=16, steps=1000), "dates": small, "reverse": small,
        "sort": small | dict(num_layers=2, weight_decay=0.1, steps=3000)}

    config_help = "named settings, of which each can still be changed (default: that of --task, for files 2017)"

    @staticmethod
    def preset(arguments):
        return arguments.config or arguments.task or "2017"

    @staticmethod
    def idle(settings):
        if settings["task"]:
            return [(["tokenizer", "vocab_size", "too_long"], "a task is made of characters, and none is too long")]
        return LanguageModel.idle(settings)

    def __init__(self, settings, tokenizers=None):
        self.settings = s = settings
        files = [s["source"], s["target"]]
        named = [file is not None for file in files]
        if (s["task"] is not None) == any(named) or any(named) != all(named):
            raise ValueError("name what to learn: either --task copy, reverse, sort or dates, or --source FILE and "
                             "--target FILE, both of them")
        if s["task"]:
            self.task = TASKS[s["task"]](s["seed"])
            training, validation, self.test, self.report = self.task.training, self.task.validation, self.task.test, []
            self.tokenizers = tokenizers or self.task.tokenizers()
            longest = max(len(text) for pair in training + validation + self.test for text in pair) + 2
            if longest > s["max_len"]:
                raise ValueError(f"--max-len {s['max_len']} is too short for --task {s['task']}: its longest text has "
                                 f"{longest} tokens, begin and end included; raise it")
        else:
            pairs, self.report = read_pairs(*files)
            training, validation = hold_out(pairs, s["seed"])
            self.test = validation
            self.tokenizers = tokenizers or self.train_tokenizers(training, pairs)
            training, report = limit_length(training, *self.tokenizers, s["max_len"], s["too_long"])
            validation, held_out = limit_length(validation, *self.tokenizers, s["max_len"], s["too_long"])
            self.report += report + [f"to validate: {line}" for line in held_out]
        self.corpus = {"task": s["task"], "sha256": digest("\n".join(map("\t".join, training + validation)))}
        pool = 4 if s["task"] else 100          # in a task the length tells too much: mixed lengths learn faster
        self.batches = Pairs(training, *self.tokenizers, s["batch_size"], s["seed"], pool)
        self.validation = Pairs(validation, *self.tokenizers, 64, s["seed"]).batches()
        self.description = (f"{len(training):,} pairs of {s['task'] or ' and '.join(files)}, {len(validation):,} to "
                            f"validate; {self.batches.padding:.1%} of a batch is padding")

    def train_tokenizers(self, training, pairs):
        learnt, whole = (list(map("\n".join, zip(*part))) for part in (training, pairs))
        if self.settings["tie"]:
            return [train_tokenizer(self.settings, "\n".join(learnt), "\n".join(whole))] * 2
        return [train_tokenizer(self.settings, *texts) for texts in zip(learnt, whole)]

    def config(self):
        s = self.settings
        source, target = (tokens.vocab_size + EOS + 1 for tokens in self.tokenizers)
        return {"src_vocab": source, "tgt_vocab": target, "tie_weights": s["tie"], "pad_id": PAD,
                **{name: s[name] for name in ("d_model", "num_heads", "num_layers", "d_ff", "dropout", "max_len",
                                              "norm", "positions", "activation")}}

    def criterion(self, smoothing=0.0):
        return CrossEntropyLoss(smoothing, ignore_id=PAD)

    validate = LanguageModel.validate


RECIPES = {recipe.name: recipe for recipe in (LanguageModel, SequenceToSequence)}


def all_settings(recipe):
    return [*recipe.source, *recipe.model, *recipe.training]


def default_settings(recipe, preset, **changes):
    """The settings of a named configuration, with changes; a short cosine warms up over a tenth of it."""
    settings = {setting.name: setting.default for setting in all_settings(recipe)} | recipe.presets[preset] | changes
    if settings["schedule"] == "cosine" and "warmup" not in changes and settings["warmup"] >= settings["steps"]:
        settings["warmup"] = settings["steps"] // 10
    return settings


def idle_rates(settings):
    """(names, remedy) of the rates that the schedule does not use."""
    names = {"cosine": ["factor"], "noam": ["lr", "min_lr"], "constant": ["factor", "min_lr"]}[settings["schedule"]]
    return [(names, f"--schedule is {settings['schedule']}; choose another one, or leave it out")]


def make_model(recipe):
    return recipe.model_class(**recipe.config(), rng=np.random.default_rng([recipe.settings["seed"], 1]))


def digest(text):
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def hold_out(pairs, seed):
    """(training, validation): a tenth of the pairs, at most HELD_OUT, validates; no source is in both."""
    order = np.random.default_rng([seed, 6]).permutation(len(pairs))
    chosen = {pairs[i][0] for i in order[:max(1, min(HELD_OUT, len(pairs) // 10))]}
    validation = [pair for pair in pairs if pair[0] in chosen]
    training = [pair for pair in pairs if pair[0] not in chosen]
    if not training:
        raise ValueError(f"{len(pairs)} pairs with {len(chosen)} sources are too few to learn from and to validate; "
                         "use longer files")
    return training, validation


def train_tokenizer(settings, text, whole):
    """A tokenizer learnt from the training text; the characters are those of the whole, so that none is unknown."""
    if settings["tokenizer"] == "char":
        return CharTokenizer(whole)
    if settings["tokenizer"] == "word":
        return WordTokenizer.train(text, settings["vocab_size"])
    merges = settings["vocab_size"] - 256
    with Progress(merges, "byte pairs", "merge") as progress:
        return BytePairTokenizer.train(text, merges, progress.advance)


def make_trainer(recipe, model):
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
    return Trainer(model, criterion, optimizer, schedule, s["clip"] or None, s["accumulate"], s["workers"])


def load_tokenizers(meta):
    return [tokenizer_from_json(tokens) for tokens in meta["tokenizers"]]
