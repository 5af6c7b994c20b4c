"""A masked language model on running text, and what the neighbours of a word alone would guess."""

import numpy as np

from ..data.batches import IGNORE
from ..data.bigrams import Bigrams
from ..data.masked import MaskedWindows, masked_accuracy
from ..data.reader import MASK
from ..data.text import builtin_text, read_text
from ..layers import CrossEntropyLoss
from ..models import MaskedLanguageModel
from .settings import paths, rate
from .encoder import EncoderRecipe, encoder_settings, measure, text_settings
from .parts import digest, training_settings

GENERATED = "the Python language reference"
DRAWS = 5
SHARE = 0.15                                    # of the tokens: BERT masks as many


class Masked(EncoderRecipe):
    """A MaskedLanguageModel on one text, or several behind one another."""

    name, title, model_class = "mlm", "a masked language model on a text", MaskedLanguageModel
    source = [paths("data", f"UTF-8 texts; if left out, {GENERATED}, which Python carries"),
              *text_settings("word", 2000, lower=True, max_len=32),
              rate("masked", SHARE, "share of the tokens that are masked in training", 1)]
    model = encoder_settings(128, 2, 512, 0.1, "pre", "gelu", "rotary")
    training = training_settings(batch_size=32, steps=2500, lr=3e-3, min_lr=1.5e-4, warmup=250, schedule="cosine",
                                 beta2=0.98, eps=1e-8, weight_decay=0.1, smoothing=0.0, scores=["accuracy"])
    presets = {"small": {}}

    def __init__(self, settings, tokenizers=None):
        self.settings = s = settings
        text = "\n".join(map(read_text, s["data"])) if s["data"] else builtin_text()
        self.read_with(tokenizers, [text[:len(text) * 9 // 10]])
        ids = self.reader.tokens.encode(self.reader.normal(text))
        self.windows = MaskedWindows(ids, s["max_len"], s["batch_size"], s["seed"], self.reader.vocab_size, s["masked"])
        self.batches, self.validation = self.windows.batch, held_out(self.reader, self.windows.held_out, s["seed"])
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
        ids = run.reader.tokens.encode(run.reader.normal("\n".join(map(read_text, data))))
        yield from found_words(run.model, held_out(run.reader, ids, run.settings["seed"]))

    def results(self, model):
        """Lines on the held-out tenth, masked several times: what the model finds, and what the neighbours would."""
        yield f"on the tenth of the text that was held out, masked {DRAWS} times:"
        bigrams = Bigrams(self.windows.train, self.reader.vocab_size)
        batches = [batch for n in range(DRAWS)
                   for batch in held_out(self.reader, self.windows.held_out, self.settings["seed"] + n)]
        yield from found_words(model, batches, bigrams)


def held_out(reader, ids, seed):
    """Batches of a text, masked as in BERT."""
    return MaskedWindows(ids, reader.max_len, 1, seed, reader.vocab_size, SHARE, held_out=ids).validation()


def found_words(model, batches, bigrams=None):
    """Lines: the words found where [MASK] stands, and at all places that were chosen, where some are left in sight."""
    guesses = {"the model": lambda ids, mask, segments, places: model.eval()(ids, mask, segments, places).argmax(-1)}
    if bigrams:
        for name, both in (("the word before", False), ("the words on both sides", True)):
            guesses[name] = lambda ids, mask, segments, places, both=both: in_sight(
                ids, places, bigrams.guess(ids, places, both))
    for where, chosen in ((" where [MASK] stands", only_masks(batches)), (" that were chosen, a fifth of them in sight or exchanged", batches)):
        count = sum(np.count_nonzero(targets != IGNORE) for _, targets in chosen)
        found = ", ".join(f"{name} {masked_accuracy(guess, chosen):.2%}" for name, guess in guesses.items())
        yield f"of {count:,} tokens{where}: {found}"


def in_sight(ids, places, guess):
    """The guess, and where no [MASK] stands the token that does."""
    seen = np.take_along_axis(ids, places, 1)
    return np.where(seen == MASK, guess, seen)


def only_masks(batches):
    """The batches, their targets ignored where no [MASK] stands."""
    return [(inputs, np.where(np.take_along_axis(inputs[0], inputs[3], 1) == MASK, targets, IGNORE))
            for inputs, targets in batches]
