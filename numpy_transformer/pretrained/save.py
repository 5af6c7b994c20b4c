"""Saving: a model as a folder that transformers reads, with nothing left half-written."""

import contextlib
import json
from pathlib import Path

from ..layers import FirstToken, LoRALinear
from ..models import SequenceClassifier, TokenClassifier
from ..models.structure import first_difference
from ..module import Module, unfilled
from ..types import PathLike
from .family import HEAD_ACTIVATIONS, num_labels
from .folder import is_small_file
from .registry import FAMILIES, architecture_of, build_model, describe_config, rules
from .safetensors import write_safetensors
from .sentences import describes_vectors, embedding_options, is_sentence_file

MARK = "numpy_transformer.json"                 # lists the files that we have written into a folder
WEIGHTS = "model.safetensors"
OTHER_WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "pytorch_model*", "tf_model*", "flax_model*")


def save_pretrained(model: Module, folder: PathLike) -> None:
    """Writes a model that load_pretrained has returned to a folder that transformers reads.

    config.json and the tokenizer's files are those of the original checkpoint; the weights have the model's dtype. A
    float32 checkpoint that was loaded and not changed is saved bit for bit.

    Parameters:
        model : has the attribute `origin`; LoRA updates are saved merged into their weights
        folder : path of a folder; files in it that have nothing to do with a checkpoint stay as they are
    Raises: ValueError for a model without origin, one that transformers does not have, or a folder with the files of
        another model, unless this function wrote them; OSError if a file cannot be written. Then an existing folder
        stays as it was.
    """
    rules_of_model = rules(model)
    check_head(model)
    family = FAMILIES[model.origin.family]
    architecture = architecture_of(model)
    state = merged_state(model)
    arrays = {rule.theirs: rule.join(state) for rule in rules_of_model}
    dtype = next(iter(state.values())).dtype
    same_head = architecture in [family.base, *(model.origin.config.get("architectures") or [architecture])]
    makes_vectors = same_head and describes_vectors(type(model), model.origin.files)
    if same_head:
        arrays = {name: array.astype(dtype, copy=False) for name, array in model.origin.unused.items()} | arrays
    arrays = {family.published(name, architecture): array for name, array in arrays.items()}
    config = make_config(model, architecture, dtype)
    check_parts(model, config, arrays, embedding_options(model.origin.files) if makes_vectors else {})
    texts = {"config.json": json.dumps(config, indent=2, ensure_ascii=False) + "\n"}
    texts |= {name: text for name, text in model.origin.files.items()
              if is_small_file(name) and (makes_vectors or not is_sentence_file(name))}
    write_folder(Path(folder), arrays, texts)


def merged_state(model):
    """Returns {name: array} of the model's parameters, with LoRA updates added to their weights."""
    state = {name: parameter.data for name, parameter in model.named_parameters()}
    for name, module in model.named_modules():
        if isinstance(module, LoRALinear) and not module.is_merged:
            state[f"{name}.weight"] = module.weight.data + module.scale * (module.A.data @ module.B.data)
    return state


def check_parts(model, config, arrays, options_of_vectors):
    """Raises ValueError unless a model has the parts of the one that config.json describes."""
    model_class, options = describe_config(config, arrays)
    with unfilled():
        described = build_model(model.origin.family, model_class, options | options_of_vectors)
    difference = first_difference(model, described, as_saved=True)
    if difference:
        raise ValueError(f"this {type(model).__name__} is not the one that its config.json describes ({difference}), so its "
                         "folder would be read as another model; undo the change, or save the weights alone with "
                         "np.savez(path, **model.state_dict())")


def check_head(model):
    """Raises ValueError for a classifier that transformers does not have."""
    if type(model) is not SequenceClassifier:
        return
    wanted = HEAD_ACTIVATIONS.get(model.origin.family, "tanh")
    activation = type(getattr(model.activation, "parts", [model.activation])[0]).__name__.lower()
    fits = isinstance(model.pool, FirstToken) or model.origin.family == "modernbert"
    if not fits or activation != wanted or model.hidden.d_out != model.hidden.d_in:
        raise ValueError(f"a {model.origin.family} classifier of transformers reads the first token, through a hidden "
                         f"layer of d_model = {model.hidden.d_in} features with {wanted}; this one has the pooling "
                         f"{type(model.pool).__name__} and {model.hidden.d_out} features with {activation}, so transformers "
                         "cannot read it")


def make_config(model, architecture, dtype):
    """Returns config.json as it came, except for facts that have changed."""
    config = dict(model.origin.config)
    config["architectures"] = [architecture]
    for key in ("dtype", "torch_dtype"):
        if key in config:
            config[key] = dtype.name
    if isinstance(model, (SequenceClassifier, TokenClassifier)) and num_labels(config) != model.output.d_out:
        labels = [f"LABEL_{n}" for n in range(model.output.d_out)]
        config["id2label"] = {str(n): label for n, label in enumerate(labels)}
        config["label2id"] = {label: n for n, label in enumerate(labels)}
        config.pop("num_labels", None)
    if type(model) is SequenceClassifier and model.origin.family == "modernbert":
        config["classifier_pooling"] = "cls" if isinstance(model.pool, FirstToken) else "mean"
    return config


def write_folder(folder, arrays, texts):
    """Writes all files under temporary names, and renames them when all are complete."""
    check_folder(folder, texts)
    created = not folder.exists()
    texts = {MARK: json.dumps({"files": sorted([WEIGHTS, MARK, *texts])}, indent=2) + "\n"} | texts
    parts = {}
    try:
        for name in (*texts, WEIGHTS):
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


def check_folder(folder, texts):
    """Raises ValueError if another model's file would be overwritten, or read as part of the new checkpoint."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{str(folder)!r} is a file; name a folder")
    weights = {path.name for pattern in OTHER_WEIGHTS for path in folder.glob(pattern)}
    taken = weights | {name for name in texts if (folder / name).exists()}
    for name in sorted(taken - earlier_files(folder)):
        if name not in texts or (folder / name).read_bytes() != texts[name].encode():
            raise ValueError(f"{str(folder)!r} holds a file {name} of another model, with which the files of this one "
                             "would be mixed up; name another folder")


def is_exported(folder):
    """Returns True for a folder that save_pretrained has written."""
    return bool(earlier_files(Path(folder)))


def earlier_files(folder):
    """Returns the names of the files that save_pretrained has written into the folder before."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        listed = json.loads((folder / MARK).read_text(encoding="utf-8"))["files"]
        return {name for name in listed if name in (MARK, WEIGHTS, "config.json") or is_small_file(name)}
    return set()


def remove_empty(folder):
    """Removes a folder and those in it, as long as they are empty."""
    for path in sorted([folder, *folder.rglob("*")], reverse=True):
        with contextlib.suppress(OSError):
            path.rmdir()
