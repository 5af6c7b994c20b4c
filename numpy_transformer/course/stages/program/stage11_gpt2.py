"""Stage 11: the weights and the tokenizer of GPT-2, from a folder of Hugging Face."""

import json
import re
from pathlib import Path

import numpy as np

from .stage08_model import LanguageModel

WORDS = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+| ?\d+| ?(?:[^\w\s]|_)+|\s+(?!\S)|\s+")
TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "U8": "u1", "BOOL": "?"}


def read_safetensors(path):
    """{name: array} of a file: 8 bytes with the length n of the header, n bytes of JSON, then the arrays' bytes."""
    content = Path(path).read_bytes()
    n = int.from_bytes(content[:8], "little")
    header, arrays = json.loads(content[8:8 + n]), {}
    for name, entry in header.items():
        if name != "__metadata__":
            start, end = entry["data_offsets"]
            array = np.frombuffer(content[8 + n + start:8 + n + end], TYPES[entry["dtype"]])
            arrays[name] = array.reshape(entry["shape"]).copy()
    return arrays


def load_gpt2(folder):
    """A LanguageModel with the sizes of config.json and the weights of model.safetensors."""
    config = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
    arrays = {name.removeprefix("transformer."): array
              for name, array in read_safetensors(Path(folder) / "model.safetensors").items()}
    width = config["n_embd"]
    model = LanguageModel(config["vocab_size"], config["n_positions"], width, config["n_head"],
                          config.get("n_inner") or 4 * width, config["n_layer"], np.random.default_rng(0))
    model.embedding.weight.data = arrays["wte.weight"]
    model.positions.data = arrays["wpe.weight"]
    fill_norm(model.norm, arrays, "ln_f", config)
    for i, block in enumerate(model.blocks):
        fill_norm(block.norm1, arrays, f"h.{i}.ln_1", config)
        fill_norm(block.norm2, arrays, f"h.{i}.ln_2", config)
        weights = np.split(arrays[f"h.{i}.attn.c_attn.weight"], 3, axis=-1)
        biases = np.split(arrays[f"h.{i}.attn.c_attn.bias"], 3)
        attention = block.attention
        for part, weight, bias in zip((attention.query, attention.key, attention.value), weights, biases):
            part.weight.data, part.bias.data = weight, bias
        for part, name in ((attention.output, "attn.c_proj"), (block.feed_forward.up, "mlp.c_fc"),
                           (block.feed_forward.down, "mlp.c_proj")):
            part.weight.data, part.bias.data = arrays[f"h.{i}.{name}.weight"], arrays[f"h.{i}.{name}.bias"]
    return model


def fill_norm(norm, arrays, name, config):
    norm.eps = config["layer_norm_epsilon"]
    norm.gamma.data, norm.beta.data = arrays[f"{name}.weight"], arrays[f"{name}.bias"]


def byte_letters():
    """{byte: character}: GPT-2 writes every byte as a visible character; the others become those from 256 on."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in visible]
    return {byte: chr(byte) for byte in visible} | {byte: chr(256 + i) for i, byte in enumerate(others)}


class BytePairEncoding:
    """GPT-2's tokenizer: words, written as the letters of their bytes, are merged pair by pair.

    Parameters: folder : with vocab.json, {token: id}, and merges.txt, one pair in each line, the most important first
    """

    def __init__(self, folder):
        self.ids = json.loads((Path(folder) / "vocab.json").read_text(encoding="utf-8"))
        self.tokens = {number: token for token, number in self.ids.items()}
        lines = (Path(folder) / "merges.txt").read_text(encoding="utf-8").split("\n")
        pairs = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
        self.rank = {pair: n for n, pair in enumerate(pairs)}
        self.letters = byte_letters()
        self.bytes = {letter: byte for byte, letter in self.letters.items()}

    def merge(self, word):
        """The tokens of a word: of all neighbors, the pair of the lowest rank is merged everywhere, again and again."""
        parts = list(word)
        while True:
            pairs = [pair for pair in zip(parts, parts[1:]) if pair in self.rank]
            if not pairs:
                return parts
            best, merged = min(pairs, key=self.rank.get), []
            for part in parts:
                if merged and (merged[-1], part) == best:
                    merged[-1] = "".join(best)
                else:
                    merged.append(part)
            parts = merged

    def encode(self, text):
        """The list of ids of a text."""
        words = ["".join(self.letters[byte] for byte in word.encode()) for word in WORDS.findall(text)]
        return [self.ids[token] for word in words for token in self.merge(word)]

    def decode(self, ids):
        """The text of a list of ids."""
        letters = "".join(self.tokens[number] for number in ids)
        return bytes(self.bytes[letter] for letter in letters).decode("utf-8", "replace")
