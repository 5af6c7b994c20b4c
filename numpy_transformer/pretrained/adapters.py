"""LoRA adapters as the library PEFT saves them: updates of a model's weights, which are merged into those of its base.

The files of an adapter are adapter_config.json and adapter_model.safetensors. For a linear layer of the base whose weight is
W (d_out, d_in), they have lora_A (rank, d_in) and lora_B (d_out, rank); the layer gets the weight W + s lora_B lora_A, where
s = alpha / rank, or alpha / sqrt(rank) with use_rslora. Source: Hu et al. 2021; Kalajdzievski 2023 for the square root.
"""

import math
import re
from pathlib import Path

import numpy as np

from .folder import read_json, shown
from .places import find_folder
from .registry import FAMILIES, rules
from .safetensors import TensorFile

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
UPDATE = re.compile(r"(?:base_model\.model\.)?(?P<layer>.+)\.lora_(?P<part>[AB])(?:\.default)?\.weight")
UNSUPPORTED = {                                 # in adapter_config.json: what it asks for
    "use_dora": "DoRA, which also learns the length of each column",
    "modules_to_save": "whole layers that were trained",
    "trainable_token_indices": "trained rows of the embedding",
    "target_parameters": "updates of single parameters",
    "layer_replication": "blocks that are repeated",
    "megatron_config": "layers of the library Megatron",
    "lora_bias": "biases in the updates",
    "use_qalora": "updates for quantized weights",
    "alora_invocation_tokens": "updates that begin to act at some token",
}
CHANGED_BASE = ("pissa", "olora", "corda", "loftq")     # ways to begin that also change the weights of the base


def is_adapter(folder):
    """Returns True for the folder of an adapter."""
    return (Path(folder) / CONFIG).is_file()


def base_folder(folder, base=None):
    """Returns the folder of the model that an adapter changes: the given one, its own if it has a model too, or the one that
    adapter_config.json names.

    Raises: ValueError if that is no folder on this computer.
    """
    folder = Path(folder)
    named = read_json(folder / CONFIG).get("base_model_name_or_path")
    if base is None and has_model(folder):
        return folder
    if base is None and isinstance(named, str) and named:
        base = next((place for place in (folder / named, Path(named)) if place.exists()), None)
    if base is not None:
        place = find_folder(base, lambda path: None)
        if is_adapter(place) and not has_model(place):
            raise ValueError(f"{str(place)!r} is an adapter too; name the folder of the model that was adapted")
        return place
    raise ValueError(f"{str(folder)!r} is an adapter, which holds updates of the model {named!r} alone; name the folder of "
                     "that model with `import --base`, or in Python with load_pretrained(folder, base=...)")


def has_model(folder):
    """Returns True for a folder with config.json and weights besides those of an adapter."""
    return (folder / "config.json").exists() and any(path.name != WEIGHTS for path in folder.glob("*.safetensors"))


def merge_adapter(model, folder):
    """Adds the updates of an adapter to the weights of its base, a model that load_pretrained has returned; returns it.

    Raises: ValueError for an adapter of another kind, one that does not fit the model, or one that is damaged; then the model
        stays as it was.
    """
    folder = Path(folder)
    config = read_json(folder / CONFIG)
    check_kind(config)
    parts = pair_up(open_updates(folder))
    family = FAMILIES[model.origin.family]
    known = {rule.theirs: rule for rule in rules(model)}
    own = dict(model.named_parameters())
    updates = {}
    for layer, (a, b) in parts.items():
        rule = known.get(family.canonical(f"{layer}.weight", known))
        if rule is None:
            raise ValueError(f"the adapter updates {layer}, a layer that this {model.origin.family} model does not have; "
                             "name the model that was adapted with --base")
        rank = check_shapes(layer, a, b, rule.shape if rule.transposed else rule.shape[::-1])
        check_rank(layer, rank, config)
        update = scale(layer, rank, config) * (a.astype(np.float64).T @ b.astype(np.float64).T)     # (d_in, d_out)
        if not np.isfinite(update).all():
            raise ValueError(f"the update of {layer} holds NaN or infinite values; copy or download the adapter again")
        updates |= rule.split(update.T if rule.transposed else update)
    for name, update in updates.items():
        own[name].data = (own[name].data + update).astype(own[name].data.dtype)
    return model


def open_updates(folder):
    """Returns the arrays of an adapter, a Mapping."""
    if (folder / WEIGHTS).is_file():
        return TensorFile(folder / WEIGHTS)
    other = next(iter(sorted(folder.glob("adapter_model.*"))), None)
    what = f"; {other.name} stays closed, because it can execute any code when it is opened" if other is not None else ""
    raise ValueError(f"{str(folder)!r} has {CONFIG} but no {WEIGHTS}{what}; save the adapter again in this format")


def check_kind(config):
    """Raises ValueError for an adapter that is no plain LoRA."""
    kind = config.get("peft_type")
    if kind != "LORA":
        raise ValueError(f"{CONFIG} has peft_type = {kind!r}; this package only reads adapters of the type 'LORA', so merge "
                         "it with PEFT (merge_and_unload) and save the whole model")
    asked = [f"{option} ({words})" for option, words in UNSUPPORTED.items() if config.get(option)]
    if config.get("bias", "none") != "none":
        asked.append(f"bias = {config['bias']!r} (trained biases)")
    start = config.get("init_lora_weights")
    if isinstance(start, str) and start.lower().startswith(CHANGED_BASE):
        asked.append(f"init_lora_weights = {start!r} (a base whose weights were changed too)")
    if asked:
        raise ValueError(f"{CONFIG} asks for {', '.join(asked)}, which this package does not read; merge the adapter with "
                         "PEFT (merge_and_unload) and save the whole model")


def pair_up(arrays):
    """Returns {layer: (lora_A, lora_B)}.

    Raises: ValueError for other arrays, or half a pair.
    """
    found = {}
    others = []
    for name in arrays:
        match = UPDATE.fullmatch(name)
        if match is None or match["part"] in found.setdefault(match["layer"], {}):
            others.append(name)
        else:
            found[match["layer"]][match["part"]] = arrays[name]
    if others:
        raise ValueError(f"{WEIGHTS} has arrays that are no updates of linear layers ({shown(others)}), which this package "
                         "does not read; merge the adapter with PEFT (merge_and_unload) and save the whole model")
    half = [layer for layer, parts in found.items() if len(parts) < 2]
    if half or not found:
        what = f"has only one half of the update of {half[0]}" if half else "has no update"
        raise ValueError(f"{WEIGHTS} {what}; copy or download the adapter again")
    return {layer: (parts["A"], parts["B"]) for layer, parts in found.items()}


def check_shapes(layer, a, b, shape):
    """Returns the rank. Raises ValueError unless lora_A and lora_B fit a weight (d_out, d_in)."""
    if a.ndim != 2 or b.ndim != 2 or len(shape) != 2 or (b.shape[0], a.shape[1]) != shape or a.shape[0] != b.shape[1]:
        raise ValueError(f"the update of {layer} has the shapes {a.shape} and {b.shape}, which do not fit its weight "
                         f"{shape}; name the model that was adapted with --base")
    return a.shape[0]


def check_rank(layer, rank, config):
    """Raises ValueError unless an update has the rank that adapter_config.json says."""
    wanted = of_layer(layer, config, "rank_pattern", config.get("r"))
    if wanted != rank:
        raise ValueError(f"the update of {layer} has the rank {rank}, but {CONFIG} says {wanted!r}; use the files of one "
                         "adapter")


def scale(layer, rank, config):
    """Returns s, by which the product of lora_B and lora_A is multiplied."""
    alpha = of_layer(layer, config, "alpha_pattern", config.get("lora_alpha"))
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float)) or not math.isfinite(alpha):
        raise ValueError(f"{CONFIG} has lora_alpha = {alpha!r} for {layer}, wanted a number; copy the original file")
    return alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)


def of_layer(layer, config, pattern, default):
    """Returns the value that a pattern of adapter_config.json has for a layer: of the first name, or expression for names,
    with which its name ends.
    """
    values = config.get(pattern) or {}
    if not isinstance(values, dict):
        raise ValueError(f"{CONFIG} has {pattern} = {values!r}, wanted a JSON object; copy the original file")
    try:
        return next((value for name, value in values.items() if re.fullmatch(rf"(.*\.)?({name})", layer)), default)
    except re.error as error:
        raise ValueError(f"{CONFIG} has a name in {pattern} that is no regular expression ({error}); copy the original "
                         "file") from error


def describe_adapter(folder, base=None):
    """Returns [a sentence] about the adapter in a folder, [] if there is none."""
    if not is_adapter(folder):
        return []
    config = read_json(Path(folder) / CONFIG)
    kind = "alpha / sqrt(rank)" if config.get("use_rslora") else "alpha / rank"
    own = " The tokenizer is that of the base." if (Path(folder) / "tokenizer.json").exists() else ""
    return [f"The LoRA updates of the adapter (rank {config.get('r')}, alpha {config.get('lora_alpha')}, scaled by {kind}) "
            f"are merged into the weights of {str(base_folder(folder, base))!r}.{own}"]
