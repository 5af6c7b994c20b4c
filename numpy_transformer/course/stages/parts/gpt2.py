"""Stage 11: files of weights, the names of GPT-2's arrays, and byte-pair encoding."""

import tempfile
from types import SimpleNamespace

import numpy as np

from ....pretrained import load_pretrained
from ...exercises.definition import Mistake
from ..drivers import gpt2 as drivers
from .making import new_part, normal

# Texts and the words into which GPT-2's pattern cuts them
WORDS = {
    "Hello, world!": ["Hello", ",", " world", "!"],
    "  two  spaces and\na line": [" ", " two", " ", " spaces", " and", "\n", "a", " line"],
    "it's 2024's na\u00efve caf\u00e9": ["it", "'s", " 2024", "'s", " na\u00efve", " caf\u00e9"],
    "don't we'll": ["don", "'t", " we", "'ll"],
    "alolo xab aaaaa": ["alolo", " xab", " aaaaa"],
    "\u65e5\u672c 3.14_x": ["\u65e5\u672c", " 3", ".", "14", "_", "x"],
}


def draw_gpt2(rng, n):
    d, V, T, H = 2 * n.H, n.V, n.T + 2, n.H
    config = {"vocab_size": V, "n_positions": T, "n_embd": d, "n_head": H, "n_layer": 2, "n_inner": n.F,
              "layer_norm_epsilon": round(float(rng.uniform(0.05, 0.2)), 3), "activation_function": "gelu_new",
              "tie_word_embeddings": True, "model_type": "gpt2"}
    names = {"wte.weight": (V, d), "wpe.weight": (T, d), "ln_f.weight": (d,), "ln_f.bias": (d,)}
    for i in range(2):
        names |= {f"h.{i}.ln_1.weight": (d,), f"h.{i}.ln_1.bias": (d,), f"h.{i}.attn.c_attn.weight": (d, 3 * d),
                  f"h.{i}.attn.c_attn.bias": (3 * d,), f"h.{i}.attn.c_proj.weight": (d, d), f"h.{i}.attn.c_proj.bias": (d,),
                  f"h.{i}.ln_2.weight": (d,), f"h.{i}.ln_2.bias": (d,), f"h.{i}.mlp.c_fc.weight": (d, n.F),
                  f"h.{i}.mlp.c_fc.bias": (n.F,), f"h.{i}.mlp.c_proj.weight": (n.F, d), f"h.{i}.mlp.c_proj.bias": (d,)}
    order = [list(names)[i] for i in rng.permutation(len(names))]
    arrays = {f"transformer.{name}": 0.5 * normal(rng, *names[name]) + (".weight" in name and "ln" in name) for name in order}
    return rng.integers(0, V, (*n.lead[-2:-1], n.T)), config, arrays


def other_checkpoints(rng):
    """The same with what published folders have: no prefix, no n_inner or one that is null, and buffers of the mask."""
    small = SimpleNamespace(H=2, V=9, T=4, F=16, lead=(2, 4))
    cases = []
    for key, inner in (("published", {}), ("null", {"n_inner": None})):
        ids, config, arrays = draw_gpt2(rng, small)
        config = {name: value for name, value in config.items() if name != "n_inner"} | inner
        arrays = {name.removeprefix("transformer."): array for name, array in arrays.items()}
        buffers = {f"h.{i}.attn.bias": np.tri(config["n_positions"])[None, None] for i in range(2)}
        buffers["lm_head.weight"] = arrays["wte.weight"]
        cases.append((key, (ids, config, {**buffers, **arrays})))
    return cases


def as_they_are(arrays):
    return drivers.described(arrays)


def by_load_pretrained(ids, config, arrays):
    """What the package computes with the same files, and their arrays by the names of the program."""
    with tempfile.TemporaryDirectory() as folder:
        drivers.write_gpt2(folder, {**config, "architectures": ["GPT2LMHeadModel"]}, arrays)
        logits = load_pretrained(folder, dtype=np.float64)(ids)
    return logits, *drivers.grouped(as_the_program_names_them(arrays, config["n_layer"]))


def as_the_program_names_them(arrays, num_layers):
    """Returns {name of a parameter: array} of GPT-2's arrays."""
    arrays = {name.removeprefix("transformer."): array for name, array in arrays.items()}
    named = {"embedding.weight": arrays["wte.weight"], "positions": arrays["wpe.weight"]}
    norms, linears = {"norm": "ln_f"}, {}
    for i in range(num_layers):
        norms |= {f"blocks.{i}.norm1": f"h.{i}.ln_1", f"blocks.{i}.norm2": f"h.{i}.ln_2"}
        linears |= {f"blocks.{i}.attention.output": f"h.{i}.attn.c_proj", f"blocks.{i}.feed_forward.up": f"h.{i}.mlp.c_fc",
                    f"blocks.{i}.feed_forward.down": f"h.{i}.mlp.c_proj"}
        for part in ("weight", "bias"):
            merged = arrays[f"h.{i}.attn.c_attn.{part}"]
            for k, name in enumerate(("query", "key", "value")):
                named[f"blocks.{i}.attention.{name}.{part}"] = merged[..., k * merged.shape[-1] // 3:(k + 1) * merged.shape[-1] // 3]
    for name, theirs in norms.items():
        named |= {f"{name}.gamma": arrays[f"{theirs}.weight"], f"{name}.beta": arrays[f"{theirs}.bias"]}
    for name, theirs in linears.items():
        named |= {f"{name}.weight": arrays[f"{theirs}.weight"], f"{name}.bias": arrays[f"{theirs}.bias"]}
    return named


def draw_tokenizer(rng, n):
    """The texts of WORDS in some order, and merges of neighbors: of letters, of tokens, and of those between two words."""
    texts = [list(WORDS)[i] for i in rng.permutation(len(WORDS))]
    letters = [[list(as_letters(word)) for word in WORDS[text]] for text in texts]
    pieces, merges, known = letters, [], set()
    while len(merges) < 60:
        groups = [[pair for words in cut for word in words for pair in zip(word, word[1:])] for cut in (letters, pieces)]
        groups.append([(one[-1], other[0]) for words in pieces for one, other in zip(words, words[1:])])
        group = groups[rng.choice(3, p=(0.4, 0.4, 0.2))]
        pair = group[rng.integers(len(group))]
        if "".join(pair) not in known:
            known.add("".join(pair))
            merges.append(pair)
            pieces = [[merged(word, pair) for word in words] for words in pieces]
    alphabet = [as_letters(bytes([byte])) for byte in rng.permutation(256).astype(np.uint8).tolist()]
    return texts, [*alphabet, *("".join(pair) for pair in merges)], [" ".join(pair) for pair in merges]


def overlapping_merges(rng):
    """Merges after which a token ends, and another begins, with the letters of a further merge: al o lo, not alo lo."""
    alphabet = [as_letters(bytes([byte])) for byte in range(256)]
    pairs = ["a l", "l o", "x a", "a b", "a a"]
    return [("overlapping", (["alolo xab aaaaa"], [*alphabet, *(pair.replace(" ", "") for pair in pairs), "alo"], pairs))]


def as_letters(text):
    """The bytes of a text as GPT-2 writes them: visible Latin-1 characters stand for themselves."""
    hidden = [byte for byte in range(256) if byte < 33 or 127 <= byte < 161 or byte == 173]
    content = text.encode() if isinstance(text, str) else text
    return "".join(chr(256 + hidden.index(byte)) if byte in hidden else chr(byte) for byte in content)


def merged(piece, pair):
    """Returns a list of letters with this pair joined wherever it occurs, from left to right."""
    result, i = [], 0
    while i < len(piece):
        if tuple(piece[i:i + 2]) == pair:
            result.append("".join(pair))
            i += 2
        else:
            result.append(piece[i])
            i += 1
    return result


def by_merges_in_order(texts, vocabulary, merges):
    """Every merge, from the first one on, is applied to the whole word."""
    ids, cut = [], []
    for text in texts:
        for word in WORDS[text]:
            piece = list(as_letters(word))
            for pair in merges:
                piece = merged(piece, tuple(pair.split(" ")))
            ids += [vocabulary.index(token) for token in piece]
        letters = text.encode()[:-len(vocabulary[ids[-1]])]             # each letter is one byte
        cut.append(letters.decode("utf-8", "replace"))
        ids.append(-1)
    return np.array(ids), np.ones(len(texts), bool), drivers.as_bytes(texts), drivers.as_bytes(cut)


def reading():
    """The part that reads a file of weights."""
    return new_part(11, 1, drivers.safetensors, ("read_safetensors",), lambda rng, n: draw_gpt2(rng, n)[2:],
                    ("values", "names and shapes", "read-only"), (
        Mistake("ST-1", {".copy()": ""}),
        Mistake("ST-2", {
            "np.frombuffer(content[8 + n + start:8 + n + end], TYPES[entry[\"dtype\"]])":
                "np.frombuffer(content[8 + n:], TYPES[entry[\"dtype\"]])[sum(array.size for array in "
                "arrays.values()):]\n"
                "            array = array[:math.prod(entry[\"shape\"])]",
            "import json\n":
                "import json\n"
                "import math\n"}),
        Mistake("ST-3", {".reshape(entry[\"shape\"])": ".reshape(entry[\"shape\"][::-1]).T"}),
    ), reference=as_they_are)


def weights():
    """The part that gives the weights to the model."""
    return new_part(11, 2, drivers.gpt2_logits, ("load_gpt2",), draw_gpt2, (
        "logits", "embedding and positions", "norm1", "query, key and value", "attention.output", "norm2", "feed_forward",
        "norm"), (
        Mistake("GPT-1", {
            "part.weight.data, part.bias.data = weight, bias":
                "part.weight.data, part.bias.data = weight.T, bias"}),
        Mistake("GPT-2", {"zip((attention.query, attention.key, attention.value), weights, biases)":
                          "zip((attention.key, attention.query, attention.value), weights, biases)"}),
        Mistake("GPT-3", {
            "np.split(arrays[f\"h.{i}.attn.c_attn.weight\"], 3, axis=-1)":
                "[part.reshape(width, width) for part in np.split("
                "arrays[f\"h.{i}.attn.c_attn.weight\"].reshape(-1), 3)]"}),
        Mistake("GPT-4", {"    norm.eps = config[\"layer_norm_epsilon\"]\n": ""}),
        Mistake("GPT-5", {"model.positions.data = arrays[\"wpe.weight\"]": "pass"}),
        Mistake("GPT-6", {
            "arrays[f\"h.{i}.{name}.weight\"], arrays": "arrays[f\"h.{i}.{name}.weight\"].T, arrays"}),
        Mistake("GPT-7", {"fill_norm(model.norm, arrays, \"ln_f\", config)": "pass"}),
        Mistake("GPT-8", {
            "fill_norm(block.norm1, arrays, f\"h.{i}.ln_1\", config)":
                "fill_norm(block.norm1, arrays, f\"h.{i}.ln_2\", config)",
            "fill_norm(block.norm2, arrays, f\"h.{i}.ln_2\", config)":
                "fill_norm(block.norm2, arrays, f\"h.{i}.ln_1\", config)"}),
        Mistake("GPT-9", {"[f\"h.{i}.attn.c_attn.weight\"], 3": "[\"h.0.attn.c_attn.weight\"], 3"}),
        Mistake("GPT-10", {"norm.eps = config[\"layer_norm_epsilon\"]":
                           "norm.eps = norm.eps if name == \"ln_f\" else config[\"layer_norm_epsilon\"]"}),
        Mistake("GPT-12", {
            "np.split(arrays[f\"h.{i}.attn.c_attn.weight\"], 3, axis=-1)":
                "[part.reshape(width, width) for part in np.moveaxis(arrays[f\"h.{i}.attn.c_attn.weight\"]"
                ".reshape(width, config[\"n_head\"], 3, -1), 2, 0)]",
            "np.split(arrays[f\"h.{i}.attn.c_attn.bias\"], 3)":
                "[part.ravel() for part in np.moveaxis(arrays[f\"h.{i}.attn.c_attn.bias\"]"
                ".reshape(config[\"n_head\"], 3, -1), 1, 0)]"}),
        Mistake("GPT-11", {"norm.eps = config[\"layer_norm_epsilon\"]":
                           "norm.eps = config[\"layer_norm_epsilon\"] if name == \"ln_f\" else norm.eps"}),
    ), edges=other_checkpoints, reference=by_load_pretrained)


def tokenizer():
    """The part of byte-pair encoding."""
    return new_part(11, 3, drivers.byte_pairs, ("BytePairEncoding.merge", "BytePairEncoding.encode", "BytePairEncoding.decode"),
             draw_tokenizer, ("ids", "same text", "text", "text without its last token"), (
        Mistake("BPE-1", {"min(pairs, key=self.rank.get)": "max(pairs, key=self.rank.get)"}),
        Mistake("BPE-2", {"min(pairs, key=self.rank.get)": "pairs[0]"}),
        Mistake("BPE-3", {"            parts = merged\n": "            return merged\n"}),
        Mistake("BPE-4", {
            "words = [\"\".join(self.letters[byte] for byte in word.encode()) for word in WORDS.findall("
            "text)]":
                "words = [\"\".join(self.letters[byte] for byte in text.encode())]"}),
        Mistake("BPE-8", {
            "for part in parts:": "for part in reversed(parts):",
            "(merged[-1], part) == best": "(part, merged[-1]) == best",
            "parts = merged\n": "parts = merged[::-1]\n"}),
        Mistake("BPE-6", {
            "        letters = \"\".join(self.tokens[number] for number in ids)\n"
            "        return bytes(self.bytes[letter] for letter in letters).decode(\"utf-8\", \"replace\")":
                "        words = [bytes(self.bytes[letter] for letter in self.tokens[number]) for number in "
                "ids]\n"
                "        return \"\".join(word.decode(\"utf-8\", \"replace\") for word in words)"}),
        Mistake("BPE-7", {
            "parts = merged\n":
                "parts = \" \".join(parts).replace(\" \".join(best), \"\".join(best)).split(\" \")\n"}),
        Mistake("BPE-5", {"for word in WORDS.findall(text)": "for word in text.split()"}),
    ), edges=overlapping_merges, reference=by_merges_in_order)


def stage_11():
    return reading(), weights(), tokenizer()
