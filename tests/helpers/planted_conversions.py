"""Mistakes of conversions, planted by plain loops into the arrays and settings that a loader would hand over.

Each function takes (options, state), the keyword arguments of a model's class and a dict of its weights, and changes
them in place as a loader with that mistake would. None of them uses code of the doctor, which has to name them.
"""

import numpy as np


def names_of(state, *parts):
    """The names of the weights that contain one of the parts."""
    return [name for name in state if any(part in name for part in parts)]


def heads_of(options, name):
    grouped = ".key." in name or ".value." in name
    return (options.get("num_kv_heads") if grouped else None) or options["num_heads"]


def transposed(*parts):
    def plant(options, state):
        for name in names_of(state, *parts):
            if name.endswith("weight"):
                assert state[name].shape[0] == state[name].shape[1]
                state[name] = np.array([[row[j] for row in state[name]] for j in range(len(state[name]))])
    return plant


def attentions(state):
    """The common beginnings of the names of q, k and v."""
    return sorted({name[:-len("query.weight")] for name in state if name.endswith("query.weight")})


def read_in_order(order, kinds=("weight", "bias")):
    """The parts of the fused matrix lie in the file in `order`, such as "kqv", and are taken for q, k, v."""
    letters = {"q": "query", "k": "key", "v": "value"}

    def plant(options, state):
        for base in attentions(state):
            for kind in kinds:
                true = {letter: state[f"{base}{name}.{kind}"] for letter, name in letters.items()
                        if f"{base}{name}.{kind}" in state}
                for letter, found in zip("qkv", order):
                    if true:
                        state[f"{base}{letters[letter]}.{kind}"] = true[found]
    return plant


def fused_split(interleaved_in_file):
    """The fused columns lie head by head in the file and are cut into thirds, or the other way round."""
    def plant(options, state):
        H = options["num_heads"]
        for base in attentions(state):
            for kind in ("weight", "bias"):
                parts = [state[f"{base}{name}.{kind}"] for name in ("query", "key", "value")]
                d = parts[0].shape[-1] // H
                by_head = [part[..., h * d:(h + 1) * d] for h in range(H) for part in parts]
                by_part = [part[..., h * d:(h + 1) * d] for part in parts for h in range(H)]
                if interleaved_in_file:
                    columns = np.concatenate(by_head, -1)
                    found = [columns[..., i * H * d:(i + 1) * H * d] for i in range(3)]
                else:
                    found = [np.concatenate(by_part[i::3], -1) for i in range(3)]
                for name, array in zip(("query", "key", "value"), found):
                    state[f"{base}{name}.{kind}"] = array
    return plant


def reshaped(*parts):
    """The numbers of the file's (out, in) matrix are taken in the same order for (in, out)."""
    def plant(options, state):
        for name in names_of(state, *parts):
            if name.endswith("weight"):
                d_in, d_out = state[name].shape
                in_file = iter([state[name][i, j] for j in range(d_out) for i in range(d_in)])
                state[name] = np.array([[next(in_file) for _ in range(d_out)] for _ in range(d_in)])
    return plant


def tiled_queries(options, state):
    """Head h of the file uses key head h mod G: head 0, G, 2 G, ... those of key head 0 in the model."""
    H, G = options["num_heads"], options["num_kv_heads"]
    for base in attentions(state):
        for name in (f"{base}query.weight", f"{base}output.weight"):
            old = state[name] if "output" in name else state[name].T
            d = len(old) // H
            heads = [old[h * d:(h + 1) * d] for h in range(H)]
            new = [None] * H
            for h in range(H):
                key, turn = h // (H // G), h % (H // G)
                new[turn * G + key] = heads[h]
            new = np.concatenate(new)
            state[name] = new if "output" in name else new.T


def twice_the_heads_of_t5(options, state):
    options.update(num_heads=8, d_head=4)
    for name in names_of(state, "position_bias"):
        state[name] = np.concatenate([state[name], state[name]], 1)


def strided_heads(options, state):
    """The file has feature i of head h in column i H + h, and the loader takes it for h d + i."""
    for base in attentions(state):
        for name in names_of(state, f"{base}query", f"{base}key", f"{base}value", f"{base}output.weight"):
            H = heads_of(options, name)
            old = state[name] if "output" in name else state[name].T
            d = len(old) // H
            new = np.array([old[h * d + i] for i in range(d) for h in range(H)])
            state[name] = new if "output" in name else new.T


def redrawn(*parts, seed=3):
    """The weights were not taken from the file, and are as they were drawn before training."""
    def plant(options, state):
        rng = np.random.default_rng(seed)
        for name in names_of(state, *parts):
            if name.endswith("weight"):
                state[name] = (0.05 * rng.standard_normal(state[name].shape)).astype(np.float32)
    return plant


def heads_reversed(*parts):
    """The heads of a projection come last to first."""
    def plant(options, state):
        for name in names_of(state, *parts):
            old = state[name] if ".output." in name else state[name].T
            d = len(old) // heads_of(options, name)
            new = np.concatenate([old[start:start + d] for start in range(0, len(old), d)][::-1])
            state[name] = new if ".output." in name else new.T
    return plant


def of_layers(order, *parts):
    """These parts of layer i are those of layer order[i] of the file."""
    def plant(options, state):
        true = dict(state)
        for name in names_of(state, *parts):
            i = int(name.split(".")[2])
            state[name] = true[name.replace(f".{i}.", f".{order[i]}.", 1)]
    return plant


def bfloat16_as_float16(*parts):
    """The 16 bits of each bfloat16 number are read as those of a float16."""
    def plant(options, state):
        for name in names_of(state, *parts):
            high = np.ascontiguousarray(state[name], np.float32).tobytes()
            halves = b"".join(high[i + 2:i + 4] for i in range(0, len(high), 4))
            state[name] = np.frombuffer(halves, "<f2").reshape(state[name].shape).astype(np.float32)
    return plant


def bytes_swapped(*parts):
    """The four bytes of each number are read in the other order."""
    def plant(options, state):
        for name in names_of(state, *parts):
            raw = np.ascontiguousarray(state[name], np.float32).tobytes()
            turned = b"".join(raw[i:i + 4][::-1] for i in range(0, len(raw), 4))
            state[name] = np.frombuffer(turned, np.float32).reshape(state[name].shape)
    return plant


def shuffled_columns(*parts):
    """The outputs of a matrix are in a random order."""
    def plant(options, state):
        for name in names_of(state, *parts):
            state[name] = state[name][..., np.random.default_rng(0).permutation(state[name].shape[-1])]
    return plant


def up_and_down_exchanged(options, state):
    """The matrices of the feed-forward layers have each other's names, and are transposed."""
    for name in names_of(state, "feed_forward.up.weight"):
        other = name.replace("up", "down")
        state[name], state[other] = state[other].T, state[name].T


def output_equal_to_embedding(options, state):
    """The model is not tied, but its output layer was filled with the embedding."""
    state["output.weight"] = np.array([[row[i] for row in state["embedding.weight"]]
                                       for i in range(state["embedding.weight"].shape[1])])


def to_neighbors(width, H):
    d = width // H
    return [h * d + i + half * d // 2 for h in range(H) for i in range(d // 2) for half in (0, 1)]


def to_halves(width, H):
    d = width // H
    return [h * d + 2 * i + half for h in range(H) for half in (0, 1) for i in range(d // 2)]


def rotary_permuted(direction, *parts, heads=None):
    """q, k or both are permuted for the other rotary pairing, by the true or by another number of heads."""
    def plant(options, state):
        for name in names_of(state, *parts):
            H = options[heads] if heads else heads_of(options, name)
            old = state[name].T
            state[name] = np.array([old[j] for j in direction(len(old), H)]).T
    return plant


def keys_by_queries_heads(options, state):
    """A file in the order of neighbors is converted to halves with the number of heads of q for k, too."""
    for name in names_of(state, ".key."):
        old = state[name].T
        width = len(old)
        meta = [old[j] for j in to_neighbors(width, options["num_kv_heads"])]
        state[name] = np.array([meta[j] for j in to_halves(width, options["num_heads"])]).T


def set_to(**settings):
    def plant(options, state):
        options.update(settings)
    return plant


def times(factor, *parts):
    def plant(options, state):
        for name in names_of(state, *parts):
            state[name] = state[name] * factor
    return plant


def plus(number, *parts):
    def plant(options, state):
        for name in names_of(state, *parts):
            state[name] = state[name] + number
    return plant


def swapped(one, two):
    """Two kinds of weights are taken for each other."""
    def plant(options, state):
        for name in names_of(state, one):
            other = name.replace(one, two)
            if other in state:
                state[name], state[other] = state[other], state[name]
    return plant


def rolled(step, *parts):
    """Row t of a table is that of t + step."""
    def plant(options, state):
        for name in names_of(state, *parts):
            old = state[name]
            state[name] = np.array([old[min(max(t + step, 0), len(old) - 1)] for t in range(len(old))])
    return plant


def layers_in_order(order_of, stack="decoder"):
    """Layer i of the model is layer order[i] of the file."""
    def plant(options, state):
        number = 1 + max(int(name.split(".")[2]) for name in names_of(state, f"{stack}.blocks."))
        true = dict(state)
        for i, j in enumerate(order_of(number)):
            for name in names_of(true, f"{stack}.blocks.{i}."):
                state[name] = true.get(name.replace(f".{i}.", f".{j}.", 1), true[name])     # T5's first block has more
    return plant


def off_by_one(number):
    return [number - 1, *range(number - 1)]


def plant(model_class, options, state, *mistakes):
    """Returns the model that a loader with these mistakes would give."""
    options = dict(options)
    state = dict(state)
    for mistake in mistakes:
        mistake(options, state)
    model = model_class(**options, rng=0)
    own = model.state_dict()
    return model.load_state_dict({name: np.ascontiguousarray(state.get(name, own[name])) for name in own}).eval()
