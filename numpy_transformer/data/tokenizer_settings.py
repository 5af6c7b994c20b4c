"""The files beside tokenizer.json that change how a published model reads a text."""

import json

SENTENCE_CONFIGS = tuple(f"sentence_{name}_config.json" for name in (       # the first one in the folder counts
    "bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet"))
OF_PARTS = {                                    # type of a part of tokenizer.json: {its field: name in tokenizer_config.json}
    "BertNormalizer": {"lowercase": "do_lower_case", "strip_accents": "strip_accents",
                       "handle_chinese_chars": "tokenize_chinese_chars"},
    "ByteLevel": {"add_prefix_space": "add_prefix_space"}}


def read_json(files, name):
    """Returns the dict in one of the files; {} if it is not there."""
    try:
        content = json.loads(files.get(name, "{}"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} is not JSON ({error}); copy the complete file") from error
    if not isinstance(content, dict):
        raise ValueError(f"{name} holds no JSON object; copy the original file")
    return content


def sentence_config(files):
    """Returns the dict in the file in which sentence-transformers keeps how it reads a text; {} without one."""
    return next((read_json(files, name) for name in SENTENCE_CONFIGS if name in files), {})


def adjusted(definition, settings, lower):
    """Returns the content of tokenizer.json with the changes that transformers and sentence-transformers make when they read
    it; the same text if there are none.

    Parameters: definition : str; settings : dict, the content of tokenizer_config.json; lower : True puts lower-casing before
        everything else
    """
    try:
        content = json.loads(definition)
        parts = [content.get(name) for name in ("normalizer", "pre_tokenizer")]
    except (ValueError, AttributeError, RecursionError) as error:
        raise ValueError(f"tokenizer.json is no definition of a tokenizer ({error!r}); copy the complete file") from error
    changed = False
    for part in (part for part in parts if isinstance(part, dict)):
        for field, name in OF_PARTS.get(str(part.get("type")), {}).items():
            if isinstance(settings.get(name), bool) and part.get(field) != settings[name]:
                part[field] = settings[name]
                changed = True
    if lower:
        others = [parts[0]] if parts[0] else []
        content["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "Lowercase"}, *others]}
    return json.dumps(content, ensure_ascii=False) if changed or lower else definition
