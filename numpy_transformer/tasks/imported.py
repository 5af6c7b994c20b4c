"""Published models as runs: what the file holds that `import` writes, and what can be done with it."""

import json
from pathlib import Path

from ..data import PretrainedTokenizer, StoryTokenizer
from .runs import IMPORTED, MODELS

TOKENIZER_FILES = "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json"
LONGEST_SOURCE = 512                            # T5 limits no length; published ones are trained on 512 tokens


def read_tokenizer(path, config):
    """The tokenizer of a folder in the layout of Hugging Face. Raises ValueError if it has no tokenizer.json."""
    found = {name: Path(path, name).read_text(encoding="utf-8") for name in TOKENIZER_FILES if Path(path, name).is_file()}
    if "tokenizer.json" not in found:
        raise ValueError(f"{str(path)!r} has no tokenizer.json; put that of the model there, or write one with "
                         "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) of the library transformers")
    return PretrainedTokenizer.from_files(found, config)


def read_story_tokenizer(path, tokenizer):
    """The tokenizer of a model of llama2.c: the file `tokenizer`, or tokenizer.bin beside the model."""
    beside = Path(path).parent / "tokenizer.bin"
    if tokenizer is None and not beside.is_file():
        raise ValueError(f"there is no tokenizer.bin beside {str(path)!r}; name that of the model with --tokenizer")
    return StoryTokenizer.read(tokenizer or beside)


def checkpoint_of(model, tokenizer):
    """(arrays, meta) of the run of a published model, which load_run turns into the same model again."""
    origin, kind = model.origin, kind_of(model)
    arrays = {f"model/{name}": parameter.data for name, parameter in model.named_parameters()}
    arrays |= {f"unused/{name}": array for name, array in origin.unused.items()}
    files = {name: text for name, text in origin.files.items() if name != "tokenizer.json"}     # it is in the tokenizer
    tokenizers = [tokenizer.to_json()] * (2 if kind == "text2text" else 1)
    return arrays, {"kind": kind, "config": IMPORTED, "settings": settings_of(kind, origin), "model": origin.options,
                    "tokenizers": tokenizers, "corpus": corpus_of(kind, origin.config), "step": 0, "best": None,
                    "origin": {"family": origin.family, "config": origin.config, "files": files}}


def kind_of(model):
    """The kind of task that a published model serves, by its class."""
    if type(model) is MODELS["text2text"]:
        return "text2text"                      # not "seq2seq", which has the same class
    return next(kind for kind, model_class in MODELS.items() if type(model) is model_class)


def settings_of(kind, origin):
    """The settings that the commands need besides the model itself."""
    if kind == "lm":
        return {"context": origin.options["max_len"], "seed": 1}
    longest = origin.options.get("max_len", LONGEST_SOURCE)
    if kind == "text2text":
        longest = origin.config.get("n_positions", LONGEST_SOURCE)
    published = json.loads(origin.files.get("sentence_bert_config.json", "{}")).get("max_seq_length")
    settings = {"max_len": min(longest, published or longest), "seed": 1}
    if kind == "classifier":
        settings |= {"text_column": "text", "label_column": "label"}
    return settings


def corpus_of(kind, config):
    """The names of the classes or tags, in the order of the model's outputs."""
    if kind not in ("classifier", "tagger"):
        return {}
    labels = config.get("id2label") or {0: "LABEL_0", 1: "LABEL_1"}         # transformers' default
    return {"labels": [name for _, name in sorted((int(number), name) for number, name in labels.items())]}
