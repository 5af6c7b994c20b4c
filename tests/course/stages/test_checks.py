"""A stage is checked by its values, its gradients and the whole model; bad files get one sentence; no stage pays for another."""

import re
from dataclasses import replace

import numpy as np
import pytest
from helpers.stages import checked, edited, execute, reference_program, sentences

from numpy_transformer.course.sandbox import ProgramTask
from numpy_transformer.course.sandbox.protocol import read_edit, read_tried
from numpy_transformer.course.stages import bugs, check, whole
from numpy_transformer.course.stages.table import STAGES
from numpy_transformer.course.stages.told import result_lines

QUICK = (3,)
SKIP = [number for number in STAGES if number not in QUICK]


@pytest.mark.parametrize("number", [pytest.param(n, marks=[pytest.mark.slow] * (n in SKIP)) for n in STAGES])
def test_the_reference_program_passes_every_stage(number):
    result = checked(number)
    assert result.passed, sentences(result)
    assert set(result.right) == set(STAGES[number].write)
    assert bool(result.gradients) == (number in {*range(1, 9), 12})
    assert max(result.gradients.values(), default=0) < 1e-7
    assert len(result.curve.losses) == whole.STEPS and result.difference is None


def test_a_file_as_it_is_written_is_not_finished():
    result = checked(5, STAGES[5].skeleton)
    assert result.verdict.status == "todo" and result.right == ()


def test_a_half_finished_file_says_what_is_right():
    text = STAGES[1].skeleton.replace("    # TODO: write this\n    raise NotImplementedError",
                                      "    e = np.exp(z - z.max(-1, keepdims=True))\n    return e / e.sum(-1, keepdims=True)", 1)
    result = checked(1, text)
    assert result.verdict.status == "todo" and result.right == ("softmax",)


def test_a_forward_without_its_backward_is_not_named_again():
    start, _, rest = STAGES[3].skeleton.partition("def forward(self, x):")
    text = start + "def forward(self, x):" + rest.replace("raise NotImplementedError", "return x", 1)
    result = checked(3, text)
    assert result.verdict.status == "todo" and result.unwritten == ("LayerNorm.backward",)


@pytest.mark.parametrize("number, old, new, status, words", [
    (3, "import numpy as np", "import numpy as np\nfor", "error", ["stage03_normalization.py", "line 4"]),
    (3, "import numpy as np", "import numpy as np\nimport torch", "error", ["torch", "line 4"]),
    (3, "import numpy as np", "import numpy as np\nfrom helpers import rows", "error", ["no file helpers.py"]),
    (1, "def softmax(z):", "def softmax(z, axis):", "error", ["call softmax(z)", "softmax(z, axis)"]),
    (3, "class LayerNorm(", "class Norm(", "error", ["does not define LayerNorm", "Norm"]),
    pytest.param(3, "centered / std", "centered / std * np.nan", "fail", ["NaN"], marks=pytest.mark.slow),
    pytest.param(3, "(dy * x_hat).sum(rows)", "(dy * x_hat).sum()", "fail", ["gamma.grad"], marks=pytest.mark.slow),
])
def test_bad_files_get_a_sentence(number, old, new, status, words):
    result = checked(number, edited(number, (old, new)))
    assert result.verdict.status == status
    for word in words:
        assert word in sentences(result)


def test_a_missing_file_gets_a_sentence():
    result = check.check_stage(STAGES[3], {}, None)
    assert result.verdict.status == "missing" and "stage03_normalization.py" in sentences(result)


@pytest.mark.slow
def test_an_endless_loop_is_stopped_and_its_line_is_named():
    text = edited(3, ("        x_hat, std = self.recall()", "        while True:\n            pass"))
    loop = text.splitlines().index("        while True:") + 1
    result = checked(3, text, seconds=4)
    assert result.verdict.status == "timeout" and re.search(f"line ({loop}|{loop + 1})", sentences(result))


@pytest.mark.slow
def test_an_earlier_stage_is_named_where_it_is_the_cause():
    """The linear layer is wrong, but the stage that uses it is judged with the reference's."""
    wrong = edited(2, ("return dy @ self.weight.data.T", "return 2 * dy @ self.weight.data.T"))
    result = checked(4, own=[2], stage02_linear=wrong)
    assert not result.passed and result.verdict.note.kind.endswith("because_of")
    assert f"together with your stage 2. Look at {STAGES[2].file}." in sentences(result)
    assert checked(4, stage02_linear=wrong).passed          # without `own`, the file of the other stage is not used


@pytest.mark.slow
def test_a_stage_may_import_a_helper_from_an_earlier_one_that_has_not_passed():
    linear = edited(2, ("class Linear(", "def twice(x):\n    return 2 * x\n\n\nclass Linear("))
    text = edited(4, ("from stage02_linear import Linear", "from stage02_linear import Linear, twice"), ("3 * CUBIC", "1.5 * twice(CUBIC)"))
    result = checked(4, text, stage02_linear=linear)
    assert result.passed and [stage.number for stage in result.mine] == [2, 4]


@pytest.mark.slow
def test_helpers_and_another_module_file_are_the_students():
    helpers = "import numpy as np\n\n\ndef mean(x):\n    return x.mean(-1, keepdims=True)\n"
    text = edited(3, ("import numpy as np\n", "import numpy as np\n\nfrom helpers import mean\n"),
                  ("x - x.mean(-1, keepdims=True)", "x - mean(x)"))
    assert checked(3, text, helpers=helpers).passed
    wrong = checked(3, text, helpers=helpers.replace("import numpy as np", "import numpy as np\n\nassert False"))
    assert wrong.verdict.stage == "import"


@pytest.mark.slow
def test_a_helper_may_have_the_name_of_a_driver():
    """The checker runs a function `gelu` of its own after the file; the student's functions do not see it."""
    text = edited(4, ("class GELU(Module):", "def gelu(x, t):\n    return x * (1 + t) / 2\n\n\nclass GELU(Module):"),
                  ("        return x * (1 + t) / 2", "        return gelu(x, t)"))
    assert checked(4, text).passed


@pytest.mark.slow
def test_what_goes_wrong_only_in_training_is_found():
    text = edited(3, ("    def forward(self, x):\n        centered",
                      "    def forward(self, x):\n        self.calls = getattr(self, 'calls', 0) + 1\n        centered"),
                  ("return self.gamma.data * x_hat", "return (1 + 1e-6 * (self.calls > 40 and x.shape[-1] == 24)) * self.gamma.data * x_hat"))
    result = checked(3, text)
    assert result.verdict.stage == "training" and result.verdict.note.values["step"] == 41
    assert set(result.right) == {"LayerNorm.forward", "LayerNorm.backward"}


@pytest.mark.slow
@pytest.mark.parametrize("old, new", [
    ("    return losses\n", "    return losses[:-1]\n"), ("    return losses\n", "    return np.array([losses, losses])\n"),
    ("    return losses\n", "    return None\n"), ("loss(model(*inputs), targets))", "np.nan)"),
    ("loss(model(*inputs), targets))", "loss(model(*inputs), targets) + 1j)")])
def test_odd_curves_are_told_without_an_error(old, new):
    result = checked(9, edited(9, (old, new)))
    assert not result.passed and list(result_lines(result, {}))


ODD = ("None", "()", "'text'", "[[1], [2, 3]]", "object()", "1j", "np.array(['a'])", "np.array([None])", "float('inf')", "np.zeros((0,))",
       "[1] * 60000", "{}", "print", "(None, None)", "np.ma.masked", "np.arange(3).view('M8[D]')")


@pytest.mark.slow
@pytest.mark.parametrize("number", STAGES)
def test_odd_results_are_told_without_an_error(number):
    """One return of each stage's file gives each of three odd values, which differ from stage to stage."""
    text = STAGES[number].solution.replace('"""\n\n', '"""\n\nimport numpy as np\n\n', 1)
    returns = re.findall(r"^ +return (.+)$", text, re.M)
    for i in range(3):
        old, odd = returns[(number + i) % len(returns)], ODD[(3 * number + i) % len(ODD)]
        result = checked(number, text.replace(f"return {old}", f"return {odd}", 1))
        assert not result.passed and list(result_lines(result, {}))


@pytest.mark.slow
def test_remembered_arrays_that_are_changed_in_place_are_named():
    result = checked(3, edited(3, ("        return self.gamma.data * x_hat + self.beta.data",
                                   "        y = self.gamma.data * x_hat + self.beta.data\n        std += 1\n        return y")))
    assert "LayerNorm.backward does not get the arrays that LayerNorm.forward has remembered" in sentences(result)


@pytest.mark.slow
def test_a_value_computed_anew_in_backward_is_located():
    hidden = "        p = softmax(q @ k.mT / math.sqrt(q.shape[-1]))\n        dv"
    result = checked(5, edited(5, ("q, k, v, p = self.recall()\n        dv", f"q, k, v = self.recall()\n{hidden}"),
                               ("self.remember(q, k, v, p)", "self.remember(q, k, v)")))
    assert "in place of `softmax(q @ k.mT / math.sqrt(q.shape[-1]))`" in sentences(result)


@pytest.mark.slow
def test_of_the_arrays_of_a_checkpoint_those_that_are_wrong_are_told():
    result = checked(11, edited(11, ("arrays[f\"{name}.bias\"]\n\n\ndef byte",
                                     "arrays[f\"{name}.bias\".replace(\"ln_2\", \"ln_1\")]\n\n\ndef byte")))
    assert "Only logits and norm2 are wrong." in sentences(result)


@pytest.mark.slow
def test_edits_are_tried_first_where_the_wrong_gradients_come_from():
    text = edited(3, ("        g = self.gamma.data * dy", "        g = dy"))
    key = check.answer_keys(3, 0)[0]
    part = replace(key.exercise, wrong=("dx",))
    program = {name: code.encode() for name, code in (reference_program() | {part.file: text}).items()}
    task = ProgramTask(part, key.main_cases, part.file, {"seconds": 0.5, "case": 0})
    records = execute(program, task).records
    lines = [read_edit(records, number).line for number in sorted(read_tried(records))]
    backward = text.splitlines().index("    def backward(self, dy):") + 1
    assert min(lines[:20]) > backward


@pytest.mark.slow
def test_attributes_that_the_next_use_replaces_are_named_with_their_class():
    result = checked(4, edited(4, ("self.remember(x, t)", "self.values = x, t"), ("x, t = self.recall()", "x, t = self.values")))
    shown = " ".join(" ".join(result_lines(result, {})).split())
    assert "GELU keeps in attributes what backward needs" in shown and "FeedForward keeps" not in shown


@pytest.mark.slow
@pytest.mark.parametrize("number", STAGES)
def test_bugs_of_the_zoo_are_named(number):
    """What the package's component with a bug gives is refuted, and has the name of that bug and of no innocent one."""
    keys = check.answer_keys(number, 0)
    shown = bugs.shown_by(number, keys)
    for bug, (i, observed) in shown.items():
        names = {other.name for other in bugs.named(number, keys, i, observed)}
        assert bug.name in names
        assert all(np.isfinite(y).all() == np.isfinite(z).all() for one, other in zip(
            observed, bugs.observations(keys[i], bug)) for y, z in zip(one.outputs, other.outputs))
    assert number in (4, 11, 12) or shown


def test_a_bug_of_the_zoo_is_told_by_its_name():
    """The scale of the whole model in place of the head's: a bug of the zoo that no known mistake of the stage gives."""
    result = checked(10, edited(10, ("model.positions.data[start:start + T]", "model.positions.data[:T]")))
    assert result.verdict.mistakes == (("KV-1",),)


def test_losses_are_the_same_on_every_run():
    _, case, expected = whole.experiment(1)
    assert expected.losses[0] == pytest.approx(np.log(case.inputs[0]["embedding.weight"].shape[0]), rel=0.1)
    assert expected.losses[-1] < 0.75 * expected.losses[0]
