"""The mixture of text-to-text tasks, its tokenizer, and the task that a source names."""

import re
from collections import Counter

import numpy as np
import pytest
from helpers.dates import read_date

from numpy_transformer.data import generated_pairs
from numpy_transformer.data.text_to_text import MixedTokenizer, TextToText, generate_text_to_text, summarize, task_of
from numpy_transformer.data.tokenizers import tokenizer_from_json

NAMES = "reverse", "sort", "date", "summarize"
WHOLE_OF = {part: whole for whole, parts in {
    "garden": ("rose", "hedge", "lawn", "pond", "bush"), "kitchen": ("stove", "sink", "kettle", "oven", "fridge"),
    "ship": ("mast", "sail", "deck", "anchor", "rudder"), "forest": ("oak", "owl", "fern", "moss", "fox"),
    "castle": ("tower", "moat", "dungeon", "drawbridge", "throne"), "beach": ("sand", "wave", "shell", "dune", "crab"),
    "bicycle": ("pedal", "saddle", "handlebar", "chain", "spoke"),
    "orchestra": ("violin", "flute", "drum", "trumpet", "cello")}.items() for part in parts}

pytestmark = pytest.mark.slow           # it takes seconds to generate the pairs that most of these tests need


@pytest.fixture(scope="module")
def mixture():
    return generate_text_to_text(5)


@pytest.fixture(scope="module")
def tokens(mixture):
    return mixture.tokenizers()[0]


def lists(task):
    return task.training, task.validation, task.test


def of(name, pairs):
    """The pairs of one task, without the prefix."""
    return [(source[len(name) + 2:], target) for source, target in pairs if source.startswith(f"{name}: ")]


def sentences(text):
    return re.findall(r"The \w+ \w+ \w+\.", text)


def subject(sentence):
    return sentence.split()[1]


def topic_sentence(text):
    """The one sentence whose subject some other subject is a part of."""
    wholes = {WHOLE_OF[subject(s)] for s in sentences(text) if subject(s) in WHOLE_OF}
    found = [s for s in sentences(text) if subject(s) in wholes]
    assert len(wholes) == len(found) == 1
    return found[0]


@pytest.mark.slow
@pytest.mark.parametrize("name, answer", [
    ("reverse", lambda text: "".join(reversed(text))), ("sort", lambda text: "".join(sorted(text))),
    ("date", read_date), ("summarize", topic_sentence)])
def test_each_target_is_correct(mixture, name, answer):
    for pairs in lists(mixture):
        assert all(answer(source) == target for source, target in of(name, pairs)[::50])


def test_each_set_has_its_number_of_pairs_of_every_task(mixture):
    assert isinstance(mixture, TextToText) and mixture.name == "text to text"
    counts = [Counter(task_of(source) for source, _ in pairs) for pairs in lists(mixture)]
    assert counts == [{"reverse": 30_000, "sort": 50_000, "date": 40_000, "summarize": 40_000},
                      dict.fromkeys(NAMES, 125), dict.fromkeys(NAMES, 2_000)]


def test_no_source_occurs_twice(mixture):
    sources = [source for pairs in lists(mixture) for source, _ in pairs]
    assert len(set(sources)) == len(sources) == 168_500


@pytest.mark.slow
@pytest.mark.parametrize("name, make", [
    ("reverse", generated_pairs.reverse), ("sort", generated_pairs.sort), ("date", generated_pairs.dates)])
def test_pairs_are_drawn_from_the_same_set_of_the_task_and_seed(mixture, name, make):
    for mixed, pairs in zip(lists(mixture), lists(make(5))):
        assert set(of(name, mixed)) <= set(pairs)


def test_dates_have_all_forms_and_their_years_are_held_out(mixture):
    years = [{int(target[:4]) for _, target in of("date", pairs)} for pairs in lists(mixture)]
    assert years[2] == set(mixture.held_out_years) and list(map(len, years)) == [88, 2, 10]
    assert set.union(*years) == set(range(1950, 2050))
    for pairs in lists(mixture):
        sources = [source for source, _ in of("date", pairs)]
        for form in (r"\d+ [A-Z]", r"[A-Z]", r"\d+/", "the "):
            assert 0.1 < np.mean([bool(re.match(form, source)) for source in sources]) < 0.4


def test_topic_sentences_of_the_test_set_occur_in_no_other_set(mixture):
    wholes = set(WHOLE_OF.values())
    about = [{s for source, _ in of("summarize", pairs) for s in sentences(source) if subject(s) in wholes}
             for pairs in lists(mixture)]
    assert len(about[0]) == 512 and len(about[2]) == 64                 # of 8 wholes, 4 verbs and 20 adjectives: 640
    assert len(about[1]) <= 64 and len(set.union(*about)) == sum(map(len, about))


def test_neither_position_nor_form_reveals_the_topic_sentence(mixture):
    texts = of("summarize", mixture.test)
    assert Counter(len(sentences(text)) for text, _ in texts).keys() == {4, 5}
    assert all(" ".join(sentences(text)) == text for text, _ in texts)
    for text, target in texts:
        subjects = Counter(map(subject, sentences(text)))
        assert set(subjects.values()) == {1}                            # no part occurs twice, and the two wholes differ
        assert sum(word in WHOLE_OF for word in subjects) == len(subjects) - 2
    for length in (4, 5):
        positions = [sentences(text).index(target) for text, target in texts if len(sentences(text)) == length]
        assert (abs(np.bincount(positions) / len(positions) - 1 / length) < 0.05).all()
        wholes = [[s for s in sentences(text) if subject(s) not in WHOLE_OF].index(target)
                  for text, target in texts if len(sentences(text)) == length]
        assert 0.45 < np.mean(wholes) < 0.55                            # the first of the two half of the time


@pytest.mark.parametrize("word, count", [(2, 4), (3, 20)], ids=["verb", "adjective"])
def test_all_sentences_use_the_same_words(mixture, word, count):
    counts_of = {kind: Counter() for kind in ("answer", "decoy", "part")}
    for text, target in of("summarize", mixture.training)[::10]:
        for s in sentences(text):
            kind = "part" if subject(s) in WHOLE_OF else "answer" if s == target else "decoy"
            counts_of[kind][s.split()[word]] += 1
    for counts in counts_of.values():
        assert len(counts) == count and all(0.5 < n * count / counts.total() < 2 for n in counts.values())


@pytest.mark.parametrize("make", [summarize, generate_text_to_text])
def test_a_set_depends_only_on_the_seed(make, monkeypatch):
    monkeypatch.setattr("numpy_transformer.data.generated_pairs.TRAINING", 2_000)                 # fewer pairs, to be quick
    monkeypatch.setattr("numpy_transformer.data.generated_pairs.YEARS", range(1990, 2010))
    monkeypatch.setattr("numpy_transformer.data.text_to_text.SHARES", dict.fromkeys(NAMES, 1_000))
    one, again, other = make(5), make(5), make(6)
    assert one == again
    assert all(set(pairs) != set(others) for pairs, others in zip(lists(one), lists(other)))


@pytest.mark.slow
def test_one_tokenizer_reads_every_text_of_both_sides(mixture, tokens):
    assert mixture.tokenizers()[0].pieces == tokens.pieces and tokens.vocab_size < 150
    for pairs in lists(mixture):
        assert set("".join(text for pair in pairs for text in pair)) <= set(tokens.pieces)
        for text in [text for pair in pairs[::100] for text in pair]:
            assert tokens.decode(tokens.encode(text)) == text


@pytest.mark.parametrize("text, pieces", [
    ("reverse: garden", ["reverse: ", *"garden"]), ("sort: theis", ["sort: ", *"theis"]),
    ("1999-03-03", [*"1999-03-03"]),
    ("date: the 3rd of March 1999", ["date: ", *"the 3rd of March 1999"]),
    ("summarize: The owl is old. The sand seems wet.",
     ["summarize: ", "The", " owl", " is", " old", ".", " The", " sand", " seems", " wet", "."]),
    ("The zebra is old.", ["The", *" zebra", " is", " old", "."])])
def test_known_words_are_pieces_and_other_text_is_split_into_characters(tokens, text, pieces):
    assert [tokens.decode([i]) for i in tokens.encode(text)] == pieces


def test_letters_and_dates_are_never_read_as_words(mixture, tokens):
    for name in NAMES[:3]:
        for source, target in of(name, mixture.training)[::100]:
            assert len(tokens.encode(f"{name}: {source}")) == len(source) + 1
            assert len(tokens.encode(target)) == len(target)


def test_the_longest_piece_is_used_in_any_order_of_the_list():
    for pieces in (["a", "ab", "abc", "+", "."], ["abc", ".", "+", "ab", "a"]):
        tokens = MixedTokenizer(pieces)
        assert [pieces[i] for i in tokens.encode("aabcab+.a")] == ["a", "abc", "ab", "+", ".", "a"]
    assert MixedTokenizer(["a"]).encode("").tolist() == [] and MixedTokenizer(["a"]).decode([]) == ""
    assert MixedTokenizer(["\n", "\n\n"]).encode("\n\n\n").tolist() == [1, 0]


def test_a_tokenizer_survives_json(tokens):
    again = tokenizer_from_json(tokens.to_json())
    assert isinstance(again, MixedTokenizer) and again.pieces == tokens.pieces
    assert again.encode("sort: planet").tolist() == tokens.encode("sort: planet").tolist()
    with pytest.raises(ValueError, match="'pieces' of a 'mixed' tokenizer must be a list"):
        tokenizer_from_json({"kind": "mixed", "pieces": "abc"})


@pytest.mark.parametrize("pieces, error", [
    (["a", 1], r"piece 1 is 1, but it must be a str"), (["a", ""], "piece 1 is '', but it must be a str of at least 1"),
    (["a", "b", "a"], "piece 2 is 'a', but .* does not occur before; pass"),
    ([], "there are no pieces, .* at least 1; pass")])
def test_an_invalid_piece_is_named(pieces, error):
    with pytest.raises(ValueError, match=error):
        MixedTokenizer(pieces)


@pytest.mark.parametrize("text, named", [("sort: é", "'é'"), ("sort: a\nb", r"'\\n'"), ("sort: Z", "'Z'")])
def test_an_unknown_character_is_named(tokens, text, named):
    match = f"at the character {named}, none of the {tokens.vocab_size} known pieces matches; "
    with pytest.raises(ValueError, match=match):
        tokens.encode(text)


def test_repr(mixture):
    assert repr(MixedTokenizer(["a", "bc"])) == "MixedTokenizer(vocab_size=2)"
    assert repr(mixture) == "TextToText('text to text', 160,000 training, 500 validation and 8,000 test pairs)"


def test_an_unknown_id_is_named(tokens):
    with pytest.raises(ValueError, match="the id -1 is not in the vocabulary"):
        tokens.decode([-1])


@pytest.mark.parametrize("source", ["", "planet", "reverse planet", ": planet", " : planet"])
def test_a_source_without_a_task_is_refused(source):
    match = re.escape(f"the source {source!r} names no task; begin it with the name of the task and a colon")
    with pytest.raises(ValueError, match=match):
        task_of(source)


def test_a_source_names_its_task():
    assert task_of("date: 3 March 1999") == "date" and task_of("sort: reverse: x") == "sort"
