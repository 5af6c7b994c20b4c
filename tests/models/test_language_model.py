"""A LanguageModel of parts: it equals the model of sizes that has the same parts, and blocks may differ."""

import numpy as np

import numpy_transformer as nt

V, D, T = 13, 12, 9


def block_with(attention):
    return nt.Block(nt.SelfAttention(D, 3, attention=attention, rng=1), nt.SwiGLU(D, 20, rng=2), nt.RMSNorm(D), nt.RMSNorm(D))


def model_of(*blocks):
    embedding = nt.Embedding(V, D, rng=3)
    return nt.LanguageModel(embedding, nt.Stack(blocks, nt.RMSNorm(D)), nt.Unembedding(embedding.weight),
                            nt.LearnedPositionalEmbedding(T, D, rng=4), max_len=T)


def test_parts_of_a_model_of_sizes_make_the_same_model():
    rng = np.random.default_rng(0)
    whole = nt.CausalLanguageModel(V, D, 3, 2, max_len=T, activation="swiglu", rng=rng).eval()
    parts = nt.LanguageModel(whole.embedding, whole.decoder, whole.output, whole.positions, max_len=T).eval()
    ids = rng.integers(V, size=(2, T))
    mask = np.arange(T) > np.array([[0], [2]])
    np.testing.assert_array_equal(parts(ids, mask), whole(ids, mask))
    np.testing.assert_array_equal(nt.generate(parts, ids[0, :3], 4, rng=1), nt.generate(whole, ids[0, :3], 4, rng=1))


def test_the_future_is_hidden_although_one_block_of_two_hides_it_itself():
    """FlashAttention hides the future without a mask, and plain attention needs one."""
    flash, plain = nt.FlashAttention(causal=True), nt.ScaledDotProductAttention()
    ids = np.random.default_rng(0).integers(V, size=(2, T))
    both_plain = model_of(block_with(plain), block_with(nt.ScaledDotProductAttention())).eval()
    for blocks in ((block_with(flash), block_with(plain)), (block_with(plain), block_with(flash))):
        np.testing.assert_allclose(model_of(*blocks).eval()(ids), both_plain(ids), rtol=1e-4, atol=1e-6)


def test_a_decoder_need_not_have_blocks():
    class Doubled(nt.Module):
        def forward(self, x, mask=None):
            assert mask.shape[-2:] == (T, T) and not mask[..., 0, 1:].any()
            return x + x

        def backward(self, dy):
            return dy + dy

    rng = np.random.default_rng(0)
    model = nt.LanguageModel(nt.Embedding(V, D, rng=rng), Doubled(), nt.Linear(D, V, rng=rng), max_len=T)
    ids = rng.integers(V, size=(2, T))
    np.testing.assert_array_equal(model(ids), model.output(2 * model.embedding.weight.data[ids]))
    assert repr(model).startswith(f"LanguageModel(vocab_size={V}, max_len={T}, ")
