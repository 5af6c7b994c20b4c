"""The task of a language model: predicting the next token of one text."""

import numpy as np

from ..data import TextWindows, builtin_text, read_text
from ..data.stories import story
from ..layers import ZLoss
from ..layers.normalization import NORMS
from ..models import CausalLanguageModel
from ..models.current_models import DECODERS
from ..models.initialization import initialize
from . import model_settings as model
from .settings import FINE_TUNE, LORA, Setting, choice, count_setting, make_training_settings, rate_setting, switch
from .task import Task, sha256

PRESET_SIZES = "d_model", "num_heads", "num_layers", "d_ff", "num_kv_heads"
OF_SOME_PRESETS = "window", "num_experts", "experts_per_token"
DECIDED_BY_PRESET = ("norm", "norm_layer", "activation", "positions", "attention", "bias", "tie", "dropout", "num_kv_heads")
CHARACTERS_NEED_NO_SIZE = (["vocab_size"], "a character tokenizer has one token per character; use $tokenizer bpe or word")


class LanguageModelTask(Task):
    """Trains a CausalLanguageModel on the first nine tenths of a text and validates it on the last tenth."""

    name, title, model_class = "lm", "a language model on a text", CausalLanguageModel
    data_settings = [
        Setting("text", None, "UTF-8 text file; if left out, the language reference that comes with Python"),
        count_setting("stories", None, "number of small generated stories to train on instead of a text"),
        choice("tokenizer", "char", "what a token is: a character, a byte pair or a word", "char", "bpe", "word"),
        count_setting("vocab_size", 1256, "vocabulary size of bpe (256 bytes and the merges) and word", 258)]
    model_settings = [
        Setting("preset", None, "the architecture of a current model, with the sizes of this run", choices=tuple(DECODERS), metavar="NAME"),
        *model.sizes(d_model=96, num_layers=3, d_ff=256),
        count_setting("context", 64, "length of a training sequence, and the longest that the model reads"),
        count_setting("num_kv_heads", None, "number of key and value heads; fewer than $num_heads makes grouped queries"),
        count_setting("window", None, "tokens that a block with a sliding window sees, for a $preset that has such blocks; a "
                      "quarter of $context if left out"),
        count_setting("num_experts", None, "number of experts in a block, for a $preset that has experts; 4 if left out"),
        count_setting("experts_per_token", None, "number of these experts that each token uses; 2 if left out"),
        model.dropout(0.0), model.norm(),
        choice("norm_layer", "rms", "LayerNorm or RMSNorm", *NORMS),
        model.activation("swiglu"),
        model.positions("rotary"),
        model.attention("plain"),
        switch("bias", False, "biases in linear layers and in LayerNorm"),
        switch("tie", True, "use the transposed embedding as the output layer"),
        model.init("gpt2"), *model.start_settings()]
    training_settings = [*make_training_settings(
        batch_size=8, steps=800, lr=5e-3, min_lr=2.5e-4, warmup=80, schedule="cosine", beta2=0.98, eps=1e-8,
        weight_decay=0.1, label_smoothing=0.0),
        rate_setting("z_loss", 0.0, "adds this number times the mean of the squared log Z to the loss, as in PaLM, which has 1e-4")]
    configurations = {"small": {}, "stories": dict(
        stories=20_000, tokenizer="word", context=160, init="xavier", batch_size=16, steps=4000, lr=4e-3, min_lr=2e-4,
        warmup=400, validate_every=500), "nanogpt-cpu": dict(
        d_model=128, num_layers=4, d_ff=512, norm_layer="layer", activation="gelu", positions="learned", batch_size=12,
        steps=2000, lr=1e-3, min_lr=1e-4, warmup=100, beta2=0.99, validate_every=500),
        "fine-tune": FINE_TUNE | dict(context=128, batch_size=8, steps=500),
        "lora": LORA | dict(context=128, batch_size=8, steps=500)}
    starts_from = ("lm",)
    sizes = ("d_model", "num_heads", "num_layers", "d_ff", "norm", "norm_layer", "activation", "positions", "attention",
             "num_kv_heads", "bias", "tie")
    length = "context"

    @classmethod
    def unused_settings(cls, settings):
        unused = super().unused_settings(settings)
        unused += unused_sizes(settings.get("preset"))          # runs of earlier versions do not have it
        if settings.get("preset"):
            decided = [name for name in DECIDED_BY_PRESET if name not in DECODERS[settings["preset"]].sizes]
            unused.append((decided, "$preset decides it; leave one of the two out"))
            if settings.get("pretrained"):
                unused.append((["preset"], "$pretrained decides the architecture; leave one of the two out"))
        if settings["text"] is not None:
            unused.append((["stories"], "$text is the text to train on; leave one of the two out"))
        return [*unused, CHARACTERS_NEED_NO_SIZE] if settings["tokenizer"] == "char" else unused

    def __init__(self, settings, tokenizers=None, base=None):
        self.settings = settings
        self.base = base
        text, source = read_corpus(settings)
        self.corpus = {"sha256": sha256(text)}
        self.tokenizers = tokenizers or [self.train_tokenizer(text[:len(text) * 9 // 10], text)]
        ids = self.tokenizers[0].encode(text)
        self.windows = TextWindows(ids, settings["context"], settings["batch_size"], settings["seed"],
                                   self.tokenizers[0].vocab_size)
        self.batches = self.windows.batch
        self.validation = self.windows.validation()
        self.report = []
        self.description = (f"{len(text):,} characters of {source}, "
                            f"{len(ids):,} tokens, of which nine tenths are the training set")

    def training_criterion(self):
        criterion = super().training_criterion()
        coefficient = self.settings.get("z_loss")           # older runs have no such setting
        return ZLoss(criterion, coefficient) if coefficient else criterion

    def model_config(self):
        s = self.settings
        if self.base:
            return self.base_config()
        if s.get("preset"):
            return self.checkpoint_of_preset()[1].options | {"init": s["init"]}
        return {"vocab_size": self.tokenizers[0].vocab_size, "max_len": s["context"], "tie_weights": s["tie"],
                **{name: s[name] for name in ("d_model", "num_heads", "num_layers", "d_ff", "dropout", "norm",
                                              "norm_layer", "activation", "positions", "attention", "num_kv_heads", "bias",
                                              "init")}}

    @property
    def origin(self):
        if self.base or not self.settings.get("preset"):
            return super().origin
        origin = self.checkpoint_of_preset()[1]
        return {"family": origin.family, "config": origin.config, "files": {}}

    def make_model(self):
        """The parts that the family of a preset has put in get the initial weights that `init` names, too."""
        new = super().make_model()
        if self.settings.get("preset") and not self.base:
            initialize(new, self.settings["init"], np.random.default_rng([self.settings["seed"], 13]))
        return new

    def checkpoint_of_preset(self):
        """Returns (model class, Origin) of the preset with the sizes of this run."""
        from ..pretrained import checkpoint_of_preset  # only presets and published models need it

        s = self.settings
        sizes = {"vocab_size": self.tokenizers[0].vocab_size, "max_len": s["context"], "window": max(1, s["context"] // 4)}
        sizes |= {name: s[name] for name in (*PRESET_SIZES, *OF_SOME_PRESETS) if s.get(name) is not None}
        known = DECODERS[s["preset"]].sizes
        return checkpoint_of_preset(s["preset"], **{name: size for name, size in sizes.items() if name in known})


def unused_sizes(preset):
    """Returns a list of (names, remedy) of the sizes that only some presets have, for a run of this preset or of none."""
    unused = []
    for name in OF_SOME_PRESETS:
        having = [other for other, entry in DECODERS.items() if name in entry.sizes]
        if preset is None:
            unused.append(([name], f"it is for a $preset that has it; give $preset {' or '.join(having)}"))
        elif preset not in having:
            unused.append(([name], f"{preset} has none; leave it out, or choose $preset {' or '.join(having)}"))
    return unused


def read_corpus(settings):
    """Returns (the text to train on, what it is): a file, generated stories with one on each line, or the built-in text."""
    if settings["text"] is not None:
        return read_text(settings["text"]), settings["text"]
    count = settings.get("stories")             # runs of earlier versions do not have it
    if count is None:
        return builtin_text(), "the Python language reference"
    rng = np.random.default_rng([settings["seed"], 12])
    return "".join(f"{story(rng).text}\n" for _ in range(count)), f"{count:,} generated stories"
