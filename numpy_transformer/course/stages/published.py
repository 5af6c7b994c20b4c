"""GPT-2's weights in the student's program, beside the library with the same weights and ids."""

import contextlib
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from ...decoding import generate
from ...pretrained import load_pretrained
from .drivers import write_gpt2
from .parts.gpt2 import draw_gpt2, draw_tokenizer

TOKENIZER_FILES = "vocab.json", "merges.txt"


@dataclass(frozen=True)
class BothTexts:
    """What the student's program and the library write after the same prompt.

    Attributes:
        text : of the student's program, prompt included
        ids, expected : lists of ids, of the student's program and of the library
        start : number of ids of the prompt
    """

    text: str
    ids: list
    expected: list
    start: int

    @property
    def agrees(self):
        return self.ids == self.expected

    @property
    def first_difference(self):
        """The number of the first new token that differs, from 1 on."""
        pairs = zip(self.ids[self.start:], self.expected[self.start:])
        return 1 + next((n for n, (one, other) in enumerate(pairs) if one != other), 0)


def continued(program, folder, prompt, count):
    """Lets a program that is `running` and the library continue a prompt with the most likely tokens. Returns BothTexts.

    Raises: ValueError for a folder that is not one of GPT-2, or a text that is longer than the model can be.
    """
    folder = Path(folder)
    for name in ("config.json", *TOKENIZER_FILES):
        if not (folder / name).is_file():
            raise ValueError(f"{folder} has no {name}; a folder of GPT-2 has config.json, model.safetensors, vocab.json and "
                             "merges.txt")
    library = load_pretrained(folder)           # the first to read, for its errors
    kind = library.origin.family
    if kind != "gpt2":
        raise ValueError(f"{folder} holds a model of the family {kind}; your program reads those of gpt2")
    tokenizer = program.BytePairEncoding(folder)
    ids = tokenizer.encode(prompt)
    if not ids or len(ids) + count > library.max_len:
        raise ValueError(f"the prompt has {len(ids)} tokens, and {count} more make {len(ids) + count}; the model takes 1 to "
                         f"{library.max_len}, so change the prompt, or --tokens")
    text = program.generate(program.load_gpt2(folder), list(ids), count, temperature=0)
    return BothTexts(tokenizer.decode(text), list(map(int, text)), generate(library, ids, count, temperature=0), len(ids))


@contextlib.contextmanager
def tiny_folder(seed=0):
    """Yields the path of a folder of GPT-2 in miniature, with random weights: what it writes has no meaning."""
    rng = np.random.default_rng([seed, 1])
    _, vocabulary, merges = draw_tokenizer(rng, None)
    _, config, arrays = draw_gpt2(rng, SimpleNamespace(V=len(vocabulary), H=8, T=94, F=64, lead=(1,)))
    with tempfile.TemporaryDirectory() as folder:
        write_gpt2(folder, {**config, "architectures": ["GPT2LMHeadModel"]},
                   {name: (2 * array).astype(np.float32) for name, array in arrays.items()})
        ids = {token: number for number, token in enumerate(vocabulary)}
        Path(folder, "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
        Path(folder, "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]), encoding="utf-8")
        yield Path(folder)
