"""The generated stories keep all rules, the checker finds what is wrong with changed ones, and `train lm` reads stories."""

import numpy as np
import pytest

from numpy_transformer.data.stories import faults, sentences, story
from numpy_transformer.tasks import TASKS
from numpy_transformer.tasks.language_model import read_corpus

LM = TASKS["lm"]

TEXT = ("Long ago, an honest fox named Ada lived on an island. More than anything, she loved her red boots. One rainy morning, "
        "she set out to dance in them. But while she rested under the bridge, the boots slipped out of her bag. First she looked "
        'near the lake, but they were not there. Then two little owls named Ben and Max came down the road. "My red boots are '
        'gone," answered the fox. "We saw you under the bridge this morning," said Ben and Max. They went back, and the red boots '
        'were still lying under the bridge. "How can I thank you?" asked Ada. From that day on, the fox and the owls were friends.')


def draw(seed, count):
    rng = np.random.default_rng(seed)
    return [story(rng) for _ in range(count)]


def test_no_generated_story_has_a_fault():
    stories = draw(1, 300)
    assert all(not faults(told.text) for told in stories) and not faults(TEXT)
    assert len({told.text for told in stories}) == 300


def test_stories_have_60_to_120_words_and_contain_their_facts():
    for told in draw(2, 300):
        assert 60 <= len(told.text.split()) <= 120
        facts = told.facts
        assert all(fact in told.text for fact in (facts.hero, facts.thing, facts.helper, facts.searched or ""))
        assert facts.place in told.text and facts.place.split()[-1] not in (facts.searched or "").split()


def test_a_seed_reproduces_its_stories():
    assert draw(3, 5) == draw(3, 5) != draw(4, 5)


def test_a_question_in_direct_speech_does_not_end_its_sentence():
    assert len(sentences(TEXT)) == 11
    assert sentences(" ") == []


@pytest.mark.parametrize("right, wrong, kind", [
    ("an honest fox", "a honest fox", "agreement"), ("two little owls", "two little owl", "agreement"),
    ("they were not there", "they was not there", "agreement"), ("boots are gone", "boots is gone", "agreement"),
    ("she rested", "he rested", "pronoun"), ("her bag", "their bag", "pronoun"), ("dance in them", "dance in it", "grammar"),
    ("they were not", "it were not", "pronoun"), ('"We saw', '"I saw', "pronoun"), ('"My red', '"Our red', "pronoun"),
    ("dance in them", "race in them", "thing"), ("the boots slipped", "the skates slipped", "thing"),
    ("the red boots were", "the blue boots were", "thing"), ("lying under the bridge", "lying under the oak", "place"),
    ("you under the bridge", "you under the mill", "place"), ("near the lake", "under the bridge", "place"),
    ("asked Ada", "asked Rosa", "name"), ("Ben and Max came", "Ada came", "name"), ("answered the fox", "answered the hare", "name"),
    ("two little owls", "two little foxes", "name"), ("two little owls", "two little girls", "name"),
    ("this morning", "this evening", "time"), (" were friends.", " were", "grammar"), ("red boots are", "boots red are", "grammar"),
    ("One rainy morning, she set out to dance in them. ", "", "order")])
def test_a_planted_fault_is_found(right, wrong, kind):
    assert TEXT.count(right) == 1
    assert kind in [fault.kind for fault in faults(TEXT.replace(right, wrong))]


def test_a_part_that_comes_twice_or_too_late_is_a_fault_of_the_order():
    *before, last = sentences(TEXT)
    assert {fault.kind for fault in faults(" ".join([*before, last, before[-1]]))} == {"order"}


def test_an_unfinished_text_lacks_its_end():
    messages = [fault.message for fault in faults(TEXT[:TEXT.index("under")])]
    assert any("unfinished" in message for message in messages) and "the ending is missing" in messages


def test_an_empty_text_lacks_everything():
    assert {fault.kind for fault in faults("")} == {"order"}


def make_task(**changes):
    return LM(LM.default_settings("stories", stories=40, **changes))


def test_the_text_has_one_story_on_each_line():
    task = make_task()
    tokens = task.tokenizers[0]
    lines = tokens.decode(task.windows.train).split("\n")[:-1]
    assert len(lines) >= 35 and not faults(lines[0]) and "40 generated stories" in task.description
    assert make_task().corpus == task.corpus != make_task(seed=2).corpus


def test_a_text_of_ones_own_replaces_the_stories(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the cat sat on the mat and looked at the moon\n" * 200, encoding="utf-8")
    settings = LM.default_settings("stories", text=str(path))
    assert str(path) in LM(settings).description
    assert any("stories" in names for names, _ in LM.unused_settings(settings))


@pytest.mark.parametrize("settings", [{"text": None}, {"text": None, "stories": None}])
def test_a_run_without_stories_reads_the_built_in_text(settings):
    assert read_corpus(settings)[1] == "the Python language reference"
