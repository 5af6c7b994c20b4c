"""Entities as tags of words, and their scores, compared with the two tables of conlleval."""

import numpy as np
import pytest

from numpy_transformer.data.entities import Score, entity_scores, scores_table, spans, tag_baseline, to_bio


def spans_by_tables(tags):
    """The entities by two tables of (previous tag, tag): the pairs that end an entity and those that begin one."""
    ends = {("B", "B"), ("B", "O"), ("I", "B"), ("I", "O"), ("E", "E"), ("E", "I"), ("E", "O")}
    begins = {("B", "B"), ("I", "B"), ("O", "B"), ("O", "I"), ("E", "E"), ("E", "I"), ("O", "E")}
    found, start, before, type_before = set(), None, "O", ""
    for i, tag in enumerate([*tags, "O"]):
        now, type_now = tag.split("-", 1) if "-" in tag else (tag, "")
        other = type_before != type_now
        if (before, now) in ends or before != "O" and other:
            found.add((start, i, type_before))
        if (before, now) in begins or now != "O" and other:
            start = i
        before, type_before = now, type_now
    return found


def random_tags(rng, kinds="BI", types=("x", "y"), longest=12):
    choice = ["O", "O", *(f"{kind}-{name}" for kind in kinds for name in types)]
    return [choice[i] for i in rng.integers(len(choice), size=rng.integers(longest + 1))]


@pytest.mark.parametrize("tags, found", [
    ("", []), ("O O", []), ("B-x", [(0, 1, "x")]), ("I-x", [(0, 1, "x")]),
    ("O B-x I-x I-x O", [(1, 4, "x")]), ("O I-x I-x O I-x", [(1, 3, "x"), (4, 5, "x")]),
    ("B-x B-x", [(0, 1, "x"), (1, 2, "x")]), ("I-x B-x I-x", [(0, 1, "x"), (1, 3, "x")]),
    ("I-x I-y I-x", [(0, 1, "x"), (1, 2, "y"), (2, 3, "x")]), ("B-x I-y I-y", [(0, 1, "x"), (1, 3, "y")]),
    ("B-x O I-x", [(0, 1, "x"), (2, 3, "x")]), ("B-creative-work I-creative-work", [(0, 2, "creative-work")]),
    ("B-creative-work I-creative-art", [(0, 1, "creative-work"), (1, 2, "creative-art")]),
    ("B I O I", [(0, 2, ""), (3, 4, "")]), ("B I-x", [(0, 1, ""), (1, 2, "x")]),
    ("S-x S-x B-x I-x E-x B-x E-x", [(0, 1, "x"), (1, 2, "x"), (2, 5, "x"), (5, 7, "x")]),
    ("U-x U-x B-x I-x L-x I-x", [(0, 1, "x"), (1, 2, "x"), (2, 5, "x"), (5, 6, "x")]),
    ("S-x I-x U-x I-x", [(0, 1, "x"), (1, 2, "x"), (2, 3, "x"), (3, 4, "x")])])
def test_spans_counted_by_hand(tags, found):
    assert spans(tags.split()) == found


@pytest.mark.parametrize("kinds, types", [("BI", "xy"), ("I", "xy"), ("BI", "x"), ("IE", "xy")])
def test_spans_are_those_of_the_two_tables(kinds, types):
    rng = np.random.default_rng(0)
    for _ in range(2_000):
        tags = random_tags(rng, kinds, types)
        found = spans(tags)
        assert set(found) == spans_by_tables(tags) and found == sorted(found)


@pytest.mark.parametrize("tag", ["b-x", "B-", "X-x", "", "O-x", "person", "B_x", "NN", None, 3])
def test_an_invalid_tag_is_named(tag):
    with pytest.raises(ValueError, match=r"is not a valid tag; a tag is O, B-type or I-type") as error:
        spans(["O", tag])
    assert repr(tag) in str(error.value)


@pytest.mark.parametrize("tags, bio", [
    ("I-x I-x O I-x B-x I-y", "B-x I-x O B-x B-x B-y"), ("O I-x", "O B-x"), ("I I B", "B I B"),
    ("S-x B-y E-y O", "B-x B-y I-y O"), ("B-x I-x O", "B-x I-x O"), ("", "")])
def test_other_schemes_become_bio(tags, bio):
    assert to_bio(tags.split()) == bio.split()


def test_bio_has_the_same_entities_and_no_inside_tag_without_a_beginning():
    rng = np.random.default_rng(1)
    for _ in range(500):
        tags = random_tags(rng, "BIESLU")
        before = list(tags)
        bio = to_bio(tags)
        assert spans(bio) == spans(tags) and to_bio(bio) == bio and tags == before
        assert all(tag[0] != "I" or last[1:] == tag[1:] for last, tag in zip(["O", *bio], bio))


RIGHT = [["B-x", "I-x", "O", "B-y"], ["O", "B-x", "B-x", "O", "O"], ["B-y", "I-y"]]
FOUND = [["I-x", "I-x", "O", "B-x"], ["O", "B-x", "I-x", "O", "B-z"], ["I-y", "I-y"]]


def test_scores_counted_by_hand():
    scores = entity_scores(RIGHT, FOUND)
    # right: x 0-2, y 3-4 | x 1-2, x 2-3 | y 0-2; found: x 0-2, x 3-4 | x 1-3, z 4-5 | y 0-2; both: the first, the last
    assert scores.all == Score(correct=2, predicted=5, actual=5)
    assert scores.types == {"x": Score(1, 3, 3), "y": Score(1, 1, 2), "z": Score(0, 1, 0)}
    assert (scores.tokens, scores.accuracy) == (11, 6 / 11)
    y = scores.types["y"]
    assert (y.precision, y.recall, y.f1) == (1.0, 0.5, pytest.approx(2 / 3))


def test_the_same_span_in_another_sentence_is_not_correct():
    assert entity_scores([["B-x"], ["O"]], [["O"], ["B-x"]]).all == Score(0, 1, 1)


@pytest.mark.parametrize("score, values", [
    (Score(0, 0, 0), (0, 0, 0)), (Score(0, 0, 4), (0, 0, 0)), (Score(0, 3, 0), (0, 0, 0)), (Score(4, 4, 4), (1, 1, 1)),
    (Score(3, 4, 12), (0.75, 0.25, 0.375))])
def test_precision_recall_and_f1_are_0_without_entities(score, values):
    assert (score.precision, score.recall, score.f1) == values


def test_f1_is_the_harmonic_mean():
    rng = np.random.default_rng(2)
    for found, wanted in rng.integers(1, 50, (100, 2)).tolist():
        score = Score(int(rng.integers(1, min(found, wanted) + 1)), found, wanted)
        assert score.f1 == pytest.approx(2 / (1 / score.precision + 1 / score.recall))


def test_scores_are_those_of_the_two_tables_on_random_tags():
    rng = np.random.default_rng(3)
    right = [random_tags(rng, types="xyz") for _ in range(300)]
    found = [[tag if rng.random() < 0.8 else "I-x" for tag in tags] for tags in right]
    ours = entity_scores(right, found)
    pairs = [(spans_by_tables(one), spans_by_tables(other)) for one, other in zip(right, found)]
    for name in "xyz":
        one, other, both = (sum(name == span[2] for pair in pairs for span in pick(*pair))
                            for pick in (lambda a, b: a, lambda a, b: b, set.intersection))
        assert ours.types[name] == Score(both, other, one)
    assert ours.all == Score(*(sum(getattr(score, name) for score in ours.types.values())
                               for name in ("correct", "predicted", "actual")))
    assert 0 < ours.all.correct < ours.all.predicted


@pytest.mark.parametrize("right, found, sentence", [
    ([["O"]], [], "^there are true tags of 1 sentence but predicted tags of 0; give one list of tags per sentence"),
    ([["O"], ["O", "O"]], [["O"], ["O"]], "sentence 2 has 2 true tags but 1 predicted; give one tag per word"),
    ([], [], "contain no words, so there is nothing to score"), ([[]], [[]], "contain no words"),
    ([["O"]], [["x"]], "'x' is not a valid tag")])
def test_errors_describe_tags_that_do_not_match(right, found, sentence):
    with pytest.raises(ValueError, match=sentence):
        entity_scores(right, found)


def test_the_table_has_a_line_for_all_types_and_one_for_each_type():
    lines = scores_table(entity_scores(RIGHT, FOUND)).splitlines()
    assert lines == [
        "     precision    recall        F1   correct  predicted  actual",
        "all    40.00 %   40.00 %   40.00 %         2          5       5",
        "x      33.33 %   33.33 %   33.33 %         1          3       3",
        "y     100.00 %   50.00 %   66.67 %         1          1       2",
        "z       0.00 %    0.00 %    0.00 %         0          1       0",
        "correct tags: 54.55 % of 11"]


def test_the_table_aligns_an_unnamed_type_and_long_names():
    lines = scores_table(entity_scores([["B", "O", "B-creative-work"]], [["B", "O", "O"]])).splitlines()
    assert [line[:13] for line in lines[1:4]] == ["all          ", "(no type)    ", "creative-work"]
    assert len({len(line) for line in lines[:4]}) == 1


def test_the_table_without_entities():
    assert scores_table(entity_scores([["O"]], [["O"]])).splitlines()[1].split() == (
        "all 0.00 % 0.00 % 0.00 % 0 0 0".split())


def test_the_baseline_gives_each_word_its_most_frequent_tag():
    training = [(["Ulm", "met", "Ulm"], ["B-x", "O", "B-y"]), (["Ulm", "is", "May"], ["B-y", "O", "O"]),
                (["May"], ["B-x"])]
    assert tag_baseline(training, [["May", "met", "Ulm"], [], ["Bonn", "ulm"]]) == [
        ["O", "O", "B-y"], [], ["O", "O"]]      # the tags of May tie, so the first counts; a new word has O
