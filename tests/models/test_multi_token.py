"""Heads that predict later tokens, against one model for each head and against the formula of the sequential block."""

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer.models.parts import place_in_attention

V, D, N = 7, 24, 3


def several_heads(**settings):
    """A language model with a trunk of two blocks and N heads, and the model of each head, with the same parameters."""
    model = nt.CausalLanguageModel(V, D, 4, 2 + N, max_len=12, rng=0, **settings).astype(np.float64)
    blocks, norm = model.decoder.blocks, model.decoder.norm
    alone = [nt.LanguageModel(model.embedding, nt.Stack([*blocks[:2], head], norm), model.output, model.positions, max_len=12)
             for head in blocks[2:]]
    model.decoder = nt.MultiTokenStack(nt.Stack(blocks[:2]), blocks[2:], norm)
    return model, alone


@pytest.mark.parametrize("settings", [{}, {"positions": "rotary", "norm_layer": "rms"}, {"positions": "alibi"}])
def test_each_head_is_a_model_of_its_own_on_the_shared_trunk(settings):
    model, alone = several_heads(**settings)
    rng = np.random.default_rng(1)
    ids = rng.integers(0, V, (2, 5))
    logits, dlogits = model(ids), rng.standard_normal((2, N, 5, V))
    model.backward(dlogits)
    gradients = {id(p): p.grad.copy() for p in model.parameters()}
    model.zero_grad()
    for n, one in enumerate(alone):
        np.testing.assert_allclose(one(ids), logits[:, n], rtol=1e-12, atol=1e-12)
        one.backward(dlogits[:, n])
    for name, p in model.named_parameters():                # the sum over the heads, which go through the trunk one by one here
        np.testing.assert_allclose(p.grad, gradients[id(p)], rtol=1e-9, atol=1e-12, err_msg=name)
        assert p.grad.any() or name.endswith("key.bias")


def test_the_cache_keeps_the_keys_of_trunk_and_heads():
    model, _ = several_heads(positions="rotary")
    ids = np.random.default_rng(1).integers(0, V, (2, 6))
    whole, cache = model.eval()(ids), nt.KeyValueCache()
    parts = [model(ids[:, start:start + 2], cache=cache) for start in (0, 2, 4)]
    np.testing.assert_allclose(np.concatenate(parts, 2), whole, rtol=1e-10)
    assert sum(name.endswith(".keys") for name in cache.arrays) == 2 + N


class Dropping(nt.Module):
    def __init__(self, p):
        self.dropout = nt.Dropout(p, 1)

    def forward(self, x, mask=None):
        return self.dropout(x)

    def backward(self, dy):
        return self.dropout.backward(dy)


def test_one_head_may_stand_in_two_places():
    """Its backward then answers its latest use first: the dropout of each use is that of its own gradient."""
    head, rng = Dropping(0.5), np.random.default_rng(0)
    stack = nt.MultiTokenStack(Dropping(0.0), [head, head])
    y, dy = stack(np.ones((2, 5, 6))), rng.standard_normal((2, 2, 5, 6))
    assert (y[:, 0] != y[:, 1]).any()
    np.testing.assert_allclose(stack.backward(dy), (y * dy).sum(1), rtol=1e-12)


def test_its_blocks_are_those_of_the_trunk_and_the_heads():
    model, _ = several_heads()
    rotary = nt.RotaryEmbedding(D // 4)
    place_in_attention(rotary, model.decoder)
    for block in (*model.decoder.trunk.blocks, *model.decoder.heads):
        assert block.attention.rotary is rotary
    assert len(model.decoder.blocks) == 2 + N


def test_a_stack_without_heads_is_refused():
    with pytest.raises(ValueError, match="heads must be a whole number of at least 1"):
        nt.MultiTokenStack(nt.Stack([nt.DecoderBlock(D, 4, 8)]), [])


def test_the_sequential_block_follows_its_formula():
    rng = np.random.default_rng(0)
    block = nt.DecoderBlock(6, 2, 8, 0.0, rng=rng)
    layer = nt.SequentialTokenBlock(block, nt.Linear(12, 6, False, rng), nt.RMSNorm(6), nt.RMSNorm(6)).astype(np.float64)
    for p in layer.parameters():
        p.data = rng.standard_normal(p.data.shape)
    h, e = rng.standard_normal((2, 2, 5, 6))
    rows = np.empty((2, 5, 6))
    for b, t in np.ndindex(2, 5):
        normed = [gamma * x / np.sqrt((x ** 2).mean() + 1e-6)
                  for gamma, x in ((layer.norm_h.gamma.data, h[b, t]), (layer.norm_e.gamma.data, e[b, t]))]
        rows[b, t] = sum(normed[n // 6][n % 6] * layer.projection.weight.data[n] for n in range(12))
    mask = nt.causal_mask(5)
    np.testing.assert_allclose(layer(h, e, mask), block(rows, mask), rtol=1e-10)
