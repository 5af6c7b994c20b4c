"""Three questions to ask yourself after a first course on Transformers; two more are in encoder_and_decoder.py."""

import numpy as np

from ...inspection.recorder import record
from ...layers import (DecoderBlock, EncoderBlock, LayerNorm, Linear, MultiHeadAttention, SinusoidalPositionalEncoding,
                       causal_mask)
from ...models import Decoder, Encoder, EncoderDecoder
from .definition import Exercise, Mistake


def the_whole_structure():
    """Can you draw the whole structure of the Transformer?  Here in numbers; answer without running anything.

    The parts are 0 self-attention, 1 cross-attention, 2 feed-forward, 3 layer norm. The model has 6 encoder blocks and
    6 decoder blocks. Return these six in a tuple, the first three as arrays such as np.array([0, 1, 2, 3]):
    1. the parts of an encoder block in the order in which they run, post-norm as in the paper: norm(x + f(x))
    2. the parts of a decoder block, post-norm
    3. the parts of an encoder block, pre-norm: x + f(norm(x))
    4. the number of attention layers in the model
    5. the number of blocks that receive the output of the encoder's last block as a second input
    6. the number of layer norms in the pre-norm form of the model, in which each stack ends in another norm
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
    x = np.ones((3, 4))
    model = EncoderDecoder(5, 5, 4, 2, 6, 8, norm="pre")
    with record(model.eval()) as tape:
        model(np.ones((1, 3), int), np.ones((1, 2), int))
    memory = tape["encoder"].output
    receivers = [call for call in tape.of(DecoderBlock) if np.array_equal(call.inputs[1], memory)]
    post = DecoderBlock(4, 2, 8, norm="post", cross_attention=True)
    layers = [part for _, part in model.named_modules()]
    return (*(order(block, *[x] * count) for block, count in (
                (EncoderBlock(4, 2, 8, norm="post"), 1), (post, 2), (EncoderBlock(4, 2, 8, norm="pre"), 1))),
            sum(isinstance(layer, MultiHeadAttention) for layer in layers), len(receivers),
            sum(isinstance(layer, LayerNorm) for layer in layers))


def why_positions():
    """Why does a Transformer need a positional encoding?  No dropout, random weights; answer 1 for yes, 0 for no.

    Answer without running anything. Return these seven in a tuple:
    1. An encoder without positions reads the tokens in reverse order. Are its outputs the old ones in reverse order?
    2. Does the mean of its outputs over the tokens change when the order is reversed?
    3. A sinusoid is added before the encoder. Are the outputs now the old ones in reverse order?
    4. A decoder of one block has no positions and a causal mask. The first two of five tokens are swapped. Can the
       output of the last token change?
    5. The same with two blocks: can it change?
    6. The sinusoid of position 0 for d_model = 4, sine first: an array of four numbers
    7. How many trainable parameters does the sinusoid add to a model?
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
    """What do residual connections and layer norms do?  Answer without running anything.

    Six layers in a row have one feature each, and the gradient at the output is 1. What is the gradient at the input if
    1. each layer is y = f(x), where f has slope 1/2 everywhere?
    2. each layer is y = x + f(x) with the same f?
    3. each layer is y = x + f(x), where f has slope 0?
    LayerNorm has gamma = 1, beta = 0 and a negligible eps; x is a token whose features differ. What is
    4. the mean of the output's features?
    5. the mean of their squares?
    6. the factor by which the output changes if x becomes 1000 x?
    7. the factor by which dx changes if x becomes 1000 x, with the same gradient dy at the output?
    8. In which block does dy reach the input unchanged if attention and feed-forward pass no gradient on: 0 pre-norm,
       1 post-norm?
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
        "13.4", "Question: the whole structure", minutes=10, lines=7, kind="question",
        solution=the_whole_structure, reference=run_structure,
        outputs=tuple(f"answer {i}" for i in range(1, 7)),
        hints=("Draw both stacks first. Which boxes of the decoder does the encoder not have?",
               "An encoder block has two sublayers, a decoder block three, and each has its own norm. The arrow "
               "between the stacks starts at the end of the encoder. Where does it end?",
               "Post-norm: sublayer, norm, sublayer, norm. Attention layers: one per encoder block and two per decoder "
               "block. Norms: two and three per block, and one at the end of each pre-norm stack."),
        mistakes=(
            Mistake("QST-13.4a", {"encoder = np.array([0, 3, 2, 3])": "encoder = np.array([0, 2, 3])"},
                    "Answer 1: each sublayer has its own residual connection and its own norm."),
            Mistake("QST-13.4b", {"encoder = np.array([0, 3, 2, 3])": "encoder = np.array([3, 0, 3, 2])",
                                "pre_norm = np.array([3, 0, 3, 2])": "pre_norm = np.array([0, 3, 2, 3])"},
                    "Answers 1 and 3: you swapped pre-norm and post-norm. The paper normalizes the sum, after the "
                    "sublayer."),
            Mistake("QST-13.4c", {"[0, 3, 1, 3, 2, 3]": "[0, 3, 2, 3]"},
                    "Answer 2: a third sublayer is missing. How would the decoder use the source?"),
            Mistake("QST-13.4d", {"[0, 3, 1, 3, 2, 3]": "[1, 3, 0, 3, 2, 3]"},
                    "Answer 2: the decoder first attends to the target tokens so far, then to the source."),
            Mistake("QST-13.4e", {"attentions = 18": "attentions = 12"},
                    "Answer 4: you count one attention layer per block. A decoder block has two."),
            Mistake("QST-13.4f", {"receivers = 6": "receivers = 1"},
                    "Answer 5: the memory does not enter at the bottom of the decoder only. Each of its blocks attends "
                    "to it."),
            Mistake("QST-13.4g", {"receivers = 6": "receivers = 12"},
                    "Answer 5: encoder blocks have a single input. Only decoder blocks also take the memory."),
            Mistake("QST-13.4h", {"norms = 32": "norms = 30"},
                    "Answer 6: you left out the additional norm at the end of each stack."),
            Mistake("QST-13.4i", {"norms = 32": "norms = 26"},
                    "Answer 6: you count two norms per block. A decoder block has three sublayers, and so three "
                    "norms."),
            Mistake("QST-13.4j", {"pre_norm = np.array([3, 0, 3, 2])": "pre_norm = np.array([0, 3, 2, 3])"},
                    "Answer 3: this is post-norm. In pre-norm, f is applied to norm(x), so the norm runs first."),
            Mistake("QST-13.4k", {"pre_norm = np.array([3, 0, 3, 2])": "pre_norm = np.array([3, 0, 2])"},
                    "Answer 3: each sublayer has its own norm, in pre-norm too."),
            Mistake("QST-13.4l", {"encoder = np.array([0, 3, 2, 3])": "encoder = np.array([0, 2])"},
                    "Answer 1: you left out the layer norms."),
            Mistake("QST-13.4m", {"[0, 3, 1, 3, 2, 3]": "[0, 1, 3, 2, 3]"},
                    "Answer 2: self-attention and cross-attention are two sublayers, each with its own norm."),
            Mistake("QST-13.4n", {"[0, 3, 1, 3, 2, 3]": "[1, 3, 2, 3]"},
                    "Answer 2: the self-attention is missing. How would a target token see the tokens before it?"),
            Mistake("QST-13.4o", {"[0, 3, 1, 3, 2, 3]": "[0, 3, 0, 3, 2, 3]"},
                    "Answer 2: the second attention is cross-attention, whose keys and values come from the encoder."),
            Mistake("QST-13.4p", {"attentions = 18": "attentions = 3"},
                    "Answer 4: you count the kinds of attention in one block of each stack. The model has 12 blocks."),
            Mistake("QST-13.4q", {"attentions = 18": "attentions = 24"},
                    "Answer 4: you count two attention layers in every block. An encoder block has only one."),
            Mistake("QST-13.4r", {"norms = 32": "norms = 31"},
                    "Answer 6: both stacks end in another norm, the encoder too."),
            Mistake("QST-13.4s", {"norms = 32": "norms = 24"},
                    "Answer 6: you count two norms in each of the 12 blocks. A decoder block has three, and each stack "
                    "ends in another one."),
        )),
    Exercise(
        "04.3", "Question: why positions", minutes=10, lines=8, kind="question",
        solution=why_positions, reference=run_positions,
        outputs=tuple(f"answer {i}" for i in range(1, 8)),
        hints=("Which step of attention uses the position of a key? A sum does not depend on the order of its terms.",
               "Without positions, attention knows what each token is, but not where it is. A causal mask depends on "
               "the order, because it decides which tokens attend to which. To which tokens does the last one attend, "
               "and to which did those attend?",
               "1 and 2: the outputs change their order with their tokens, so the mean stays the same. 4: the last "
               "token attends to the same set of tokens. 5: in block 1 the first two tokens have changed, because only "
               "one of them attended to the other in block 0."),
        mistakes=(
            Mistake("QST-04.3a", {"reversed_too = 1": "reversed_too = 0"},
                    "Answer 1: attention is a weighted sum over a set of keys. Nothing in it depends on the position "
                    "of a token."),
            Mistake("QST-04.3b", {"mean_changes = 0": "mean_changes = 1"},
                    "Answer 2: the outputs are the same vectors in another order. Does that change their mean?"),
            Mistake("QST-04.3c", {"with_sinusoid = 0": "with_sinusoid = 1"},
                    "Answer 3: a token's vector now depends on its position too, and its position has changed."),
            Mistake("QST-04.3d", {"one_block = 0": "one_block = 1"},
                    "Answer 4: the last token attends to all five tokens, the same ones as before, and sums over "
                    "them."),
            Mistake("QST-04.3e", {"two_blocks = 1": "two_blocks = 0"},
                    "Answer 5: of the first two tokens, only the second attends to the other. After the swap it is a "
                    "different token that does, so both leave block 0 changed, and the last token attends to them in "
                    "block 1."),
            Mistake("QST-04.3f", {"[0, 1, 0, 1]": "[1, 0, 1, 0]"},
                    "Answer 6: you swapped sine and cosine. sin 0 is 0."),
            Mistake("QST-04.3g", {"[0, 1, 0, 1]": "[0, 0, 1, 1]"},
                    "Answer 6: you put sines and cosines in two halves. In the paper they alternate."),
            Mistake("QST-04.3h", {"[0, 1, 0, 1]": "[0, 0, 0, 0]"},
                    "Answer 6: every angle is 0 at position 0, but cos 0 is not 0."),
            Mistake("QST-04.3i", {"learned = 0": "learned = 4"},
                    "Answer 7: the table is computed from a formula and never trained."),
            Mistake("QST-04.3j", {"[0, 1, 0, 1]": "[1, 1, 1, 1]"}, "Answer 6: only the cosines are 1. sin 0 is 0."),
            Mistake("QST-04.3k", {"learned = 0": "learned = 1"},
                    "Answer 7: the table is computed from a formula, which has no trainable number."),
        )),
    Exercise(
        "10.7", "Question: residuals and norms", minutes=10, lines=9, kind="question",
        solution=residuals_and_norms, reference=run_residuals,
        outputs=tuple(f"answer {i}" for i in range(1, 9)),
        hints=("By the chain rule, slopes multiply along a chain. What is the slope of x + f(x)?",
               "With the residual connection, each layer has slope 1 + f'. LayerNorm subtracts the mean and divides by "
               "the standard deviation. What happens to a factor in front of x?",
               "(1/2)^6, (3/2)^6 and 1; mean 0 and mean square 1; 1000 x gives the same output, so x must change 1000 "
               "times as much for the same effect; only one of the two orders has no norm on the residual path."),
        mistakes=(
            Mistake("QST-10.7a", {"plain = 0.5 ** 6": "plain = 0.5 * 6"},
                    "Answer 1: slopes multiply along a chain; they do not add up."),
            Mistake("QST-10.7b", {"residual = 1.5 ** 6": "residual = 1 + 0.5 ** 6"},
                    "Answer 2: this would be one residual connection around all six layers. Here each layer has its "
                    "own."),
            Mistake("QST-10.7c", {"residual = 1.5 ** 6": "residual = 0.5 ** 6"},
                    "Answer 2: you left out the residual connection. x occurs twice in x + f(x)."),
            Mistake("QST-10.7k", {"plain = 0.5 ** 6": "plain = 0.5"},
                    "Answer 1: this is the slope of one layer. The gradient passes through six."),
            Mistake("QST-10.7l", {"residual = 1.5 ** 6": "residual = 1.5 * 6"},
                    "Answer 2: slopes multiply along a chain; they do not add up."),
            Mistake("QST-10.7m", {"residual = 1.5 ** 6": "residual = 1 + 6 * 0.5"},
                    "Answer 2: you add the slopes of the six branches. But the gradient of a later branch also passes "
                    "through the earlier layers: slopes of a chain multiply."),
            Mistake("QST-10.7n", {"residual = 1.5 ** 6": "residual = 1.5"},
                    "Answer 2: this is the slope of one layer. The gradient passes through six."),
            Mistake("QST-10.7o", {"skip_alone = 1": "skip_alone = 2 ** 6"},
                    "Answer 3: each layer has slope 1 from the residual connection, and f adds 0 to it, not 1."),
            Mistake("QST-10.7p", {"skip_alone = 1": "skip_alone = 6"},
                    "Answer 3: the six layers are a chain, so their slopes are multiplied, not added."),
            Mistake("QST-10.7q", {"output = 1": "output = 0.001"},
                    "Answer 6: x grows, and so does the standard deviation that it is divided by."),
            Mistake("QST-10.7r", {"gradient = 0.001": "gradient = 0.000001"},
                    "Answer 7: dx is divided by the standard deviation once. What is multiplied by 1/std has not "
                    "changed."),
            Mistake("QST-10.7d", {"skip_alone = 1": "skip_alone = 0"},
                    "Answer 3: f passes no gradient on, but the residual connection does. That is its purpose."),
            Mistake("QST-10.7e", {"mean = 0": "mean = 1"}, "Answer 4: LayerNorm subtracts the mean."),
            Mistake("QST-10.7f", {"square = 1": "square = 0"},
                    "Answer 5: the mean is 0, but the variance is not: LayerNorm makes it 1."),
            Mistake("QST-10.7g", {"output = 1": "output = 1000"},
                    "Answer 6: the standard deviation grows by the same factor, and the output is divided by it."),
            Mistake("QST-10.7h", {"gradient = 0.001": "gradient = 1"},
                    "Answer 7: the output is the same, but the gradient is divided by the standard deviation of x."),
            Mistake("QST-10.7i", {"gradient = 0.001": "gradient = 1000"},
                    "Answer 7: the same change of x now has a smaller effect, not a larger one, because x is larger."),
            Mistake("QST-10.7j", {"unchanged = 0": "unchanged = 1"},
                    "Answer 8: in post-norm, the norm follows the sum, so the residual path goes through it too."),
        )),
]
