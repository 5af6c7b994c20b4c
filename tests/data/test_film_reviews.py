"""The generated film reviews: labels that follow from the rules, and that word counts cannot predict."""

import re
from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from numpy_transformer.data import WordTokenizer
from numpy_transformer.data.baselines import BagOfWords
from numpy_transformer.data.film_reviews import reviews

NEGATIONS = {"not", "never", "hardly", "nothing", "nobody"}
GOOD = {"brilliant", "charming", "clever", "fresh", "good", "great", "gripping", "lovely"}
BAD = {"bad", "boring", "clumsy", "dull", "poor", "stale", "tired", "weak"}
ASPECTS = {"cast", "film", "finale", "hero", "plot", "score", "script", "story", "style", "villain"}


def sides(text):
    """(winners, losers) of a review, each a list of clauses as text."""
    if text.startswith("although "):
        losers, winners = text.removeprefix("although ").split(", ")
    elif ", although " in text:
        winners, losers = text.split(", although ")
    elif "," in text or " but " in text:
        losers, winners = re.split(", | but ", text)
    else:
        winners, losers = text, ""
    return winners.split(" and "), losers.split(" and ") if losers else []


def content(clause):
    """(aspect, number of negations, good or bad word) of a clause."""
    words = clause.split()
    (aspect,), (word,) = (set(words) & known for known in (ASPECTS, GOOD | BAD))
    return aspect, sum(word in NEGATIONS for word in words), word


def meaning(clause):
    _, negations, word = content(clause)
    return (word in GOOD) ^ (negations % 2)


def contents(text):
    winners, losers = sides(text)
    return [content(clause) for clause in winners + losers]


def pairs(rows):
    return {frozenset(pair) for text, _ in rows for pair in combinations(contents(text), 2)}


def lists(data):
    return data.training, data.validation, data.test


@pytest.fixture(scope="module")
def data():
    return reviews(1)


@pytest.mark.parametrize("text, label", [
    ("although the cast is great, the film is dull", 0), ("great cast, dull film", 0),
    ("dull film but a great cast", 1), ("the film is not bad at all", 1), ("nothing about the plot is not weak", 0),
    ("a film that is hardly ever dull, not a weak cast", 1),
    ("the hero is dull, although the plot is fresh and the style is never weak", 0)])
def test_the_reader_of_these_tests_on_examples_by_hand(text, label):
    winners, losers = sides(text)
    assert {meaning(clause) for clause in winners} == {label}


@pytest.mark.slow
def test_sizes_and_labels(data):
    assert data.labels == ["negative", "positive"] and data.report == []
    assert [len(rows) for rows in lists(data)] == [20_000, 1_000, 2_000]
    for rows in lists(data):
        assert sum(label for _, label in rows) == len(rows) / 2 and {type(label) for _, label in rows} == {int}


@pytest.mark.slow
def test_no_text_occurs_twice(data):
    texts = [text for rows in lists(data) for text, _ in rows]
    assert len(set(texts)) == len(texts)


@pytest.mark.slow
def test_each_label_follows_from_the_rules(data):
    for rows in lists(data):
        for text, label in rows:
            winners, losers = sides(text)
            assert {meaning(clause) for clause in winners} == {label}, text
            assert {meaning(clause) for clause in losers} <= {1 - label}, text
            assert 1 <= len(winners) + len(losers) <= 3
            assert len({aspect for aspect, *_ in contents(text)}) == len(winners + losers)


@pytest.mark.slow
def test_no_clause_pair_of_one_list_occurs_in_another(data):
    training, validation, test = map(pairs, lists(data))
    assert len(test) > 1_500 and len(validation) > 700
    assert not test & training and not test & validation and not validation & training


@pytest.mark.slow
def test_each_clause_occurs_in_training(data):
    found = [{one for text, _ in rows for one in contents(text)} for rows in lists(data)]
    assert len(found[0]) == len(ASPECTS) * 3 * len(GOOD | BAD) and found[1] | found[2] <= found[0]


@pytest.mark.slow
def test_every_list_has_every_shape_and_half_the_clauses_negate_once(data):
    for rows in lists(data):
        shapes = Counter(tuple(map(len, sides(text))) for text, _ in rows)
        assert set(shapes) == {(1, 0), (2, 0), (1, 1), (1, 2), (2, 1)} and min(shapes.values()) > len(rows) / 50
        negations = Counter(count for text, _ in rows for _, count, _ in contents(text))
        assert set(negations) == {0, 1, 2}
        assert abs(negations[1] / negations.total() - 1 / 2) < 0.01 + 1 / len(rows) ** 0.5
        joints = [sum(bool(re.search(joint, text)) for text, _ in rows)
                  for joint in ("^although", ", although", " but ", r"^[^,]*, (?!although)(?!.*\bis\b)")]
        assert min(joints) > len(rows) / 20


@pytest.mark.slow
def test_reviews_are_plain_lower_case_english(data):
    for rows in lists(data):
        assert all(re.fullmatch(r"[a-z]+(,? [a-z]+)*", text) for text, _ in rows)
        assert 10 < np.mean([len(text.split()) for text, _ in rows]) < 16


@pytest.mark.slow
def test_every_word_is_equally_frequent_in_both_classes(data):
    rows = data.training
    counts = [Counter(word for text, label in rows if label == side for word in set(text.split())) for side in (0, 1)]
    for word in counts[0] | counts[1]:
        total = counts[0][word] + counts[1][word]
        assert abs(counts[1][word] / total - 1 / 2) < 0.05 + 2 / total ** 0.5, word


@pytest.mark.slow
def test_a_bag_of_words_cannot_classify_the_reviews(data):
    tokens = WordTokenizer.train("\n".join(text for text, _ in data.training), 1_000)
    sets, labels = zip(*[([tokens.encode(text) for text, _ in rows], [label for _, label in rows])
                         for rows in (data.training, data.test)])
    model = BagOfWords.train(sets[0], labels[0], tokens.vocab_size, 2)
    assert 0.4 < model.accuracy(sets[1], labels[1]) < 0.6


@pytest.mark.slow
def test_reviews_depend_only_on_the_seed(monkeypatch):
    monkeypatch.setattr("numpy_transformer.data.film_reviews.TRAINING", 2_000)           # fewer, to be quick
    one, again, other = reviews(5), reviews(5), reviews(6)
    assert one == again
    assert all(len(set(rows) & set(others)) < len(rows) / 4 for rows, others in zip(lists(one), lists(other)))
