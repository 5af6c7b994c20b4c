"""Penalties and forbidden tokens, against loops over what a text already has; and inside `generate`."""

import itertools

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer.decoding.logit_changes import (ForbiddenSequences, MinimumLength, NoRepeatedNGrams,
                                                      RepetitionPenalty)

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(2, 5)).astype(np.float32)
TEXTS = [[1, 3, 1], [0, 0, 2, 0, 0]]


def forbidden(change, texts):
    """Sets of tokens that a change forbids after the texts."""
    before = LOGITS.copy()
    found = change(LOGITS, texts)
    np.testing.assert_array_equal(LOGITS, before)
    hidden = np.isneginf(found)
    np.testing.assert_array_equal(found[~hidden], LOGITS[~hidden])
    return [set(np.flatnonzero(row).tolist()) for row in hidden]


def test_repeated_tokens_are_less_likely():
    found = RepetitionPenalty(1.5)(LOGITS, TEXTS)
    for row, token in np.ndindex(2, 5):
        logit = float(LOGITS[row, token])
        expected = logit if token not in TEXTS[row] else logit / 1.5 if logit > 0 else logit * 1.5
        assert found[row, token] == pytest.approx(expected, rel=1e-6)
    assert (found < LOGITS).sum() == 4                                  # tokens 1 and 3, and 0 and 2


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_no_n_gram_is_repeated(size):
    rows = [[*ids] for ids in itertools.product(range(2), repeat=4)]
    for ids in rows:
        grams = [ids[n:n + size] for n in range(len(ids) - size + 1)]
        again = {token for token in range(5) if (ids + [token])[-size:] in grams and len(ids) + 1 >= size}
        assert forbidden(NoRepeatedNGrams(size), [ids, ids]) == [again, again]


def test_sequences_and_a_least_length():
    change = ForbiddenSequences([[4], [3, 1, 2], [0, 3], [7], [9, 9]])
    assert forbidden(change, TEXTS) == [{4, 2}, {4, 3}]
    assert forbidden(MinimumLength(4, [2, 3]), TEXTS) == [{2, 3}, set()]


@pytest.mark.parametrize("penalty", [0, -1, np.inf, np.nan])
def test_a_penalty_that_is_no_number_above_zero_is_refused(penalty):
    with pytest.raises(ValueError, match="must be above 0; 1 changes nothing"):
        RepetitionPenalty(penalty)


def test_generate_calls_the_changes_with_each_text_so_far():
    model = nt.CausalLanguageModel(7, 12, 3, 1, max_len=30, rng=0).eval()
    seen = []

    def only(logits, texts):
        seen.append([list(ids) for ids in texts])
        return np.broadcast_to(np.where(np.arange(7) == len(texts[0]) % 7, 0.0, -np.inf), logits.shape)

    texts = nt.generate(model, [[1], [2, 3]], 3, temperature=0, changes=[only])
    assert texts == [[1, 1, 2, 3], [2, 3, 1, 2, 3]]
    assert seen == [[[1], [2, 3]], [[1, 1], [2, 3, 1]], [[1, 1, 2], [2, 3, 1, 2]]]
    unlike = nt.generate(model, [1], 12, temperature=0, changes=[NoRepeatedNGrams(2)])
    assert len(set(itertools.pairwise(unlike))) == 12
