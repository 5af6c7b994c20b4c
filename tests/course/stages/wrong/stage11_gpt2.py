# === [BPE-7] BytePairEncoding.merge joins the pair by replacing text in the parts joined by spaces, so "l o" is also
#     found at the end of a longer part followed by one that begins with the second (parts "al", "o" or "l", "ow"):
#     wrong pairs are joined: text = text.replace(a + " " + b, a + b).
TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}


def read_safetensors(path):
    raw = Path(path).read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:8 + size].decode("utf-8"))
    header.pop("__metadata__", None)
    result = {}
    for name, entry in header.items():
        start, end = entry["data_offsets"]
        part = raw[8 + size + start:8 + size + end]
        result[name] = np.frombuffer(part, dtype=TYPES[entry["dtype"]]).reshape(entry["shape"]).copy()
    return result


def load_gpt2(folder):
    folder = Path(folder)
    c = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    A = read_safetensors(folder / "model.safetensors")
    prefix = "transformer." if "transformer.wte.weight" in A else ""
    D = c["n_embd"]
    model = LanguageModel(c["vocab_size"], c["n_positions"], D, c["n_head"], c.get("n_inner") or 4 * D, c["n_layer"],
                          np.random.default_rng(0))
    model.embedding.weight.data = A[prefix + "wte.weight"]
    model.positions.data = A[prefix + "wpe.weight"]

    def fill(layer, name, first="weight"):
        getattr(layer, first).data = A[f"{prefix}{name}.weight"]
        other = "bias" if first == "weight" else "beta"
        getattr(layer, other).data = A[f"{prefix}{name}.bias"]
        if first == "gamma":
            layer.eps = c["layer_norm_epsilon"]

    for n, block in enumerate(model.blocks):
        fill(block.norm1, f"h.{n}.ln_1", "gamma")
        fill(block.norm2, f"h.{n}.ln_2", "gamma")
        W, b = A[f"{prefix}h.{n}.attn.c_attn.weight"], A[f"{prefix}h.{n}.attn.c_attn.bias"]
        parts = [block.attention.query, block.attention.key, block.attention.value]
        for part, w_, b_ in zip(parts, np.split(W, 3, axis=1), np.split(b, 3)):
            part.weight.data, part.bias.data = w_.copy(), b_.copy()
        fill(block.attention.output, f"h.{n}.attn.c_proj")
        fill(block.feed_forward.up, f"h.{n}.mlp.c_fc")
        fill(block.feed_forward.down, f"h.{n}.mlp.c_proj")
    fill(model.norm, "ln_f", "gamma")
    return model


class BytePairEncoding:
    def merge(self, word):
        text = " ".join(word)
        while True:
            parts = text.split(" ")
            pairs = [pair for pair in zip(parts, parts[1:]) if pair in self.rank]
            if not pairs:
                return parts
            a, b = min(pairs, key=lambda pair: self.rank[pair])
            text = text.replace(a + " " + b, a + b)

    def encode(self, text):
        ids = []
        for word in WORDS.findall(text):
            visible = "".join(self.letters[byte] for byte in word.encode("utf-8"))
            for token in self.merge(visible):
                ids.append(self.ids[token])
        return ids

    def decode(self, ids):
        visible = "".join(self.tokens[i] for i in ids)
        return bytes([self.bytes[letter] for letter in visible]).decode("utf-8", "replace")


# === [place] load_gpt2 takes 4 D for n_inner only when it is missing: an n_inner that is null in config.json gives
#     None, and building the model fails: config.get("n_inner", 4 * config["n_embd"]).
TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}


def read_safetensors(path):
    with open(path, "rb") as file:
        n = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(n))
        data = file.read()
    return {name: np.array(np.frombuffer(data[slice(*info["data_offsets"])], TYPES[info["dtype"]])).reshape(info["shape"])
            for name, info in header.items() if name != "__metadata__"}


def load_gpt2(folder):
    config = json.loads(Path(folder, "config.json").read_text(encoding="utf-8"))
    arrays = read_safetensors(Path(folder, "model.safetensors"))
    arrays = {name[len("transformer."):] if name.startswith("transformer.") else name: a for name, a in arrays.items()}
    model = LanguageModel(config["vocab_size"], config["n_positions"], config["n_embd"], config["n_head"],
                          config.get("n_inner", 4 * config["n_embd"]), config["n_layer"], np.random.default_rng(1))
    new = {"embedding.weight": arrays["wte.weight"], "positions": arrays["wpe.weight"],
           "norm.gamma": arrays["ln_f.weight"], "norm.beta": arrays["ln_f.bias"]}
    for n in range(config["n_layer"]):
        mine, theirs = f"blocks.{n}.", f"h.{n}."
        for a, b in (("norm1", "ln_1"), ("norm2", "ln_2")):
            new[mine + a + ".gamma"], new[mine + a + ".beta"] = arrays[theirs + b + ".weight"], arrays[theirs + b + ".bias"]
        for a, b in (("attention.output", "attn.c_proj"), ("feed_forward.up", "mlp.c_fc"), ("feed_forward.down", "mlp.c_proj")):
            for kind in (".weight", ".bias"):
                new[mine + a + kind] = arrays[theirs + b + kind]
        for kind in (".weight", ".bias"):
            three = np.split(arrays[theirs + "attn.c_attn" + kind], 3, axis=-1)
            for a, array in zip(("query", "key", "value"), three):
                new[mine + "attention." + a + kind] = np.ascontiguousarray(array)
    parameters = model.named_parameters()
    for name, array in new.items():
        parameters[name].data = array
    for layer in [model.norm] + [norm for block in model.blocks for norm in (block.norm1, block.norm2)]:
        layer.eps = config["layer_norm_epsilon"]
    return model


class BytePairEncoding:
    def merge(self, word):
        parts = [*word]
        while len(parts) > 1:
            best = min(zip(parts, parts[1:]), key=lambda pair: self.rank.get(pair, float("inf")))
            if best not in self.rank:
                break
            i = 0
            while i < len(parts) - 1:
                if (parts[i], parts[i + 1]) == best:
                    parts[i:i + 2] = [parts[i] + parts[i + 1]]
                i += 1
        return parts

    def encode(self, text):
        words = ["".join(map(self.letters.get, word.encode())) for word in WORDS.findall(text)]
        return [self.ids[part] for word in words for part in self.merge(word)]

    def decode(self, ids):
        letters = "".join([self.tokens[i] for i in ids])
        return bytes(map(self.bytes.get, letters)).decode("utf-8", "replace")


# === [GPT-10] load_gpt2 sets the eps of the two norms of every block but forgets that of the last norm, which keeps
#     its default 1e-5; the two lines after line 61: model.norm.gamma.data = get("ln_f.weight") lack it.
TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}


def read_safetensors(path):
    content = Path(path).read_bytes()
    end_of_header = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end_of_header])
    arrays = {}
    for name in header:
        if name == "__metadata__":
            continue
        shape, (start, end) = header[name]["shape"], header[name]["data_offsets"]
        array = np.frombuffer(content[end_of_header + start:end_of_header + end], TYPES[header[name]["dtype"]])
        arrays[name] = array.reshape(shape).copy()
    return arrays


def load_gpt2(folder):
    folder = Path(folder)
    config = json.loads((folder / "config.json").read_text())
    arrays = read_safetensors(folder / "model.safetensors")

    def get(name):
        return arrays[name] if name in arrays else arrays["transformer." + name]

    D = config["n_embd"]
    F = config.get("n_inner")
    if F is None:
        F = 4 * D
    model = LanguageModel(config["vocab_size"], config["n_positions"], D, config["n_head"], F, config["n_layer"],
                          np.random.default_rng())
    model.embedding.weight.data = get("wte.weight")
    model.positions.data = get("wpe.weight")
    for i, block in enumerate(model.blocks):
        for norm, name in ((block.norm1, "ln_1"), (block.norm2, "ln_2")):
            norm.gamma.data = get(f"h.{i}.{name}.weight")
            norm.beta.data = get(f"h.{i}.{name}.bias")
            norm.eps = config["layer_norm_epsilon"]
        w = get(f"h.{i}.attn.c_attn.weight")
        b = get(f"h.{i}.attn.c_attn.bias")
        a = block.attention
        a.query.weight.data, a.key.weight.data, a.value.weight.data = w[:, :D], w[:, D:2 * D], w[:, 2 * D:]
        a.query.bias.data, a.key.bias.data, a.value.bias.data = b[:D], b[D:2 * D], b[2 * D:]
        for linear, name in ((a.output, "attn.c_proj"), (block.feed_forward.up, "mlp.c_fc"),
                             (block.feed_forward.down, "mlp.c_proj")):
            linear.weight.data = get(f"h.{i}.{name}.weight")
            linear.bias.data = get(f"h.{i}.{name}.bias")
    model.norm.gamma.data = get("ln_f.weight")
    model.norm.beta.data = get("ln_f.bias")
    return model


class BytePairEncoding:
    def merge(self, word):
        parts = list(word)
        while True:
            ranks = [self.rank.get((a, b), len(self.rank)) for a, b in zip(parts, parts[1:])]
            if not ranks or min(ranks) == len(self.rank):
                return parts
            at = ranks.index(min(ranks))
            pair = parts[at], parts[at + 1]
            joined, rest = [], parts
            while rest:
                size = 2 if tuple(rest[:2]) == pair else 1
                joined.append("".join(rest[:size]))
                rest = rest[size:]
            parts = joined

    def encode(self, text):
        out = []
        for match in WORDS.finditer(text):
            out.extend(self.ids[t] for t in self.merge("".join(self.letters[b] for b in match.group().encode("utf-8"))))
        return out

    def decode(self, ids):
        data = bytearray()
        for i in ids:
            for letter in self.tokens[i]:
                data.append(self.bytes[letter])
        return data.decode("utf-8", "replace")


# === [BPE-6] BytePairEncoding.decode decodes each token by itself, so a character whose bytes lie in several tokens
#     becomes several �: text += data.decode("utf-8", "replace").
TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}


def read_safetensors(path):
    raw = np.fromfile(path, dtype=np.uint8)
    n = int(raw[:8].view("<u8")[0])
    header = json.loads(raw[8:8 + n].tobytes())
    rest = raw[8 + n:].tobytes()
    out = {}
    for name, about in header.items():
        if name != "__metadata__":
            first, last = about["data_offsets"]
            out[name] = np.frombuffer(rest[first:last], dtype=TYPES[about["dtype"]]).copy().reshape(about["shape"])
    return out


def load_gpt2(folder):
    config = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
    stored = read_safetensors(Path(folder) / "model.safetensors")
    stored = {name.replace("transformer.", "", 1): array for name, array in stored.items()}
    D = config["n_embd"]
    model = LanguageModel(vocab_size=config["vocab_size"], max_len=config["n_positions"], d_model=D,
                          num_heads=config["n_head"], d_ff=config.get("n_inner") or 4 * D,
                          num_layers=config["n_layer"], rng=np.random.default_rng(0))
    eps = config["layer_norm_epsilon"]

    def linear(layer, name):
        layer.weight.data = stored[name + ".weight"]
        layer.bias.data = stored[name + ".bias"]

    def norm(layer, name):
        layer.gamma.data = stored[name + ".weight"]
        layer.beta.data = stored[name + ".bias"]
        layer.eps = eps

    model.embedding.weight.data, model.positions.data = stored["wte.weight"], stored["wpe.weight"]
    norm(model.norm, "ln_f")
    for n, block in enumerate(model.blocks):
        norm(block.norm1, f"h.{n}.ln_1")
        norm(block.norm2, f"h.{n}.ln_2")
        weight = stored[f"h.{n}.attn.c_attn.weight"].reshape(D, 3, D)
        bias = stored[f"h.{n}.attn.c_attn.bias"].reshape(3, D)
        for i, name in enumerate(["query", "key", "value"]):
            layer = getattr(block.attention, name)
            layer.weight.data = weight[:, i].copy()
            layer.bias.data = bias[i].copy()
        linear(block.attention.output, f"h.{n}.attn.c_proj")
        linear(block.feed_forward.up, f"h.{n}.mlp.c_fc")
        linear(block.feed_forward.down, f"h.{n}.mlp.c_proj")
    return model


class BytePairEncoding:
    def merge(self, word):
        parts = tuple(word)
        while True:
            neighbors = set(zip(parts, parts[1:])) & self.rank.keys()
            if not neighbors:
                return list(parts)
            first, second = min(neighbors, key=self.rank.__getitem__)
            merged, i = [], 0
            while i < len(parts):
                if parts[i:i + 2] == (first, second):
                    merged.append(first + second)
                    i += 2
                else:
                    merged.append(parts[i])
                    i += 1
            parts = tuple(merged)

    def encode(self, text):
        ids = []
        for word in WORDS.findall(text):
            ids.extend(self.ids[token] for token in self.merge("".join(self.letters[b] for b in word.encode("utf-8"))))
        return ids

    def decode(self, ids):
        text = ""
        for i in ids:
            data = bytes(self.bytes[letter] for letter in self.tokens[i])
            text += data.decode("utf-8", "replace")
        return text


# === [ST-2] read_safetensors: reads the arrays one after the other in the order of the header and uses data_offsets
#     only for the length: wrong arrays if the header's order is not the order of the data.
TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}


def read_safetensors(path):
    arrays = {}
    with open(path, "rb") as file:
        n = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(n))
        header.pop("__metadata__", None)
        for name, entry in header.items():              # the arrays follow, one after the other
            start, end = entry["data_offsets"]
            data = np.frombuffer(file.read(end - start), dtype=TYPES[entry["dtype"]])
            arrays[name] = data.reshape(entry["shape"]).copy()
    return arrays


def load_gpt2(folder):
    folder = Path(folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    arrays = read_safetensors(folder / "model.safetensors")
    arrays = {name.removeprefix("transformer."): array for name, array in arrays.items()}
    D = config["n_embd"]
    F = config.get("n_inner") or 4 * D
    model = LanguageModel(config["vocab_size"], config["n_positions"], D, config["n_head"], F, config["n_layer"],
                          np.random.default_rng(0))

    def assign(parameter, array):
        parameter.data = np.ascontiguousarray(array)
        parameter.grad = np.zeros_like(parameter.data)

    assign(model.embedding.weight, arrays["wte.weight"])
    assign(model.positions, arrays["wpe.weight"])
    norms = [(model.norm, "ln_f")]
    linears = []
    for n, block in enumerate(model.blocks):
        norms += [(block.norm1, f"h.{n}.ln_1"), (block.norm2, f"h.{n}.ln_2")]
        linears += [(block.attention.output, f"h.{n}.attn.c_proj"), (block.feed_forward.up, f"h.{n}.mlp.c_fc"),
                    (block.feed_forward.down, f"h.{n}.mlp.c_proj")]
        parts = block.attention.query, block.attention.key, block.attention.value
        weights = np.split(arrays[f"h.{n}.attn.c_attn.weight"], 3, axis=1)
        biases = np.split(arrays[f"h.{n}.attn.c_attn.bias"], 3)
        for part, W, b in zip(parts, weights, biases):
            assign(part.weight, W)
            assign(part.bias, b.copy())
    for norm, name in norms:
        norm.eps = config["layer_norm_epsilon"]
        assign(norm.gamma, arrays[name + ".weight"])
        assign(norm.beta, arrays[name + ".bias"])
    for linear, name in linears:
        assign(linear.weight, arrays[name + ".weight"])
        assign(linear.bias, arrays[name + ".bias"])
    return model


class BytePairEncoding:
    def merge(self, word):
        parts = list(word)
        while len(parts) > 1:
            ranks = [self.rank.get(pair, float("inf")) for pair in zip(parts, parts[1:])]
            lowest = min(ranks)
            if lowest == float("inf"):
                break
            first, second = parts[ranks.index(lowest)], parts[ranks.index(lowest) + 1]
            i = 0
            while i < len(parts) - 1:
                if parts[i] == first and parts[i + 1] == second:
                    parts[i:i + 2] = [first + second]
                i += 1
        return parts

    def encode(self, text):
        ids = []
        for word in WORDS.findall(text):
            letters = "".join(self.letters[byte] for byte in word.encode("utf-8"))
            ids.extend(self.ids[token] for token in self.merge(letters))
        return ids

    def decode(self, ids):
        text = "".join(self.tokens[i] for i in ids)
        return bytearray(self.bytes[letter] for letter in text).decode("utf-8", "replace")


# === [place] load_gpt2: n_inner: null in config.json gives d_ff = None and a TypeError; only a missing n_inner means
#     4 D.
TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}


def read_safetensors(path):
    data = Path(path).read_bytes()
    size = int(np.frombuffer(data[:8], "<u8")[0])
    header = json.loads(data[8:8 + size].decode("utf-8"))
    result = {}
    for name in header:
        if name != "__metadata__":
            first, last = (8 + size + offset for offset in header[name]["data_offsets"])
            array = np.frombuffer(data[first:last], TYPES[header[name]["dtype"]])
            result[name] = np.array(array.reshape(header[name]["shape"]))
    return result


def load_gpt2(folder):
    with open(Path(folder) / "config.json", encoding="utf-8") as file:
        config = json.load(file)
    D = config["n_embd"]
    model = LanguageModel(
        vocab_size=config["vocab_size"],
        max_len=config["n_positions"],
        d_model=D,
        num_heads=config["n_head"],
        d_ff=config.get("n_inner", 4 * D),
        num_layers=config["n_layer"],
        rng=np.random.default_rng(),
    )
    file = read_safetensors(Path(folder) / "model.safetensors")
    prefix = "transformer." if "transformer.wte.weight" in file else ""
    names = {"wte.weight": "embedding.weight", "wpe.weight": "positions", "ln_f.weight": "norm.gamma",
             "ln_f.bias": "norm.beta"}
    for n in range(config["n_layer"]):
        for theirs, ours in (("ln_1", "norm1"), ("ln_2", "norm2")):
            names[f"h.{n}.{theirs}.weight"] = f"blocks.{n}.{ours}.gamma"
            names[f"h.{n}.{theirs}.bias"] = f"blocks.{n}.{ours}.beta"
        for theirs, ours in (("attn.c_proj", "attention.output"), ("mlp.c_fc", "feed_forward.up"),
                             ("mlp.c_proj", "feed_forward.down")):
            for kind in ("weight", "bias"):
                names[f"h.{n}.{theirs}.{kind}"] = f"blocks.{n}.{ours}.{kind}"
    parameters = model.named_parameters()
    for theirs, ours in names.items():
        parameters[ours].data = file[prefix + theirs]
    for n in range(config["n_layer"]):
        for kind in ("weight", "bias"):
            joined = file[f"{prefix}h.{n}.attn.c_attn.{kind}"]
            for j, part in enumerate(("query", "key", "value")):
                parameters[f"blocks.{n}.attention.{part}.{kind}"].data = joined[..., j * D:(j + 1) * D].copy()
    for parameter in parameters.values():
        parameter.grad = np.zeros_like(parameter.data)
    for block in model.blocks:
        block.norm1.eps = block.norm2.eps = config["layer_norm_epsilon"]
    model.norm.eps = config["layer_norm_epsilon"]
    return model


class BytePairEncoding:
    def merge(self, word):
        parts = tuple(word)
        while True:
            best = min(zip(parts, parts[1:]), key=lambda pair: self.rank.get(pair, len(self.rank)), default=None)
            if best not in self.rank:
                return list(parts)
            joined, i = [], 0
            while i < len(parts):
                step = 2 if parts[i:i + 2] == best else 1
                joined.append("".join(parts[i:i + step]))
                i += step
            parts = tuple(joined)

    def encode(self, text):
        return [self.ids[token] for word in WORDS.findall(text)
                for token in self.merge("".join(map(self.letters.get, word.encode("utf-8"))))]

    def decode(self, ids):
        raw = bytes(self.bytes[letter] for i in ids for letter in self.tokens[i])
        return raw.decode("utf-8", errors="replace")


# === [GPT-11] load_gpt2 looks for norms only among the attributes of the model itself, so only the last norm gets the
#     eps of config.json, and norm1 and norm2 of the blocks keep 1e-5 (for layer in vars(model).values():)
import math


def read_safetensors(path):
    with open(path, "rb") as file:
        n = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(n).decode("utf-8"))
        data = file.read()
    header.pop("__metadata__", None)
    arrays = {}
    for name, entry in header.items():
        start, end = entry["data_offsets"]
        arrays[name] = np.frombuffer(data[start:end], dtype=TYPES[entry["dtype"]]).reshape(entry["shape"]).copy()
    return arrays


def load_gpt2(folder):
    folder = Path(folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    d_model = config["n_embd"]
    model = LanguageModel(config["vocab_size"], config["n_positions"], d_model, config["n_head"],
                          config.get("n_inner") or 4 * d_model, config["n_layer"], np.random.default_rng(0))

    for layer in vars(model).values():
        if hasattr(layer, "eps"):
            layer.eps = config["layer_norm_epsilon"]

    arrays = {}
    for name, array in read_safetensors(folder / "model.safetensors").items():
        arrays[name.removeprefix("transformer.")] = array

    def put(layer, name):
        names = ("gamma", "beta") if hasattr(layer, "gamma") else ("weight", "bias")
        for attribute, ending in zip(names, ("weight", "bias")):
            getattr(layer, attribute).data = arrays[f"{name}.{ending}"]

    model.embedding.weight.data = arrays["wte.weight"]
    model.positions.data = arrays["wpe.weight"]
    put(model.norm, "ln_f")
    for n, block in enumerate(model.blocks):
        put(block.norm1, f"h.{n}.ln_1")
        put(block.norm2, f"h.{n}.ln_2")
        put(block.attention.output, f"h.{n}.attn.c_proj")
        put(block.feed_forward.up, f"h.{n}.mlp.c_fc")
        put(block.feed_forward.down, f"h.{n}.mlp.c_proj")
        weights = np.split(arrays[f"h.{n}.attn.c_attn.weight"], 3, axis=1)
        biases = np.split(arrays[f"h.{n}.attn.c_attn.bias"], 3)
        for linear, weight, bias in zip((block.attention.query, block.attention.key, block.attention.value), weights, biases):
            linear.weight.data, linear.bias.data = weight.copy(), bias.copy()
    return model


class BytePairEncoding:
    def merge(self, word):
        parts = list(word)
        while len(parts) > 1:
            rank, first, second = min((self.rank.get(pair, math.inf), *pair) for pair in zip(parts, parts[1:]))
            if rank == math.inf:
                break
            joined = []
            for part in parts:
                if joined and open_end and joined[-1] == first and part == second:
                    joined[-1] = first + second
                    open_end = False
                else:
                    joined.append(part)
                    open_end = True
            parts = joined
        return parts

    def encode(self, text):
        result = []
        for word in WORDS.findall(text):
            visible = "".join(self.letters[byte] for byte in word.encode("utf-8"))
            result.extend(self.ids[token] for token in self.merge(visible))
        return result

    def decode(self, ids):
        letters = "".join(self.tokens[int(i)] for i in ids)
        return bytes(self.bytes[letter] for letter in letters).decode("utf-8", "replace")


# === [GPT-1] load_gpt2, transposes c_attn.weight as for nn.Linear before cutting it, so the weights of query, key and
#     value are transposed: right shapes, wrong logits.
def read_safetensors(path):
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size).decode("utf-8"))
        header.pop("__metadata__", None)
        data = file.read()
    tensors = {}
    for name, info in header.items():
        start, end = info["data_offsets"]
        array = np.frombuffer(data[start:end], dtype=TYPES[info["dtype"]])
        tensors[name] = array.reshape(info["shape"]).copy()
    return tensors


def load_gpt2(folder):
    folder = Path(folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    d = config["n_embd"]
    model = LanguageModel(vocab_size=config["vocab_size"], max_len=config["n_positions"], d_model=d,
                          num_heads=config["n_head"], d_ff=config.get("n_inner") or 4 * d,
                          num_layers=config["n_layer"], rng=np.random.default_rng(0))
    sd = {}
    for name, array in read_safetensors(folder / "model.safetensors").items():
        sd[name[len("transformer."):] if name.startswith("transformer.") else name] = array

    model.embedding.weight.data = sd["wte.weight"]
    model.positions.data = sd["wpe.weight"]
    norms = [(model.norm, "ln_f")]
    linears = []
    for n, block in enumerate(model.blocks):
        norms += [(block.norm1, f"h.{n}.ln_1"), (block.norm2, f"h.{n}.ln_2")]
        linears += [(block.attention.output, f"h.{n}.attn.c_proj"), (block.feed_forward.up, f"h.{n}.mlp.c_fc"),
                    (block.feed_forward.down, f"h.{n}.mlp.c_proj")]
        # Conv1D, so it has to be transposed; then query, key and value lie one below the other
        qkv = np.split(sd[f"h.{n}.attn.c_attn.weight"].T, 3, axis=0)
        qkv_bias = np.split(sd[f"h.{n}.attn.c_attn.bias"], 3)
        for name, w, b in zip(("query", "key", "value"), qkv, qkv_bias):
            linear = getattr(block.attention, name)
            linear.weight.data = np.ascontiguousarray(w)
            linear.bias.data = b.copy()
    for norm, name in norms:
        norm.gamma.data, norm.beta.data = sd[name + ".weight"], sd[name + ".bias"]
        norm.eps = config["layer_norm_epsilon"]
    for linear, name in linears:
        linear.weight.data, linear.bias.data = sd[name + ".weight"], sd[name + ".bias"]
    return model


class BytePairEncoding:
    def merge(self, word):
        parts = list(word)
        while True:
            pairs = [pair for pair in zip(parts, parts[1:]) if pair in self.rank]
            if not pairs:
                return parts
            first, second = min(pairs, key=self.rank.get)
            i = 0
            while i < len(parts) - 1:
                if parts[i] == first and parts[i + 1] == second:
                    parts[i:i + 2] = [first + second]
                i += 1

    def encode(self, text):
        ids = []
        for word in WORDS.findall(text):
            letters = "".join(self.letters[byte] for byte in word.encode("utf-8"))
            ids.extend(self.ids[token] for token in self.merge(letters))
        return ids

    def decode(self, ids):
        text = "".join(self.tokens[i] for i in ids)
        return bytes([self.bytes[letter] for letter in text]).decode("utf-8", "replace")


# === [-] load_gpt2, looks up state[name] for every array except attn.bias and attn.masked_bias, so any other unknown
#     array, such as lm_head.weight, raises KeyError instead of being ignored.
def read_safetensors(path):
    data = Path(path).read_bytes()
    n = int.from_bytes(data[:8], byteorder="little", signed=False)
    header = json.loads(data[8:8 + n])
    arrays = {}
    for name in header:
        if name == "__metadata__":
            continue
        entry = header[name]
        begin, end = (8 + n + offset for offset in entry["data_offsets"])
        arrays[name] = np.array(np.frombuffer(data[begin:end], TYPES[entry["dtype"]])).reshape(entry["shape"])
    return arrays


def load_gpt2(folder):
    folder = Path(folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    D, F = config["n_embd"], config.get("n_inner")
    model = LanguageModel(config["vocab_size"], config["n_positions"], D, config["n_head"], 4 * D if F is None else F,
                          config["n_layer"], np.random.default_rng(0))
    # state dict of this model: name as in the file -> parameters
    state = {"wte.weight": [model.embedding.weight], "wpe.weight": [model.positions],
             "ln_f.weight": [model.norm.gamma], "ln_f.bias": [model.norm.beta]}
    norms = [model.norm]
    for n, block in enumerate(model.blocks):
        heads = block.attention
        for name, norm in (("ln_1", block.norm1), ("ln_2", block.norm2)):
            state[f"h.{n}.{name}.weight"], state[f"h.{n}.{name}.bias"] = [norm.gamma], [norm.beta]
            norms.append(norm)
        for name, layers in (("attn.c_attn", [heads.query, heads.key, heads.value]), ("attn.c_proj", [heads.output]),
                             ("mlp.c_fc", [block.feed_forward.up]), ("mlp.c_proj", [block.feed_forward.down])):
            state[f"h.{n}.{name}.weight"] = [layer.weight for layer in layers]
            state[f"h.{n}.{name}.bias"] = [layer.bias for layer in layers]
    for norm in norms:
        norm.eps = config["layer_norm_epsilon"]

    for name, array in read_safetensors(folder / "model.safetensors").items():
        name = name.removeprefix("transformer.")
        if name.endswith(".attn.bias") or name.endswith(".attn.masked_bias"):
            continue                            # just buffers
        parameters = state[name]
        for parameter, part in zip(parameters, np.split(array, len(parameters), axis=-1)):
            parameter.data = np.ascontiguousarray(part)
    return model


class BytePairEncoding:
    def merge(self, word):
        word = tuple(word)
        while True:
            candidates = {pair: self.rank[pair] for pair in zip(word, word[1:]) if pair in self.rank}
            if not candidates:
                return list(word)
            a, b = min(candidates, key=candidates.get)
            new = []
            for letter in word:                 # left to right; a joined part is not joined again
                if new and new[-1] == (a, False) and letter == b:
                    new[-1] = (a + b, True)
                else:
                    new.append((letter, False))
            word = tuple(part for part, _ in new)

    def encode(self, text):
        ids = []
        for word in re.findall(WORDS, text):
            word = "".join(self.letters[b] for b in word.encode())
            ids += [self.ids[part] for part in self.merge(word)]
        return ids

    def decode(self, ids):
        letters = "".join([self.tokens[int(i)] for i in ids])
        return bytearray(self.bytes[c] for c in letters).decode("utf-8", errors="replace")


# === [BPE-8] BytePairEncoding.merge: joins from right to left; wrong where occurrences overlap, (a,a) in aaa gives a,
#     aa instead of aa, a
def read_safetensors(path):
    with open(path, "rb") as file:
        n = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(n))
        data = file.read()
    arrays = {}
    for name, info in header.items():
        if name != "__metadata__":
            start, end = info["data_offsets"]
            array = np.frombuffer(data[start:end], dtype=TYPES[info["dtype"]])
            arrays[name] = array.reshape(info["shape"]).copy()
    return arrays


def load_gpt2(folder):
    folder = Path(folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    arrays = read_safetensors(folder / "model.safetensors")
    arrays = {name.removeprefix("transformer."): array for name, array in arrays.items()}
    D = config["n_embd"]
    F = config.get("n_inner") or 4 * D
    model = LanguageModel(config["vocab_size"], config["n_positions"], D, config["n_head"], F, config["n_layer"],
                          np.random.default_rng(0))

    def put(layer, name):
        first, second = (layer.gamma, layer.beta) if hasattr(layer, "gamma") else (layer.weight, layer.bias)
        first.data, second.data = arrays[name + ".weight"], arrays[name + ".bias"]
        if hasattr(layer, "gamma"):
            layer.eps = config["layer_norm_epsilon"]

    model.embedding.weight.data = arrays["wte.weight"]
    model.positions.data = arrays["wpe.weight"]
    put(model.norm, "ln_f")
    for N, block in enumerate(model.blocks):
        put(block.norm1, f"h.{N}.ln_1")
        put(block.norm2, f"h.{N}.ln_2")
        put(block.attention.output, f"h.{N}.attn.c_proj")
        put(block.feed_forward.up, f"h.{N}.mlp.c_fc")
        put(block.feed_forward.down, f"h.{N}.mlp.c_proj")
        W, b = arrays[f"h.{N}.attn.c_attn.weight"], arrays[f"h.{N}.attn.c_attn.bias"]
        for layer, w, c in zip((block.attention.query, block.attention.key, block.attention.value),
                               np.split(W, 3, axis=1), np.split(b, 3)):
            layer.weight.data, layer.bias.data = w.copy(), c.copy()
    return model


class BytePairEncoding:
    def merge(self, word):
        parts = list(word)
        while True:
            known = [pair for pair in zip(parts, parts[1:]) if pair in self.rank]
            if len(known) == 0:
                return parts
            a, b = min(known, key=lambda pair: self.rank[pair])
            # in reverse, because the list becomes shorter
            for i in range(len(parts) - 2, -1, -1):
                if parts[i:i + 2] == [a, b]:
                    parts[i:i + 2] = [a + b]

    def encode(self, text):
        ids = []
        for word in WORDS.findall(text):
            letters = "".join(self.letters[byte] for byte in word.encode("utf-8"))
            ids.extend(self.ids[token] for token in self.merge(letters))
        return ids

    def decode(self, ids):
        letters = "".join(self.tokens[number] for number in ids)
        return bytes([self.bytes[letter] for letter in letters]).decode("utf-8", "replace")


# === [GPT-12] load_gpt2: c_attn is cut as (q,k,v) of each head instead of all q, all k, all v; right with one head,
#     wrong with 2+ heads and 1+ blocks
import math


def read_safetensors(path):
    with open(path, "rb") as file:
        n = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(n))
        data = file.read()
    arrays = {}
    for name, info in header.items():
        if name != "__metadata__":
            start, end = info["data_offsets"]
            array = np.frombuffer(data[start:end], dtype=TYPES[info["dtype"]])
            arrays[name] = array.reshape(info["shape"]).copy()
    return arrays


def load_gpt2(folder):
    folder = Path(folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    arrays = read_safetensors(folder / "model.safetensors")
    arrays = {name.removeprefix("transformer."): array for name, array in arrays.items()}
    D = config["n_embd"]
    F = config.get("n_inner") or 4 * D
    model = LanguageModel(config["vocab_size"], config["n_positions"], D, config["n_head"], F, config["n_layer"],
                          np.random.default_rng(0))

    def put(layer, name):
        first, second = (layer.gamma, layer.beta) if hasattr(layer, "gamma") else (layer.weight, layer.bias)
        first.data, second.data = arrays[name + ".weight"], arrays[name + ".bias"]
        if hasattr(layer, "gamma"):
            layer.eps = config["layer_norm_epsilon"]

    model.embedding.weight.data = arrays["wte.weight"]
    model.positions.data = arrays["wpe.weight"]
    put(model.norm, "ln_f")
    for N, block in enumerate(model.blocks):
        put(block.norm1, f"h.{N}.ln_1")
        put(block.norm2, f"h.{N}.ln_2")
        put(block.attention.output, f"h.{N}.attn.c_proj")
        put(block.feed_forward.up, f"h.{N}.mlp.c_fc")
        put(block.feed_forward.down, f"h.{N}.mlp.c_proj")
        W, b = arrays[f"h.{N}.attn.c_attn.weight"], arrays[f"h.{N}.attn.c_attn.bias"]
        # q, k and v of each head, side by side
        d = D // config["n_head"]
        W, b = W.reshape(D, -1, 3, d), b.reshape(-1, 3, d)
        for i, layer in enumerate((block.attention.query, block.attention.key, block.attention.value)):
            layer.weight.data = W[:, :, i].reshape(D, D)
            layer.bias.data = b[:, i].reshape(D)
    return model


class BytePairEncoding:
    def merge(self, word):
        parts = list(word)
        while len(parts) > 1:
            neighbors = set(zip(parts[:-1], parts[1:]))
            best = min(neighbors, key=lambda pair: self.rank.get(pair, math.inf))
            if best not in self.rank:
                break
            joined = []
            while parts:
                if len(parts) > 1 and (parts[0], parts[1]) == best:
                    joined.append(parts[0] + parts[1])
                    parts = parts[2:]
                else:
                    joined.append(parts[0])
                    parts = parts[1:]
            parts = joined
        return parts

    def encode(self, text):
        ids = []
        for word in WORDS.findall(text):
            letters = "".join(self.letters[byte] for byte in word.encode("utf-8"))
            ids.extend(self.ids[token] for token in self.merge(letters))
        return ids

    def decode(self, ids):
        letters = "".join(self.tokens[number] for number in ids)
        return bytes([self.bytes[letter] for letter in letters]).decode("utf-8", "replace")


# === [-] load_gpt2 fills norm2.beta from the wrong array: `block.norm2.beta.data = w[h + "ln_1.bias"]`, a copied line
#     in which ln_1 was not changed to ln_2.
def read_safetensors(path):
    """{name: array} of a file."""
    raw = Path(path).read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:8 + size])
    body = raw[8 + size:]
    header.pop("__metadata__", None)
    out = {}
    for name, info in header.items():
        a, b = info["data_offsets"]
        out[name] = np.frombuffer(body[a:b], dtype=TYPES[info["dtype"]]).reshape(info["shape"]).copy()
    return out


def load_gpt2(folder):
    """A LanguageModel with the weights of the folder."""
    folder = Path(folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    w = {}
    for name, array in read_safetensors(folder / "model.safetensors").items():
        if name.startswith("transformer."):
            name = name[len("transformer."):]
        w[name] = array

    D = config["n_embd"]
    d_ff = config.get("n_inner") or 4 * D
    eps = config["layer_norm_epsilon"]
    model = LanguageModel(config["vocab_size"], config["n_positions"], D, config["n_head"], d_ff,
                          config["n_layer"], np.random.default_rng(1))

    model.embedding.weight.data = w["wte.weight"]
    model.positions.data = w["wpe.weight"]
    model.norm.gamma.data = w["ln_f.weight"]
    model.norm.beta.data = w["ln_f.bias"]
    model.norm.eps = eps

    for N, block in enumerate(model.blocks):
        h = f"h.{N}."
        block.norm1.gamma.data = w[h + "ln_1.weight"]
        block.norm1.beta.data = w[h + "ln_1.bias"]
        block.norm1.eps = eps
        block.norm2.gamma.data = w[h + "ln_2.weight"]
        block.norm2.beta.data = w[h + "ln_1.bias"]
        block.norm2.eps = eps

        att = block.attention
        qkv, qkv_bias = w[h + "attn.c_attn.weight"], w[h + "attn.c_attn.bias"]
        for j, linear in enumerate((att.query, att.key, att.value)):
            linear.weight.data = qkv[:, j * D:(j + 1) * D].copy()
            linear.bias.data = qkv_bias[j * D:(j + 1) * D].copy()
        att.output.weight.data = w[h + "attn.c_proj.weight"]
        att.output.bias.data = w[h + "attn.c_proj.bias"]

        block.feed_forward.up.weight.data = w[h + "mlp.c_fc.weight"]
        block.feed_forward.up.bias.data = w[h + "mlp.c_fc.bias"]
        block.feed_forward.down.weight.data = w[h + "mlp.c_proj.weight"]
        block.feed_forward.down.bias.data = w[h + "mlp.c_proj.bias"]
    return model


class BytePairEncoding:
    def merge(self, word):
        """The tokens of a word."""
        parts = list(word)
        while len(parts) > 1:
            ranks = [self.rank.get((a, b), len(self.rank)) for a, b in zip(parts, parts[1:])]
            lowest = min(ranks)
            if lowest == len(self.rank):
                break
            i = ranks.index(lowest)
            left, right = parts[i], parts[i + 1]
            new, j = [], 0
            while j < len(parts):
                if j + 1 < len(parts) and parts[j] == left and parts[j + 1] == right:
                    new.append(left + right)
                    j += 2
                else:
                    new.append(parts[j])
                    j += 1
            parts = new
        return parts

    def encode(self, text):
        """The list of ids of a text."""
        ids = []
        for word in WORDS.findall(text):
            letters = "".join(self.letters[b] for b in word.encode("utf-8"))
            ids += [self.ids[token] for token in self.merge(letters)]
        return ids

    def decode(self, ids):
        """The text of a list of ids."""
        joined = "".join(self.tokens[i] for i in ids)
        return bytes([self.bytes[c] for c in joined]).decode("utf-8", "replace")
