"""A trained run, loaded from its checkpoint."""

from dataclasses import dataclass

from ..data import tokenizer_from_json
from ..module import Module
from ..training.checkpoint import read_checkpoint, weights
from . import TASKS

TITLES = {"lm": "a language model: `generate` continues a text with it",
          "seq2seq": "an encoder-decoder: `translate` uses it",
          "text2text": "an encoder-decoder for several tasks: `translate` uses it",
          "classifier": "a classifier of texts: `classify` uses it",
          "tagger": "a tagger of words: `tag` uses it",
          "mlm": "a masked language model: `fill`, `embed` and `similar` use it"}

PAIRS = "seq2seq", "text2text"                  # kinds with a source and a target
ENCODERS = "classifier", "tagger", "mlm"


@dataclass
class Run:
    """A trained model in eval mode with its best weights, its tokenizers, and the rest of its checkpoint."""

    path: str
    model: Module
    tokenizers: list
    meta: dict
    arrays: dict

    @property
    def kind(self):
        return self.meta["kind"]

    @property
    def settings(self):
        return self.meta["settings"]

    @property
    def labels(self):
        return self.meta["corpus"]["labels"]

    @property
    def reader(self):
        return TASKS[self.kind].make_reader(self.settings, self.tokenizers[0])

    def __repr__(self):
        return f"Run({self.path!r}, kind={self.kind!r}, step={self.meta['step']:,}, model={self.model!r})"


def load_run(path, *kinds):
    """The Run in a file. Raises ValueError if it holds none, or none of these kinds (any kind if none is given)."""
    arrays, meta = read_checkpoint(path)
    meta = check_meta(meta, path)
    found = meta["kind"]
    if kinds and found not in kinds:
        raise ValueError(f"{str(path)!r} holds {TITLES[found]}; name a run of `train {'` or `train '.join(kinds)}`")
    try:
        model = TASKS[found].model_class(**meta["model"], rng=0)
    except TypeError as error:
        raise ValueError(f"{str(path)!r} holds a model that this version cannot build ({error}); name another run") \
            from error
    return Run(str(path), model.load_state_dict(weights(arrays)).eval(), load_tokenizers(meta), meta, arrays)


def load_tokenizers(meta):
    return [tokenizer_from_json(tokens) for tokens in meta["tokenizers"]]


def check_meta(meta, path):
    """The meta. Raises ValueError if the command `train` did not write it."""
    task = TASKS.get(meta.get("kind"))
    missing = [key for key in ("config", "settings", "model", "tokenizers", "corpus", "step") if key not in meta]
    if task is None or missing or meta["config"] not in task.presets:
        raise ValueError(f"{str(path)!r} is a checkpoint that the command `train` did not write; load it with "
                         "Trainer.load, or name a run of `train`")
    return meta
