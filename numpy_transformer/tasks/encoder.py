"""What the tasks of encoder-only models have in common."""

import math

import numpy as np

from ..data.batches import LabeledTexts
from ..data.pretrained_reader import PretrainedReader
from ..data.pretrained_tokenizer import PretrainedTokenizer
from ..data.reader import SPECIAL, KerasReader, TextReader
from ..models import MaskedLanguageModel, SequenceClassifier, TextEncoder, TokenClassifier
from ..models.parallel import in_parallel
from ..training.evaluation import evaluate_accuracy
from . import model_settings as model
from .options import without_head
from .settings import SettingError, choice, count_setting, switch
from .task import Task

BATCH = 16                                      # texts computed together outside training, on one core
CLASSES = {"mlm": MaskedLanguageModel, "encoder": TextEncoder, "classifier": SequenceClassifier, "tagger": TokenClassifier}
ENCODERS = tuple(CLASSES)                       # kinds of run

EPOCHS = count_setting("epochs", None, "passes over the training set, instead of $steps; the model is validated after each, "
                       "unless $validate_every is given")


def encoder_settings(d_model, num_layers, d_ff, dropout, activation, positions):
    return [*model.sizes(d_model, num_layers, d_ff), model.dropout(dropout), model.norm(), model.activation(activation),
            model.positions(positions), model.init("xavier")]


def text_settings(tokenizer, vocab_size, lower, max_len):
    return [
        choice("tokenizer", tokenizer, "what a token is: a byte pair or a word", "bpe", "word"),
        count_setting("vocab_size", vocab_size, "vocabulary size without [PAD], but with [CLS], [SEP] and [MASK]", 300),
        switch("lower", lower, "lower-case the words, and keep only words and sentence punctuation"),
        count_setting("max_len", max_len, "length of the longest text in tokens, including [CLS] and [SEP]", 5)]


class EncoderTask(Task):
    """Trains an encoder-only model on texts that a TextReader turns into ids."""

    reading = "tokenizer", "vocab_size", "lower"
    sizes = "d_model", "num_heads", "num_layers", "d_ff", "norm", "activation", "positions"

    @classmethod
    def make_reader(cls, settings, tokenizer):
        if isinstance(tokenizer, PretrainedTokenizer):
            return PretrainedReader(tokenizer, settings["max_len"])
        reader = KerasReader if settings.get("reading") == "keras" else TextReader
        return reader(tokenizer, settings["max_len"], settings["lower"])

    def set_reader(self, tokenizers, texts):
        """Makes the reader; without tokenizers trains one on the texts."""
        if not tokenizers:
            normalize = self.make_reader(self.settings, None).normalize
            text = "".join(map(normalize, texts))
            if not text:
                raise SettingError("the training texts contain no word; name others with $data")
            tokenizers = [self.train_tokenizer(text, text)]
        self.tokenizers = tokenizers
        self.reader = self.make_reader(self.settings, tokenizers[0])

    def tokenizer_size(self):
        return self.settings["vocab_size"] - SPECIAL + 1

    def count_steps(self):
        """Turns epochs into steps."""
        s = self.settings
        if s["epochs"]:
            batches = len(self.batches)
            s["validate_every"] = s["validate_every"] or math.ceil(batches / s["accumulate"])
            s["steps"] = math.ceil(s["epochs"] * batches / s["accumulate"])

    def model_config(self):
        if self.base:
            return self.base_config()
        return {"vocab_size": self.reader.vocab_size, "pad_id": self.reader.pad_id, "num_segments": 0,
                **{name: self.settings[name] for name in (*self.sizes, "dropout", "max_len", "init")}}

    @classmethod
    def base_options(cls, base):
        """Returns all options of the model of the run that is the base, without those of a head of another kind."""
        if base["kind"] == cls.name:
            return super().base_options(base)
        return without_head(CLASSES[base["kind"]], base["model"], TextEncoder)

    @classmethod
    def published_settings(cls, options):
        return {"lower": False}                 # the tokenizer does it, or does not

    def weights_taken_over(self, state, run):
        """Returns all weights; but the output layer only if it has been trained for the same labels."""
        if self.labels is None or run.kind == self.name and run.labels == self.labels:
            return state
        return {name: array for name, array in state.items() if not name.startswith("output.")}

    def make_validation(self, model):
        """Returns a function that measures the loss and the accuracy on the validation set."""
        return lambda: evaluate_accuracy(model, self.make_criterion(), self.validation)


def apply_in_order(function, model, reader, rows):
    """Returns the function(model, ids) of texts as ids, computed in batches of similar length; (N, ...), in the order of the
    rows.
    """
    model.eval()
    width = None if model.mask_padding else reader.max_len
    batches = LabeledTexts(rows, range(len(rows)), BATCH, 0, width=width, pad_id=reader.pad_id).batches()
    results = np.concatenate(in_parallel(function, model, [inputs for inputs, _ in batches]))
    numbers = np.concatenate([numbers for _, numbers in batches])
    return results[np.argsort(numbers)]


def describe_cuts(reader, count):
    """Returns [a sentence] if some of the `count` texts that were read since the last call were too long, else []."""
    cut, reader.num_truncated = reader.num_truncated, 0
    if not cut:
        return []
    return [f"cut {cut:,} of {count:,} texts after their first {reader.max_len} tokens, including {reader.frame_names} "
            f"({reader.limit})"]
