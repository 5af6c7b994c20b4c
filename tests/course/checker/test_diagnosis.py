"""The names that a wrong answer gets, and the order of the checks."""

import dataclasses

import numpy as np
import pytest
from helpers.answer_keys import answer_key
from helpers.small_exercises import EXERCISE, KEY, SCALED, SCALED_KEY, diagnoses, said
from helpers.students import play

from numpy_transformer.course.checker.comparison import close, compare_shapes, values_agree
from numpy_transformer.course.checker.diagnosis import AnswerKey
from numpy_transformer.course.checker.verdict import judge
from numpy_transformer.course.exercises import choose
from numpy_transformer.course.exercises.cases import brief
from numpy_transformer.course.exercises.definition import Exercise, Mistake
from numpy_transformer.course.exercises.observation import Observation, changed
from numpy_transformer.course.exercises.sheet import with_todo
from numpy_transformer.course.sandbox import CaseResult, ProgramRun
from numpy_transformer.texts import render


@pytest.mark.parametrize("edits, names", [
    ((0,), ("ONE-1",)), ((0, 1), ("ONE-1", "ONE-2")), ((0, 1, 2), ("ONE-1", "ONE-2", "ONE-3"))])
def test_combinations(edits, names):
    mistakes = [EXERCISE.mistakes[i] for i in edits]
    verdict = judge(KEY, play(KEY, EXERCISE.edited(*(mistake.edits for mistake in mistakes))))
    assert verdict.mistakes == (names,)
    for mistake in mistakes:
        assert (f"{mistake.name}: " * (len(edits) > 1) + mistake.explanation) in verdict.sentences


def test_a_mistake_is_named_only_if_it_matches_every_case():
    """Right names for three cases of five are no name."""
    verdict = said("return (2 * dx + 1 if len(x) == 5 else dx), dw")
    assert verdict.status == "fail" and not verdict.mistakes


def test_float32_answers_are_named_too():
    source = EXERCISE.edited(EXERCISE.mistakes[0].edits)
    verdict = judge(KEY, play(KEY, source, lambda y: y.astype(np.float32)))
    assert verdict.mistakes == (("ONE-1",),)


@pytest.mark.parametrize("old, new, stage, words", [
    ("return dx, dw", "return dx", "type", "2 values, (dx, dw)"),
    ("return dx, dw", "dx, dw", "type", "None"),
    ("return dx, dw", "return dx, dw[:-1]", "shape", "wrong along axis 0"),
    ("return dx, dw", "return dx[..., None], dw", "shape", "axes of size 1"),
    ("return dx, dw", "return dx / 0, dw", "finite", "inf"),
    ("return dx, dw", "raise ValueError('so')", "error", "so"),
    ("return dx, dw", "x += 1; return dx, dw", "arguments changed", "changed in place"),
    ("return dx, dw", "return dx, dw * np.float64(1)", "float32", "float64"),
    ("return dx, dw", "return dx, dw + (dw.dtype == np.float32)", "float32", "wrong in float32"),
])
def test_the_first_stage_that_fails(old, new, stage, words):
    verdict = said(new, old)
    assert (verdict.stage, verdict.status) == (stage, "error" if stage == "error" else "fail")
    assert words in " ".join((render(verdict.note), *verdict.sentences))
    assert verdict.points(4) == (2 if stage in ("arguments changed", "float32") else 0)


def test_arguments_that_were_changed_are_told_apart():
    """The catalogue knows one way of changing x; it says nothing of w."""
    verdict = said("w += 1\n    return loss, y", "return loss, y", SCALED_KEY)
    assert verdict.stage == "arguments changed" and "but w was changed" in render(verdict.note) and not verdict.mistakes
    verdict = said("x *= p\n    return loss, y", "return loss, y", SCALED_KEY)
    assert "but x was changed" in render(verdict.note) and verdict.mistakes == (("TWO-1",),) and verdict.right
    verdict = said("x *= 3\n    return loss, y", "return loss, y", SCALED_KEY)
    assert "but x was changed" in render(verdict.note) and verdict.mistakes == () and verdict.right
    verdict = said("w += 1\n    x += 1\n    return loss, y", "return loss, y", SCALED_KEY)
    assert verdict.stage == "arguments changed" and not verdict.mistakes


@pytest.mark.parametrize("mistake", SCALED.mistakes, ids=lambda mistake: mistake.name)
def test_a_name_tells_whether_an_argument_was_changed(mistake):
    assert judge(SCALED_KEY, play(SCALED_KEY, SCALED.edited(mistake.edits))).mistakes == ((mistake.name,),)


def test_errors_are_one_mistake_if_they_say_the_same():
    assert said("y = x.sum(7)", "y = x * p", SCALED_KEY).mistakes == (("TWO-4",),)
    assert said("y = x.sum(8)", "y = x * p", SCALED_KEY).mistakes == ()


@pytest.mark.parametrize("wrong, status", [
    ("return dx * (1 + 1e-10), dw", "pass"), ("return dx * (1 + 1e-8), dw", "fail"),
    ("return dx + 1e-7 * abs(dx).max(), dw", "fail"), ("return dx + 1e-12 * abs(dx).max(), dw", "pass"),
    ("return (dx * (1 + 5e-7)).astype(np.float32), dw", "pass"),
    ("return (dx * (1 + 5e-6)).astype(np.float32), dw", "fail"),
    ("return (dx * (1 + 5e-5)).astype(np.float32), dw", "fail"), ("return dx.astype(np.float16), dw", "fail"),
    ("return dx.astype(np.float16).astype(np.float32), dw", "fail"),
    ("return (dy.astype(np.float32) @ w.astype(np.float32).T), dw", "pass"),
    ("return (dx + 1e-4 * abs(dx).max()).astype(np.float32), dw", "fail"),
    ("return dx, dw + 1e-7 * abs(dx).max() * (abs(dw) == abs(dw).min())", "fail"),
])
def test_how_near_is_right(wrong, status):
    assert said(wrong).status == status


def test_what_is_not_finite_and_what_is_small_beside_other_outputs():
    inf, nan = np.array([np.inf, np.nan]), np.array([np.nan, 1.0])
    assert close(inf, inf, [inf]).all() and not close(nan, inf, [inf]).any()
    small, large = np.array([1e-6]), np.array([10.0])
    assert not close(1.001 * small, small, [small, large]).any()
    assert close(-1e-9 * small, 1e-9 * small, [small, large]).all() and not close(-small, small, [small]).any()


def test_a_name_needs_nine_digits():
    assert said("return 2 * dx + 1, dw").mistakes == (("ONE-1",),)
    assert said("return (2 * dx + 1) * (1 + 1e-7), dw").mistakes == ()


def test_equal_by_the_largest_output_where_one_is_rounding_alone():
    noise = np.array([1e-17, -1e-17])
    assert values_agree(np.array([np.nan, 1]), np.array([np.nan, 1]))
    assert values_agree(-noise, noise, 1.0) and not values_agree(-noise, noise)
    assert not values_agree(np.array([np.inf]), np.array([1.0]))


def test_a_total_of_zero_says_nothing():
    key = answer_key(choose("01.2"))
    verdict = judge(key, play(key, key.exercise.edited(), lambda y: 2 * y[:1]))
    assert verdict.stage == "shape" and not verdict.explained


def test_changed_arguments():
    a, b = np.array([1.0, np.nan]), np.arange(3)
    assert changed([a, b], [a.copy(), b.copy()]) == () and changed([a, b], [a, b, b]) == ()
    assert changed([a, b], [a + 1, b]) == (0,) and changed([a, b], [a, b.astype(float)]) == (1,)
    assert changed([a, b], [a, b[:, None]]) == changed([a, b], [a]) == (1,) and changed([a, b], [None, b]) == (0,)
    padded = np.array([0.1, 0.2], np.longdouble)            # its last bytes are whatever was there
    assert changed([padded], [np.frombuffer(padded.tobytes(), np.longdouble)]) == ()


def test_the_arguments_of_a_class_are_named_by_their_method():
    exercise = choose("02.2")
    labels = exercise.labels(answer_key(exercise).main_cases[0])
    calls = ("forward", "forward", "backward", "forward", "backward", "backward")
    assert labels == ["weight", "bias", *(f"an argument of {method}" for method in calls)]


@pytest.mark.parametrize("kinds, lost, words", [
    (["MaskedArray", "ndarray"], None, "dx is a MaskedArray; return a NumPy array"),
    (["ndarray", "list"], None, "dw is a list"), (["ndarray", "tuple"], None, "dw is a tuple"),
    (["ndarray", "ndarray"], 1, "dw is an array, but not one of real numbers"),
    (["NoneType", "ndarray"], 0, "dx is None; is a return statement missing?"),
    (["generator", "ndarray"], 0, "dx is a generator; return a NumPy array"),
    (["ndarray"], None, "2 values, (dx, dw), but returned a single array"),
    ("no list", None, "2 values, (dx, dw), but returned an empty tuple"),
])
def test_what_is_no_array(kinds, lost, words):
    run = play(KEY, EXERCISE.edited())
    run.results[2].report = {"kinds": kinds}
    if lost is not None:
        run.results[2].outputs[lost] = None
    verdict = judge(KEY, run)
    assert (verdict.status, verdict.stage) == ("fail", "type") and words in render(verdict.note)


@pytest.mark.parametrize("number, kind, stage", [("12.1", float, "type"), ("12.1", np.int32, ""), ("06.1", int, "type")])
def test_whole_numbers_and_booleans_where_they_are_asked_for(number, kind, stage):
    key = answer_key(choose(number))
    verdict = judge(key, play(key, key.exercise.edited(), lambda y: y.astype(kind)))
    assert verdict.stage == stage and verdict.status == ("fail" if stage else "pass")


def test_either_of_two_mistakes():
    exercise = dataclasses.replace(EXERCISE, mistakes=(
        *EXERCISE.mistakes[:2], Mistake("ONE-4", {"dx = dy @ w.T": "dx = dy @ w.T * 2 + 1"})))
    key = AnswerKey(exercise, 3)
    verdict = judge(key, play(key, exercise.edited(exercise.mistakes[0].edits)))
    assert verdict.mistakes == (("ONE-1",), ("ONE-4",)) and "matches each of these known mistakes:" in diagnoses(verdict)[0]
    assert diagnoses(verdict)[0].startswith("[ONE-1 or ONE-4]") and "ONE-4: Another way to say it." in verdict.sentences


@pytest.mark.parametrize("shape, right, words", [
    ((3, 7, 5), (3, 5, 7), "looks transposed"), ((5, 7, 3), (3, 5, 7), "looks transposed"),
    ((1, 3), (3,), "axes of size 1"), ((3, 5, 2), (3, 5), "is a sum missing"), ((3,), (3, 5), "too few axes"),
    ((3, 4, 8), (3, 5, 7), "wrong along axis 1 and 2")])
def test_what_is_said_of_a_shape(shape, right, words):
    assert words in render(compare_shapes(shape, right))


@pytest.mark.parametrize("change", [
    {"error": ["a"]}, {"error": "e", "kinds": "k"}, {"kinds": ["ndarray"] * 30}, {"kind": ["NotImplementedError"]}])
def test_whatever_the_child_says_there_is_a_verdict(change):
    run = play(KEY, EXERCISE.edited())
    run.results[0].report = change
    assert judge(KEY, run).status in ("fail", "error")
    assert judge(KEY, ProgramRun("", 0, 0.1, "", {"stage": "import", **change}, [])).status == "error"
    assert judge(KEY, ProgramRun("", 0, 0.1, "", {"stage": "name", "names": "products"}, [])).status == "error"


def test_arguments_then_the_second_call_then_float32():
    run = play(KEY, EXERCISE.edited())
    again, single = ([case.role for case in KEY.cases].index(role) for role in ("again", "float32"))
    run.results[single].outputs[0] = run.results[single].outputs[0].astype(float)
    assert judge(KEY, run).stage == "float32"
    run.results[again].outputs[0] = run.results[again].outputs[0] + 1
    assert judge(KEY, run).stage == "repeated"
    run.results[again].after[0] = run.results[again].after[0] + 1
    assert judge(KEY, run).stage == "arguments changed"


def test_cases_are_drawn_anew_for_each_seed_and_each_case():
    exercise = choose("02.2")
    for seed, other, equal_ones in ((1, 1, True), (1, 2, False)):
        for a, b in zip(exercise.cases(seed), exercise.cases(other)):
            assert all((x == y).all() == equal_ones for x, y in zip(a.arrays(), b.arrays()))
    first = [case.arrays()[0].flat[0] for case in exercise.cases(1) if not case.role]
    assert len(set(first)) == len(first) == 7


def test_which_cases_there_are():
    roles = [[case.role for case in choose(number).cases(0)] for number in ("01.2", "02.3", "19.3", "04.3")]
    assert roles[0] == [""] * 5 + ["float32"] + ["size"] * 4 + ["other"] * 8 + ["again"] and roles[3] == [""]
    assert "float32" not in roles[1] + roles[2]             # a function among the arguments, and no arrays at all
    assert "size" in roles[1] and "size" not in roles[2] and roles[1][-1] == roles[2][-1] == "again"


def test_edits_side_by_side_and_on_top_of_each_other():
    edited = EXERCISE.edited_code({"return dx": "return -dx"}, {", dw\n": ", -dw\n"})
    assert edited.endswith("return -dx, -dw\n") and EXERCISE.edited_code({"def": "async def"}).startswith("async def")
    assert EXERCISE.edited_code({"return dx": "return 0"}, {"dx, dw": "1"}) is None


def test_comments_above_the_answer_are_part_of_it():
    assert "why" not in with_todo('def f(x):\n    \"\"\"What.\"\"\"\n    # why\n    return x\n', ())


def test_arguments_in_a_few_letters():
    assert [brief(value) for value in ([1, 1], [1, 1, 1], (np.ones(2), 3), [1, 2, 1])] == [
        "[1, 1]", "[3 times 1]", "[(2,), 3]", "[1, 2, 1]"]


def test_another_answer_the_second_time():
    run = play(KEY, EXERCISE.edited())
    again = next(i for i, case in enumerate(KEY.cases) if case.role == "again")
    run.results[again].outputs[0] = run.results[again].outputs[0] + 1e-12
    verdict = judge(KEY, run)
    assert verdict.stage == "repeated" and verdict.points(5) == 2 and verdict.points(4) == 2


@pytest.mark.parametrize("said, status, words", [
    ({"stage": "import", "error": "SyntaxError: invalid syntax"}, "error", "SyntaxError"),
    ({"stage": "import", "kind": "NotImplementedError", "error": "NotImplementedError:"}, "todo", ""),
    ({"stage": "name", "names": ["product"]}, "error", "did you mean product?"),
    ({"stage": "name", "names": []}, "error", "defines nothing"),
    ({"stage": "arguments", "error": "missing a required argument: 'b'"}, "error", "missing a required argument"),
])
def test_what_cannot_be_called(said, status, words):
    verdict = judge(KEY, ProgramRun("", 0, 0.1, "", said, []))
    assert verdict.status == status and words in render(verdict.note) and verdict.points(4) == 0


@pytest.mark.parametrize("ended, status", [("timeout", "timeout"), ("memory", "memory")])
def test_how_it_ended(ended, status):
    right = play(KEY, EXERCISE.edited())
    assert judge(KEY, ProgramRun(ended, -9, 10.0, "", {}, right.results)).status == status


def test_an_early_end_without_a_word():
    for outputs in ([None, None], [np.ones((2, 2))], []):
        run = ProgramRun("killed", 3, 0.1, "", {}, play(KEY, EXERCISE.edited()).results)
        run.results[1:] = [CaseResult(outputs, [], {}) for _ in KEY.cases[1:]]
        verdict = judge(KEY, run)
        assert verdict.status == "error" and verdict.stage == "ended" and "exit code 3" in render(verdict.note)
        assert verdict.sentences[0].startswith("Case 2 of 5,") and verdict.lines[-1] == verdict.note


def pair():
    """Two answers."""
    return np.array([3, 2]), np.array(4.0)


QUESTION = Exercise("91.1", minutes=5, lines=1, words={"task": "Two answers."}, outputs=("answer 1", "answer 2"),
                    solution=pair, reference=lambda: (np.array([3, 2]), np.array(4.0)))


def test_a_question_keeps_its_answers_to_itself():
    key = AnswerKey(QUESTION, 3)
    verdict = judge(key, play(key, QUESTION.edited({"4.0": "8.0"})))
    assert verdict.status == "fail" and not diagnoses(verdict)
    assert not any(word in " ".join((render(verdict.note), *verdict.sentences)) for word in ("expected", "times", "4"))


def returned(key, source, *kinds):
    """The verdict where the child says that these kinds came back."""
    run = play(key, source)
    for result in run.results:
        result.report["kinds"] = list(kinds)
    return judge(key, run)


def test_lists_and_tuples_are_answers_but_no_arrays():
    assert returned(AnswerKey(QUESTION, 3), QUESTION.edited(), "tuple", "float").status == "pass"
    verdict = returned(KEY, EXERCISE.edited(), "tuple", "ndarray")
    assert verdict.stage == "type" and "dx is a tuple; return a NumPy array" in render(verdict.note)
    assert "return a tuple: return a, b" in returned(KEY, EXERCISE.edited(), "list").sentences[0]


def test_a_class_that_returns_too_much_is_told_so():
    key = AnswerKey(choose("02.2"), 3)
    note = returned(key, choose("02.2").edited(), *["ndarray"] * 10).sentences[0]
    assert "The calls' results and the gradients" in note and "there are 10 values" in note


def test_no_number_at_all_is_a_matter_of_shape():
    exercise = dataclasses.replace(QUESTION, inputs=lambda rng, n: (np.arange(3),), solution=numbers, outputs=("ids",),
                                   reference=lambda x: x[::-1])
    key = AnswerKey(exercise, 3)
    assert judge(key, play(key, exercise.edited({"x[::-1]": "np.array([])"}))).stage == "shape"
    assert judge(key, play(key, exercise.edited({"x[::-1]": "x[::-1] * 1.0"}))).stage == "type"


def numbers(x):
    """Backwards."""
    return x[::-1]


def test_two_mistakes_are_not_named_by_errors_alone():
    exercise = dataclasses.replace(EXERCISE, mistakes=(
        Mistake("ONE-5", {"dx = dy @ w.T": "dx = None"}),
        Mistake("ONE-6", {"return dx, dw": "return dx.T, dw"})))
    key = AnswerKey(exercise, 3)
    verdict = judge(key, play(key, exercise.edited(*(mistake.edits for mistake in exercise.mistakes))))
    assert verdict.status == "error" and not verdict.mistakes


def test_the_first_wrong_prediction_is_named_whatever_the_others_are():
    key = AnswerKey(choose("01.6"), 0)

    def predicted(**wrong):
        """The known mistakes in predictions with these answers, by their numbers."""
        return [mistake.name for mistake, in key.identify([
            Observation(tuple(np.array(wrong.get(f"answer{j}", y)) for j, y in enumerate(expected.outputs, 1)))
            for expected in key.expected])]

    assert predicted(answer2=1.0, answer3=-7.0, answer6=5.0) == ["PRD-01.6o"]
    assert predicted(answer2=0.5, answer3=-1.0) == []       # the first wrong one has no name
