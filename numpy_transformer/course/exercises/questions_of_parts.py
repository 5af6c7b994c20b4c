"""The questions in the test at the end of each part of the course; tests_of_parts.py has what is written there."""

import itertools

import numpy as np

from ...data.bpe import BytePairTokenizer
from ...data.digits import draw_digits
from ...data.masked import corrupt
from ...decoding import KeyValueCache, beam_search, greedy_decode
from ...decoding.sampling import next_token_probabilities
from ...decoding.speculative import verify
from ...inspection.influence import influence
from ...layers import (AbsorbedLatentAttention, Block, CrossAttention, CrossEntropyLoss, Embedding, EncoderBlock, FeedForward,
                       FlashAttention, Identity, LayerNorm, Linear, LinearAttention, LoRALinear, MaskedMean,
                       MixtureOfExperts, RotaryEmbedding, Router, ScaledDotProductAttention, SelfAttention, SinkWindow,
                       ZLoss, causal_mask, padding_mask)
from ...layers.attention import with_score_changes
from ...layers.heads import split_heads
from ...layers.quantization import dequantize_groups, quantize_groups
from ...models import CausalLanguageModel, Decoder, Encoder, Stack
from ...module import Parameter
from ...training import SGD, Adam, AdamW, clip_grad_norm
from ...training.maximal_update import apply_mup, mup_groups
from .decoding import Translator
from .definition import Exercise, Mistake
from .experts import identity_of
from .finite_differences import by_gradcheck
from .masked_words import Given
from .predict import only
from .shared import loaded
from .speculative import Recorded


def training_by_hand():
    neuron = 24
    used_twice = 5
    dz = np.array([-3 / 8, 3 / 8])
    dbias = 2
    dx = 3
    difference = 6
    velocity = 1.9
    change = -0.002
    return neuron, used_twice, dz, dbias, dx, difference, velocity, change


def slope(f, at, h=0.5):
    """The central difference of f, which is exact for a polynomial of degree 2."""
    return round(by_gradcheck(lambda x: f(x).sum(), np.array([at]), h).item(), 9)


def moves(optimizer, gradients, start=0.0, **settings):
    """The changes of a single parameter in these steps."""
    parameter = Parameter(np.array([start]))
    optimizer, path = optimizer([parameter], **settings), [start]
    for gradient in gradients:
        parameter.grad = np.array([gradient])
        optimizer.step()
        path.append(parameter.data.item())
    return np.diff(path)


def run_training():
    criterion = CrossEntropyLoss()
    criterion(np.array([[0, np.log(3)], [2, 1]]), np.array([0, 1]))
    layer = loaded(Linear(5, 3), {"weight": np.full((5, 3), 2.0), "bias": np.zeros(3)})
    layer(np.random.default_rng(81).standard_normal((4, 5)))
    dx = layer.backward(np.full((4, 3), 0.5))
    return (slope(lambda w: (3 * w - 2) ** 2, 2.0), slope(lambda a: 4 * a + a, 3.0), criterion.backward()[0],
            only(layer.bias.grad), only(dx), slope(lambda x: x ** 2, 3.0),
            -round(moves(SGD, [1, 1], lr=1, momentum=0.9)[1], 9), round(moves(Adam, [5e-5], lr=0.002)[0], 4))


def parts_of_a_block():
    tokens = 9
    embedding = 12
    score = 3
    visible = 440
    reached = np.array([1, 1, 1, 0, 0])
    normalized = np.array([-1, 3])
    still = 13
    parameters = 510
    return tokens, embedding, score, visible, reached, normalized, still, parameters


def run_parts():
    rng = np.random.default_rng(82)
    table = Embedding(5, 16, scale=True).astype(np.float64)
    table(np.array([2, 1, 2, 4, 2]))
    table.backward(np.ones((5, 16)))
    d = split_heads(np.zeros((1, 64)), 4).shape[-1]
    score = ScaledDotProductAttention().score(12 * np.eye(1, d), np.eye(1, d))
    attention = SelfAttention(8, 4, rng=rng)
    attention(rng.standard_normal((2, 10, 8)), causal_mask(10))
    decoder = Decoder(2, 8, 2, 16, rng=rng).astype(np.float64)
    decoder(rng.standard_normal((5, 8)), causal_mask(5))
    dx = decoder.backward((np.arange(5) == 2)[:, None] * rng.standard_normal((5, 8)))
    norm = loaded(LayerNorm(2, eps=1e-15), {"gamma": np.full(2, 2.0), "beta": np.ones(2)})
    hidden = FeedForward(6, 24, rng=rng).astype(np.float64)
    hidden.up.bias.data[7] = -100
    hidden(rng.standard_normal((50, 6)))
    hidden.backward(rng.standard_normal((50, 6)))
    return (len(BytePairTokenizer([]).encode("hi \ud55c\uad6d")), only(table.weight.grad[2]), score.item(),
            np.count_nonzero(attention.weights), dx.any(-1).astype(int), norm(np.array([1.0, 3])).round(9),
            sum((parameter.grad == 0).sum() for parameter in hidden.parameters()), EncoderBlock(6, 2, 24).num_parameters())


def models_and_tasks():
    pairs = np.array([25, 15, 20])
    mean = 3
    patches = 10
    targets = 4
    times_as_likely = 16
    greedy = 0.2
    beam = 0.245
    places = 27
    return pairs, mean, patches, targets, times_as_likely, greedy, beam, places


def run_decoding():
    """The probabilities of what greedy decoding and beam search find. The ids: 0 ends, 1 to 6 are A to F, 7 begins."""
    p = np.zeros((8, 8))
    p[7, 1:4], p[1, 4:7], p[2, 4:6] = (0.4, 0.35, 0.25), (0.5, 0.3, 0.2), (0.7, 0.3)
    p[3, 4] = p[[0, 4, 5, 6], 0] = 1
    model = Translator(lambda ids: np.log(np.maximum(p, 1e-300))[ids])
    greedy = greedy_decode(model, [[0]], 7, 0, 4, cached=False)[0]
    (best, _), = beam_search(model, [[0]], 7, 0, 4, beam=2, length_penalty=0, cached=False)[0]
    return [round(np.prod(p[[7, *ids[:-1]], ids]), 9) for ids in (greedy, best)]


def run_models():
    rng = np.random.default_rng(83)
    x, memory = rng.standard_normal((5, 8)), rng.standard_normal((6, 8))
    depends = (influence(Encoder(2, 8, 2, 16, rng=1), x), influence(Decoder(2, 8, 2, 16, rng=2), x, causal_mask(5)),
               influence(CrossAttention(8, 2, rng=3), x, memory, padding_mask(np.array([3, 4, 5, 6, 0, 0])), argument=1))
    mean = MaskedMean()(np.array([[[2.0], [4], [9]]]), np.array([[True, True, False]]))
    picture = draw_digits(1, 0, size=12)[0].reshape(12, 12)
    patches = np.lib.stride_tricks.sliding_window_view(picture, (4, 4))[::4, ::4].reshape(-1, 16)
    ids = np.array([1, 5, 6, 7, 2, 0, 0])
    criterion = CrossEntropyLoss(ignore_id=0)
    criterion(np.zeros((6, 8)), ids[1:])
    cold = next_token_probabilities(np.log([4.0, 1.0]), temperature=0.5)
    words, order = np.full((1, 200), 10), np.arange(200)[None]
    changed = corrupt(words, Given(order < 30, (order + 0.5) / 30, words + 1), None, 0.15)[0] != words
    return (np.array([(moved > 0).sum() for moved in depends]), mean.item(), 1 + len(patches), criterion.count,
            round(cold[0] / cold[1], 9), *run_decoding(), np.count_nonzero(changed))


def decoders_of_today():
    position = 14
    cached = 19200
    total = 1 + 2 * np.exp(-3)
    decayed = 3.8
    factor = 0.5
    sent = 1500
    state = 250
    trained = 200
    return position, cached, total, decayed, factor, sent, state, trained


def numbers_sent(n, size):
    """The numbers that each of n ranks sends in a ring all-reduce, whose sum is checked."""
    vectors = np.random.default_rng(84).standard_normal((n, size))
    chunks, sent = [np.split(vector.copy(), n) for vector in vectors], np.zeros(n)
    for step in range(2 * (n - 1)):
        messages = [chunks[rank][(rank - step) % n].copy() for rank in range(n)]
        for rank, message in enumerate(messages):
            own = chunks[(rank + 1) % n][(rank - step) % n]
            own[:] = own + message if step < n - 1 else message
            sent[rank] += message.size
    if not np.allclose([np.concatenate(own) for own in chunks], vectors.sum(0)):
        raise AssertionError("the ring does not give the sum")
    return only(sent)


def run_decoders():
    rng = np.random.default_rng(85)
    q, k = rng.standard_normal((2, 1, 8))
    rotary = RotaryEmbedding(8).astype(np.float64)
    rotated = rotary(q.repeat(40, 0)), rotary(k.repeat(40, 0))
    scores = rotated[0] @ rotated[1].T
    model = CausalLanguageModel(5, 128, 8, 3, max_len=100, num_kv_heads=2).eval()
    cache = KeyValueCache()
    model(np.ones((1, 100), int), cache=cache)
    tiles = FlashAttention(1)
    tiles(np.ones((1, 1)), np.array([[0.0], [0], [3]]), np.ones((3, 1)))
    clipped = [Parameter(np.zeros(2)) for _ in range(2)]
    for parameter, gradient in zip(clipped, ([5.0, 0], [0, 12.0])):
        parameter.grad = np.array(gradient)
    clip_grad_norm(clipped, 6.5)
    share = Adam([Parameter(np.split(np.zeros(1000), 8)[0])])
    return (int(abs(scores[:, 10] - scores[7, 3]).argmin()), sum(kept.array.size for kept in cache.arrays.values()),
            tiles.recall()[-1].item(), round(4 + moves(AdamW, [0.0], 4.0, lr=0.1, weight_decay=0.5)[0], 9),
            round(clipped[0].grad[0] / 5, 9), int(numbers_sent(4, 1000)),
            sum(array.size for arrays in share.state().values() for array in arrays),
            LoRALinear(Linear(20, 30), 4).num_parameters(trained=True))


def since_2017():
    inputs_seen = 11
    output = 3
    cached = 14400
    dlogits = np.array([-0.2, 0.8])
    drouter = np.array([-1.5, 1.5, 0, 0])
    scaled = np.array([0.005, 0.02, 0.25])
    rounded = np.array([0.4, -1.4, 0.4, 0])
    tokens = 1.96
    return inputs_seen, output, cached, dlogits, drouter, scaled, rounded, tokens


def windows_that_keep(sizes, rng):
    """The attention of each block: a window of 4 tokens, and the first token."""
    return with_score_changes(ScaledDotProductAttention(), SinkWindow(4, 1))


def run_linear_attention():
    """The last of three outputs, for φ(x) = x + 1, where no x is negative."""
    q, k = np.array([[0.0, 0], [0, 0], [0, 1]]), np.array([[0.0, 1], [1, 0], [0, 0]])
    return round(LinearAttention()(q, k, np.array([[6.0], [0], [2]]), causal_mask(3)[0, 0])[2].item(), 9)


def run_experts():
    """The gradient of the logits, which are the input of the mixture; the experts return their biases."""
    router, experts = Router(4, 4, 2), [Linear(4, 4) for _ in range(4)]
    router.linear = identity_of(4)
    for expert, h in zip(experts, (2, 6, 4, 8)):
        loaded(expert, {"weight": np.zeros((4, 4)), "bias": np.array([h, 0.0, 0, 0])})
    mixture = MixtureOfExperts(router, experts)
    mixture(np.log([[3, 1, 1 / 2, 1 / 4]]))
    return mixture.backward(np.array([[2.0, 0, 0, 0]]))[0]


def run_mup():
    """The rates of a hidden matrix and of the table of embeddings, and the factor of the logits, for 4 times the width."""
    base, model = (CausalLanguageModel(5, width, 2, 1, max_len=4) for width in (64, 256))
    apply_mup(model, base)
    block = model.decoder.blocks[0]
    rates = [0.02 * factor for wanted in (block.attention.query.weight, model.output.weight)
             for factor, parameters in mup_groups(model, base).items() if any(one is wanted for one in parameters)]
    return np.array([*rates, model.output.factor])


def mean_tokens():
    """The mean number of tokens of a call with two guesses, over all guesses and random numbers in the middle of fifths."""
    p, q = np.array([0.6, 0.3, 0.1]), np.array([0.2, 0.3, 0.5])
    total = 0
    for *guesses, first, second in itertools.product(range(3), range(3), *2 * [np.arange(0.1, 1, 0.2)]):
        rng = Recorded([first, second])
        total += q[guesses].prod() / 25 * len(verify(guesses, np.tile(p, (3, 1)), np.tile(q, (2, 1)), rng))
    return round(total, 9)


def run_since_2017():
    rng = np.random.default_rng(86)
    model = CausalLanguageModel(9, 8, 2, 3, max_len=20, rng=1, attention=windows_that_keep)
    reached = influence(model, rng.integers(0, 9, (1, 20)), of="decoder")[15] > 0
    blocks = [Block(AbsorbedLatentAttention(16, 8, 40, 16, 8), Identity(), Identity(), Identity()) for _ in range(3)]
    cache = KeyValueCache()
    cache.caching(Stack(blocks).eval())(np.ones((1, 100, 16), np.float32))
    criterion = ZLoss(CrossEntropyLoss(), 0.1)
    criterion(np.full((1, 2), 3 - np.log(2)), np.array([0]))
    codes = quantize_groups(np.array([[0.45], [-1.4], [0.33], [0.05]]), 4)
    return (np.count_nonzero(reached), run_linear_attention(), sum(kept.array.size for kept in cache.arrays.values()),
            criterion.backward()[0], run_experts(), run_mup(), dequantize_groups(*codes, 4)[:, 0], mean_tokens())


def answers(count):
    return tuple(f"answer {i}" for i in range(1, count + 1))


EXERCISES = [
    Exercise(
        "02.5", minutes=15, lines=9, kind="question",
        solution=training_by_hand, reference=run_training, outputs=answers(8),
        mistakes=(
            Mistake("QST-02.5a", {"neuron = 24": "neuron = 8"}),
            Mistake("QST-02.5b", {"neuron = 24": "neuron = 12"}),
            Mistake("QST-02.5c", {"neuron = 24": "neuron = 16"}),
            Mistake("QST-02.5d", {"used_twice = 5": "used_twice = 4"}),
            Mistake("QST-02.5e", {"used_twice = 5": "used_twice = 1"}),
            Mistake("QST-02.5f", {"[-3 / 8, 3 / 8]": "[-3 / 4, 3 / 4]"}),
            Mistake("QST-02.5g", {"[-3 / 8, 3 / 8]": "[3 / 8, -3 / 8]"}),
            Mistake("QST-02.5h", {"[-3 / 8, 3 / 8]": "[1 / 8, 3 / 8]"}),
            Mistake("QST-02.5i", {"dbias = 2": "dbias = 0.5"}),
            Mistake("QST-02.5j", {"dbias = 2": "dbias = 1.5"}),
            Mistake("QST-02.5k", {"dbias = 2": "dbias = 6"}),
            Mistake("QST-02.5l", {"dx = 3": "dx = 5"}),
            Mistake("QST-02.5m", {"dx = 3": "dx = 1"}),
            Mistake("QST-02.5n", {"difference = 6": "difference = 6.5"}),
            Mistake("QST-02.5o", {"difference = 6": "difference = 12"}),
            Mistake("QST-02.5p", {"velocity = 1.9": "velocity = 0.19"}),
            Mistake("QST-02.5q", {"velocity = 1.9": "velocity = 2"}),
            Mistake("QST-02.5r", {"velocity = 1.9": "velocity = 1"}),
            Mistake("QST-02.5s", {"change = -0.002": "change = -0.002 * 0.00005"}),
            Mistake("QST-02.5t", {"change = -0.002": "change = 0.002"}),
            Mistake("QST-02.5u", {"change = -0.002": "change = -0.002 * 0.1 / 0.001 ** 0.5"}),
        )),
    Exercise(
        "10.9", minutes=15, lines=9, kind="question",
        solution=parts_of_a_block, reference=run_parts, outputs=answers(8),
        mistakes=(
            Mistake("QST-10.9a", {"tokens = 9": "tokens = 5"}),
            Mistake("QST-10.9b", {"tokens = 9": "tokens = 8"}),
            Mistake("QST-10.9c", {"embedding = 12": "embedding = 4"}),
            Mistake("QST-10.9d", {"embedding = 12": "embedding = 3"}),
            Mistake("QST-10.9e", {"embedding = 12": "embedding = 48"}),
            Mistake("QST-10.9f", {"score = 3": "score = 1.5"}),
            Mistake("QST-10.9g", {"score = 3": "score = 0.75"}),
            Mistake("QST-10.9h", {"score = 3": "score = 12"}),
            Mistake("QST-10.9i", {"visible = 440": "visible = 800"}),
            Mistake("QST-10.9j", {"visible = 440": "visible = 360"}),
            Mistake("QST-10.9k", {"visible = 440": "visible = 110"}),
            Mistake("QST-10.9l", {"visible = 440": "visible = 55"}),
            Mistake("QST-10.9m", {"[1, 1, 1, 0, 0]": "[0, 0, 1, 1, 1]"}),
            Mistake("QST-10.9n", {"[1, 1, 1, 0, 0]": "[0, 0, 1, 0, 0]"}),
            Mistake("QST-10.9o", {"[1, 1, 1, 0, 0]": "[1, 1, 0, 0, 0]"}),
            Mistake("QST-10.9p", {"[-1, 3]": "[-1, 1]"}),
            Mistake("QST-10.9q", {"[-1, 3]": "[-2, 2]"}),
            Mistake("QST-10.9r", {"[-1, 3]": "[1 - 2 ** 0.5, 1 + 2 ** 0.5]"}),
            Mistake("QST-10.9s", {"still = 13": "still = 7"}),
            Mistake("QST-10.9t", {"still = 13": "still = 6"}),
            Mistake("QST-10.9u", {"still = 13": "still = 12"}),
            Mistake("QST-10.9v", {"still = 13": "still = 14"}),
            Mistake("QST-10.9w", {"parameters = 510": "parameters = 456"}),
            Mistake("QST-10.9x", {"parameters = 510": "parameters = 468"}),
            Mistake("QST-10.9y", {"parameters = 510": "parameters = 486"}),
            Mistake("QST-10.9z", {"parameters = 510": "parameters = 678"}),
        )),
    Exercise(
        "15.4", minutes=15, lines=9, kind="question",
        solution=models_and_tasks, reference=run_models, outputs=answers(8),
        mistakes=(
            Mistake("QST-15.4a", {"[25, 15, 20]": "[25, 10, 20]"}),
            Mistake("QST-15.4b", {"[25, 15, 20]": "[25, 15, 30]"}),
            Mistake("QST-15.4c", {"[25, 15, 20]": "[15, 25, 20]"}),
            Mistake("QST-15.4d", {"[25, 15, 20]": "[25, 15, 14]"}),
            Mistake("QST-15.4e", {"mean = 3": "mean = 5"}),
            Mistake("QST-15.4f", {"mean = 3": "mean = 2"}),
            Mistake("QST-15.4g", {"patches = 10": "patches = 9"}),
            Mistake("QST-15.4h", {"patches = 10": "patches = 37"}),
            Mistake("QST-15.4i", {"patches = 10": "patches = 4"}),
            Mistake("QST-15.4j", {"targets = 4": "targets = 3"}),
            Mistake("QST-15.4k", {"targets = 4": "targets = 5"}),
            Mistake("QST-15.4l", {"targets = 4": "targets = 6"}),
            Mistake("QST-15.4m", {"times_as_likely = 16": "times_as_likely = 8"}),
            Mistake("QST-15.4n", {"times_as_likely = 16": "times_as_likely = 2"}),
            Mistake("QST-15.4o", {"times_as_likely = 16": "times_as_likely = 4"}),
            Mistake("QST-15.4p", {"greedy = 0.2\n": "greedy = 0.25\n"}),
            Mistake("QST-15.4q", {"greedy = 0.2\n": "greedy = 0.9\n"}),
            Mistake("QST-15.4r", {"greedy = 0.2\n": "greedy = 0.4\n"}),
            Mistake("QST-15.4s", {"beam = 0.245": "beam = 0.2"}),
            Mistake("QST-15.4t", {"beam = 0.245": "beam = 0.4"}),
            Mistake("QST-15.4u", {"beam = 0.245": "beam = 0.25"}),
            Mistake("QST-15.4v", {"places = 27": "places = 30"}),
            Mistake("QST-15.4w", {"places = 27": "places = 24"}),
            Mistake("QST-15.4x", {"places = 27": "places = 200"}),
        )),
    Exercise(
        "21.3", minutes=15, lines=9, kind="question",
        solution=decoders_of_today, reference=run_decoders, outputs=answers(8),
        mistakes=(
            Mistake("QST-21.3a", {"position = 14": "position = 0"}),
            Mistake("QST-21.3b", {"position = 14": "position = 6"}),
            Mistake("QST-21.3c", {"position = 14": "position = 7"}),
            Mistake("QST-21.3d", {"cached = 19200": "cached = 76800"}),
            Mistake("QST-21.3e", {"cached = 19200": "cached = 9600"}),
            Mistake("QST-21.3f", {"cached = 19200": "cached = 6400"}),
            Mistake("QST-21.3g", {"1 + 2 * np.exp(-3)": "3"}),
            Mistake("QST-21.3h", {"1 + 2 * np.exp(-3)": "2 + np.exp(3)"}),
            Mistake("QST-21.3i", {"1 + 2 * np.exp(-3)": "1 + 2 * np.exp(3)"}),
            Mistake("QST-21.3j", {"1 + 2 * np.exp(-3)": "1 + np.exp(-3)"}),
            Mistake("QST-21.3k", {"decayed = 3.8": "decayed = 3.9"}),
            Mistake("QST-21.3l", {"decayed = 3.8": "decayed = 4"}),
            Mistake("QST-21.3m", {"decayed = 3.8": "decayed = 2"}),
            Mistake("QST-21.3n", {"factor = 0.5": "factor = 6.5 / 17"}),
            Mistake("QST-21.3o", {"factor = 0.5": "factor = 1"}),
            Mistake("QST-21.3p", {"factor = 0.5": "factor = 6.5 / 169"}),
            Mistake("QST-21.3q", {"sent = 1500": "sent = 750"}),
            Mistake("QST-21.3r", {"sent = 1500": "sent = 2000"}),
            Mistake("QST-21.3s", {"sent = 1500": "sent = 6000"}),
            Mistake("QST-21.3t", {"state = 250": "state = 125"}),
            Mistake("QST-21.3u", {"state = 250": "state = 2000"}),
            Mistake("QST-21.3v", {"state = 250": "state = 500"}),
            Mistake("QST-21.3w", {"trained = 200": "trained = 800"}),
            Mistake("QST-21.3x", {"trained = 200": "trained = 600"}),
            Mistake("QST-21.3y", {"trained = 200": "trained = 230"}),
        )),
    Exercise(
        "28.4", minutes=15, lines=9, kind="question",
        solution=since_2017, reference=run_since_2017, outputs=answers(8),
        mistakes=(
            Mistake("QST-28.4a", {"inputs_seen = 11": "inputs_seen = 10"}),
            Mistake("QST-28.4b", {"inputs_seen = 11": "inputs_seen = 14"}),
            Mistake("QST-28.4c", {"inputs_seen = 11": "inputs_seen = 16"}),
            Mistake("QST-28.4d", {"output = 3": "output = 36"}),
            Mistake("QST-28.4e", {"output = 3": "output = 4.5"}),
            Mistake("QST-28.4f", {"output = 3": "output = (6 * np.exp(2) + 2) / (np.exp(2) + np.exp(1) + 1)"}),
            Mistake("QST-28.4g", {"cached = 14400": "cached = 4800"}),
            Mistake("QST-28.4h", {"cached = 14400": "cached = 12000"}),
            Mistake("QST-28.4i", {"cached = 14400": "cached = 31200"}),
            Mistake("QST-28.4j", {"cached = 14400": "cached = 28800"}),
            Mistake("QST-28.4k", {"[-0.2, 0.8]": "[-0.35, 0.65]"}),
            Mistake("QST-28.4l", {"[-0.2, 0.8]": "[-0.5, 0.5]"}),
            Mistake("QST-28.4m", {"[-0.2, 0.8]": "[0.3, 0.3]"}),
            Mistake("QST-28.4n", {"[-0.2, 0.8]": "[0.1, 1.1]"}),
            Mistake("QST-28.4o", {"np.array([-1.5, 1.5, 0, 0])": "np.array([3, 3, 0, 0])"}),
            Mistake("QST-28.4p", {"np.array([-1.5, 1.5, 0, 0])": "np.array([-0.75, 0.75, 0, 0])"}),
            Mistake("QST-28.4q", {"np.array([-1.5, 1.5, 0, 0])":
                                  "np.array([12, 4, 2, 1]) * (np.array([4, 12, 8, 16]) - 128 / 19) / 19"}),
            Mistake("QST-28.4r", {"[0.005, 0.02, 0.25]": "[0.005, 0.005, 0.25]"}),
            Mistake("QST-28.4s", {"[0.005, 0.02, 0.25]": "[0.01, 0.02, 0.25]"}),
            Mistake("QST-28.4t", {"[0.005, 0.02, 0.25]": "[0.005, 0.02, 0.5]"}),
            Mistake("QST-28.4u", {"[0.4, -1.4, 0.4, 0]": "[2, -7, 2, 0]"}),
            Mistake("QST-28.4v", {"[0.4, -1.4, 0.4, 0]": "[0.4, -1.4, 0.2, 0]"}),
            Mistake("QST-28.4w", {"[0.4, -1.4, 0.4, 0]": "[0.525, -1.4, 0.35, 0]"}),
            Mistake("QST-28.4x", {"tokens = 1.96": "tokens = 0.96"}),
            Mistake("QST-28.4y", {"tokens = 1.96": "tokens = 2.2"}),
            Mistake("QST-28.4z", {"tokens = 1.96": "tokens = 1.56"}),
        )),
]
