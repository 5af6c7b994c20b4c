"""Speculative decoding: the same text as without a draft, or the same distribution; and a cache that goes back."""

import itertools
import math

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer.decoding.logit_changes import NoRepeatedNGrams
from numpy_transformer.decoding.sampling import next_token_probabilities
from numpy_transformer.decoding.speculative import verify

V = 7


def random_weights(model, seed=0, scale=2.0):
    """The model in float64 and eval, with parameters so large that its distributions are far from uniform."""
    rng = np.random.default_rng(seed)
    for p in model.astype(np.float64).parameters():
        p.data = scale * rng.standard_normal(p.data.shape) / np.sqrt(p.data.shape[0] if p.data.ndim > 1 else 1)
    return model.eval()


def language_model(seed=0, scale=2.0, layers=2, **options):
    return random_weights(nt.CausalLanguageModel(V, 24, 4, layers, max_len=40, rng=0, **options), seed, scale)


def nearly(model, noise):
    """A copy of a model whose parameters are a little different: a draft that is often right."""
    rng, twin = np.random.default_rng(5), language_model()
    for p, q in zip(twin.parameters(), model.parameters()):
        p.data = q.data + noise * rng.standard_normal(q.data.shape)
    return twin


def with_heads(seed=0, scale=2.0):
    model = nt.CausalLanguageModel(V, 24, 4, 4, max_len=40, positions="rotary", rng=0)
    blocks = model.decoder.blocks
    model.decoder = nt.MultiTokenStack(nt.Stack(blocks[:1]), blocks[1:], model.decoder.norm)
    return nt.MultiTokenDraft(random_weights(model, seed, scale))


def model_and_drafts():
    model, own = language_model(), with_heads()
    return {"another model": (model, nt.ModelDraft(language_model(3))),
            "nearly the same": (model, nt.ModelDraft(nearly(model, 0.1))),
            "the model": (model, nt.ModelDraft(model)), "n-grams": (model, nt.NGramDraft(V)), "heads": (own, own)}


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.slow if name in ("another model", "nearly the same") else ())
    for name in ("another model", "nearly the same", "the model", "n-grams", "heads")])
def test_greedy_text_is_that_of_generate(name):
    """Also where the text grows longer than max_len, where it stops, and where an n-gram must not occur again."""
    model, draft = model_and_drafts()[name]
    for prompt, count, guesses in itertools.product(([3], [1, 2, 1, 2, 1]), (1, 2, 45), (1, 9)):
        for options in ({}, {"stop": [4, 5]}, {"changes": [NoRepeatedNGrams(3)]}):
            result = nt.speculative_decode(model, draft, prompt, count, guesses, temperature=0, **options)
            assert result.ids == nt.generate(model, prompt, count, temperature=0, **options)
            assert all(0 <= a <= n <= guesses for n, a in zip(result.proposed, result.accepted))
            new = len(result.ids) - len(prompt)
            assert result.calls <= new <= sum(result.accepted) + result.calls
            if "stop" not in options:
                assert new == count == sum(result.accepted) + result.calls and result.tokens_per_call == count / result.calls


def test_a_perfect_draft_gives_one_token_more_than_guesses():
    """Also one that has guessed for another text before."""
    model = language_model()
    draft = nt.ModelDraft(model)
    for prompt, temperature in ([1, 2], 0), ([3, 4, 5], 0.7):
        result = nt.speculative_decode(model, draft, prompt, 15, 4, temperature, rng=0)
        assert result.accepted == result.proposed == [4, 4, 4] and result.calls == 3


@pytest.mark.parametrize("rejected", [[], [1, 1], [6]])
def test_heads_guess_from_the_token_before_the_latest(rejected):
    """Head 1 guesses the token after the latest, head 2 the next one; what was rejected makes no difference."""
    own, text = with_heads(), [3, 1, 4, 1, 5]
    expected = own.model(np.array([text[:-1]]))[0, 1:, -1].argmax(-1)
    own(np.array([text[:-1] + rejected]))
    guesses, q = own.propose(text, 2, lambda logits, texts: next_token_probabilities(logits, 0), np.random.default_rng(0))
    assert guesses == expected.tolist() and q.shape == (2, V) and q[[0, 1], guesses].tolist() == [1, 1]
    assert own.propose([*text, 2, 2, 2, 2], 2, None, None)[0] == own.propose([1], 2, None, None)[0] == []     # nothing is known


def tokens_read(model, draft, count):
    """The number of tokens that the target reads in each call."""
    read, forward = [], model.forward
    model.forward = lambda ids, *rest, **cache: read.append(ids.shape[-1]) or forward(ids, *rest, **cache)
    nt.speculative_decode(model, draft, [1, 2, 3], count, 4, temperature=0)
    return read


def test_accepted_tokens_are_not_read_again():
    model = language_model()
    assert tokens_read(model, nt.ModelDraft(nearly(model, 0)), 15) == [3 + 4, 1 + 4, 1 + 4]
    assert tokens_read(language_model(), nt.ModelDraft(language_model(3)), 4)[1:] == [3, 2, 1]  # all guesses are rejected


def chi_squared(counts, p):
    """The statistic in standard deviations above its expected value, for cells that are expected at least five times."""
    expected = p * counts.sum()
    large = expected >= 5
    cells, seen = np.append(expected[large], expected[~large].sum()), np.append(counts[large], counts[~large].sum())
    cells, seen = cells[cells > 0], seen[cells > 0]
    assert (counts[p == 0] == 0).all()
    return ((seen - cells) ** 2 / cells).sum() / math.sqrt(2 * len(cells)) - math.sqrt(len(cells) / 2)


def distribution_of_three(model, prompt, **settings):
    """P(a, b, c) of the three tokens after the prompt, from the logits of all texts."""
    p = np.ones((V, V, V))
    for a, b in itertools.product(range(V), repeat=2):
        logits = model(np.array([[*prompt, a, b]]))[0, -3:]
        first, second, third = next_token_probabilities(logits, **settings)
        p[a, b] *= first[a] * second[b] * third
    return p


@pytest.mark.slow
@pytest.mark.parametrize("name", ["another model", "nearly the same", "n-grams", "heads"])
@pytest.mark.parametrize("settings", [{"temperature": 2.0}, {"temperature": 3.0, "top_k": 5, "top_p": 0.9}])
def test_sampled_texts_have_the_distribution_of_the_model(name, settings):
    check_distribution(name, settings, 2000)


def check_distribution(name, settings, draws):
    model, draft = model_and_drafts()[name]
    prompt, rng, counts, accepted = [1, 2, 1], np.random.default_rng(1), np.zeros((V, V, V)), 0
    for _ in range(draws):
        result = nt.speculative_decode(model, draft, prompt, 3, 2, **settings, rng=rng)
        counts[tuple(result.ids[3:])] += 1
        accepted += sum(result.accepted)
    assert accepted > draws / 100
    assert chi_squared(counts, distribution_of_three(model, prompt, **settings)) < 4


def test_hundreds_of_texts_have_the_distribution_of_the_model():
    check_distribution("nearly the same", {"temperature": 2.0}, 250)


WRONG = {"accept always": lambda x, p, q, u: x, "redraw from p": lambda x, p, q, u: None if u >= p[x] / q[x] else x,
         "accept with q / p": lambda x, p, q, u: None if u >= q[x] / p[x] else x}


def test_two_positions_have_the_distribution_of_the_model_and_wrong_rules_have_not():
    rng = np.random.default_rng(2)
    p, q = rng.dirichlet(np.ones(5), 3), rng.dirichlet(np.ones(5), 2)
    right, wrong = np.zeros((5, 5, 5)), {name: np.zeros(5) for name in WRONG}
    for _ in range(8_000):
        guessed = [rng.choice(5, p=row) for row in q]
        new = verify(guessed, p, q, rng)
        later = [rng.choice(5, p=row) for row in p[len(new):]]              # what the next call would add
        right[tuple(new + later)] += 1
        for name, rule in WRONG.items():
            x = rule(guessed[0], p[0], q[0], rng.random())
            wrong[name][rng.choice(5, p=p[0]) if x is None else x] += 1
    assert chi_squared(right, p[0][:, None, None] * p[1][:, None] * p[2]) < 4
    assert all(chi_squared(counts, p[0]) > 50 for counts in wrong.values())


def test_equal_seeds_give_equal_texts():
    for model, draft in model_and_drafts().values():
        first, second, other = (nt.speculative_decode(model, draft, [1, 2], 20, temperature=3, rng=seed) for seed in (3, 3, 4))
        assert first == second and first.ids != other.ids


def test_ngrams_continue_as_after_their_latest_occurrence():
    def guess(text, count=4, size=3):
        guesses, q = nt.NGramDraft(10, size).propose([int(token) for token in text], count, None, None)
        assert q.shape == (len(guesses), 10) and all(q[n, token] == 1 == q[n].sum() for n, token in enumerate(guesses))
        return "".join(map(str, guesses))
    assert guess("1234567123") == "4567"
    assert guess("1234912351239") == "1235"                 # "39" did not occur before, "9" did
    assert guess("91239412351239", size=2) == "4123"        # "39" before "1239": the longest match counts
    assert guess("12312") == "3123"                         # what it has guessed is part of what it continues
    assert guess("17327827") == "8278"                      # "27" was followed by "8", although "7" was first followed by "3"
    assert guess("55", count=3) == "555"
    assert guess("12345") == guess("1") == ""


def test_the_cache_goes_back():
    model, cache = language_model(positions="rotary"), nt.KeyValueCache()
    ids = np.random.default_rng(0).integers(0, V, (2, 9))
    whole = model(ids)
    model(ids[:, :4], cache=cache)
    model(6 - ids[:, 4:7], cache=cache)                     # other tokens
    cache.shorten(3)
    assert cache.length == 3 and cache.token_mask.shape == (2, 3)
    np.testing.assert_allclose(model(ids[:, 3:], cache=cache), whole[:, 3:], rtol=1e-9)
    cache.shorten(0)
    np.testing.assert_allclose(model(ids[:1], cache=cache), whole[:1], rtol=1e-9)       # another batch
    cache.shorten(9)
    for length in (-1, 10):
        with pytest.raises(ValueError, match=f"length = {length}: the cache holds 9 tokens.* choose a length from 0 to 9"):
            cache.shorten(length)
    nt.KeyValueCache().shorten(0)


def test_a_shorter_target_keeps_its_memory():
    model = random_weights(nt.EncoderDecoder(9, 5, 12, 2, 2, 16, 0.0, max_len=20, rng=3))
    rng = np.random.default_rng(0)
    source, target = rng.integers(1, 9, (2, 6)), rng.integers(1, 5, (2, 6))            # as long as the target
    memory, cache = model.encode(source), nt.KeyValueCache()
    model.decode(target, memory, source, cache=cache)
    cache.shorten(2)
    np.testing.assert_allclose(model.decode(target[:, 2:], memory, source, cache=cache),
                               model.decode(target, memory, source)[:, 2:], rtol=1e-9)


@pytest.mark.parametrize("change, sentence", [
    ({"ids": []}, "a prompt of 0 tokens"), ({"count": 0}, "count must be"), ({"guesses": 0}, "guesses must be"),
    ({"temperature": -1}, "temperature = -1"),
    ({"draft": nt.NGramDraft(9)}, "the draft has a vocabulary of 9 tokens, and the model one of"),
    ({"model": nt.CausalLanguageModel(V, 8, 2, 1)}, "call model.eval"),
    ({"draft": lambda: nt.ModelDraft(nt.CausalLanguageModel(V, 8, 2, 1))}, "call model.eval")])
def test_what_does_not_fit_is_refused(change, sentence):
    arguments = {"model": language_model(), "draft": nt.NGramDraft(V), "ids": [1, 1, 1], "count": 5, **change}
    with pytest.raises(ValueError, match=sentence):
        if callable(arguments["draft"]):
            arguments["draft"] = arguments["draft"]()
        nt.speculative_decode(**arguments)


def test_what_is_no_language_model_or_no_draft_is_named():
    model, encoder = language_model(), nt.MaskedLanguageModel(V, 8, 2, 1).eval()
    with pytest.raises(TypeError, match=r"the draft is a CausalLanguageModel, .* nt.ModelDraft\(model\)"):
        nt.speculative_decode(model, language_model(), [1, 1], 3)
    with pytest.raises(TypeError, match="a str is no LanguageModel, so it cannot continue a text; pass a CausalLanguageModel"):
        nt.ModelDraft("ngram")
    for call in (lambda: nt.generate(encoder, [1, 1], 3), lambda: nt.speculative_decode(encoder, nt.NGramDraft(V), [1, 1], 3)):
        with pytest.raises(TypeError, match="a MaskedLanguageModel takes no cache, .* pass a CausalLanguageModel"):
            call()


@pytest.mark.parametrize("size", [V - 2, V + 2])
def test_a_draft_with_a_smaller_or_larger_vocabulary_is_refused_before_it_guesses(size):
    draft = nt.ModelDraft(nt.CausalLanguageModel(size, 8, 2, 1, rng=0).eval())
    with pytest.raises(ValueError, match=f"the draft has a vocabulary of {size} tokens, and the model one of {V}; use a draft"):
        nt.speculative_decode(language_model(), draft, [V - 1, 1], 3)


def test_a_draft_that_does_not_say_its_vocabulary_is_refused_by_its_distributions():
    class Certain:
        def propose(self, ids, count, probabilities, rng):
            return [1], np.eye(V + 3)[[1]]

    with pytest.raises(ValueError, match=f"the draft has distributions of {V + 3} tokens, and the model of {V}"):
        nt.speculative_decode(language_model(), Certain(), [1, 1], 3)
