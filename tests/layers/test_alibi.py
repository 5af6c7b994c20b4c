"""ALiBi, and with it the tables of names: a new kind of positions, norm, feed-forward layer or attention is one new file."""

import numpy as np
import pytest
from helpers.quick import quick

import numpy_transformer as nt
from numpy_transformer.explorer.document import make_document
from numpy_transformer.layers.alibi import slopes
from numpy_transformer.layers.attention import ATTENTIONS, AttentionSizes, with_score_changes
from numpy_transformer.layers.feed_forward import FEED_FORWARDS
from numpy_transformer.layers.normalization import NORMS
from numpy_transformer.layers.positions import POSITIONS
from numpy_transformer.models.parts import place_in_attention

IDS = np.random.default_rng(0).integers(0, 9, (2, 6))


def language_model(**settings):
    return nt.CausalLanguageModel(9, 12, 3, 2, d_ff=16, max_len=8, rng=0, **settings).astype(np.float64)


@pytest.mark.parametrize("heads, wanted", [
    (1, [2 ** -8]), (2, [2 ** -4, 2 ** -8]), (8, [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]),
    (3, [2 ** -4, 2 ** -8, 2 ** -2]),
    (12, [*(2 ** -n for n in range(1, 9)), 2 ** -0.5, 2 ** -1.5, 2 ** -2.5, 2 ** -3.5])])
def test_the_slopes_are_those_of_the_paper_and_of_its_code(heads, wanted):
    np.testing.assert_allclose(slopes(heads), wanted, rtol=1e-14)


def test_near_keys_lose_less_and_the_queries_are_the_last_tokens():
    bias = nt.ALiBi(2).astype(np.float64)
    distance = np.array([[0, 1, 2, 3], [1, 0, 1, 2], [2, 1, 0, 1], [3, 2, 1, 0]])
    np.testing.assert_array_equal(bias(4, 4), [-distance / 16, -distance / 256])
    np.testing.assert_array_equal(bias(2, 4), bias(4, 4)[:, 2:])
    padded = bias(1, 4, np.array([[0, 0, 0, 1], [0, 1, 2, 3]]))             # the first text begins with two pads
    np.testing.assert_array_equal(padded[:, 0, 0], [[-1 / 16, -1 / 16, -1 / 16, 0], [-3 / 16, -2 / 16, -1 / 16, 0]])
    with pytest.raises(ValueError, match="5 queries and 4 tokens"):
        bias(5, 4)


def test_a_model_reads_texts_longer_than_any_that_it_was_made_for():
    """Its scores depend on distances alone, so the logits of a shifted text stay the same."""
    model = language_model(positions="alibi").eval()
    assert model.positions is None and not any("positions" in name for name, _ in model.named_parameters())
    model.max_len = 100
    long = np.random.default_rng(1).integers(0, 9, 50)
    shown = model(long)
    with nt.token_positions(np.arange(7, 13)):
        moved = model.decoder(model.embedding(IDS), nt.causal_mask(6))
    np.testing.assert_allclose(moved, model.decoder(model.embedding(IDS), nt.causal_mask(6)), atol=1e-12)
    assert shown.shape == (50, 9) and np.isfinite(shown).all()


def test_attention_that_holds_no_scores_is_refused():
    with pytest.raises(ValueError, match="FlashAttention has no scores that PositionBias could change"):
        language_model(positions="alibi", attention="flash")
    with pytest.raises(ValueError, match="for 4 heads"):
        nt.PositionBias(nt.ALiBi(4))(np.ones((2, 3, 5, 6)))


def test_scores_of_an_attention_s_own_get_the_bias_but_cannot_be_left_unscaled():
    """The class that leaves the scores unscaled would lose them without an error."""
    rng = np.random.default_rng(2)
    q, k, v = rng.standard_normal((3, 2, 3, 5, 6))
    bias = nt.ALiBi(3).astype(np.float64)
    uniform = with_score_changes(Uniform(0.0, None), nt.PositionBias(bias))
    weights = np.exp(bias(5, 5)) / np.exp(bias(5, 5)).sum(-1, keepdims=True)
    np.testing.assert_allclose(uniform(q, k, v), weights @ v, rtol=1e-12)
    with pytest.raises(ValueError, match="Uniform has no plain scores that could be left unscaled"):
        language_model(positions="relative", attention=lambda sizes, rng: Uniform(sizes.dropout, rng))


def test_the_explorer_shows_it_with_formulas():
    model = language_model(positions="alibi")
    document = make_document(model, IDS, IDS)
    ops = {op["id"]: op for op in document["ops"]}
    bias = ops["decoder.blocks.0.attention.attention.score_changes.0.position_bias"]
    assert bias["class"] == "ALiBi" and "slope_2" in str(document["formulas"][bias["formulas"]["y"]])
    scores = ops["decoder.blocks.0.attention.attention.scores"]
    assert list(scores["inputs"]) == ["q", "k"] and {"y", "dq", "dk"} <= scores["lines"].keys()


class Halved(nt.Module):
    """A norm, a feed-forward layer and positions of somebody else: y = x / 2."""

    place = "embeddings"

    def __init__(self, *arguments, **named):
        pass

    @classmethod
    def of_sizes(cls, sizes, rng):
        assert (sizes.d_model, sizes.num_heads, sizes.d_head, sizes.max_len, sizes.causal) == (12, 3, 4, 8, True)
        return cls()

    def forward(self, x, positions=None):
        self.remember()
        return x / 2

    def backward(self, dy):
        self.recall()
        return dy / 2


class Uniform(nt.ScaledDotProductAttention):
    """All scores are 0."""

    def score(self, q, k):
        return super().score(q, k) * 0

    def score_backward(self, dscores):
        return super().score_backward(dscores * 0)


@pytest.mark.parametrize("table, setting", quick(1, [
    (ATTENTIONS, "attention"), (NORMS, "norm_layer"), (FEED_FORWARDS, "activation"), (POSITIONS, "positions")]))
def test_a_new_part_is_one_name_in_a_table_and_no_new_argument(table, setting, monkeypatch):
    new = (lambda sizes, rng: Uniform(sizes.dropout, rng)) if setting == "attention" else Halved
    monkeypatch.setitem(table, "mine", new)
    model = language_model(**{setting: "mine"})
    kinds = [type(part) for _, part in model.named_modules()]
    assert (Uniform if setting == "attention" else Halved) in kinds
    report = nt.gradcheck(model, IDS, np.arange(6) >= np.array([[2], [0]]), directions=2)
    assert report.ok, str(report)
    cache = nt.KeyValueCache()
    parts = [model.eval()(IDS[:, t:t + 1], cache=cache) for t in range(6)]
    np.testing.assert_allclose(np.concatenate(parts, 1), model(IDS), atol=1e-12)
    with pytest.raises(ValueError, match="'mine'"):
        language_model(**{setting: "another"})


def test_a_component_may_be_handed_in_instead_of_a_name():
    rotary = nt.RotaryEmbedding(4, base=50.0, interleaved=False)
    model = language_model(positions=rotary)
    assert all(block.attention.rotary is rotary for block in model.decoder.blocks)


class OwnCap(nt.Module):
    """y = c tanh(scores / c), as in Gemma 2: no score is larger than the cap c."""

    def __init__(self, cap):
        self.cap = cap

    def forward(self, scores):
        y = self.cap * np.tanh(scores / self.cap)
        self.remember(y)
        return y

    def backward(self, dy):
        return dy * (1 - (self.recall() / self.cap) ** 2)


@pytest.fixture(params=[nt.ScaledDotProductAttention, nt.GroupedAttention])
def capped(request, monkeypatch):
    """Makes a language model with capped scores, ALiBi and grouped heads. One entry of a table is all that it needs."""
    monkeypatch.setitem(ATTENTIONS, "capped",
                        lambda sizes, rng: with_score_changes(request.param(sizes.dropout, rng), OwnCap(0.3)))

    def make(attention="capped", **settings):
        model = nt.CausalLanguageModel(9, 16, 4, 2, d_ff=16, num_kv_heads=2, max_len=8, attention=attention, **settings)
        rng = np.random.default_rng(1)
        for parameter in model.astype(np.float64).parameters():
            parameter.data = rng.standard_normal(parameter.data.shape) / 2      # scores that the cap changes
        return model
    return make


def test_capped_scores_are_those_of_the_formula_and_meet_bias_and_mask(capped):
    """The formula is written out for one query after another."""
    model = capped(positions="alibi").eval()
    attention = model.decoder.blocks[0].attention.attention
    rng = np.random.default_rng(3)
    q, k, v = rng.standard_normal((1, 4, 5, 6)), rng.standard_normal((1, 2, 5, 6)), rng.standard_normal((1, 2, 5, 3))
    y = attention(q, k, v, nt.causal_mask(5))
    for h, t in np.ndindex(4, 5):
        scores = [0.3 * np.tanh(q[0, h, t] @ k[0, h // 2, s] / 6 ** 0.5 / 0.3) - 0.25 ** (h + 1) * (t - s) for s in range(t + 1)]
        wanted = np.exp(scores) @ v[0, h // 2, :t + 1] / np.exp(scores).sum()
        np.testing.assert_allclose(y[0, h, t], wanted, rtol=1e-12)


@pytest.mark.parametrize("positions", quick(1, ["alibi", "rotary", "learned"]))
def test_a_score_change_needs_one_class_and_one_name_in_a_table(capped, positions):
    model = capped(positions=positions)
    assert repr(model).count("score_changes.0: OwnCap(cap=0.3)") == 1          # the two blocks share a line
    padding = np.arange(6) >= np.array([[2], [0]])
    report = nt.gradcheck(model, IDS, padding, directions=2)
    assert report.ok, str(report)
    model.eval()
    np.testing.assert_allclose(model(IDS, padding)[0, 2:], model(IDS[0, 2:]), atol=1e-12)
    cache = nt.KeyValueCache()
    parts = [model(IDS[:, t:t + 2], padding[:, t:t + 2], cache) for t in (0, 2, 4)]
    np.testing.assert_allclose(np.concatenate(parts, 1), model(IDS, padding), atol=1e-12)
    assert abs(capped("plain", positions=positions).eval()(IDS, padding) - model(IDS, padding)).max() > 0.1


def test_the_explorer_shows_a_score_change_as_a_component_of_its_own(capped):
    document = make_document(capped(positions="alibi"), IDS, IDS)
    ops = {op["id"]: op for op in document["ops"]}
    group = "decoder.blocks.0.attention.attention"
    chain = [f"{group}.{name}" for name in ("scores", "score_changes.0", "score_changes.1.add", "mask", "softmax")]
    for before, after in zip(chain, chain[1:]):
        assert f"{before}:y" in ops[after]["inputs"].values()
    assert ops[chain[1]]["class"] == "OwnCap" and ops[chain[1]]["formulas"] == {}          # it brings none
    assert not any(op["kind"] == "own code" for op in ops.values())
    values = {value["id"]: value for value in document["values"]}
    assert not any("mismatch" in value for value in values.values())


class Sharpness(nt.Module):
    """y_h = a_h scores_h, with a learned number for each head."""

    def __init__(self, num_heads):
        self.a = nt.Parameter(np.linspace(0.5, 2, num_heads))

    def forward(self, scores):
        self.remember(scores)
        return self.a.data[:, None, None] * scores

    def backward(self, dy):
        scores = self.recall()
        self.a.grad += (dy * scores).sum((0, 2, 3))
        return self.a.data[:, None, None] * dy


@pytest.mark.slow
def test_an_attention_is_told_the_sizes_of_its_block():
    seen = []

    def sharpened(sizes, rng):
        seen.append(sizes)
        return with_score_changes(nt.GroupedAttention(sizes.dropout, rng), Sharpness(sizes.num_heads))

    model = nt.CausalLanguageModel(9, 24, 4, 2, d_ff=16, num_kv_heads=2, d_head=5, dropout=0.2, attention=sharpened, rng=0)
    assert seen == [AttentionSizes(num_heads=4, num_kv_heads=2, d_head=5, dropout=0.2)] * 2
    assert sum("score_changes.0.a" in name for name, _ in model.named_parameters()) == 2
    report = nt.gradcheck(model.astype(np.float64).eval(remember=True), IDS, directions=2)
    assert report.ok, str(report)


def test_attention_may_be_a_function():
    model = language_model(attention=lambda sizes, rng: nt.GroupedAttention(sizes.dropout, rng))
    assert [type(block.attention.attention) for block in model.decoder.blocks] == [nt.GroupedAttention] * 2
    np.testing.assert_allclose(model.eval()(IDS), language_model().eval()(IDS), atol=1e-12)
    with pytest.raises(ValueError, match="attention = 'none'"):
        language_model(attention="none")


def test_relative_positions_replace_those_that_stand_in_attention_already():
    model = language_model(positions="alibi")
    place_in_attention(nt.RelativePositionBias(3, rng=0), model.decoder)
    for block in model.decoder.blocks:
        (change,) = block.attention.attention.score_changes
        assert isinstance(change.position_bias, nt.RelativePositionBias)
        assert isinstance(block.attention.attention, nt.UnscaledAttention)
