"""Answers written from the task sheets alone: no wrong one passes or gets a false name, and no right one is refused."""

import collections

import pytest
from helpers.answers import judged, names_of, numbers, read

FEWEST = 0.85                                   # share of the wrong answers that are named or located


@pytest.mark.slow
@pytest.mark.parametrize("number", numbers("wrong"))
def test_wrong_answers_get_their_names_and_no_others(number):
    """An answer without a name may get one, if it is true: read the explanation, then write it into the brackets.

    A word where there was none is welcome, too, and needs no change here.
    """
    said, expected = {}, {}
    for answer in read("wrong", number):
        verdict = judged(answer)
        assert verdict.status in ("fail", "error"), f"{answer.note}: {verdict.status}"
        if verdict.mistakes or answer.names != "no word":
            said[answer.note], expected[answer.note] = names_of(verdict), answer.names
    assert said == expected


def test_most_wrong_answers_are_named_or_located():
    """The brackets are what the checker says, as the test above shows."""
    kinds = collections.Counter(answer.names if answer.names in ("-", "no word") else "named"
                                for number in numbers("wrong") for answer in read("wrong", number))
    shares = {kind: kinds[kind] / kinds.total() for kind in ("named", "-", "no word")}
    print(f"{kinds.total()} wrong answers: " + ", ".join(f"{kind} {share:.1%}" for kind, share in shares.items()))
    assert kinds.total() > 500 and len(numbers("wrong")) > 50
    assert 1 - shares["no word"] >= FEWEST


def test_there_are_many_right_answers():
    assert sum(len(read("right", number)) for number in numbers("right")) >= 1000 and len(numbers("right")) > 60


@pytest.mark.slow
@pytest.mark.parametrize("number", numbers("right"))
def test_right_answers_pass(number):
    for answer in read("right", number):
        verdict = judged(answer)
        assert verdict.status == "pass", (answer.note, verdict.lines)
