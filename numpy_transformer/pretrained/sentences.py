"""Folders of the library sentence-transformers: how the vectors of all tokens become one vector."""

import json

from ..data.tokenizer_settings import sentence_config
from ..models import TextEncoder

MODULES = "modules.json"
SETTINGS = "config_sentence_transformers.json"
USUAL = "SentenceTransformer"
ENCODER_ALONE = "remove modules.json to load the encoder alone"


def embedding_options(files):
    """Returns the options `embedding_pool` and `normalize` of a TextEncoder, from the files of its folder.

    Without modules.json the vectors are averaged and not normalized.
    Raises: ValueError for a module or a pooling that this package does not support.
    """
    check_output(sentence_config(files))
    options = {"embedding_pool": "mean", "normalize": False}
    for kind, path in modules(files):
        if kind == "Pooling":
            options["embedding_pool"] = pooling(files, f"{path}/config.json")
        elif kind == "Normalize":
            options["normalize"] = True
        elif kind != "Transformer":
            raise ValueError(f"{MODULES} lists a module {kind!r}; this package supports Transformer, Pooling and "
                             f"Normalize, so it cannot compute the same sentence vectors; {ENCODER_ALONE}")
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
                         f"or cls_token, so it cannot compute the same sentence vectors; {ENCODER_ALONE}")
    return known[chosen[0]]


def check_output(config):
    """Raises ValueError if the vectors of a sentence are not made of the last outputs of the encoder."""
    modality = config.get("modality_config")
    text = modality.get("text") if isinstance(modality, dict) else None
    output = text.get("method_output_name", "last_hidden_state") if isinstance(text, dict) else "last_hidden_state"
    task = config.get("transformer_task", "feature-extraction")
    if task != "feature-extraction" or output != "last_hidden_state":
        raise ValueError(f"the sentence encoder uses {output!r} of the task {task!r}; this package supports "
                         f"last_hidden_state of feature-extraction, so it cannot compute the same sentence vectors; "
                         f"{ENCODER_ALONE}")


def describes_vectors(model_class, files):
    """Returns True if a model of this class is for nothing but vectors, or if the folder says how an encoder with a head
    makes those of sentences.
    """
    if model_class is TextEncoder or not issubclass(model_class, TextEncoder):
        return model_class is TextEncoder
    return any(kind == "Pooling" for kind, _ in modules(files))


def vector_settings(files):
    """Returns {"prompt": the text that stands before each text, "truncate_dim": how many numbers of a vector are kept}; each
    only if the folder has it.

    Raises: ValueError for values of another type, or a prompt that is left out of the mean.
    """
    given = settings_in(files)
    found = {}
    prompts, name = given.get("prompts") or {}, given.get("default_prompt_name")
    if name is not None:
        if not isinstance(prompts, dict) or not isinstance(prompts.get(name), str):
            raise ValueError(f"{SETTINGS} has the default prompt {name!r}, but no text for it; copy the original file")
        found["prompt"] = prompts[name]
    dim = given.get("truncate_dim")
    if dim is not None:
        if type(dim) is not int or dim < 1:
            raise ValueError(f"{SETTINGS} has truncate_dim = {dim!r}, wanted a whole number of at least 1; copy the original "
                             "file")
        found["truncate_dim"] = dim
    for kind, path in modules(files):
        pools_after_prompt = kind == "Pooling" and found.get("prompt")
        if pools_after_prompt and read_json(files, f"{path}/config.json").get("include_prompt") is False:
            raise ValueError(f"{path}/config.json leaves the prompt {found['prompt']!r} out of the sentence vector "
                             f"(include_prompt), which this package does not do; {ENCODER_ALONE}")
    return found


def settings_in(files):
    given = read_json(files, SETTINGS, {})
    if not isinstance(given, dict):
        raise ValueError(f"{SETTINGS} holds no JSON object; copy the original file")
    return given


def describe_prompts(files):
    """Returns sentences about the prompts that are not put before texts, another kind of model, and another similarity."""
    given = settings_in(files)
    prompts = given.get("prompts") if isinstance(given.get("prompts"), dict) else {}
    others = [f"{name} {text!r}" for name, text in prompts.items() if text and name != given.get("default_prompt_name")]
    sentences = []
    if others:
        sentences.append(f"{SETTINGS} has the prompts {', '.join(others)}, which `embed` and `similar` do not put before a "
                         "text; write the one that fits before your text.")
    if given.get("model_type", USUAL) != USUAL:
        sentences.append(f"{SETTINGS} describes a {given['model_type']}, of which only the encoder and its head are "
                         "used here.")
    if given.get("similarity_fn_name") not in (None, "cosine"):
        sentences.append(f"{SETTINGS} compares vectors by {given['similarity_fn_name']!r}; `similar` sorts by the cosine.")
    return sentences


def is_sentence_file(path):
    """Returns True for files that only sentence-transformers reads."""
    return path == MODULES or "sentence" in path or path.endswith("/config.json")
