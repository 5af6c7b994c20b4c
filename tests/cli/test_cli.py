"""The commands: their output, exit codes, and one clear line for bad input."""

import json
import os
import re
import subprocess
import sys
from unittest.mock import MagicMock

import numpy as np
import pytest
from helpers.commands import refused, run

from numpy_transformer.checks import samples
from numpy_transformer.cli import demo, main
from numpy_transformer.data import generated_pairs

STUDENT = '''
import numpy as np
import numpy_transformer as nt

class Good(nt.Module):
    def __init__(self, d_in, d_out=7):
        self.weight = nt.Parameter(np.zeros((d_in, d_out)))
    def forward(self, x):
        self.remember(x)
        return x @ self.weight.data
    def backward(self, dy):
        x = self.recall()
        self.weight.grad += np.tensordot(x, dy, [(0, 1), (0, 1)])
        return dy @ self.weight.data.T

class Wrong(Good):
    def backward(self, dy):
        return 2 * super().backward(dy)

class Crashes(Good):
    def backward(self, dy):
        return dy @ self.weigth.data.T

class Linear(Good):
    def __init__(self, d_in, d_out):
        super().__init__(d_in, d_out)

class Heads(nt.SelfAttention):
    def __init__(self, d_model, num_heads, dropout):
        super().__init__(d_model, num_heads, dropout=dropout)

class Two(nt.Module):
    def forward(self, a, b):
        self.remember(a, b)
        return a * b
    def backward(self, dy):
        a, b = self.recall()
        return dy * b, dy * a

class Table:
    def __init__(self, rows, width):
        self.weight = nt.Parameter(np.zeros((rows, width)))
    def forward(self, ids):
        self.ids = ids
        return self.weight.data[ids]
    def backward(self, dy):
        np.add.at(self.weight.grad, self.ids, dy)

class NoBackward:
    def forward(self, x):
        return x
'''


@pytest.fixture
def student(tmp_path):
    path = tmp_path / "student.py"
    path.write_text(STUDENT)
    return str(path)


def test_gradcheck_of_named_components_prints_every_tensor(capsys):
    code, out, err = run(capsys, "gradcheck", "layernorm", "ReLU")
    assert code == 0 and "3 of 3 components agree" in out
    assert all(word in out for word in ("LayerNorm, no bias", "gamma", "beta", "(3, 5, 12)"))
    assert "gradcheck: 3/3" in err and "\x1b" not in err


@pytest.mark.slow
def test_the_table_of_gradcheck_fits_the_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    _, out, _ = run(capsys, "gradcheck", "SequenceClassifier")
    assert max(map(len, out.splitlines())) <= 60
    assert "".join("SequenceClassifier, three classes, padding seen, pre-norm".split()) in "".join(
        line[:23] for line in out.splitlines()).replace(" ", "")


@pytest.mark.slow
def test_gradcheck_writes_json(capsys, tmp_path):
    path = tmp_path / "rows.json"
    code, _, _ = run(capsys, "gradcheck", "Linear", "CrossAttention", "--json", path)
    rows = json.loads(path.read_text())
    assert code == 0 and {row["component"] for row in rows} == {"Linear", "Linear, no bias", "CrossAttention"}
    for row in rows:
        assert row["ok"] is True and 0 <= row["central"] <= 1e-6 and 0 <= row["complex"] <= 1e-12
    assert {row["tensor"] for row in rows if row["zero"]} == {"key.bias"}
    code, out, _ = run(capsys, "gradcheck", "ReLU", "--json", "-")
    assert code == 0 and json.loads(out)[0]["tensor"] == "x"


def test_gradcheck_exits_1_when_something_disagrees(capsys, monkeypatch):
    monkeypatch.setattr("numpy_transformer.layers.RMSNorm.backward", lambda self, dy: dy * self.recall()[1])
    code, out, _ = run(capsys, "gradcheck", "RMSNorm", "SiLU")
    assert code == 1 and "1 of 2 components agree" in out and "WRONG" in out and "worst entry" in out


def test_a_component_that_complex_numbers_do_not_pass_is_wrong(capsys, monkeypatch):
    """A student's class is then judged by differences alone; the package must show both figures."""
    def forward(self, x):
        x_hat = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + self.eps)
        self.remember(x_hat, 1 / np.sqrt(x.var(-1, keepdims=True) + self.eps))
        return x_hat * self.gamma.data + (0 if self.beta is None else self.beta.data)

    monkeypatch.setattr("numpy_transformer.layers.LayerNorm.forward", forward)
    code, out, _ = run(capsys, "gradcheck", "LayerNorm")
    assert code == 1 and "0 of 2 components agree" in out and "contradicts the differences" in out


@pytest.mark.parametrize("name, options, code, words", [
    ("Good", ["--shape", "3,5,12"], 0, ["x ", "weight", "(12, 7)", "ok"]),
    pytest.param("Good", ["--shape", "3,5,12", "--args", "12,4"], 0, ["(12, 4)"], marks=pytest.mark.slow),
    ("Wrong", ["--shape", "3,5,12"], 1, ["WRONG", "worst entry"]),
    ("Linear", ["--shape", "3,5,12"], 0, ["built as Linear(12, 16)", "(12, 16)"]),
    pytest.param("Heads", ["--shape", "3,5,12"], 0, ["built as Heads(12, 2, 0.3)", "key.bias"], marks=pytest.mark.slow),
    ("Two", ["--shape", "3,5", "--shape", "3,5"], 0, ["a ", "b "]),
    ("Table", ["--ids", "11:3,5", "--args", "11,4"], 0, ["weight", "(11, 4)"]),
])
def test_gradcheck_of_a_students_class(capsys, student, name, options, code, words):
    got, out, _ = run(capsys, "gradcheck", f"{student}:{name}", *options)
    assert got == code and all(word in out for word in words)


@pytest.mark.parametrize("name, options, match", [
    ("Good", [], "needs inputs; give the shape of each"),
    ("Missing", ["--shape", "3,5"], "defines no class 'Missing'; it defines Good, Wrong"),
    ("NoBackward", ["--shape", "3,5"], "has no method backward"),
    ("Table", ["--shape", "3,5"], "arguments of Table are rows, width; give them with --args"),
    ("Two", ["--shape", "3,5"], "forward takes a, b, but 1 input(s) were given"),
    ("Good", ["--shape", "3,zero"], "--shape"), ("Good", ["--shape", "3,0"], "--shape"),
    ("Good", ["--ids", "5"], "--ids"),
    ("Good", ["--shape", "3,5", "--args", "oops("], "--args"),
    ("Crashes", ["--shape", "3,5,12"], "student.py, line 22, in backward: AttributeError"),
    ("Good", ["--shape", "3,5,12", "--args", "4"], "student.py, line 10, in forward: ValueError"),
])
def test_bad_input_about_a_students_class_is_one_line(capsys, student, name, options, match):
    assert match in refused(capsys, "gradcheck", f"{student}:{name}", *options)


@pytest.mark.parametrize("arguments, match", [
    (["gradcheck", "LayerNrom"], "no component 'LayerNrom'; choose among Linear, Embedding"),
    (["gradcheck", "no_such.py:Class", "--shape", "3"], "no file 'no_such.py'"),
    (["gradcheck", "Linear", "--shape", "3,5"], "only used for your own class"),
    (["gradcheck", "ReLU", "--json", "no/such/folder/x.json"], "cannot write 'no/such/folder/x.json'"),
    (["gradcheck", "ReLU", "--seed", "-1"], "--seed"),
    (["demo", "--text", "no-such-file.txt"], "cannot read 'no-such-file.txt'"),
    (["demo", "--lm-steps", "0"], "--lm-steps: '0' is not a whole number of at least 1"),
    (["demo", "--seed", "x"], "--seed"),
    (["lesson", "99"], "no lesson '99'; choose one of"),
    (["dance"], "invalid choice"),
])
def test_bad_input_is_one_line_and_exit_code_2(capsys, arguments, match):
    assert match in refused(capsys, *arguments)


def test_a_file_that_cannot_be_imported_is_named(capsys, tmp_path):
    (tmp_path / "broken.py").write_text("def (:\n")
    assert "broken.py cannot be imported: SyntaxError" in refused(
        capsys, "gradcheck", f"{tmp_path}/broken.py:A", "--shape", "3")


@pytest.mark.parametrize("content, match", [(b"\xff\xfe", "not UTF-8"), (b"", "is empty"), (b"short", "too short")])
def test_texts_the_demo_cannot_use_stop_it_before_it_trains(capsys, tmp_path, content, match):
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    assert match in refused(capsys, "demo", "--text", path, "--figures", tmp_path / "figures")


@pytest.mark.slow
def test_a_figures_folder_that_cannot_be_written_stops_the_demo_before_it_trains(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    assert "pictures cannot be written" in refused(capsys, "demo", "--figures", tmp_path / "file")


def test_a_relative_path_works_as_well(capsys, tmp_path, monkeypatch, student):
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "gradcheck", "student.py:Good", "--shape", "3,5,12")[0] == 0
    assert "student.py, line 22" in refused(capsys, "gradcheck", "student.py:Crashes", "--shape", "3,5,12")


@pytest.mark.parametrize("body, match", [
    ("raise SystemExit(0)", "SystemExit"), ("raise NotImplementedError('later')", "NotImplementedError: later"),
    ("return np.ones((10 ** 5, 10 ** 5, 10 ** 5))", "MemoryError"),
])
def test_whatever_a_students_class_raises_is_one_line(capsys, tmp_path, body, match):
    (tmp_path / "odd.py").write_text(f"import numpy as np\nclass Odd:\n    def forward(self, x):\n        {body}\n"
                                     "    def backward(self, dy):\n        return dy\n")
    line = refused(capsys, "gradcheck", f"{tmp_path}/odd.py:Odd", "--shape", "3,5")
    assert match in line and "odd.py, line 4, in forward" in line


def test_a_class_whose_parameters_are_not_found_is_told(capsys, tmp_path):
    (tmp_path / "plain.py").write_text("class Plain:\n    def __init__(self):\n        self.W = 2.0\n"
                                       "    def forward(self, x):\n        return self.W * x\n"
                                       "    def backward(self, dy):\n        return self.W * dy\n")
    code, out, _ = run(capsys, "gradcheck", f"{tmp_path}/plain.py:Plain", "--shape", "3,5")
    assert code == 0 and "no parameters found" in out


def test_a_json_file_is_replaced_only_by_rows(capsys, tmp_path):
    path = tmp_path / "keep.json"
    path.write_text("precious")
    refused(capsys, "gradcheck", "LayerNrom", "--json", path)
    assert path.read_text() == "precious"


def test_the_traceback_is_shown_on_request(capsys):
    with pytest.raises(ValueError):
        main(["lesson", "99", "--traceback"])


@pytest.mark.parametrize("right, code", [(True, 0), (False, 1)])
def test_the_demo_exits_1_when_a_gradient_is_wrong(capsys, tmp_path, monkeypatch, right, code):
    """Only its gradient checks are real here: nothing is trained or drawn."""
    monkeypatch.setattr(samples, "SAMPLES", samples.find_samples(["RMSNorm", "SiLU"]))
    if not right:
        monkeypatch.setattr("numpy_transformer.layers.RMSNorm.backward", lambda self, dy: dy * self.recall()[1])
    for task in ("LanguageModelTask", "SequenceToSequenceTask"):
        monkeypatch.setattr(demo, task, MagicMock())
    for part in ("sample", "describe_smoothing", "read_dates", "save_page"):
        monkeypatch.setattr(demo, part, lambda *_: None)
    monkeypatch.setattr(demo, "train", lambda *_: (None, []))
    monkeypatch.setattr(demo, "draw_pictures", lambda *_: ())
    found, out, err = run(capsys, "demo", "--figures", tmp_path / "figures")
    assert found == code, err
    assert f"{1 + right} of 2 components agree" in out


@pytest.mark.slow                               # .ci/run does the whole demo, too
def test_the_demo_in_small(capsys, tmp_path, monkeypatch):
    """All its parts, with few components, years, readings and steps; nothing in it is canned."""
    def save(figure, folder, name):             # test_views.py draws them: that takes long
        assert figure.axes
        (folder / f"{name}.png").touch()

    monkeypatch.setattr("numpy_transformer.views.save", save)
    monkeypatch.setattr(demo.read_dates, "__defaults__", (200,))
    monkeypatch.setattr(samples, "SAMPLES", samples.find_samples(["Linear", "LayerNorm"]))
    monkeypatch.setattr(generated_pairs, "YEARS", np.arange(1990, 2006))
    (tmp_path / "text.txt").write_text("the cat sat on the mat, and the dog lay by the door. " * 40)
    outputs = []
    for seed in (1, 2):
        code, out, _ = run(capsys, "demo", "--text", tmp_path / "text.txt", "--figures", tmp_path / f"figures{seed}",
                           "--lm-steps", 20, "--date-steps", 1, "--seed", seed)
        outputs.append(out)
        assert code == 0 and "exact match on" in out and "validation loss" in out
        monkeypatch.setattr("numpy_transformer.cli.demo.draw_pictures", lambda *_: ())       # once is enough: it takes long
    names = {path.name for path in (tmp_path / "figures1").iterdir()}
    pictures = ("positional_encoding_heatmap", "positional_encoding_waves", "masks", "attention_heads",
                "cross_attention", "learning_curves")
    assert names == {"explorer.html"} | {f"{name}.png" for name in pictures}
    losses = [[line for line in out.splitlines() if "validation loss" in line] for out in outputs]
    assert len(losses[0]) >= 5 and not set(losses[0]) & set(losses[1])


def test_lessons_are_found_beside_the_package_or_their_absence_is_said(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run(capsys, "lesson")
    assert code == 0 and re.search(r"^05  Attention, forward and backward +\d+ minutes$", out, re.M)
    assert out.startswith("\nPart 1") and out.count("\nPart ") == 5 and out.endswith("Start with: numpy-transformer lesson 00 --step\n")
    assert run(capsys, "lesson", "list")[1] == out
    (tmp_path / "lessons").mkdir()
    (tmp_path / "lessons" / "42_answer.py").write_text("# %% [markdown]\n# # 42 The answer\n# %%\nraise SystemExit(1)\n")
    assert re.findall(r"^(\d\S+) +(.*?)  ", run(capsys, "lesson")[1], re.M) == [("42", "The answer")]
    assert run(capsys, "lesson", "42")[0] == 1
    assert main(["lesson", "43"]) == 2
    output = capsys.readouterr()
    assert output.out == "" and "there is no lesson '43'; choose one of 42" in output.err
    (tmp_path / "lessons" / "00b_more.py").write_text("# %% [markdown]\n# # 00b More\n# %%\nraise SystemExit(3)\n")
    assert re.findall(r"^(\d\S+) +(.*?)  ", run(capsys, "lesson")[1], re.M) == [("00b", "More"), ("42", "The answer")]
    assert [run(capsys, "lesson", number)[0] for number in ("00b", "0B", "42")] == [3, 3, 1]
    (tmp_path / "lessons" / "00b_more.py").unlink()
    (tmp_path / "lessons" / "42_answer.py").unlink()
    (tmp_path / "lessons").rmdir()
    monkeypatch.setattr("numpy_transformer.course.lessons.files.CHECKOUT", tmp_path / "nowhere")
    monkeypatch.setattr("numpy_transformer.course.lessons.files.installed_lessons", lambda: None)
    assert "there are no lessons in lessons/ here" in refused(capsys, "lesson")


def start(*arguments):
    return subprocess.Popen([sys.executable, "-m", "numpy_transformer", *arguments], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})


@pytest.mark.slow
def test_it_runs_as_a_module_without_a_terminal():
    process = start("gradcheck", "ReLU")
    out, err = process.communicate()
    assert process.returncode == 0 and b"1 of 1 components agree" in out
    assert b"\r" not in err and b"gradcheck: 1/1" in err


@pytest.mark.slow
def test_a_closed_pipe_causes_no_traceback():
    process = start("gradcheck", "ReLU")
    process.stdout.close()
    errors = process.stderr.read()
    assert process.wait() == 141 and b"Traceback" not in errors and b"Exception" not in errors


def test_ctrl_c_is_a_line_and_exit_code_130(capsys, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("numpy_transformer.cli.gradcheck.gradcheck", interrupt)
    code, _, err = run(capsys, "gradcheck", "ReLU")
    assert code == 130 and "gradcheck: interrupted" in err


@pytest.mark.slow
def test_all_prints_every_tensor_and_another_seed_other_figures(capsys, monkeypatch):
    monkeypatch.setattr(samples, "SAMPLES", samples.find_samples(["Linear"]))
    short = run(capsys, "gradcheck")[1]
    full = run(capsys, "gradcheck", "--all")[1]
    other = run(capsys, "gradcheck", "--all", "--seed", "8")[1]
    assert "weight" not in short and full.count("weight") == 2
    assert full.count("\n") == other.count("\n") and full != other


@pytest.mark.parametrize("command", [["train", "lm"], ["exercise", "check"], ["gradcheck"], ["lesson"]])
def test_an_unknown_option_points_to_the_help_of_its_own_command(capsys, command):
    line = refused(capsys, *command, "--stepz", 3)
    name = " ".join(["numpy-transformer", *command])
    assert line.startswith(f"{name}: unrecognized arguments: --stepz") and line.endswith(f"see {name} --help")


def test_a_model_that_cannot_fit_into_memory_is_refused(capsys, tmp_path):
    line = refused(capsys, "train", "lm", "--d-model", 1_000_000, "--out", tmp_path / "run.npz")
    assert re.search(r"--d-model 1,000,000.* has at least .* parameters, which need [\d,.]+ GB .*; lower one of these", line)
    assert not (tmp_path / "run.npz").exists()


@pytest.mark.slow
def test_info_shows_only_the_settings_that_a_run_uses(capsys, tmp_path):
    run(capsys, "train", "lm", "--steps", 1, "--out", tmp_path / "run.npz", "--d-model", 8, "--num-heads", 2,
        "--num-layers", 1, "--d-ff", 8, "--context", 8)
    code, out, _ = run(capsys, "info", tmp_path / "run.npz")
    assert code == 0 and re.search(r"^tokenizer of the text: char, \d+ tokens$", out, re.M)
    assert not re.search(r"^  vocab_size ", out, re.M)
    assert re.search(r"^  not used: vocab_size, window, num_experts, experts_per_token, lora, lora_alpha, lora_targets, freeze, factor, watch$", out, re.M)
