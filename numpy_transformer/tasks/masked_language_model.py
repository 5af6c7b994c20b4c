"""The task of a masked language model: filling in the words that were masked."""

import numpy as np

from ..data.batches import IGNORE
from ..data.bigrams import Bigrams
from ..data.masked import MaskedWindows, masked_accuracy
from ..data.text import builtin_text, read_text
from ..layers import CrossEntropyLoss
from ..models import MaskedLanguageModel
from .encoder import EncoderTask, encoder_settings, text_settings
from .model_settings import start_settings
from .settings import FINE_TUNE, LORA, make_training_settings, paths, rate_setting
from .task import sha256

GENERATED = "the Python language reference"
DRAWS = 5                                       # number of random maskings of the held-out text for the results
SHARE = 0.15                                    # of the tokens are predicted, as in BERT


class MaskedLanguageModelTask(EncoderTask):
    """Trains a MaskedLanguageModel on one text, or on several one after another."""

    name, title, model_class = "mlm", "a masked language model on a text", MaskedLanguageModel
    data_settings = [
        paths("data", f"UTF-8 text files; if left out, {GENERATED} that comes with Python"),
        *text_settings("word", 2000, lower=True, max_len=32),
        rate_setting("masked", SHARE, "share of the tokens that are predicted in training", 1)]
    model_settings = [*encoder_settings(128, 2, 512, 0.1, "gelu", "rotary"), *start_settings()]
    training_settings = make_training_settings(
        batch_size=32, steps=2500, lr=3e-3, min_lr=1.5e-4, warmup=250, schedule="cosine", beta2=0.98, eps=1e-8,
        weight_decay=0.1, label_smoothing=0.0, metrics=["accuracy"])
    configurations = {"small": {}, "fine-tune": FINE_TUNE | dict(max_len=128, steps=1000),
                      "lora": LORA | dict(max_len=128, steps=1000)}
    starts_from = ("mlm",)

    def __init__(self, settings, tokenizers=None, base=None):
        self.settings = s = settings
        self.base = base
        text = "\n".join(map(read_text, s["data"])) if s["data"] else builtin_text()
        self.set_reader(tokenizers, [text[:len(text) * 9 // 10]])
        ids = self.reader.tokens.encode(self.reader.normalize(text))
        num_segments = self.model_config()["num_segments"]
        self.windows = MaskedWindows(ids, s["max_len"], s["batch_size"], s["seed"], self.reader.vocab_size, s["masked"],
                                     reader=self.reader, two_segments=num_segments > 1)
        self.batches = self.windows.batch
        self.validation = mask_text(self.reader, self.windows.held_out, s["seed"], num_segments)
        self.report, self.corpus = [], {"sha256": sha256(text)}
        self.description = (f"{len(text):,} characters of {' and '.join(s['data'] or [GENERATED])}, {len(ids):,} "
                            f"tokens of {self.reader.tokens.vocab_size:,} kinds, of which nine tenths are the training set")

    def model_config(self):
        config = super().model_config()
        return config if self.base else config | {"num_segments": 2}

    def make_criterion(self, label_smoothing=0.0):
        return CrossEntropyLoss(label_smoothing, ignore_id=IGNORE)

    def results(self, model):
        """Lines on the held-out tenth, masked several times: the accuracy of the model and of bigram baselines."""
        yield f"on the held-out tenth of the text, masked {DRAWS} times:"
        bigrams = Bigrams(self.windows.train, self.reader.vocab_size, self.reader)
        batches = [batch for n in range(DRAWS)
                   for batch in mask_text(self.reader, self.windows.held_out, self.settings["seed"] + n,
                                          self.model_config()["num_segments"])]
        yield from describe_accuracy(model, self.reader, batches, bigrams)

    @staticmethod
    def evaluate_files(run, data):
        """Lines on other texts."""
        text = "\n".join(map(read_text, data))
        ids = run.reader.tokens.encode(run.reader.normalize(text))
        batches = mask_text(run.reader, ids, run.settings["seed"], run.meta["model"].get("num_segments", 2))
        yield from describe_accuracy(run.model, run.reader, batches)


def mask_text(reader, ids, seed, num_segments=2):
    """Batches of a text, masked as in BERT, for a model with that number of segments."""
    windows = MaskedWindows(ids, reader.max_len, 1, seed, reader.vocab_size, SHARE, ids, reader, num_segments > 1)
    return windows.validation()


def describe_accuracy(model, reader, batches, bigrams=None):
    """Lines: the accuracy at the positions of [MASK], and at all chosen positions, a fifth of which shows a word."""
    guesses = {"the model": lambda ids, mask, segments, positions:
               model.eval()(ids, mask, segments, positions).argmax(-1)}
    if bigrams:
        guesses["the word before"] = bigram_guess(bigrams, reader.mask_id, both=False)
        guesses["the words on both sides"] = bigram_guess(bigrams, reader.mask_id, both=True)
    for where, chosen in (("masked by [MASK]", only_masks(batches, reader.mask_id)),
                          ("chosen, of which a fifth is left unchanged or replaced by another word", batches)):
        count = sum(np.count_nonzero(targets != IGNORE) for _, targets in chosen)
        accuracies = ", ".join(f"{name} {masked_accuracy(guess, chosen):.2%}" for name, guess in guesses.items())
        yield f"accuracy on {count:,} tokens {where}: {accuracies}"


def bigram_guess(bigrams, mask_id, both):
    """Returns a baseline: the most likely word given its neighbors at [MASK], and the word that is shown elsewhere."""
    def guess(ids, mask, segments, positions):
        shown = np.take_along_axis(ids, positions, 1)
        return np.where(shown == mask_id, bigrams.guess(ids, positions, both), shown)
    return guess


def only_masks(batches, mask_id):
    """Returns the batches, with the targets ignored where the input is not [MASK]."""
    return [(inputs, np.where(np.take_along_axis(inputs[0], inputs[3], 1) == mask_id, targets, IGNORE))
            for inputs, targets in batches]
