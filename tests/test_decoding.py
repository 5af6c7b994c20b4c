import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer.decoding import generate, greedy_decode


class Counting:
    """The likeliest next token is the sum of the row's source and of its target so far, modulo 7."""

    def encode(self, source):
        return source.sum(1)

    def decode(self, target, memory, source):
        return np.eye(7)[(memory[:, None] + np.cumsum(target, 1)) % 7]


def test_greedy_takes_the_likeliest_token_and_a_row_that_has_ended_stays_there():
    source = np.arange(7)[:, None]
    decoded = greedy_decode(Counting(), source, bos=1, eos=2, max_len=12)
    for row, ids in zip(source, decoded):
        total, ended = 1 + row[0], False
        for token in ids:
            assert token == (2 if ended else total % 7)
            ended, total = ended or token == 2, total + token
    assert decoded.shape == (7, 12) and (decoded == 2).any(1).sum() not in (0, 7)
    early = greedy_decode(Counting(), source[[0, 1, 3]], bos=1, eos=2, max_len=12)
    assert early.shape[1] == 1 + max(list(ids).index(2) for ids in early) < 12


def test_greedy_decodes_a_real_model_as_its_own_forward_would():
    model = nt.EncoderDecoder(11, 7, 12, 2, 1, 16, 0.0, max_len=20, rng=3).eval()
    source = np.random.default_rng(0).integers(1, 11, (9, 5))
    for row, ids in zip(source, greedy_decode(model, source, bos=1, eos=6, max_len=5)):
        target = [1]
        for token in ids:
            assert token == 6 if 6 in target else token == model(row, target)[-1].argmax()
            target.append(token)


def test_sampling_follows_the_seed_and_the_temperature():
    model = nt.CausalLanguageModel(7, 12, 2, 1, max_len=6, rng=0).eval()
    rng = np.random.default_rng(0)
    for p in model.parameters():
        p.data = rng.standard_normal(p.data.shape)
    start = [3, 1]
    text = generate(model, start, 30, rng=1)
    assert text[:2] == start and len(text) == 32 and set(text) <= set(range(7))
    assert text == generate(model, start, 30, rng=1) != generate(model, start, 30, rng=2)
    cold = generate(model, start, 10, temperature=1e-6, rng=1)
    for n in range(2, 12):
        assert cold[n] == model(np.array(cold[max(0, n - 6):n]))[-1].argmax()
    with pytest.raises(ValueError, match="temperature = 0"):
        generate(model, start, 1, temperature=0)


def test_samples_have_the_frequencies_of_the_model():
    model = nt.CausalLanguageModel(5, 12, 2, 1, max_len=6, rng=0).eval()
    p = nt.Softmax()(3 * np.random.default_rng(0).standard_normal(5))
    model.forward = lambda ids: np.log(p)[None]
    counts = np.bincount(generate(model, [0], 4000, rng=1)[1:], minlength=5)
    np.testing.assert_allclose(counts / 4000, p, atol=4 * np.sqrt(0.25 / 4000))
