"""A trained run, taken up again from its file."""

from dataclasses import dataclass

from ..module import Module
from ..training.checkpoint import read_checkpoint, weights
from . import RECIPES, default_settings, load_tokenizers

TITLES = {"lm": "a language model: `generate` goes on from a text with it",
          "seq2seq": "an encoder-decoder: `translate` uses it",
          "text2text": "an encoder-decoder of several tasks: `translate` uses it",
          "classifier": "a classifier of texts: `classify` uses it",
          "tagger": "a tagger of words: `tag` uses it",
          "mlm": "a masked language model: `fill`, `embed` and `similar` use it"}

PAIRS = "seq2seq", "text2text"                  # kinds with a source and a target
ENCODERS = "classifier", "tagger", "mlm"


@dataclass
class Run:
    """The model, in eval and with its best weights, its tokenizers, and what else the file says."""

    path: str
    model: Module
    tokenizers: list
    meta: dict
    arrays: dict

    @property
    def settings(self):
        return self.meta["settings"]

    @property
    def labels(self):
        return self.meta["corpus"]["labels"]

    @property
    def reader(self):
        return RECIPES[self.meta["kind"]].make_reader(self.settings, self.tokenizers[0])


def load_run(path, *kinds):
    """The Run in a file. Raises ValueError if it holds none, or none of these kinds (no kind: any)."""
    arrays, meta = read_checkpoint(path)
    meta = check_meta(meta, path)
    found = meta["kind"]
    if kinds and found not in kinds:
        raise ValueError(f"{str(path)!r} holds {TITLES[found]}; name a run of `train {'` or `train '.join(kinds)}`")
    try:
        model = RECIPES[found].model_class(**meta["model"], rng=0)
    except TypeError as error:
        raise ValueError(f"{str(path)!r} holds a model that this version does not know ({error}); "
                         "name another run") from error
    return Run(str(path), model.load_state_dict(weights(arrays)).eval(), load_tokenizers(meta), meta, arrays)


def check_meta(meta, path):
    """The meta, settings that are newer than the run added. Raises ValueError if the command train did not write it."""
    recipe = RECIPES.get(meta.get("kind"))
    missing = [key for key in ("config", "settings", "model", "tokenizers", "corpus", "step") if key not in meta]
    if recipe is None or missing or meta["config"] not in recipe.presets:
        raise ValueError(f"{str(path)!r} is a checkpoint, but not one of the command train; load it with Trainer.load, "
                         "or name a run that the command has written")
    return meta | {"settings": default_settings(recipe, meta["config"]) | meta["settings"]}
