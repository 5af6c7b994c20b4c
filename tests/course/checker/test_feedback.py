"""What a student reads: at most 80 columns, no cosine of booleans, whose mistake an error inside a given helper is."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.answer_keys import EXERCISES, answer_key
from helpers.small_exercises import EXERCISE, KEY, diagnoses, said
from helpers.students import judged, play

from numpy_transformer.course.checker.comparison import compare_arrays, show_entries, show_entry
from numpy_transformer.course.checker.feedback import MOST_LINES, WIDTH, feedback, gradient_table
from numpy_transformer.course.checker.in_process import run_in_this_process
from numpy_transformer.course.checker.messages import DIAGNOSIS, without_equal_alternatives
from numpy_transformer.course.checker.relations.cases import ranges, where
from numpy_transformer.course.checker.verdict import judge
from numpy_transformer.course.exercises import choose
from numpy_transformer.course.exercises.cases import note_of
from numpy_transformer.course.workbook import Workbook, start_workbook
from numpy_transformer.grading.report import student_feedback
from numpy_transformer.grading.rows import Row, plain_line
from numpy_transformer.texts import Message, render


@pytest.mark.parametrize("exercise", [
    pytest.param(exercise, id=exercise.number, marks=[] if exercise.number == "06.1" else [pytest.mark.slow])
    for exercise in EXERCISES])
def test_feedback_is_80_columns_wide(exercise):
    key, widest = answer_key(exercise), "x" * 200
    for mistake in exercise.mistakes:
        verdict = judge(key, play(key, exercise.edited(mistake.edits)))
        for known in (verdict, dataclasses.replace(verdict, mistakes=(), lines=(*verdict.lines, plain_line("word " * 40)))):
            lines = list(feedback(exercise, known, f"{widest}\n\tso"))
            assert max(map(len, lines)) <= 80 == WIDTH, lines


def test_a_feedback_file_of_a_class_is_80_columns_wide():
    exercise = choose("01.2")
    values = {field.name: field.default for field in dataclasses.fields(Row)}
    values |= {"number": exercise.number, "status": "fail", "lines": [plain_line("word " * 40), plain_line("x" * 300)],
               "remarks": ("word " * 40,),
               "printed": "y" * 300, "stage": "values"}
    assert max(map(len, student_feedback(Row(**values)))) == 80


def test_booleans_and_whole_numbers_are_counted():
    right, yours = np.array([True, True, False, False, False]), np.array([False, True, True, True, False])
    assert render(compare_arrays(yours.astype(float), right)) == (
        "3 of 5 entries are wrong (2 True instead of False, 1 False instead of True)")
    numbers = compare_arrays(np.array([1.0, 5.0, 3.0]), np.array([1, 2, 3]))
    assert render(numbers) == "1 of 3 entries are wrong (1 too large)"
    assert "cosine" in render(compare_arrays(np.array([1.0, 2.0]), np.array([1.0, 3.0])))
    assert show_entry(1.0, "b") == "True" and show_entry(0.25, "b") == "0.25" and show_entry(1.0, "f") == "1"


def test_a_mask_is_not_given_a_cosine():
    key = answer_key(choose("06.1"))
    verdict = judge(key, play(key, key.exercise.edited({"np.tri(T, dtype=bool)": "np.tri(T, k=-2, dtype=bool)"})))
    text = "\n".join(verdict.sentences)
    assert "yours False, expected True" in text and "False instead of True)" in text and "cosine" not in text


@pytest.mark.parametrize("report, words", [
    ({"helper": "softmax_backward", "line": "9", "code": "ds = softmax_backward(p, dp.mT)", "passed": "p (3, 5), dp (5, 3)"},
     ["Your line 9, ds = softmax_backward(p, dp.mT), calls softmax_backward with p (3, 5), dp (5, 3).", "docstring"]),
    ({"helper": "Linear.backward", "line": "9", "code": "self.key.backward(dk)", "passed": "dy (3, 5)"},
     ["Your line 9, self.key.backward(dk), calls Linear.backward with dy (3, 5).", "latest forward"]),
    ({"helper": "Linear.backward", "line": "9", "code": "self.key.backward(dk)", "error": "IndexError: pop from empty list"},
     ["calls Linear.backward without a forward before it"]),
    ({"helper": ["no text"], "line": {}}, []),
])
def test_an_error_in_a_given_helper_is_told_as_what_it_was_passed(report, words):
    run = play(KEY, EXERCISE.edited({"return dx, dw": "raise ValueError('so')"}))
    for result in run.results:
        result.report = {"kind": "ValueError", "error": "ValueError: so", **report}
    lines = judge(KEY, run).sentences
    assert len(lines) == 3 + bool(words) and all(word in lines[2] for word in words)


def test_an_error_that_needs_an_explanation_has_one():
    verdict = said("return dx, dw, x @ dy @ x")
    assert "the last axis of a must be as long as the second-to-last axis of b" in render(verdict.note)
    assert "aligned at their last axes" in said("return dx + dw[:, :3], dw").sentences[1]


def edited_class(number, edits):
    exercise = choose(number)
    return gradient_table(exercise.target(exercise.edited(edits)), exercise, exercise.cases(0)[0])


def test_a_gradient_table_whose_rows_all_agree_says_what_this_means():
    forward = edited_class("02.2", {"return x @ self.weight.data + self.bias.data":
                                    "return x @ self.weight.data + self.bias.data + 1"})
    assert "WRONG" not in forward and "Your backward fits your forward: every row agrees." in forward
    second = edited_class("02.2", {"self.weight.grad += ": "self.weight.grad = "})
    assert "WRONG" not in second and "using the layer more than once" in " ".join(second.split())
    backward = edited_class("02.2", {"drows.sum(0)": "drows.mean(0)"})
    assert "WRONG" in backward and "every row agrees" not in backward
    assert max(map(len, "\n".join((forward, second, backward)).splitlines())) <= 80


def test_a_gradient_table_that_cannot_be_made_is_wrapped():
    told = edited_class("02.2", {"rows.T @ drows": f"np.zeros({'1 + ' * 40}2)"})
    assert told.startswith("no gradient check of Linear: ValueError") and max(map(len, told.splitlines())) <= 80


def wrong_linear(old, new):
    key = answer_key(choose("02.2"))
    return judge(key, play(key, key.exercise.edited({old: new})))


def test_passes_of_a_class_are_told_apart():
    verdict = wrong_linear("self.bias.grad += drows.sum(0)", "self.bias.grad += drows.sum(0) + 0.1")
    assert any(line.startswith("What forward returns is correct in every case, but not bias.grad")
               for line in verdict.sentences)
    assert diagnoses(verdict) == ["bias.grad is the correct result plus 0.3 in every case."]
    verdict = wrong_linear(" + self.bias.data", " + self.bias.data ** 2")
    assert "Only y, second y and third y are wrong." in verdict.sentences


def test_a_gradient_of_one_pass_only_is_told_as_such():
    exercise = dataclasses.replace(choose("02.2"), mistakes=())
    key = type(answer_key(choose("02.2")))(exercise, 1)
    for new, which in (("self.weight.grad = rows.T @ drows", "last"),
                       ("self.weight.grad += 0 if self.weight.grad.any() else rows.T @ drows", "first")):
        verdict = judge(key, play(key, exercise.edited({"self.weight.grad += rows.T @ drows": new})))
        assert diagnoses(verdict) == [
            f"weight.grad contains only the {which} of the 3 backward passes in every case."]


@pytest.mark.parametrize("number, edits, words", [
    ("08.3", {"self.gamma = Parameter(gamma)": "self.g = Parameter(gamma)", "self.gamma.grad +=": "self.g.grad +=",
              "g = self.gamma.data": "g = self.g.data", "return self.gamma.data": "return self.g.data"},
     "the checker reads self.gamma.grad: keep the names of the sheet"),
    ("08.3", {"return self.gamma.data * x_hat": "return self.gamma * x_hat"}, "its values are in .data"),
    ("02.2", {"x @ self.weight.data +": "x @ self.weight +"}, "whose values are in .data"),
    ("01.2", {"(p * dp).sum(-1, keepdims=True)": "(p * dp).sum(-1, keepdim=True)"}, "did you mean keepdims?"),
    ("02.2", {"rows.T @ drows": "np.einsum('...i,...j->ij', x, dy)"}, "and give it a letter"),
])
def test_errors_whose_message_does_not_help_are_explained(number, edits, words):
    key = answer_key(choose(number))
    assert words in judge(key, play(key, key.exercise.edited(edits))).sentences[1]


def test_cases_are_listed_with_letters_of_the_exercise_and_the_shorter_list():
    assert [render(ranges(numbers)) for numbers in ([4, 5, 6, 7], [1, 2], [1, 3, 4, 6, 7, 8])] == [
        "4 to 7", "1 and 2", "1, 3, 4 and 6 to 8"]
    exercise = choose("08.3")
    note = {case.note for case in exercise.cases(0) if case.note.startswith("square") and not case.role}
    assert note == {"square: equal sizes"} and note_of("square", choose("05.2").size_letters) == "square: T = S = d"
    stub = SimpleNamespace(main_cases=[SimpleNamespace(note=f"note {i}", sizes=i < 5) for i in range(1, 8)])
    assert render(where(stub, [False] * 3 + [True] * 4)) == "in cases 4 to 7 (note 4; note 5; note 6; note 7)"
    assert render(where(stub, [True] * 5 + [False] * 2)) == "in cases 1 to 5"
    assert render(where(stub, [True] * 6 + [False])) == "in all cases but 7 (note 7)"


@pytest.mark.parametrize("line, stage, words", [
    ("def softmax_backward(dp, p):", "values", "the exercise gives softmax_backward(p, dp), and yours is "
                                               "softmax_backward(dp, p)."),
    ("def softmax_backward(p):", "arguments", "The exercise gives softmax_backward(p, dp), but yours is "
                                              "softmax_backward(p): too many positional arguments."),
])
def test_other_parameters_are_compared_with_those_of_the_exercise(line, stage, words):
    key = answer_key(choose("01.2"))
    names, text = {"np": np}, key.exercise.text
    exec(text.replace("def softmax_backward(p, dp):", line), names)
    verdict = judge(key, run_in_this_process(names["softmax_backward"], key.exercise, key.cases, None))
    assert verdict.stage == stage and words in " ".join([render(verdict.note), *verdict.sentences]) and not verdict.mistakes


def judged_body(number, body):
    key = answer_key(choose(number))
    return judged(key, body)


def test_the_diagnosis_comes_first_and_at_most_ten_lines_follow():
    for number, body in (("02.1", "return 2 * dy @ weight.T, x.reshape(-1, x.shape[-1]).T @ dy[0], dy.sum(0)"),
                         ("09.2", "return 1.5 * np.asarray(x) / (1 + np.exp(-1.702 * x))")):
        lines = list(feedback(choose(number), judged_body(number, body), "", 80))
        assert len(lines) <= MOST_LINES and ("DIAGNOSIS" in lines[1]) == any("DIAGNOSIS" in line for line in lines)
        assert "No known mistake" not in "\n".join(lines) or "DIAGNOSIS" not in "\n".join(lines)


@pytest.mark.slow
def test_the_place_of_an_error_is_said_before_the_lines_that_may_be_cut():
    key, exercise = answer_key(choose("07.6")), choose("07.6")
    verdict = judge(key, play(key, exercise.edited({"self.saved.pop()": "self.saved.pop(0)"})))
    place = Message(DIAGNOSIS, said=Message("places.value.result", line=7))
    lines = (*(line for line in verdict.lines if line.kind != DIAGNOSIS), *[plain_line("word " * 40)] * 5, place)
    told = list(feedback(exercise, dataclasses.replace(verdict, stage="error", mistakes=(), lines=lines)))
    assert any("What line 7 returns" in line for line in told) and len(told) <= MOST_LINES


def test_a_known_mistake_that_shows_in_some_cases_is_said_so():
    key = answer_key(choose("03.1"))
    verdict = judge(key, play(key, key.exercise.edited({"if pad_id is not None": "if pad_id"})))
    wrong = sum(not key.is_right(i, answer) for i, answer in enumerate(key.answers(play(
        key, key.exercise.edited({"if pad_id is not None": "if pad_id"})))))
    assert 0 < wrong < len(key.main_cases)
    assert f"which shows in {wrong} of {len(key.main_cases)} cases" in " ".join(verdict.sentences)


def test_two_numbers_are_shown_with_the_digits_that_differ():
    assert show_entries(0.7871731234, 0.7871734321, "f") == ("0.7871731", "0.7871734")
    assert show_entries(1.5, 2.5, "f") == ("1.5", "2.5") and show_entries(1.0, 0.0, "b") == ("True", "False")


def test_values_that_are_right_and_have_the_wrong_type_are_said_to_be_right():
    verdict = judged_body("06.1", "return np.tril(np.ones((T, T)))")
    assert verdict.stage == "type" and diagnoses(verdict) == [
        "All values of mask are correct; only their type is not. It must be bool."]
    assert diagnoses(judged_body("06.1", "return np.ones((T, T))")) != diagnoses(verdict)


def test_a_remedy_is_told_when_the_same_mistake_is_found_again(tmp_path):
    exercise = choose("02.2")
    mistake = next(mistake for mistake in exercise.mistakes if all(mistake.parts) and mistake.name == "LIN-7a")
    start_workbook(tmp_path, [exercise])
    book = Workbook(tmp_path)
    book.path(exercise).write_text(exercise.edited(mistake.edits), encoding="utf-8")
    first, second = ("\n".join(book.check(exercise)[0].sentences) for _ in range(2))
    what, remedy = mistake.parts
    assert what in first and remedy not in first and f"{what}\n{remedy}" in second


def test_many_reasons_that_explain_the_same_answer_are_not_listed():
    a, b, c = (SimpleNamespace(explanation=letter) for letter in "abc")
    assert without_equal_alternatives([(a,), (b,)]) == [(a,), (b,)]
    assert without_equal_alternatives([(a,), (b,), (c,)]) == []
    assert without_equal_alternatives([(a, b), (a, c)]) == [(a,)]
    assert without_equal_alternatives([(a,), (SimpleNamespace(explanation="a"),)])[0] == (a,)
