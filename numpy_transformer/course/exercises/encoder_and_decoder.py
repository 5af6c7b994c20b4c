"""Two larger questions: how encoder and decoder differ, and the whole computation from ids to logits."""

import math
from types import SimpleNamespace

import numpy as np

from ...decoding import greedy_decode
from ...inspection.recorder import record
from ...layers import CrossAttention
from ...models import CausalLanguageModel, EncoderDecoder
from .definition import Exercise, Mistake
from .shared import loaded


def encoder_and_decoder():
    encoder = np.array([[1, 1, 1, 0]] * 4)
    decoder = np.array([[1, 0, 0], [1, 1, 0], [1, 1, 1]])
    cross = np.array([[1, 1, 1, 0]] * 3)
    encoder_weights = 12
    decoder_weights = 16
    runs = 1
    language_model = 0
    return encoder, decoder, cross, encoder_weights, decoder_weights, runs, language_model


def run_both():
    source, target = np.array([[3, 4, 5, 0]]), np.array([[3, 4, 5]])
    model = EncoderDecoder(6, 6, 4, 2, 1, 16, 0.0, rng=75).astype(np.float64).eval()
    with record(model) as tape:
        model(source, target)
    seen = [(tape[name].module.weights[0].max(0) > 0).astype(int) for name in (
        "encoder.blocks.0.attention", "decoder.blocks.0.attention", "decoder.blocks.0.cross_attention")]
    weights = [sum(p.data.size for p in block.parameters() if p.data.ndim == 2) / 16
               for block in (model.encoder.blocks[0], model.decoder.blocks[0])]
    with record(model) as tape:
        greedy_decode(model, source, bos=1, eos=-1, max_len=5)
    gpt = CausalLanguageModel(5, 4, 2, 2, max_len=5)
    return (*seen, *weights, sum(call.name == "encoder" for call in tape.calls),
            sum(isinstance(module, CrossAttention) for _, module in gpt.named_modules()))


def positions(x):
    T, D = x.shape[-2:]
    angles = np.arange(T)[:, None] / 10000 ** (np.arange(0, D, 2) / D)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(T, D).astype(x.dtype)


def attention(x, memory, mask, weights):
    def split(z):
        return z.reshape(*z.shape[:2], 2, -1).swapaxes(1, 2)
    q, k, v = split(x @ weights[0]), split(memory @ weights[1]), split(memory @ weights[2])
    scores = np.where(mask[:, None], q @ k.swapaxes(2, 3) / math.sqrt(q.shape[-1]), -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    y = p / p.sum(-1, keepdims=True) @ v
    return y.swapaxes(1, 2).reshape(x.shape) @ weights[3]


def feed_forward(x, weights):
    return np.maximum(0, x @ weights[0]) @ weights[1].T


def layer_norm(x, weights):
    x_hat = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return weights[0] * x_hat + weights[1]


def encoder_decoder(source, target, source_table, target_table, encoder, decoder, output):
    def embed(ids, table):
        x = table[ids] * math.sqrt(table.shape[1])
        return x + positions(x)

    visible = (source != 0)[:, None, :]
    x = embed(source, source_table)
    for own, hidden, norms in encoder:
        x = layer_norm(x + attention(x, x, visible, own), norms[0])
        x = layer_norm(x + feed_forward(x, hidden), norms[1])
    causal = np.tri(target.shape[1], dtype=bool) & (target != 0)[:, None, :]
    y = embed(target, target_table)
    for own, cross, hidden, norms in decoder:
        y = layer_norm(y + attention(y, y, causal, own), norms[0])
        y = layer_norm(y + attention(y, x, visible, cross), norms[1])
        y = layer_norm(y + feed_forward(y, hidden), norms[2])
    return y @ output


def draw_model(rng, n, blocks=2):
    def weights(*shape):
        return rng.standard_normal(shape) / math.sqrt(shape[-2])

    def norms(count):
        return np.stack([rng.uniform(0.5, 2, (count, n.D)), 0.5 * rng.standard_normal((count, n.D))], axis=1)

    source, target = (rng.integers(1, n.V, (n.B, length)) * (rng.random((n.B, length)) > 0.3) for length in (n.S, n.T))
    source[:, 0], target[:, 0] = rng.integers(1, n.V, (2, n.B))
    source[0, -1] = target[1, 1] = 0
    source[1, -1] = 1
    source[2:] = rng.integers(1, n.V, source[2:].shape)     # only the first two sequences have padding
    target[2:] = rng.integers(1, n.V, target[2:].shape)
    heads, hidden = (4, n.D, n.D), (2, n.D, n.F)
    return (source, target, rng.standard_normal((n.V, n.D)), rng.standard_normal((n.V, n.D)),
            [(weights(*heads), weights(*hidden), norms(2)) for _ in range(blocks)],
            [(weights(*heads), weights(*heads), weights(*hidden), norms(3)) for _ in range(blocks)], weights(n.D, n.V))


def one_block(rng):
    return [("block", draw_model(rng, SimpleNamespace(B=2, T=4, S=4, D=4, F=6, V=5), 1))]


def by_model(source, target, source_table, target_table, encoder, decoder, output):
    D, F = encoder[0][1].shape[1:]
    model = EncoderDecoder(len(source_table), len(target_table), D, 2, len(encoder), F, dropout=0.0, norm="post")
    state = {name: np.zeros_like(array) for name, array in model.state_dict().items()}      # all biases are 0
    state |= {"source_embedding.weight": source_table, "target_embedding.weight": target_table, "output.weight": output}
    for stack, blocks in (("encoder", encoder), ("decoder", decoder)):
        for i, (*attentions, hidden, norms) in enumerate(blocks):
            for name, weights in zip(("attention", "cross_attention"), attentions):
                state |= {f"{stack}.blocks.{i}.{name}.{part}.weight": weight
                          for part, weight in zip(("query", "key", "value", "output"), weights)}
            for name, weights in (("up", hidden[0]), ("down", hidden[1].T)):
                state[f"{stack}.blocks.{i}.feed_forward.{name}.weight"] = weights
            for j, (gamma, beta) in enumerate(norms, 1):
                state |= {f"{stack}.blocks.{i}.norm{j}.gamma": gamma, f"{stack}.blocks.{i}.norm{j}.beta": beta}
    return loaded(model, state).eval()(source, target)


EXERCISES = [
    Exercise(
        "13.5", minutes=10, lines=8, kind="question",
        solution=encoder_and_decoder, reference=run_both,
        outputs=tuple(f"answer {i}" for i in range(1, 8)),
        mistakes=(
            Mistake("QST-13.5a", {"encoder = np.array([[1, 1, 1, 0]] * 4)": "encoder = np.tri(4) * [1, 1, 1, 0]"}),
            Mistake("QST-13.5b", {"encoder = np.array([[1, 1, 1, 0]] * 4)": "encoder = np.ones((4, 4))"}),
            Mistake("QST-13.5c", {
                "encoder = np.array([[1, 1, 1, 0]] * 4)": "encoder = np.array([[1, 1, 1, 0]] * 4).T"}),
            Mistake("QST-13.5n", {
                "encoder = np.array([[1, 1, 1, 0]] * 4)": "encoder = np.array([[1, 1, 1, 0]] * 3 + [[0] * 4])"}),
            Mistake("QST-13.5d", {"[[1, 0, 0], [1, 1, 0], [1, 1, 1]]": "[[1, 1, 1], [0, 1, 1], [0, 0, 1]]"}),
            Mistake("QST-13.5e", {"[[1, 0, 0], [1, 1, 0], [1, 1, 1]]": "[[1, 1, 1], [1, 1, 1], [1, 1, 1]]"}),
            Mistake("QST-13.5f", {"[[1, 0, 0], [1, 1, 0], [1, 1, 1]]": "[[0, 0, 0], [1, 0, 0], [1, 1, 0]]"}),
            Mistake("QST-13.5g", {"cross = np.array([[1, 1, 1, 0]] * 3)": "cross = np.tri(3, 4)"}),
            Mistake("QST-13.5h", {"cross = np.array([[1, 1, 1, 0]] * 3)": "cross = np.ones((3, 4))"}),
            Mistake("QST-13.5i", {"encoder_weights = 12": "encoder_weights = 8"}),
            Mistake("QST-13.5j", {
                "encoder_weights = 12": "encoder_weights = 11",
                "decoder_weights = 16": "decoder_weights = 14"}),
            Mistake("QST-13.5k", {"decoder_weights = 16": "decoder_weights = 12"}),
            Mistake("QST-13.5l", {"runs = 1": "runs = 5"}),
            Mistake("QST-13.5m", {"language_model = 0": "language_model = 12"}),
            Mistake("QST-13.5p", {"cross = np.array([[1, 1, 1, 0]] * 3)": "cross = np.array([[1, 1, 1, 0]] * 3).T"}),
            Mistake("QST-13.5q", {"encoder_weights = 12": "encoder_weights = 9"}),
            Mistake("QST-13.5r", {"encoder_weights = 12": "encoder_weights = 4"}),
            Mistake("QST-13.5s", {"encoder_weights = 12": "encoder_weights = 6"}),
            Mistake("QST-13.5t", {"decoder_weights = 16": "decoder_weights = 24"}),
            Mistake("QST-13.5u", {"decoder_weights = 16": "decoder_weights = 15"}),
            Mistake("QST-13.5v", {"runs = 1": "runs = 6"}),
            Mistake("QST-13.5w", {"language_model = 0": "language_model = 1"}),
        )),
    Exercise(
        "13.6", minutes=45, lines=15, size_letters="TSDFV", kind="question",
        solution=encoder_decoder, reference=by_model, inputs=draw_model, edges=one_block, outputs=("logits",),
        imported=(positions, attention, feed_forward, layer_norm),
        mistakes=(
            Mistake("WIR-2", {" * math.sqrt(table.shape[1])": ""}),
            Mistake("WIR-1", {"x + positions(x)": "x"}),
            Mistake("WIR-11", {
                "x = layer_norm(x + attention(x, x, visible, own), norms[0])":
                    "x = x + attention(layer_norm(x, norms[0]), layer_norm(x, norms[0]), visible, own)",
                "x = layer_norm(x + feed_forward(x, hidden), norms[1])":
                    "x = x + feed_forward(layer_norm(x, norms[1]), hidden)"}),
            Mistake("WIR-12a", {
                "x = layer_norm(x + attention(x, x, visible, own)": "x = layer_norm(attention(x, x, visible, own)"}),
            Mistake("WIR-12b", {"x = layer_norm(x + feed_forward": "x = layer_norm(feed_forward"}),
            Mistake("WIR-12c", {"y = layer_norm(y + attention(y, y": "y = layer_norm(attention(y, y"}),
            Mistake("WIR-12d", {"y = layer_norm(y + feed_forward": "y = layer_norm(feed_forward"}),
            Mistake("WIR-13", {"embed(target, target_table)": "embed(target, source_table)"}),
            Mistake("WIR-14", {"return y @ output": "return y @ target_table.T"}),
            Mistake("MSK-1", {"np.tri(target.shape[1], dtype=bool) & ": ""}),
            Mistake("MSK-6", {"np.tri(target.shape[1], dtype=bool)": "np.tri(target.shape[1], k=1, dtype=bool)"}),
            Mistake("WIR-3", {" & (target != 0)[:, None, :]": "[None]"}),
            Mistake("WIR-4", {"(source != 0)[:, None, :]": "np.ones_like(source, bool)[:, None, :]"}),
            Mistake("MSK-11", {
                "(source != 0)[:, None, :]": "(source != 0)[:, :, None]",
                "(target != 0)[:, None, :]": "(target != 0)[:, :, None]"}),
            Mistake("WIR-5", {"(x, x, visible,": "(x, x, visible & np.tri(source.shape[1], dtype=bool),"}),
            Mistake("XAT-1", {"attention(y, x, visible, cross)": "attention(y, y, causal, cross)"}),
            Mistake("XAT-2", {"attention(y, x, visible, cross)": "attention(x, y, causal, cross)"}),
            Mistake("XAT-4", {"attention(y, x, visible, cross)": "attention(y, x, causal & visible, cross)"}),
            Mistake("WIR-6", {"attention(y, x, visible, cross)": "attention(y, x, visible | True, cross)"}),
            Mistake("WIR-7", {
                "attention(y, x, visible, cross)": "attention(y, embed(source, source_table), visible, cross)"}),
            Mistake("WIR-8", {
                "    for own, hidden": "    memories = []\n    for own, hidden",
                "norms[1])\n    causal": "norms[1])\n        memories.append(x)\n    causal",
                "for own, cross, hidden, norms in decoder":
                    "for x, (own, cross, hidden, norms) in zip(memories, decoder)"}),
            Mistake("WIR-9", {
                "x = table[ids] * math.sqrt(table.shape[1])\n        return x + positions(x)":
                    "x = table[ids]\n        return (x + positions(x)) * math.sqrt(table.shape[1])"}),
            Mistake("WIR-10", {" * math.sqrt(table.shape[1])": " * math.sqrt(len(table))"}),
            Mistake("RES-1", {"y + attention(y, x, visible, cross)": "attention(y, x, visible, cross)"}),
        ),
        alternatives={"tril": {
            "np.tri(target.shape[1], dtype=bool)": "np.tril(np.ones((target.shape[1],) * 2, bool))"}}),
]
