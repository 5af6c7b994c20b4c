"""Loading: from the folder of a checkpoint to a model of ours, in which every array is accounted for."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from ..argument_checks import check_choice
from ..data import StoryTokenizer
from ..file_checks import MALFORMED, reason_of, shown
from ..module import Module, unfilled
from ..training.memory import available_memory
from ..types import PathLike
from .adapters import base_folder, is_adapter, merge_adapter
from .family import matches
from .folder import read_folder
from .llama2c import StoryFile, is_story_file
from .registry import FAMILIES, Origin, build_model, describe_config, rules, sizes_left_out
from .sentences import describes_vectors, embedding_options
from .unsupported import of_known_family

FLOATS = ("F64", "F32", "F16", "BF16")


def load_pretrained(folder: PathLike, dtype: DTypeLike = np.float32, progress: Callable[[int, int], None] | None = None,
                    base: PathLike | None = None) -> Module:
    """Returns the model of a checkpoint that transformers has saved, ready to use (in eval).

    Each weight is read once, and no initial weights are drawn. Half-precision weights are converted exactly.
    `model.origin` holds the family and everything else that save_pretrained needs.

    A decoder is called as model(ids, mask), an encoder as model(ids, mask, segments), and T5 as
    model(source_ids, target_ids, source_mask=mask). A mask has the shape of the ids (B, T) and is True for real tokens,
    like the attention_mask of transformers; padding_mask makes the one of attention, (B, 1, 1, T), which is another.

    Parameters:
        folder : path of a folder with config.json and model.safetensors (or shards), of the cache of such a folder, of a
            .bin file of llama2.c, or of a LoRA adapter, whose updates are merged into the weights of its base
        dtype : np.float32 (default) or np.float64
        progress : function (number of arrays read, number of all) or None; called after each array
        base : path of the folder of the model that an adapter changes, if adapter_config.json does not name a folder
    Raises: ValueError for a folder that is incomplete, damaged, of another format or too large for the memory, and for
        a family, an option or an array that this package does not support; nothing is loaded then
    """
    check_choice("dtype", np.dtype(dtype).name, ("float32", "float64"))
    config, arrays, files = open_checkpoint(folder, base)
    model = outline(config, arrays, files)
    with unfilled():
        model.astype(dtype)
    stored, copies, unused = assign(model, arrays)
    check_memory(folder, model, arrays)
    state = {}
    name_rules = rules(model)
    for count, rule in enumerate(name_rules, 1):
        array = arrays[stored[rule.theirs]].astype(dtype, copy=False)
        check_finite(stored[rule.theirs], array)
        for name, part in rule.split(array).items():
            state[name] = np.ascontiguousarray(part)
        if progress is not None:
            progress(count, len(name_rules))
    check_copies(model, state, arrays, stored, copies=copies)
    model.origin.unused = {name: arrays[stored[name]] for name in unused}
    model.load_state_dict(state, copy=False).eval()
    return merge_adapter(model, folder) if is_adapter(folder) else model


def outline_pretrained(folder):
    """Returns the model of a checkpoint without memory for its weights, none of which is read, with its `origin`.

    Raises: ValueError as load_pretrained does, for the folder's files and config.json
    """
    return outline(*open_checkpoint(folder))


def outline(config, arrays, files):
    """Returns the model of a checkpoint without memory for its weights, from what open_checkpoint has returned."""
    model_class, options = describe_checkpoint(config, arrays, files)
    with unfilled(*sizes_of(arrays)):
        model = new_model(config, arrays, model_class, options)
    family = "llama2.c" if isinstance(arrays, StoryFile) else config["model_type"]
    model.origin = Origin(family, config, files, options=options)
    return model


def class_and_options(folder):
    """Returns (model class, options) of the model in a checkpoint's folder. No weight is read.

    Raises: ValueError as load_pretrained does, for the folder's files and config.json
    """
    return describe_checkpoint(*open_checkpoint(folder))


def open_checkpoint(path, base=None):
    """Returns (config, arrays, files) of a folder or of a .bin file of llama2.c; see folder.py. Of an adapter, these are
    those of its base.
    """
    if is_adapter(path):
        path = base_folder(path, base)
    elif base is not None:
        raise ValueError(f"{str(base)!r} is given as the base of an adapter, but {str(path)!r} has no adapter_config.json, "
                         "so it is no adapter; leave the base out")
    if Path(path).is_file() and is_story_file(path):
        arrays = StoryFile(path)
        tokenizer = Path(path).parent / "tokenizer.bin"
        return arrays.config, arrays, StoryTokenizer.read(tokenizer).files if tokenizer.is_file() else {}
    return read_folder(path)


def describe_checkpoint(config, arrays, files):
    """Returns (model class, options) from what open_checkpoint has returned."""
    with unfilled(*sizes_of(arrays)):
        model_class, options = describe_config(config, arrays)
    if not isinstance(options["num_layers"], int) or options["num_layers"] > len(arrays):
        raise ValueError(f"config.json describes {options['num_layers']!r} blocks, but the files hold {len(arrays)} "
                         "arrays in all; use the config.json and the weights of one checkpoint")
    if describes_vectors(model_class, files):
        options |= embedding_options(files)
    return model_class, options


def sizes_of(arrays):
    """Returns (numbers, arrays) of a checkpoint: no model is built for config.json that has many more. An array with three
    axes may be a stack of those of all experts.
    """
    shapes = [entry.shape for entry in arrays.entries.values()]
    stacked = sum(min(shape[0], math.prod(shape)) for shape in shapes if len(shape) == 3)
    return sum(map(math.prod, shapes)), len(shapes) + stacked


def new_model(config, arrays, model_class, options):
    """Returns a new model. Settings that its constructor refuses are an error in config.json."""
    try:
        return build_model(config["model_type"], model_class, options)
    except (ValueError, *MALFORMED) as error:
        raise ValueError(f"config.json describes a model that cannot be built (in this package's names: {reason_of(error)})"
                         f"{sizes_left_out(config, arrays, arrays)}; copy the original file") from error


def assign(model, arrays):
    """Finds the place of every array by names and shapes alone.

    Returns: ({name in our tables: name in the file}, names of copies, names of arrays that are kept for saving)
    Raises: ValueError for arrays that are missing, unknown, or of another shape or dtype
    """
    family = FAMILIES[model.origin.family]
    wanted = {rule.theirs: rule for rule in rules(model)}
    stored = {}
    for name in arrays:
        known = family.canonical(name, wanted)
        if known in stored:
            raise ValueError(f"the arrays {stored[known]} and {name} are the same weight under two names; keep one")
        stored[known] = name
    for copy, original in family.copies.items():
        if copy in stored and copy not in wanted and original not in stored:        # stored under its second name alone
            stored[original] = stored.pop(copy)
    copies = [name for name in family.copies if name in stored and name not in wanted]
    unused = [name for name in stored if matches(name, family.kept) and name not in wanted]
    used = {*wanted, *copies, *unused}
    unknown = [name for name in stored if name not in used and not matches(name, family.constants)]
    missing = [name for name in wanted if name not in stored]
    left_out = sizes_left_out(model.origin.config, arrays, [*missing, *unknown])
    check_names(missing, unknown, model, wanted, left_out=left_out)
    for name in used:
        check_dtype(stored[name], arrays.entries[stored[name]])
    for name, rule in wanted.items():
        shape = arrays.entries[stored[name]].shape
        if shape != rule.shape:
            left_out = sizes_left_out(model.origin.config, arrays, [name])
            raise ValueError(f"{stored[name]} has the shape {shape} instead of {rule.shape}, which config.json "
                             f"implies{left_out}; use the config.json and the weights of one checkpoint")
    return stored, copies, unused


def check_names(missing, unknown, model, wanted, left_out):
    """Raises ValueError that lists the arrays that are missing in the files, and those that the model does not have.

    Parameters: missing, unknown, wanted : names; model : Module; left_out : what sizes_left_out has returned
    """
    copies = FAMILIES[model.origin.family].copies
    if missing and not unknown and all(name in copies for name in missing):
        raise ValueError(f"the files have no output layer ({missing[0]}), and config.json says that it is not tied to "
                         f"{copies[missing[0]]}, so this decoder gives vectors and predicts no tokens, a kind of model that "
                         "this package does not have; use the checkpoint of the whole model, or set \"tie_word_embeddings\": "
                         "true if the output is tied")
    lost = [part for part in dict.fromkeys(name.split(".")[0] for name in missing)
            if {name for name in wanted if name.startswith(f"{part}.")} <= {*missing}]
    if lost and len(missing) > 1 and not unknown:
        raise ValueError(f"the files have no {' and no '.join(lost)} ({len(missing)} arrays are missing, such as "
                         f"{missing[0]}), which the {model.origin.family} model that config.json describes needs; use the "
                         "checkpoint of the whole model")
    problems = [f"{len(names)} {'array is' if len(names) == 1 else 'arrays are'} {what} ({shown(names)})"
                for names, what in ((missing, "missing"), (unknown, "unknown")) if names]
    if problems:
        parts = of_known_family(unknown)
        remedy = "use the config.json and the weights of one checkpoint"
        if parts:
            remedy = f"some belong to {parts}, which is not built for this config.json, so use another checkpoint"
        raise ValueError(f"the weights do not fit the {model.origin.family} model that config.json describes: "
                         f"{' and '.join(problems)}{left_out}; {remedy}")


def check_dtype(name, entry):
    if entry.dtype not in FLOATS:
        raise ValueError(f"{name} has the dtype {entry.dtype}; quantized weights are not supported, only "
                         f"{', '.join(FLOATS)}; use the checkpoint that they were made from")


def check_finite(name, array):
    """Raises ValueError for NaN or infinite weights. The sum is a quick first test; it can overflow for finite ones."""
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(array.sum()) or np.isfinite(array).all()
    if not finite:
        count = np.count_nonzero(~np.isfinite(array))
        raise ValueError(f"{name} holds NaN or infinite values ({count:,} of {array.size:,}), so every result would be "
                         "NaN; use an undamaged checkpoint")


def check_memory(folder, model, arrays):
    """Raises ValueError if the weights do not fit into the memory that is available, before any is read."""
    itemsize = {parameter.data.dtype.itemsize for parameter in model.parameters()}.pop()
    largest = max(math.prod(entry.shape) for entry in arrays.entries.values())
    needed = (model.num_parameters() + largest) * itemsize      # one array is there twice while it is converted
    available = available_memory()
    if available is not None and needed > available:
        raise ValueError(f"the {model.num_parameters():,} weights of {str(folder)!r} need {needed / 1e9:.1f} GB of "
                         f"memory at {8 * itemsize} bits each, but {available / 1e9:.1f} GB are available; load a "
                         "smaller model, or free some memory")


def check_copies(model, state, arrays, stored, copies):
    """Raises ValueError if the files hold two different copies of a weight that our model ties."""
    family = FAMILIES[model.origin.family]
    originals = {rule.theirs: rule for rule in rules(model)}
    remedy = 'set "tie_word_embeddings": false there if they are meant to differ'
    if "tie_word_embeddings" in family.fixed:
        remedy = "use the config.json and the weights of one checkpoint"
    for name in copies:
        original = family.copies[name]
        values = originals[original].join(state)
        if arrays.entries[stored[name]].shape != values.shape or not np.array_equal(
                arrays[stored[name]].astype(values.dtype, copy=False), values):
            raise ValueError(f"{stored[name]} differs from {stored[original]}, but config.json says that they are "
                             f"tied; {remedy}")
