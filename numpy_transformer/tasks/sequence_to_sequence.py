"""An encoder-decoder on pairs of texts."""

import numpy as np

from ..data import EOS, PAD, GENERATED_PAIRS, Pairs, limit_length, read_pairs
from ..layers import CrossEntropyLoss
from ..layers.feed_forward import ACTIVATIONS
from ..models import EncoderDecoder
from .settings import Setting, choice, count, rate, switch
from .language_model import LanguageModel
from .parts import digest, init_setting, train_tokenizer, training_settings

HELD_OUT = 1000                                 # pairs of two files that validate


class SequenceToSequence:
    """An EncoderDecoder on pairs of texts."""

    name, title, model_class = "seq2seq", "an encoder-decoder on pairs of texts", EncoderDecoder
    source = [
        choice("task", None, "a generated task: dates are read as 1999-03-03, letters are copied, reversed or sorted",
               *GENERATED_PAIRS),
        Setting("source", None, "UTF-8 text, a sentence a line"),
        Setting("target", None, "its translation, line by line"),
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
        switch("tie", False, "one tokenizer and one matrix for source, target and output"),
        init_setting("xavier")]
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
            self.task = GENERATED_PAIRS[s["task"]](s["seed"])
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
        learned, whole = (list(map("\n".join, zip(*part))) for part in (training, pairs))
        if self.settings["tie"]:
            return [train_tokenizer(self.settings, "\n".join(learned), "\n".join(whole))] * 2
        return [train_tokenizer(self.settings, *texts) for texts in zip(learned, whole)]

    def config(self):
        s = self.settings
        source, target = (tokens.vocab_size + EOS + 1 for tokens in self.tokenizers)
        return {"src_vocab": source, "tgt_vocab": target, "tie_weights": s["tie"], "pad_id": PAD,
                **{name: s[name] for name in ("d_model", "num_heads", "num_layers", "d_ff", "dropout", "max_len",
                                              "norm", "positions", "activation", "init")}}

    def criterion(self, smoothing=0.0):
        return CrossEntropyLoss(smoothing, ignore_id=PAD)

    validate, results = LanguageModel.validate, LanguageModel.results


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
