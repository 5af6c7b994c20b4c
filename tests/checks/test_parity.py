"""PyTorch as an independent reference: it computes every output and every gradient in float64.

`compare` draws all parameters of our module anew and hands them to PyTorch as leaves under our names. What torch.nn
names and stores otherwise is converted on the way in, so autograd brings each gradient back in our names and shapes.
Every query sees at least one key: where there is none, ours gives 0 by convention and PyTorch NaN.
"""

import math
from functools import partial

import numpy as np
import pytest
from helpers import composed
from helpers.parity import close, compare, leaf

import numpy_transformer as nt
from numpy_transformer.checks.samples import biased, near_blocks
from numpy_transformer.layers.multi_head import add_qkv_bias
from numpy_transformer.layers.token_positions import token_positions

torch = pytest.importorskip("torch")
torch.set_num_threads(1)
nn, F = torch.nn, torch.nn.functional

B, T, S, H, D, D_FF, V, W, L = 3, 5, 7, 2, 12, 16, 11, 13, 2
D_HEAD, D_WIDE, P = 6, 24, 0.3                  # D_WIDE: four query heads on two key heads; P: dropout


# our parameters in torch.nn

NAMES = (("cross_attention", "multihead_attn"), ("attention", "self_attn"), ("feed_forward.up", "linear1"),
         ("feed_forward.down", "linear2"), ("blocks", "layers"), ("output", "out_proj"), ("query.", "in_proj_"),
         ("gamma", "weight"), ("beta", "bias"))


def run(module, p, *inputs, **named):
    """A module of torch.nn computes with our parameters, and has no others."""
    state = {}
    for name in p:
        if "key." not in name and "value." not in name:         # these two are below their query, in one matrix
            packed = ("query", "key", "value") if "query." in name else ("query",)
            tensors = [p[name.replace("query", other)] for other in packed]
            for ours, theirs in NAMES:
                name = name.replace(ours, theirs)
            state[name] = torch.cat([x.T if x.ndim == 2 else x for x in tensors])
    assert {name: x.shape for name, x in state.items()} == {name: x.shape for name, x in module.named_parameters()}
    return torch.func.functional_call(module, state, inputs, named)


def like(module, **masks):
    """theirs(p, *inputs, *masks): `masks` gives its name for each of our masks, and the conversion."""
    def theirs(p, *inputs):
        inputs, ours = inputs[:len(inputs) - len(masks)], inputs[len(inputs) - len(masks):]
        y = run(module, p, *inputs, **{name: masks[name](mask) for name, mask in zip(masks, ours)})
        return y[0] if isinstance(y, tuple) else y

    return theirs


def hidden(mask):
    """torch.nn hides where True, and has the heads within the batch: (B H, T, S)."""
    return (~mask).expand(B, H, -1, -1).flatten(0, 1)


def pads(mask):
    return ~mask[:, 0, 0]


def part(p, prefix):
    return {name.removeprefix(prefix + "."): tensor for name, tensor in p.items() if name.startswith(prefix + ".")}


def multi_head(bias=True):
    return like(nn.MultiheadAttention(D, H, bias=bias, batch_first=True), attn_mask=hidden)


def layer(norm, activation="relu", bias=True, eps=1e-5, kind=nn.TransformerEncoderLayer):
    return kind(D, H, D_FF, 0.0, activation, eps, batch_first=True, norm_first=norm == "pre", bias=bias)


def encoder(norm, final_norm, activation="relu", eps=1e-5):
    final = nn.LayerNorm(D, eps) if final_norm else None
    return nn.TransformerEncoder(layer(norm, activation, eps=eps), L, final, False)


def decoder(norm):
    stacked = layer(norm, kind=nn.TransformerDecoderLayer)
    return nn.TransformerDecoder(stacked, L, nn.LayerNorm(D) if norm == "pre" else None)


with_memory = partial(like, tgt_mask=hidden, memory_key_padding_mask=pads)


# from the formula, where PyTorch has no counterpart

def linear(p, name, x):
    return F.linear(x, p[f"{name}.weight"].T, p.get(f"{name}.bias"))


def embed_padded(p, ids):
    with torch.no_grad():
        p["weight"][4] = 0                      # so nn.Embedding begins; ours gives zeros whatever the table says
    return math.sqrt(D) * F.embedding(ids, p["weight"], padding_idx=4)


def sinusoid(length, d_model):
    return torch.tensor([[(math.cos if i % 2 else math.sin)(t / 10000 ** ((i - i % 2) / d_model))
                          for i in range(d_model)] for t in range(length)], dtype=torch.float64)


def rotate(x, positions, base=10000.0, half_split=False, frequencies=None):
    """RoFormer: each pair of features is a complex number, its position multiplies it by exp(i angle)."""
    if frequencies is None:
        frequencies = [base ** (-2 * i / D_HEAD) for i in range(D_HEAD // 2)]
    turns = positions[..., None] * torch.tensor(frequencies, dtype=torch.float64)
    turns = turns if positions.ndim == 1 else turns[:, None]                    # (T, d/2) or (B, 1, T, d/2)
    real, imaginary = x.unflatten(-1, (2, -1)).unbind(-2) if half_split else x.unflatten(-1, (-1, 2)).unbind(-1)
    z = torch.view_as_real(torch.complex(real, imaginary) * torch.polar(torch.ones_like(turns), turns))
    return (z.mT if half_split else z).flatten(-2)


def split(p, x):
    return [linear(p, name, x).unflatten(-1, (-1, D_HEAD)).transpose(1, 2) for name in ("query", "key", "value")]


def rotary_grouped(p, x, mask, positions, **rope):
    q, k, v = split(p, x)
    q, k = (rotate(x, positions, **rope) for x in (q, k))
    y = F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)
    return linear(p, "output", y.transpose(1, 2).flatten(2))


LENGTHS = {False: [0, 1, 2, 2, 3, 3, 3], True: [0, 1, 2, 3, 4, 6, 7]}          # T5's buckets, 8 of them up to length 6


def relative_bias(p, T, S, causal=False):
    """The buckets looked up in a list that was written by hand, query t being the token S - T + t."""
    distances = torch.arange(S) - torch.arange(S - T, S)[:, None]
    lengths = distances.neg().clamp(min=0) if causal else distances.abs()
    buckets = torch.tensor(LENGTHS[causal])[lengths] + (0 if causal else 4) * (distances > 0)
    return F.embedding(buckets, p["weight"]).permute(2, 0, 1)


def unscaled(p, q, k, v, mask):
    bias = relative_bias(part(p, "score_changes.0.position_bias"), q.shape[2], k.shape[2]) if p else torch.zeros(())
    bias = (bias + torch.zeros(q.shape[:3] + k.shape[2:3])).masked_fill(~mask, -math.inf)
    return F.scaled_dot_product_attention(q, k, v, bias, scale=1.0, enable_gqa=True)


def feed_forward(p, x, f):
    return linear(p, "down", f(linear(p, "up", x)))


def gated(p, x, f=F.silu):
    return linear(p, "down", f(linear(p, "gate", x)) * linear(p, "up", x))


def kept(*shapes):
    """What a Dropout of seed 5 keeps, forward after forward, already divided by 1 - p."""
    dropout = nt.Dropout(P, 5)
    return [torch.tensor((dropout(np.ones(shape)) != 0) / (1 - P)) for shape in shapes]


def dropped_block(p, x, mask):
    a, b, c, d = kept((B, H, T, T), (B, T, D), (B, T, D_FF), (B, T, D))
    q, k, v = split(part(p, "attention"), F.layer_norm(x, (D,), p["norm1.gamma"], p["norm1.beta"]))
    weights = a * F.softmax((q @ k.mT / math.sqrt(D_HEAD)).masked_fill(~mask, -math.inf), -1)
    x = x + b * linear(p, "attention.output", (weights @ v).transpose(1, 2).flatten(2))
    z = F.layer_norm(x, (D,), p["norm2.gamma"], p["norm2.beta"])
    return x + d * feed_forward(part(p, "feed_forward"), z, lambda u: c * F.relu(u))


def block_with_dropout():
    rng = np.random.default_rng(0)
    block = nt.EncoderBlock(D, H, D_FF, P, rng=rng)
    rng.bit_generator.state = np.random.default_rng(5).bit_generator.state      # as kept() begins
    return block


# whole models

def gpt(p, ids, real):
    x = F.embedding(ids, p["embedding.weight"]) + F.embedding(torch.tensor(POSITIONS), p["positions.weight"])
    x = run(encoder("pre", True, "gelu"), part(p, "decoder"), x, mask=FUTURE, src_key_padding_mask=~real)
    return F.linear(x, p["embedding.weight"])


def language_model_2017(p, ids):
    x = math.sqrt(D) * F.embedding(ids, p["embedding.weight"]) + sinusoid(T, D)
    return linear(p, "output", run(encoder("post", False), part(p, "decoder"), x, mask=FUTURE))


def llama(p, ids, real, biased=(), eps=1e-5, f=F.silu, **rope):
    def norm(name, x):
        return F.rms_norm(x, x.shape[-1:], p[f"{name}.gamma"], eps)

    assert {name.split(".")[-2] for name in p if name.endswith(("bias", "beta"))} == set(biased)
    x = F.embedding(ids, p["embedding.weight"])
    for block in (f"decoder.blocks.{i}" for i in range(L)):
        x = x + rotary_grouped(part(p, f"{block}.attention"), norm(f"{block}.norm1", x), ~FUTURE & real[:, None, None],
                               torch.tensor(POSITIONS), **rope)
        x = x + gated(part(p, f"{block}.feed_forward"), norm(f"{block}.norm2", x), f)
    return linear(p, "output", norm("decoder.norm", x))


def text_encoder(p, ids, real, segments=None, activation="relu"):
    x = math.sqrt(D) * F.embedding(ids, p["embedding.weight"])
    x = x + (p["positions.weight"][:ids.shape[1]] if "positions.weight" in p else sinusoid(ids.shape[1], D))
    if segments is not None:
        x = x + F.embedding(segments, p["segments.weight"])
    return run(encoder("post", False, activation, 1e-6), part(p, "encoder"), x, src_key_padding_mask=~real)


def mean_of(x, real):
    return (x * real[..., None]).sum(1) / real.sum(1, keepdim=True)


def classifier(p, ids, real):
    x = mean_of(text_encoder(p, ids, real), real)
    return linear(p, "output", F.relu(linear(p, "hidden", x))).squeeze(-1)


def masked_model(p, ids, real, segments, places=None):
    x = text_encoder(p, ids, real, segments, "gelu")
    if places is not None:
        x = x.gather(1, places[..., None].expand(-1, -1, D))
    x = F.layer_norm(F.gelu(linear(p, "transform", x)), (D,), p["norm.gamma"], p["norm.beta"], 1e-6)
    return F.linear(x, p["embedding.weight"], p["bias"])


def bert(p, ids, real, segments):
    x = F.embedding(ids, p["embedding.weight"]) + F.embedding(segments, p["segments.weight"])
    x = F.layer_norm(x + p["positions.weight"][:T], (D,), p["embedding_norm.gamma"], p["embedding_norm.beta"], 0.01)
    x = run(encoder("post", False, "gelu", 0.01), part(p, "encoder"), x, src_key_padding_mask=~real)
    return linear(p, "output", torch.tanh(linear(p, "hidden", x[:, 0])))


def t5(p, source, target, source_mask):
    """T5 in one page: norm before, no scale, no bias, the biases of the first block in all, the output scaled."""
    def norm(name, x):
        return F.rms_norm(x, (D,), p[f"{name}.gamma"], 0.01)

    def attend(name, x, memory, mask, bias):
        q, k, v = (linear(p, f"{name}.{one}", z).unflatten(-1, (H, 5)).transpose(1, 2)
                   for one, z in (("query", x), ("key", memory), ("value", memory)))
        bias = (bias + torch.zeros(len(x), H, x.shape[1], memory.shape[1])).masked_fill(~mask, -math.inf)
        return linear(p, f"{name}.output", (F.softmax(q @ k.mT + bias, -1) @ v).transpose(1, 2).flatten(2))

    def bias_of(stack, length):
        weight = p[f"{stack}.blocks.0.attention.attention.score_changes.0.position_bias.weight"]
        return relative_bias({"weight": weight}, length, length, causal=stack == "decoder")

    def hidden_layer(name, x):
        gate = F.gelu(linear(p, f"{name}.gate", x), approximate="tanh")
        return linear(p, f"{name}.down", gate * linear(p, f"{name}.up", x))

    def stack(name, x, own_mask, memory=None):
        bias = bias_of(name, x.shape[1])
        for i in range(3 if name == "decoder" else L):
            block = f"{name}.blocks.{i}"
            z = norm(f"{block}.norm1", x)
            x = x + attend(f"{block}.attention", z, z, own_mask, bias)
            if memory is not None:
                x = x + attend(f"{block}.cross_attention", norm(f"{block}.norm2", x), memory, seen, 0)
            last = "norm2" if memory is None else "norm3"
            x = x + hidden_layer(f"{block}.feed_forward", norm(f"{block}.{last}", x))
        return norm(f"{name}.norm", x)

    assert not [name for name in p if name.endswith((".bias", "beta"))]
    seen = source_mask[:, None, None]
    weight = p["target_embedding.weight"]
    memory = stack("encoder", F.embedding(source, weight), seen)
    return F.linear(0.3 * stack("decoder", F.embedding(target, weight), ~FUTURE, memory), weight)


def transformer(norm, shared, learned=False):
    """The 2017 model; `shared` names those of source and output that have no weight but the target embedding's."""
    def theirs(p, source, target):
        def embed(side, ids):
            weight = p[f"{'target' if side in shared else side}_embedding.weight"]
            waves = p[f"{side}_positions.weight"][:ids.shape[1]] if learned else sinusoid(ids.shape[1], D)
            return math.sqrt(D) * F.embedding(ids, weight) + waves

        memory = run(encoder(norm, norm == "pre"), part(p, "encoder"), embed("source", source),
                     src_key_padding_mask=source == 0)
        x = run(decoder(norm), part(p, "decoder"), embed("target", target), memory, tgt_mask=FUTURE,
                tgt_key_padding_mask=target == 0, memory_key_padding_mask=source == 0)
        return F.linear(x, p["target_embedding.weight"]) if "output" in shared else linear(p, "output", x)

    return theirs


class Chain(nt.Module):
    """Modules one after another; the last one takes `more` after its input, such as the targets of a loss."""

    def __init__(self, *parts, more=()):
        self.parts, self._more = parts, more

    def forward(self, *inputs):
        for module in self.parts[:-1]:
            inputs = (module(*inputs),)
        return self.parts[-1](*inputs, *self._more)

    def backward(self, dy):
        for module in reversed(self.parts):
            dy = module.backward(dy)
        return dy


def tied():
    embedding = nt.Embedding(V, D, scale=True)
    return Chain(embedding, nt.Unembedding(embedding.weight))


def through_loss(build, theirs, targets):
    """The same two through the smoothed cross-entropy, which ignores the target 0."""
    def their_loss(p, *inputs):
        return cross_entropy(theirs(part(p, "parts.0"), *inputs), torch.tensor(targets), 0, 0.1)

    return lambda: Chain(build(), nt.CrossEntropyLoss(0.1, ignore_id=0), more=(targets,)), their_loss


def cross_entropy(logits, ids, ignored=-100, smoothing=0.0):
    return F.cross_entropy(logits.transpose(1, 2), ids, ignore_index=ignored, label_smoothing=smoothing)


def plain(function, **options):
    """theirs without parameters."""
    return lambda p, *inputs: function(*inputs, **options)


rng = np.random.default_rng(1)
X, MEMORY, VALUE, LOGITS = (rng.standard_normal(shape) for shape in ((B, T, D), (B, S, D), (B, S, D), (B, T, V)))
SCORES, WIDE, HEADS = (rng.standard_normal(shape) for shape in ((B, H, T, S), (B, T, D_WIDE), (B, H, T, D_HEAD)))
Q, KEY, VAL = (rng.standard_normal(shape) for shape in ((B, 4, T, D_HEAD), (B, H, S, D_HEAD), (B, H, S, 4)))
MASK = (rng.random((B, H, T, S)) < 0.5) | (np.arange(T)[:, None] == np.arange(S))
CAUSAL, FUTURE = nt.causal_mask(T), torch.ones(T, T, dtype=torch.bool).triu(1)
IDS, SOURCE, TARGET, LABELS = (rng.integers(1, V, shape) for shape in ((B, T), (B, S), (B, T), (B, T)))
IDS[0, 1] = IDS[2, 3] = 4
SOURCE[0, -2:] = TARGET[1, -1:] = 0
PADDING = nt.padding_mask(SOURCE)
SOURCE_MASK = np.arange(S) >= np.array([[0], [3], [1]])     # padding on the left, whatever the ids are
REAL = np.array([[1, 1, 0, 1, 1], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]], bool)
POSITIONS = np.array([[0, 1, 0, 2, 3], [0, 1, 2, 3, 0], [0, 1, 2, 3, 4]])      # of real tokens; padding may have any
GPT_LABELS, LABELS = np.where(REAL, LABELS, 0), np.where(TARGET == 0, 0, LABELS)
SOFT = rng.random((B, T, V))
FREQUENCIES = [1.5, 0.4, 0.01]
SEGMENTS, PLACES = rng.integers(0, 2, (B, T)), np.array([[1, 3, 3], [0, 2, 1], [4, 4, 0]])


def near_tokens(size):
    """The layout `near_blocks`, token by token: (T, S)."""
    t, s = torch.arange(S - T, S)[:, None] // size, torch.arange(S) // size
    return (s == 0) | (t == s) | (t == s + 1)


def linear_attention(p, q, k, v, mask):
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    a = ((F.elu(q) + 1) @ (F.elu(k) + 1).mT).masked_fill(~mask, 0)
    return a / a.sum(-1, keepdim=True) @ v


Attention, Flash, sdpa = nt.ScaledDotProductAttention, nt.FlashAttention, F.scaled_dot_product_attention
Sinusoid, Learned = nt.SinusoidalPositionalEncoding, partial(nt.LearnedPositionalEmbedding, S, D)
Rotary = partial(nt.RotaryEmbedding, D_HEAD)
LanguageModel = partial(composed.language_model, num_layers=L, d_ff=D_FF, max_len=S)
LLaMA = partial(LanguageModel, V, d_model=D_WIDE, num_heads=4, norm_layer="rms", activation="swiglu",
                positions="rotary", num_kv_heads=2, bias=False, tie_weights=False)
Qwen = partial(LLaMA, d_model=D, eps=0.01, d_head=D_HEAD, qkv_bias=True, rope_interleaved=False)     # 4 D_HEAD = 2 D
def parts_of_gpt():
    whole = LanguageModel(V, D, H)
    return nt.LanguageModel(whole.embedding, whole.decoder, whole.output, whole.positions, max_len=S)


def Texts(kind, **options):                     # an encoder-only model
    return kind(V, D, H, L, D_FF, max_len=S, dropout=0.0, **options)


def alibi(heads, length, keys):
    """The bias (heads, length, keys) as the published code makes it, for the last `length` of the keys."""
    def slopes_of_a_power(n):
        start = 2 ** (-2 ** -(math.log2(n) - 3))
        return [start * start ** i for i in range(n)]

    closest = 2 ** math.floor(math.log2(heads))
    slopes = slopes_of_a_power(closest) + slopes_of_a_power(2 * closest)[0::2][:heads - closest]
    places = torch.arange(keys, dtype=torch.float64)
    return torch.tensor(slopes, dtype=torch.float64)[:, None, None] * -(places[-length:, None] - places).abs()


class Placed(nt.SelfAttention):
    """SelfAttention of tokens whose positions it is given."""

    def forward(self, x, mask, positions):
        with token_positions(positions):
            return super().forward(x, mask)


def block(norm, activation, bias):
    norms = [nt.LayerNorm(D, 0.01, bias) for _ in range(2)]
    return nt.Block(nt.SelfAttention(D, H, bias=bias), nt.FeedForward(D, D_FF, activation, bias=bias), *norms, norm=norm)


Early = partial(LanguageModel, V, D, H, norm="post", activation="relu", positions="sinusoidal", scale_embedding=True,
                tie_weights=False)

CASES = [                                       # name, ours, theirs, inputs
    ("Linear", partial(nt.Linear, D, D_FF), like(nn.Linear(D, D_FF)), X),
    ("Linear, no bias", partial(nt.Linear, D, D_FF, bias=False), like(nn.Linear(D, D_FF, bias=False)), X),
    ("LoRALinear", lambda: nt.LoRALinear(nt.Linear(D, D_FF), 3, alpha=6.0),
     lambda p, x: x @ p["weight"] + p["bias"] + 2 * x @ p["A"] @ p["B"], X),
    ("LoRALinear, no bias", lambda: nt.LoRALinear(nt.Linear(D, D_FF, bias=False), 4),
     lambda p, x: x @ (p["weight"] + p["A"] @ p["B"]), X),
    ("Embedding", partial(nt.Embedding, V, D), lambda p, ids: F.embedding(ids, p["weight"]), IDS),
    ("Embedding, scaled, padding", partial(nt.Embedding, V, D, scale=True, pad_id=4), embed_padded, IDS),
    ("Unembedding", lambda: nt.Unembedding(nt.Parameter(np.ones((V, D)))), lambda p, x: F.linear(x, p["weight"]), X),
    ("Unembedding, factor", lambda: nt.Unembedding(nt.Parameter(np.ones((V, D))), 0.3),
     lambda p, x: F.linear(0.3 * x, p["weight"]), X),
    ("Unembedding, tied", tied, lambda p, ids: math.sqrt(D) * p["parts.0.weight"][ids] @ p["parts.0.weight"].T, IDS),
    ("Dropout", partial(nt.Dropout, P, 5), lambda p, x: x * kept(x.shape)[0], X),
    ("ReLU", nt.ReLU, plain(F.relu), X),
    ("GELU", nt.GELU, plain(F.gelu), 3 * X),
    ("GELU, tanh", partial(nt.GELU, "tanh"), plain(F.gelu, approximate="tanh"), 3 * X),
    ("SiLU", nt.SiLU, plain(F.silu), 3 * X),
    ("Tanh", nt.Tanh, plain(torch.tanh), X),
    ("Softmax", nt.Softmax, plain(F.softmax, dim=-1), SCORES),
    ("LogSoftmax", nt.LogSoftmax, plain(F.log_softmax, dim=-1), SCORES),
    ("LayerNorm", partial(nt.LayerNorm, D), lambda p, x: F.layer_norm(x, (D,), p["gamma"], p["beta"]), 2 + X),
    ("LayerNorm, eps, no bias", partial(nt.LayerNorm, D, 0.1, bias=False),
     lambda p, x: F.layer_norm(x, (D,), p["gamma"], eps=0.1), 2 + X),
    ("RMSNorm", partial(nt.RMSNorm, D, 0.1), lambda p, x: F.rms_norm(x, (D,), p["gamma"], 0.1), 2 + X),
    ("SinusoidalPositionalEncoding", partial(Sinusoid, D, S), lambda p, x: x + sinusoid(T, D), X),
    ("SinusoidalPositionalEncoding, odd, offset", partial(Sinusoid, 9, S),
     lambda p, x, offset: x + sinusoid(S, 9)[offset:], X[..., :9], S - T),
    ("LearnedPositionalEmbedding, offset", Learned, lambda p, x, offset: x + p["weight"][offset:], X, S - T),
    ("LearnedPositionalEmbedding, positions", Learned,
     lambda p, x, offset, positions: x + F.embedding(positions, p["weight"]), X, 0, POSITIONS),
    ("RotaryEmbedding", Rotary, lambda p, x: rotate(x, torch.arange(T)), HEADS),
    ("RotaryEmbedding, base, offset", partial(Rotary, 50.0),
     lambda p, x, offset: rotate(x, torch.arange(T) + offset, 50.0), HEADS, 100),
    ("RotaryEmbedding, half-split, positions", partial(Rotary, interleaved=False),
     lambda p, x, offset, positions: rotate(x, positions, half_split=True), HEADS, 0, POSITIONS),
    ("RotaryEmbedding, own frequencies, positions", partial(Rotary, frequencies=FREQUENCIES),
     lambda p, x, offset, positions: rotate(x, positions, frequencies=FREQUENCIES), HEADS, 0, POSITIONS),
    ("AttentionMask", nt.AttentionMask, lambda p, x, mask: x.masked_fill(~mask, -math.inf), SCORES, MASK),
    ("SlidingWindow", partial(nt.SlidingWindow, 2),
     lambda p, x: x.masked_fill(torch.ones(T, S, dtype=torch.bool).tril(S - T - 2), -math.inf), SCORES),
    ("SinkWindow", partial(nt.SinkWindow, 2, 3), lambda p, x: x.masked_fill(
        torch.ones(T, S, dtype=torch.bool).tril(S - T - 2) & (torch.arange(S) >= 3), -math.inf), SCORES),
    ("BlockSparseAttention", partial(nt.BlockSparseAttention, near_blocks, 2),
     lambda p, q, k, v: sdpa(q, k, v, near_tokens(2), enable_gqa=True), Q, KEY, VAL),
    ("LinearAttention", nt.LinearAttention, linear_attention, Q, KEY, VAL, MASK[:, :1]),
    ("RecurrentLinearAttention", nt.RecurrentLinearAttention,
     lambda p, q, k, v: linear_attention(p, q, k, v, torch.ones(T, S, dtype=torch.bool).tril(S - T)), Q, KEY, VAL),
    ("ScaledDotProductAttention", Attention, plain(sdpa), Q[:, :H], KEY, VAL),
    ("ScaledDotProductAttention, mask", Attention, plain(sdpa), Q[:, :H], KEY, VAL, MASK),
    ("ScaledDotProductAttention, causal", Attention, lambda p, q, k, v, mask: sdpa(q, k, v, is_causal=True),
     Q[:, :H], KEY[:, :, :T], VAL[:, :, :T], CAUSAL),
    *[(f"{kind.__name__}, grouped", kind, plain(sdpa, enable_gqa=True), Q, KEY, VAL, MASK[:, :1])
      for kind in (Attention, nt.GroupedAttention)],
    *[(f"RelativePositionBias, causal={causal}, {T} of {S}", partial(nt.RelativePositionBias, 4, 8, 6, causal),
       partial(relative_bias, causal=causal), T, S) for causal in (False, True)],
    ("PositionBias", lambda: nt.PositionBias(nt.RelativePositionBias(H, 8, 6)),
     lambda p, scores: scores + relative_bias(part(p, "position_bias"), T, S), SCORES),
    ("UnscaledAttention", lambda: biased(nt.UnscaledAttention(), nt.RelativePositionBias(4, 8, 6)), unscaled, Q, KEY, VAL,
     MASK[:, :1]),
    *[(f"ALiBi, {heads} heads", lambda heads=heads: biased(Attention(), nt.ALiBi(heads)),
       lambda p, q, k, v, mask: sdpa(q, k, v, torch.where(mask, alibi(q.shape[1], T, S), -torch.inf)),
       rng.standard_normal((B, heads, T, 3)), rng.standard_normal((B, heads, S, 3)), rng.standard_normal((B, heads, S, 2)),
       MASK[:, :1]) for heads in (4, 6)],
    ("UnscaledAttention, no bias", nt.UnscaledAttention, unscaled, Q, KEY, VAL, MASK[:, :1]),
    ("FlashAttention", partial(Flash, 3), plain(sdpa), Q[:, :H], KEY, VAL),
    ("FlashAttention, mask", partial(Flash, 2), plain(sdpa), Q[:, :H], KEY, VAL, MASK),
    ("FlashAttention, causal", partial(Flash, 2, causal=True), plain(sdpa, is_causal=True), Q[:, :H], KEY[:, :, :T],
     VAL[:, :, :T]),
    ("FlashAttention, causal, fewer queries", partial(Flash, 3, causal=True),
     lambda p, q, k, v: sdpa(q, k, v, torch.ones(T, S, dtype=torch.bool).tril(S - T)), Q[:, :H], KEY, VAL),
    ("FlashAttention, grouped", partial(Flash, 3), plain(sdpa, enable_gqa=True), Q, KEY, VAL, MASK[:, :1]),
    ("FlashAttention, grouped, causal", partial(Flash, 2, causal=True), plain(sdpa, is_causal=True, enable_gqa=True),
     Q, KEY[:, :, :T], VAL[:, :, :T]),
    ("MultiHeadAttention", partial(nt.MultiHeadAttention, D, H), multi_head(), X, MEMORY, VALUE, MASK),
    ("MultiHeadAttention, no bias", partial(nt.MultiHeadAttention, D, H, bias=False), multi_head(bias=False),
     X, MEMORY, VALUE, MASK),
    ("SelfAttention", partial(nt.SelfAttention, D, H), lambda p, x, mask: multi_head()(p, x, x, x, mask), X, CAUSAL),
    ("SelfAttention, no batch", partial(nt.SelfAttention, D, H),
     lambda p, x: like(nn.MultiheadAttention(D, H))(p, x, x, x), X[0]),
    ("SelfAttention, grouped, rotary", lambda: Placed(D_WIDE, 4, 2, rotary=Rotary()), rotary_grouped,
     WIDE, CAUSAL, POSITIONS),
    ("SelfAttention, grouped, half-split", lambda: Placed(D_WIDE, 4, 2, rotary=Rotary(interleaved=False)),
     partial(rotary_grouped, half_split=True), WIDE, CAUSAL, POSITIONS),
    ("SelfAttention, wide heads, biased queries",
     lambda: add_qkv_bias(Placed(D, 4, 2, bias=False, rotary=Rotary(50.0), d_head=D_HEAD)),
     partial(rotary_grouped, base=50.0), X, CAUSAL, POSITIONS),
    ("CrossAttention", partial(nt.CrossAttention, D, H), lambda p, x, memory, mask: multi_head()(
        p, x, memory, memory, mask), X, MEMORY, MASK),
    *[(f"FeedForward, {name}", partial(nt.FeedForward, D, D_FF, name, bias=bias), partial(feed_forward, f=f), X)
      for name, f, bias in (("relu", F.relu, True), ("gelu", F.gelu, True), ("gelu_tanh", nn.GELU("tanh"), True),
                            ("silu", F.silu, False))],
    ("SwiGLU", partial(nt.SwiGLU, D, D_FF), gated, X),
    *[(f"SwiGLU, bias, {name}", partial(nt.SwiGLU, D, D_FF, bias=True, activation=name), partial(gated, f=f), X)
      for name, f in (("silu", F.silu), ("gelu", F.gelu), ("gelu_tanh", nn.GELU("tanh")), ("relu", F.relu))],
    *[(f"EncoderBlock, {norm}, {activation}, bias={bias}",
       partial(block, norm, activation, bias),
       like(layer(norm, activation, bias, 0.01), src_mask=hidden), X, MASK[..., :T])
      for norm in ("pre", "post") for activation, bias in (("relu", True), ("gelu", False))],
    ("EncoderBlock, dropout", block_with_dropout, dropped_block, X, CAUSAL),
    ("DecoderBlock", partial(nt.DecoderBlock, D, H, D_FF, 0.0), like(layer("pre"), src_mask=hidden), X, CAUSAL),
    *[(f"DecoderBlock, cross-attention, {norm}",
       partial(nt.DecoderBlock, D, H, D_FF, 0.0, norm, cross_attention=True),
       with_memory(layer(norm, kind=nn.TransformerDecoderLayer)), X, MEMORY, CAUSAL, PADDING)
      for norm in ("pre", "post")],
    *[(f"Encoder, {norm}, final_norm={final}", partial(nt.Encoder, L, D, H, D_FF, 0.0, norm, final_norm=final),
       like(encoder(norm, norm == "pre" if final is None else final), src_key_padding_mask=pads), MEMORY, PADDING)
      for norm, final in (("pre", None), ("pre", False), ("post", None), ("post", True))],
    ("Decoder", partial(nt.Decoder, L, D, H, D_FF, 0.0), like(encoder("pre", True), mask=hidden), X, CAUSAL),
    *[(f"Decoder, cross-attention, {norm}", partial(nt.Decoder, L, D, H, D_FF, 0.0, norm, cross_attention=True),
       with_memory(decoder(norm)), X, MEMORY, CAUSAL, PADDING) for norm in ("pre", "post")],
    ("CrossBlock", lambda: nt.CrossBlock(nt.SelfAttention(D, H), nt.CrossAttention(D, H), nt.FeedForward(D, D_FF),
                                         *[nt.LayerNorm(D) for _ in range(3)]),
     with_memory(layer("pre", kind=nn.TransformerDecoderLayer)), X, MEMORY, CAUSAL, PADDING),
    ("Stack", lambda: nt.Stack([nt.EncoderBlock(D, H, D_FF, 0.0) for _ in range(L)], nt.LayerNorm(D)),
     like(encoder("pre", True), mask=hidden), X, CAUSAL),
    ("CrossStack", lambda: nt.CrossStack([nt.CrossAttentionBlock(D, H, D_FF, 0.0) for _ in range(L)], nt.LayerNorm(D)),
     with_memory(decoder("pre")), X, MEMORY, CAUSAL, PADDING),
    ("CrossEntropyLoss", nt.CrossEntropyLoss, plain(cross_entropy), LOGITS, LABELS),
    ("CrossEntropyLoss, smoothed, ignoring", partial(nt.CrossEntropyLoss, 0.1, ignore_id=0),
     plain(cross_entropy, ignored=0, smoothing=0.1), LOGITS, LABELS),
    ("BinaryCrossEntropyLoss", lambda: Chain(nt.BinaryCrossEntropyLoss(), more=(SOFT,)),
     lambda p, z: F.binary_cross_entropy_with_logits(z, torch.tensor(SOFT)), 3 * LOGITS),
    ("LanguageModel", *through_loss(parts_of_gpt, gpt, GPT_LABELS), IDS, REAL),
    ("CausalLanguageModel, GPT", *through_loss(partial(LanguageModel, V, D, H), gpt, GPT_LABELS), IDS, REAL),
    ("CausalLanguageModel, LLaMA", *through_loss(LLaMA, llama, GPT_LABELS), IDS, REAL),
    ("CausalLanguageModel, Qwen2", *through_loss(partial(Qwen, rope_base=50.0), partial(
        llama, biased=("query", "key", "value"), eps=0.01, half_split=True, base=50.0), GPT_LABELS), IDS, REAL),
    ("CausalLanguageModel, Qwen2, flash, geglu, own frequencies", *through_loss(
        partial(Qwen, attention="flash", activation="geglu", rope_frequencies=FREQUENCIES),
        partial(llama, biased=("query", "key", "value"), eps=0.01, f=F.gelu, half_split=True, frequencies=FREQUENCIES),
        GPT_LABELS), IDS, REAL),
    ("CausalLanguageModel, 2017", Early, language_model_2017, IDS),
    *[(f"EncoderDecoder, {norm}, {positions}, shared: {shared}", *through_loss(
        partial(nt.EncoderDecoder, src_vocab, W, D, H, L, D_FF, 0.0, S, norm=norm, positions=positions,
                tie_weights=bool(shared)),
        transformer(norm, shared, positions == "learned"), LABELS), SOURCE, TARGET)
      for norm, positions, src_vocab, shared in (
          ("pre", "sinusoidal", V, ""), ("post", "sinusoidal", V, ""), ("pre", "learned", W, ""),
          ("pre", "sinusoidal", W, "source, output"), ("post", "sinusoidal", W, "source, output"))],
    ("EncoderDecoder, T5", *through_loss(partial(
        composed.t5, W, W, d_model=D, num_heads=H, num_layers=L, d_ff=D_FF, dropout=0.0, tie_weights=True,
        activation="geglu_tanh",
        scale_embedding=False, output_factor=0.3, num_decoder_layers=3, num_buckets=8, max_distance=6,
        mask_target=False, eps=0.01, norm_layer="rms", bias=False, d_head=5), t5, LABELS), SOURCE, TARGET, SOURCE_MASK),
    ("FirstToken", nt.FirstToken, lambda p, x, real: x[:, 0], X, REAL),
    ("MaskedMean", nt.MaskedMean, lambda p, x, real: mean_of(x, real), X, REAL),
    ("TextEncoder", partial(Texts, nt.TextEncoder), text_encoder, IDS, REAL),
    *[(f"SequenceClassifier, {classes}", partial(Texts, nt.SequenceClassifier, num_classes=classes, hidden=9),
       classifier, IDS, REAL) for classes in (1, 3)],
    ("SequenceClassifier, BERT", partial(
        Texts, nt.SequenceClassifier, num_classes=3, hidden=9, activation="gelu", eps=0.01, positions="learned",
        num_segments=2, scale_embedding=False, embedding_norm=True, pool="first", head_activation="tanh"),
     bert, IDS, REAL, SEGMENTS),
    ("TokenClassifier", *through_loss(partial(Texts, nt.TokenClassifier, num_classes=V), lambda p, ids, real: linear(
        p, "output", text_encoder(p, ids, real)), GPT_LABELS), IDS, REAL),
    ("MaskedLanguageModel", *through_loss(partial(Texts, nt.MaskedLanguageModel), masked_model, GPT_LABELS), IDS, REAL,
     SEGMENTS),
    ("MaskedLanguageModel, some places", partial(Texts, nt.MaskedLanguageModel), masked_model, IDS, REAL, SEGMENTS,
     PLACES),
    ("make_model, post, tied", *through_loss(partial(nt.make_model, V, W, L, D, D_FF, H, 0.0, "post", tie_weights=True),
                                             transformer("post", "output"), LABELS), SOURCE, TARGET),
    ("transformer_2017", *through_loss(partial(nt.transformer_2017, V, L, D, D_FF, H, 0.0),
                                       transformer("post", ("source", "output")), LABELS), SOURCE, TARGET),
]


@pytest.mark.parametrize("build, theirs, inputs", [pytest.param(*case[1:3], case[3:], id=case[0]) for case in CASES])
def test_parity(build, theirs, inputs):
    compare(build(), theirs, *inputs)


def test_attention_weights():
    ours = nt.MultiHeadAttention(D, H, rng=0).astype(np.float64)
    ours(X, MEMORY, VALUE, MASK)
    p = {name: leaf(parameter.data) for name, parameter in ours.named_parameters()}
    _, weights = run(nn.MultiheadAttention(D, H, batch_first=True), p, *map(torch.tensor, (X, MEMORY, VALUE)),
                     attn_mask=hidden(torch.tensor(MASK)), average_attn_weights=False)
    close(ours.weights, weights)


def draw_parameters(rng):
    parameters = [nt.Parameter(rng.standard_normal(shape)) for shape in ((D, D_FF), (D_FF,))]
    return parameters, [leaf(parameter.data) for parameter in parameters]


def draw_gradients(rng, parameters, twins, scale):
    for parameter, twin in zip(parameters, twins):
        parameter.grad = scale * rng.standard_normal(parameter.data.shape)
        twin.grad = torch.tensor(parameter.grad)


@pytest.mark.parametrize("name, options, first_decays", [
    ("SGD", (), False), ("SGD", (0.9,), False), ("Adam", (), False), ("Adam", ((0.8, 0.98), 0.01), False),
    ("AdamW", (), False), ("AdamW", ((0.8, 0.98), 1e-9, 0.3), True)])
def test_optimizers(name, options, first_decays):
    rng = np.random.default_rng(2)
    parameters, twins = draw_parameters(rng)
    groups = [{"params": twins[:1]}, {"params": twins[1:], "weight_decay": 0.0}] if first_decays else twins
    ours = getattr(nt, name)(parameters, 0.1, *options, **{"decay": parameters[:1]} if first_decays else {})
    theirs = getattr(torch.optim, name)(groups, 0.1, *options)
    for step in range(1, 8):
        draw_gradients(rng, parameters, twins, scale=step)
        ours.lr = 0.1 / step
        for group in theirs.param_groups:
            group["lr"] = 0.1 / step
        ours.step()
        theirs.step()
        for parameter, twin in zip(parameters, twins):
            close(parameter.data, twin, f"step {step}")


@pytest.mark.parametrize("scale", [1e4, 1e-4])  # PyTorch divides by norm + 1e-6: the norm must be large, or below 1
def test_clip_grad_norm(scale):
    rng = np.random.default_rng(3)
    parameters, twins = draw_parameters(rng)
    draw_gradients(rng, parameters, twins, scale)
    close(nt.clip_grad_norm(parameters, 1.0), torch.nn.utils.clip_grad_norm_(twins, 1.0), "norm")
    for parameter, twin in zip(parameters, twins):
        close(parameter.grad, twin.grad)
