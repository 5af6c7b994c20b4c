"""Numbers of trained models in prose. Trained weights depend on the processor, so such a number is false elsewhere, unless it is held.

What a lesson's prose says of its trained models has to stand in what the lesson prints, where each reader finds the numbers of their own
run (test_lessons.py compares the two), in its code, or in the table HELD. A page has to say on which processor it was measured.
"""

import pytest
from helpers import ROOT
from helpers.results import HELD, results_in_lesson, sections_without_source

from numpy_transformer.course.lessons.files import lessons_in

LESSONS = {number: path.read_text(encoding="utf-8") for number, path in lessons_in(ROOT / "lessons").items()}
PAGES = [ROOT / "README.md", *sorted((ROOT / "lessons").glob("*.md")), ROOT / "figures" / "README.md"]
TRAINING = """# %% [markdown]
# It needs 3.5 hours.

# %% [markdown]
# Five seeds.

# %% A cell
trainer.fit(batches, steps=40, lr=0.1)     # for 2.5 hours

# %% [markdown]
# With lr = 0.1, the loss falls to 0.7 (93 % are right), in four of five runs or with three other
# seeds. The paper has 2017 words.
#
# ## Exercises
#
# 1. What is 8.1?
"""


def test_results_are_found_from_the_text_before_the_training_to_the_exercises():
    assert results_in_lesson(TRAINING) == {"Five seeds", "2.5", "0.7", "93", "four of five", "three other seeds"}
    assert results_in_lesson(TRAINING.replace("trainer.fit", "print")) == set()


def test_every_entry_of_the_table_is_needed_and_derived_numbers_are_right():
    for number, held in HELD.items():
        assert set(held) <= results_in_lesson(LESSONS[number]), number
        for text, reason in held.items():
            if isinstance(reason, float):
                assert f"{reason:.{len(text.partition('.')[2])}f}" == text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_with_results_says_on_which_processor_they_were_measured(page):
    assert sections_without_source(page.read_text(encoding="utf-8")) == []


def test_a_section_with_a_result_and_no_processor_is_found():
    text = "# Title\n## One\nThe accuracy is 87.1 %.\n## Two\nOn an EPYC, the loss is 1.5.\n## Three\n```text\nloss 1.5\n```\nThe loss falls.\n"
    assert sections_without_source(text) == ["One"]
