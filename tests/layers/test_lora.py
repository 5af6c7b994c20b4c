import copy
import pickle

import numpy as np
import pytest

import numpy_transformer as nt

IDS = np.random.default_rng(0).integers(1, 11, (3, 5))
MODELS = {
    "decoder": (lambda: nt.CausalLanguageModel(11, 12, 2, 2, max_len=5, rng=0), (IDS,)),
    "grouped": (lambda: nt.CausalLanguageModel(11, 16, 4, 2, max_len=5, rng=0, num_kv_heads=2, positions="rotary",
                                               norm_layer="rms", activation="swiglu", bias=False, d_head=6), (IDS,)),
    "encoder": (lambda: nt.TextEncoder(11, 12, 2, 2, max_len=5, dropout=0.0, rng=0), (IDS,)),
    "translator": (lambda: nt.EncoderDecoder(11, 11, 12, 2, 1, 16, 0.0, 9, rng=0), (IDS, IDS[:, :4])),
}


def layer(seed=0, rank=3, alpha=6.0, bias=True):
    """A LoRALinear in float64 whose B is not zero, and the arrays W, b, A, B."""
    rng = np.random.default_rng(seed)
    lora = nt.LoRALinear(nt.Linear(5, 7, bias, rng), rank, alpha, rng).astype(np.float64)
    for parameter in lora.parameters():
        parameter.data = rng.standard_normal(parameter.data.shape)
    return lora


def randomize_updates(model, seed=4):
    rng = np.random.default_rng(seed)
    for name, p in model.named_parameters():
        if name.endswith((".A", ".B")):
            p.data = rng.standard_normal(p.data.shape)
    return model


def test_forward_and_backward_are_those_of_plain_loops():
    lora, rng = layer(), np.random.default_rng(1)
    x, dy = rng.standard_normal((2, 3, 5)), rng.standard_normal((2, 3, 7))
    W, b, A, B = lora.weight.data, lora.bias.data, lora.A.data, lora.B.data
    s = 6 / 3
    effective = np.array([[W[i, o] + s * sum(A[i, r] * B[r, o] for r in range(3)) for o in range(7)] for i in range(5)])
    y = np.array([[[b[o] + sum(x[n, t, i] * effective[i, o] for i in range(5)) for o in range(7)] for t in range(3)]
                  for n in range(2)])
    np.testing.assert_allclose(lora(x), y, rtol=1e-12)
    np.testing.assert_allclose(lora.backward(dy), dy @ effective.T, rtol=1e-12)
    dW = sum(np.outer(x[n, t], dy[n, t]) for n in range(2) for t in range(3))       # of the effective weight W + s A B
    np.testing.assert_allclose(lora.A.grad, s * dW @ B.T, rtol=1e-12)
    np.testing.assert_allclose(lora.B.grad, s * A.T @ dW, rtol=1e-12)
    assert not lora.weight.grad.any() and not lora.bias.grad.any()


def test_the_update_starts_at_zero_and_A_has_the_bound_of_the_published_code():
    lora = nt.LoRALinear(nt.Linear(400, 30, rng=0), 8, rng=1)
    assert not lora.B.data.any() and lora.scale == 1
    assert 0.045 < abs(lora.A.data).max() <= 1 / 20                 # uniform in ±1/sqrt(d_in)
    assert abs(lora.A.data.std() - 1 / 20 / 3 ** 0.5) < 0.001
    linear = nt.Linear(400, 30, rng=0).astype(np.float64)
    assert nt.LoRALinear(linear, 2).A.data.dtype == np.float64


@pytest.mark.parametrize("rank, alpha, said", [
    (0, None, "rank must be a whole number"), (2.5, None, "rank must be a whole number"),
    (3, 0, "alpha = 0 must be above 0"), (3, -1.0, "alpha = -1.0 must be above 0"), (6, None, "rank = 6 is larger than d_in = 5 or d_out = 7")])
def test_settings_that_make_no_sense_are_refused_before_anything_is_frozen(rank, alpha, said):
    linear = nt.Linear(5, 7, rng=0)
    with pytest.raises(ValueError, match=said):
        nt.LoRALinear(linear, rank, alpha)
    assert type(linear) is nt.Linear and not linear.weight.frozen


@pytest.mark.parametrize("bias", [True, False])
def test_merged_equals_unmerged_to_rounding_and_unmerge_restores_every_bit(bias):
    lora, x = layer(bias=bias), np.random.default_rng(1).standard_normal((2, 5))
    before, y = lora.weight.data.copy(), lora(x)
    assert lora.merge() is lora.merge() is lora                     # merging twice adds the update once
    np.testing.assert_allclose(lora.forget()(x), y, rtol=1e-12)
    assert not lora.__dict__.get("_saved") and not np.array_equal(lora.weight.data, before)
    with pytest.raises(RuntimeError, match="merged LoRALinear cannot be trained; call unmerge"):
        lora.backward(y)
    np.testing.assert_array_equal(lora.unmerge().weight.data, before)
    np.testing.assert_array_equal(lora.unmerge()(x), y)


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_with_lora_computes_bit_for_bit_what_it_did_before(kind):
    make, inputs = MODELS[kind]
    model = make().eval()
    names, y = set(model.state_dict()), model(*inputs)
    assert nt.add_lora(model, 2, rng=1) is model
    np.testing.assert_array_equal(model(*inputs), y)
    assert not any(part.__dict__.get("_saved") for _, part in model.named_modules())        # it is still in eval mode
    added = {name for name, p in model.named_parameters() if not p.frozen}
    assert {name.rsplit(".", 2)[1] for name in added} == {"query", "value"}
    assert set(model.state_dict()) - added == names
    attentions = sum(isinstance(part, nt.MultiHeadAttention) for _, part in model.named_modules())
    assert len(added) == 2 * 2 * attentions


@pytest.mark.parametrize("kind", MODELS)
def test_gradients_in_whole_models_are_right(kind):
    make, inputs = MODELS[kind]
    model = nt.add_lora(make(), 2, ("query", "key", "value", "attention.output", "down"), alpha=3.0, rng=1)
    report = nt.gradcheck(model, *inputs, directions=1)
    assert report.ok, str(report)
    assert {row.tensor for row in report.rows} == set(model.state_dict(trained=True))


@pytest.mark.parametrize("kind", MODELS)
def test_merging_a_model_gives_a_plain_one_with_the_same_output(kind):
    make, inputs = MODELS[kind]
    model = randomize_updates(nt.add_lora(make(), 2, alpha=3.0, rng=1).astype(np.float64)).eval()
    y, names = model(*inputs), list(make().state_dict())
    assert nt.merge_lora(model) is model
    np.testing.assert_allclose(model(*inputs), y, rtol=1e-9, atol=1e-12)
    assert list(model.state_dict()) == names and not any(p.frozen for p in model.parameters())
    assert {type(part) for _, part in model.named_modules()} == {type(part) for _, part in make().named_modules()}
    assert not np.array_equal(model(*inputs), make().astype(np.float64).eval()(*inputs))


def test_targets_are_whole_names_or_ends_of_names_and_what_is_trained_as_a_whole_has_no_update():
    def updated(targets, **options):
        model = nt.add_lora(MODELS["translator"][0](), 2, targets, **options)
        return [name for name, part in model.named_modules() if isinstance(part, nt.LoRALinear)]

    assert updated("encoder.blocks.0.attention.query") == ["encoder.blocks.0.attention.query"]
    assert updated(("cross_attention.key",)) == ["decoder.blocks.0.cross_attention.key"]
    assert updated("output", trained=("encoder", "output")) == [
        f"decoder.blocks.0.{part}.output" for part in ("attention", "cross_attention")]
    whole = ("encoder.blocks.1.norm2", "encoder.blocks.0.attention.query.bias")
    model = nt.add_lora(MODELS["encoder"][0](), 2, trained=whole)
    trained = [name for name, p in model.named_parameters(trained=True) if not name.endswith((".A", ".B"))]
    assert trained == ["encoder.blocks.0.attention.query.bias", "encoder.blocks.1.norm2.gamma",
                       "encoder.blocks.1.norm2.beta"]
    part = model.encoder.blocks[0].attention.query
    assert [row.tensor for row in nt.gradcheck(part, np.ones((3, 12))).rows if row.ok] == ["x", "bias", "A", "B"]


@pytest.mark.parametrize("options, said", [
    ({"targets": ("query", "quality")}, "has no Linear called 'quality'; choose among 'down', 'key', 'output', 'query'"),
    ({"targets": "embedding"}, "no Linear called 'embedding'"), ({"trained": ("head",)}, "no part 'head'"),
    ({"rank": 13}, "rank = 13 is larger than d_in = 12"), ({"rank": 4, "alpha": 0}, "alpha = 0 must be above 0")])
def test_what_does_not_fit_the_model_is_refused_and_nothing_is_changed(options, said):
    model = MODELS["encoder"][0]()
    classes = [type(part) for _, part in model.named_modules()]
    with pytest.raises(ValueError) as error:
        nt.add_lora(model, **options)
    assert said in str(error.value)
    assert classes == [type(part) for _, part in model.named_modules()]
    assert not any(p.frozen for p in model.parameters())


def test_lora_is_added_once_and_its_weights_stay_frozen():
    model = nt.add_lora(MODELS["encoder"][0](), 2)
    with pytest.raises(ValueError, match="has LoRA updates already; call merge_lora"):
        nt.add_lora(model, 4, "key")
    with pytest.raises(ValueError, match="query is a LoRALinear, whose weight stays frozen; call merge_lora"):
        nt.unfreeze(model)
    assert model.embedding.weight.frozen
    nt.unfreeze(model, "embedding")
    assert type(model.embedding) is nt.Embedding
    with pytest.raises(ValueError, match="TextEncoder has no LoRALinear"):
        nt.merge_lora(MODELS["encoder"][0]())


class Shared(nt.Module):
    """The same Linear under two names, one of them in a list."""

    def __init__(self):
        self.first = nt.Linear(4, 4, rng=0)
        self.layers = [self.first, nt.Linear(4, 4, rng=1)]

    def forward(self, x):
        for part in (self.first, *self.layers):
            x = part(x)
        return x

    def backward(self, dy):
        for part in (*self.layers[::-1], self.first):
            dy = part.backward(dy)
        return dy


def test_a_linear_that_is_used_twice_is_replaced_in_both_places():
    model = nt.add_lora(Shared(), 2, ("first", "1"), rng=1)
    assert isinstance(model.first, nt.LoRALinear) and model.layers[0] is model.first
    assert isinstance(model.layers[1], nt.LoRALinear)
    assert nt.gradcheck(model, np.ones((3, 4))).ok


def test_copies_have_updates_of_their_own():
    model = randomize_updates(nt.add_lora(MODELS["decoder"][0](), 2, rng=1)).eval()
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(twin(IDS), model(IDS))
        assert twin.num_parameters(trained=True) == model.num_parameters(trained=True)
        assert not np.shares_memory(twin.decoder.blocks[0].attention.query.A.data,
                                    model.decoder.blocks[0].attention.query.A.data)


def test_repr_shows_rank_and_scale():
    lora = nt.LoRALinear(nt.Linear(5, 7, rng=0), 2, 4)
    assert repr(lora) == "LoRALinear(d_in=5, d_out=7, bias=True, rank=2, scale=2)"
