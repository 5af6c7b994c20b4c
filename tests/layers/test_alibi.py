"""ALiBi, and with it the tables of names: a new kind of positions, norm, feed-forward layer or attention is one new file."""

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer.explorer.document import make_document
from numpy_transformer.layers.alibi import slopes
from numpy_transformer.layers.feed_forward import FEED_FORWARDS
from numpy_transformer.layers.flash import ATTENTIONS
from numpy_transformer.layers.normalization import NORMS
from numpy_transformer.layers.positions import POSITIONS

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
    with pytest.raises(ValueError, match="FlashAttention has no plain scores that ALiBi could be added to"):
        language_model(positions="alibi", attention="flash")
    with pytest.raises(ValueError, match="for 4 heads"):
        nt.BiasedAttention(nt.ALiBi(4))(*np.ones((3, 2, 3, 5, 6)))


def test_attention_with_scores_of_its_own_is_refused():
    """Its scores would be lost without an error, because the bias is added to the plain ones."""
    class Capped(nt.ScaledDotProductAttention):
        def score(self, q, k):
            return np.tanh(super().score(q, k))

    with pytest.raises(ValueError, match="Capped has no plain scores that ALiBi could be added to"):
        nt.ALiBi.biased(Capped(), nt.ALiBi(2))
    assert nt.ALiBi.biased(nt.GroupedAttention(), nt.ALiBi(2)).position_bias.num_heads == 2
    assert nt.ALiBi.biased(nt.UnscaledAttention(nt.RelativePositionBias(2)), nt.ALiBi(2)).position_bias.num_heads == 2


def test_the_explorer_shows_it_with_formulas():
    model = language_model(positions="alibi")
    document = make_document(model, IDS, IDS)
    ops = {op["id"]: op for op in document["ops"]}
    bias = ops["decoder.blocks.0.attention.attention.position_bias"]
    assert bias["class"] == "ALiBi" and "slope_2" in str(document["formulas"][bias["formulas"]["y"]])
    scores = ops["decoder.blocks.0.attention.attention.scores"]
    assert "b" in scores["inputs"] and {"y", "dq", "dk"} <= scores["lines"].keys()


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


@pytest.mark.parametrize("table, setting", [
    (NORMS, "norm_layer"), (FEED_FORWARDS, "activation"), (POSITIONS, "positions"), (ATTENTIONS, "attention")])
def test_a_new_part_is_one_name_in_a_table_and_no_new_argument(table, setting, monkeypatch):
    new = (lambda dropout, rng: Uniform(dropout, rng)) if setting == "attention" else Halved
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
