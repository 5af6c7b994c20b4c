"""The configurations of the benchmark: a model and a batch of random ids for each."""

from dataclasses import dataclass

import numpy as np

from ..layers import CrossEntropyLoss
from ..models import CausalLanguageModel, EncoderDecoder, SequenceClassifier, TextEncoder


@dataclass(frozen=True)
class Config:
    """The sizes of one model, and what is timed.

    `layers` is the number of blocks in each stack; an encoder-decoder has two stacks. `jobs` are names in JOBS.
    """

    name: str
    kind: str                                   # "lm", "seq2seq", "classifier" or "encoder"
    layers: int
    heads: int
    d_model: int
    length: int
    batch: int
    vocab: int
    dropout: float = 0.0
    bias: bool = False                          # of a language model; the other kinds have biases
    max_len: int = 0                            # 0: length
    jobs: tuple = ("step",)

    @property
    def d_ff(self):
        return 4 * self.d_model

    @property
    def tokens(self):
        return self.batch * self.length

    @property
    def up_shapes(self):
        """The shapes of the two matrices that the first matmul of a feed-forward layer multiplies."""
        return (self.tokens, self.d_model), (self.d_model, self.d_ff)

    def model(self, rng=0):
        sizes = dict(d_model=self.d_model, num_heads=self.heads, num_layers=self.layers, d_ff=self.d_ff,
                     dropout=self.dropout, rng=rng)
        if self.kind == "lm":
            return CausalLanguageModel(self.vocab, max_len=self.max_len or self.length, activation="gelu_tanh",
                                       bias=self.bias, **sizes)
        if self.kind == "seq2seq":
            return EncoderDecoder(self.vocab, self.vocab, max_len=self.length, pad_id=None, **sizes)
        if self.kind == "encoder":              # a sentence encoder with BERT's layers
            return TextEncoder(self.vocab, max_len=self.max_len or self.length, activation="gelu", eps=1e-12,
                               positions="learned", num_segments=2, scale_embedding=False, embedding_norm=True,
                               normalize=True, **sizes)
        return SequenceClassifier(self.vocab, num_classes=2, max_len=self.length, pad_id=None, **sizes)

    def batch_of_ids(self, rng=0):
        """Returns (inputs, targets) as a Trainer takes them; an encoder has no targets, but texts of several lengths."""
        rng = np.random.default_rng(rng)
        if self.kind == "encoder":
            ids = rng.integers(1, self.vocab, (self.batch, self.length))
            lengths = rng.integers(self.length // 2, self.length, self.batch, endpoint=True)
            return (ids * (np.arange(self.length) < lengths[:, None]),), None
        ids = rng.integers(0, self.vocab, (3, self.batch, self.length))
        if self.kind == "classifier":
            return (ids[0],), rng.integers(0, 2, self.batch)
        if self.kind == "seq2seq":
            return (ids[0], ids[1]), ids[2]
        return (ids[0],), ids[2]

    def criterion(self):
        return CrossEntropyLoss()


CONFIGS = {config.name: config for config in (
    Config("tiny", "lm", layers=2, heads=4, d_model=64, length=32, batch=8, vocab=65),
    Config("nanogpt-cpu", "lm", layers=4, heads=4, d_model=128, length=64, batch=12, vocab=65),
    Config("mid", "lm", layers=6, heads=6, d_model=384, length=128, batch=16, vocab=65),
    Config("seq2seq", "seq2seq", layers=2, heads=4, d_model=128, length=32, batch=16, vocab=1000, dropout=0.1),
    Config("classifier", "classifier", layers=2, heads=4, d_model=64, length=200, batch=64, vocab=10_000, dropout=0.1),
    Config("minilm", "encoder", layers=6, heads=12, d_model=384, length=24, batch=32, vocab=30_522, max_len=512,
           jobs=("embed",)),
    Config("gpt2-small", "lm", layers=12, heads=12, d_model=768, length=128, batch=4, vocab=50_257, bias=True,
           max_len=1024, jobs=("forward", "decode", "step")))}
PUBLISHED = ("minilm", "gpt2-small")            # sizes of published models, timed on request
