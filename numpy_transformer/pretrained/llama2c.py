"""The .bin files of llama2.c: LLaMA models, such as the small story models, in one file of float32 numbers.

    version 0       seven int32, and the weights
    version 1       "24ka", an int32 1, the same seven int32, a byte (1: the output is tied), zeros up to byte 256, and
                    the weights in another order

The seven integers are d_model, d_ff, num_layers, num_heads, num_kv_heads, vocab_size and max_len; in version 0 a
negative vocab_size says that the output has a weight of its own. The weights of one kind lie together, block by block.

The pairs of features that rotary positions rotate are neighbors here, as in Meta's files. In those of transformers the
two features of a pair lie half a head apart. StoryFile returns the rows of query and key weights in the order of
transformers, so everything else is as in a folder of the family "llama".
Source: export.py and run.c of github.com/karpathy/llama2.c.
"""

import math
import struct
from pathlib import Path

from .safetensors import TensorEntry, TensorFile

MAGIC = struct.pack("<I", 0x616b3432)
MOST_BLOCKS = 1000                              # those of llama2.c have up to 80
HEADER_1 = 256                                  # bytes before the weights in version 1
ORDER = {
    0: ("embed_tokens", "input_layernorm", "q_proj", "k_proj", "v_proj", "o_proj", "post_attention_layernorm",
        "gate_proj", "down_proj", "up_proj", "norm", "rotary tables", "lm_head"),
    1: ("input_layernorm", "post_attention_layernorm", "norm", "embed_tokens", "q_proj", "k_proj", "v_proj", "o_proj",
        "gate_proj", "down_proj", "up_proj", "lm_head"),
}


def is_story_file(path):
    """Returns True for a .bin file, unless it is a pickle or a zip archive, as those of torch are."""
    if Path(path).suffix != ".bin":
        return False
    with open(path, "rb") as file:
        return not file.read(4).startswith((b"PK", b"\x80"))


class StoryFile(TensorFile):
    """The arrays of a .bin file of llama2.c under the names that transformers has for them.

    Parameters: path : path of the file
    Attributes: `config`, what config.json would say; `entries`, {name: TensorEntry}
    Raises: ValueError if the file is damaged, quantized (version 2), or not one of llama2.c's
    """

    def read_header(self, file, size):
        start = file.read(HEADER_1)
        if len(start) < 64:
            raise ValueError(f"it has {size} bytes, too few for a model")
        version = struct.unpack_from("<i", start, 4)[0] if start.startswith(MAGIC) else 0
        if version not in ORDER:
            raise ValueError(f"it has version {version} of llama2.c's format, whose weights are quantized; this "
                             "package reads versions 0 and 1")
        sizes = struct.unpack_from("<7i", start, 8 if version else 0)
        tied = bool(start[36]) if version else sizes[5] > 0
        smallest = min(*sizes[:5], abs(sizes[5]), sizes[6])
        if smallest < 1 or sizes[2] > MOST_BLOCKS:
            raise ValueError(f"its header has the sizes {sizes}, so it is not a file of llama2.c")
        self.config = make_config(*sizes, tied)
        shapes = array_shapes(self.config)
        kinds = [kind for kind in ORDER[version] if not (kind == "lm_head" and tied)]
        end = HEADER_1 if version else 28
        needed = end + 4 * sum(math.prod(shape) for kind in kinds for _, shape in shapes[kind])
        if needed != size:
            raise ValueError(f"its header announces {needed:,} bytes, but the file has {size:,}")
        entries = {}
        for kind in kinds:
            for name, shape in shapes[kind]:
                entries[name] = TensorEntry("F32", shape, end, end + 4 * math.prod(shape))
                end = entries[name].stop
        return entries

    def __getitem__(self, name):
        array = super().__getitem__(name)
        if name.endswith("q_proj.weight"):
            return by_halves(array, self.config["num_attention_heads"])
        if name.endswith("k_proj.weight"):
            return by_halves(array, self.config["num_key_value_heads"])
        return array


def by_halves(weight, num_heads):
    """Returns the rows of each head in another order: first those of all first features of a pair, then the others."""
    rows, columns = weight.shape
    pairs = weight.reshape(num_heads, rows // num_heads // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(rows, columns)


def make_config(d_model, d_ff, num_layers, num_heads, num_kv_heads, vocab_size, max_len, tied):
    """Returns what config.json of a LLaMA model with these sizes says."""
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": abs(vocab_size),
            "hidden_size": d_model, "intermediate_size": d_ff, "num_hidden_layers": num_layers,
            "num_attention_heads": num_heads, "num_key_value_heads": num_kv_heads, "max_position_embeddings": max_len,
            "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": tied,
            "bos_token_id": 1, "eos_token_id": 2}


def array_shapes(config):
    """Returns {kind: [(name, shape) of its arrays]}; a kind inside the blocks has one array for each block."""
    d = config["hidden_size"]
    d_ff = config["intermediate_size"]
    d_head = d // config["num_attention_heads"]
    d_kv = d_head * config["num_key_value_heads"]
    table = (config["vocab_size"], d)
    inside = {"input_layernorm": (d,), "self_attn.q_proj": (d, d), "self_attn.k_proj": (d_kv, d),
              "self_attn.v_proj": (d_kv, d), "self_attn.o_proj": (d, d), "post_attention_layernorm": (d,),
              "mlp.gate_proj": (d_ff, d), "mlp.down_proj": (d, d_ff), "mlp.up_proj": (d_ff, d)}
    shapes = {name.rpartition(".")[2]: [(f"model.layers.{n}.{name}.weight", shape)
                                        for n in range(config["num_hidden_layers"])]
              for name, shape in inside.items()}
    rotary = (2, config["max_position_embeddings"], d_head // 2)
    return shapes | {"embed_tokens": [("model.embed_tokens.weight", table)], "norm": [("model.norm.weight", (d,))],
                     "rotary tables": [("model.rotary_emb.inv_freq", rotary)], "lm_head": [("lm_head.weight", table)]}
