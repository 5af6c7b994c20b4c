"""generation_config.json: how a published model wants its text to be generated, and what of it `generate` does."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from ..decoding.logit_changes import ForbiddenSequences, MinimumLength, NoRepeatedNGrams, RepetitionPenalty

FILE = "generation_config.json"
SAMPLING = {"do_sample": "do_sample", "temperature": "temperature", "top_k": "top_k", "top_p": "top_p"}
CHANGES = ("repetition_penalty", "no_repeat_ngram_size", "bad_words_ids", "suppress_tokens", "min_length", "min_new_tokens")
LENGTH = ("max_new_tokens",)
ELSEWHERE = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")      # the tokenizer has them
NEUTRAL: dict[str, Any] = {                     # values with which an option changes no text
    "max_length": 20, "min_length": 0, "min_new_tokens": 0, "num_beams": 1, "num_beam_groups": 1, "num_return_sequences": 1,
    "length_penalty": 1.0, "early_stopping": False, "diversity_penalty": 0.0, "top_p": 1.0, "top_k": 0,
    "typical_p": 1.0, "epsilon_cutoff": 0.0, "eta_cutoff": 0.0, "repetition_penalty": 1.0, "no_repeat_ngram_size": 0,
    "encoder_repetition_penalty": 1.0, "encoder_no_repeat_ngram_size": 0, "remove_invalid_values": False,
    "renormalize_logits": False, "token_healing": False, "guidance_scale": 1.0, "bad_words_ids": [], "suppress_tokens": []}
ABOUT_OUTPUT = ("_", "transformers_version", "use_cache", "cache_", "max_cache_len", "output_", "return_dict", "low_memory",
                "compile_config", "disable_compile", "prefill_chunk_size", "is_assistant", "assistant_", "num_assistant_",
                "target_lookbehind", "max_matching_ngram_size", "prompt_lookup_", "continuous_batching", "max_time",
                "use_mtp", "speculation_type")             # beginnings of names that concern speed, or what else is returned
COUNT = (lambda value: 0 <= value < 1e9 and value % 1 == 0), "a whole number that is not negative"
NUMBERS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "temperature": (lambda value: 0 <= value < 1e9, "a number that is not negative"),
    "top_p": (lambda value: 0 < value <= 1, "a number above 0 and up to 1"),
    "repetition_penalty": (lambda value: 0 < value < 1e9, "a number above 0"),
    "max_new_tokens": (lambda value: 1 <= value < 1e9 and value % 1 == 0, "a whole number of at least 1"),
    "top_k": COUNT, "no_repeat_ngram_size": COUNT, "min_length": COUNT, "min_new_tokens": COUNT}


class Generation(NamedTuple):
    """What `generate` does for a published model unless its options say otherwise.

    Fields: options : {name of an argument of `generate`, or "count": value}; changes : list of changes of logits
    """
    options: dict
    changes: list


def settings(config, files):
    """Returns the options of generation_config.json that can change a text; without the file, those of config.json, where
    older versions of transformers put them.

    Raises: ValueError if a value is not of its kind.
    """
    if FILE in files:
        found = read(files[FILE])
    else:
        known = {*NEUTRAL, *SAMPLING, *CHANGES, *LENGTH}
        found = {name: value for name, value in config.items() if name in known and name != "max_length"}
    found = {name: value for name, value in found.items() if value is not None and value != NEUTRAL.get(name)
             and name not in ELSEWHERE and not name.startswith(ABOUT_OUTPUT)}
    for name, (fits, wanted) in NUMBERS.items():
        value = found.get(name)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if name in found and not (is_number and fits(value)):
            raise ValueError(f"{FILE} has {name} = {value!r}, wanted {wanted}; copy the original file")
    for name in ("bad_words_ids", "suppress_tokens"):
        if name in found:
            check_ids(name, found[name])
    return found


def read(text):
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{FILE} is not JSON ({error}); copy the complete file") from error
    if not isinstance(content, dict):
        raise ValueError(f"{FILE} holds no JSON object; copy the original file")
    return content


def check_ids(name, value):
    """Raises ValueError unless the value is a list of ids, or of lists of ids for bad words."""
    rows = value if name == "bad_words_ids" else [value]
    if not isinstance(rows, list) or not all(
            isinstance(row, list) and row and all(type(i) is int and i >= 0 for i in row) for row in rows):
        raise ValueError(f"{FILE} has a list {name} that does not consist of ids; copy the original file")


def generation(config, files, prompt, stops):
    """Returns the Generation of a model whose prompt has this number of tokens, and whose texts end with one of the stops."""
    found = settings(config, files)
    options = {name: found[name] for name in ("temperature", "top_k", "top_p") if name in found}
    if found.get("do_sample") is True:
        options = {"temperature": 1.0} | options
    if found.get("do_sample") is False:
        options = {"temperature": 0.0}
    if "max_new_tokens" in found:
        options["count"] = int(found["max_new_tokens"])
    changes: list[Any] = []
    if "repetition_penalty" in found:
        changes.append(RepetitionPenalty(found["repetition_penalty"]))
    if "no_repeat_ngram_size" in found:
        changes.append(NoRepeatedNGrams(int(found["no_repeat_ngram_size"])))
    forbidden = [row for row in found.get("bad_words_ids", []) if row not in [[stop] for stop in stops]]
    forbidden += [[token] for token in found.get("suppress_tokens", [])]
    if forbidden:
        changes.append(ForbiddenSequences(forbidden))
    least = int(max(found.get("min_length", 0), prompt + found["min_new_tokens"] if "min_new_tokens" in found else 0))
    if least:
        changes.append(MinimumLength(least, list(stops)))
    return Generation(options, changes)


def describe(config, files, command):
    """Returns sentences about what `generate` follows, and what the command does not do.

    Parameters: config, files : of the folder; command : "generate" or "translate", which follows nothing but the end
    """
    found = settings(config, files)
    source = FILE if FILE in files else "config.json"
    can_follow = (*SAMPLING, *CHANGES, *LENGTH) if command == "generate" else ()
    followed = [shown(name, found[name]) for name in can_follow if name in found]
    ignored = [shown(name, value) for name, value in found.items() if name not in can_follow]
    sentences = []
    if followed:
        sentences.append(f"`generate` follows {source} unless its options say otherwise: {', '.join(followed)}.")
    if ignored:
        sentences.append(f"{source} also has {', '.join(ignored)}, which `{command}` does not follow.")
    return sentences


def shown(name, value):
    text = json.dumps(value)
    return f"{name} {text if len(text) <= 40 else text[:37] + '...'}"
