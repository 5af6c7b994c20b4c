"""Programs that were written from the pages alone, by people who had not seen the solutions.

right/ holds whole programs; each of their files begins with `# === NAME`. wrong/ has a file for each stage, with answers that begin
with `# === [NAMES] what is wrong`, which goes on in lines that begin with `#     `. The names are those that the checker gives;
without one, `place` stands for a place in the code, `attributes` for what is lost between forward and backward, and `-` for
neither. An answer holds only the definitions that differ from those of the reference program. Each further file of an answer begins
with `# --- NAME`.
"""

import ast
import re
from pathlib import Path

import pytest
from helpers.stages import execute, sentences

from numpy_transformer.course.checker.feedback import is_place
from numpy_transformer.course.checker.messages import mistake_names
from numpy_transformer.course.stages.check import check_stage, told_by
from numpy_transformer.course.stages.table import LAW, STAGES

HERE = Path(__file__).parent
ANSWER = re.compile(r"^# === \[([^\]\n]+)\] (.*\n(?:#     .*\n)*)((?:(?!# === ).*\n)*)", re.M)
PROGRAMS = sorted((HERE / "right").glob("*.py"), key=lambda path: path.name)


def files_of(text, mark, first):
    """{name: bytes} of a text whose further files begin with lines `# MARK NAME`; the first has this name, if any."""
    pieces = re.split(rf"^# {mark} (\w+\.py)\n", text, flags=re.M)
    named = dict(zip([first, *pieces[1::2]], pieces[::2]))
    return {name: code.encode() for name, code in named.items() if name}


def completed(solution, answer):
    """Returns a solution in which the functions and methods of an answer take the place of those with the same names."""
    tree = ast.parse(solution)
    replace_definitions(tree.body, ast.parse(answer).body)
    return ast.unparse(tree).encode()


def replace_definitions(body, others):
    """Replaces definitions in a list of statements; what the list does not have goes before its first definition."""
    places = {item.name: i for i, item in enumerate(body) if hasattr(item, "name")}
    new = []
    for item in others:
        place = places.get(getattr(item, "name", None))
        if place is None:
            new.append(item)
        elif isinstance(item, ast.ClassDef):
            body[place].bases = item.bases
            replace_definitions(body[place].body, item.body)
        else:
            body[place] = item
    first = min(places.values(), default=len(body))
    body[first:first] = new


def wrong_answers(stage):
    """A list of (names, what is wrong, {name: bytes}) of the wrong answers of a stage."""
    answers = []
    for names, note, code in ANSWER.findall((HERE / "wrong" / stage.file).read_text(encoding="utf-8")):
        files = files_of(code, "---", stage.file)
        answers.append((names, " ".join(note.replace("\n#    ", " ").split()),
                        files | {stage.file: completed(stage.solution, files[stage.file])}))
    return answers


def test_there_are_answers_for_all_stages():
    assert len(PROGRAMS) >= 3
    for path in PROGRAMS:
        assert {stage.file for stage in STAGES.values()} <= set(files_of(path.read_text(encoding="utf-8"), "===", ""))
    assert sum(len(wrong_answers(stage)) for stage in STAGES.values()) >= 60
    assert all(len(wrong_answers(stage)) >= 10 for stage in STAGES.values())


@pytest.mark.slow
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
@pytest.mark.parametrize("number", STAGES)
def test_right_programs_pass(path, number):
    files = files_of(path.read_text(encoding="utf-8"), "===", "")
    result = check_stage(STAGES[number], files, execute, own=[stage for stage in STAGES.values() if stage.number < number])
    assert result.passed, sentences(result)
    assert LAW not in files


def told(verdict):
    """What a verdict says about a mistake, as it stands in brackets before an answer."""
    if verdict.mistakes:
        return mistake_names(verdict.mistakes)
    if any(map(is_place, verdict.lines)):
        return "place"
    return "attributes" if any(told_by(line).startswith("stages/words.kept") for line in verdict.lines) else "-"


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES.values(), ids=lambda stage: stage.name)
def test_wrong_answers_never_pass_and_are_explained(stage):
    for expected, note, files in wrong_answers(stage):
        verdict = check_stage(stage, files, execute).verdict
        assert verdict.status != "pass", note
        assert told(verdict) == expected, note
