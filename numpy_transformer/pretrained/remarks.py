"""What is in the folder of a published model that this package does in another way, or not at all, in sentences."""

import json

from ..models import EncoderDecoder, TextEncoder
from . import generation_config
from .registry import FAMILIES
from .sentences import describe_prompts

TEMPLATES = ("chat_template.jinja", "chat_template.json")


def remarks(model):
    """Returns sentences about what is in the folder of a model that load_pretrained has returned, and what is done with it.

    Raises: ValueError for a file that is damaged.
    """
    origin = model.origin
    config, files = origin.config, origin.files
    sentences = headless(model)
    if not isinstance(model, TextEncoder):
        command = "translate" if isinstance(model, EncoderDecoder) else "generate"
        sentences += generation_config.describe(config, files, command) + templates(files, command)
        sentences += tasks(config, command)
    elif isinstance(model, TextEncoder):
        sentences += describe_prompts(files)
    if config.get("auto_map"):
        sentences.append("config.json names Python code of its own (auto_map), which is not run here; the model is built as "
                         f"one of the family {origin.family}.")
    return sentences


def headless(model):
    """Returns [a sentence] if the files of an encoder have no weights for the head that config.json names."""
    named = (model.origin.config.get("architectures") or [None])[0]
    heads = FAMILIES[model.origin.family].heads
    if type(model) is not TextEncoder or named not in heads or heads[named][0] is TextEncoder:
        return []
    return [f"config.json names the architecture {named}, but the files have no weights of its head, so the model is loaded "
            "as an encoder without a head."]


def templates(files, command):
    """Returns [a sentence] if the model has a template of conversations."""
    if not any(name in files for name in TEMPLATES):
        try:
            if not json.loads(files.get("tokenizer_config.json", "{}")).get("chat_template"):
                return []
        except (ValueError, AttributeError):    # the tokenizer's own reader says that it is damaged
            return []
    return [f"The tokenizer has a chat template, which `{command}` does not apply: it continues a prompt as it is written, "
            "so write the marks of a conversation yourself."]


def tasks(config, command):
    """Returns [a sentence] if config.json has settings for single tasks."""
    named = config.get("task_specific_params")
    if not isinstance(named, dict) or not named:
        return []
    prefixes = {name: values["prefix"] for name, values in named.items() if isinstance(values, dict) and values.get("prefix")}
    shown = ", ".join(f"{name} ({prefixes[name]!r})" if name in prefixes else name for name in named)
    remedy = "write the prefix of a task before the text yourself" if prefixes else "give options of the command instead"
    return [f"config.json has settings for the tasks {shown} (task_specific_params), which `{command}` does not use; "
            f"{remedy}."]
