import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer.decoding import generate, greedy_decode


def test_greedy_takes_the_likeliest_token_and_stops_at_the_end():
    model = nt.EncoderDecoder(11, 7, 12, 2, 1, 16, 0.0, max_len=20, rng=3).eval()
    rng = np.random.default_rng(0)
    for p in model.parameters():
        p.data = rng.standard_normal(p.data.shape)
    model.output.bias.data[2] += 6.0                    # so that some rows end early
    source = rng.integers(1, 11, (9, 5))
    decoded = greedy_decode(model, source, bos=1, eos=2, max_len=12)
    stopped = 0
    for row, ids in zip(source, decoded):
        target = [1]
        for token in ids:
            assert token == 2 if target[-1] == 2 else token == model(row, target)[-1].argmax()
            target.append(token)
        stopped += 2 in ids
    assert decoded.shape[1] <= 12 and 0 < stopped < 9


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
