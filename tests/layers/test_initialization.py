"""Initial weights: the published distribution of each choice, and what none of them may touch."""

import math

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer.models.initialization import initialize

V, D, H, L, F = 300, 64, 4, 3, 256
INITS = ("xavier", "keras", "gpt2", "bert")
BUILD = {
    "lm": lambda **options: nt.CausalLanguageModel(V, D, H, L, F, max_len=40, **options),
    "seq2seq": lambda **options: nt.EncoderDecoder(V, V + 1, D, H, L, F, max_len=40, positions="learned", **options),
    "text": lambda **options: nt.TextEncoder(V, D, H, L, F, max_len=40, positions="learned", **options),
    "classifier": lambda **options: nt.SequenceClassifier(V, D, H, L, F, max_len=40, hidden=96, **options),
    "tagger": lambda **options: nt.TokenClassifier(V, D, H, L, F, num_classes=9, max_len=40, **options),
    "mlm": lambda **options: nt.MaskedLanguageModel(V, D, H, L, F, max_len=40, **options)}
models = pytest.mark.parametrize("build", BUILD.values(), ids=BUILD)


def matrices(model):
    return {name: p.data for name, p in model.named_parameters() if p.data.ndim == 2}


def is_residual(name):
    return name.endswith(("attention.output.weight", "feed_forward.down.weight"))


def looks_uniform(x, bound):
    """Uniform in ±bound: nothing beyond it, the largest close to it, and the deviation bound / sqrt(3)."""
    return (np.abs(x).max() <= bound and np.abs(x).max() > bound * (1 - 20 / x.size)
            and abs(x.std() * math.sqrt(3) / bound - 1) < 4 / math.sqrt(x.size))


def looks_normal(x, std):
    return abs(x.std() / std - 1) < 4 / math.sqrt(x.size) and np.abs(x).max() > 2.2 * std


@models
@pytest.mark.parametrize("init", INITS)
def test_norms_and_biases_are_left_alone_and_all_is_float32(build, init):
    model = build(init=init, rng=1)
    for name, p in model.named_parameters():
        assert p.data.dtype == np.float32
        if p.data.ndim == 1:
            assert np.all(p.data == (1 if name.endswith("gamma") else 0)), name
        else:
            assert p.data.std() > 0


@models
def test_the_default_has_a_name(build):
    default, named = build(rng=4), build(init="gpt2" if build is BUILD["lm"] else "xavier", rng=4)
    for p, q in zip(default.parameters(), named.parameters(), strict=True):
        np.testing.assert_array_equal(p.data, q.data)


@models
def test_an_unknown_name_is_refused(build):
    with pytest.raises(ValueError, match="init = 'glorot' is unknown; choose one of 'xavier', 'keras', 'gpt2', 'bert'"):
        build(init="glorot")


@models
def test_the_same_seed_gives_the_same_weights_and_another_seed_others(build):
    for init in INITS:
        one, again, other = (matrices(build(init=init, rng=seed)) for seed in (7, 7, 8))
        for name in one:
            np.testing.assert_array_equal(one[name], again[name])
            assert (one[name] != other[name]).mean() > 0.9


def test_the_language_model_draws_after_its_parts_in_their_order():
    """What its method `initialise` did before there was a choice, from the same generator."""
    for options in ({}, dict(scale_embedding=True, positions="sinusoidal"), dict(tie_weights=False, num_kv_heads=2)):
        rng = np.random.default_rng(5)
        plain, drawn = BUILD["lm"](init="xavier", rng=rng, **options), BUILD["lm"](rng=5, **options)
        for (name, p), q in zip(plain.named_parameters(), drawn.parameters(), strict=True):
            if p.data.ndim == 2 and not (options.get("scale_embedding") and name == "embedding.weight"):
                std = 0.02 / math.sqrt(2 * L) if is_residual(name) else 0.02
                p.data = (std * rng.standard_normal(p.data.shape)).astype(np.float32)
            np.testing.assert_array_equal(p.data, q.data, name)


def test_xavier_has_glorots_bound_and_the_embeddings_of_2017():
    for name, x in matrices(BUILD["classifier"](init="xavier", rng=2)).items():
        if name == "embedding.weight":
            assert looks_normal(x, 1 / math.sqrt(D))
        else:
            assert looks_uniform(x, math.sqrt(6 / sum(x.shape))), name


def keras_fans(shape):
    """compute_fans of Keras: all axes before the last two count as the window of a convolution."""
    window = 1
    for size in shape[:-2]:
        window *= size
    return shape[-2] * window, shape[-1] * window


@pytest.mark.parametrize("kv_heads, d_head", [(None, None), (2, None), (2, 3 * D // H)])
def test_keras_has_small_embeddings_and_the_fans_of_its_three_axes(kv_heads, d_head):
    d = d_head or D // H
    kernels = {"query": (D, H, d), "key": (D, kv_heads or H, d), "value": (D, kv_heads or H, d), "output": (H, d, D)}
    for name, x in matrices(BUILD["classifier"](init="keras", rng=2, num_kv_heads=kv_heads, d_head=d_head)).items():
        if name == "embedding.weight":
            bound = 0.05
        elif ".attention." in name:
            kernel = kernels[name.split(".")[-2]]
            assert np.prod(kernel) == x.size
            bound = math.sqrt(6 / sum(keras_fans(kernel)))
        else:
            bound = math.sqrt(6 / sum(keras_fans(x.shape)))
        assert looks_uniform(x, bound), name


def test_keras_bounds_of_the_note():
    attention = BUILD["classifier"](init="keras", rng=2).encoder.blocks[0].attention
    for linear, bound in ((attention.query, 0.0685), (attention.value, 0.0685), (attention.output, 0.1369)):
        assert abs(np.abs(linear.weight.data).max() - bound) < 2e-4


def test_keras_draws_the_embeddings_of_every_model_small():
    for name in ("lm", "seq2seq", "mlm"):
        tables = {key: x for key, x in matrices(BUILD[name](init="keras", rng=3)).items()
                  if key.split(".")[0].endswith(("embedding", "positions", "segments"))}
        assert len(tables) == {"lm": 2, "seq2seq": 4, "mlm": 3}[name]
        assert all(np.abs(x).max() <= 0.05 and x.std() > 0.02 for x in tables.values())


@pytest.mark.parametrize("name, scaled", [("lm", []), ("classifier", ["embedding.weight"]),
                                          ("seq2seq", ["source_embedding.weight", "target_embedding.weight"])])
def test_gpt2_divides_what_is_added_to_the_residual_stream(name, scaled):
    for key, x in matrices(BUILD[name](init="gpt2", rng=6)).items():
        additions = 3 * L if key.startswith("decoder") and name == "seq2seq" else 2 * L
        std = 0.02 / math.sqrt(additions) if is_residual(key) else 0.02
        assert looks_normal(x, 1 / math.sqrt(D) if key in scaled else std), key


@pytest.mark.parametrize("activation, d_head", [("swiglu", None), ("geglu", 2 * D // H)])
def test_gpt2_with_a_gated_feed_forward_layer(activation, d_head):
    model = BUILD["lm"](activation=activation, norm_layer="rms", bias=False, positions="rotary", rng=1, d_head=d_head)
    for key, x in matrices(model).items():
        assert looks_normal(x, 0.02 / math.sqrt(2 * L) if is_residual(key) else 0.02), key


@models
def test_bert_is_truncated_at_two_deviations(build):
    density, inside = math.exp(-2) / math.sqrt(2 * math.pi), math.erf(math.sqrt(2))
    std = 0.02 * math.sqrt(1 - 4 * density / inside)            # of a normal distribution cut at ±2
    for name, x in matrices(build(init="bert", rng=6)).items():
        assert np.abs(x).max() <= 0.04 and abs(x.std() / std - 1) < 4 / math.sqrt(x.size), name
        assert x.size < 1000 or np.abs(x).max() > 0.039


def test_a_tied_matrix_is_drawn_once():
    """Keras draws the table first; the next matrix gets the numbers that follow at once in the generator's stream."""
    model = nt.EncoderDecoder(V, V, D, H, 1, F, tie_weights=True, rng=0)
    assert model.source_embedding is model.target_embedding and model.output.weight is model.target_embedding.weight
    initialize(model, "keras", np.random.default_rng(0))
    again, bound = np.random.default_rng(0), math.sqrt(6 / (D * (H + D // H)))
    for parameter, (b, shape) in ((model.output.weight, (0.05, (V, D))),
                                  (model.encoder.blocks[0].attention.query.weight, (bound, (D, D)))):
        np.testing.assert_array_equal(parameter.data, again.uniform(-b, b, shape).astype(np.float32))


def test_make_model_draws_every_matrix_from_xaviers_uniform_distribution():
    model = nt.make_model(40, 40, N=1, d_model=32, d_ff=64, h=4, max_len=10, rng=0)
    for name, x in matrices(model).items():
        assert looks_uniform(x, math.sqrt(6 / sum(x.shape))), name
