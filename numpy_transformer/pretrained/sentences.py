"""Folders of the library sentence-transformers: how the vectors of all tokens become one vector."""

import json

MODULES = "modules.json"


def embedding_options(files):
    """Returns the options `embedding_pool` and `normalize` of a TextEncoder, from the files of its folder.

    Without modules.json the vectors are averaged and not normalized.
    Raises: ValueError for a module or a pooling that this package does not support.
    """
    options = {"embedding_pool": "mean", "normalize": False}
    for kind, path in modules(files):
        if kind == "Pooling":
            options["embedding_pool"] = pooling(files, f"{path}/config.json")
        elif kind == "Normalize":
            options["normalize"] = True
        elif kind != "Transformer":
            raise ValueError(f"{MODULES} lists a module {kind!r}; this package supports Transformer, Pooling and "
                             "Normalize, so it cannot compute the same sentence vectors")
    return options


def modules(files):
    """Returns [(kind, path)] of the modules that modules.json lists, such as ("Pooling", "1_Pooling")."""
    try:
        return [(module["type"].rpartition(".")[2], module["path"]) for module in read_json(files, MODULES, [])]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{MODULES} is not the list of modules of a sentence encoder ({error!r}); copy or download it "
                         "again") from error


def read_json(files, name, otherwise=None):
    """Returns what a JSON file holds; `otherwise` if it is missing, unless that is None."""
    if name not in files and otherwise is not None:
        return otherwise
    try:
        return json.loads(files[name])
    except (KeyError, ValueError, RecursionError) as error:
        raise ValueError(f"the folder's {name} is missing or damaged ({error}); copy or download it again") from error


def pooling(files, name):
    """Returns "mean" or "first", from the config.json of a Pooling module."""
    config = read_json(files, name)
    if not isinstance(config, dict):
        raise ValueError(f"{name} does not hold a JSON object; copy or download it again")
    chosen = [key.removeprefix("pooling_mode_") for key, value in config.items()
              if key.startswith("pooling_mode_") and value is True]
    chosen = chosen or [config.get("pooling_mode")]
    known = {"mean_tokens": "mean", "mean": "mean", "cls_token": "first", "cls": "first"}
    if len(chosen) != 1 or chosen[0] not in known:
        raise ValueError(f"{name} asks for the pooling {', '.join(map(str, chosen))}; this package supports mean_tokens "
                         "or cls_token, so it cannot compute the same sentence vectors")
    return known[chosen[0]]


def is_sentence_file(path):
    """Returns True for files that only sentence-transformers reads."""
    return path == MODULES or "sentence" in path or path.endswith("/config.json")
