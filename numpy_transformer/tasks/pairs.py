"""What the tasks of an encoder-decoder have in common."""

from ..data import PAD, limit_length, marks
from ..layers import CrossEntropyLoss
from ..models import EncoderDecoder
from . import model_settings as model
from .language_model import CHARACTERS_NEED_NO_SIZE
from .settings import make_training_settings, switch
from .task import Task, sha256

# A configuration for generated pairs of short texts
SMALL = dict(tokenizer="char", d_model=64, num_layers=1, d_ff=256, max_len=32, dropout=0.0, schedule="cosine",
             lr=3e-3, min_lr=1.5e-4, warmup=100, weight_decay=1.0, eps=1e-8, steps=2000)
# The model of Vaswani et al. 2017, which was trained without clipping
PAPER = dict(norm="post", tie=True, clip=0.0)


class PairsTask(Task):
    """Trains an EncoderDecoder on pairs of source and target texts."""

    model_class = EncoderDecoder
    model_settings = [
        *model.sizes(d_model=128, num_layers=3, d_ff=512,
                     num_layers_help="number of blocks in the encoder, and in the decoder"),
        model.dropout(0.1), model.norm(), model.activation("relu"),
        model.positions("sinusoidal"),
        switch("tie", False, "share one tokenizer and one embedding matrix between source, target and output"),
        model.init("xavier"), *model.start_settings()]
    training_settings = make_training_settings(
        batch_size=64, steps=4000, lr=1e-3, min_lr=1e-4, warmup=1000, schedule="noam", beta2=0.98, eps=1e-9,
        weight_decay=0.0, label_smoothing=0.1)
    sizes = "d_model", "num_heads", "num_layers", "d_ff", "norm", "activation", "positions", "tie"

    @classmethod
    def unused_settings(cls, settings):
        unused = super().unused_settings(settings)
        if cls.generates_pairs(settings):
            unused.append((["tokenizer", "vocab_size", "too_long"],
                           "generated pairs have their own tokenizer, and none is too long"))
        elif settings["tokenizer"] == "char":
            unused.append(CHARACTERS_NEED_NO_SIZE)
        return unused

    @staticmethod
    def generates_pairs(settings):
        """True if no file is read."""
        raise NotImplementedError

    def limit_lengths(self, training, validation):
        """Returns both lists of pairs, without texts of more than max_len tokens (or cut); the report says how many."""
        s = self.settings
        training, report = limit_length(training, *self.tokenizers, s["max_len"], s["too_long"])
        validation, held_out = limit_length(validation, *self.tokenizers, s["max_len"], s["too_long"])
        self.report += report + [f"validation set: {line}" for line in held_out]
        return training, validation

    def train_tokenizers(self, training, pairs):
        """Returns (source, target) tokenizers; one and the same with the setting tie."""
        learned, whole = (["\n".join(side) for side in zip(*part)] for part in (training, pairs))
        if self.settings["tie"]:
            return [self.train_tokenizer("\n".join(learned), "\n".join(whole))] * 2
        return [self.train_tokenizer(*texts) for texts in zip(learned, whole)]

    def model_config(self):
        s = self.settings
        if self.base:
            return self.base_config()
        source, target = (tokens.vocab_size + marks(tokens).first for tokens in self.tokenizers)
        return {"src_vocab": source, "tgt_vocab": target, "tie_weights": s["tie"], "pad_id": PAD,
                **{name: s[name] for name in ("d_model", "num_heads", "num_layers", "d_ff", "dropout", "max_len",
                                              "norm", "positions", "activation", "init")}}

    def make_criterion(self, label_smoothing=0.0):
        return CrossEntropyLoss(label_smoothing, ignore_id=PAD)


def identify(pairs):
    """Returns the fingerprint of a list of pairs."""
    return sha256("\n".join(map("\t".join, pairs)))
