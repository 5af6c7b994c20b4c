"""The last two questions: how encoder and decoder differ, and the whole flow from source and target to logits."""

import math
from types import SimpleNamespace

import numpy as np

from ...inspection.recorder import record
from ...decoding import greedy_decode
from ...layers import CrossAttention
from ...models import CausalLanguageModel, EncoderDecoder
from ..exercise import Exercise, Mistake
from .given import loaded


def encoder_and_decoder():
    """What is the difference of encoder and decoder?  Say it without running anything.

    The source has 4 tokens, the last one is padding; the target has 3, none is padding. Return these seven in a tuple,
    the first three as arrays of 0 and 1, a row for each query, a column for each key, 1 = may attend. As a query, a
    token that is padding has a row like any other:
    1. (4, 4): the self-attention of the encoder
    2. (3, 3): the self-attention of the decoder
    3. (3, 4): the cross-attention
    4. how many numbers the matrices of an encoder block hold, in units of D² (D = d_model, d_ff = 4 D; no biases)
    5. the same for a decoder block with cross-attention
    6. how often the encoder runs while the decoder writes 5 tokens, one after the other
    7. how many cross-attention layers a language model such as GPT-2 has
    """
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
    """The sinusoid for x (..., T, D), D even: (T, D)."""
    T, D = x.shape[-2:]
    angles = np.arange(T)[:, None] / 10000 ** (np.arange(0, D, 2) / D)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(T, D).astype(x.dtype)


def attention(x, memory, mask, weights):
    """Two heads: x (B, T, D) asks, memory (B, S, D) answers, mask (B, T or 1, S), True = may attend.  (B, T, D)"""
    def split(z):
        return z.reshape(*z.shape[:2], 2, -1).swapaxes(1, 2)
    q, k, v = split(x @ weights[0]), split(memory @ weights[1]), split(memory @ weights[2])
    scores = np.where(mask[:, None], q @ k.swapaxes(2, 3) / math.sqrt(q.shape[-1]), -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    y = p / p.sum(-1, keepdims=True) @ v
    return y.swapaxes(1, 2).reshape(x.shape) @ weights[3]


def feed_forward(x, weights):
    """max(0, x W1) W2ᵀ for x (..., D), weights (2, D, F)."""
    return np.maximum(0, x @ weights[0]) @ weights[1].T


def layer_norm(x, weights):
    """gamma x_hat + beta for x (..., D), weights (2, D)."""
    x_hat = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return weights[0] * x_hat + weights[1]


def encoder_decoder(source, target, source_table, target_table, encoder, decoder, output):
    """Can you implement the whole flow?  The encoder-decoder of the paper, post-norm, from the parts above.

    source: (B, S), target: (B, T): ids, 0 = padding, which may stand anywhere but at the first place. Padding is
    hidden as a key in every attention.  source_table, target_table: (V, D), embeddings: multiplied by sqrt(D), then
    positions are added.
    encoder: for each block a list [weights of attention (4, D, D), of feed_forward (2, D, F), of two norms (2, 2, D)].
    decoder: for each block a list [weights of self-attention (4, D, D), of cross-attention (4, D, D), of feed_forward
    (2, D, F), of three norms (3, 2, D)].  output: (D, V).  Return logits: (B, T, V).
    Each norm stands behind its sublayer, norm(x + f(x)); there is no final norm. All decoder blocks attend to the
    output of the encoder's last block. A target token sees itself and those before it.
    """
    def embed(ids, table):
        x = table[ids] * math.sqrt(table.shape[1])
        return x + positions(x)

    x, visible = embed(source, source_table), (source != 0)[:, None, :]
    for own, hidden, norms in encoder:
        x = layer_norm(x + attention(x, x, visible, own), norms[0])
        x = layer_norm(x + feed_forward(x, hidden), norms[1])
    y, causal = embed(target, target_table), np.tri(target.shape[1], dtype=bool) & (target != 0)[:, None, :]
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
    source[0, -1] = target[1, 1] = 0            # somebody is padded, whatever was drawn, and not all of them alike
    source[1, -1] = 1
    heads, hidden = (4, n.D, n.D), (2, n.D, n.F)
    return (source, target, rng.standard_normal((n.V, n.D)), rng.standard_normal((n.V, n.D)),
            [(weights(*heads), weights(*hidden), norms(2)) for _ in range(blocks)],
            [(weights(*heads), weights(*heads), weights(*hidden), norms(3)) for _ in range(blocks)], weights(n.D, n.V))


def one_block(rng):
    return [("one block each", draw_model(rng, SimpleNamespace(B=2, T=4, S=4, D=4, F=6, V=5), 1))]


def by_model(source, target, source_table, target_table, encoder, decoder, output):
    D, F = encoder[0][1].shape[1:]
    model = EncoderDecoder(len(source_table), len(target_table), D, 2, len(encoder), F, dropout=0.0, norm="post")
    state = {name: np.zeros_like(array) for name, array in model.state_dict().items()}      # the parts have no bias
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


CROSS = "attention(y, x, visible, cross)"

EXERCISES = [
    Exercise(
        "13.5", "Question: encoder and decoder", minutes=10, lines=8, kind="question",
        solution=encoder_and_decoder, reference=run_both,
        outputs=tuple(f"answer {i}" for i in range(1, 8)),
        hints=("Who may see whom in a sentence that is known as a whole, and who while a sentence is being written?",
               "Padding is hidden as a key, from every query; the query itself still has a row. The source is known "
               "as a whole to every target token.",
               "An attention has four D x D matrices, a feed-forward layer two of D x 4D. The memory does not change "
               "while the decoder writes."),
        mistakes=(
            Mistake("QST-13.5a", {"encoder = np.array([[1, 1, 1, 0]] * 4)": "encoder = np.tri(4) * [1, 1, 1, 0]"},
                    "Answer 1: the encoder reads both ways; no causal mask belongs there."),
            Mistake("QST-13.5b", {"encoder = np.array([[1, 1, 1, 0]] * 4)": "encoder = np.ones((4, 4))"},
                    "Answer 1: the padding is visible. Its column must be 0."),
            Mistake("QST-13.5c", {"encoder = np.array([[1, 1, 1, 0]] * 4)": "encoder = np.array([[1, 1, 1, 0]] * 4).T"},
                    "Answer 1: transposed. The padding is hidden as a key, a column; as a query it has a row that "
                    "nobody uses."),
            Mistake("QST-13.5n", {"encoder = np.array([[1, 1, 1, 0]] * 4)":
                                "encoder = np.array([[1, 1, 1, 0]] * 3 + [[0] * 4])"},
                    "Answer 1: the padding is hidden as a key, a column. As a query it keeps its row, which nobody "
                    "uses: a softmax over no key at all would be 0 / 0."),
            Mistake("QST-13.5d", {"[[1, 0, 0], [1, 1, 0], [1, 1, 1]]": "[[1, 1, 1], [0, 1, 1], [0, 0, 1]]"},
                    "Answer 2: transposed. Row t holds what token t sees: itself and the earlier ones."),
            Mistake("QST-13.5e", {"[[1, 0, 0], [1, 1, 0], [1, 1, 1]]": "[[1, 1, 1], [1, 1, 1], [1, 1, 1]]"},
                    "Answer 2: then a token would see those that it is to predict."),
            Mistake("QST-13.5f", {"[[1, 0, 0], [1, 1, 0], [1, 1, 1]]": "[[0, 0, 0], [1, 0, 0], [1, 1, 0]]"},
                    "Answer 2: a token may attend to itself; it is the next one that it has to predict."),
            Mistake("QST-13.5g", {"cross = np.array([[1, 1, 1, 0]] * 3)": "cross = np.tri(3, 4)"},
                    "Answer 3: a causal mask. The first target token may need the last word of the source."),
            Mistake("QST-13.5h", {"cross = np.array([[1, 1, 1, 0]] * 3)": "cross = np.ones((3, 4))"},
                    "Answer 3: the padding of the source is visible to the decoder."),
            Mistake("QST-13.5i", {"encoder_weights = 12": "encoder_weights = 8"},
                    "Answer 4: only the feed-forward layer. Attention has matrices for queries, keys, values and the "
                    "output."),
            Mistake("QST-13.5j", {"encoder_weights = 12": "encoder_weights = 11",
                                "decoder_weights = 16": "decoder_weights = 14"},
                    "Answers 4 and 5: attention's fourth matrix is forgotten, the one behind the heads."),
            Mistake("QST-13.5k", {"decoder_weights = 16": "decoder_weights = 12"},
                    "Answer 5: that is an encoder block. The cross-attention has matrices of its own."),
            Mistake("QST-13.5l", {"runs = 1": "runs = 5"},
                    "Answer 6: the source does not change while the target is written, so its memory is computed "
                    "once."),
            Mistake("QST-13.5m", {"language_model = 0": "language_model = 12"},
                    "Answer 7: it has no encoder. What would it attend to?"),
        )),
    Exercise(
        "13.6", "Question: the whole flow", minutes=45, lines=13, kind="question",
        solution=encoder_decoder, reference=by_model, inputs=draw_model, edges=one_block, outputs=("logits",),
        given=(positions, attention, feed_forward, layer_norm),
        hints=("Which arrays flow through the encoder, and which one comes out for the decoder? Which masks are "
               "needed, and of which shape?",
               "Source: ids, embedding, positions, then for each block norm(x + attention), norm(x + feed_forward). "
               "Target: the same with a causal mask, and between both the attention to the encoder's last output.",
               "Masks: (source != 0)[:, None, :] in the encoder and in the cross-attention; np.tri(T, dtype=bool) & "
               "(target != 0)[:, None, :] in the decoder's self-attention."),
        mistakes=(
            Mistake("WIR-2", {" * math.sqrt(table.shape[1])": ""}, "The embeddings are not multiplied by sqrt(D)."),
            Mistake("WIR-1", {"x + positions(x)": "x"},
                    "The positions are missing: the encoder cannot tell in which order the words of the source "
                    "stand."),
            Mistake("MSK-1", {"np.tri(target.shape[1], dtype=bool) & ": ""},
                    "The decoder sees the future: its self-attention needs the causal mask besides the padding."),
            Mistake("MSK-6", {"np.tri(target.shape[1], dtype=bool)": "np.tri(target.shape[1], k=1, dtype=bool)"},
                    "The causal mask is off by one: each token sees the next one, which it is to predict."),
            Mistake("WIR-3", {" & (target != 0)[:, None, :]": "[None]"},
                    "The padding of the target is visible in the decoder's self-attention."),
            Mistake("WIR-4", {"(source != 0)[:, None, :]": "np.ones_like(source, bool)[:, None, :]"},
                    "The padding of the source is visible, in the encoder and in the cross-attention."),
            Mistake("MSK-11", {"(source != 0)[:, None, :]": "(source != 0)[:, :, None]",
                               "(target != 0)[:, None, :]": "(target != 0)[:, :, None]"},
                    "The masks hide padding as a query, in rows. It has to be hidden as a key, in columns, from every "
                    "query."),
            Mistake("WIR-5", {"(x, x, visible,": "(x, x, visible & np.tri(source.shape[1], dtype=bool),"},
                    "A causal mask in the encoder: it may read the source both ways."),
            Mistake("XAT-1", {CROSS: "attention(y, y, causal, cross)"},
                    "Keys and values of the cross-attention come from the decoder: the source has no effect at all."),
            Mistake("XAT-2", {CROSS: "attention(x, y, causal, cross)"},
                    "The roles are exchanged in the cross-attention: the target asks, and the source answers."),
            Mistake("XAT-4", {CROSS: "attention(y, x, causal & visible, cross)"},
                    "A causal mask in the cross-attention: the whole source may be seen, except for its padding."),
            Mistake("WIR-6", {CROSS: "attention(y, x, visible | True, cross)"},
                    "The padding of the source is visible in the cross-attention: the encoder's mask belongs there, "
                    "too."),
            Mistake("WIR-7", {CROSS: "attention(y, embed(source, source_table), visible, cross)"},
                    "The decoder attends to the embedded source: the encoder's work is thrown away."),
            Mistake("WIR-8", {"    for own, hidden": "    memories = []\n    for own, hidden",
                              "norms[1])\n    y, causal": "norms[1])\n        memories.append(x)\n    y, causal",
                              "for own, cross, hidden, norms in decoder":
                              "for x, (own, cross, hidden, norms) in zip(memories, decoder)"},
                    "Each decoder block attends to the encoder block of its own number: all of them attend to the "
                    "output of the last one."),
            Mistake("WIR-9", {"x = table[ids] * math.sqrt(table.shape[1])\n        return x + positions(x)":
                              "x = table[ids]\n        return (x + positions(x)) * math.sqrt(table.shape[1])"},
                    "The positions are multiplied by sqrt(D) too: they are added after that."),
            Mistake("RES-1", {"y + " + CROSS: CROSS}, "The residual around the cross-attention is missing."),
        ),
        alternatives={"tril": {
            "np.tri(target.shape[1], dtype=bool)": "np.tril(np.ones((target.shape[1],) * 2, bool))"}}),
]
