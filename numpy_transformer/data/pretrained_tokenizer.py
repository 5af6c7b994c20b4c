"""The tokenizers of published models, which the `tokenizers` library reads from their file tokenizer.json."""

import contextlib
import os
import sys
from functools import cached_property

import numpy as np

from ..file_checks import check_form, has_form, one_line, quoted, shown
from .batches import PAD
from .bpe import check_unicode
from .pairs import Marks
from .tokenizer_files import make_definition
from .tokenizer_settings import adjusted, read_json, sentence_config

NAMES = "pad", "unk", "cls", "sep", "mask", "bos", "eos"
USUAL = {"pad": ("[PAD]", "<pad>"), "mask": ("[MASK]", "<mask>")}       # for folders whose files do not name them
FORM = {"definition": str, "special": {str: int}, "begin": [int], "end": [int], "stop": [int], "start": (int, type(None))}
INSTALL = "pip install tokenizers"


class PretrainedTokenizer:
    """The tokenizer of a published model. Its ids are those of the model, special ids included.

    Padding and truncation that the file asks for are switched off. A special token in the text, such as [MASK] or
    <|endoftext|>, becomes its own id.

    Parameters:
        definition : str, the content of tokenizer.json
        special : {name: id} of the special tokens that the model has; the names are pad, unk, cls, sep, mask, bos, eos
        begin, end : lists of ids that the model expects before and after a text
        stop : list of ids, each of which ends a generated text
        start : id with which an encoder-decoder begins its target, or None

    Raises:
        ValueError if the `tokenizers` library is not installed or cannot read the definition.
    """

    def __init__(self, definition, special, begin=(), end=(), stop=(), start=None):
        self.definition = definition
        self.files = {"tokenizer.json": definition}
        self.tokenizer = read_definition(definition)
        self.special = special
        self.begin, self.end, self.stop = begin, end, stop
        self.start = start
        check_ids_of(self)

    def __repr__(self):
        return f"PretrainedTokenizer(vocab_size={self.vocab_size})"

    @classmethod
    def from_files(cls, files, config):
        """Returns the tokenizer of a folder.

        Parameters:
            files : {name: content} of the folder's tokenizer.json, or the older files of tokenizer_files.py, and, if it has
                them, tokenizer_config.json, special_tokens_map.json and generation_config.json
            config : dict, its config.json
        """
        settings, names, generation = (read_json(files, f"{name}.json") for name in (
            "tokenizer_config", "special_tokens_map", "generation_config"))
        definition = files.get("tokenizer.json") or make_definition(files, names | settings, config)
        definition = adjusted(definition, settings, bool(sentence_config(files).get("do_lower_case")))
        tokenizer = read_definition(definition)
        special = find_special(tokenizer, names | settings, config)
        begin, end = find_frame(tokenizer)
        has_bos = "bos" in special and special["bos"] in begin
        if settings.get("add_bos_token") is True and "bos" in special and not has_bos:
            begin = [special["bos"], *begin]
        elif settings.get("add_bos_token") is False and has_bos:
            begin = [i for i in begin if i != special["bos"]]
        stop = first_given("eos_token_id", (int, [int]), "an id or a list of ids", generation, config)
        start = first_given("decoder_start_token_id", int, "an id", generation, config)
        if stop is None:
            stop = [special["eos"]] if "eos" in special else []
        return cls(definition, special, begin, end, np.ravel(stop).tolist(), start)

    @cached_property
    def vocab_size(self):
        """One more than the largest id; some vocabularies have gaps."""
        return 1 + max(self.tokenizer.get_vocab().values(), default=-1)

    @property
    def marks(self):
        """The Marks of an encoder-decoder's texts: the source ends with an id, the target also begins with one.

        Raises: ValueError if the model's files do not name both ids.
        """
        missing = [name for name, given in (("decoder_start_token_id", self.start is not None), ("eos_token_id", self.stop))
                   if not given]
        if missing:
            raise ValueError(f"config.json has no {' and no '.join(missing)}, and an encoder-decoder needs the ids that "
                             "begin and end a text; add what is missing, and import the model again")
        return Marks(begin=self.start, end=self.stop[0], first=0, source=self.begin, pad=self.special.get("pad", PAD))

    def encode(self, text):
        """Returns the ids of a text, without those that the model expects before and after it."""
        check_unicode(text)
        with library_errors("read this text"):
            return np.array(self.tokenizer.encode(text, add_special_tokens=False).ids, np.intp)

    def decode(self, ids):
        """Returns the text of ids, without special tokens. Bytes that do not form a character become U+FFFD."""
        with library_errors("write these ids as text"):
            return self.tokenizer.decode(np.asarray(ids, np.intp).tolist())

    def name(self, token):
        """Returns the text of an id by itself: that of a special token too, and without the space before a word."""
        with library_errors("write this id as text"):
            text = self.tokenizer.decode([int(token)], skip_special_tokens=False)
        return text.removeprefix(" ") or text or self.token(token)

    def token(self, token):
        """Returns an id's entry in the vocabulary; "" for an id without one, as when the model has room for more."""
        return self.tokenizer.id_to_token(int(token)) or ""

    def to_json(self):
        return {"kind": "pretrained", "definition": self.definition, "special": self.special, "begin": self.begin,
                "end": self.end, "stop": self.stop, "start": self.start}

    @classmethod
    def from_json(cls, data):
        return cls(**{name: value for name, value in data.items() if name != "kind"})


def read_definition(definition):
    """Returns the library's tokenizer, without padding and truncation."""
    try:
        import tokenizers  # optional: only published models need it
    except ImportError as error:
        raise ValueError(f"the tokenizer of this model needs the library tokenizers; install it with {INSTALL}") from error
    with library_errors(f"read tokenizer.json in version {tokenizers.__version__}"), without_native_messages():
        tokenizer = tokenizers.Tokenizer.from_str(definition)
        tokenizer.no_padding()
        tokenizer.no_truncation()
    return tokenizer


@contextlib.contextmanager
def library_errors(task):
    """Turns what the library raises into a ValueError: plain Exceptions, and panics, which are not even Exceptions."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:
        raise ValueError(f"the library tokenizers cannot {task} ({one_line(error)}); write tokenizer.json again with a "
                         "tokenizer's save_pretrained, or update the library") from error


@contextlib.contextmanager
def without_native_messages():
    """Drops what the library, which is not Python, writes to the process's standard error before it panics."""
    try:
        sys.stderr.flush()
        kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    except (OSError, ValueError, AttributeError):           # there is no standard error
        yield
        return
    try:
        os.dup2(nothing, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


def check_ids_of(tokenizer):
    """Raises ValueError unless the special ids of a tokenizer are ids; -1 stands for none in some files."""
    own = {name: getattr(tokenizer, name) for name in FORM}
    try:
        check_form({name: list(ids) if isinstance(ids, tuple) else ids for name, ids in own.items()}, FORM, "tokenizer")
        ids = [*own["special"].values(), *own["begin"], *own["end"], *own["stop"], own["start"] or 0]
        if any(not -1 <= i < 2 ** 31 for i in ids):
            raise ValueError(f"the ids {shown(ids, 8)} are not all ids")
    except ValueError as error:
        raise ValueError(f"the special ids of the tokenizer cannot be used ({one_line(error)}); copy its original files") \
            from error


def find_special(tokenizer, names, config):
    """Returns {name: id} of the special tokens, which the tokenizer's files name and config.json numbers."""
    special = {}
    for name in NAMES:
        token = names.get(f"{name}_token")
        if isinstance(token, dict):             # an AddedToken
            token = token.get("content")
        ids = [tokenizer.token_to_id(text) for text in (token, *USUAL.get(name, ())) if isinstance(text, str)]
        ids += np.ravel(config.get(f"{name}_token_id")).tolist()[:1]
        token_id = next((i for i in ids if isinstance(i, int) and i >= 0), None)       # LLaMA's -1 stands for none
        if token_id is not None:
            special[name] = token_id
    return special


def find_frame(tokenizer):
    """Returns (ids before, ids after) that the tokenizer's own post-processor puts around a text."""
    with library_errors("read a text with tokenizer.json"), without_native_messages():
        framed = tokenizer.encode("a")
    text = [n for n, is_special in enumerate(framed.special_tokens_mask) if not is_special]
    if not text:                                # "a" is not in the vocabulary of a toy tokenizer
        return [], []
    return framed.ids[:text[0]], framed.ids[text[-1] + 1:]


def first_given(name, form, wanted, *configs):
    """Returns the first value of that name that is not None. Raises ValueError unless it has a form; see check_form."""
    value = next((config[name] for config in configs if config.get(name) is not None), None)
    if not has_form(value, (form, type(None))):
        raise ValueError(f"the model's folder gives {name} = {quoted(value)}, wanted {wanted}; copy the original file")
    return value
