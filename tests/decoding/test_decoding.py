"""Greedy decoding, sampling, beam search, and the key-value cache that all three use."""

import copy
import itertools

import numpy as np
import pytest
from helpers import composed

import numpy_transformer as nt
from numpy_transformer.layers.attention import with_score_changes
from numpy_transformer.decoding.sampling import next_token_probabilities


def random_weights(model, seed=0):
    """The model in float64 and eval, with parameters so large that attention is far from uniform."""
    rng = np.random.default_rng(seed)
    for p in model.astype(np.float64).parameters():
        p.data = 2 * rng.standard_normal(p.data.shape) / np.sqrt(p.data.shape[0] if p.data.ndim > 1 else 1)
    return model.eval()


def language_model(**options):
    return random_weights(composed.language_model(7, 24, 4, 2, max_len=12, rng=0, **options))


def encoder_decoder(seed=0, **options):
    model = random_weights(nt.EncoderDecoder(9, 4, 12, 2, 2, 16, 0.0, max_len=20, rng=3, **options), seed)
    model.output.weight.data /= 4                           # no token is nearly certain
    model.output.bias.data = [0.2, -0.4, 0.3, 0.1]          # eos is 2 in these tests: some targets end early
    return model


@pytest.fixture
def source():
    source = np.random.default_rng(4).integers(1, 9, (5, 6))
    source[0, 4:] = 0                                       # padding
    return source


LANGUAGE_MODELS = {"learned": {}, "sinusoidal, post-norm": {"positions": "sinusoidal", "norm": "post"},
                   "rotary, grouped": {"positions": "rotary", "num_kv_heads": 2},
                   "rotary, rms, swiglu, one key head": {"positions": "rotary", "num_kv_heads": 1, "norm_layer": "rms",
                                                         "activation": "swiglu", "bias": False},
                   "half-split, wide heads, biased queries": {
                       "positions": "rotary", "num_kv_heads": 2, "norm_layer": "rms", "activation": "geglu",
                       "bias": False, "d_head": 10, "qkv_bias": True, "rope_interleaved": False, "rope_base": 50.0},
                   "flash, own frequencies": {"positions": "rotary", "num_kv_heads": 2, "attention": "flash",
                                              "d_head": 8, "rope_frequencies": [1.5, 0.4, 0.1, 0.01]},
                   "alibi, grouped": {"positions": "alibi", "num_kv_heads": 2}, "relative": {"positions": "relative"},
                   "sliding window": {"positions": "rotary", "attention": lambda sizes, rng: with_score_changes(
                       nt.ScaledDotProductAttention(), nt.SlidingWindow(3))}}


@pytest.mark.parametrize("options", LANGUAGE_MODELS.values(), ids=LANGUAGE_MODELS)
@pytest.mark.parametrize("prompt", [1, 3, 8])
def test_the_cache_changes_nothing(options, prompt):
    """Prompts of several lengths, padded on the left, twice in a row, then token by token and two at once."""
    model = language_model(**options)
    rng = np.random.default_rng(prompt)
    for _ in range(2):
        ids, real = rng.integers(0, 7, (3, 12)), np.arange(12) >= np.array([[0], [prompt // 2], [prompt - 1]])
        whole = model(ids, real)
        cache, parts = nt.KeyValueCache(), []
        for new in (slice(0, prompt), slice(prompt, prompt + 1), slice(prompt + 1, prompt + 3), slice(prompt + 3, 12)):
            parts.append(model(ids[:, new], real[:, new], cache))
        assert cache.length == 12
        parts = np.concatenate(parts, 1)
        np.testing.assert_allclose(parts[real], whole[real], rtol=1e-9, atol=1e-11)


def test_left_padding_does_not_shift_positions():
    for options in LANGUAGE_MODELS.values():
        model = language_model(**options)
        ids = np.array([[6, 6, 3, 1, 5]])
        padded = model(ids, np.array([[False, False, True, True, True]]))[0, 2:]
        np.testing.assert_allclose(padded, model(ids[0, 2:]), rtol=1e-9)


def test_one_sequence_without_batch_axis_is_cached_too():
    model, cache = language_model(positions="rotary"), nt.KeyValueCache()
    ids = np.array([3, 1, 4, 1, 5])
    parts = [model(ids[:2], cache=cache), model(ids[2:4], cache=cache), model(ids[4:], cache=cache)]
    np.testing.assert_allclose(np.concatenate(parts), model(ids), rtol=1e-9)


@pytest.mark.parametrize("options", [{}, {"norm": "post", "positions": "learned"}, {"pad_id": None}],
                         ids=["pre-norm", "post-norm, learned", "no padding"])
def test_the_cache_of_an_encoder_decoder_changes_nothing(options, source):
    model = encoder_decoder(**options)
    for seed in range(2):
        target = np.random.default_rng(seed).integers(0, 4, (5, 9))        # id 0, padding, among them
        memory = model.encode(source)
        cache, parts = nt.KeyValueCache(), []
        for new in (slice(0, 2), slice(2, 3), slice(3, 9)):
            parts.append(model.decode(target[:, new], memory, source, cache=cache))
        np.testing.assert_allclose(np.concatenate(parts, 1), model.decode(target, memory, source), rtol=1e-9,
                                   atol=1e-11)


def test_keys_and_values_of_the_memory_are_computed_once(source, monkeypatch):
    calls = []
    forward = nt.Linear.forward
    monkeypatch.setattr(nt.Linear, "forward", lambda self, x: calls.append(self) or forward(self, x))
    model = encoder_decoder()
    nt.greedy_decode(model, source, bos=1, eos=3, max_len=6)
    block = model.decoder.blocks[0]
    assert calls.count(block.cross_attention.key) == calls.count(block.cross_attention.value) == 1
    assert calls.count(block.attention.key) == calls.count(block.cross_attention.query) > 1


def test_a_cache_is_for_eval_and_for_one_batch():
    model = language_model()
    with pytest.raises(ValueError, match="call model.eval"):
        model.train()(np.ones((2, 3), int), cache=nt.KeyValueCache())
    cache = nt.KeyValueCache()
    model.eval()(np.ones((2, 3), int), cache=cache)
    with pytest.raises(ValueError, match=r"batch of shape \(2,\), the new tokens have \(3,\)"):
        model(np.ones((3, 1), int), cache=cache)
    with pytest.raises(ValueError, match=r"\(2, 10\) after 3 in the cache.*max_len = 12"):
        model(np.ones((2, 10), int), cache=cache)
    with pytest.raises(IndexError):
        model(np.full((2, 1), 7), cache=cache)
    assert cache.length == 3                                # what was refused left no trace
    np.testing.assert_allclose(model(np.ones((2, 1), int), cache=cache)[:, 0], model(np.ones((2, 4), int))[:, 3])


def test_selected_rows_of_a_cache_go_on_as_they_would_alone():
    model, cache = language_model(positions="rotary", num_kv_heads=2), nt.KeyValueCache()
    ids = np.random.default_rng(0).integers(0, 7, (4, 8))
    model(ids[:, :6], cache=cache)
    cache.select([3, 0, 0])
    logits = model(ids[[3, 0, 0], 6:7], cache=cache)
    logits = np.concatenate([logits, model(ids[[3, 0, 0], 7:], cache=cache)], 1)
    np.testing.assert_allclose(logits, model(ids)[[3, 0, 0], 6:], rtol=1e-9)


class Counting:
    """The likeliest next token is the sum of the row's source and of its target so far, modulo 7."""

    def encode(self, source):
        return source.sum(1)

    def decode(self, target, memory, source):
        return np.eye(7)[(memory[:, None] + np.cumsum(target, 1)) % 7]


def test_greedy_takes_the_likeliest_token_and_a_row_that_has_ended_stays_there():
    source = np.arange(7)[:, None]
    decoded = nt.greedy_decode(Counting(), source, bos=1, eos=2, max_len=12, cached=False)
    for row, ids in zip(source, decoded):
        total, ended = 1 + row[0], False
        for token in ids:
            assert token == (2 if ended else total % 7)
            ended, total = ended or token == 2, total + token
    assert decoded.shape == (7, 12) and (decoded == 2).any(1).sum() not in (0, 7)
    early = nt.greedy_decode(Counting(), source[[0, 1, 3]], bos=1, eos=2, max_len=12, cached=False)
    assert early.shape[1] == 1 + max(list(ids).index(2) for ids in early) < 12


def test_greedy_decodes_a_real_model_as_its_own_forward_would():
    model = nt.EncoderDecoder(11, 7, 12, 2, 1, 16, 0.0, max_len=20, rng=3).eval()
    source = np.random.default_rng(0).integers(1, 11, (9, 5))
    decoded = nt.greedy_decode(model, source, bos=1, eos=6, max_len=5)
    for row, ids in zip(source, decoded):
        target = [1]
        for token in ids:
            assert token == 6 if 6 in target else token == model(row, target)[-1].argmax()
            target.append(token)
    np.testing.assert_array_equal(decoded, nt.greedy_decode(model, source, bos=1, eos=6, max_len=5, cached=False))


def test_decoding_wants_a_model_in_eval(source):
    with pytest.raises(ValueError, match="call model.eval"):
        nt.greedy_decode(encoder_decoder().train(), source, 1, 2, 5)
    with pytest.raises(ValueError, match="call model.eval"):
        nt.generate(language_model().train(), [1], 5)


# beam search

def every_target(model, source, bos, eos, max_len, vocab_size, length_penalty):
    """(score, ids) of all targets that end in eos or have max_len tokens, best first, each by a forward of its own."""
    scored = []
    for length in range(1, max_len + 1):
        for ids in itertools.product(range(vocab_size), repeat=length):
            if eos in ids[:-1] or (length < max_len and ids[-1] != eos):
                continue
            z = model(source, np.array([bos, *ids[:-1]]))
            log_p = z - np.log(np.exp(z).sum(-1, keepdims=True))
            total = sum(log_p[t, token] for t, token in enumerate(ids))
            scored.append((total / ((5 + length) / 6) ** length_penalty, list(ids)))
    return sorted(scored, reverse=True)


@pytest.mark.slow
@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.5])
def test_a_beam_as_wide_as_all_continuations_is_exhaustive_search(source, length_penalty):
    model = encoder_decoder()
    source = source[:3]
    found = nt.beam_search(model, source, 1, 2, max_len=4, beam=4 ** 4, length_penalty=length_penalty, n_best=6)
    lengths = set()
    for row, targets in zip(source, found):
        wanted = every_target(model, row, 1, 2, 4, 4, length_penalty)[:6]
        assert [ids for ids, _ in targets] == [ids for _, ids in wanted]
        np.testing.assert_allclose([score for _, score in targets], [score for score, _ in wanted], rtol=1e-9)
        lengths |= {len(ids) for ids, _ in targets}
    assert len(lengths) > 1                                 # else the penalty had nothing to decide


def plain_beam_search(model, source, bos, eos, max_len, beam, length_penalty, n_best):
    """The docstring of beam_search, target by target; it ends only with `beam` finished targets or with none left."""
    alive, finished = [((), 0.0)], []
    for length in range(1, max_len + 1):
        choices = []
        for ids, total in alive:
            z = model(source, np.array([bos, *ids]))[-1]
            log_p = z - np.log(np.exp(z).sum())
            choices += [((*ids, token), total + log_p[token]) for token in range(len(log_p))]
        choices.sort(key=lambda choice: -choice[1])
        alive = []
        for rank, (ids, total) in enumerate(choices):
            if ids[-1] != eos and length < max_len:
                alive.append((ids, total))
            elif rank < beam:
                finished.append((list(ids), total / ((5 + length) / 6) ** length_penalty))
        alive = alive[:beam]
        if len(finished) >= beam or not alive:
            break
    return sorted(finished, key=lambda target: -target[1])[:n_best]


@pytest.mark.slow
@pytest.mark.parametrize("beam, n_best", [(2, 1), (3, 1), (3, 2), (5, 5)])
@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 4.0])         # 4: an unfinished target may still win later
def test_a_beam_search_is_what_its_docstring_says(source, beam, n_best, length_penalty):
    cut_short = 0
    for seed in range(2):
        model = encoder_decoder(seed)
        model.output.weight.data /= 3
        for row, targets in zip(source, nt.beam_search(model, source, 1, 2, 7, beam, length_penalty, n_best)):
            wanted = plain_beam_search(model, row, 1, 2, 7, beam, length_penalty, n_best)
            assert [ids for ids, _ in targets] == [ids for ids, _ in wanted]
            np.testing.assert_allclose([s for _, s in targets], [s for _, s in wanted], rtol=1e-9)
            cut_short += max(len(ids) for ids, _ in wanted) < 7
    assert cut_short


def test_a_beam_of_one_is_greedy(source):
    ends = 0
    for seed in range(6):
        model = encoder_decoder(seed)
        for row, [(ids, score)] in zip(nt.greedy_decode(model, source, 1, 2, 7),
                                       nt.beam_search(model, source, 1, 2, 7, beam=1)):
            assert ids == row[:len(ids)].tolist() and (len(ids) == 7 or ids[-1] == 2)
            ends += ids[-1] == 2
    assert 0 < ends < 30                                    # some end early and some do not


def test_a_wider_beam_finds_what_greedy_decoding_misses(source):
    better = 0
    for seed in range(6):
        model = encoder_decoder(seed)
        for narrow, wide in zip(nt.beam_search(model, source, 1, 2, 6, beam=1, length_penalty=0.0),
                                nt.beam_search(model, source, 1, 2, 6, beam=64, length_penalty=0.0)):
            assert wide[0][1] >= narrow[0][1] - 1e-9
            better += wide[0][1] > narrow[0][1] + 1e-9
    assert better > 3


def test_sources_do_not_meet_in_a_beam_and_the_cache_changes_nothing(source):
    model = encoder_decoder()
    together = nt.beam_search(model, source, 1, 2, 8, beam=3, n_best=3)
    for other in (nt.beam_search(model, source, 1, 2, 8, beam=3, n_best=3, cached=False),
                  [nt.beam_search(model, row[None], 1, 2, 8, beam=3, n_best=3)[0] for row in source]):
        for a, b in zip(together, other, strict=True):
            assert [ids for ids, _ in a] == [ids for ids, _ in b]
            np.testing.assert_allclose([s for _, s in a], [s for _, s in b], rtol=1e-9)
    for targets in together:
        assert len(targets) == 3 and len({tuple(ids) for ids, _ in targets}) == 3
        assert sorted((s for _, s in targets), reverse=True) == [s for _, s in targets]


def test_a_length_penalty_favours_long_targets(source):
    model = encoder_decoder()
    means = [np.mean([len(targets[0][0]) for targets in nt.beam_search(model, source, 1, 2, 8, 8, penalty)])
             for penalty in (0.0, 4.0)]
    assert means[0] < means[1]


@pytest.mark.parametrize("options, match", [
    ({"beam": 0}, "beam must be a whole number of at least 1, got 0"),
    ({"beam": 2, "n_best": 3}, "n_best = 3 is above"),
    ({"length_penalty": -1}, "length_penalty = -1 must not be negative"), ({"n_best": 0}, "n_best must be"),
    ({"length_penalty": float("nan")}, "length_penalty = nan")])
def test_beams_that_cannot_be_are_refused(source, options, match):
    with pytest.raises(ValueError, match=match):
        nt.beam_search(encoder_decoder(), source, 1, 2, 5, **options)


# sampling

def test_sampling_follows_the_seed_and_the_temperature():
    model = language_model()
    start = [3, 1]
    text = nt.generate(model, start, 30, rng=1)
    assert text[:2] == start and len(text) == 32 and set(text) <= set(range(7))
    assert text == nt.generate(model, start, 30, rng=1)
    assert len({tuple(nt.generate(model, start, 30, temperature=9, rng=seed)) for seed in range(4)}) == 4
    for temperature in (1e-6, 0):
        cold = nt.generate(model, start, 20, temperature=temperature, rng=1)
        for n in range(2, 22):                              # only the latest max_len tokens are seen
            assert cold[n] == model(np.array(cold[max(0, n - 12):n]))[-1].argmax()


@pytest.mark.parametrize("options", [
    pytest.param(options, id=name, marks=[] if name == min(LANGUAGE_MODELS) else [pytest.mark.slow])
    for name, options in LANGUAGE_MODELS.items()])
def test_prompts_of_different_lengths_go_on_together(options):
    """With the cache and without, also beyond max_len; the first prompt as if it were alone."""
    model = language_model(**options)
    prompts = [[4], [1, 2, 3, 5, 6], [5, 6, 1]]
    texts = nt.generate(model, prompts, 20, rng=5)
    assert texts == nt.generate(model, prompts, 20, rng=5, cached=False)
    assert [text[:len(prompt)] for text, prompt in zip(texts, prompts)] == prompts
    assert texts[0] == nt.generate(model, prompts[0], 20, rng=5)
    cold = nt.generate(model, prompts, 20, temperature=0)
    assert cold == [nt.generate(model, prompt, 20, temperature=0) for prompt in prompts]


def test_a_stop_token_ends_its_own_text_only():
    model = language_model()
    prompts = [[4], [1, 2, 3], [5, 6]]
    texts = nt.generate(model, prompts, 25, temperature=30, rng=3)
    stop = texts[0][6]
    stopped = nt.generate(model, prompts, 25, temperature=30, rng=3, stop=[stop])
    for text, short, prompt in zip(texts, stopped, prompts):
        n = len(prompt)
        end = n + text[n:].index(stop) + 1 if stop in text[n:] else len(text)
        assert short == text[:end]
    assert len({len(text) - len(prompt) for text, prompt in zip(stopped, prompts)}) > 1


@pytest.mark.slow
def test_samples_have_the_frequencies_of_the_model():
    model = nt.CausalLanguageModel(5, 12, 2, 1, max_len=6, rng=0).eval()
    p = nt.Softmax()(3 * np.random.default_rng(0).standard_normal(5))
    model.forward = lambda ids, mask=None, cache=None: np.tile(np.log(p), (len(ids), 1, 1))
    counts = np.bincount(nt.generate(model, [0], 4000, rng=1)[1:], minlength=5)
    np.testing.assert_allclose(counts / 4000, p, atol=4 * np.sqrt(0.25 / 4000))


def plain_probabilities(logits, temperature, top_k, top_p):
    """By the definitions, one token after another."""
    weights = [np.exp(z / temperature) for z in logits]
    order = sorted(range(len(weights)), key=lambda i: -weights[i])
    kept = order[:top_k]
    total, nucleus = sum(weights[i] for i in kept), []
    for i in kept:
        if top_p is None or sum(weights[j] for j in nucleus) < top_p * total:
            nucleus.append(i)
    total = sum(weights[i] for i in nucleus)
    return [weights[i] / total if i in nucleus else 0.0 for i in range(len(weights))]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
@pytest.mark.parametrize("top_k", [None, 1, 4, 11, 30])
@pytest.mark.parametrize("top_p", [None, 1.0, 0.7, 1e-9])
def test_top_k_and_top_p_keep_what_their_definitions_keep(temperature, top_k, top_p):
    logits = 2 * np.random.default_rng(3).standard_normal((2, 3, 11))
    p = next_token_probabilities(logits, temperature, top_k, top_p)
    for place in np.ndindex(2, 3):
        np.testing.assert_allclose(p[place], plain_probabilities(logits[place], temperature, top_k, top_p), rtol=1e-12)


def test_a_nucleus_that_reaches_top_p_exactly_is_large_enough():
    np.testing.assert_array_equal(next_token_probabilities(np.log([0.25, 0.5, 0.25]), top_p=0.5), [0, 1, 0])
    more = next_token_probabilities(np.log([0.25, 0.5, 0.25]), top_p=0.51)
    np.testing.assert_array_equal(more > 0, [True, True, False])


def test_probabilities_of_extreme_logits_are_finite():
    p = next_token_probabilities(np.array([1e4, 0.0, -np.inf]), 1e-3, top_p=0.9)
    np.testing.assert_array_equal(p, [1, 0, 0])


@pytest.mark.parametrize("options, match", [
    ({"temperature": -0.1}, "temperature = -0.1"), ({"temperature": float("nan")}, "temperature = nan"),
    ({"top_p": 0}, r"top_p = 0 must lie in \(0, 1\]"), ({"top_p": 1.5}, "top_p = 1.5"), ({"top_k": 0}, "top_k must")])
def test_choices_outside_their_range_are_refused(options, match):
    with pytest.raises(ValueError, match=match):
        nt.generate(language_model(), [1], 3, **options)


@pytest.mark.parametrize("prompt", [[], [[1, 2], []]])
def test_a_prompt_has_at_least_one_token(prompt):
    with pytest.raises(ValueError, match="at least one to go on from"):
        nt.generate(language_model(), prompt, 3)


def test_a_cache_makes_a_twin_of_the_stack_with_the_same_parameters():
    """Also while calls are recorded; and a copy of a cache goes on by itself."""
    model = language_model(positions="rotary", num_kv_heads=2)
    ids = np.random.default_rng(5).integers(0, 7, (2, 8))
    whole = model(ids)
    cache = nt.KeyValueCache()
    with nt.record(model) as tape:
        first = model(ids[:, :5], cache=cache)
    assert len([call for call in tape.calls if call.name == "decoder.blocks.1.attention.key"]) == 1
    np.testing.assert_allclose(first, whole[:, :5], atol=1e-12)
    twin = cache.caching(model.decoder)
    assert twin is cache.caching(model.decoder) and twin is not model.decoder
    assert {id(p) for p in twin.parameters()} == {id(p) for p in model.decoder.parameters()}
    assert not any("cach" in type(part).__name__.lower() for _, part in model.named_modules())
    other = copy.deepcopy(cache)
    for each in (cache, other):
        np.testing.assert_allclose(model(ids[:, 5:], cache=each), whole[:, 5:], atol=1e-12)
    assert cache.length == other.length == 8
