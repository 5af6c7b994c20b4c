"""The practicals of study note 003 at its own sizes: positions, norm, an unbatched encoder layer, a whole encoder."""

import numpy as np

import numpy_transformer as nt


def test_positions_of_a_hundred_tokens():
    table = nt.SinusoidalPositionalEncoding(128, max_len=100).table
    assert table.shape == (100, 128) and table.min() >= -1 and table.max() <= 1
    np.testing.assert_array_equal(table[0, :4], [0, 1, 0, 1])


def test_layer_norm_of_two_by_four_tokens():
    y = nt.LayerNorm(d_model=8, eps=1e-6).forward(np.random.default_rng(0).standard_normal((2, 4, 8)))
    np.testing.assert_allclose(y.mean(-1), 0, atol=1e-12)
    np.testing.assert_allclose(y.std(-1), 1, rtol=1e-4)


def test_an_encoder_layer_on_one_sequence():
    x = np.random.default_rng(0).standard_normal((5, 16))
    layer = nt.EncoderBlock(d_model=16, num_heads=4, d_ff=64, dropout=0.0, norm="post", rng=0)
    y = layer.forward(x, None)
    assert y.shape == layer.backward(y).shape == (5, 16)
    np.testing.assert_allclose(y, layer.forward(x[None])[0], atol=1e-6)


class SimpleTransformer(nt.Module):
    """The note's encoder-only model, from the package's components."""

    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, rng):
        self.embedding = nt.Embedding(vocab_size, d_model, rng=rng)
        self.positions = nt.SinusoidalPositionalEncoding(d_model, max_len=1000)
        self.encoder = nt.Encoder(num_layers, d_model, num_heads, d_ff, dropout=0.0, norm="post", rng=rng)
        self.output = nt.Linear(d_model, vocab_size, bias=False, rng=rng)

    def forward(self, token_ids):
        return self.output(self.encoder(self.positions(self.embedding(token_ids))))

    def backward(self, dy):
        self.embedding.backward(self.positions.backward(self.encoder.backward(self.output.backward(dy))))


def test_a_whole_encoder_on_a_list_of_ids():
    model = SimpleTransformer(100, 64, 8, 256, 3, np.random.default_rng(0))
    logits = model.forward([5, 23, 67, 12])
    assert logits.shape == (4, 100) and logits.dtype == np.float32
    p = nt.Softmax()(logits)
    np.testing.assert_allclose(p.sum(-1), 1, rtol=1e-5)
    assert nt.gradcheck(SimpleTransformer(11, 12, 2, 16, 2, 0), np.array([5, 2, 6, 1, 2]), directions=3).ok
