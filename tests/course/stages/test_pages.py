"""The pages of the stages: what they print is what the program prints, and they name all that is to be written."""

import contextlib
import io
import re
import sys

import pytest
from helpers.stages import reference_program

from numpy_transformer.course.stages.running import running
from numpy_transformer.course.stages.table import STAGES
from numpy_transformer.texts import texts_of

EXAMPLE = re.compile(r"```python\n(.*?)```\s*```text\n(.*?)```", re.S)


@pytest.mark.parametrize("stage", STAGES.values(), ids=lambda stage: stage.name)
def test_examples_print_what_the_page_shows(stage):
    examples = EXAMPLE.findall(stage.page_text())
    assert examples
    with running({name: text.encode() for name, text in reference_program().items()}):
        for code, expected in examples:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code, stage.page, "exec"), {})
            assert printed.getvalue() == expected
    assert "stage01_loss" not in sys.modules


@pytest.mark.parametrize("stage", STAGES.values(), ids=lambda stage: stage.name)
def test_a_page_has_its_title_its_minutes_and_all_that_is_to_be_written(stage):
    lines = stage.page_text().splitlines()
    assert lines[0] == f"# Stage {stage.number}: {stage.title}"
    assert lines[2].startswith(f"About {stage.minutes} minutes.")
    assert set(re.findall(r"\b\d\d[a-c]?\b", lines[2].partition("Uses")[0].partition("`")[0][6:])) - {str(stage.minutes)} <= set(
        stage.lessons)
    for name in stage.write:
        assert name.split(".")[-1] in stage.page_text()
    assert f"numpy-transformer build check {stage.number}`" in stage.page_text()
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize("stage", STAGES.values(), ids=lambda stage: stage.name)
def test_hints_are_three_and_no_line_of_the_solution(stage):
    assert len(set(stage.hints)) == 3
    code = [line.strip() for line in stage.solution.splitlines() if len(line.strip()) > 30 and '"""' not in line]
    for hint in stage.hints:
        assert not [line for line in code if line in hint]


@pytest.mark.parametrize("stage", STAGES.values(), ids=lambda stage: stage.name)
def test_a_page_and_a_skeleton_hold_no_solution(stage):
    """Of what students write, no line is in the file that they begin with, and no body of several lines is on the page."""
    own = set(stage.solution.splitlines()) - set(stage.skeleton.splitlines())
    assert len(own) >= 6
    for line in own:
        assert line.strip() in ("", "return p") or line not in stage.skeleton.splitlines()
    shown = [line for line in own if len(line.strip()) > 40 and line.strip() in stage.page_text()]
    assert not shown


def test_names_in_the_drawing_are_short():
    words = texts_of("stages/words")["drawing"]
    assert all(len(words[str(number)]) <= 18 for number in STAGES)
