"""What the recipes of the encoder-only models share."""

import numpy as np

from ..data.batches import PAD, LabeledTexts
from ..data.reader import SPECIAL, KerasReader, TextReader
from ..layers.feed_forward import ACTIVATIONS
from .settings import Setting, choice, count, rate, switch
from .language_model import LanguageModel
from .parts import init_setting, train_tokenizer


BATCH = 64                                      # texts read together where nothing is learned


def encoder_settings(d_model, num_layers, d_ff, dropout, norm, activation, positions):
    return [
        count("d_model", d_model, "width"), count("num_heads", 4, "attention heads"),
        count("num_layers", num_layers, "blocks"), count("d_ff", d_ff, "width of the feed-forward layers"),
        rate("dropout", dropout, "share of activations dropped in training", 1),
        choice("norm", norm, "before or behind each sublayer", "pre", "post"),
        choice("activation", activation, "of the feed-forward layers", *ACTIVATIONS, "swiglu"),
        choice("positions", positions, "how the model knows the order", "sinusoidal", "learned", "rotary"),
        init_setting("xavier")]


def text_settings(tokenizer, vocab_size, lower, max_len):
    return [
        choice("tokenizer", tokenizer, "what a token is", "bpe", "word"),
        count("vocab_size", vocab_size, "ids beside that of padding: tokens, [CLS], [SEP] and [MASK]", 300),
        switch("lower", lower, "read words in lower case, and of the rest the punctuation of sentences"),
        count("max_len", max_len, "longest text in tokens, [CLS] and [SEP] included", 5)]


EPOCHS = count("epochs", None, "times that each text is learned from, instead of --steps; validates after each, if "
               "--validate-every is not given")
PRETRAINED = Setting("pretrained", None, "begin with the weights, tokens and sizes of this run of `train mlm`")


class EncoderRecipe:
    """The settings of the reader and the encoder as objects. `labels`: the names of the classes, by their ids."""

    config_help, preset = LanguageModel.config_help, staticmethod(LanguageModel.preset)
    decided = ("tokenizer", "vocab_size", "lower", "d_model", "num_heads", "num_layers", "d_ff", "norm", "activation",
               "positions")                     # by a pretrained model
    labels = None

    @staticmethod
    def idle(settings):
        return []

    @classmethod
    def make_reader(cls, settings, tokenizer):
        Reader = KerasReader if settings.get("reading") == "keras" else TextReader
        return Reader(tokenizer, settings["max_len"], settings["lower"])

    def read_with(self, tokenizers, texts):
        """Make the reader; without tokenizers learn one from the texts."""
        s = self.settings
        if not tokenizers:
            text = "".join(map(self.make_reader(s, None).normal, texts))
            if not text:
                raise ValueError("there is no word in the texts to learn from; name others with --data")
            tokenizers = [train_tokenizer(s | {"vocab_size": s["vocab_size"] - SPECIAL + 1}, text, text)]
        self.tokenizers, self.reader = tokenizers, self.make_reader(s, tokenizers[0])

    def count_steps(self):
        """--epochs in steps."""
        s = self.settings
        if s["epochs"]:
            s["validate_every"] = s["validate_every"] or -(-len(self.batches) // s["accumulate"])
            s["steps"] = -(-s["epochs"] * len(self.batches) // s["accumulate"])

    def config(self):
        s = self.settings
        return {"vocab_size": self.reader.vocab_size, "pad_id": PAD, "num_segments": 2 if s.get("pretrained") else 0,
                **{name: s[name] for name in ("d_model", "num_heads", "num_layers", "d_ff", "dropout", "max_len",
                                              "norm", "activation", "positions", "init")}}


def measure(model, criterion, batches):
    """{"validation": mean loss, "accuracy": share of right classes among the counted targets}, with dropout off."""
    model.eval()
    criterion.eval()
    loss = right = total = 0
    for inputs, targets in batches:
        logits = model(*inputs)
        loss += float(criterion(logits, targets)) * criterion.count
        found = logits > 0 if logits.ndim == targets.ndim else logits.argmax(-1)        # one logit, or one a class
        right += np.count_nonzero(found == targets)
        total += criterion.count
    return {"validation": loss / total, "accuracy": right / total}


def in_order(model, reader, rows, answer):
    """answer(ids) of texts as ids, read in batches of similar length; (N, ...), in the order of the rows."""
    model.eval()
    width = None if model.mask_padding else reader.max_len
    batches = LabeledTexts(rows, range(len(rows)), BATCH, 0, width=width).batches()
    found = np.concatenate([answer(*inputs) for inputs, _ in batches])
    return found[np.argsort(np.concatenate([places for _, places in batches]))]


def said_of_cuts(reader, count):
    """[a sentence] if texts were too long, once for all that were read since the last call."""
    cut, reader.cut = reader.cut, 0
    if not cut:
        return []
    signs = "[CLS] and [SEP]" if reader.end else "[CLS]"
    return [f"cut {cut:,} of {count:,} texts behind their first {reader.max_len} tokens, {signs} included (--max-len)"]
