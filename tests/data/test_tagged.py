"""The generated tagged sentences: the context of a name determines its type, and the name alone does not."""

from collections import Counter

import pytest

from numpy_transformer.data.entities import entity_scores, spans, tag_baseline, to_bio
from numpy_transformer.data.tagged import ENTITIES, FIRST, LAST, SLOTS, tagged_sentences

NAMES = {first + last for first in FIRST for last in LAST}
DRAWN = {word: slot for slot, words in SLOTS.items() if slot not in ENTITIES for word in words}


@pytest.fixture(scope="module")
def tagged():
    return tagged_sentences(1)


def lists(tagged):
    return tagged.training, tagged.validation, tagged.test


def entities(sentence):
    words, tags = sentence
    return [(" ".join(words[start:stop]), entity) for start, stop, entity in spans(tags)]


def frame(sentence):
    """The sentence with a gap for each entity; a month or another drawn word becomes the name of its slot."""
    words, tags = sentence
    return tuple("_" if tag[0] == "B" else DRAWN.get(word, word.lower()) for word, tag in zip(words, tags)
                 if tag[0] != "I" and not (tag == "O" and word in ("the", "The", "Dr")))


@pytest.mark.slow
def test_sizes_and_tags(tagged):
    assert [len(part) for part in lists(tagged)] == [6_000, 500, 1_000]
    assert tagged.types == ("person", "location", "organization")
    for part in lists(tagged):
        for words, tags in part:
            assert len(words) == len(tags) and to_bio(tags) == tags and spans(tags)
            assert words[0][0].isupper() and words[-1] in (".", "?") and not set(words) & set(SLOTS)
        counts = Counter(entity for sentence in part for _, entity in entities(sentence))
        assert set(counts) == set(tagged.types) and max(counts.values()) < 1.4 * min(counts.values())


@pytest.mark.slow
def test_no_sentence_and_no_template_with_the_same_entities_occurs_twice(tagged):
    everything = [sentence for part in lists(tagged) for sentence in part]
    assert len({tuple(words) for words, _ in everything}) == len(everything)
    assert len({(frame(sentence), *entities(sentence)) for sentence in everything}) == len(everything)


def test_the_context_of_an_entity_determines_its_type(tagged):
    types = {}
    for part in lists(tagged):
        for sentence in part:
            wanted = [entity for _, entity in entities(sentence)]
            assert types.setdefault(frame(sentence), wanted) == wanted


def test_the_name_alone_does_not_determine_its_type(tagged):
    seen = {}
    for name, entity in (pair for sentence in tagged.training for pair in entities(sentence)):
        seen.setdefault(name, set()).add(entity)
    single = [types for name, types in seen.items() if " " not in name]
    assert len(single) == 340 and sum(len(types) == 3 for types in single) > 300


def test_the_validation_set_has_names_unseen_in_training_and_the_test_set_has_more(tagged):
    names = [set(), set(), set()]
    for found, part in zip(names, lists(tagged)):
        for word, tag in (pair for sentence in part for pair in zip(*sentence)):
            assert word not in NAMES or tag != "O"
            found |= {word} & NAMES
    assert len(names[0]) == 340 and len(NAMES) == 500
    assert 60 < len(names[1] - names[0]) <= 80 and 140 < len(names[2] - names[0]) <= 160
    assert 60 < len(names[2] - names[0] - names[1]) and all(part <= NAMES for part in names)


def test_entities_have_one_or_more_words_and_some_begin_a_sentence(tagged):
    found = [pair for sentence in tagged.test for pair in entities(sentence)]
    several = sum(" " in name for name, _ in found) / len(found)
    assert 0.35 < several < 0.6
    assert 0.2 < sum(tags[0] != "O" for _, tags in tagged.test) / 1_000 < 0.6
    text = " . ".join(name for name, _ in found)
    assert all(part in text for part in ("New ", "Port ", " Bay", " & ", " Bank", "Bank of ", "University of "))
    assert not {"Dr", "the", "The"} & set(text.split())


def test_the_baseline_without_context_scores_low(tagged):
    words, tags = zip(*tagged.test)
    assert 0.05 < entity_scores(tags, tag_baseline(tagged.training, words)).all.f1 < 0.3


def test_repr(tagged):
    assert repr(tagged) == ("Tagged(6,000 training, 500 validation and 1,000 test sentences, "
                            "types=('person', 'location', 'organization'))")


@pytest.mark.slow
def test_sentences_depend_only_on_the_seed(tagged):
    again, other = tagged_sentences(1), tagged_sentences(2)
    assert again == tagged
    assert all(len({tuple(words) for words, _ in one} & {tuple(words) for words, _ in two}) < 0.1 * len(one)
               for one, two in zip(lists(tagged), lists(other)))
    assert all(type(word) is str for words, tags in tagged.test for word in words + tags)
