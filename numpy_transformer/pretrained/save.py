"""Saving: a model as a folder that transformers reads, with nothing left half-written."""

import contextlib
import json
from pathlib import Path

import numpy as np

from ..layers.pooling import FirstToken
from ..models import SequenceClassifier, TextEncoder, TokenClassifier
from .families import FAMILIES, architecture_of, rules
from .safetensors import write_safetensors
from .sentences import is_sentence_file

MARK = "numpy_transformer.json"                 # lists the files that we have written into a folder
WEIGHTS = "model.safetensors"


def save_pretrained(model, folder):
    """Writes a model that load_pretrained has returned to a folder that transformers reads.

    config.json and the tokenizer's files are those that the model came with; the weights have the model's dtype. A
    float32 checkpoint that was loaded and not changed is saved bit for bit.

    Parameters: model : with the attribute `origin`
        folder : path of a folder that is new, empty, or was written by this function
    Raises: ValueError for a model without origin, one that transformers does not have, or a folder that holds other
        files; OSError if a file cannot be written. An existing folder is then unchanged.
    """
    rules_of_model = rules(model)
    check_head(model)
    family = FAMILIES[model.origin.family]
    architecture = architecture_of(model)
    state = {name: parameter.data for name, parameter in model.named_parameters()}
    arrays = {rule.theirs: rule.join(state) for rule in rules_of_model}
    dtype = next(iter(state.values())).dtype
    arrays = {name: array.astype(dtype, copy=False) for name, array in model.origin.unused.items()} | arrays
    arrays = {family.published(name, architecture): array for name, array in arrays.items()}
    texts = {"config.json": json.dumps(make_config(model, architecture, dtype), indent=2, ensure_ascii=False) + "\n"}
    texts |= {name: text for name, text in model.origin.files.items()
              if type(model) is TextEncoder or not is_sentence_file(name)}
    write_folder(Path(folder), arrays, texts)


def check_head(model):
    """Raises ValueError for a classifier that transformers does not have."""
    if type(model) is not SequenceClassifier:
        return
    wanted = "relu" if model.origin.family == "distilbert" else "tanh"
    found = type(model.activation).__name__.lower()
    if not isinstance(model.pool, FirstToken) or found != wanted or model.hidden.d_out != model.hidden.d_in:
        raise ValueError(f"transformers has {model.origin.family} classifiers that read the first token, through a hidden "
                         f"layer of d_model = {model.hidden.d_in} features with {wanted}; this one has the pooling "
                         f"{type(model.pool).__name__} and {model.hidden.d_out} features with {found}, so only this "
                         "package can use it")


def make_config(model, architecture, dtype):
    """Returns config.json as it came, except for facts that have changed."""
    config = dict(model.origin.config)
    config["architectures"] = [architecture]
    for key in ("dtype", "torch_dtype"):
        if key in config:
            config[key] = dtype.name
    if isinstance(model, (SequenceClassifier, TokenClassifier)):
        count = model.output.d_out
        if len(config.get("id2label") or "01") != count:
            config["id2label"] = {str(n): f"LABEL_{n}" for n in range(count)}
            config["label2id"] = {f"LABEL_{n}": n for n in range(count)}
    return config


def write_folder(folder, arrays, texts):
    """Writes all files under temporary names, and renames them when all are complete."""
    check_folder(folder)
    created = not folder.exists()
    texts = texts | {MARK: json.dumps({"files": sorted([WEIGHTS, MARK, *texts])}, indent=2) + "\n"}
    parts = {}
    try:
        for name in (WEIGHTS, *texts):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            parts[path] = path.with_name(path.name + ".part")
            if name == WEIGHTS:
                write_safetensors(parts[path], arrays)
            else:
                parts[path].write_text(texts[name], encoding="utf-8", newline="")
        for name in earlier_files(folder) - {WEIGHTS, *texts}:
            (folder / name).unlink(missing_ok=True)
        for path, part in parts.items():
            part.replace(path)
    except BaseException as error:
        for part in parts.values():
            part.unlink(missing_ok=True)
        if created:
            remove_empty(folder)
        if isinstance(error, OSError):
            raise OSError(f"cannot write {str(folder)!r}: {error.strerror or error}; free some space, or name another "
                          "folder") from error
        raise


def check_folder(folder):
    """Raises ValueError if the folder holds files that save_pretrained has not written."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{str(folder)!r} is a file; name a new folder")
    own = earlier_files(folder)
    other = [path for path in sorted(folder.rglob("*")) if not path.is_dir() and
             path.relative_to(folder).as_posix() not in own]
    if other:
        raise ValueError(f"{str(folder)!r} holds other files, such as {other[0].name}; name a new or an empty folder")


def earlier_files(folder):
    """Returns the names of the files that save_pretrained has written into the folder before."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return set(json.loads((folder / MARK).read_text(encoding="utf-8"))["files"])
    return set()


def remove_empty(folder):
    """Removes a folder and those in it, as long as they are empty."""
    for path in sorted([folder, *folder.rglob("*")], reverse=True):
        with contextlib.suppress(OSError):
            path.rmdir()
