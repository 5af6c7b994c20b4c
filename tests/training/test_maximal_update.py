"""muP: initial weights and learning rates of models of several widths, against the table of the paper."""

import math

import numpy as np
import pytest

import numpy_transformer as nt

V, T = 9, 6


def language_model(width, seed=0, heads=2, **settings):
    return nt.CausalLanguageModel(V, width, heads, 1, max_len=T, rng=seed, **settings)


def rms(array):
    return math.sqrt(np.mean(array ** 2))


def factors(model, base):
    known = {id(p): name for name, p in model.named_parameters()}
    return {known[id(p)]: factor for factor, group in nt.mup_groups(model, base).items() for p in group}


@pytest.mark.parametrize("init", ["xavier", "gpt2"])
def test_initial_weights_and_rates_are_those_of_the_table(init):
    """Table 8 of Yang et al. 2022, for a model 4 times as wide as its base: an output with the embedding's matrix."""
    base, model = language_model(16, 1, init=init), language_model(64, init=init)
    before = model.state_dict()
    assert nt.apply_mup(model, base) is model
    rates, small = factors(model, base), dict(base.named_parameters())
    assert len(rates) == len(small)
    for name, p in model.named_parameters():
        hidden = "blocks" in name and p.data.ndim == 2
        assert rates[name] == (1 / 4 if hidden else 1), name
        if p.data.ndim == 2:
            assert math.isclose(rms(p.data), rms(small[name].data) / (2 if hidden else 1), rel_tol=1e-5), name
            assert abs(np.corrcoef(p.data.ravel(), before[name].ravel())[0, 1] - 1) < 1e-6       # only scaled
        else:
            np.testing.assert_array_equal(p.data, before[name])
    assert model.output.factor == 1 / 4 and base.output.factor == 1


def test_an_output_layer_of_its_own_has_a_smaller_variance_and_rate():
    """Table 3 of the paper."""
    base, model = language_model(16, 1, tie_weights=False), language_model(64, tie_weights=False)
    nt.apply_mup(model, base)
    assert factors(model, base)["output.weight"] == 1 / 4
    assert math.isclose(rms(model.output.weight.data), rms(base.output.weight.data) / 4, rel_tol=1e-5)


def test_a_factor_and_a_small_weight_with_a_small_rate_are_the_same_for_adam():
    """Why tables 3 and 8 are equivalent: W = W' / 4, whose steps are a quarter as long, or W' and a factor of 1 / 4."""
    rng = np.random.default_rng(4)
    W = rng.standard_normal((8, V))
    linear, tied = nt.Linear(8, V, bias=False).astype(np.float64), nt.Unembedding(nt.Parameter(W.T.copy()), factor=0.25)
    linear.weight.data = W / 4
    both = [(layer, nt.Adam(layer.parameters(), lr, eps=1e-30)) for layer, lr in ((linear, 0.1 / 4), (tied, 0.1))]
    for _ in range(4):
        x, dy = rng.standard_normal((3, 8)), rng.standard_normal((3, V))
        np.testing.assert_allclose(linear(x), tied(x), rtol=1e-10)
        for layer, optimizer in both:
            layer.zero_grad()
            layer.backward(dy)
            optimizer.step()


def test_wider_heads_divide_by_their_width_and_more_heads_do_not_change():
    base, wide, many = language_model(16, 1), language_model(64), language_model(64, heads=8)
    ids = np.random.default_rng(5).integers(0, V, (2, T))
    for model in (wide, many):
        nt.apply_mup(model.astype(np.float64), base)
    attention = wide.decoder.blocks[0].attention.attention
    assert isinstance(attention, nt.RescaledAttention) and math.isclose(attention.scale, math.sqrt(8) / 32)
    assert not isinstance(many.decoder.blocks[0].attention.attention, nt.RescaledAttention)
    assert nt.gradcheck(wide, ids, directions=1).ok
    nt.apply_mup(wide, base)                                # a second time changes nothing
    assert math.isclose(wide.decoder.blocks[0].attention.attention.scale, math.sqrt(8) / 32)


def test_score_changes_and_dropout_stay():
    base, model = language_model(16, 1, positions="alibi"), language_model(64, positions="alibi", dropout=0.3)
    old = model.decoder.blocks[0].attention.attention
    nt.apply_mup(model, base)
    new = model.decoder.blocks[0].attention.attention
    assert new is not old and new.dropout is old.dropout and new.score_changes == old.score_changes != []


def test_a_model_as_wide_as_its_base_does_not_change():
    base, model = language_model(16, 1), language_model(16)
    before = model.state_dict()
    nt.apply_mup(model, base)
    assert all((array == before[name]).all() for name, array in model.state_dict().items()) and model.output.factor == 1
    assert list(nt.mup_groups(model, base)) == [1.0]


def test_frozen_parameters_are_in_no_group():
    model = nt.freeze(language_model(32), "decoder")
    groups = nt.mup_groups(model, language_model(16))
    assert list(groups) == [1.0] and not any(p.frozen for p in groups[1.0])


def test_models_that_do_not_fit_together_are_refused():
    with pytest.raises(ValueError, match="different parameters; make both with the same arguments"):
        nt.apply_mup(language_model(32), nt.CausalLanguageModel(V, 16, 2, 2, max_len=T))
    with pytest.raises(ValueError, match="heads are 16 wide instead of 8, and FlashAttention has no factor"):
        nt.apply_mup(language_model(32, attention="flash"), language_model(16, attention="flash"))
    nt.apply_mup(language_model(32, attention="flash", heads=4), language_model(16, attention="flash"))


def movement(width, mup):
    """How far queries and logits move in three steps, on average over two seeds."""
    moved = []
    for seed in range(2):
        model, base = language_model(width, seed, init="xavier"), language_model(32, 9, init="xavier")
        groups = {1.0: model.parameters()}
        if mup:
            groups = nt.mup_groups(nt.apply_mup(model, base), base)
        optimizer = nt.CombinedOptimizer([nt.Adam(group, 0.01 * factor) for factor, group in groups.items()])
        ids = np.random.default_rng(6).integers(0, V, (8, T))
        query, criterion = model.decoder.blocks[0].attention.query, nt.CrossEntropyLoss()

        def coordinates():
            model.eval()
            x = model.decoder.blocks[0].norm1(model.positions(model.embedding(ids)))
            found = [query(x)[..., :V], model(ids)]
            model.train()
            return np.array(found)

        start = coordinates()
        for _ in range(3):
            model.zero_grad()
            criterion(model(ids[:, :-1]), ids[:, 1:])
            model.backward(criterion.backward())
            optimizer.step()
        moved.append(abs(coordinates() - start).mean((1, 2, 3)))
    return np.mean(moved, axis=0)


def test_the_coordinate_check_is_flat_with_mup_and_not_without():
    assert (movement(256, False) / movement(32, False) > 2).all()
    ratio = movement(256, True) / movement(32, True)
    assert (0.3 < ratio).all() and (ratio < 1.5).all()
