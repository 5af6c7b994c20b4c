"""Every exercise: unsolved as handed out, solved by its solution, and each known mistake refuted and named."""

import itertools
import random
import re

import numpy as np
import pytest
from helpers import ROOT
from helpers.answer_keys import EXERCISES, answer_key
from helpers.commands import run
from helpers.students import play

from numpy_transformer.course.checker.comparison import matches
from numpy_transformer.course.checker.diagnosis import MOST_COMBINATIONS, AnswerKey
from numpy_transformer.course.checker.relations import explains_everything
from numpy_transformer.course.checker.verdict import judge
from numpy_transformer.course.exercises import choose, choose_one, choose_several, exercises
from numpy_transformer.course.exercises.choosing import TESTS

LESSONS = ROOT / "lessons"
PAGE = (LESSONS / "EXERCISES.md").read_text(encoding="utf-8")
TEACHING = (LESSONS / "TEACHING.md").read_text(encoding="utf-8")
every_exercise = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: f"{e.number}-{e.name}")
FIRST = [exercise for exercise in EXERCISES if exercise.number.endswith(".1")]                # of each lesson
first_exercises = pytest.mark.parametrize("exercise", [         # the slow run has the others
    pytest.param(exercise, id=f"{exercise.number}-{exercise.name}",
                 marks=[] if exercise in FIRST else [pytest.mark.slow]) for exercise in EXERCISES])


@first_exercises
def test_it_is_handed_out_unsolved(exercise):
    skeleton = exercise.skeleton()
    assert "TODO" in skeleton and len(exercise.hints) == 3 and all(hint.endswith((".", "?")) for hint in exercise.hints)
    assert len(set(exercise.hints)) == 3 and max(map(len, skeleton.splitlines())) <= 120
    assert judge(answer_key(exercise), play(answer_key(exercise), skeleton)).status == "todo"


@pytest.mark.slow
@every_exercise
def test_right_answers_pass_whatever_the_seed(exercise):
    for seed in (2, *range(20, 50)):
        key = AnswerKey(exercise, seed)
        for name, edits in {"solution": {}, **exercise.alternatives}.items():
            verdict = judge(key, play(key, exercise.edited(edits)))
            assert verdict.status == "pass", (seed, name, verdict.stage, verdict.note)


@first_exercises
def test_the_solution_passes_and_keeps_to_its_lines(exercise):
    verdict = judge(answer_key(exercise), play(answer_key(exercise), exercise.edited()))
    assert verdict.status == "pass", (verdict.stage, verdict.note)
    written = set(exercise.text.splitlines()) - set(exercise.skeleton().splitlines())
    code = [line for line in written if line.strip() and not line.strip().startswith("#")]
    assert len(code) <= exercise.lines <= 40, f"the solution has {len(code)} lines, the file promises {exercise.lines}"
    assert exercise.minutes % 5 == 0 and max(map(len, exercise.text.splitlines())) <= 120


@first_exercises
def test_alternative_solutions_pass(exercise):
    for name, edits in exercise.alternatives.items():
        verdict = judge(answer_key(exercise), play(answer_key(exercise), exercise.edited(edits)))
        assert verdict.status == "pass", (name, verdict.stage, verdict.note)


@pytest.mark.parametrize("exercise", [e for e in EXERCISES if e.invariants], ids=lambda e: f"{e.number}-{e.name}")
def test_the_expected_answers_keep_every_invariant_and_others_do_not(exercise):
    """The answers of the package's own components; without this, a student would read a sentence that is wrong."""
    key = answer_key(exercise)
    for sentence, measure in exercise.invariants:
        def size(case, outputs):
            return np.max(abs(np.asarray(measure(case.inputs, outputs))), initial=0)

        answered = list(zip(key.main_cases, key.expected, strict=True))
        for case, expected in answered:
            assert size(case, expected.outputs) < 1e-9, (sentence, case.note)
        assert any(size(case, [change(y) for y in expected.outputs]) > 1e-6
                   for case, expected in answered for change in (larger, smaller)), sentence


def larger(y):
    return ~y if y.dtype == bool else y + 5


def smaller(y):
    return ~y if y.dtype == bool else -5 - y


@first_exercises
def test_float32_answers_pass(exercise):
    def single(y):
        return y.astype(np.float32) if y.dtype == np.float64 else y
    verdict = judge(answer_key(exercise), play(answer_key(exercise), exercise.edited(), single))
    assert verdict.status == "pass", (verdict.stage, verdict.note)


@pytest.mark.parametrize("exercise, seed", [
    pytest.param(exercise, seed, id=f"{exercise.number}-{exercise.name}-{seed}",
                 marks=[] if exercise in FIRST[::4] and seed == 1 else [pytest.mark.slow])
    for exercise in EXERCISES for seed in (1, 2, 3, 4)])
def test_each_known_mistake_is_refuted_and_named(exercise, seed):
    for mistake in exercise.mistakes:
        for right in mistake.edits:
            assert exercise.code.count(right) == 1, (
                f"{mistake.name}: {right!r} occurs {exercise.code.count(right)} times in the solution")
        verdict = judge(answer_key(exercise, seed), play(answer_key(exercise, seed), exercise.edited(mistake.edits)))
        assert verdict.status in ("fail", "error") and not verdict.points(100) or verdict.right, (mistake.name, verdict)
        assert set(verdict.mistakes) == {(name,) for name in (mistake.name, mistake.twin) if name}, verdict


def test_mistakes_have_names_of_their_own_and_twins_know_each_other():
    for exercise in EXERCISES:
        names = {mistake.name: mistake for mistake in exercise.mistakes}
        assert len(names) == len(exercise.mistakes), exercise.number
        for mistake in exercise.mistakes:
            assert not mistake.twin or names[mistake.twin].twin == mistake.name
            number = re.search(r"\d\d\.\d", mistake.name)
            assert not number or number[0] == exercise.number, mistake.name
            assert mistake.explanation.endswith((".", "?")) and len(mistake.explanation) > 20, mistake.name


@pytest.mark.slow
@every_exercise
def test_two_mistakes_at_once_are_named(exercise):
    """Unless there are too many pairs to try, the answer gives too little to go by, or one sentence says it all."""
    key = answer_key(exercise)
    together = list(itertools.combinations(exercise.mistakes, 2))
    random.Random(exercise.number).shuffle(together)
    possible = (mistakes for mistakes in together if exercise.edited(*(mistake.edits for mistake in mistakes)))
    for mistakes in itertools.islice(possible, 8):
        run = play(key, exercise.edited(*(mistake.edits for mistake in mistakes)))
        verdict = judge(key, run)
        observed = key.observations(mistakes)
        if matches(observed, key.expected) or all(seen.error for seen in observed):
            continue                                            # they undo each other, or give nothing to compare
        if exercise.judge or not key.shows_a_mistake(observed) or explains_everything(key, observed):
            continue
        found = key.identify(observed)
        assert found and verdict.mistakes or len(together) > MOST_COMBINATIONS, (mistakes, verdict)
        assert all(len(simpler) <= len(mistakes) for simpler in found)
        assert all(matches(key.observations(simpler), observed) for simpler in found)


def test_there_are_as_many_as_the_readme_says():
    """And as many as a classroom needs: thirty to write, four classes among them, and the other kinds."""
    kinds = [exercise.kind for exercise in EXERCISES]
    assert kinds.count("write") >= 30 and sum(exercise.is_class for exercise in EXERCISES) >= 4
    assert kinds.count("predict") >= 3 and kinds.count("find the bug") >= 3 and kinds.count("explain") >= 2
    assert kinds.count("question") == 10 and len(EXERCISES) == 113
    assert sum(len(exercise.mistakes) for exercise in EXERCISES) > 1000


def test_each_has_a_row_in_the_table_and_a_lesson():
    for exercise in EXERCISES:
        kind = "class" if exercise.is_class else exercise.kind
        assert (f"| {exercise.number} | {exercise.title} | `{exercise.file}` | {kind} "
                f"| {exercise.lines} | {exercise.minutes} | {exercise.points} |") in PAGE
        assert list(LESSONS.glob(f"{exercise.lesson}_*.py")), exercise.number


def test_the_table_has_no_other_rows_and_the_order_of_the_files():
    names = re.findall(r"^\| \d\d\.\d \| .* \| `(.*?)` \|", PAGE, re.M)
    assert names == sorted(names) == [exercise.file for exercise in EXERCISES]


def test_the_numbers_of_a_lesson_have_no_gaps_and_exercises_to_write_come_first():
    """Those of the test of a part come after the others of their lesson, and begin with one to write, too."""
    of_tests = {number for numbers in TESTS.values() for number in numbers}
    lessons = {}
    for exercise in EXERCISES:
        lessons.setdefault(exercise.lesson, []).append(exercise)
    for lesson, found in lessons.items():
        assert [exercise.number for exercise in found] == [f"{lesson}.{i}" for i in range(1, len(found) + 1)]
        in_test = [exercise.number in of_tests for exercise in found]
        assert in_test == sorted(in_test) and len(found) < 10
        for part in (False, True):
            written = [exercise.kind == "write" for exercise, tested in zip(found, in_test) if tested == part]
            assert written == sorted(written, reverse=True)


@pytest.mark.parametrize("name, numbers", TESTS.items())
def test_the_test_of_a_part_has_its_files(name, numbers, tmp_path, capsys):
    assert [exercise.number for exercise in choose_several([name])] == list(numbers)
    assert [exercise.kind for exercise in choose_several([name.upper(), numbers[0]])] == ["write", "question"]
    assert run(capsys, "exercise", "start", tmp_path / name, name)[0] == 0
    files = [choose(number).file for number in numbers]
    assert sorted(path.name for path in (tmp_path / name).glob("ex*.py")) == files


def test_there_is_no_other_test():
    for unknown in ("test9", "test", "test1.5"):
        with pytest.raises(ValueError, match=f"there is no exercise '{unknown}'; .* test1 to test5 are the tests of the parts"):
            choose_several([unknown])
    with pytest.raises(ValueError, match="test2 has the exercises 10.8, 10.9; name one of them"):
        choose_one("test2")


def test_the_sheets_of_the_term_add_up():
    numbered = exercises()
    sheets = re.findall(r"^\| (\d+) \| (\d\d\.\d [A-Z].*) \| (\d+) \| (\d+) \|$", TEACHING, re.M)
    assert len(sheets) == 13 and [int(week) for week, *_ in sheets] == list(range(2, 15))
    for _, titles, minutes, points in sheets:
        chosen = [numbered[number] for number in re.findall(r"(?:^|, )(\d\d\.\d) ", titles)]
        assert titles == ", ".join(f"{exercise.number} {exercise.title}" for exercise in chosen)
        assert int(minutes) == sum(exercise.minutes for exercise in chosen)
        assert int(points) == sum(exercise.points for exercise in chosen)


def test_the_readme_shows_what_the_checker_says(tmp_path, capsys):
    shown = re.search(r"^```text\n(01\.2 softmax_backward: .*?)^```$", PAGE, re.M | re.S)[1]
    run(capsys, "exercise", "start", tmp_path, "01.2")
    path = tmp_path / "ex01_2_softmax_backward.py"
    todo = re.compile(r" +# TODO.*\n +raise NotImplementedError\n")
    wrong = todo.sub("    return p * (1 - p) * dp\n", path.read_text(encoding="utf-8"))
    path.write_text(wrong, encoding="utf-8")
    assert run(capsys, "exercise", "check", "01.2", "--folder", tmp_path) == (1, shown, "")


def test_each_lesson_names_its_exercises():
    wanted = {}
    for exercise in EXERCISES:
        wanted.setdefault(exercise.lesson, []).append(exercise.number)
    named = {}
    for path in sorted(LESSONS.glob("[0-9][0-9]*_*.py")):           # 02b, too, which asks those of 02 that need it
        found = re.search(r"^# With a checker \(.*\): ([\d., #\n]+)\.$", path.read_text(encoding="utf-8"), re.M)
        if found:
            named.setdefault(path.name[:2], []).extend(re.findall(r"\d+\.\d", found[1]))
    assert {lesson: sorted(numbers) for lesson, numbers in named.items()} == wanted
