"""The .bin files of llama2.c, against a forward in loops as run.c has it, with neighboring pairs of rotary features."""

import math
import struct

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer.pretrained import class_and_options, load_pretrained, save_pretrained

D, D_FF, LAYERS, HEADS, KV_HEADS, VOCAB, LENGTH = 12, 7, 2, 3, 1, 11, 9
D_HEAD = D // HEADS
SHAPES = {"att_norm": (LAYERS, D), "wq": (LAYERS, D, D), "wk": (LAYERS, KV_HEADS * D_HEAD, D),
          "wv": (LAYERS, KV_HEADS * D_HEAD, D), "wo": (LAYERS, D, D), "ffn_norm": (LAYERS, D), "w1": (LAYERS, D_FF, D),
          "w2": (LAYERS, D, D_FF), "w3": (LAYERS, D_FF, D), "norm": (D,), "embedding": (VOCAB, D), "output": (VOCAB, D)}
ORDERS = {0: "embedding att_norm wq wk wv wo ffn_norm w1 w2 w3 norm tables output",
          1: "att_norm ffn_norm norm embedding wq wk wv wo w1 w2 w3 output"}


def make_weights(tied, seed=0):
    rng = np.random.default_rng(seed)
    weights = {name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
    weights["tables"] = np.zeros((2, LENGTH, D_HEAD // 2), np.float32)
    if tied:
        weights["output"] = weights["embedding"]
    return weights


def write_bin(path, weights, version, tied, header_version=None):
    vocab = VOCAB if tied or version else -VOCAB
    sizes = struct.pack("<7i", D, D_FF, LAYERS, HEADS, KV_HEADS, vocab, LENGTH)
    if version:
        sizes = struct.pack("<Ii", 0x616b3432, header_version or version) + sizes + struct.pack("<B", tied)
        sizes = sizes.ljust(256, b"\0")
    names = [name for name in ORDERS[version].split() if not (tied and name == "output")]
    path.write_bytes(sizes + b"".join(weights[name].astype("<f4").tobytes() for name in names))
    return path


def rmsnorm(x, weight):
    return weight * x / math.sqrt(sum(value * value for value in x) / len(x) + 1e-5)


def rotate(x, position):
    """As run.c: pairs (0, 1), (2, 3), ... of all heads."""
    y = x.copy()
    for i in range(0, len(x), 2):
        angle = position / 10000.0 ** ((i % D_HEAD) / D_HEAD)
        y[i] = x[i] * math.cos(angle) - x[i + 1] * math.sin(angle)
        y[i + 1] = x[i] * math.sin(angle) + x[i + 1] * math.cos(angle)
    return y


def forward(weights, ids):
    """Logits of every position, one token at a time."""
    w = {name: array.astype(np.float64) for name, array in weights.items()}
    keys, values = [[[] for _ in range(LAYERS)] for _ in range(2)]
    logits = []
    for position, token in enumerate(ids):
        x = w["embedding"][token].copy()
        for n in range(LAYERS):
            h = rmsnorm(x, w["att_norm"][n])
            q = rotate(w["wq"][n] @ h, position)
            keys[n].append(rotate(w["wk"][n] @ h, position))
            values[n].append(w["wv"][n] @ h)
            mixed = np.zeros(D)
            for head in range(HEADS):
                mine = slice(head * D_HEAD, (head + 1) * D_HEAD)
                group = head * KV_HEADS // HEADS
                shared = slice(group * D_HEAD, (group + 1) * D_HEAD)
                scores = np.exp([q[mine] @ k[shared] / math.sqrt(D_HEAD) for k in keys[n]])
                mixed[mine] = sum(score * v[shared] for score, v in zip(scores / scores.sum(), values[n]))
            x += w["wo"][n] @ mixed
            h = rmsnorm(x, w["ffn_norm"][n])
            gate = w["w1"][n] @ h
            x += w["w2"][n] @ (gate / (1 + np.exp(-gate)) * (w["w3"][n] @ h))
        logits.append(w["output"] @ rmsnorm(x, w["norm"]))
    return np.array(logits)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("tied", [True, False])
def test_logits_are_those_of_run_c(tmp_path, version, tied):
    weights = make_weights(tied)
    path = write_bin(tmp_path / "stories.bin", weights, version, tied)
    ids = np.random.default_rng(1).integers(0, VOCAB, LENGTH)
    model = load_pretrained(path, np.float64)
    assert model.origin.family == "llama2.c" and model.origin.config["model_type"] == "llama"
    expected = forward(weights, ids)
    np.testing.assert_allclose(model(ids), expected, rtol=0, atol=1e-12 * abs(expected).max())
    greedy = nt.generate(model, ids[:3], 4, temperature=0)
    assert np.ravel(greedy)[3] == forward(weights, ids[:3])[-1].argmax()
    save_pretrained(model, tmp_path / "folder")                         # as a folder of transformers
    np.testing.assert_array_equal(load_pretrained(tmp_path / "folder", np.float64)(ids), model(ids))
    assert class_and_options(path)[1] | {"tie_weights": tied} == class_and_options(tmp_path / "folder")[1]


def test_a_damaged_file_of_llama2c(tmp_path):
    path = write_bin(tmp_path / "x.bin", make_weights(True), 0, True)
    truncated = path.read_bytes()[:-4]
    quantized = write_bin(path, make_weights(True), 1, True, 2).read_bytes()
    for data, reason in ((truncated, "announces 6,028 bytes, but the file has 6,024"), (quantized, "version 2"),
                         (bytes(300), "sizes"),
                         (b"some text, whose letters would be a billion blocks, " * 2, "sizes"),
                         (b"version https://git-lfs.github.com/spec/v1\n", "a pointer to the weights"), (b"short", "5 bytes, too few")):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=reason) as error:
            load_pretrained(path)
        assert "; " in str(error.value)
    for blocks, size in ((2_000_000, 100), (1000, 100), (1001, 36 * 1001)):         # tiny ones would need little
        path.write_bytes(struct.pack("<7i", 1, 1, blocks, 1, 1, 1, 1) + bytes(size))
        with pytest.raises(ValueError, match="sizes|announces"):
            load_pretrained(path)
    path.write_bytes(b"PK\x03\x04 of torch")
    with pytest.raises(ValueError, match="is a pickle"):
        load_pretrained(path)
