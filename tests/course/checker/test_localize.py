"""Where a mistake without a name is: one edit that makes all cases right, or the first value of no correct solution."""

import contextlib
import re
import textwrap

import pytest
from helpers import ROOT
from helpers.wrong_answers import wrong_answers

from numpy_transformer.course.checker.diagnosis import AnswerKey
from numpy_transformer.course.checker.feedback import feedback
from numpy_transformer.course.checker.localize import WrongAnswer, localize, other_indices
from numpy_transformer.course.checker.put_right import first_wrong_value
from numpy_transformer.course.checker.verdict import Verdict, is_unexplained, judge
from numpy_transformer.course.exercises import choose, exercises
from numpy_transformer.course.sandbox import ProgramTask, layers, run_files, run_task
from numpy_transformer.course.sandbox.inside.worker import NODES, TRIED, VALUES
from numpy_transformer.course.workbook import Workbook, start_workbook
from numpy_transformer.texts import render

ENOUGH = 60                                     # seconds, more than the edits of any of these answers take
ANSWERS = {f"{number} {words}": (number, source, marked) for number, words, source, marked in wrong_answers()}


class Tried:
    """A file that was run as `exercise check` runs it, and the tasks that followed."""

    def __init__(self, number, source):
        self.exercise, self.source, self.tasks = choose(number), source.encode(), []
        self.key = AnswerKey(self.exercise, 3)
        self.run = run_task(self.source, ProgramTask(self.exercise, self.key.cases, self.exercise.file))
        self.verdict = judge(self.key, self.run)

    def execute(self, task):
        self.tasks.append(task)
        return run_task(self.source, task)

    def localized(self):
        return localize(self.key, self.verdict, self.run, self.exercise.file, self.execute, ENOUGH)

    def sentences(self, way=None, seconds=ENOUGH):
        """The sentences about the line; `way` is a function of WrongAnswer, used whatever the catalog says."""
        if way is None:
            return render(self.localized().lines[len(self.verdict.lines):])
        wrong = WrongAnswer(self.key, self.key.answers(self.run), self.exercise.file, self.execute, seconds)
        return render(way(wrong))


def lines_in(text):
    return {int(number) for number in re.findall(r"[Ll]ine (\d+)", text)}


def submission(number, code):
    return choose(number).header + textwrap.dedent(code)


def line_of(source, part):
    return next(i for i, line in enumerate(source.splitlines(), 1) if part in line)


def test_one_edit_is_located_and_not_told(tmp_path):
    """As in the example of lessons/EXERCISES.md."""
    page = (ROOT / "lessons/EXERCISES.md").read_text(encoding="utf-8")
    lines = re.search(r"these three lines:\n\n```python\n(.*?)```\n\n```text\n(.*?)```", page, re.S)
    exercise = choose("01.2")
    start_workbook(tmp_path, [exercise])
    book = Workbook(tmp_path)
    path = book.path(exercise)
    source = path.read_text(encoding="utf-8").partition("    # TODO")[0] + lines[1]
    path.write_text(source, encoding="utf-8")
    text = "\n".join(feedback(exercise, book.check(exercise)[0], "", 80))
    assert lines_in(text) == {line_of(source, "total =")}
    assert "`p * weighted`" in text and text == lines[2].rstrip()


@pytest.mark.slow
def test_the_first_wrong_value_is_located_where_no_edit_helps():
    number, source, marked = ANSWERS["05.2 the first key of every query"]
    text = Tried(number, source).sentences()
    assert lines_in(text) == marked and "The value of `dp` occurs in a correct solution too" in text


@pytest.mark.slow
@pytest.mark.parametrize("name", ANSWERS)
def test_no_answer_is_located_at_a_wrong_line(name):
    """Even where the catalog has a name. Only some of the answers can be located at all.

    A value that makes the rest of the code right may come after the mistake, but not before it.
    """
    number, source, marked = ANSWERS[name]
    tried = Tried(number, source)
    assert marked and tried.verdict.status in ("fail", "error")
    assert lines_in(tried.sentences(WrongAnswer.one_edit)) <= marked
    assert all(min(marked) <= line for line in lines_in(tried.sentences(first_wrong_value, 0)))


@pytest.mark.slow
@pytest.mark.parametrize("number", [number for number, exercise in exercises().items() if exercise.alternatives])
def test_a_right_answer_has_no_suspicious_value(number):
    """Were it judged wrong for another reason, no line of it would be accused."""
    exercise = choose(number)
    key = AnswerKey(exercise, 3)
    if not is_unexplained(key, Verdict("fail", "values")):
        pytest.skip("not a program, or judged in a way of its own")
    for edits in ({}, *exercise.alternatives.values()):
        tried = Tried(number, exercise.edited(edits))
        assert tried.verdict.status == "pass" and tried.localized() is tried.verdict and not tried.tasks
        attempt = WrongAnswer(key, key.answers(tried.run), exercise.file, tried.execute, seconds=0)
        values, comparisons, _ = attempt.traced
        everything = set(range(len(values.nodes)))
        assert not comparisons or any(not comparison.first_wrong(everything) for comparison in comparisons)


@pytest.mark.slow
def test_edits_that_leave_a_wrong_type_explain_nothing():
    """The values are right from the beginning, so every edit without effect would seem to help."""
    tried = Tried("15.1", submission("15.1", """
        def teacher_forcing(target):
            a = target[:, 0:-1].copy()
            b = target[:, 1:].copy()
            weights = np.zeros(b.shape)
            weights[b != 0] = 1.0
            return a, b, weights
        """))
    assert tried.verdict.stage == "type" and tried.sentences() == ""
    tried = Tried("02.1", submission("02.1", "def linear_backward(x, weight, dy):\n    dx = dy @ weight.T\n"))
    assert tried.verdict.stage == "type" and tried.sentences() == ""


@pytest.mark.slow
def test_named_and_hidden_answers_are_not_run_again():
    wrong = Verdict("fail", "values")
    key = AnswerKey(choose("01.2"), 0)
    assert is_unexplained(key, wrong)
    for verdict in (Verdict("fail", "values", mistakes=("SMB-1",)), Verdict("fail", "repeated", right=True),
                    Verdict("pass"), Verdict("error", "import"), Verdict("timeout", "time")):
        assert not is_unexplained(key, verdict)
    for number in ("01.6", "05.3", "08.4"):
        assert not is_unexplained(AnswerKey(choose(number), 0), wrong)


ENDLESS = """
    def softmax_backward(p, dp):
        huge = np.zeros(p.shape[-1] * 10 ** 5)[0]
        total = np.zeros_like(p[..., :1])
        i = 0
        while i < p.shape[-1]:
            total = total + p[..., i:i + 1] * dp[..., i:i + 1]
            i += 1
        print("x" * 10_000)
        return p * (total - dp) + 0 * (huge > 9)
    """


@pytest.mark.slow
def test_edits_that_never_end_print_much_or_need_much_memory_do_no_harm():
    source = submission("01.2", ENDLESS)
    tried = Tried("01.2", source)
    assert lines_in(tried.sentences(WrongAnswer.one_edit)) == {line_of(source, "return")}


@pytest.mark.slow
def test_a_step_that_nothing_interrupts_costs_the_edits_after_it():
    """Twice the 5 makes a sum that takes minutes, and runs.py ends the process. What was sent before counts."""
    source = submission("01.2", """
        def softmax_backward(p, dp):
            total = -(p * dp).sum(-1, keepdims=True)
            odd = sum(range(10 ** 5)) % 2
            return p * (dp - total) + odd
        """)
    tried = Tried("01.2", source)
    wanted = {"seconds": ENOUGH, "case": 0}
    run = tried.execute(ProgramTask(tried.exercise, tried.key.main_cases, tried.exercise.file, wanted))
    assert run.ended and {NODES, VALUES, TRIED} <= {kind for kind, _, _ in run.records}
    assert lines_in(tried.sentences(WrongAnswer.one_edit)) == {line_of(source, "total =")}


@pytest.mark.slow
def test_a_program_cannot_answer_for_the_checker():
    """What the student's process sends is read strictly: forged records lead to no sentence and to no error."""
    source = submission("01.2", """
        def softmax_backward(p, dp):
            import os, struct, sys
            for kind in range(4, 8):
                for content in (b"[" * 50_000, b'{"nodes": [[1]], "roots": [[0, [9]]]}', b"\\x93NUMPY\\x01\\x00x"):
                    for descriptor in range(3, 9):
                        try:
                            os.write(descriptor, struct.pack("<BHHI", kind, 0, 0, len(content)) + content)
                        except OSError:
                            pass
            return p * dp * 1.7
        """)
    assert Tried("01.2", source).sentences() == ""


HELPER = """
    def attention_backward(q, k, v, p, m, dy):
        dv = (p * m).mT @ dy
        dp = (dy @ v.mT * m)[..., :-1]
        ds = softmax_backward(p, dp)
        return ds @ k, ds.mT @ q, dv
    """


@pytest.mark.slow
def test_indices_that_belong_to_another_array():
    """Read where something should be written: the positions count the tokens of dx, and dy has fewer."""
    source = submission("14.2", """
        def pick_backward(positions, dy, T):
            return dy[np.arange(len(positions))[:, None], positions]
        """)
    tried = Tried("14.2", source)
    index, size = re.search(r"index (\d+) .* size (\d+)", tried.run.results[0].report["error"]).groups()
    case = tried.key.cases[0]
    assert render(other_indices(tried.key, tried.run)) == (
        f"DIAGNOSIS Line {line_of(source, 'return')} uses the index {index} along axis 1 of an array with {size} "
        f"entries there. dx has {case.inputs[2]} along this axis: do these indices belong to dx?")
    outside = Tried("14.2", source.replace(", positions]", ", positions + T]"))
    assert other_indices(outside.key, outside.run) == []


@pytest.mark.slow
def test_an_expression_without_a_value_where_the_error_came_is_not_called_the_first_wrong_one():
    text = choose("02.2").edited({"rows.T @ drows": 'np.einsum("...i,...j->ji", x, dy)'})
    tried = Tried("02.2", text)
    assert "has more dimensions" in render(tried.verdict.note) and lines_in(tried.sentences(first_wrong_value)) == set()


def test_an_error_in_a_given_helper_names_the_students_line():
    source = submission("05.2", HELPER)
    report = Tried("05.2", source).run.results[0].report
    line = line_of(source, "ds = softmax_backward")
    assert report["helper"] == "softmax_backward" and (report["line"], report["code"]) == (
        str(line), "ds = softmax_backward(p, dp)")
    assert report["passed"] == "p (3, 5, 7), dp (3, 5, 6)"


@pytest.mark.slow
def test_what_a_student_reads_fits_the_terminal():
    source = submission("05.2", HELPER.replace("[..., :-1]", "* 2"))
    tried = Tried("05.2", source)
    text = list(feedback(tried.exercise, tried.localized(), "", 80))
    assert re.search(r"DIAGNOSIS .*[Ll]ine \d+", " ".join(text)) and max(map(len, text)) <= 80


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bubblewrap", "Landlock"])
def test_the_sandbox_runs_edits_too(name):
    layer = next(layer for layer in layers() if layer.name == name)
    if not layer.works:
        pytest.skip(layer.sentence)
    _, source, marked = ANSWERS["01.2 the sum is weighted twice"]
    exercise, tasks = choose("01.2"), []
    key = AnswerKey(exercise, 3)
    with contextlib.closing(run_files({exercise.file: source.encode()}, tasks, layer)) as runs:
        def execute(task):
            tasks.append(task)
            return next(runs)

        run = execute(ProgramTask(exercise, key.cases, exercise.file))
        verdict = Verdict("fail", "values")     # as it would be without a name
        found = localize(key, verdict, run, exercise.file, execute, seconds=2)
    assert lines_in(" ".join(found.sentences)) == marked


@pytest.mark.slow
def test_a_case_that_is_right_by_itself_tells_that_something_is_kept():
    kept = Tried("12.1", submission("12.1", '''
        def greedy_decode(model, bos, eos, max_len, out=[]):
            for _ in range(max_len):
                out.append(int(np.asarray(model([bos] + out))[-1].argmax()))
                if out[-1] == eos:
                    break
            return np.array(out)
        '''))
    assert re.search(r"DIAGNOSIS Case \d is right if it is the only one that is run", kept.sentences())
    wrong = Tried("12.1", submission("12.1", '''
        def greedy_decode(model, bos, eos, max_len):
            out = []
            while len(out) < max_len + (max_len == 6):
                out.append(int(np.asarray(model([bos] + out))[-1].argmax()))
                if out[-1] == eos:
                    break
            return np.array(out)
        '''))
    assert wrong.verdict.status == "fail" and "the only one" not in wrong.sentences()


@pytest.mark.slow
def test_without_the_line_that_raises_nothing_is_explained():
    """Two mistakes: the bias is missing, and the first saved input is used first. The line that raises is right."""
    source = choose("02.2").edited()
    assert source.count("self.saved.pop()") == 1 and source.count(" + self.bias.data") == 1
    source = source.replace("self.saved.pop()", "self.saved.pop(0)").replace(" + self.bias.data", "")
    tried = Tried("02.2", choose("02.2").header + source)
    assert tried.verdict.status == "error" and lines_in(tried.sentences()) == {
        line_of(tried.source.decode(), "pop(0)")}


TWO_MISTAKES = """
    def binary_cross_entropy_backward(logits, targets):
        hard = np.round(targets)
        p = 0.5 + 0.5 * np.tanh(0.5 * logits)
        return (hard - p) / logits.size
"""


@pytest.mark.slow
def test_an_edit_is_located_that_leaves_a_factor():
    source = submission("11.4", TWO_MISTAKES)
    text = Tried("11.4", source).sentences()
    assert lines_in(text) == {line_of(source, "hard =")}
    assert "with one change there, dlogits is the correct result times -1 in all cases" in text


@pytest.mark.slow
def test_a_factor_alone_needs_no_place():
    source = submission("11.4", TWO_MISTAKES.replace("np.round(targets)", "targets"))
    assert "with one change there" not in Tried("11.4", source).sentences()
