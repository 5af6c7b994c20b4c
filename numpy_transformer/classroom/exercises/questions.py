"""Three questions to ask oneself after a first course on the Transformer; two more are in encoder_and_decoder.py."""

import numpy as np

from ...inspection.recorder import record
from ...layers import (DecoderBlock, EncoderBlock, LayerNorm, Linear, MultiHeadAttention,
                       SinusoidalPositionalEncoding, causal_mask)
from ...models import Decoder, Encoder, EncoderDecoder
from ..exercise import Exercise, Mistake


def the_whole_structure():
    """Can you draw the whole structure of the Transformer?  Here in numbers, without running anything.

    The parts: 0 self-attention, 1 cross-attention, 2 feed-forward, 3 layer norm. The model has 6 encoder blocks and 6
    decoder blocks. Return these six in a tuple, the first three as arrays such as np.array([0, 1, 2, 3]):
    1. the parts of an encoder block in the order in which they run, post-norm as in the paper: norm(x + f(x))
    2. those of a decoder block, post-norm
    3. those of an encoder block, pre-norm: x + f(norm(x))
    4. how many attention layers the model has
    5. how many of its blocks receive the output of the encoder's last block as a second input
    6. how many layer norms the model has in its pre-norm form, where each stack ends in a further norm
    """
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
    x, model = np.ones((3, 4)), EncoderDecoder(5, 5, 4, 2, 6, 8, norm="pre")
    with record(model.eval()) as tape:
        model(np.ones((1, 3), int), np.ones((1, 2), int))
    memory = tape["encoder"].output
    receivers = [call for call in tape.of(DecoderBlock) if np.array_equal(call.inputs[1], memory)]
    post, layers = DecoderBlock(4, 2, 8, norm="post", cross_attention=True), [part for _, part in model.named_modules()]
    return (*(order(block, *[x] * count) for block, count in (
                (EncoderBlock(4, 2, 8, norm="post"), 1), (post, 2), (EncoderBlock(4, 2, 8, norm="pre"), 1))),
            sum(isinstance(layer, MultiHeadAttention) for layer in layers), len(receivers),
            sum(isinstance(layer, LayerNorm) for layer in layers))


def why_positions():
    """Why does a Transformer need a positional encoding?  No dropout, random weights; 1 for yes, 0 for no.

    Say it without running anything. Return these seven in a tuple:
    1. The tokens that an encoder without positions reads are reversed. Are its outputs the old ones, in reversed order?
    2. Does the mean of its outputs over the tokens change when the tokens are reversed?
    3. A sinusoid is added before the encoder. Are the outputs then the old ones in reversed order?
    4. A decoder without positions, one block, causal mask: the first two of five tokens are exchanged. Can the output
       of the last token change?
    5. The same with two blocks?
    6. The sinusoid of position 0 for d_model = 4, sine first: an array of four numbers
    7. How many parameters that are learned does the sinusoid add to a model?
    """
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
    x, swapped = rng.standard_normal((1, 5, 4)), [1, 0, 2, 3, 4]
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
    """What do residual connections and layer norms do?  Say it without running anything.

    Six layers in a row, one feature each, the gradient at the output is 1. What is the gradient at the input, if
    1. each is y = f(x) and f has the slope 1/2 everywhere
    2. each is y = x + f(x) with the same f
    3. each is y = x + f(x), and f has the slope 0
    LayerNorm with gamma = 1, beta = 0 and an eps so small that it does not count; x a token whose features differ:
    4. the mean of the output's features
    5. the mean of their squares
    6. x becomes 1000 x: by which factor does the output change
    7. there, for the same gradient dy at the output: by which factor does the gradient dx change
    8. Which block lets dy reach its input unchanged if attention and feed-forward pass nothing back: 0 pre-norm,
       1 post-norm
    Return these eight numbers in a tuple.
    """
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
        layers, x, dx = [Linear(1, 1).astype(np.float64) for _ in range(6)], np.ones((1, 1)), np.ones((1, 1))
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
        "13.4", "Question: the whole structure", minutes=10, lines=7, kind="question",
        solution=the_whole_structure, reference=run_structure,
        outputs=tuple(f"answer {i}" for i in range(1, 7)),
        hints=("Draw both stacks first. Which boxes of the decoder are not in the encoder?",
               "An encoder block has two sublayers, a decoder block three; each has a norm of its own. The arrow "
               "between the stacks starts at the end of the encoder. Where does it end?",
               "Post-norm: sublayer, norm, sublayer, norm. Attentions: one and two for each block. Norms: two and "
               "three for each block, and one at the end of each pre-norm stack."),
        mistakes=(
            Mistake("QST-13.4a", {"encoder = np.array([0, 3, 2, 3])": "encoder = np.array([0, 2, 3])"},
                    "Answer 1: each sublayer has a residual connection and a norm of its own."),
            Mistake("QST-13.4b", {"encoder = np.array([0, 3, 2, 3])": "encoder = np.array([3, 0, 3, 2])",
                                "pre_norm = np.array([3, 0, 3, 2])": "pre_norm = np.array([0, 3, 2, 3])"},
                    "Answers 1 and 3: pre-norm and post-norm are exchanged. The paper normalizes the sum, behind the "
                    "sublayer."),
            Mistake("QST-13.4c", {"[0, 3, 1, 3, 2, 3]": "[0, 3, 2, 3]"},
                    "Answer 2: how would the decoder see the source? A third sublayer is missing."),
            Mistake("QST-13.4d", {"[0, 3, 1, 3, 2, 3]": "[1, 3, 0, 3, 2, 3]"},
                    "Answer 2: the decoder first attends to what it has written, then to the source."),
            Mistake("QST-13.4e", {"attentions = 18": "attentions = 12"},
                    "Answer 4: one attention for each block. Decoder blocks have two."),
            Mistake("QST-13.4f", {"receivers = 6": "receivers = 1"},
                    "Answer 5: the memory does not only enter at the bottom of the decoder: each block attends to it."),
            Mistake("QST-13.4g", {"receivers = 6": "receivers = 12"},
                    "Answer 5: encoder blocks have a single input; only the decoder's blocks take the memory besides."),
            Mistake("QST-13.4h", {"norms = 32": "norms = 30"},
                    "Answer 6: the further norm at the end of each stack is missing."),
            Mistake("QST-13.4i", {"norms = 32": "norms = 26"},
                    "Answer 6: two norms for each block. A decoder block has three sublayers, and so three norms."),
        )),
    Exercise(
        "04.3", "Question: why positions", minutes=10, lines=8, kind="question",
        solution=why_positions, reference=run_positions,
        outputs=tuple(f"answer {i}" for i in range(1, 8)),
        hints=("Which line of attention knows where a key stands? Sums do not care for the order of their terms.",
               "Without positions a token is told what it is and what the others are, and not where. A causal mask "
               "knows the order: it decides who sees whom. Whom does the last token see, and what had those seen?",
               "1 and 2: outputs move with their tokens, so their mean stays. 4: the last token sees the same set. 5: "
               "in the second block the first two tokens are no longer what they were, as only one of them has seen "
               "the other."),
        mistakes=(
            Mistake("QST-04.3a", {"reversed_too = 1": "reversed_too = 0"},
                    "Answer 1: attention is a weighted sum over a set of keys. Nothing in it knows where a token "
                    "stands."),
            Mistake("QST-04.3b", {"mean_changes = 0": "mean_changes = 1"},
                    "Answer 2: the outputs are the same vectors in another order. What does a mean make of that?"),
            Mistake("QST-04.3c", {"with_sinusoid = 0": "with_sinusoid = 1"},
                    "Answer 3: now a token's vector also says where it stands, and that has changed for it."),
            Mistake("QST-04.3d", {"one_block = 0": "one_block = 1"},
                    "Answer 4: the last token sees all five, the same ones as before, and it sums over them."),
            Mistake("QST-04.3e", {"two_blocks = 1": "two_blocks = 0"},
                    "Answer 5: of the first two tokens, the mask lets only the second see the other. After the "
                    "exchange that is another one, so both leave the first block changed, and the last token reads "
                    "them in the second."),
            Mistake("QST-04.3f", {"[0, 1, 0, 1]": "[1, 0, 1, 0]"},
                    "Answer 6: sine and cosine are exchanged; sin 0 is 0."),
            Mistake("QST-04.3g", {"[0, 1, 0, 1]": "[0, 0, 1, 1]"},
                    "Answer 6: here sines and cosines stand in two halves; in the paper they alternate."),
            Mistake("QST-04.3h", {"[0, 1, 0, 1]": "[0, 0, 0, 0]"},
                    "Answer 6: every angle is 0 there, and cos 0 is not 0."),
            Mistake("QST-04.3i", {"learned = 0": "learned = 4"},
                    "Answer 7: the table is computed, and nobody changes it."),
        )),
    Exercise(
        "10.7", "Question: residuals and norms", minutes=10, lines=9, kind="question",
        solution=residuals_and_norms, reference=run_residuals,
        outputs=tuple(f"answer {i}" for i in range(1, 9)),
        hints=("Slopes along a chain multiply. What is the slope of x + f(x)?",
               "With the skip each layer has slope 1 + f'. LayerNorm subtracts the mean and divides by the deviation: "
               "what is left of a factor in front of x?",
               "(1/2)^6, (3/2)^6, 1; mean 0, mean square 1; 1000 x gives the same output, so x must move 1000 times "
               "as far for the same change; only one order has no norm on the skip path."),
        mistakes=(
            Mistake("QST-10.7a", {"plain = 0.5 ** 6": "plain = 0.5 * 6"},
                    "Answer 1: slopes along a chain multiply, they do not add."),
            Mistake("QST-10.7b", {"residual = 1.5 ** 6": "residual = 1 + 0.5 ** 6"},
                    "Answer 2: that is one skip past all six layers. Here each layer has its own."),
            Mistake("QST-10.7c", {"residual = 1.5 ** 6": "residual = 0.5 ** 6"},
                    "Answer 2: the skip is forgotten: x stands in x + f(x) twice."),
            Mistake("QST-10.7d", {"skip_alone = 1": "skip_alone = 0"},
                    "Answer 3: f passes nothing back, but the skip does. That is what it is for."),
            Mistake("QST-10.7e", {"mean = 0": "mean = 1"}, "Answer 4: the mean is subtracted."),
            Mistake("QST-10.7f", {"square = 1": "square = 0"},
                    "Answer 5: the mean is 0, the spread is not: it is made 1."),
            Mistake("QST-10.7g", {"output = 1": "output = 1000"},
                    "Answer 6: the deviation grows by the same factor, and the output is divided by it."),
            Mistake("QST-10.7h", {"gradient = 0.001": "gradient = 1"},
                    "Answer 7: the output is the same, the gradient is not: it is divided by the deviation of x."),
            Mistake("QST-10.7i", {"gradient = 0.001": "gradient = 1000"},
                    "Answer 7: a step in x now matters less, not more: it is small beside x."),
            Mistake("QST-10.7j", {"unchanged = 0": "unchanged = 1"},
                    "Answer 8: in post-norm the norm stands behind the sum, in the way of the skip as well."),
        )),
]
