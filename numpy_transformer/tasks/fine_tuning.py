"""Starting from the weights of another run, or of a published model that `import` has read, instead of random ones."""

import contextlib
import re

import numpy as np

from ..layers import Linear, add_lora, freeze
from ..layers.initial_weights import normal
from ..module import unfilled
from ..training.weight_transfer import carry_over
from .options import is_published, options_of
from .runs import MODELS, file_hash, merged_weights
from .settings import SettingError

OPTIONS = {"tie": "tie_weights"}                # the model's name of a setting, where it is another one
STD = 0.02                                      # of new weights on top of a published model, as in the code of BERT


def adopt(settings, given, kind, run):
    """Returns the settings of a run of a kind of task, with those that the pretrained run decides.

    Raises SettingError for a setting that asks for another value.
    """
    theirs = settings_of_base(kind, run)
    remedy = "leave it out" if is_published(run.meta) else "leave it out, or pretrain a model with it"
    for name, value in theirs.items():
        if name in given and given[name] != value:
            raise SettingError(f"${name} is {value} in the pretrained run {run.path!r}, not {given[name]}; {remedy}")
    settings = settings | theirs
    if is_published(run.meta) and "dropout" not in given:
        settings["dropout"] = run.meta["model"].get("dropout", settings["dropout"])
    limit = max_len_of(run)
    if limit is not None and settings[kind.length] > limit:
        if kind.length in given:
            raise SettingError(f"${kind.length} {given[kind.length]:,} is too long: the pretrained run {run.path!r} "
                               f"reads at most {limit:,} tokens; give at most that")
        settings[kind.length] = limit
    return settings


def settings_of_base(kind, run):
    """Returns {name: value} of the settings that a pretrained run decides."""
    options = options_of(MODELS[run.kind], run.meta["model"])
    theirs = {name: options[OPTIONS.get(name, name)] for name in kind.sizes if OPTIONS.get(name, name) in options}
    if is_published(run.meta) and run.settings.get("tokenizer", "pretrained") == "pretrained":
        tokenizer = {"tokenizer": "pretrained", "vocab_size": run.tokenizers[0].vocab_size}
        return theirs | tokenizer | {"init": "bert"} | kind.published_settings(options)
    return theirs | {name: run.settings[name] for name in kind.reading}


def max_len_of(run):
    """Returns the number of tokens that the model of a run can read, or None if there is no limit."""
    options = options_of(MODELS[run.kind], run.meta["model"])
    is_limited = options["positions"] == "learned" or is_published(run.meta) and options["positions"] != "relative"
    return options["max_len"] if is_limited else None


def start_from_run(task, run):
    """Returns (model, lines): the model of a task with the weights of a run, parts of it frozen if the settings say so.

    What the run does not have is newly initialized, and the lines say which parts that is.
    """
    published = is_published(run.meta)
    with unfilled() if published else contextlib.nullcontext():
        model = task.make_model()
    theirs = merged_weights(run)
    names = carry_over(model, task.weights_taken_over(theirs, run), copy=False)
    if published:
        draw_missing_weights(model, np.random.default_rng([task.settings["seed"], 11]))
    lines = [f"{len(names.carried)} arrays copied from {run.path!r}",
             f"newly initialized: {', '.join(names.new) or 'none'}", f"not used: {', '.join(names.left_out) or 'none'}"]
    if task.settings["lora"]:
        task.settings["lora_targets"] = task.settings["lora_targets"] or linears_of_blocks(model)
        add_lora(model, **lora_arguments(task), rng=np.random.default_rng([task.settings["seed"], 12]))
    elif task.settings["freeze"]:
        freeze(model, *frozen_names(model, task.settings["freeze"], set(names.carried) & set(theirs)))
    if keeps_base(task.settings):
        trained = sum(parameter.data.size for parameter in model.parameters(trained=True))
        lines.append(f"{trained:,} of {model.num_parameters():,} parameters are trained, and only these will be saved: the "
                     f"run needs {run.path!r} beside it")
    return model, lines


def draw_missing_weights(model, rng):
    """Draws the weights that no file has filled; biases are zero, and norms the identity."""
    for name, parameter in model.named_parameters():
        if not parameter.filled:
            shape = parameter.data.shape
            is_gamma = name.split(".")[-1] == "gamma"
            parameter.data = normal(rng, shape, STD) if len(shape) > 1 else np.full(shape, float(is_gamma))


def lora_arguments(task):
    """Returns the arguments of add_lora that the settings describe."""
    s = task.settings
    return {"rank": s["lora"], "alpha": s["lora_alpha"], "targets": s["lora_targets"], "trained": list(task.head)}


def linears_of_blocks(model):
    """Returns the names within a block of all its linear layers, such as "attention.query"."""
    names = [name for name, module in model.named_modules() if isinstance(module, Linear)]
    return sorted({re.sub(r".*\bblocks\.\d+\.", "", name) for name in names if re.search(r"\bblocks\.\d+\.", name)})


def frozen_names(model, given, pretrained):
    """Returns the names for `freeze` of the parts that the setting freeze names: blocks.0-2 is short for blocks.0 blocks.1
    blocks.2.

    Raises ValueError for a part that the model does not have, or whose weights are not among the `pretrained` ones.
    """
    known = [name for name, _ in model.named_modules() if name]
    names = []
    for name in (each for text in given for each in expand_range(text)):
        fitting = [name] if name in known else [each for each in known if each.endswith(f".{name}")]
        if len(fitting) != 1:
            what = f"may be {' or '.join(fitting)}" if fitting else "is not a part of the model"
            parts = dict.fromkeys(each.split(".")[0] for each in known)
            raise SettingError(f"$freeze {name} {what}; name a part such as {', '.join(parts)}, or a block of a stack, of "
                               f"which the last one is {last_block(known)}")
        parameters = [each for each, _ in model.named_parameters() if each.startswith(f"{fitting[0]}.")]
        new = [each for each in parameters if each not in pretrained]
        if new:
            raise SettingError(f"$freeze {name} would freeze {new[0]}, which is new and has yet to learn; leave it out")
        names += fitting
    return names


def last_block(names):
    """Returns the name of the last block, such as "encoder.blocks.5"."""
    return [name for name in names if re.search(r"\.blocks\.\d+$", name)][-1]


def expand_range(name):
    """Returns ["blocks.0", "blocks.1", "blocks.2"] of "blocks.0-2"; other names by themselves."""
    match = re.fullmatch(r"(.*\.)(\d+)-(\d+)", name)
    if not match:
        return [name]
    first, last = int(match[2]), int(match[3])
    if first > last:
        raise SettingError(f"$freeze {name} counts backwards; write {match[1]}{last}-{first}")
    return [f"{match[1]}{number}" for number in range(first, last + 1)]


def keeps_base(settings):
    """Returns True if a run stores only the weights that it trains, and takes all others from the run that it started from.
    """
    return bool(settings.get("lora") or settings.get("freeze"))


def meta_of(task, run):
    """Returns what the checkpoint says about the run that it started from."""
    meta = {"origin": run.meta["origin"]} if is_published(run.meta) else {}
    if keeps_base(task.settings):
        meta["base"] = {"file": run.path, "sha256": file_hash(run.path)}
    if task.settings["lora"]:
        meta["lora"] = lora_arguments(task)
    return meta
