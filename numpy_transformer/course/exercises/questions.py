"""Three questions to ask yourself after a first course on Transformers; two more are in encoder_and_decoder.py."""

import numpy as np

from ...inspection.recorder import record
from ...layers import (CrossBlock, DecoderBlock, EncoderBlock, LayerNorm, Linear, MultiHeadAttention,
                       SinusoidalPositionalEncoding, causal_mask)
from ...models import Decoder, Encoder, EncoderDecoder
from .definition import Exercise, Mistake


def the_whole_structure():
    encoder = np.array([0, 3, 2, 3])
    decoder = np.array([0, 3, 1, 3, 2, 3])
    pre_norm = np.array([3, 0, 3, 2])
    attentions = 18
    receivers = 6
    norms = 32
    return encoder, decoder, pre_norm, attentions, receivers, norms


def run_structure():
    def order(block, *inputs):
        with record(block) as tape:
            block(*inputs)
        names = [call.name for call in tape.calls if call.depth == 1 and call.name != "dropout"]
        return np.array([3 if name.startswith("norm") else kinds.index(name) for name in names])

    kinds = ["attention", "cross_attention", "feed_forward"]
    x = np.ones((3, 4))
    model = EncoderDecoder(5, 5, 4, 2, 6, 8, norm="pre")
    with record(model.eval()) as tape:
        model(np.ones((1, 3), int), np.ones((1, 2), int))
    memory = tape["encoder"].output
    receivers = [call for call in tape.of(CrossBlock) if np.array_equal(call.inputs[1], memory)]
    post = DecoderBlock(4, 2, 8, norm="post", cross_attention=True)
    layers = [part for _, part in model.named_modules()]
    return (*(order(block, *[x] * count) for block, count in (
                (EncoderBlock(4, 2, 8, norm="post"), 1), (post, 2), (EncoderBlock(4, 2, 8, norm="pre"), 1))),
            sum(isinstance(layer, MultiHeadAttention) for layer in layers), len(receivers),
            sum(isinstance(layer, LayerNorm) for layer in layers))


def why_positions():
    reversed_too = 1
    mean_changes = 0
    with_sinusoid = 0
    one_block = 0
    two_blocks = 1
    first = np.array([0, 1, 0, 1])
    learned = 0
    return reversed_too, mean_changes, with_sinusoid, one_block, two_blocks, first, learned


def run_positions():
    rng = np.random.default_rng(73)
    x = rng.standard_normal((1, 5, 4))
    swapped = [1, 0, 2, 3, 4]
    encoder, one, two = (stack.astype(np.float64).eval() for stack in (
        Encoder(2, 4, 2, 8, rng=1), Decoder(1, 4, 2, 8, rng=2), Decoder(2, 4, 2, 8, rng=3)))
    positions = SinusoidalPositionalEncoding(4, 5).astype(np.float64).eval()
    y, back = encoder(x), encoder(x[:, ::-1])
    placed, placed_back = encoder(positions(x)), encoder(positions(x[:, ::-1]))
    moved = [not np.allclose(stack(x, causal_mask(5))[:, -1], stack(x[:, swapped], causal_mask(5))[:, -1])
             for stack in (one, two)]
    yes_or_no = (np.allclose(back, y[:, ::-1]), not np.allclose(back.mean(1), y.mean(1)),
                 np.allclose(placed_back, placed[:, ::-1]), *moved)
    return *map(int, yes_or_no), positions.table[0], positions.num_parameters()


def residuals_and_norms():
    plain = 0.5 ** 6
    residual = 1.5 ** 6
    skip_alone = 1
    mean = 0
    square = 1
    output = 1
    gradient = 0.001
    unchanged = 0
    return plain, residual, skip_alone, mean, square, output, gradient, unchanged


def run_residuals():
    def through(slope, skip):
        layers = [Linear(1, 1).astype(np.float64) for _ in range(6)]
        x, dx = np.ones((1, 1)), np.ones((1, 1))
        for layer in layers:
            layer.weight.data = slope
            x = skip * x + layer(x)
        for layer in reversed(layers):
            dx = skip * dx + layer.backward(dx)
        return dx.item()

    def passes(norm):
        block = EncoderBlock(4, 2, 8, dropout=0.0, norm=norm, rng=3).astype(np.float64)
        for part in (block.attention.output, block.feed_forward.down):
            part.weight.data = 0
        block(x)
        return np.allclose(block.backward(dy), dy)

    x, dy = np.random.default_rng(74).standard_normal((2, 3, 4))
    layer = LayerNorm(4, eps=1e-15).astype(np.float64)
    (y, dx), (large, small) = [(layer(z), layer.backward(dy)) for z in (x, 1000 * x)]
    numbers = [round(array.mean(), 9) + 0.0 for array in (y, y ** 2, large / y, small / dx)]
    unchanged, = [i for i, norm in enumerate(("pre", "post")) if passes(norm)]
    return through(0.5, 0), through(0.5, 1), through(0.0, 1), *numbers, unchanged


EXERCISES = [
    Exercise(
        "13.4", minutes=10, lines=7, kind="question",
        solution=the_whole_structure, reference=run_structure,
        outputs=tuple(f"answer {i}" for i in range(1, 7)),
        mistakes=(
            Mistake("QST-13.4a", {"encoder = np.array([0, 3, 2, 3])": "encoder = np.array([0, 2, 3])"}),
            Mistake("QST-13.4b", {
                "encoder = np.array([0, 3, 2, 3])": "encoder = np.array([3, 0, 3, 2])",
                "pre_norm = np.array([3, 0, 3, 2])": "pre_norm = np.array([0, 3, 2, 3])"}),
            Mistake("QST-13.4c", {"[0, 3, 1, 3, 2, 3]": "[0, 3, 2, 3]"}),
            Mistake("QST-13.4d", {"[0, 3, 1, 3, 2, 3]": "[1, 3, 0, 3, 2, 3]"}),
            Mistake("QST-13.4e", {"attentions = 18": "attentions = 12"}),
            Mistake("QST-13.4f", {"receivers = 6": "receivers = 1"}),
            Mistake("QST-13.4g", {"receivers = 6": "receivers = 12"}),
            Mistake("QST-13.4h", {"norms = 32": "norms = 30"}),
            Mistake("QST-13.4i", {"norms = 32": "norms = 26"}),
            Mistake("QST-13.4j", {"pre_norm = np.array([3, 0, 3, 2])": "pre_norm = np.array([0, 3, 2, 3])"}),
            Mistake("QST-13.4k", {"pre_norm = np.array([3, 0, 3, 2])": "pre_norm = np.array([3, 0, 2])"}),
            Mistake("QST-13.4l", {"encoder = np.array([0, 3, 2, 3])": "encoder = np.array([0, 2])"}),
            Mistake("QST-13.4m", {"[0, 3, 1, 3, 2, 3]": "[0, 1, 3, 2, 3]"}),
            Mistake("QST-13.4n", {"[0, 3, 1, 3, 2, 3]": "[1, 3, 2, 3]"}),
            Mistake("QST-13.4o", {"[0, 3, 1, 3, 2, 3]": "[0, 3, 0, 3, 2, 3]"}),
            Mistake("QST-13.4p", {"attentions = 18": "attentions = 3"}),
            Mistake("QST-13.4q", {"attentions = 18": "attentions = 24"}),
            Mistake("QST-13.4r", {"norms = 32": "norms = 31"}),
            Mistake("QST-13.4s", {"norms = 32": "norms = 24"}),
        )),
    Exercise(
        "04.3", minutes=10, lines=8, kind="question",
        solution=why_positions, reference=run_positions,
        outputs=tuple(f"answer {i}" for i in range(1, 8)),
        mistakes=(
            Mistake("QST-04.3a", {"reversed_too = 1": "reversed_too = 0"}),
            Mistake("QST-04.3b", {"mean_changes = 0": "mean_changes = 1"}),
            Mistake("QST-04.3c", {"with_sinusoid = 0": "with_sinusoid = 1"}),
            Mistake("QST-04.3d", {"one_block = 0": "one_block = 1"}),
            Mistake("QST-04.3e", {"two_blocks = 1": "two_blocks = 0"}),
            Mistake("QST-04.3f", {"[0, 1, 0, 1]": "[1, 0, 1, 0]"}),
            Mistake("QST-04.3g", {"[0, 1, 0, 1]": "[0, 0, 1, 1]"}),
            Mistake("QST-04.3h", {"[0, 1, 0, 1]": "[0, 0, 0, 0]"}),
            Mistake("QST-04.3i", {"learned = 0": "learned = 4"}),
            Mistake("QST-04.3j", {"[0, 1, 0, 1]": "[1, 1, 1, 1]"}),
            Mistake("QST-04.3k", {"learned = 0": "learned = 1"}),
        )),
    Exercise(
        "10.7", minutes=10, lines=9, kind="question",
        solution=residuals_and_norms, reference=run_residuals,
        outputs=tuple(f"answer {i}" for i in range(1, 9)),
        mistakes=(
            Mistake("QST-10.7a", {"plain = 0.5 ** 6": "plain = 0.5 * 6"}),
            Mistake("QST-10.7b", {"residual = 1.5 ** 6": "residual = 1 + 0.5 ** 6"}),
            Mistake("QST-10.7c", {"residual = 1.5 ** 6": "residual = 0.5 ** 6"}),
            Mistake("QST-10.7k", {"plain = 0.5 ** 6": "plain = 0.5"}),
            Mistake("QST-10.7l", {"residual = 1.5 ** 6": "residual = 1.5 * 6"}),
            Mistake("QST-10.7m", {"residual = 1.5 ** 6": "residual = 1 + 6 * 0.5"}),
            Mistake("QST-10.7n", {"residual = 1.5 ** 6": "residual = 1.5"}),
            Mistake("QST-10.7o", {"skip_alone = 1": "skip_alone = 2 ** 6"}),
            Mistake("QST-10.7p", {"skip_alone = 1": "skip_alone = 6"}),
            Mistake("QST-10.7q", {"output = 1": "output = 0.001"}),
            Mistake("QST-10.7r", {"gradient = 0.001": "gradient = 0.000001"}),
            Mistake("QST-10.7d", {"skip_alone = 1": "skip_alone = 0"}),
            Mistake("QST-10.7e", {"mean = 0": "mean = 1"}),
            Mistake("QST-10.7f", {"square = 1": "square = 0"}),
            Mistake("QST-10.7g", {"output = 1": "output = 1000"}),
            Mistake("QST-10.7h", {"gradient = 0.001": "gradient = 1"}),
            Mistake("QST-10.7i", {"gradient = 0.001": "gradient = 1000"}),
            Mistake("QST-10.7j", {"unchanged = 0": "unchanged = 1"}),
        )),
]
