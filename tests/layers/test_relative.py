"""Relative positions: T5's buckets, queries after a cache, and one bias that several blocks share."""

import numpy as np
import pytest
from helpers import composed

import numpy_transformer as nt

# the smallest distance of each bucket from num_buckets / 4 or num_buckets / 2 on, in T5's configuration
STARTS_BOTH = [8, 12, 16, 23, 32, 46, 64, 91]
STARTS_CAUSAL = [16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113]


def random_bias(**options):
    bias = nt.RelativePositionBias(3, 8, 6, **options)
    bias.weight.data = np.random.default_rng(1).standard_normal((8, 3))
    return bias


@pytest.mark.parametrize("length", [0, 1, 7, 8, 11, 12, 15, 16, 22, 23, 31, 32, 45, 46, 63, 64, 90, 91, 127, 128, 9999])
def test_the_buckets_of_t5(length):
    bucket = length if length < 8 else 7 + sum(length >= start for start in STARTS_BOTH)
    both = nt.RelativePositionBias(2)
    assert both.buckets(np.array([-length, length])).tolist() == [bucket, bucket + 16 if length else 0]
    bucket = length if length < 16 else 15 + sum(length >= start for start in STARTS_CAUSAL)
    causal = nt.RelativePositionBias(2, causal=True)
    assert causal.buckets(np.array([-length, length])).tolist() == [bucket, 0]


def test_distances_that_are_exactly_the_start_of_a_bucket():
    """The starts are 4 · 2^j; in float64 the logarithm of 2 to the base 32 is below 1/5, in float32 it is not."""
    bias = nt.RelativePositionBias(1, num_buckets=18, max_distance=128)
    assert bias.buckets(-np.array([4, 7, 8, 15, 16, 31, 32, 63, 64])).tolist() == [4, 4, 5, 5, 6, 6, 7, 7, 8]


@pytest.mark.slow
def test_the_buckets_are_those_of_transformers_in_any_configuration():
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("transformers.models.t5.modeling_t5").T5Attention._relative_position_bucket
    distances = np.arange(-1500, 1501)
    for causal in (False, True):
        for num_buckets in (*range(4, 41), 64, 128):
            for max_distance in (65, 80, 100, 128, 200, 256, 1000, 1024):
                ours = nt.RelativePositionBias(1, num_buckets, max_distance, causal).buckets(distances)
                wanted = theirs(torch.tensor(distances), not causal, num_buckets, max_distance).numpy()
                np.testing.assert_array_equal(ours, wanted, f"{causal} {num_buckets} {max_distance}")


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("T", [1, 2, 9])
def test_the_queries_are_the_last_tokens(causal, T):
    bias = random_bias(causal=causal).eval()
    np.testing.assert_array_equal(bias(T, 9), bias(9, 9)[:, 9 - T:])


def test_uses_of_different_lengths_are_undone_in_reverse():
    bias, rng = random_bias().astype(np.float64), np.random.default_rng(2)
    wanted = np.zeros((8, 3))
    uses = [(5, 5), (2, 9), (4, 4)]
    dys = [rng.standard_normal(bias(*use).shape) for use in uses]
    for (T, S), dy in reversed(list(zip(uses, dys))):
        assert bias.backward(dy) is None
        for h, t, s in np.ndindex(3, T, S):
            wanted[bias.buckets(np.array([s - (S - T + t)]))[0], h] += dy[h, t, s]
    np.testing.assert_allclose(bias.weight.grad, wanted, atol=1e-12)


@pytest.mark.parametrize("call, words", [
    (lambda: nt.RelativePositionBias(2)(5, 4), "5 queries and 4 tokens"),
    (lambda: nt.RelativePositionBias(2)(0, 4), "0 queries"),
    (lambda: nt.RelativePositionBias(2, 3), "at least 4 buckets"),
    (lambda: nt.RelativePositionBias(2, 1, causal=True), "at least 2 buckets"),
    (lambda: nt.RelativePositionBias(2, 32, 8), "max_distance above 8"),
    (lambda: nt.RelativePositionBias(2, causal="yes"), "causal = 'yes'"),
    (lambda: nt.PositionBias(random_bias())(np.ones((2, 4, 5, 5))), "3 heads"),
    (lambda: nt.PositionBias(random_bias())(np.ones((5, 5))), "3 heads"),
    (lambda: nt.PositionBias(nt.RelativePositionBias(1))(np.ones((5, 5))), r"wanted \(B, 1, T, S\)"),
    (lambda: nt.UnscaledAttention()(np.ones((2, 3)), np.ones((2, 4)), np.ones((2, 4))), "do not fit together")])
def test_what_does_not_fit_is_told(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_without_a_bias_it_is_scaled_attention_of_larger_queries():
    rng = np.random.default_rng(3)
    q, k, v = rng.standard_normal((3, 2, 4, 5, 6))
    unscaled, scaled = nt.UnscaledAttention().eval(), nt.ScaledDotProductAttention().eval()
    np.testing.assert_allclose(unscaled(q, k, v), scaled(q * np.sqrt(6), k, v), rtol=1e-12)
    np.testing.assert_allclose(unscaled(q[0, 0], k[0, 0], v[0, 0]), unscaled(q, k, v)[0, 0], rtol=1e-12)   # no heads


def t5(**options):
    sizes = dict(d_model=12, num_heads=3, num_layers=2, d_ff=16, dropout=0.0, norm_layer="rms", bias=False, num_buckets=8,
                 max_distance=6, scale_embedding=False, tie_weights=True, rng=0)
    model, rng = composed.t5(11, 11, **sizes | options).astype(np.float64), np.random.default_rng(4)
    for parameter in model.parameters():
        parameter.data = rng.standard_normal(parameter.data.shape)
    return model


SOURCE = np.array([[5, 3, 8, 2, 7, 1], [4, 9, 6, 2, 3, 10]])
TARGET = np.array([[0, 4, 7, 2], [0, 8, 8, 5]])


def test_the_blocks_of_a_stack_share_a_bias_and_have_weights_of_their_own():
    model = t5(num_decoder_layers=3)
    model(SOURCE, TARGET)
    assert [name for name, _ in model.named_parameters() if "bias" in name] == [
        f"{stack}.blocks.0.attention.attention.score_changes.0.position_bias.weight" for stack in ("encoder", "decoder")]
    for stack, number, causal in ((model.encoder, 2, False), (model.decoder, 3, True)):
        biases = {id(block.attention.attention.score_changes[0].position_bias) for block in stack.blocks}
        assert len(stack.blocks) == number and len(biases) == 1
        assert stack.blocks[0].attention.attention.score_changes[0].position_bias.causal == causal
        assert abs(stack.blocks[0].attention.weights - stack.blocks[1].attention.weights).max() > 1e-3
    assert not any(block.cross_attention.attention.score_changes for block in model.decoder.blocks)
    assert model.source_positions is None and model.target_positions is None


@pytest.mark.parametrize("pads", [(2, 0), (0, 2), (1, 1)])
def test_padding_of_the_source_on_either_side_changes_nothing(pads):
    model = t5().eval()
    mask = np.pad(np.ones(SOURCE.shape, bool), ((0, 0), pads))
    y = model(SOURCE, TARGET)
    for content in (0, 5):                      # with a mask, the id does not matter
        padded = np.pad(SOURCE, ((0, 0), pads), constant_values=content)
        np.testing.assert_allclose(model(padded, TARGET, source_mask=mask), y, atol=1e-12)
    np.testing.assert_allclose(model.encode(padded, mask)[:, pads[0]:pads[0] + 6], model.encode(SOURCE), atol=1e-12)
    assert abs(model(padded, TARGET) - y).max() > 1e-3


def test_padding_in_the_target_is_hidden_unless_it_counts_as_a_token():
    """T5 begins each target with the padding token, and generates on."""
    hiding, showing = t5().eval(), t5(mask_target=False).eval()
    without_padding = t5(pad_id=None).eval()
    y = showing(SOURCE, TARGET)
    np.testing.assert_allclose(y, without_padding(SOURCE, TARGET), atol=1e-12)
    assert abs(y - hiding(SOURCE, TARGET)).max() > 1e-3
    cache = nt.KeyValueCache()
    memory = showing.encode(SOURCE)
    parts = [showing.decode(TARGET[:, t:t + 1], memory, SOURCE, cache=cache) for t in range(4)]
    np.testing.assert_allclose(np.concatenate(parts, 1), y, atol=1e-12)


@pytest.mark.parametrize("options, words", [
    (dict(tie_weights="output"), "tie_weights = 'output'"), (dict(positions="absolute"), "'learned', 'sinusoidal', "),
    (dict(num_layers=0), "num_layers must be"), (dict(num_buckets=2), "at least 4 buckets")])
def test_settings_that_exclude_each_other_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        t5(**options)


def test_an_output_of_its_own_has_no_bias_either():
    model = t5(tie_weights="embeddings")
    assert model.source_embedding is model.target_embedding and model.output.weight is not model.target_embedding.weight
    assert model.output.bias is None and t5(tie_weights=False, bias=True).output.bias is not None


def test_embeddings_of_two_vocabularies_cannot_be_one():
    with pytest.raises(ValueError, match="src_vocab = 9 and tgt_vocab = 11"):
        nt.EncoderDecoder(9, 11, 12, 3, tie_weights="embeddings")
