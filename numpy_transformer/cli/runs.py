"""A trained run, taken up again from its file."""

from dataclasses import dataclass

from ..module import Module
from ..training.checkpoint import read_checkpoint, weights
from .recipes import RECIPES, load_tokenizers

TITLES = {"lm": "a language model: `generate` goes on from a text with it",
          "seq2seq": "an encoder-decoder: `translate` uses it"}


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


def load_run(path, kind=None):
    """The Run in a file. Raises ValueError if it holds none, or one of another kind."""
    arrays, meta = read_checkpoint(path)
    try:
        found = meta["kind"]
        if kind not in (None, found):
            raise ValueError(f"{str(path)!r} holds {TITLES[found]}; name a run of `train {kind}`")
        tokenizers = load_tokenizers(meta)
        model = RECIPES[found].model_class(**meta["model"], rng=0)
    except (KeyError, TypeError) as error:
        raise ValueError(f"{str(path)!r} is a checkpoint, but not of the command train ({error}); name a run that it "
                         "has written") from error
    return Run(str(path), model.load_state_dict(weights(arrays)).eval(), tokenizers, meta, arrays)
