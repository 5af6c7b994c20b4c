"""Exercises that are solved become part of new stages: functions as they are, classes that call them."""

import pytest
from helpers.commands import run
from helpers.stages import checked

from numpy_transformer.course.exercises import exercises
from numpy_transformer.course.stages.table import STAGES
from numpy_transformer.course.stages.taken_over import TAKEOVERS, taken_from
from numpy_transformer.course.workbook import Workbook, start_workbook

NUMBERS = [number for takeovers in TAKEOVERS.values() for takeover in takeovers for number in takeover.numbers]


@pytest.fixture
def solved(tmp_path):
    """A folder with all these exercises, solved and passed."""
    folder = tmp_path / "my-exercises"
    start_workbook(folder, [exercises()[number] for number in NUMBERS])
    for number in NUMBERS:
        exercise = exercises()[number]
        (folder / exercise.file).write_text(exercise.header + exercise.text, encoding="utf-8")
        Workbook(folder).save_progress(exercise, status="pass")
    return folder


@pytest.mark.slow
def test_all_of_them_are_taken_over_and_right(solved):
    taken = taken_from(solved, 12)
    assert sorted(number for _, numbers in taken.values() for number in numbers) == sorted(NUMBERS)
    for number in (1, 3):
        assert checked(number, taken[STAGES[number]][0]).passed
    for number, right in ((2, {"Linear.forward", "Linear.backward"}), (4, {"GELU.forward", "GELU.backward"}),
                          (6, {"split_heads", "merge_heads"}), (9, {"AdamW.step", "clip_gradients", "learning_rate"})):
        result = checked(number, taken[STAGES[number]][0])
        assert result.verdict.status == "todo" and set(result.right) == right
    text, _ = taken[STAGES[5]]
    forward = ("        A = q @ k.mT / math.sqrt(q.shape[-1])\n        if mask is not None:\n            A = np.where(mask, A, -np.inf)\n"
               "        self.weights = p = softmax(A)\n        self.remember(q, k, v, p)\n        return p @ v")
    assert checked(5, text.replace("        # TODO: write this\n        raise NotImplementedError", forward)).passed


def test_only_what_has_passed_and_can_stand_in_a_stage(solved):
    book = Workbook(solved)
    book.save_progress(exercises()["01.4"], status="fail")
    (solved / exercises()["02.2"].file).write_text("class Linear:\n    def forward(self, x):\n        return self.own(x)\n")
    (solved / exercises()["06.1"].file).write_text("def causal_mask(T:\n")
    (solved / exercises()["07.1"].file).write_text("LIMIT = 3\n\n\ndef split_heads(x, num_heads):\n    return x[:LIMIT]\n")
    taken = taken_from(solved, 6)
    assert {stage.number: numbers for stage, (_, numbers) in taken.items()} == {
        1: ["01.1", "01.2"], 3: ["08.3"], 4: ["09.2", "09.3"], 5: ["05.2"], 6: ["07.2"]}


def test_other_names_of_arguments_and_imports_come_along(solved):
    (solved / exercises()["07.2"].file).write_text("import numpy as np\nfrom math import prod\n\n\ndef merge_heads(heads):\n"
                                                   "    h = heads.swapaxes(-3, -2)\n    return h.reshape(*h.shape[:-2], prod(h.shape[-2:]))\n")
    text, _ = taken_from(solved, 6)[STAGES[6]]
    assert "    heads = x\n" in text and "from math import prod\n" in text
    assert "merge_heads" in checked(6, text).right


def test_the_command_says_what_was_taken_and_keeps_what_is_there(solved, tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / STAGES[3].file).write_text("mine\n")
    _, out, _ = run(capsys, "build", "start", tmp_path / "mine", "--upto", 4, "--from", solved)
    assert "stage01_loss.py has your solutions of 01.1, 01.2, 01.3, 01.4" in out and "stage03" not in out
    assert (tmp_path / "mine" / STAGES[3].file).read_text() == "mine\n"
