"""The generated sequence-to-sequence tasks, compared with independent solutions."""

import datetime
import re

import numpy as np
import pytest
from helpers.dates import read_date
from helpers.quick import quick

from numpy_transformer.data import GENERATED_PAIRS
from numpy_transformer.data.dates import written_forms

ALPHABET = "abcdefghijklmnopqrstuvwxyz"


@pytest.fixture(scope="module")
def tasks():
    return {name: make(5) for name, make in GENERATED_PAIRS.items()}


def lists(task):
    return task.training, task.validation, task.test


@pytest.mark.slow
@pytest.mark.parametrize("name, answer", [
    ("copy", str), ("reverse", lambda text: "".join(reversed(text))),
    ("sort", lambda text: "".join(letter * text.count(letter) for letter in ALPHABET)), ("dates", read_date)])
def test_each_target_is_correct(tasks, name, answer):
    for pairs in lists(tasks[name]):
        assert all(answer(source) == target for source, target in pairs[::23])


@pytest.mark.parametrize("name, letters, lengths", quick(1, [
    ("reverse", ALPHABET, set(range(3, 13))), ("copy", "0123456789", {10}), ("sort", ALPHABET, set(range(3, 13)))]))
def test_symbols_and_lengths(tasks, name, letters, lengths):
    assert [len(pairs) for pairs in lists(tasks[name])] == [100_000, 500, 2_000]
    for pairs in lists(tasks[name]):
        counts = np.bincount([len(source) for source, _ in pairs])
        assert set(np.flatnonzero(counts)) == lengths
        assert counts.max() < 2 * len(pairs) / len(lengths)         # all lengths about as often
        assert set("".join(source for source, _ in pairs)) == set(letters)


@pytest.mark.parametrize("name", GENERATED_PAIRS)
def test_no_source_occurs_twice(tasks, name):
    sources = [source for pairs in lists(tasks[name]) for source, _ in pairs]
    assert len(set(sources)) == len(sources)
    assert tasks[name].name == name


@pytest.mark.parametrize("name", GENERATED_PAIRS)
def test_a_task_depends_only_on_the_seed(name, monkeypatch):
    monkeypatch.setattr("numpy_transformer.data.generated_pairs.TRAINING", 2_000)             # fewer pairs, to be quick
    monkeypatch.setattr("numpy_transformer.data.generated_pairs.YEARS", range(1990, 2010))
    one, again, other = GENERATED_PAIRS[name](5), GENERATED_PAIRS[name](5), GENERATED_PAIRS[name](6)
    assert one == again
    assert all(pairs != others for pairs, others in zip(lists(one), lists(other)))


def test_two_tasks_have_different_words(tasks):
    assert len({source for name in ("reverse", "sort") for source, _ in tasks[name].training[:100]}) > 190


@pytest.mark.slow
@pytest.mark.parametrize("name, source, target", [
    ("copy", "0123456789", "0123456789"), ("reverse", ALPHABET, ALPHABET), ("sort", ALPHABET, ALPHABET),
    ("dates", " ,/0123456789ADFJMNOSabcdefghilmnoprstuvy", "-0123456789")])
def test_the_tokenizers_know_every_text(tasks, name, source, target):
    tokens = tasks[name].tokenizers()
    for pairs in lists(tasks[name]):
        for texts, side in zip(zip(*pairs), tokens):
            text = "".join(texts[::50])
            assert side.decode(side.encode(text)) == text
    assert ["".join(side.characters) for side in tokens] == [source, target]


def test_repr(tasks):
    assert repr(tasks["copy"]) == "GeneratedPairs('copy', 100,000 training, 500 validation and 2,000 test pairs)"


def test_dates_are_written_in_four_forms():
    assert written_forms(datetime.date(1999, 3, 3)) == (
        "3 March 1999", "March 3, 1999", "3/3/99", "the 3rd of March 1999")
    endings = [re.search(r"the (\w+) of", written_forms(datetime.date(2004, 1, day))[3])[1]
               for day in (1, 2, 11, 12, 13, 22, 31)]
    assert endings == ["1st", "2nd", "11th", "12th", "13th", "22nd", "31st"]


def test_years_of_the_validation_and_test_sets_are_held_out(tasks):
    task = tasks["dates"]
    years = [{int(target[:4]) for _, target in pairs} for pairs in lists(task)]
    assert years[2] == set(task.held_out_years) and [len(found) for found in years] == [88, 2, 10]
    assert set.union(*years) == set(range(1950, 2050))
    assert sum(map(len, lists(task))) == 4 * 36525
    assert tasks["copy"].held_out_years == ()


def test_pair_i_of_the_dates_has_form_i_modulo_4(tasks):
    for pairs in lists(tasks["dates"]):
        for i, pattern in enumerate((r"\d+ [A-Z]", r"[A-Z]", r"\d+/", "the ")):
            assert all(re.match(pattern, source) for source, _ in pairs[i::4])
        assert [target for _, target in pairs] == sorted(target for _, target in pairs)
