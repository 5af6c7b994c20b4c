"""What the recipes share."""

import hashlib

from ..data import BytePairTokenizer, CharTokenizer, SpacedTokenizer, WordTokenizer
from ..models import INITS
from ..training.progress import Progress
from .settings import choice, count, rate


def training_settings(batch_size, steps, lr, min_lr, warmup, schedule, beta2, eps, weight_decay, smoothing,
                      scores=()):
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
        count("patience", 0, "stop after this many validations without a better --watch and keep the best weights, "
                             "0: never", 0),
        choice("watch", "loss", "the validation measure that --patience watches; among equal scores a lower loss is better",
               "loss", *scores),
        count("average", 0, "at the end write the mean of the weights of the last N saves beside the run, 0: no", 0),
        count("validate_every", 200, "steps from one validation to the next"),
        count("save_every", 100, "steps from one save to the next"),
        count("workers", None, "threads that each compute a part of every batch; if left out, chosen by size and number of "
              "cores"),
        count("seed", 1, "of everything random", 0)]


def init_setting(default):
    return choice("init", default, "where the initial weights come from; lesson 11 compares them", *INITS)


def digest(text):
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def train_tokenizer(settings, text, whole):
    """A tokenizer learned from the training text; the characters are those of the whole, so that none is unknown."""
    if settings["tokenizer"] == "char":
        return CharTokenizer(whole)
    if settings["tokenizer"] == "word":
        Words = SpacedTokenizer if settings.get("reading") == "keras" else WordTokenizer
        return Words.train(text, settings["vocab_size"])
    merges = settings["vocab_size"] - 256
    with Progress(merges, "byte pairs", "merge") as progress:
        return BytePairTokenizer.train(text, merges, progress.advance)
