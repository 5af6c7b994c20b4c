"""Saves a model that a script has trained as a run, which the commands use like one of `train`."""

import json
import os
from typing import Any

from ..data import KerasReader, PretrainedTokenizer, StoryTokenizer, TextReader, marks
from ..data.reader import SPECIAL
from ..layers import LoRALinear
from ..models.rebuildable import RebuildableModel
from ..models.structure import first_difference
from ..module import Module, unfilled
from ..outputs import check_output
from ..training import Trainer
from ..training.checkpoint import write_checkpoint
from ..training.trainer_state import history_arrays
from .encoder import ENCODERS
from .imported_runs import meta_of
from .options import model_of_run, options_of
from .runs import LABELED, MODELS, PAIRS, SCRIPT

KINDS = {model_class: kind for kind, model_class in MODELS.items() if kind != "text2text"}     # the class is that of seq2seq


def save_run(path: str | os.PathLike, model: Module, *tokenizers: Any, labels: list[str] | None = None,
             trainer: Trainer | None = None) -> None:
    """Saves a model with its tokenizer as a run, which nt.load_run and the commands open: `generate`, `info`, `explore`, ...

    The model of load_pretrained keeps its origin, so `export` takes its run, too.

    Parameters:
        path : path of the file, such as "lm.npz"; an existing file is replaced
        model : CausalLanguageModel, EncoderDecoder, TextEncoder, SequenceClassifier, TokenClassifier or MaskedLanguageModel
        tokenizers : the tokenizer; that of the source and that of the target, or one for both, if it is an EncoderDecoder;
            a TextReader, or a tokenizer that one with its default settings uses, if it is an encoder
        labels : list of str, the names of a classifier's classes or a tagger's tags, in the order of the outputs
        trainer : the Trainer, whose history is then saved with the weights

    Raises:
        TypeError if a model or tokenizers of these classes cannot be saved. ValueError if tokenizers or labels do not fit
        the model, if parts of it have been replaced since it was made, or if nothing can be written at this path.
    """
    check_output(path)
    tokens = [getattr(tokenizer, "tokens", tokenizer) for tokenizer in tokenizers]
    check_classes(model, tokens)
    arrays = {f"model/{name}": parameter.data for name, parameter in model.named_parameters()}
    if hasattr(model, "origin"):                # of load_pretrained
        meta = meta_of(model, tokens[0])
        if not isinstance(tokens[0], (PretrainedTokenizer, StoryTokenizer)):       # not that of a published model
            meta["settings"] |= settings_of_own(meta["kind"], model.origin.options, tokenizers, tokens)
        with unfilled():
            check_parts(model, model_of_run(type(model), meta["model"], meta["origin"], 0))
        arrays |= {f"unused/{name}": array for name, array in model.origin.unused.items()}
    else:
        meta = meta_of_own(model, arguments_of(model), tokenizers, tokens)
    if labels is not None:
        meta["corpus"] = meta["corpus"] | {"labels": list(labels)}
    check_labels(model, meta["kind"], meta["corpus"].get("labels"))
    if trainer is not None:
        arrays |= history_arrays(trainer)
    write_checkpoint(path, arrays, meta | {"config": SCRIPT, "step": 0 if trainer is None else trainer.steps})


def check_classes(model, tokens):
    """Raises TypeError unless the model is one of those that commands use, and has as many tokenizers as it needs."""
    if type(model) not in KINDS:
        raise TypeError(f"save_run saves {', '.join(one.__name__ for one in KINDS)}, and not {type(model).__name__}; save "
                        "other models with np.savez(path, **model.state_dict())")
    wrong = [one for one in tokens if not hasattr(one, "to_json")]
    if wrong:
        raise TypeError(f"a {type(wrong[0]).__name__} is no tokenizer; pass a tokenizer of numpy_transformer.data, such as "
                        "CharTokenizer")
    allowed = (1, 2) if KINDS[type(model)] in PAIRS else (1,)
    if len(tokens) not in allowed:
        wanted = "the tokenizer of the source and that of the target" if 2 in allowed else "its tokenizer"
        raise TypeError(f"{len(tokens)} tokenizers were given, but a run of {type(model).__name__} consists of the model and "
                        f"{wanted}")


def meta_of_own(model, arguments, tokenizers, tokens):
    """Returns what the file says besides the weights about a model that was made with its constructor."""
    kind, options = KINDS[type(model)], options_of(type(model), arguments)
    tokens = tokens * 2 if kind in PAIRS and len(tokens) == 1 else tokens
    settings = {"seed": 1} | settings_of_own(kind, options, tokenizers, tokens)
    if kind in PAIRS:
        settings |= {"max_len": options["max_len"], "task": None}
    elif kind not in ENCODERS:
        settings |= {"context": options["max_len"]}
    return {"kind": kind, "model": arguments, "tokenizers": [one.to_json() for one in tokens], "corpus": {}, "best": None,
            "settings": settings}


def settings_of_own(kind, options, tokenizers, tokens):
    """Returns the settings of tokenizers of this package. Raises ValueError unless a model with these options has their ids."""
    settings = {"tokenizer": tokens[0].to_json()["kind"], "vocab_size": tokens[0].vocab_size}
    sizes = {"vocab_size": tokens[0].vocab_size}
    if kind in ENCODERS:
        reader = tokenizers[0] if isinstance(tokenizers[0], TextReader) else TextReader(tokens[0], options["max_len"])
        sizes, reading = {"vocab_size": reader.vocab_size}, "keras" if isinstance(reader, KerasReader) else "bert"
        settings |= {"vocab_size": tokens[0].vocab_size + SPECIAL - 1, "max_len": reader.max_len, "lower": reader.lower,
                     "reading": reading, "text_column": "text", "label_column": "label"}
    elif kind in PAIRS:
        sizes = {name: one.vocab_size + marks(one).first for name, one in zip(("src_vocab", "tgt_vocab"), tokens)}
    for name, size in sizes.items():
        if options[name] != size:
            raise ValueError(f"the model was made with {name} = {options[name]}, but this tokenizer has {size} ids with "
                             "the special ones; pass the tokenizer with which the model was trained")
    return settings


def arguments_of(model: RebuildableModel) -> dict[str, Any]:
    """Returns the arguments with which a model was made. Raises ValueError if they do not make the same model again."""
    arguments = model.constructor_arguments()
    for name, value in arguments.items():
        try:
            arguments[name] = json.loads(json.dumps(value, default=lambda array: array.tolist()))
        except (AttributeError, TypeError) as error:
            raise ValueError(f"a run stores the arguments of {type(model).__name__} as text, but {name} is a "
                             f"{type(value).__name__}; choose {name} by its name") from error
    with unfilled():
        check_parts(model, type(model)(**arguments, rng=0))
    return arguments


def check_parts(model: Module, again: Module) -> None:
    """Raises ValueError unless a model has the parts of the one that its arguments make again."""
    difference = first_difference(model, again)
    if difference:
        has_lora = any(isinstance(module, LoRALinear) for _, module in model.named_modules())
        remedy = "nt.merge_lora takes back what add_lora did" if has_lora else \
            "save the weights alone with np.savez(path, **model.state_dict())"
        raise ValueError(f"parts of the {type(model).__name__} have been replaced or changed since it was made ({difference}), "
                         f"and a run stores its arguments alone; {remedy}")


def check_labels(model, kind, labels):
    """Raises ValueError unless a classifier or tagger has a name for each of its outputs, and other models have none."""
    if kind not in LABELED:
        if labels is not None:
            raise ValueError(f"a {type(model).__name__} has no labels; leave them out")
        return
    outputs = options_of(type(model), model.constructor_arguments())["num_classes"]
    count = 2 if kind == "classifier" and outputs == 1 else outputs         # one logit decides between two classes
    if labels is None or len(labels) != count:
        given = "none" if labels is None else str(len(labels))
        raise ValueError(f"a {type(model).__name__} with num_classes = {outputs} needs {count} labels, but {given} were "
                         'given; pass their names in the order of the outputs, such as labels=["bad", "good"]')
