"""A language model on one text."""

from ..data import TextWindows, builtin_text, read_text
from ..layers import CrossEntropyLoss
from ..layers.feed_forward import ACTIVATIONS
from ..models import CausalLanguageModel
from ..training.trainer import evaluate
from .settings import Setting, choice, count, rate, switch
from .parts import digest, init_setting, train_tokenizer, training_settings


class LanguageModel:
    """A CausalLanguageModel on one text."""

    name, title, model_class = "lm", "a language model on a text", CausalLanguageModel
    source = [
        Setting("text", None, "UTF-8 text; if left out, the language reference that Python carries"),
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
        switch("tie", True, "the output is the transposed embedding"),
        init_setting("gpt2")]
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
                                              "norm_layer", "activation", "positions", "num_kv_heads", "bias", "init")}}

    def criterion(self, smoothing=0.0):
        return CrossEntropyLoss(smoothing)

    def validate(self, model):
        """A function that measures the loss as `evaluate` does, without label smoothing."""
        return lambda: evaluate(model, self.criterion(), self.validation)

    def results(self, model):
        """Lines on what the model reached, beside its loss."""
        return []
