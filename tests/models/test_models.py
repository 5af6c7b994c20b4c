"""Models: padding in any place, tied weights, initial weights, sizes. test_contract.py checks causality and masks."""

import numpy as np
import pytest
from helpers import composed

import numpy_transformer as nt

V, D, H, L, T, S, W = 11, 12, 2, 2, 6, 8, 13
GPT = {}
LLAMA = dict(positions="rotary", norm_layer="rms", activation="swiglu", num_kv_heads=1, bias=False, tie_weights=False)
QWEN = {**LLAMA, "d_head": 10, "qkv_bias": True, "rope_interleaved": False, "rope_base": 50.0}
OLD = dict(positions="sinusoidal", norm="post", activation="relu", scale_embedding=True)
ALIBI = dict(positions="alibi")
RELATIVE = dict(positions="relative")
kinds = pytest.mark.parametrize("options", [GPT, LLAMA, QWEN, OLD, ALIBI, RELATIVE],
                                ids=["gpt", "llama", "qwen", "2017", "alibi", "relative"])


def language_model(options, dropout=0.0):
    model = composed.language_model(V, D, H, L, 16, max_len=20, dropout=dropout, rng=0, **options).astype(np.float64)
    randomise(model)
    return model.eval()


def randomise(model, seed=1):
    rng = np.random.default_rng(seed)
    for p in model.parameters():
        p.data = rng.standard_normal(p.data.shape) / np.sqrt(p.data.shape[0] if p.data.ndim > 1 else 1)


def ids(size, *shape, seed=0):
    return np.random.default_rng(seed).integers(1, size, shape)


@kinds
@pytest.mark.parametrize("real", [[0, 0, 0, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 0, 0, 0],
                                  [1, 1, 0, 1, 0, 1, 1, 1, 0]], ids=["left", "right", "inside"])
def test_padding_changes_nothing_wherever_it_stands(options, real):
    """Positions count real tokens, and padding is hidden."""
    model = language_model(options)
    tokens, mask = ids(V, 2, T), np.array([real, real], bool)
    for content in (0, 7):
        padded = np.full(mask.shape, content)
        padded[mask] = tokens.ravel()
        np.testing.assert_allclose(model(padded, mask)[mask].reshape(2, T, V), model(tokens), atol=1e-12)


@kinds
def test_unbatched_ids_and_lists_give_the_row_of_the_batch(options):
    model = language_model(options)
    tokens = ids(V, 3, T)
    np.testing.assert_allclose(model(tokens[1].tolist()), model(tokens)[1], atol=1e-13)
    mask = np.array([True, False, True, True, True, True])
    np.testing.assert_allclose(model(tokens[1], mask), model(tokens, np.array([mask] * 3))[1], atol=1e-13)


def test_each_place_of_dropout_has_its_probability():
    model = composed.language_model(V, D, H, L, 16, dropout=0.3, ff_dropout=0.0, rng=0)
    places = {name.split(".", 3)[-1]: part.p for name, part in model.named_modules() if isinstance(part, nt.Dropout)}
    assert places == {"dropout": 0.3, "attention.attention.dropout": 0.3, "feed_forward.dropout": 0.0}


def encoder_decoder(**options):
    model = nt.EncoderDecoder(V, W, D, H, L, 16, 0.0, max_len=20, rng=0, **options).astype(np.float64)
    randomise(model)
    return model.eval()


def test_padding_of_the_source_changes_nothing():
    model = encoder_decoder()
    source, target = ids(V, 3, S), ids(W, 3, T)
    padded = np.concatenate([source, np.zeros((3, 4), int)], 1)
    np.testing.assert_allclose(model(padded, target), model(source, target), atol=1e-12)
    model.pad_id = None
    assert abs(model(padded, target) - model(source, target)).max() > 1e-3


def test_padding_of_the_target_is_hidden():
    """On the left, where the causal mask alone would let it be seen."""
    model = encoder_decoder()
    source, target = ids(V, 3, S), ids(W, 3, T)
    target[:, :2] = 0
    y = model(source, target)
    model.target_embedding.weight.data[0] *= -2.0           # what the padding token holds must not matter
    np.testing.assert_allclose(model(source, target)[:, 2:], y[:, 2:], atol=1e-12)


def test_a_source_of_padding_alone_is_finite():
    model = encoder_decoder()
    model.eval(remember=True)
    source, target = ids(V, 3, S), ids(W, 3, T)
    source[1] = 0
    y = model(source, target)
    model.backward(np.ones_like(y))
    assert np.isfinite(y).all() and all(np.isfinite(p.grad).all() for p in model.parameters())


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_dropout_follows_both_kinds_of_positions(positions):
    model = nt.EncoderDecoder(V, W, D, H, L, 16, 0.5, max_len=20, positions=positions, rng=0)
    model.encoder.forward = lambda x, mask: x                # what the two stacks are given
    model.decoder.forward, model.output.forward = (lambda x, *_, **__: x), (lambda x: x)
    source, target = ids(V, 30, S), ids(W, 30, T)
    given = model.encode(source), model.decode(target, None, source)
    assert all(0.45 < (x == 0).mean() < 0.55 for x in given)
    model.eval()
    assert model.encode(source).all() and model.decode(target, None, source).all()


def test_arguments_of_the_decoder_stand_in_the_order_of_its_blocks():
    model = nt.Decoder(L, D, H, 16, 0.1, "pre", "relu", 1e-5, True, False)
    assert model.blocks[0].cross_attention is not None and model.norm is None


def test_batches_of_different_sizes_are_refused():
    with pytest.raises(ValueError, match=r"source \(2, 8\) and target \(3, 6\)"):
        encoder_decoder()(ids(V, 2, S), ids(W, 3, T))


def test_encode_and_decode_apart_equal_forward():
    model = encoder_decoder()
    source, target = ids(V, 3, S), ids(W, 3, T)
    memory = model.encode(source)
    np.testing.assert_array_equal(model.decode(target, memory, source), model(source, target))
    assert memory.shape == (3, S, D)


@pytest.mark.parametrize("build, uses", [
    (lambda: nt.CausalLanguageModel(V, D, H, L, 16, max_len=20, rng=0), 2),
    (lambda: nt.EncoderDecoder(V, V, D, H, L, 16, 0.0, max_len=20, tie_weights=True, rng=0), 3),
], ids=["language model", "encoder-decoder"])
def test_a_tied_weight_gets_the_sum_of_its_uses(build, uses):
    """Untie by hand: the gradients of the separate matrices add up to that of the shared one."""
    tied = build().astype(np.float64)
    randomise(tied)
    inputs = (ids(V, 3, S), ids(V, 3, T))[:1 if uses == 2 else 2]
    dy = np.random.default_rng(3).standard_normal(tied(*inputs).shape)
    tied.forget()
    tied(*inputs)
    tied.backward(dy)
    shared = tied.embedding if uses == 2 else tied.target_embedding
    separate = build().astype(np.float64)
    randomise(separate)
    separate.output = nt.Unembedding(nt.Parameter(shared.weight.data))
    if uses == 3:
        separate.source_embedding = nt.Embedding(V, D, scale=True).astype(np.float64)
        separate.source_embedding.weight.data = shared.weight.data
    separate(*inputs)
    separate.backward(dy)
    parts = [separate.output.weight.grad]
    parts += [separate.embedding.weight.grad] if uses == 2 else [separate.target_embedding.weight.grad,
                                                                  separate.source_embedding.weight.grad]
    assert all(np.linalg.norm(part) > 0.1 for part in parts)
    np.testing.assert_allclose(shared.weight.grad, sum(parts), atol=1e-11)


def test_blocks_have_weights_of_their_own():
    model = nt.Encoder(3, D, H, 16, rng=0)
    weights = [block.attention.query.weight.data for block in model.blocks]
    assert not np.array_equal(weights[0], weights[1]) and not np.array_equal(weights[1], weights[2])


@pytest.mark.parametrize("norm, final_norm, expected", [("pre", None, True), ("post", None, False),
                                                        ("pre", False, False), ("post", True, True)])
def test_final_norms(norm, final_norm, expected):
    assert (nt.Decoder(1, D, H, 16, norm=norm, final_norm=final_norm).norm is not None) == expected


@pytest.mark.parametrize("model, of_the_paper", [
    (nt.transformer_2017(9, N=2, d_model=8, d_ff=6, h=2, rng=0), True),
    (nt.make_model(9, 9, N=2, d_model=8, d_ff=6, h=2, rng=0), False)])
def test_the_model_of_the_paper_and_the_annotated_one(model, of_the_paper):
    """Figure 1 of the paper: a norm after each sum, none at the end, and one matrix (section 3.4). Rush 2018: the opposite."""
    blocks = [*model.encoder.blocks, *model.decoder.blocks]
    assert {block.pre_norm for block in blocks} == {not of_the_paper}
    assert (model.encoder.norm is None) == (model.decoder.norm is None) == of_the_paper
    assert (model.source_embedding is model.target_embedding) == of_the_paper
    assert (model.output.weight is model.target_embedding.weight) == of_the_paper


@pytest.mark.slow
def test_the_base_model_has_the_size_of_the_paper():
    """Counted by hand from table 3 of the paper: d 512, d_ff 2048, 6 + 6 layers, with biases and final norms."""
    d, f, v = 512, 2048, 1000
    attention, feed_forward, norm = 4 * (d * d + d), 2 * d * f + f + d, 2 * d
    encoder = 6 * (attention + feed_forward + 2 * norm) + norm
    decoder = 6 * (2 * attention + feed_forward + 3 * norm) + norm
    model = nt.make_model(v, v, max_len=10, rng=0)
    assert model.num_parameters() == encoder + decoder + 2 * v * d + d * v + v
    tied = nt.make_model(v, v, N=1, norm="post", tie_weights=True, max_len=10, rng=0)
    assert tied.num_parameters() == (encoder - norm) / 6 + (decoder - norm) / 6 + v * d
    assert nt.transformer_2017(v, N=1, max_len=10, rng=0).num_parameters() == tied.num_parameters()
    for w, bound in ((model.encoder.blocks[0].feed_forward.up.weight.data, np.sqrt(6 / (d + f))),
                     (model.source_embedding.weight.data, np.sqrt(6 / (v + d))),
                     (model.target_embedding.weight.data, np.sqrt(6 / (v + d)))):
        assert 0.99 * bound < abs(w).max() <= bound and w.std() == pytest.approx(bound / np.sqrt(3), rel=0.01)


def test_the_language_model_starts_as_gpt_2_does():
    model = nt.CausalLanguageModel(50, 48, 2, 8, max_len=30, rng=0)
    block = model.decoder.blocks[3]
    for p, std in ((model.embedding.weight, 0.02), (model.positions.weight, 0.02), (block.attention.query.weight, 0.02),
                   (block.attention.output.weight, 0.005), (block.feed_forward.up.weight, 0.02),
                   (block.feed_forward.down.weight, 0.005)):
        assert p.data.std() == pytest.approx(std, rel=0.08) and abs(p.data.mean()) < 0.1 * std
    assert not block.attention.query.bias.data.any() and (block.norm1.gamma.data == 1).all()
    scaled = nt.CausalLanguageModel(50, 48, 2, 8, max_len=30, scale_embedding=True, rng=0)
    assert scaled.embedding.weight.data.std() == pytest.approx(48 ** -0.5, rel=0.08)


@pytest.mark.parametrize("call, match", [
    (lambda m: m(np.ones((2, 21), int)), "max_len = 20"), (lambda m: m(np.ones((2, 0), int)), "max_len"),
    (lambda m: m(np.ones((2, 3), int), np.ones((2, 4), bool)), "True = real token"),
    (lambda m: m(np.ones((2, 3), int), np.ones((2, 3))), "True = real token"),
    (lambda m: nt.CausalLanguageModel(V, D, 0, L, positions="rotary"), "num_heads must be"),
    (lambda m: nt.CausalLanguageModel(V, D, H, L, max_len=0, positions="rotary"), "max_len must be"),
])
def test_sequences_and_masks_that_do_not_fit_are_refused(call, match):
    with pytest.raises(ValueError, match=match):
        call(language_model(GPT))


def test_a_source_longer_than_max_len_is_refused():
    with pytest.raises(ValueError, match="21 tokens is longer than max_len = 20"):
        encoder_decoder()(ids(V, 2, 21), ids(W, 2, 3))


@pytest.mark.parametrize("option", [dict(positions="absolute"), dict(attention="sparse"), dict(norm_layer="batch"),
                                    dict(activation="mish")])
def test_unknown_switches_are_refused(option):
    with pytest.raises(ValueError, match="choose one of"):
        nt.CausalLanguageModel(V, D, H, L, max_len=8, **option)
