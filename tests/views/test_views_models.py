import itertools

import numpy as np
import pytest
from helpers import composed
from helpers.quick import quick
from matplotlib.backends.backend_agg import FigureCanvasAgg

import numpy_transformer as nt
from numpy_transformer.layers.attention import with_score_changes
from numpy_transformer.layers.gated_attention import gate_heads
from numpy_transformer.layers.normed_linear import norm_queries_and_keys
from numpy_transformer.views.architecture import architecture
from numpy_transformer.views.backward import attention_backward, block_gradient_norms, gradient_norms, xray
from numpy_transformer.views.save import save
from numpy_transformer.views.step_plots import memory_growth, schedules, step_sizes

LLAMA = {"norm_layer": "rms", "activation": "swiglu", "positions": "rotary", "num_kv_heads": 2, "bias": False}


def seq2seq(**options):
    return nt.make_model(11, 11, N=2, d_model=16, d_ff=32, h=2, rng=0, **options)


def language_model(**options):
    return nt.CausalLanguageModel(13, 24, 4, 2, max_len=9, rng=0, **options)


def with_experts():
    """A language model with two mixtures: balanced and plain experts, and different ones with a shared one."""
    model = language_model()
    first, second = model.decoder.blocks
    first.feed_forward = nt.MixtureOfExperts(nt.BalancedRouter(nt.Router(24, 4, 2)), [nt.SwiGLU(24, 10) for _ in range(4)])
    second.feed_forward = nt.MixtureOfExperts(nt.SigmoidRouter(24, 3, 1, 2.5), [
        nt.SwiGLU(24, 10), nt.SwiGLU(24, 10), nt.FeedForward(24, 7)], nt.FeedForward(24, 8))
    return model


def texts(model):
    return [text.get_text() for text in architecture(model).axes[0].texts if text.get_text()]


def heights(model):
    """{text: how high it stands, the lowest first}."""
    found = {}
    for text in architecture(model).axes[0].texts:
        found.setdefault(text.get_text(), []).append(text.get_position()[1])
    return {text: sorted(places) for text, places in found.items()}


class Parallel(nt.EncoderBlock):
    """Its parts are a block's, its forward is not."""

    def forward(self, x, mask=None):
        y = self.norm1(x)
        return x + self.attention(y, mask) + self.feed_forward(y)


class Tower(nt.Module):
    def __init__(self, *blocks):
        self.token = nt.Parameter(np.zeros((1, 12)))
        self.blocks = list(blocks)

    def forward(self, image):
        return image

    def backward(self, dy):
        return dy


def gated_model():
    model = language_model(**LLAMA)
    for block in model.decoder.blocks:
        norm_queries_and_keys(block.attention, *(nt.PerHead(nt.RMSNorm(6)) for _ in range(2)))
        with_score_changes(block.attention.attention, nt.SoftCap(50.0))
        block.attention = gate_heads(block.attention, 0)
    model.output = nt.Sequential(model.output, nt.SoftCap(30.0))
    return model


def parallel_block():
    return nt.ParallelBlock(nt.SelfAttention(12, 3, rng=0), nt.FeedForward(12, 20, rng=0), nt.RMSNorm(12), nt.RMSNorm(12))


MODELS = {"paper": lambda: seq2seq(norm="post", tie_weights=True), "llama": lambda: language_model(**LLAMA),
          "decoder": lambda: nt.Decoder(2, 12, 3, 20, cross_attention=True, rng=0),
          "block": lambda: nt.EncoderBlock(12, 3, 20, rng=0), "SwiGLU": lambda: nt.SwiGLU(12, 20, rng=0),
          "attention": lambda: nt.MultiHeadAttention(12, 2, rotary=nt.RotaryEmbedding(6), rng=0),
          "gates and norms": gated_model, "gated attention": lambda: gate_heads(nt.SelfAttention(12, 3, rng=0)),
          "parallel": parallel_block, "parallel stack": lambda: nt.Stack([parallel_block(), parallel_block()]),
          "Linear": lambda: nt.Linear(3, 4, rng=0), "experts": lambda: with_experts(), "own": lambda: Tower(Parallel(12, 3, 20, rng=0))}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_texts_of_an_architecture_overlap_neither_each_other_nor_an_edge(name):
    figure = architecture(MODELS[name]())
    renderer = FigureCanvasAgg(figure).get_renderer()
    texts = [text.get_window_extent(renderer).padded(-1.5) for text in figure.axes[0].texts if text.get_text()]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(texts, 2))
    frames = [figure.bbox, *(patch.get_window_extent(renderer) for patch in figure.axes[0].patches)]
    for text, frame in itertools.product(texts, frames):
        inside = frame.x0 < text.x0 and text.x1 < frame.x1 and frame.y0 < text.y0 and text.y1 < frame.y1
        assert inside or frame is not figure.bbox and not frame.overlaps(text)


def test_a_mixture_of_experts_is_one_box_that_counts_equal_experts():
    shown = texts(with_experts())
    places = [n for n, text in enumerate(shown) if text == "MixtureOfExperts"]
    first, second = (shown[n + 1:shown.index("+", n)] for n in places)
    assert first == ["2,976", "router: BalancedRouter of a Router, 2 of 4", "linear (24, 4), no bias", "4 × SwiGLU, 720 each;  SiLU",
                     "gate, up (24, 10), no bias", "down (10, 24), no bias"]
    assert second == ["2,298", "router: SigmoidRouter, 1 of 3", "linear (24, 3), no bias", "2 × SwiGLU, 720 each;  SiLU",
                      "gate, up (24, 10), no bias", "down (10, 24), no bias", "1 × FeedForward, 367;  ReLU;  up (24, 7)",
                      "down (7, 24)", "shared: FeedForward;  ReLU;  up (24, 8)", "down (8, 24)"]


def test_an_architecture_shows_the_names_and_counts_of_its_model():
    model = seq2seq()
    shown = texts(model)
    assert f"EncoderDecoder: {model.num_parameters():,} parameters" in shown
    for part in (model.encoder, model.decoder, model.output, model.encoder.norm, model.encoder.blocks[0].attention,
                 model.decoder.blocks[0].feed_forward):
        assert f"{part.num_parameters():,}" in shown
    for block in (model.encoder.blocks[0], model.decoder.blocks[0]):
        assert f"{block.num_parameters():,} each" in shown
    assert [shown.count(name) for name in ("attention", "cross_attention", "feed_forward", "× 2")] == [2, 1, 2, 2]
    assert [shown.count(name) for name in ("norm1", "norm2", "norm3", "norm", "+")] == [2, 2, 1, 2, 5]
    assert shown.count("query, key, value, output (16, 16)") == 3 and "ReLU;  up (16, 32);  down (32, 16)" in shown
    assert {"source", "target", "logits", "memory", "blocks.0-1"} <= set(shown)


@pytest.mark.slow
def test_the_encoder_stands_left_and_inputs_below():
    places = {text.get_text(): text.get_position() for text in architecture(seq2seq()).axes[0].texts}
    assert places["encoder"][0] < places["decoder"][0] and places["source"][0] < places["target"][0]
    column = ["target", "target_embedding", "target_positions", "decoder", "output", "logits"]
    assert column == sorted(column, key=lambda name: places[name][1])

def test_latent_attention_has_three_ways_side_by_side_from_x_to_the_scores():
    model = nt.LatentAttention(12, 3, 8, 5, 4, rotary=nt.RotaryEmbedding(4), rng=0)
    texts = [(text.get_text(), *text.get_position()) for text in architecture(model).axes[0].texts]
    x = {name: left for name, left, _ in texts}
    y = {name: height for name, _, height in texts}
    assert x["query"] < x["down"] == x["norm"] == x["up"] < x["rotary_key"]
    assert y["query"] == y["down"] == y["rotary_key"] < y["norm"] < y["up"] < y["attention"] < y["output"]
    assert sorted(left for name, left, _ in texts if name == "rotary") == [x["query"], x["rotary_key"]]
    assert sum(name == "x" for name, _, _ in texts) == 3


@pytest.mark.slow
@pytest.mark.parametrize("cross_attention", quick(1, [True, False]))
def test_the_norm_is_drawn_where_forward_applies_it(cross_attention):
    model = nt.DecoderBlock(12, 3, 20, cross_attention=cross_attention, rng=0)
    sublayers = ["attention", *["cross_attention"] * cross_attention, "feed_forward"]
    for model.pre_norm in (True, False):
        found = heights(model)
        norm = "pre-norm" if model.pre_norm else "post-norm"
        assert f"DecoderBlock, {norm}: {model.num_parameters():,} parameters" in found
        assert len(found["+"]) == len(sublayers)
        for n, (name, sum_) in enumerate(zip(sublayers, found["+"]), 1):
            order = [found[f"norm{n}"][0], found[name][0], sum_]
            assert order == sorted(order) if model.pre_norm else order[1:] + order[:1] == sorted(order)


def test_norms_caps_and_gates_are_named_with_the_linears_that_have_them():
    lines = texts(gated_model())
    for words in ("GatedSelfAttention", "RMSNorm per head of query, key", "SoftCap", "query, gate, output (24, 24)",
                  "key, value (24, 12)"):
        assert any(words in line for line in lines), words
    assert not [line for line in lines if "linear" in line]


@pytest.mark.parametrize("build, sign", [(parallel_block, "+"), (lambda: gate_heads(nt.SelfAttention(12, 3, rng=0)), "×")])
def test_one_input_is_led_to_both_columns_whose_results_meet(build, sign):
    axes = architecture(build()).axes[0]
    (x, y), *sum_with_x = sorted(text.get_position() for text in axes.texts if text.get_text() == sign)
    assert len(sum_with_x) == (sign == "+") and all(above[0] == x and above[1] > y for above in sum_with_x)
    joined = [line for line in axes.lines if len(line.get_xdata()) == 3 and line.get_ydata()[-1] == y]
    assert sorted(line.get_xdata()[0] < x for line in joined) == [False, True]
    forks = [line for line in axes.lines if len(line.get_xdata()) == 4 and line.get_ydata()[0] < line.get_ydata()[-1] < y]
    assert sorted(line.get_xdata()[-1] for line in forks) == sorted(line.get_xdata()[0] for line in joined)
    assert len({line.get_xdata()[0] for line in forks}) == 1 and not any(line.get_linestyle() == ":" for line in axes.lines)


def test_the_sum_of_a_parallel_block_shows_all_three_of_its_terms():
    """Attention and feed-forward meet in the lower sum; an arrow leads from it to the upper one, and x to it from the right."""
    axes = architecture(parallel_block()).axes[0]
    (x, lower), (_, upper) = sorted(text.get_position() for text in axes.texts if text.get_text() == "+")
    ends = [(line.get_xdata()[-1], line.get_ydata()[-1]) for line in axes.lines]
    assert sorted(np.sign(end - x) for end, height in ends if height == lower) == [-1, 1]
    assert [np.sign(end - x) for end, height in ends if height == upper] == [1]
    assert sum(end == x and lower < height < upper for end, height in ends) == 1


@pytest.mark.parametrize("name, wanted, unwanted", [
    ("pythia", ["PartialRotary, 2 of 8 features, base 10,000"], ["pre-norm"]),
    ("gemma3", ["SelfAttention, 2 heads, 1 key/value head", "RotaryEmbedding, base 1,000,000", "RotaryEmbedding, base 10,000",
                "SlidingWindow, window 4"], ["key/value heads"]),
    ("gemma2", ["SoftCap, cap 50;  SlidingWindow, window 4", "SoftCap, cap 30"], []),
    ("gpt-oss", ["ScaledRotary, factor 1.35, scaled frequencies", "4 × ClampedSwiGLU, limit 7, 1,216 each"], []),
    ("olmo2", ["Block, norm after each sublayer", "RMSNorm of query, key, output"], ["Identity", "norm1", "pre-norm"]),
    ("deepseek-v3", ["RMSNorm of query.0", "query.0 (16, 12), no bias", "query.1 (12, 24), no bias"], []),
    ("modernbert", ["SymmetricWindow, window 3", "Block, pre-norm"], ["Identity"])])
def test_a_preset_shows_what_distinguishes_it(name, wanted, unwanted):
    shown = texts(nt.preset(name, rng=0))
    notes = "\n".join(shown)
    assert all(text in notes for text in wanted), notes
    assert not any(text in notes for text in unwanted), notes


def test_a_masked_model_has_arrows_and_one_whose_segments_are_added_has_dots():
    modern, bert = nt.preset("modernbert", rng=0), nt.MaskedLanguageModel(9, 8, 2, 1, rng=0)
    assert {line.get_linestyle() for line in architecture(modern).axes[0].lines} == {"-"}
    assert ":" in {line.get_linestyle() for line in architecture(bert).axes[0].lines}


def test_each_skip_leads_from_below_its_branch_to_its_sum():
    for norm, lowest in (("pre", "norm1"), ("post", "attention")):
        axes = architecture(nt.EncoderBlock(12, 3, 20, norm=norm, rng=0)).axes[0]
        places = {text.get_text(): text.get_position()[1] for text in axes.texts if text.get_text() != "+"}
        sums = sorted(text.get_position()[1] for text in axes.texts if text.get_text() == "+")
        skips = sorted(line.get_ydata().tolist() for line in axes.lines if len(line.get_xdata()) == 4)
        assert [skip[-1] for skip in skips] == sums
        boxes = [patch.get_bbox() for patch in axes.patches if hasattr(patch, "get_bbox")]
        assert len(boxes) == 4 and not any(box.y0 <= skip[0] <= box.y1 for skip in skips for box in boxes)
        assert places["x"] < skips[0][0] < places[lowest]
        assert sums[0] < skips[1][0] < places["norm2" if norm == "pre" else "feed_forward"]


@pytest.mark.slow
def test_switches_of_the_language_model_show():
    shown = texts(language_model(**LLAMA))
    assert [shown.count(text) for text in ("RMSNorm", "LayerNorm", "SwiGLU", "positions")] == [3, 0, 1, 0]
    everything = "\n".join(shown)
    assert "4 heads, 2 key/value heads" in everything and "RotaryEmbedding" in everything
    assert "key, value (24, 12), no bias" in everything and "gate, up (24, 96), no bias" in everything
    plain = "\n".join(texts(language_model(attention="flash")))
    assert "LayerNorm" in plain and "GELU;  up" in plain and "no bias" not in plain and "FlashAttention" in plain
    assert "LearnedPositionalEmbedding" in plain and f"{9 * 24}" in plain
    assert "fixed table (9, 24)" in "\n".join(texts(language_model(positions="sinusoidal")))
    assert "Embedding, scaled by √24" in texts(language_model(scale_embedding=True)) and "Embedding" in shown


@pytest.mark.slow
def test_what_t5_does_differently_shows():
    shown = texts(composed.t5(11, 11, d_model=12, num_heads=2, num_layers=2, d_ff=16, tie_weights=True, rng=0,
                              output_factor=12 ** -0.5, scale_embedding=False))
    everything = "\n".join(shown)
    assert everything.count("position_bias (32, ") == 4
    assert everything.count("shares encoder.blocks.0.attention.attention.score_changes.0.position_bias.weight") == 1
    assert "Unembedding, scaled by 1/√12" in shown and "scaled by √" not in everything
    assert everything.count("UnscaledAttention") == everything.count("CrossAttention,")


@pytest.mark.slow
def test_what_is_shared_points_to_its_first_name_and_counts_once():
    assert any("shares embedding.weight" in text for text in texts(language_model()))
    untied = texts(language_model(tie_weights=False))
    assert "(24, 13), no bias" in untied and not any("shares" in text for text in untied)
    tied = texts(seq2seq(tie_weights=True))
    assert "same as target_embedding" in tied and tied.count("176") == 1
    assert any("shares target_embedding.weight" in text for text in tied)


@pytest.mark.slow
def test_only_equal_neighbors_are_drawn_once():
    a, b = (nt.EncoderBlock(12, 3, 20, rng=seed) for seed in range(2))
    assert {"blocks.0-1", "× 2"} <= set(texts(Tower(a, b)))
    other = texts(Tower(a, b, nt.EncoderBlock(12, 2, 20, rng=0)))
    assert {"blocks.0-1", "× 2", "blocks.2"} <= set(other) and other.count("attention") == 2
    more = texts(Tower(a, b, nt.EncoderBlock(12, 3, 20, rng=2), nt.EncoderBlock(12, 3, 20, rng=3)))
    assert {"blocks.0-3", "× 4"} <= set(more) and more.count("attention") == 1
    again = texts(Tower(a, a, a))
    assert {"blocks.0", "blocks.1-2", "same as blocks.0"} <= set(again) and again.count("attention") == 1


@pytest.mark.slow
def test_an_unknown_forward_gets_no_arrows_and_no_sums():
    axes = architecture(Parallel(12, 3, 20, rng=0)).axes[0]
    assert "+" not in [text.get_text() for text in axes.texts] and not annotations(axes)
    assert {line.get_linestyle() for line in axes.lines} == {":"}
    known = architecture(nt.EncoderBlock(12, 3, 20, rng=0)).axes[0]
    assert annotations(known) and {line.get_linestyle() for line in known.lines} == {"-"}
    assert {"image", "token", "Parameter", "(1, 12)"} <= set(texts(Tower(nt.Linear(12, 12, rng=0))))


def annotations(axes):
    return [text for text in axes.texts if getattr(text, "arrow_patch", None)]


def attention(*shape, mask=None):
    """What is recorded of the softmax of attention with random q, k, v and dy."""
    rng = np.random.default_rng(0)
    module = nt.ScaledDotProductAttention()
    with nt.record(module) as tape:
        module(*rng.standard_normal((3, *shape, 4)), mask)
        module.backward(rng.standard_normal((*shape, 4)))
    return tape["softmax"]


def marked(axes, sign):
    return {place for line in axes.lines if line.get_marker() == sign for place in zip(*reversed(line.get_data()))}


@pytest.mark.slow
def test_the_backward_picture_shows_weights_and_both_gradients_of_the_first_sequence():
    call = attention(3, 2, 5, mask=nt.causal_mask(5))
    grid = np.reshape(attention_backward(call, "abcde", list("vwxyz")).axes[:6], (2, 3))
    for head, row in enumerate(grid):
        for axes, array in zip(row, (call.output, call.dy, call.gradients[0])):
            np.testing.assert_array_equal(axes.images[0].get_array(), array[0, head])
            assert marked(axes, "x") == {(t, s) for t in range(5) for s in range(t + 1, 5)}
        assert [axes.images[0].get_clim()[0] == -axes.images[0].get_clim()[1] for axes in row] == [False, True, True]
        assert row[0].images[0].get_clim() == (0, 1)
    assert [label.get_text() for label in grid[1, 0].get_yticklabels()] == list("abcde")
    assert [label.get_text() for label in grid[1, 0].get_xticklabels()] == list("vwxyz")
    assert [axes.get_title() for axes in grid[0]] == ["weights", "dL/dweights", "dL/dscores"]


def test_the_backward_picture_takes_one_sequence_and_one_head_and_needs_a_backward():
    for shape, heads in (((2, 5), 2), ((5,), 1)):
        call = attention(*shape)
        figure = attention_backward(call)
        assert len(figure.axes) == 3 * heads + 3 and "hidden" not in figure.get_suptitle()
        np.testing.assert_array_equal(figure.axes[0].images[0].get_array(), call.output.reshape(-1, 5, 5)[0])
    call.dy = None
    with pytest.raises(ValueError, match="the call of 'softmax' had no backward pass"):
        attention_backward(call)
    with pytest.raises(ValueError, match="3 tokens .* for 5 positions"):
        attention_backward(attention(5), "abc")


def test_gradient_norms_of_blocks_are_those_of_the_tape_in_forward_order():
    rng = np.random.default_rng(0)
    model = nt.Encoder(3, 12, 3, 20, norm="post", rng=0).eval(remember=True)
    dy = rng.standard_normal((2, 5, 12))
    with nt.record(model) as tape:
        model(rng.standard_normal((2, 5, 12)))
        model.backward(dy)
    names, norms = block_gradient_norms(tape)
    assert names == ["blocks.0", "blocks.1", "blocks.2"]
    inner = [np.linalg.norm(tape[f"blocks.{n}"].gradients[0]) for n in (1, 2)]
    np.testing.assert_allclose(norms, [*inner, np.linalg.norm(dy)])
    model = seq2seq()
    with nt.record(model) as tape:
        model(*np.ones((2, 1, 5), int))
        model.backward(rng.standard_normal((1, 5, 11)))
        model(*np.ones((2, 1, 5), int))
    names, norms = block_gradient_norms(tape)
    assert names == ["encoder.blocks.0", "encoder.blocks.1", "decoder.blocks.0", "decoder.blocks.1"]
    axes = gradient_norms((names, norms)).axes[0]
    assert [line.get_label() for line in axes.lines] == ["encoder.blocks", "decoder.blocks"]
    np.testing.assert_array_equal([line.get_ydata() for line in axes.lines], np.reshape(norms, (2, 2)))


def test_gradient_norms_count_blocks_from_zero():
    axes = gradient_norms({"pre": [3.0, 2.0, 1.0], "post": [1e-3, 1e-1, 4.0]}).axes[0]
    assert axes.get_yscale() == "log" and axes.get_xlabel() == "block" and [line.get_label() for line in axes.lines] == ["pre", "post"]
    np.testing.assert_array_equal(axes.lines[1].get_data(), [[0, 1, 2], [1e-3, 1e-1, 4.0]])


def test_an_xray_marks_exact_zeros_and_nothing_else():
    tiny = np.tril(np.full((4, 4), 1e-30))
    tiny[3, 0] = 2.0
    wide = np.array([[0.5, 0, 0.25], [0, 1e-3, 0]])
    figure = xray({"causal": tiny, "cross": wide})
    for axes, array in zip(figure.axes, (tiny, wide)):
        np.testing.assert_array_equal(axes.images[0].get_array(), array)
        assert marked(axes, ".") == set(zip(*np.nonzero(array == 0)))
        assert axes.images[0].get_clim() == (2e-6, 2.0)             # one scale for all, six powers of ten at most
    assert [axes.get_title() for axes in figure.axes[:2]] == ["causal", "cross"]
    assert "norm of d output / d input" in figure.axes[-1].get_ylabel()
    assert (figure.get_supxlabel(), figure.get_supylabel()) == ("input position", "output position")
    figure = xray({"cross": wide}, ["le", "chat"], "abc")
    assert (figure.get_supxlabel(), figure.get_supylabel()) == ("input token", "output token")
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["le", "chat"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b", "c"]
    assert len(marked(xray({"nothing": np.zeros((2, 3))}).axes[0], ".")) == 6
    with pytest.raises(ValueError, match="2 tokens .* for 3 positions"):
        xray({"cross": wide}, None, "ab")


def test_curves_of_numbers_are_what_was_given():
    steps, errors = 10.0 ** -np.arange(5), np.array([1, 0.1, 0.01, 0.1, 1])
    axes = step_sizes({"central": (steps, errors), "complex": (steps[:3], errors[:3])}, mark=1e-2).axes[0]
    np.testing.assert_array_equal(axes.lines[0].get_data(), [steps, errors])
    np.testing.assert_array_equal(axes.lines[1].get_data(), [steps[:3], errors[:3]])
    assert axes.get_xscale() == axes.get_yscale() == "log" and axes.get_xlabel() == "step h"
    assert set(axes.lines[2].get_xdata()) == {1e-2} and len(axes.get_legend().get_texts()) == 3
    axes = schedules({"noam": [0.1, 0.3, 0.2]}).axes[0]
    np.testing.assert_array_equal(axes.lines[0].get_data(), [[1, 2, 3], [0.1, 0.3, 0.2]])
    assert axes.get_ylabel() == "learning rate" and axes.get_ylim()[0] <= 0


@pytest.mark.slow
def test_memory_is_in_megabytes_and_shows_its_slope():
    T = [64, 128, 256]
    bent = memory_growth({"bent": (T, [1e6, 2e6, 8e6])}).axes[0]            # slope 1, and then 2
    assert [text.get_text() for text in bent.get_legend().get_texts()] == ["bent: slope 2.00"]
    axes = memory_growth({"plain": (T, [3 * t ** 2 for t in T]), "flash": (T, [500 * t for t in T])}).axes[0]
    np.testing.assert_allclose(axes.lines[0].get_data(), [T, [3e-6 * t ** 2 for t in T]])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["plain: slope 2.00", "flash: slope 1.00"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["64", "128", "256"]
    ratios = [line.get_ydata()[-1] / line.get_ydata()[0] for line in axes.lines[2:]]
    np.testing.assert_allclose(ratios, [4, 16])                     # the grey lines: as T and as T²


@pytest.mark.slow
@pytest.mark.parametrize("draw", [
    lambda: architecture(seq2seq()), lambda: attention_backward(attention(6, mask=np.tri(6, dtype=bool))),
    lambda: gradient_norms({"pre": [1, 2]}), lambda: xray({"a": np.tri(6)}),
    *(pytest.param(draw, marks=pytest.mark.slow) for draw in (
        lambda: step_sizes({"a": ([1, 2], [3, 4])}), lambda: schedules({"a": [1, 2]}),
        lambda: memory_growth({"a": ([1, 2], [3, 4])})))])
def test_every_picture_can_be_written_and_fits_a_slide(draw, tmp_path):
    figure = draw()
    assert 3000 < save(figure, tmp_path, "picture").stat().st_size < 150_000
    assert max(figure.get_size_inches()) < 13


@pytest.mark.slow
def test_an_xray_takes_the_tokens_of_each_panel():
    rays = {"source": np.ones((2, 3)), "target": np.ones((2, 2))}
    outputs = {"source": ["le", "chat"], "target": ["a", "b"]}
    axes = xray(rays, outputs, {"source": list("xyz"), "target": ["c", "d"]}).axes
    for panel, rows, columns in zip(axes, (["le", "chat"], ["a", "b"]), (list("xyz"), ["c", "d"])):
        assert [label.get_text() for label in panel.get_yticklabels()] == rows
        assert [label.get_text() for label in panel.get_xticklabels()] == columns
