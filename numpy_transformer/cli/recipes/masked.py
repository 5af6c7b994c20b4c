"""A masked language model on running text, and what the neighbours of a word alone would guess."""

import numpy as np

from ...data.batches import IGNORE
from ...data.bigrams import Bigrams
from ...data.masked import MaskedWindows, masked_accuracy
from ...data.reader import normal
from ...data.text import builtin_text, read_text
from ...layers import CrossEntropyLoss
from ...models import MaskedLanguageModel
from ..settings import paths, rate
from .encoder import EncoderRecipe, encoder_settings, measure, text_settings
from .parts import digest, training_settings

GENERATED = "the Python language reference"
SHARE = 0.15                                    # of the tokens: BERT masks as many


class Masked(EncoderRecipe):
    """A MaskedLanguageModel on one text, or several behind one another."""

    name, title, model_class = "mlm", "a masked language model on a text", MaskedLanguageModel
    source = [paths("data", f"UTF-8 texts; if left out, {GENERATED}, which Python carries"),
              *text_settings("word", 2000, lower=True, max_len=32),
              rate("masked", SHARE, "share of the tokens that are masked in training", 1)]
    model = encoder_settings(128, 2, 512, 0.1, "pre", "gelu", "rotary")
    training = training_settings(batch_size=32, steps=1600, lr=3e-3, min_lr=1.5e-4, warmup=160, schedule="cosine",
                                 beta2=0.98, eps=1e-8, weight_decay=0.1, smoothing=0.0)
    presets = {"small": {}}

    def __init__(self, settings, tokenizers=None):
        self.settings = s = settings
        text = "\n".join(map(read_text, s["data"])) if s["data"] else builtin_text()
        self.read_with(tokenizers, [text[:len(text) * 9 // 10]])
        ids = self.reader.tokens.encode(normal(text, s["lower"]))
        self.windows = MaskedWindows(ids, s["max_len"], s["batch_size"], s["seed"], self.reader.vocab_size, s["masked"])
        self.batches, self.validation = self.windows.batch, held_out(self.reader, ids, s["seed"])
        self.report, self.corpus = [], {"sha256": digest(text)}
        self.description = (f"{len(text):,} characters of {' and '.join(s['data'] or [GENERATED])}, {len(ids):,} "
                            f"tokens of {self.reader.tokens.vocab_size:,} kinds, nine tenths to learn from")

    def config(self):
        return super().config() | {"num_segments": 2}

    def criterion(self, smoothing=0.0):
        return CrossEntropyLoss(smoothing, ignore_id=IGNORE)

    def validate(self, model):
        """A function that measures the loss, and how many masked tokens are found."""
        return lambda: measure(model, self.criterion(), self.validation)

    @staticmethod
    def measured(run, data):
        """Lines on other texts, all of them."""
        ids = run.reader.tokens.encode(normal("\n".join(map(read_text, data)), run.reader.lower))
        yield from found_words(run.model, held_out(run.reader, ids, run.settings["seed"], whole=True))

    def results(self, model):
        """Lines on the held-out tenth: masked tokens found, by the model and by the words beside them."""
        bigrams = Bigrams(self.windows.train, self.reader.vocab_size)
        left, both = (masked_accuracy(lambda ids, mask, segments, places: bigrams.guess(ids, places, both),
                                      self.validation) for both in (False, True))
        yield "on the tenth of the text that was held out:"
        yield from found_words(model, self.validation)
        yield f"bigrams find {left:.2%} by the word before, {both:.2%} by the words on both sides"


def held_out(reader, ids, seed, whole=False):
    """Batches of the last tenth of a text, or of all of it, masked as in BERT."""
    return MaskedWindows(ids, reader.max_len, 1, seed, reader.vocab_size, SHARE, ids if whole else None).validation()


def found_words(model, batches):
    found = masked_accuracy(lambda *inputs: model.eval()(*inputs).argmax(-1), batches)
    count = sum(np.count_nonzero(targets != IGNORE) for _, targets in batches)
    yield f"of {count:,} masked tokens the model finds {found:.2%}"
