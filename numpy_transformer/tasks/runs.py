"""A trained run, loaded from its checkpoint; or a published model, from the file that `import` wrote."""

import hashlib
import math
import os
from dataclasses import dataclass
from pathlib import Path

from ..data import PretrainedTokenizer, tokenizer_from_json
from ..file_checks import MALFORMED, as_damaged, check_form, one_line, quoted, reason_of
from ..layers import LoRALinear, add_lora, merge_lora
from ..models import TextEncoder
from ..module import Module, unfilled
from ..training.checkpoint import read_checkpoint, weights
from ..training.memory import available_memory
from ..types import PathLike
from . import TASKS
from .encoder import EncoderTask
from .options import is_published, model_of_run

TITLES = {"lm": "a language model: `generate` continues a text with it",
          "seq2seq": "an encoder-decoder: `translate` uses it",
          "text2text": "an encoder-decoder for several tasks: `translate` uses it",
          "classifier": "a classifier of texts: `classify` uses it",
          "multi-label": "a classifier of texts, which can have several labels: `classify` prints the most likely one",
          "regression": "a regression, which gives a number for each text: `embed` and `similar` use its encoder",
          "tagger": "a tagger of words: `tag` uses it",
          "mlm": "a masked language model: `fill`, `embed` and `similar` use it",
          "encoder": "an encoder of texts: `embed` and `similar` use it"}

LABELED = "classifier", "tagger"                # kinds whose outputs have names
PAIRS = "seq2seq", "text2text"                  # kinds with a source and a target
MODELS = {**{name: task.model_class for name, task in TASKS.items()}, "encoder": TextEncoder}   # kind: class of the model
MOST_ARRAYS, LARGEST_MEMORY = 10_000, 2 ** 40   # of a base that is not there
NONE = type(None)
# What a checkpoint says about a run. Keys with a question mark may be missing.
FORM = {"config": str, "settings": {str: object}, "model": {str: object}, "tokenizers": [dict], "step": int,
        "corpus": {"labels?": [str], "exclusive?": bool}, "best?": (dict, NONE), "averaged?": [str],
        "origin?": {"family": str, "config": dict, "files": {str: str}}, "base?": {"file": str, "sha256": str},
        "lora?": {"rank": int, "alpha?": (float, NONE), "targets?": ([str], str), "trained?": [str]}}
IMPORTED, SCRIPT = "imported", "script"         # stand for the named configuration of a run that `train` wrote


@dataclass
class Run:
    """A trained model in eval mode with its best weights, its tokenizers, and the rest of its checkpoint.

    `arrays` holds the history of the training.
    """

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
    def is_exclusive(self):
        """True if a text has exactly one of the labels, as with all models that are trained here."""
        return self.meta["corpus"].get("exclusive", True)

    @property
    def tokenizer(self):
        """The tokenizer; of an encoder-decoder, that of the source."""
        return self.tokenizers[0]

    @property
    def reader(self):
        """What turns a text into the ids that an encoder reads."""
        task = TASKS.get(self.kind, EncoderTask)
        return task.make_reader(self.settings, self.tokenizers[0])

    def __repr__(self):
        return f"Run({self.path!r}, kind={self.kind!r}, step={self.meta['step']:,}, model={type(self.model).__name__})"


def use_of(meta):
    """Returns the key of TITLES: the kind of a run; for published classifiers also what their outputs mean."""
    corpus = meta["corpus"]
    if len(corpus.get("labels", [])) == 1 and meta["kind"] == "classifier":
        return "regression"
    return meta["kind"] if corpus.get("exclusive", True) else "multi-label"


def load_run(path: PathLike, *kinds: str) -> Run:
    """Returns the Run in a file that `train`, `import` or save_run wrote: its model, in eval(), its tokenizers and labels.

    Parameters:
        path : path of the file
        kinds : str, the kinds of model that are wanted, such as "lm"; any kind if none is given
    Raises: ValueError if the file holds no run, or none of these kinds, or is damaged. A model that is larger than the
        weights in the file is not built.
    """
    check_file(path)
    arrays, meta = read_checkpoint(path, arrays_of_model)
    meta = check_meta(meta, path)
    check_kind(meta["kind"], path, kinds)
    own = weights(arrays)
    base = load_run(find_base(meta["base"], path)) if "base" in meta else None
    model = make_model(meta, path, sizes_of(arrays.shapes, base))
    if base is not None:
        own, arrays = add_base(own, arrays, model, base, path)
    with unfilled():
        model.astype(next(iter(own.values())).dtype)
    return finish(model.load_state_dict(own, copy=False).eval(), arrays, meta, path)


def outline_run(path):
    """Returns the Run in a file, but without memory for the weights: for what needs only sizes, settings and history."""
    check_file(path)
    arrays, meta = read_checkpoint(path, lambda names: [name for name in names if name.startswith("history/")], verify=True)
    meta = check_meta(meta, path)
    sizes = sizes_of_missing_base() if "base" in meta else sizes_of(arrays.shapes)
    return finish(make_model(meta, path, sizes), arrays, meta, path)


def sizes_of(shapes, base=None):
    """Returns (numbers, arrays): how many there are of the weights in a file, and in the run with which it began."""
    stored = weights(shapes)
    numbers, arrays = sum(math.prod(shape) for shape in stored.values()), len(stored)
    if base is not None:
        numbers, arrays = numbers + base.model.num_parameters(), arrays + len(base.model.parameters())
    return numbers, arrays


def sizes_of_missing_base():
    """Returns (numbers, arrays) of which no model has more that could be loaded here: `info` does not need the base."""
    return (available_memory() or LARGEST_MEMORY) // 4, MOST_ARRAYS


def finish(model, arrays, meta, path):
    tokenizers = load_tokenizers(meta, path)
    check_outputs(model, meta, path)
    if is_published(meta):
        model.origin = origin_of(meta, arrays, tokenizers[0])
        check_origin(model, path)
    history = {name: array for name, array in arrays.items() if name.startswith("history/")}
    return Run(str(path), model, tokenizers, meta, history)


def arrays_of_model(names):
    """Returns the names of the arrays that a trained model consists of: neither the optimizer's, nor two sets of weights."""
    unneeded = ("optimizer/", "model/") if any(name.startswith("best/") for name in names) else ("optimizer/",)
    return [name for name in names if not name.startswith(unneeded)]


def check_file(path):
    """Raises ValueError for the folder of a published model, which is no run yet."""
    if Path(path).is_dir():
        raise ValueError(f"{str(path)!r} is a folder; if it holds a published model, `numpy-transformer import` makes a run "
                         "of it, which you can name here")


def check_kind(model_kind, path, kinds):
    """Raises ValueError, which says what to do with a model of the kind found, unless it is one of `kinds`."""
    if kinds and model_kind not in kinds:
        trained = [kind for kind in kinds if kind in TASKS]
        raise ValueError(f"{str(path)!r} holds {TITLES[model_kind]}; name a run of `train {'` or `train '.join(trained)}`, "
                         "or an imported model of that kind")


def make_model(meta, path, sizes):
    """Returns the model of a checkpoint, without memory for its weights.

    Raises: ValueError for settings of which no model can be built, or one far larger than `sizes`, (numbers, arrays).
    """
    try:
        with as_damaged(path, "name another run"), unfilled(*sizes):
            model = model_of_run(MODELS[meta["kind"]], meta["model"], meta.get("origin"), 0)
            if "lora" in meta:
                add_lora(model, **meta["lora"])
    except ValueError as error:
        raise ValueError(f"{str(path)!r} holds a model that this version cannot build ({one_line(error)}); name another "
                         "run") from error
    return model


def add_base(own, arrays, model, base, path):
    """Returns (weights, arrays) of a run that stored only what it trained: all others are those of the run that it began
    with, `base`.
    """
    names = [name for name, _ in model.named_parameters()]
    all_weights = merged_weights(base) | own
    missing = [name for name in names if name not in all_weights]
    if missing:
        raise ValueError(f"{base.path!r}, with which {str(path)!r} began, has no {missing[0]!r}; name another run")
    unused = base.model.origin.unused if is_published(base.meta) else {}
    return {name: all_weights[name] for name in names}, {f"unused/{name}": array for name, array in unused.items()} | arrays


def merged_weights(run):
    """Returns {name: array} of the weights of a run. The updates of LoRA are added to the weights that have one."""
    if any(isinstance(module, LoRALinear) for _, module in run.model.named_modules()):
        merge_lora(run.model)
    return {name: parameter.data for name, parameter in run.model.named_parameters()}


def find_base(base, path):
    """Returns the path of the run that another one began with: beside that one, or where it was then."""
    places = [Path(path).parent / Path(base["file"]).name, Path(base["file"])]
    files = [place for place in places if os.path.isfile(place)]
    if not files:
        raise ValueError(f"{str(path)!r} holds only the weights that were trained, and those of {quoted(base['file'])}, with "
                         f"which it began, are missing; put that file beside it")
    unchanged = [place for place in files if file_hash(place) == base["sha256"]]
    if not unchanged:
        raise ValueError(f"{str(files[0])!r} has changed since {str(path)!r} was trained from it, which holds only the "
                         "weights that were trained; put the original file beside it")
    return unchanged[0]


def file_hash(path):
    """Returns the SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def origin_of(meta, arrays, tokenizer):
    """Returns where a published model came from, with everything that a folder in the original layout needs besides its
    weights.
    """
    from ..pretrained import Origin  # only published models need it

    saved = meta["origin"]
    unused = {name.removeprefix("unused/"): array for name, array in arrays.items() if name.startswith("unused/")}
    files = saved["files"]
    if isinstance(tokenizer, PretrainedTokenizer):
        files = files | tokenizer.files
    return Origin(saved["family"], saved["config"], files, unused, options=meta["model"])


def check_origin(model, path):
    """Raises ValueError unless the family of a published model knows what its config.json says."""
    from ..pretrained import remarks, rules  # only published models need it

    with as_damaged(path, "name another run"):
        check_form(model.origin.config, {"architectures?": ([str], NONE)}, "config.json")
        rules(model)
        remarks(model)


def check_outputs(model, meta, path):
    """Raises ValueError unless a classifier or tagger has a label for each of its outputs; one output may have two."""
    if meta["kind"] in LABELED:
        outputs, labels = model.output.d_out, meta["corpus"]["labels"]
        if len(labels) != outputs and (len(labels), outputs) != (2, 1):
            raise ValueError(f"{str(path)!r} is damaged (it has {len(labels)} labels for {outputs} outputs); name another "
                             "run")


def load_tokenizers(meta, path):
    with as_damaged(path, "name another run"):
        return [tokenizer_from_json(tokens) for tokens in meta["tokenizers"]]


def check_meta(meta, path):
    """Returns the meta. Raises ValueError if neither `train` nor `import` nor save_run wrote it, or if it is damaged."""
    kind = meta.get("kind")
    missing = [key for key in FORM if not key.endswith("?") and key not in meta]
    configurations = TASKS[kind].configurations if kind in list(TASKS) else {}
    if kind not in list(MODELS) or missing or meta["config"] not in (IMPORTED, SCRIPT, *configurations):
        raise ValueError(f"{str(path)!r} is a checkpoint that neither `train` nor `import` wrote, nor save_run; "
                         "load it with Trainer.load, or name a run of `train`")
    try:
        check_form(meta, FORM, "meta")
        check_form(meta["settings"], forms_of_settings(meta), "meta['settings']")
        if kind in LABELED:
            check_form(meta["corpus"], {"labels": [str]}, "meta['corpus']")
        if meta.get("best"):
            check_form(meta["best"], {"step": int, meta["settings"].get("watch", "validation"): float}, "meta['best']")
        if kind in TASKS and meta["config"] in configurations:
            TASKS[kind].unused_settings(meta["settings"])               # whether it has the settings on which others depend
        if len(meta["tokenizers"]) != (2 if kind in PAIRS else 1):
            raise ValueError(f"it has {len(meta['tokenizers'])} tokenizers")
    except (ValueError, *MALFORMED) as error:
        raise ValueError(f"{str(path)!r} is damaged ({reason_of(error)}); name another run, or an undamaged copy") from error
    return meta


def forms_of_settings(meta):
    """Returns the forms of the settings of a run: of those of `train` as the task says, and of those that all runs need."""
    kind = meta["kind"]
    of_task = TASKS[kind].all_settings() if kind in TASKS else []
    forms = {f"{setting.name}?": ([str], str, NONE) if setting.type is list else (setting.type, NONE) for setting in of_task}
    needed = ["context"] if kind == "lm" else ["max_len"]
    if meta["config"] not in (IMPORTED, SCRIPT):
        needed += ["steps"]
    forms = {key: form for key, form in forms.items() if key.removesuffix("?") not in needed}
    return forms | {"seed": int} | dict.fromkeys(needed, int)
