"""Two larger questions: how encoder and decoder differ, and the whole computation from ids to logits."""

import math
from types import SimpleNamespace

import numpy as np

from ...decoding import greedy_decode
from ...inspection.recorder import record
from ...layers import CrossAttention
from ...models import CausalLanguageModel, EncoderDecoder
from .definition import Exercise, Mistake
from .given import loaded


def encoder_and_decoder():
    """What is the difference between encoder and decoder?  Answer without running anything.

    The source has 4 tokens, of which the last is padding; the target has 3 real tokens. Return these seven answers in a
    tuple. The first three are arrays of 0 and 1 with one row per query and one column per key, 1 = may attend. As a
    query, a padding token has a row like any other token.
    1. (4, 4): the self-attention of the encoder
    2. (3, 3): the self-attention of the decoder
    3. (3, 4): the cross-attention
    4. the number of entries in all weight matrices of an encoder block, in units of D² (D = d_model, d_ff = 4 D)
    5. the same for a decoder block with cross-attention
    6. how many times the encoder runs while the decoder generates 5 tokens, one after the other
    7. the number of cross-attention layers in a language model such as GPT-2
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
    """The sinusoidal positional encoding for x (..., T, D), D even.  Return (T, D)."""
    T, D = x.shape[-2:]
    angles = np.arange(T)[:, None] / 10000 ** (np.arange(0, D, 2) / D)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(T, D).astype(x.dtype)


def attention(x, memory, mask, weights):
    """Attention with two heads.

    x: (B, T, D), for the queries.  memory: (B, S, D), for the keys and values.
    mask: (B, T or 1, S) boolean, True = may attend.
    weights: (4, D, D), for the queries, keys, values and the output.  Return (B, T, D).
    """
    def split(z):
        return z.reshape(*z.shape[:2], 2, -1).swapaxes(1, 2)
    q, k, v = split(x @ weights[0]), split(memory @ weights[1]), split(memory @ weights[2])
    scores = np.where(mask[:, None], q @ k.swapaxes(2, 3) / math.sqrt(q.shape[-1]), -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    y = p / p.sum(-1, keepdims=True) @ v
    return y.swapaxes(1, 2).reshape(x.shape) @ weights[3]


def feed_forward(x, weights):
    """Return max(0, x W1) W2ᵀ for x (..., D) and weights (2, D, F)."""
    return np.maximum(0, x @ weights[0]) @ weights[1].T


def layer_norm(x, weights):
    """Return gamma x_hat + beta for x (..., D) and weights (2, D), which are gamma and beta."""
    x_hat = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return weights[0] * x_hat + weights[1]


def encoder_decoder(source, target, source_table, target_table, encoder, decoder, output):
    """Can you implement the whole model?  Compute the logits of the encoder-decoder of the paper (post-norm).

    Use the functions above. Each norm follows its sublayer, norm(x + f(x)), and there is no final norm. An embedding is
    multiplied by sqrt(D) before the positional encoding is added. Padding tokens are hidden as keys in every attention.
    A target token attends to itself and to earlier tokens. All decoder blocks attend to the output of the encoder's
    last block.

    source: (B, S), target: (B, T): ids, 0 = padding, which may stand anywhere except at the first position.
    source_table, target_table: (V, D), the embeddings.
    encoder: one list per block, [attention (4, D, D), feed_forward (2, D, F), two norms (2, 2, D)].
    decoder: one list per block, [self-attention (4, D, D), cross-attention (4, D, D), feed_forward (2, D, F), three
        norms (3, 2, D)].
    output: (D, V).
    Return logits: (B, T, V).
    """
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
    return [("one block each", draw_model(rng, SimpleNamespace(B=2, T=4, S=4, D=4, F=6, V=5), 1))]


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


CROSS = "attention(y, x, visible, cross)"

EXERCISES = [
    Exercise(
        "13.5", "Question: encoder and decoder", minutes=10, lines=8, kind="question",
        solution=encoder_and_decoder, reference=run_both,
        outputs=tuple(f"answer {i}" for i in range(1, 8)),
        hints=("Which tokens may attend to each other in a text that is known as a whole? Which may while the text is "
               "being generated?",
               "A padding token is hidden as a key from every query, but keeps its own row as a query. The whole "
               "source is known to every target token.",
               "An attention layer has four D x D matrices, and a feed-forward layer has two of D x 4D. The memory "
               "does not change while the decoder generates tokens."),
        mistakes=(
            Mistake("QST-13.5a", {"encoder = np.array([[1, 1, 1, 0]] * 4)": "encoder = np.tri(4) * [1, 1, 1, 0]"},
                    "Answer 1: the encoder reads in both directions, so it has no causal mask."),
            Mistake("QST-13.5b", {"encoder = np.array([[1, 1, 1, 0]] * 4)": "encoder = np.ones((4, 4))"},
                    "Answer 1: your encoder attends to the padding token. Its column must be 0."),
            Mistake("QST-13.5c", {"encoder = np.array([[1, 1, 1, 0]] * 4)": "encoder = np.array([[1, 1, 1, 0]] * 4).T"},
                    "Answer 1: your array is transposed. The padding token is hidden as a key, which is a column; as a "
                    "query it has a row, although its result is not used."),
            Mistake("QST-13.5n", {"encoder = np.array([[1, 1, 1, 0]] * 4)":
                                "encoder = np.array([[1, 1, 1, 0]] * 3 + [[0] * 4])"},
                    "Answer 1: the padding token is hidden as a key, which is a column. As a query it keeps its row, "
                    "although its result is not used. A softmax over no keys at all would be 0 / 0."),
            Mistake("QST-13.5d", {"[[1, 0, 0], [1, 1, 0], [1, 1, 1]]": "[[1, 1, 1], [0, 1, 1], [0, 0, 1]]"},
                    "Answer 2: your array is transposed. Row t shows which tokens token t attends to: itself and "
                    "earlier ones."),
            Mistake("QST-13.5e", {"[[1, 0, 0], [1, 1, 0], [1, 1, 1]]": "[[1, 1, 1], [1, 1, 1], [1, 1, 1]]"},
                    "Answer 2: with this mask, a token could attend to the tokens that it has to predict."),
            Mistake("QST-13.5f", {"[[1, 0, 0], [1, 1, 0], [1, 1, 1]]": "[[0, 0, 0], [1, 0, 0], [1, 1, 0]]"},
                    "Answer 2: a token may attend to itself. What it has to predict is the next token."),
            Mistake("QST-13.5g", {"cross = np.array([[1, 1, 1, 0]] * 3)": "cross = np.tri(3, 4)"},
                    "Answer 3: you use a causal mask. The first target token may need the last word of the source."),
            Mistake("QST-13.5h", {"cross = np.array([[1, 1, 1, 0]] * 3)": "cross = np.ones((3, 4))"},
                    "Answer 3: your decoder attends to the padding token of the source."),
            Mistake("QST-13.5i", {"encoder_weights = 12": "encoder_weights = 8"},
                    "Answer 4: you count the feed-forward layer only. Attention has matrices for queries, keys, values "
                    "and the output."),
            Mistake("QST-13.5j", {"encoder_weights = 12": "encoder_weights = 11",
                                "decoder_weights = 16": "decoder_weights = 14"},
                    "Answers 4 and 5: you count three matrices per attention. The fourth is the output projection."),
            Mistake("QST-13.5k", {"decoder_weights = 16": "decoder_weights = 12"},
                    "Answer 5: this is the size of an encoder block. The cross-attention has its own matrices."),
            Mistake("QST-13.5l", {"runs = 1": "runs = 5"},
                    "Answer 6: the source does not change while the target is generated, so the encoder runs once and "
                    "its output is used again."),
            Mistake("QST-13.5m", {"language_model = 0": "language_model = 12"},
                    "Answer 7: such a model has no encoder. What would its cross-attention attend to?"),
            Mistake("QST-13.5p", {"cross = np.array([[1, 1, 1, 0]] * 3)": "cross = np.array([[1, 1, 1, 0]] * 3).T"},
                    "Answer 3: your array is transposed. The queries are those of the target, the keys those of the "
                    "source."),
            Mistake("QST-13.5q", {"encoder_weights = 12": "encoder_weights = 9"},
                    "Answer 4: attention has four matrices, for queries, keys, values and the output. You count one."),
            Mistake("QST-13.5r", {"encoder_weights = 12": "encoder_weights = 4"},
                    "Answer 4: you count the attention only. The feed-forward layer has two matrices of D x 4D."),
            Mistake("QST-13.5s", {"encoder_weights = 12": "encoder_weights = 6"},
                    "Answer 4: you count matrices. Those of the feed-forward layer have 4 D² entries each."),
            Mistake("QST-13.5t", {"decoder_weights = 16": "decoder_weights = 24"},
                    "Answer 5: this is twice an encoder block. A decoder block has one more attention layer, and still "
                    "one feed-forward layer."),
            Mistake("QST-13.5u", {"decoder_weights = 16": "decoder_weights = 15"},
                    "Answer 5: you count three matrices for the cross-attention. It has its own output projection "
                    "too."),
            Mistake("QST-13.5v", {"runs = 1": "runs = 6"},
                    "Answer 6: the source does not change while the target is generated, so the encoder runs once, "
                    "before the first token."),
            Mistake("QST-13.5w", {"language_model = 0": "language_model = 1"},
                    "Answer 7: such a model has no encoder, so no layer of it could attend to one."),
        )),
    Exercise(
        "13.6", "Question: the whole flow", minutes=45, lines=15, kind="question",
        solution=encoder_decoder, reference=by_model, inputs=draw_model, edges=one_block, outputs=("logits",),
        given=(positions, attention, feed_forward, layer_norm),
        hints=("Which arrays pass through the encoder, and which of them does the decoder use? Which masks do you "
               "need, and of which shapes?",
               "For the source: embedding, positional encoding, then norm(x + attention) and norm(x + feed_forward) in "
               "each block. For the target: the same with a causal mask, and in each block, between the two, attention "
               "to the output of the encoder's last block.",
               "Masks: (source != 0)[:, None, :] in the encoder and in the cross-attention; np.tri(T, dtype=bool) & "
               "(target != 0)[:, None, :] in the decoder's self-attention."),
        mistakes=(
            Mistake("WIR-2", {" * math.sqrt(table.shape[1])": ""}, "You do not multiply the embeddings by sqrt(D)."),
            Mistake("WIR-1", {"x + positions(x)": "x"},
                    "You do not add the positional encoding, so the encoder does not know the order of the source's "
                    "words."),
            Mistake("WIR-11", {"x = layer_norm(x + attention(x, x, visible, own), norms[0])":
                               "x = x + attention(layer_norm(x, norms[0]), layer_norm(x, norms[0]), visible, own)",
                               "x = layer_norm(x + feed_forward(x, hidden), norms[1])":
                               "x = x + feed_forward(layer_norm(x, norms[1]), hidden)"},
                    "Your encoder is pre-norm, x + f(norm(x)). Here each norm follows its sublayer, norm(x + f(x))."),
            Mistake("WIR-12a", {"x = layer_norm(x + attention(x, x, visible, own)":
                                "x = layer_norm(attention(x, x, visible, own)"},
                    "The residual connection around the attention of the encoder is missing."),
            Mistake("WIR-12b", {"x = layer_norm(x + feed_forward": "x = layer_norm(feed_forward"},
                    "The residual connection around the feed-forward layer of the encoder is missing."),
            Mistake("WIR-12c", {"y = layer_norm(y + attention(y, y": "y = layer_norm(attention(y, y"},
                    "The residual connection around the self-attention of the decoder is missing."),
            Mistake("WIR-12d", {"y = layer_norm(y + feed_forward": "y = layer_norm(feed_forward"},
                    "The residual connection around the feed-forward layer of the decoder is missing."),
            Mistake("WIR-13", {"embed(target, target_table)": "embed(target, source_table)"},
                    "You embed the target with the source's table. Its table is target_table."),
            Mistake("WIR-14", {"return y @ output": "return y @ target_table.T"},
                    "You multiply by the embedding table at the end. The weights of the output layer are other ones, output."),
            Mistake("MSK-1", {"np.tri(target.shape[1], dtype=bool) & ": ""},
                    "Your decoder attends to later tokens. Its self-attention needs the causal mask in addition to the "
                    "padding mask."),
            Mistake("MSK-6", {"np.tri(target.shape[1], dtype=bool)": "np.tri(target.shape[1], k=1, dtype=bool)"},
                    "Your causal mask is off by one: each token attends to the next one, which it has to predict."),
            Mistake("WIR-3", {" & (target != 0)[:, None, :]": "[None]"},
                    "Your decoder's self-attention does not hide the padding tokens of the target."),
            Mistake("WIR-4", {"(source != 0)[:, None, :]": "np.ones_like(source, bool)[:, None, :]"},
                    "You do not hide the padding tokens of the source, neither in the encoder nor in the "
                    "cross-attention."),
            Mistake("MSK-11", {"(source != 0)[:, None, :]": "(source != 0)[:, :, None]",
                               "(target != 0)[:, None, :]": "(target != 0)[:, :, None]"},
                    "Your masks hide padding tokens as queries, in rows. They must be hidden as keys, in columns, from "
                    "every query."),
            Mistake("WIR-5", {"(x, x, visible,": "(x, x, visible & np.tri(source.shape[1], dtype=bool),"},
                    "Your encoder has a causal mask. An encoder reads the source in both directions."),
            Mistake("XAT-1", {CROSS: "attention(y, y, causal, cross)"},
                    "The keys and values of your cross-attention come from the decoder, so the source has no effect."),
            Mistake("XAT-2", {CROSS: "attention(x, y, causal, cross)"},
                    "The roles in your cross-attention are swapped: the queries come from the target, the keys and "
                    "values from the source."),
            Mistake("XAT-4", {CROSS: "attention(y, x, causal & visible, cross)"},
                    "Your cross-attention has a causal mask. Every target token may attend to the whole source, except "
                    "for its padding."),
            Mistake("WIR-6", {CROSS: "attention(y, x, visible | True, cross)"},
                    "Your cross-attention does not hide the padding tokens of the source. It needs the encoder's mask "
                    "too."),
            Mistake("WIR-7", {CROSS: "attention(y, embed(source, source_table), visible, cross)"},
                    "Your decoder attends to the embedded source, so the output of the encoder's blocks is not used."),
            Mistake("WIR-8", {"    for own, hidden": "    memories = []\n    for own, hidden",
                              "norms[1])\n    causal": "norms[1])\n        memories.append(x)\n    causal",
                              "for own, cross, hidden, norms in decoder":
                              "for x, (own, cross, hidden, norms) in zip(memories, decoder)"},
                    "Each of your decoder blocks attends to the encoder block with the same number. All of them attend "
                    "to the output of the last encoder block."),
            Mistake("WIR-9", {"x = table[ids] * math.sqrt(table.shape[1])\n        return x + positions(x)":
                              "x = table[ids]\n        return (x + positions(x)) * math.sqrt(table.shape[1])"},
                    "You also multiply the positional encoding by sqrt(D). Add it after the multiplication."),
            Mistake("WIR-10", {" * math.sqrt(table.shape[1])":
                               " * math.sqrt(len(table))"},
                    "You multiply the embeddings by the root of the size of the vocabulary. The factor is sqrt(D)."),
            Mistake("RES-1", {"y + " + CROSS: CROSS}, "The residual connection around the cross-attention is missing."),
        ),
        alternatives={"tril": {
            "np.tri(target.shape[1], dtype=bool)": "np.tril(np.ones((target.shape[1],) * 2, bool))"}}),
]
